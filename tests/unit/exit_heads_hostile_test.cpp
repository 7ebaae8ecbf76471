// Heads files that lie, stop short or are something else: one Error that names the file, what was
// expected and what was found; under ASan, no byte outside the file is read.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "expect_error.h"
#include "model/exit_heads.h"
#include "temp_dir.h"
#include "tiny_heads.h"

namespace specbound::test::exit_heads_hostile_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

HeadsBase small_base() {
  return {"llama", 3, 32, 48, "0123456789abcdef"};
}

// A well-formed file, taken apart.
const HeadsFile& good_file() {
  static const HeadsFile file = [] {
    const TempDir dir;
    const std::string path = dir / "good.gguf";
    write_exit_heads(path, random_heads(small_base()));
    return HeadsFile(Gguf::open(path));
  }();
  return file;
}

using Parts = std::initializer_list<std::string_view>;

void refuse_bytes(const std::vector<std::byte>& bytes, Parts parts) {
  const HeadsBase base = small_base();
  for (const HeadsBase* model : {&base, static_cast<const HeadsBase*>(nullptr)}) {
    const std::string text = expect_error(
        ErrorCode::kFormat, [&] { ExitHeads::from_gguf(Gguf::parse(bytes, "bad.gguf"), model); });
    check_mentions(text, {"bad.gguf: ", "expected ", "found "});
    check_mentions(text, parts);
  }
}

// The good file with one thing wrong.
template <typename Change>
void refuse(Change&& change, Parts parts) {
  HeadsFile file = good_file();
  change(file);
  refuse_bytes(file.bytes(), parts);
}

// Opens and reads everything, or throws an Error in the common form. True if it opened.
bool survives(const std::vector<std::byte>& bytes) {
  try {
    const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "bad.gguf"));
    const HeadsBase& base = heads.base();
    const HeadDefaults& d = heads.defaults();
    unsigned sum = 0;  // of every byte: ASan looks on
    bool sound = !d.check_layers.empty() && d.shortlist >= 0 &&
                 static_cast<size_t>(d.shortlist) <= heads.shortlist().size() && d.tau >= 0 &&
                 d.tau <= 1 && d.alpha >= 0 && d.alpha <= 100 && d.w_max >= 1 && d.w_max <= 16 &&
                 d.d_max >= 1;
    for (const HeadWeights& head : heads.heads()) {
      sound &= head.layer >= 0 && head.layer < base.n_layers;
      sound &= std::isfinite(head.margin_scale) && std::isfinite(head.margin_offset);
      for (const Matrix* m : head.matrices()) {
        for (size_t i = 0; m->n_out > 0 && i < m->bytes(); ++i) {
          sum += std::to_integer<unsigned>(m->data[i]);
        }
      }
    }
    for (int32_t id : heads.shortlist()) sound &= id >= 0 && id < base.vocab_size;
    for (int layer : d.check_layers) sound &= heads.find(d.kind, layer) >= 0;
    if (!sound || sum == 0) FAIL_CHECK("opened, but makes no sense");
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool told = text.starts_with("bad.gguf: ") && text.find("expected ") != text.npos &&
                      text.find("found ") != text.npos && text.find('\n') == text.npos;
    if (!told) FAIL_CHECK("unclear message: ", text);
    return false;
  }
}

TEST_CASE("hostile heads: cut at every byte") {
  const std::vector<std::byte> whole = good_file().bytes();
  REQUIRE(survives(whole));
  // The very end is padding behind the last tensor.
  size_t opened = 0;
  for (size_t n = 0; n < whole.size(); ++n) {
    opened += survives({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)});
  }
  CHECK(opened < 32);
}

TEST_CASE("hostile heads: a bit of each byte flipped") {
  std::vector<std::byte> bytes = good_file().bytes();
  const Gguf gguf = Gguf::parse(bytes, "good.gguf");
  const size_t data = gguf.tensors().front().bytes.data() - bytes.data();
  size_t header_opened = 0, data_opened = 0, data_tried = 0;
  for (size_t i = 0; i < bytes.size(); i += i < data ? 1 : 7) {  // every seventh of the weights
    const std::byte mask = std::byte{1} << (i * 5 % 8);
    bytes[i] ^= mask;
    const bool opened = survives(bytes);
    bytes[i] ^= mask;
    header_opened += i < data && opened;
    data_opened += i >= data && opened;
    data_tried += i >= data;
  }
  CHECK(header_opened > 0);  // an alpha, a margin
  CHECK(header_opened < data / 4);
  CHECK(data_opened > data_tried * 9 / 10);  // any finite value will do
  CHECK(data_opened < data_tried);
}

