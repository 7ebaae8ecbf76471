// What becomes of each tensor when a model is quantized, and the file that comes of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "convert/quantize_plan.h"
#include "convert/requantize.h"
#include "expect_error.h"
#include "model/codec.h"
#include "model/exit_heads.h"
#include "model/gguf_writer.h"
#include "temp_dir.h"
#include "tiny_gguf.h"

namespace specbound::quantize_test {
namespace {

using test::check_mentions;
using test::expect_error;

// LLAMA_FTYPE of llama.h.
const std::map<DType, uint64_t> kFileTypes = {
    {DType::kF16, 1}, {DType::kQ4_0, 2}, {DType::kQ8_0, 7}, {DType::kQ4_K, 14}, {DType::kBF16, 32}};

struct Source {
  std::string name;
  DType type;
  std::vector<uint64_t> shape;
  std::vector<float> values = {};  // drawn where there are none
};

// A file of such tensors, in memory.
class SourceModel {
 public:
  explicit SourceModel(std::vector<Source> sources, const std::string& architecture = "llama") {
    GgufWriter writer;
    writer.add_uint("general.file_type", 0);
    writer.add_string("general.architecture", architecture);
    writer.add_uint("general.alignment", 32);
    writer.add_uint("split.count", 1);
    writer.add_float("llama.number", 0.25f);
    writer.add_strings("llama.strings", std::vector<std::string_view>{"a", "", "longer"});
    writer.add_ints("llama.ints", std::vector<int32_t>{3, -4});
    std::vector<std::vector<std::byte>> encoded;
    test::TinyRandom random(5);
    for (Source& source : sources) {
      size_t n = 1;
      for (uint64_t size : source.shape) n *= size;
      while (source.values.size() < n) source.values.push_back(random.uniform() - 0.4f);
      encoded.push_back(stored(source.values, source.type));
    }
    for (size_t i = 0; i < sources.size(); ++i) {
      writer.add_tensor(sources[i].name, sources[i].type, sources[i].shape, encoded[i]);
    }
    bytes_ = writer.serialize();
    gguf_ = Gguf::parse(bytes_, "source");
  }
  const Gguf& gguf() const { return gguf_; }

