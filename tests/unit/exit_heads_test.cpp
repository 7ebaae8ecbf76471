// The file of exit heads: what is written is what is read, and which model it is for.
#include "model/exit_heads.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "expect_error.h"
#include "library/model_path.h"
#include "model/codec.h"
#include "numerics/half.h"
#include "temp_dir.h"
#include "tiny_heads.h"

namespace specbound::test::exit_heads_test {
namespace {

TinySpec small_spec() {
  TinySpec spec;
  spec.dim = 32;
  spec.ffn_dim = 32;
  spec.n_layers = 3;
  spec.vocab_size = 48;
  return spec;
}

struct Parsed {
  std::vector<std::byte> bytes;
  Gguf gguf;
  ModelConfig config;

  explicit Parsed(std::vector<std::byte> file)
      : bytes(std::move(file)), gguf(Gguf::parse(bytes, "tiny.gguf")), config(read_config(gguf)) {}
  explicit Parsed(const TinySpec& spec) : Parsed(tiny_model(spec)) {}
  HeadsBase base() const { return heads_base(gguf, config); }
};

bool same_bytes(const Matrix& m, const HeadTensor& tensor, DType type) {
  const std::vector<std::byte> bytes = encode_floats(tensor.values, type);
  return m.type == type && m.n_out == tensor.n_out && m.n_in == tensor.n_in &&
         m.bytes() == bytes.size() && std::memcmp(m.data, bytes.data(), bytes.size()) == 0;
}

TEST_CASE("exit heads: what is written is what is read") {
  const TempDir dir;
  const Parsed model(small_spec());
  NewHeads written = random_heads(model.base());
  written.heads.push_back(random_head(HeadKind::kChained, 2, 32, 32, 0, 99));  // without C and D
  std::erase_if(written.heads, [](const NewHead& h) {
    return h.kind == HeadKind::kChained && h.layer == 2 && h.inner.n_out > 0;
  });
  std::reverse(written.heads.begin(), written.heads.end());
  HeadDefaults& d = written.defaults;
  d.kind = HeadKind::kChained;
  d.check_layers = {0, 2};
  d.alpha = 0.4f;
  d.tau = 0.7f;
  d.d_max = 3;
  d.w_max = 16;
  const std::string path = dir / "tiny.heads.gguf";
  write_exit_heads(path, written);

  ExitHeads opened = ExitHeads::open(path, model.gguf, model.config);
  const ExitHeads heads = std::move(opened);
  CHECK(heads.path() == path);
  CHECK(heads.bytes() == std::filesystem::file_size(path));
  CHECK(heads.base().fingerprint == model_fingerprint(model.gguf));
  CHECK(heads.base().architecture == "llama");
  CHECK(heads.base().n_layers == 3);
  CHECK(heads.base().dim == 32);
  CHECK(heads.base().vocab_size == 48);
  CHECK(heads.shortlist() == written.shortlist);
  CHECK(heads.layers(HeadKind::kFull) == std::vector<int>{1, 2});
  CHECK(heads.layers(HeadKind::kFolded) == std::vector<int>{1, 2});
  CHECK(heads.layers(HeadKind::kChained) == std::vector<int>{0, 1, 2});
  CHECK(heads.find(HeadKind::kFull, 0) == -1);
  CHECK(heads.find(HeadKind::kFolded, 3) == -1);
  CHECK(heads.defaults().kind == HeadKind::kChained);
  CHECK(heads.defaults().check_layers == std::vector<int>{0, 2});
  CHECK(heads.defaults().shortlist == 16);
  CHECK(heads.defaults().alpha == 0.4f);
  CHECK(heads.defaults().tau == 0.7f);
  CHECK(heads.defaults().d_max == 3);
  CHECK(heads.defaults().w_max == 16);

  REQUIRE(heads.heads().size() == 7);
  for (size_t i = 0; i < 7; ++i) {  // written backwards, read by kind, then layer
    const HeadWeights& head = heads.heads()[i];
    CHECK(heads.find(head.kind, head.layer) == static_cast<int>(i));
    const auto from = std::find_if(written.heads.begin(), written.heads.end(), [&](auto& h) {
      return h.kind == head.kind && h.layer == head.layer;
    });
    REQUIRE(from != written.heads.end());
    CHECK(head.margin_scale == from->margin_scale);
    CHECK(head.margin_offset == from->margin_offset);
    switch (head.kind) {
      case HeadKind::kFull:
        CHECK(same_bytes(head.map, from->map, DType::kF16));
        break;
      case HeadKind::kFolded:
        CHECK(same_bytes(head.folded, from->folded, DType::kQ8_0));
        break;
      case HeadKind::kLayer:  // draft_layer_test.cpp
      case HeadKind::kMedusa:
      case HeadKind::kEagle:
      case HeadKind::kEagle3:
      case HeadKind::kHydra:
      case HeadKind::kMtp:
      case HeadKind::kKangaroo:  // convert_heads_test.cpp
        break;
      case HeadKind::kChained:
        CHECK(same_bytes(head.map, from->map, DType::kQ8_0));
        CHECK((head.inner.n_out == 0) == (head.layer == 2));
        if (head.layer == 2) break;
        CHECK(same_bytes(head.inner, from->inner, DType::kQ8_0));
        CHECK(same_bytes(head.outer, from->outer, DType::kQ8_0));
    }
  }
}

TEST_CASE("exit heads: temperatures, where a head has one of its own") {
  const Parsed model(small_spec());
  NewHeads written = random_heads(model.base());
  const std::vector<std::byte> plain = exit_heads_file("plain", written);
  CHECK(!Gguf::parse(plain, "plain").find(kTemperatureKey));
  const ExitHeads old = ExitHeads::from_gguf(Gguf::parse(plain, "plain"));
  for (const HeadWeights& head : old.heads()) CHECK(head.temperature == 1);
  for (NewHead& head : written.heads) {
    if (head.kind == HeadKind::kFolded) head.temperature = 0.5f + static_cast<float>(head.layer);
  }
  std::reverse(written.heads.begin(), written.heads.end());
  const std::vector<std::byte> bytes = exit_heads_file("own", written);
  const ExitHeads read = ExitHeads::from_gguf(Gguf::parse(bytes, "own"));
  for (const HeadWeights& head : read.heads()) {
    const bool own = head.kind == HeadKind::kFolded;
    CHECK(head.temperature == (own ? 0.5f + static_cast<float>(head.layer) : 1));
  }
  for (const float value : {0.0f, -1.0f, 0.049f, 100.5f}) {
    written.heads[2].temperature = value;
    check_mentions(expect_error(ErrorCode::kFormat, [&] { exit_heads_file("bad", written); }),
                   {"bad: key 'specbound.temperature': expected 0.05 to 100, found "});
  }
  written.heads[2].temperature = std::nanf("");
  check_mentions(expect_error(ErrorCode::kFormat, [&] { exit_heads_file("bad", written); }),
                 {kTemperatureKey, "finite numbers"});
}

TEST_CASE("exit heads: a text, beside heads and alone") {
  const TempDir dir;
  const Parsed model(small_spec());
  NewHeads written = random_heads(model.base());
  written.text = {3, 4, 5, -1, 0, model.base().vocab_size - 1, -1};
  const std::string path = dir / "heads.gguf";
  write_exit_heads(path, written);
  const ExitHeads both = ExitHeads::open(path, model.gguf, model.config);
  CHECK(both.text() == written.text);
  CHECK(both.can_guess());
  CHECK(!both.heads().empty());

  NewHeads alone = {.base = written.base, .text = written.text};
  write_exit_heads(path, alone);
  const ExitHeads text = ExitHeads::open(path, model.gguf, model.config);
  CHECK(text.text() == written.text);
  CHECK(!text.can_guess());
  CHECK(text.heads().empty());
  for (const HeadKind kind : kHeadKinds) CHECK(text.layers(kind).empty());

  const auto refuse = [&](std::vector<int32_t> tokens, const char* found) {
    alone.text = std::move(tokens);
    check_mentions(expect_error(ErrorCode::kFormat, [&] { write_exit_heads(path, alone); }),
                   {"'exit.text'", found});
  };
  refuse({1, -2}, "found -2 at 1");
  refuse({model.base().vocab_size}, "at 0");
  refuse(std::vector<int32_t>(kMostTextTokens + 1, 1), "up to 1048576");
}

TEST_CASE("exit heads: settings left open mean all") {
  const TempDir dir;
  const Parsed model(small_spec());
  NewHeads written = random_heads(model.base());
  written.defaults = {};
  const std::string path = dir / "h.gguf";
  write_exit_heads(path, written);
  const ExitHeads heads = ExitHeads::open(path, model.gguf, model.config);
  CHECK(heads.defaults().kind == HeadKind::kFolded);
  CHECK(heads.defaults().check_layers == std::vector<int>{1, 2});
  CHECK(heads.defaults().shortlist == 32);

  // Full heads alone need no list.
  std::erase_if(written.heads, [](const NewHead& h) { return h.kind != HeadKind::kFull; });
  written.shortlist.clear();
  written.defaults.kind = HeadKind::kFull;
  write_exit_heads(path, written);
  const ExitHeads full = ExitHeads::open(path, model.gguf, model.config);
  CHECK(full.shortlist().empty());
  CHECK(full.defaults().shortlist == 0);
  CHECK(heads.shortlist().size() == 32);  // the old file, still mapped
}

TEST_CASE("exit heads: full maps may have any width and come as F32") {
  const TempDir dir;
  TinySpec spec = small_spec();
  spec.dim = 20;
  const Parsed model(spec);
  NewHeads written;
  written.base = model.base();
  written.heads = {random_head(HeadKind::kFull, 1, 20, 0, 0, 5)};
  written.defaults.kind = HeadKind::kFull;
  const std::string path = dir / "full.gguf";
  write_exit_heads(path, written);
  const ExitHeads f16 = ExitHeads::open(path, model.gguf, model.config);
  CHECK(same_bytes(f16.heads()[0].map, written.heads[0].map, DType::kF16));

  const Gguf gguf = Gguf::open(path);
  HeadsFile file(gguf);
  TinyTensor& map = file.tensor("exit.1.full.weight");
  map.type = DType::kF32;
  map.bytes = encode_floats(written.heads[0].map.values, DType::kF32);
  const std::vector<std::byte> bytes = file.bytes();
  const ExitHeads f32 = ExitHeads::from_gguf(Gguf::parse(bytes, "f32"), &written.base);
  CHECK(same_bytes(f32.heads()[0].map, written.heads[0].map, DType::kF32));

  written.heads.push_back(random_head(HeadKind::kFolded, 1, 20, 16, 0, 6));
  for (int i = 0; i < 16; ++i) written.shortlist.push_back(i);
  check_mentions(
      expect_error(ErrorCode::kUnsupported, [&] { write_exit_heads(dir / "q8", written); }),
      {"q8: tensor 'exit.1.folded.weight'", "expected rows of whole Q8_0 blocks (32 elements)",
       "found rows of 20"});
}

TEST_CASE("exit heads: the writer refuses what the reader would") {
  const TempDir dir;
  const Parsed model(small_spec());
  const std::string path = dir / "h.gguf";
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e9f}) {
    for (size_t i = 0; i < 7; ++i) {
      NewHeads heads = random_heads(model.base());
      REQUIRE(heads.heads.size() == 7);
      NewHead& head = heads.heads[i];
      std::vector<float>& values =
          head.kind == HeadKind::kFolded ? head.folded.values : head.map.values;
      values[3 * 32 * (head.kind == HeadKind::kChained ? 2 : 1) + 31] = value;
      const std::string text =
          expect_error(ErrorCode::kFormat, [&] { write_exit_heads(path, heads); });
      check_mentions(text, {path, head_kind_name(head.kind), "finite values", "in row 3"});
    }
  }
  NewHeads heads = random_heads(model.base());
  heads.heads.push_back(heads.heads[2]);
  check_mentions(expect_error(ErrorCode::kFormat, [&] { write_exit_heads(path, heads); }),
                 {path, "expected each name once, found it twice"});
  CHECK(!std::filesystem::exists(path));
  CHECK(std::filesystem::is_empty(dir.path()));