TEST_CASE("hostile heads: not a file of heads") {
  refuse_bytes({}, {"expected 4 bytes, found 0"});
  refuse_bytes(tiny_model(), {"key 'general.architecture'",
                              "expected 'specbound-heads', a file of exit heads", "found 'llama'"});
  refuse([](HeadsFile& f) { f.texts["general.architecture"] = "specbound-heads\n"; },
         {"found 'specbound-heads\\x0a'"});
  refuse([](HeadsFile& f) { f.without = {"general.architecture"}; },
         {"'general.architecture'", "found no such key"});
  GgufWriter nothing;
  refuse_bytes(nothing.serialize(), {"'general.architecture'", "found no such key"});

  const TempDir dir;
  const std::vector<std::byte> bytes = tiny_model();
  const Gguf model = Gguf::parse(bytes, "tiny.gguf");
  const ModelConfig config = read_config(model);
  const auto refuse_path = [&](const std::string& path, ErrorCode code, std::string_view part) {
    check_mentions(expect_error(code, [&] { ExitHeads::open(path, model, config); }), {path, part});
  };
  refuse_path(dir / "absent", ErrorCode::kFile, "No such file");
  refuse_path(dir.path().string(), ErrorCode::kFile, "a directory");
  std::ofstream(dir / "empty").close();
  refuse_path(dir / "empty", ErrorCode::kFile, "empty");
  std::ofstream(dir / "text") << "hello";
  refuse_path(dir / "text", ErrorCode::kFormat, "not a GGUF file");
}

TEST_CASE("hostile heads: every key left out or of another type") {
  const HeadsFile good = good_file();
  std::vector<std::string> keys;
  const auto collect = [&](const auto& entries) {
    for (const auto& entry : entries) keys.push_back(entry.first);
  };
  collect(good.texts);
  collect(good.numbers);
  collect(good.reals);
  collect(good.integers);
  collect(good.real_arrays);
  collect(good.text_arrays);
  REQUIRE(keys.size() == 17);
  for (const std::string& key : keys) {
    INFO("key ", key);
    refuse([&](HeadsFile& f) { f.without = {key}; }, {"key '" + key + "'", "found no such key"});
    HeadsFile other = good;
    other.without = {key};
    const auto with = [&](auto map, auto value) {
      HeadsFile changed = other;
      changed.texts.erase(key);
      changed.numbers.erase(key);
      changed.reals.erase(key);
      changed.integers.erase(key);
      changed.real_arrays.erase(key);
      changed.text_arrays.erase(key);
      changed.without.clear();
      (changed.*map)[key] = value;
      refuse_bytes(changed.bytes(), {"key '" + key + "'"});
    };
    if (!good.texts.count(key)) with(&HeadsFile::texts, std::string("1"));
    if (!good.integers.count(key)) with(&HeadsFile::integers, std::vector<int32_t>{1});
    if (!good.real_arrays.count(key)) with(&HeadsFile::real_arrays, std::vector<float>{1});
  }
}

TEST_CASE("hostile heads: what it says of its model") {
  const HeadsBase base = small_base();
  for (const char* key : {"n_layers", "dim", "vocab_size"}) {
    const std::string name = std::string("specbound.base.") + key;
    for (const uint32_t lie : {0u, 1u << 24, 1u << 31, UINT32_MAX}) {
      refuse([&](HeadsFile& f) { f.numbers[name] = lie; },
             {"key '" + name + "'", "found " + std::to_string(lie)});
    }
    // Possible numbers, but not those of the tensors; some change nothing that can be seen.
    for (const uint32_t lie : {1u, 2u, 16u, 31u, 33u, 64u, 1000u, 4096u}) {
      HeadsFile file = good_file();
      file.numbers[name] = lie;
      const std::vector<std::byte> bytes = file.bytes();
      survives(bytes);
      const std::string text = expect_error(
          ErrorCode::kFormat, [&] { ExitHeads::from_gguf(Gguf::parse(bytes, "bad.gguf"), &base); });
      check_mentions(text, {"bad.gguf: made for another model", "found " + std::to_string(lie)});
    }
  }
  HeadsFile file = good_file();
  file.texts["specbound.base.fingerprint"] = std::string(1000, '\n');
  const std::vector<std::byte> bytes = file.bytes();
  const std::string text = expect_error(
      ErrorCode::kFormat, [&] { ExitHeads::from_gguf(Gguf::parse(bytes, "bad.gguf"), &base); });
  check_mentions(text, {"expected fingerprint 0123456789abcdef", "found \\x0a"});
}