 private:
  // Types that nobody encodes here: zeros of the right size.
  static std::vector<std::byte> stored(const std::vector<float>& values, DType type) {
    if (type == DType::kF32 || quantize_type(dtype_info(type)->name)) {
      return encode_floats(values, type);
    }
    return std::vector<std::byte>(values.size() / dtype_info(type)->block *
                                  dtype_info(type)->bytes);
  }
  std::vector<std::byte> bytes_;
  Gguf gguf_;
};

std::vector<Source> a_model(DType type = DType::kF16) {
  return {{"token_embd.weight", type, {256, 40}},
          {"blk.0.attn_norm.weight", DType::kF32, {256}},
          {"blk.0.attn_q.weight", type, {256, 256}},
          {"blk.0.attn_q.bias", DType::kF32, {256}},
          {"blk.0.ffn_down.weight", type, {96, 256}},   // whole blocks of 32
          {"blk.0.odd.weight", DType::kF32, {72, 64}},  // of none
          {"blk.0.column.weight", DType::kF32, {256, 1}},
          {"table", DType::kF32, {32, 2}},
          {"output.weight", type, {256, 40}}};
}

constexpr DType kF16 = DType::kF16, kF32 = DType::kF32, kBF16 = DType::kBF16, kQ8 = DType::kQ8_0,
                kQ4 = DType::kQ4_0, kQ4K = DType::kQ4_K;

}  // namespace

TEST_CASE("quantize: names of types") {
  for (const char* name : {"Q4_K", "q4_k", "Q4_k"}) CHECK(quantize_type(name) == kQ4K);
  CHECK(quantize_type("bf16") == kBF16);
  for (const char* name : {"", "F32", "Q6_K", "Q4_K_M", "Q4_K ", "Q4"}) {
    CHECK(!quantize_type(name));
  }
}

TEST_CASE("quantize: matrices take the type, head and odd rows what fits them") {
  using Types = std::vector<DType>;
  const SourceModel source(a_model());
  const auto types = [&](DType type, std::optional<DType> head = {}) {
    return plan_quantization(source.gguf(), type, head).types;
  };
  CHECK(types(kQ4K) == Types{kQ8, kF32, kQ4K, kF32, kQ4, kF16, kF32, kF32, kQ8});
  CHECK(types(kQ4) == Types{kQ8, kF32, kQ4, kF32, kQ4, kF16, kF32, kF32, kQ8});
  CHECK(types(kQ8) == Types{kQ8, kF32, kQ8, kF32, kQ8, kF16, kF32, kF32, kQ8});
  CHECK(types(kBF16) == Types{kBF16, kF32, kBF16, kF32, kBF16, kBF16, kF32, kF32, kBF16});
  CHECK(types(kQ4K, kQ4K) == Types{kQ4K, kF32, kQ4K, kF32, kQ4, kF16, kF32, kF32, kQ4K});

  const QuantizePlan plan = plan_quantization(source.gguf(), kQ4K, {});
  CHECK(plan.odd_rows == std::map<DType, size_t>{{kQ4, 1}, {kF16, 1}});
  CHECK(plan.requantized.empty());
  const SourceModel again(a_model(kQ8));
  const QuantizePlan second = plan_quantization(again.gguf(), kQ4, {});
  CHECK(second.requantized == std::map<DType, size_t>{{kQ8, 2}});  // the head stays Q8_0
}

TEST_CASE("quantize: experts are matrices, and their router stays as it is") {
  const std::vector<Source> mixture = {{"token_embd.weight", kF16, {256, 40}},
                                       {"blk.0.ffn_gate_inp.weight", kF32, {256, 3}},
                                       {"blk.0.ffn_gate_exps.weight", kF16, {256, 96, 3}},
                                       {"blk.0.ffn_down_exps.weight", kF16, {96, 256, 3}},
                                       {"blk.1.ffn_gate_inp.weight", kF16, {256, 3}}};
  const SourceModel source(mixture, "qwen3moe");
  CHECK(plan_quantization(source.gguf(), kQ4K, {}).types ==
        std::vector<DType>{kQ8, kF32, kQ4K, kQ4, kF16});
  for (const DType type : {kQ4K, kQ8, kF16}) {
    CHECK(matrix_type("blk.0.ffn_gate_inp.weight", 256, type) == kF32);
  }
}

TEST_CASE("quantize: files that are no models, and types that cannot be read") {
  const auto refusal = [](const SourceModel& source) {
    return expect_error(ErrorCode::kUnsupported,
                        [&] { plan_quantization(source.gguf(), kQ8, {}); });
  };
  check_mentions(refusal(SourceModel(a_model(), kHeadsArchitecture)), {"source", "exit heads"});
  check_mentions(refusal(SourceModel({})), {"vocabulary"});
  check_mentions(refusal(SourceModel({{"blk.0.x.weight", DType::kIQ4_XS, {256, 2}}})),
                 {"blk.0.x.weight", "IQ4_XS"});
  // What is no matrix may be of any type.
  const SourceModel other({{"blk.0.x.bias", DType::kI32, {32, 2}}});
  CHECK(plan_quantization(other.gguf(), kQ8, {}).types == std::vector<DType>{DType::kI32});
}

TEST_CASE("quantize: the file holds what the encoders make of each tensor") {
  const test::TempDir folder;
  std::vector<Source> sources = a_model();
  sources.push_back({"blk.1.attn_q.weight", kF32, {1024, 300}});  // more than a piece
  sources.push_back({"ids", DType::kI32, {7}});
  const SourceModel source(sources);
  for (const DType type : {kF16, kBF16, kQ8, kQ4, kQ4K}) {
    CAPTURE(dtype_info(type)->name);
    const QuantizePlan plan = plan_quantization(source.gguf(), type, {});
    size_t seen = 0, total = 0;
    RequantizeOptions options;
    options.progress = [&](size_t done, size_t all) {
      CHECK(done > seen);
      seen = done;
      total = all;
    };
    const Requantized done = requantize(source.gguf(), plan, folder / "one.gguf", options);
    CHECK(seen == total);
    CHECK(total == plan.bytes_before);
    CHECK(done.weights > 0);
    CHECK(done.relative_error < (type == kQ4 || type == kQ4K ? 0.1 : 0.01));

    const Gguf made = Gguf::open(folder / "one.gguf");
    REQUIRE(made.tensors().size() == plan.types.size());
    for (size_t i = 0; i < plan.types.size(); ++i) {
      const GgufTensor &before = source.gguf().tensors()[i], &after = made.tensors()[i];
      INFO(std::string(after.name));
      CHECK(after.name == before.name);
      CHECK(after.type == plan.types[i]);
      CHECK(after.shape == before.shape);
      std::vector<std::byte> expected(before.bytes.begin(), before.bytes.end());
      if (after.type != before.type) {
        size_t n = 1;
        for (uint64_t size : before.shape) n *= size;
        std::vector<float> values(n);
        dequantize(before.bytes.data(), before.type, n, values.data());
        expected = encode_floats(values, after.type);
      }
      CHECK(std::equal(expected.begin(), expected.end(), after.bytes.begin(), after.bytes.end()));
    }

    CHECK(made.get_uint("general.file_type") == kFileTypes.at(type));
    CHECK(made.get_uint("general.quantization_version") == 2);
    CHECK(made.get_string("general.architecture") == "llama");
    CHECK(made.get_float("llama.number") == 0.25);
    CHECK(made.get_ints("llama.ints") == std::vector<int32_t>{3, -4});
    CHECK(made.get_strings("llama.strings") == std::vector<std::string_view>{"a", "", "longer"});
    CHECK(!made.find("split.count"));
    CHECK(!made.find("general.alignment"));

    // Threads change nothing.
    RequantizeOptions several;
    several.n_threads = 3;
    const Requantized same = requantize(source.gguf(), plan, folder / "three.gguf", several);
    CHECK(same.relative_error == done.relative_error);
    CHECK(std::filesystem::file_size(folder / "three.gguf") == made.file_size());
    const Gguf other = Gguf::open(folder / "three.gguf");
    for (size_t i = 0; i < plan.types.size(); ++i) {
      const auto &a = made.tensors()[i].bytes, &b = other.tensors()[i].bytes;
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    }
  }
}

TEST_CASE("quantize: weights that are lost are refused, and no file is left") {
  const test::TempDir folder;
  const auto refusal = [&](DType from, DType to, float value, bool matrix = true) {
    std::vector<Source> sources = a_model(from);
    sources.push_back({"blk.1.x.weight", from, {256, 2}, std::vector<float>(512, 0.5f)});
    if (!matrix) sources.back() = {"blk.1.x.bias", from, {512}, std::vector<float>(512, 0.5f)};
    sources.back().values[300] = value;
    const SourceModel source(sources);
    const QuantizePlan plan = plan_quantization(source.gguf(), to, {});
    RequantizeOptions options;
    options.n_threads = 2;
    const std::string text = expect_error(ErrorCode::kUnsupported, [&] {
      requantize(source.gguf(), plan, folder / "none.gguf", options);
    });
    CHECK(std::filesystem::is_empty(folder.path()));
    return text;
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  check_mentions(refusal(kF32, kQ8, kInf), {"blk.1.x.weight", "finite", " 1 "});
  check_mentions(refusal(kF32, kQ4K, std::nanf("")), {"blk.1.x.weight", "finite"});
  check_mentions(refusal(kF16, kF16, -kInf), {"finite"});         // copies too
  check_mentions(refusal(kF32, kQ8, kInf, false), {"x.bias"});    // and vectors
  check_mentions(refusal(kF32, kF16, 70000.0f), {"F16", " 1 "});  // F32 holds it
  check_mentions(refusal(kF32, kQ8, 1e30f), {"Q8_0", "32"});      // with it goes its block
  check_mentions(refusal(kF32, kQ4, 1e30f), {"Q4_0", "32"});
  check_mentions(refusal(kF32, kQ4K, 1e30f), {"Q4_K", "256"});

  const SourceModel source(a_model());
  RequantizeOptions options;
  options.progress = [](size_t, size_t) { throw Error(ErrorCode::kLimit, "enough"); };
  CHECK(expect_error(ErrorCode::kLimit, [&] {
          requantize(source.gguf(), plan_quantization(source.gguf(), kQ8, {}), folder / "none.gguf",
                     options);
        }) == "enough");
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace specbound::quantize_test