  const std::string nowhere = dir / "no/such/h.gguf";
  check_mentions(expect_error(ErrorCode::kFile,
                              [&] { write_exit_heads(nowhere, random_heads(model.base())); }),
                 {nowhere});
}

TEST_CASE("exit heads: encoding of floats") {
  TinyRandom random(3);
  std::vector<float> x(96);
  for (float& value : x) value = random.normal();
  std::fill_n(&x[32], 32, 0.0f);
  const std::vector<std::byte> bytes = encode_floats(x, DType::kQ8_0);
  REQUIRE(bytes.size() == 3 * sizeof(BlockQ8_0));
  CHECK(bytes == tiny_encode(x, DType::kQ8_0));
  for (int b = 0; b < 3; ++b) {
    BlockQ8_0 block;
    std::memcpy(&block, bytes.data() + b * sizeof(block), sizeof(block));
    const float d = half_to_float(block.d);
    for (int i = 0; i < 32; ++i) {
      // Half a step, and what the half's rounding of d can do to 127 of them.
      CHECK(std::fabs(d * block.q[i] - x[32 * b + i]) <= d * (0.5f + 127 * 0x1p-11f));
    }
  }
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    CHECK(encode_floats(x, type) == tiny_encode(x, type));
  }

  const auto block_of = [](float value) {
    std::vector<float> values(32, 1.0f);
    values[7] = value;
    BlockQ8_0 block;
    const std::vector<std::byte> one = encode_floats(values, DType::kQ8_0);
    std::memcpy(&block, one.data(), sizeof(block));
    return block;
  };
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e10f, 3e38f,
                          std::numeric_limits<float>::infinity()}) {
    CHECK(!std::isfinite(half_to_float(block_of(bad).d)));
    CHECK(!std::isfinite(half_to_float(block_of(-bad).d)));
  }
  CHECK(half_to_float(block_of(127.0f).d) == 1.0f);
  CHECK(block_of(-127.0f).q[7] == -127);
  CHECK(block_of(127.0f).q[0] == 1);
  // Too small for a scale: zeros, and no infinite 1 / d on the way.
  for (const float tiny : {1e-45f, 1e-38f, 1e-8f}) {
    std::vector<float> values(32, tiny);
    CHECK(encode_floats(values, DType::kQ8_0) == std::vector<std::byte>(34));
  }
}