TEST_CASE("hostile heads: which heads there are") {
  const char *kLayers = "specbound.head_layers", *kKinds = "specbound.head_kinds";
  const auto layers = [&](HeadsFile& f) -> std::vector<int32_t>& { return f.integers[kLayers]; };
  refuse([&](HeadsFile& f) { layers(f).clear(); }, {kLayers, "at least one head", "found none"});
  for (const int32_t layer : {-1, 0, 3, INT32_MIN, INT32_MAX}) {
    refuse([&](HeadsFile& f) { layers(f)[0] = layer; },
           {kLayers, "layers from 1 to 2 for full heads", "found " + std::to_string(layer)});
  }
  for (const int32_t layer : {-1, 3}) {
    refuse([&](HeadsFile& f) { layers(f)[4] = layer; },
           {kLayers, "layers from 0 to 2 for chained heads", "found " + std::to_string(layer)});
  }
  refuse([&](HeadsFile& f) { layers(f)[1] = 1; },
         {kLayers, "one head of a kind at a layer", "two full heads at layer 1"});
  refuse([&](HeadsFile& f) { layers(f).pop_back(); }, {kKinds, "6 entries, one a head", "found 7"});
  refuse([&](HeadsFile& f) { layers(f).assign(1 << 20, 1); }, {kLayers, "at most", "1048576"});
  refuse(
      [&](HeadsFile& f) {  // as many of everything
        const size_t n = 1 << 16;
        layers(f).assign(n, 1);
        f.text_arrays[kKinds].assign(n, "full");
        f.real_arrays["specbound.margin_scale"].assign(n, 1.0f);
        f.real_arrays["specbound.margin_offset"].assign(n, 1.0f);
      },
      {kLayers, "at most", "65536"});
  refuse([&](HeadsFile& f) { f.text_arrays[kKinds][3] = "lens"; },
         {kKinds, "full, folded, chained, layer, medusa, eagle, eagle3, hydra, mtp or kangaroo",
          "found 'lens'"});
  refuse([&](HeadsFile& f) { f.text_arrays[kKinds][3] = std::string(100, '\x1b'); },
         {kKinds, "found '\\x1b"});
  for (const char* key : {"specbound.margin_scale", "specbound.margin_offset"}) {
    for (const float value : {kNan, kInf, -kInf}) {
      refuse([&](HeadsFile& f) { f.real_arrays[key][2] = value; }, {key, "finite numbers"});
    }
    refuse([&](HeadsFile& f) { f.real_arrays[key].pop_back(); }, {key, "7 entries", "found 6"});
  }
}