TEST_CASE("exit heads: the fingerprint of a model") {
  const TinySpec spec = small_spec();
  const std::vector<TinyTensor> tensors = tiny_tensors(spec);
  const auto fingerprint = [](const TinySpec& s, const std::vector<TinyTensor>& t) {
    const std::vector<std::byte> bytes = tiny_file(s, t);
    return model_fingerprint(Gguf::parse(bytes, "tiny.gguf"));
  };
  const std::string plain = fingerprint(spec, tensors);
  CHECK(plain == "1e62f70fe2db6151");  // files made earlier must go on fitting their models
  size_t total = 0;
  for (const TinyTensor& t : tensors) total += t.bytes.size();
  REQUIRE(total < 128 * 4096);  // every byte counts
  std::set<std::string> all = {plain};
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (const size_t at : {size_t{0}, tensors[i].bytes.size() / 2, tensors[i].bytes.size() - 1}) {
      auto changed = tensors;
      changed[i].bytes[at] ^= std::byte{1};
      CHECK(all.insert(fingerprint(spec, changed)).second);
    }
    auto renamed = tensors;
    renamed[i].name += "x";
    CHECK(all.insert(fingerprint(spec, renamed)).second);
    auto turned = tensors;
    turned[i].shape = {turned[i].shape[0] / 2, tensors[i].bytes.size() / turned[i].shape[0] / 2};
    CHECK(all.insert(fingerprint(spec, turned)).second);
  }
  auto retyped = tensors;
  retyped[1].type = DType::kI32;
  CHECK(all.insert(fingerprint(spec, retyped)).second);

  // What is said about the tensors does not count: a chat template may be corrected.
  TinySpec told = spec;
  told.metadata = [](GgufWriter& writer) {
    writer.add_string("tokenizer.chat_template", "{{ messages }}");
  };
  CHECK(fingerprint(told, tensors) == plain);

  // Larger than what is read: the first and the last page do, and some between.
  std::vector<TinyTensor> large = {
      {"a", DType::kF32, {300 * 1024 + 1}, std::vector<std::byte>(4 * (300 * 1024 + 1))},
      {"b", DType::kF32, {100 * 1024}, std::vector<std::byte>(4 * 100 * 1024)}};
  const std::string zeros = fingerprint(spec, large);
  int seen = 0;
  for (size_t page = 0; page < 400; ++page) {
    auto changed = large;
    const size_t at = page * 4096 + 17, a = large[0].bytes.size();
    (at < a ? changed[0].bytes[at] : changed[1].bytes[at - a]) = std::byte{1};
    const bool differs = fingerprint(spec, changed) != zeros;
    if (page == 0) CHECK(differs);
    seen += differs;
  }
  auto last = large;
  last[1].bytes.back() = std::byte{1};
  CHECK(fingerprint(spec, last) != zeros);
  CHECK((seen == 127 || seen == 128));  // the last page lies past 400 whole ones
}