TEST_CASE("hostile heads: tensors") {
  const HeadsFile good = good_file();
  REQUIRE(good.tensors.size() == 14);
  for (const TinyTensor& t : good.tensors) {
    INFO("tensor ", t.name);
    refuse([&](HeadsFile& f) { f.remove(t.name); }, {"tensor '" + t.name + "'"});
    refuse([&](HeadsFile& f) { f.tensor(t.name).name += "x"; }, {"tensor 'exit."});
    refuse(
        [&](HeadsFile& f) {
          TinyTensor& other = f.tensor(t.name);
          size_t n = 1;
          for (uint64_t size : t.shape) n *= size;
          other.type = DType::kI8;
          other.bytes.resize(n);
        },
        {"tensor '" + t.name + "'", "found I8"});
    if (t.shape.size() == 2) {
      refuse(
          [&](HeadsFile& f) {  // the same bytes, otherwise laid out
            TinyTensor& other = f.tensor(t.name);
            other.shape = {t.shape[0] * 2, t.shape[1] / 2};
          },
          {"tensor '" + t.name + "'", "expected shape ("});
      refuse(
          [&](HeadsFile& f) {
            TinyTensor& other = f.tensor(t.name);
            other.shape = {t.shape[0], t.shape[1] / 2, 2};
          },
          {"tensor '" + t.name + "'", "expected shape ("});
      refuse(
          [&](HeadsFile& f) {  // one row less
            TinyTensor& other = f.tensor(t.name);
            --other.shape[1];
            other.bytes.resize(t.bytes.size() / t.shape[1] * other.shape[1]);
          },
          {"tensor '" + t.name + "'", "expected shape ("});
    }
  }
  refuse(
      [](HeadsFile& f) {
        TinyTensor& t = f.tensor("exit.1.folded.weight");
        t.type = DType::kF32;
        t.bytes.resize(32 * 32 * 4);
      },
      {"'exit.1.folded.weight'", "expected Q8_0", "found F32"});
  refuse(
      [](HeadsFile& f) {
        TinyTensor& t = f.tensor("exit.1.full.weight");
        t.type = DType::kQ8_0;
        t.bytes.resize(32 * 34);
      },
      {"'exit.1.full.weight'", "expected F16 or F32", "found Q8_0"});
  refuse(
      [](HeadsFile& f) {
        f.tensors.push_back({"blk.0.x", DType::kI8, {1}, {std::byte{1}}});
      },
      {"'blk.0.x'", "only tensors of the heads it names", "found this one"});
}

TEST_CASE("hostile heads: values that are none") {
  const auto set_half = [](TinyTensor& t, size_t at, uint16_t bits) {
    std::memcpy(t.bytes.data() + at, &bits, sizeof(bits));
  };
  for (const uint16_t bits : {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff}) {
    for (const char* name : {"exit.2.folded.weight", "exit.0.chained.map.weight",
                             "exit.1.chained.inner.weight", "exit.2.chained.outer.weight"}) {
      refuse(
          [&](HeadsFile& f) {
            TinyTensor& t = f.tensor(name);
            set_half(t, t.bytes.size() - sizeof(BlockQ8_0), bits);
          },
          {name, "finite values", "a value that is none in row 31"});
    }
    refuse([&](HeadsFile& f) { set_half(f.tensor("exit.2.full.weight"), 32 * 2 * 5 + 2, bits); },
           {"exit.2.full.weight", "finite values", "in row 5"});
  }
  for (const float value : {kNan, kInf, -kInf}) {
    refuse(
        [&](HeadsFile& f) {
          TinyTensor& t = f.tensor("exit.2.full.weight");
          t.type = DType::kF32;
          t.bytes.assign(32 * 32 * 4, std::byte{0});
          std::memcpy(t.bytes.data() + 4, &value, sizeof(value));
        },
        {"exit.2.full.weight", "finite values", "in row 0"});
  }
  // The largest halves are still numbers.
  HeadsFile file = good_file();
  set_half(file.tensor("exit.2.full.weight"), 0, 0x7bff);
  set_half(file.tensor("exit.2.folded.weight"), 0, 0xfbff);
  CHECK(survives(file.bytes()));
}

TEST_CASE("hostile heads: shortlist") {
  const char* kName = "exit.shortlist";
  const auto set_id = [&](HeadsFile& f, size_t i, int32_t id) {
    std::memcpy(f.tensor(kName).bytes.data() + i * sizeof(id), &id, sizeof(id));
  };
  for (const int32_t id : {-1, 48, INT32_MIN, INT32_MAX}) {
    refuse([&](HeadsFile& f) { set_id(f, 31, id); },
           {kName, "token ids from 0 to 47", "found " + std::to_string(id) + " at 31"});
  }
  refuse([&](HeadsFile& f) { set_id(f, 31, 47); },  // 47 is the first
         {kName, "each token once", "found 47 again at 31"});
  refuse([&](HeadsFile& f) { f.remove(kName); },
         {kName, "the tokens of folded heads", "found no such tensor"});
  refuse(
      [&](HeadsFile& f) {
        TinyTensor& t = f.tensor(kName);
        t.shape = {49};
        t.bytes.resize(49 * 4);
      },
      {kName, "expected shape (up to 48)", "found (49)"});
  refuse([&](HeadsFile& f) { f.tensor(kName).type = DType::kF32; }, {kName, "expected I32"});
  refuse(
      [&](HeadsFile& f) {
        f.tensor(kName).shape = {16, 2};
      },
      {kName, "expected shape (up to 48)", "found (16, 2)"});
}

TEST_CASE("hostile heads: settings") {
  refuse([](HeadsFile& f) { f.texts["specbound.kind"] = "best"; },
         {"'specbound.kind'",
          "full, folded, chained, layer, medusa, eagle, eagle3, hydra, mtp or kangaroo",
          "found 'best'"});
  const char* kChecks = "specbound.check_layers";
  for (const int32_t layer : {0, 3, -1, INT32_MAX}) {
    refuse([&](HeadsFile& f) { f.integers[kChecks] = {layer}; },
           {kChecks, "layers with a folded head", "found " + std::to_string(layer)});
  }
  refuse(
      [&](HeadsFile& f) {
        f.integers[kChecks] = {2, 1};
      },
      {kChecks, "ascending layers", "found 1 after 2"});
  refuse([&](HeadsFile& f) { f.integers[kChecks].assign(1 << 20, 1); },
         {kChecks, "ascending layers", "found 1 after 1"});
  const auto number = [&](const char* key, uint32_t value, std::string_view expected) {
    refuse([&](HeadsFile& f) { f.numbers[key] = value; },
           {key, expected, "found " + std::to_string(value)});
  };
  number("specbound.shortlist_size", 33, "expected 0 to 32");
  number("specbound.shortlist_size", 17, "expected a multiple of 16, or all 32 tokens");
  number("specbound.shortlist_size", UINT32_MAX, "expected 0 to 32");
  number("specbound.d_max", 0, "expected 1 to 2147483647");
  number("specbound.d_max", 1u << 31, "expected 1 to 2147483647");
  number("specbound.w_max", 0, "expected 1 to 16");
  number("specbound.w_max", 17, "expected 1 to 16");
  for (const float value : {-0.1f, 101.0f, kNan, kInf}) {
    refuse([&](HeadsFile& f) { f.reals["specbound.alpha"] = value; },
           {"'specbound.alpha'", "expected 0 to 100"});
  }
  for (const float value : {-0.1f, 1.1f, kNan, -kInf}) {
    refuse([&](HeadsFile& f) { f.reals["specbound.tau"] = value; },
           {"'specbound.tau'", "expected 0 to 1"});
  }
  refuse(
      [](HeadsFile& f) {  // no head is left of the kind that the settings name
        f.texts["specbound.kind"] = "folded";
        f.text_arrays["specbound.head_kinds"] = {"full"};
        f.integers["specbound.head_layers"] = {1};
        f.real_arrays["specbound.margin_scale"] = f.real_arrays["specbound.margin_offset"] = {1};
        std::erase_if(f.tensors, [](const TinyTensor& t) {
          return t.name != "exit.1.full.weight" && t.name != "exit.shortlist";
        });
      },
      {"'specbound.kind'", "a kind of which there are heads", "found folded"});
}

// A published head, or a draft layer, in the good base.
HeadsFile file_of(NewHead head) {
  NewHeads heads;
  heads.base = small_base();
  if (!is_published(head.kind)) {
    for (int i = 0; i < 16; ++i) heads.shortlist.push_back(i);
  }
  heads.defaults.kind = head.kind;
  heads.heads.push_back(std::move(head));
  const std::vector<std::byte> bytes = exit_heads_file("good.gguf", heads);
  return HeadsFile(Gguf::parse(bytes, "good.gguf"));
}

HeadsBase wide_base() {
  HeadsBase base = small_base();
  base.q_dim = base.kv_dim = base.dim;
  return base;
}