TEST_CASE("exit heads: made for another model") {
  const TempDir dir;
  const Parsed model(small_spec());
  const std::string path = dir / "h.gguf";
  write_exit_heads(path, random_heads(model.base()));
  const auto refuse = [&](const TinySpec& spec, std::string_view expected, std::string_view found) {
    const Parsed other(spec);
    const std::string text =
        expect_error(ErrorCode::kFormat, [&] { ExitHeads::open(path, other.gguf, other.config); });
    check_mentions(text, {path + ": made for another model: expected ", expected, found});
  };
  TinySpec spec = small_spec();
  spec.architecture = "qwen3";
  refuse(spec, "expected architecture qwen3", "found llama");
  spec = small_spec();
  spec.n_layers = 4;
  refuse(spec, "expected number of layers 4", "found 3");
  spec = small_spec();
  spec.dim = 64;
  refuse(spec, "expected dim 64", "found 32");
  spec = small_spec();
  spec.vocab_size = 49;
  refuse(spec, "expected vocabulary size 49", "found 48");
  spec = small_spec();
  spec.seed = 2;
  refuse(spec, "expected fingerprint " + model_fingerprint(Parsed(spec).gguf),
         "found " + model_fingerprint(model.gguf));
  spec.seed = 1;
  spec.type = DType::kF16;
  refuse(spec, "expected fingerprint ", "found " + model_fingerprint(model.gguf));
}

TEST_CASE("exit heads: beside the model") {
  CHECK(sidecar_heads("a/b.gguf") == "a/b.heads.gguf");
  CHECK(sidecar_heads("b.gguf") == "b.heads.gguf");
  CHECK(sidecar_heads("a.gguf/b") == "a.gguf/b.heads.gguf");
  CHECK(sidecar_heads("a/b.bin") == "a/b.bin.heads.gguf");
  CHECK(sidecar_heads("b-00001-of-00002.gguf") == "b-00001-of-00002.heads.gguf");
  CHECK(sidecar_heads("b.GGUF") == "b.GGUF.heads.gguf");
  CHECK(sidecar_heads("a/.gguf") == "a/.heads.gguf");
}

TEST_CASE("exit heads: names of kinds") {
  for (HeadKind kind : {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained}) {
    CHECK(parse_head_kind(head_kind_name(kind)) == kind);
  }
  for (const char* name : {"", "Full", "folded ", "lens"}) CHECK(!parse_head_kind(name));
}

}  // namespace
}  // namespace specbound::test::exit_heads_test