TEST_CASE("hostile heads: published heads") {
  const HeadsFile medusa = file_of(random_medusa(small_base(), 2, 1, 1));
  const HeadsFile eagle = file_of(random_eagle(wide_base(), 32, true, 2));
  REQUIRE(survives(medusa.bytes()));
  REQUIRE(survives(eagle.bytes()));
  const HeadsFile eagle3 = file_of(random_eagle3(wide_base(), 32, 4));
  REQUIRE(survives(eagle3.bytes()));
  const HeadsFile hydra = file_of(random_hydra(small_base(), 2, 2, 5));
  REQUIRE(survives(hydra.bytes()));
  const HeadsFile mtp = file_of(random_mtp(wide_base(), 32, true, 6));
  REQUIRE(survives(mtp.bytes()));
  const auto refuse_change = [](HeadsFile file, auto&& change, Parts parts) {
    change(file);
    refuse_bytes(file.bytes(), parts);
  };
  for (const char* key : {kMedusaHeadsKey, kMedusaBlocksKey}) {
    refuse_change(medusa, [&](HeadsFile& f) { f.without = {key}; }, {key, "found no such key"});
    refuse_change(medusa,
                  [&](HeadsFile& f) {
                    f.numbers.erase(key);
                    f.texts[key] = "2";
                  },
                  {key});
  }
  const auto number = [&](const char* key, uint32_t value, Parts parts) {
    refuse_change(
        medusa, [&](HeadsFile& f) { f.numbers[key] = value; }, parts);
  };
  for (const uint32_t n : {0u, 16u, UINT32_MAX}) {
    number(kMedusaHeadsKey, n, {kMedusaHeadsKey, "expected 1 to 15", "found "});
  }
  number(kMedusaHeadsKey, 1, {"exit.0.medusa.2.", "only tensors of the heads"});
  number(kMedusaHeadsKey, 3, {"exit.0.medusa.3.0.weight", "found none"});
  number(kMedusaBlocksKey, 9, {kMedusaBlocksKey, "expected 0 to 8", "found 9"});
  number(kMedusaBlocksKey, 0, {"exit.0.medusa.1.0.", "only tensors of the heads"});
  number(kMedusaBlocksKey, 2, {"exit.0.medusa.1.1.weight", "found none"});
  for (const HeadsFile* file : {&medusa, &eagle, &eagle3, &hydra, &mtp}) {
    refuse_change(*file, [](HeadsFile& f) { f.integers["specbound.head_layers"] = {1}; },
                  {"specbound.head_layers", "layers from 0 to 0", "found 1"});
    refuse_change(*file,
                  [](HeadsFile& f) {
                    f.integers["specbound.head_layers"] = {0, 0};
                    std::vector<std::string>& kinds = f.text_arrays["specbound.head_kinds"];
                    kinds.assign(2, std::string(kinds[0]));
                    for (const char* key : {"specbound.margin_scale", "specbound.margin_offset"}) {
                      f.real_arrays[key].assign(2, 1.0f);
                    }
                  },
                  {"one head of a kind at a layer", "at layer 0"});
  }
  const auto bias = [&](const HeadsFile& file, const char* name) {
    refuse_change(file,
                  [&](HeadsFile& f) {
                    f.tensor(name).shape = {31};
                    f.tensor(name).bytes.resize(31 * sizeof(float));
                  },
                  {name, "expected shape (", "31"});
    refuse_change(
        file, [&](HeadsFile& f) { std::memcpy(f.tensor(name).bytes.data(), &kNan, sizeof(kNan)); },
        {name, "finite values"});
  };
  bias(medusa, "exit.0.medusa.2.0.bias");
  for (const char* name : {"map", "q", "k", "v"}) {
    bias(eagle, format("exit.0.eagle.%s.bias", name).c_str());
  }
  const auto of_hydra = [&](const char* key, uint32_t value, Parts parts) {
    refuse_change(
        hydra, [&](HeadsFile& f) { f.numbers[key] = value; }, parts);
  };
  of_hydra(kHydraHeadsKey, 16, {kHydraHeadsKey, "expected 1 to 15", "found 16"});
  of_hydra(kHydraHeadsKey, 3, {"exit.0.hydra.3.0.weight", "found none"});
  of_hydra(kHydraBlocksKey, 0, {kHydraBlocksKey, "expected 1 to 8", "found 0"});
  of_hydra(kHydraBlocksKey, 3, {"exit.0.hydra.1.2.weight", "found none"});
  of_hydra(kHydraBlocksKey, 1, {"exit.0.hydra.1.1.", "only tensors of the heads"});
  for (const char* name : {"1.0.residual.weight", "2.0.residual.bias", "1.lm_head.bias"}) {
    const std::string tensor = format("exit.0.hydra.%s", name);
    refuse_change(hydra, [&](HeadsFile& f) { f.remove(tensor); }, {tensor, "found none"});
  }
  bias(hydra, "exit.0.hydra.2.0.residual.bias");
  bias(hydra, "exit.0.hydra.1.lm_head.bias");
  const auto taken = [&](std::vector<int32_t> layers, const char* found) {
    refuse_change(eagle3, [&](HeadsFile& f) { f.integers[kEagle3LayersKey] = layers; },
                  {kEagle3LayersKey, "3 ascending layers from 1 to", found});
  };
  taken({1, 2}, "found 2");
  taken({0, 1, 2}, "found 0 at 0");
  taken({1, 1, 2}, "found 1 at 1");
  taken({1, 2, 4097}, "found 4097 at 2");
  taken({-1, INT32_MIN, 2}, "found -1 at 0");
  refuse_change(eagle3, [](HeadsFile& f) { f.without = {kEagle3LayersKey}; },
                {kEagle3LayersKey, "no such key"});
  for (const float theta : {0.0f, -1.0f, kNan, kInf}) {
    refuse_change(eagle3, [&](HeadsFile& f) { f.reals[kEagle3ThetaKey] = theta; },
                  {kEagle3ThetaKey, "expected 1 to 1e+12"});
  }
  const auto token = [&](int32_t id, const char* found) {
    refuse_change(eagle3,
                  [&](HeadsFile& f) {
                    std::memcpy(f.tensor("exit.0.eagle3.tokens").bytes.data(), &id, sizeof(id));
                  },
                  {"exit.0.eagle3.tokens", found});
  };
  token(-1, "found -1 at 0");
  token(small_base().vocab_size, "at 0");
  token(3, "3 again at 1");
  refuse_change(eagle3, [](HeadsFile& f) { f.remove("exit.0.eagle3.tokens"); },
                {"exit.0.eagle3.lm_head.weight", "expected shape ("});
  refuse_change(eagle3, [](HeadsFile& f) { f.remove("exit.0.eagle3.state_norm.weight"); },
                {"exit.0.eagle3.state_norm.weight", "found none"});
  refuse_change(eagle3,
                [](HeadsFile& f) {
                  f.tensors.push_back(
                      {"exit.0.eagle3.q.bias", DType::kF32, {32}, std::vector<std::byte>(128)});
                },
                {"exit.0.eagle3.q.bias", "only tensors of the heads"});
  for (const char* name : {"embedding_norm", "state_norm", "ffn_norm"}) {
    bias(eagle3, format("exit.0.eagle3.%s.weight", name).c_str());
  }
  for (const char* name : {"embedding_norm", "state_norm", "attn_norm", "ffn_norm", "norm"}) {
    const std::string norm = format("exit.0.mtp.%s.weight", name);
    refuse_change(mtp, [&](HeadsFile& f) { f.remove(norm); }, {norm, "found none"});
    bias(mtp, norm.c_str());
  }
  for (const char* name : {"q", "k", "v"}) bias(mtp, format("exit.0.mtp.%s.bias", name).c_str());
  refuse_change(mtp,
                [](HeadsFile& f) {
                  f.tensors.push_back(
                      {"exit.0.mtp.map.bias", DType::kF32, {32}, std::vector<std::byte>(128)});
                },
                {"exit.0.mtp.map.bias", "only tensors of the heads"});
  const HeadsFile layer = file_of(random_layer(wide_base(), 32, 3));
  REQUIRE(survives(layer.bytes()));
  refuse_change(layer,
                [](HeadsFile& f) {
                  f.tensors.push_back(
                      {"exit.0.layer.q.bias", DType::kF32, {32}, std::vector<std::byte>(128)});
                },
                {"exit.0.layer.q.bias", "only tensors of the heads"});
}

TEST_CASE("hostile heads: what is left of a draft table is named") {
  for (const char* name : {"exit.table.keys", "exit.table.log_p"}) {
    refuse(
        [&](HeadsFile& f) {
          f.tensors.push_back({name, DType::kI32, {4}, std::vector<std::byte>(16)});
        },
        {std::string("found tensor '") + name + "' of a draft table"});
  }
  refuse([](HeadsFile& f) { f.numbers["specbound.table.max_context"] = 6; },
         {"found key 'specbound.table.max_context' of a draft table"});
  refuse([](HeadsFile& f) { f.reals["specbound.table_tau"] = 0.8f; },
         {"found key 'specbound.table_tau' of a draft table"});
  for (const char* kind : {"table", "hybrid"}) {
    refuse([&](HeadsFile& f) { f.texts["specbound.kind"] = kind; },
           {format("found key 'specbound.kind' = '%s' of a draft table", kind)});
  }
}

}  // namespace
}  // namespace specbound::test::exit_heads_hostile_test
