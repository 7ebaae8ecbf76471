// Weights on the device: every tile, norm, bias and row of the table is what the file's weights
// give, however small the buffers they went through; and what is refused.
#include "engine/cuda/device_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/linear.h"
#include "engine/cuda/memory_plan.h"
#include "engine/cuda/weight_layout.h"
#include "error.h"
#include "model/codec.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "simt/simt_device.h"
#include "terminal/flag_names.h"
#include "unit/engine_rig.h"

namespace device_weights_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Bytes = std::vector<std::byte>;

struct Case {
  const char* name;
  TinySpec spec;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"Q8_0", q8_0_spec()});
  TinySpec odd;
  odd.dim = 44;
  odd.ffn_dim = 172;
  odd.head_dim = 24;
  odd.vocab_size = 83;
  odd.output_bias = true;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    odd.type = type;
    all.push_back({dtype_info(type)->name, odd});
  }
  TinySpec mixed = q8_0_spec(3);
  mixed.architecture = "qwen2";
  mixed.tied = true;
  mixed.types = {{"attn_v.weight", DType::kF32}, {"ffn_down.weight", DType::kBF16}};
  all.push_back({"mixed, tied", mixed});
  TinySpec other;
  other.type = DType::kF16;
  other.architecture = "qwen3";
  other.types = {{"ffn_down.weight", DType::kQ8_0},
                 {"attn_output.weight", DType::kQ8_0},
                 {"token_embd.weight", DType::kQ8_0}};
  all.push_back({"F16 with Q8_0", other});
  TinySpec four;
  four.type = DType::kQ4_0;
  four.vocab_size = 83;
  all.push_back({"Q4_0", four});
  TinySpec q4_k_m;  // as llama.cpp mixes it
  q4_k_m.type = DType::kQ4_K;
  q4_k_m.dim = q4_k_m.ffn_dim = 256;
  q4_k_m.head_dim = 64;
  q4_k_m.types = {{"attn_v.weight", DType::kQ6_K},
                  {"ffn_down.weight", DType::kQ6_K},
                  {"output.weight", DType::kQ3_K}};  // attn_output too
  all.push_back({"Q4_K_M", q4_k_m});
  q4_k_m.type = DType::kQ5_K;
  q4_k_m.types = {{"attn_v.weight", DType::kQ5_0}, {"ffn_down.weight", DType::kQ5_1}};
  all.push_back({"5 bits", q4_k_m});
  return all;
}

// Straight from the definitions: values first, then the device's type, then one repacking.
Bytes expected_tiles(const Matrix& source, bool int8, Bytes& scales, Bytes& d2) {
  std::vector<float> values(size_t(source.n_out) * source.n_in);
  for (int r = 0; r < source.n_out; ++r) read_row(source, r, &values[size_t(r) * source.n_in]);
  Bytes encoded;
  Matrix stored = source;
  if (!int8 || runs_as(source.type) != source.type || !takes_int8_rows(source.type)) {
    stored.type = int8 ? DType::kQ8_0 : DType::kF16;
    encoded = encode_floats(values, stored.type);
    stored.data = encoded.data();
  }
  const FragmentShape shape = int8 ? int8_fragments(stored) : half_fragments(stored);
  Bytes tiles(shape.bytes_of(shape.n_tiles));
  if (int8) {
    scales.resize(shape.scales_of(shape.n_tiles) * 2);
    d2.resize(shape.d2_of(shape.n_tiles) * 4);
    auto* q = reinterpret_cast<int8_t*>(tiles.data());
    auto* d = reinterpret_cast<uint16_t*>(scales.data());
    if (stored.type == DType::kQ8_0) {
      repack_int8(stored, 0, shape.n_tiles, q, d);
    } else {
      repack_int8(stored, 0, shape.n_tiles, q, d, reinterpret_cast<uint32_t*>(d2.data()));
    }
  } else {
    repack_half(stored, 0, shape.n_tiles, reinterpret_cast<uint16_t*>(tiles.data()));
  }
  return tiles;
}

Bytes read_bytes(simt::SimtDevice& device, const void* from, size_t n) {
  return device.read(static_cast<const std::byte*>(from), n);
}

// What of `found` is not what `source` gives; empty: nothing.
std::string difference(simt::SimtDevice& device, const DeviceMatrix& found, const Matrix& source,
                       bool int8) {
  if (found.int8() != int8 || found.f16.has_value() == int8) return "type";
  if (found.n_out() != source.n_out || found.n_in() != source.n_in) return "shape";
  Bytes scales, d2;
  const Bytes tiles = expected_tiles(source, int8, scales, d2);
  if (!int8) return read_bytes(device, found.f16->w, tiles.size()) == tiles ? "" : "values";
  if (found.i8->type != int8_form(source.type)) return "form";
  if ((found.i8->d2 != nullptr) != kernels::has_d2(found.i8->type)) return "presence of d2";
  if (!d2.empty() && read_bytes(device, found.i8->d2, d2.size()) != d2) return "d2";
  if (read_bytes(device, found.i8->q, tiles.size()) != tiles) return "values";
  return read_bytes(device, found.i8->d, scales.size()) == scales ? "" : "scales";
}

std::string difference(simt::SimtDevice& device, const float* found, const float* expected, int n) {
  if (!expected || !found) return found == expected ? "" : "presence";
  const std::vector<float> values = device.read(found, n);
  return same_bits(values.data(), expected, n) ? "" : "floats";
}

// Which matrices are INT8, by the rule that memory_plan_test checks.
class Types final : public WeightSink {
 public:
  std::vector<bool> int8;
  DeviceMatrix matrix(const Matrix&, bool is_int8) override {
    int8.push_back(is_int8);
    return {};
  }
  const float* floats(const float*, int) override { return nullptr; }
  const void* table(const Matrix&) override { return nullptr; }
};

void check_weights(simt::SimtDevice& device, const DeviceWeights& found, const TinyModel& model,
                   GpuDtype dtype) {
  const ModelConfig& c = model.config;
  REQUIRE(found.layers().size() == model.weights.layers.size());
  for (size_t l = 0; l < found.layers().size(); ++l) {
    CAPTURE(l);
    const DeviceLayer& to = found.layers()[l];
    const LayerWeights& w = model.weights.layers[l];
    Types types;
    place_layer(c, w, dtype, types);
    const std::pair<const DeviceMatrix*, const Matrix*> matrices[] = {
        {&to.wq, &w.wq},         {&to.wk, &w.wk},     {&to.wv, &w.wv},        {&to.wo, &w.wo},
        {&to.w_gate, &w.w_gate}, {&to.w_up, &w.w_up}, {&to.w_down, &w.w_down}};
    for (size_t i = 0; i < std::size(matrices); ++i) {
      CAPTURE(i);
      CHECK(difference(device, *matrices[i].first, *matrices[i].second, types.int8[i]) == "");
    }
    CHECK(difference(device, to.attn_norm, w.attn_norm, c.dim) == "");
    CHECK(difference(device, to.bq, w.bq, c.q_dim()) == "");
    CHECK(difference(device, to.bk, w.bk, c.kv_dim()) == "");
    CHECK(difference(device, to.bv, w.bv, c.kv_dim()) == "");
    CHECK(difference(device, to.q_norm, w.q_norm, c.head_dim) == "");
    CHECK(difference(device, to.k_norm, w.k_norm, c.head_dim) == "");
    CHECK(difference(device, to.bo, w.bo, c.dim) == "");
    CHECK(difference(device, to.ffn_norm, w.ffn_norm, c.dim) == "");
  }
  Types types;
  place_head(c, model.weights, dtype, types);
  CHECK(difference(device, found.lm_head(), model.weights.lm_head, types.int8[0]) == "");
  CHECK(difference(device, found.output_norm(), model.weights.output_norm, c.dim) == "");
  const Matrix& table = model.weights.token_embd;
  CHECK(found.embedding_type() == table.type);
  const Bytes rows = read_bytes(device, found.embedding(), table.bytes());
  CHECK(std::memcmp(rows.data(), table.data, rows.size()) == 0);
}

// F32 weights, one of them replaced.
TinyModel model_with(const std::string& tensor, size_t at, std::vector<float> values) {
  TinySpec spec;
  std::vector<TinyTensor> tensors = tiny_tensors(spec);
  for (TinyTensor& t : tensors) {
    if (t.name != tensor) continue;
    REQUIRE(4 * (at + values.size()) <= t.bytes.size());
    std::memcpy(t.bytes.data() + 4 * at, values.data(), 4 * values.size());
  }
  return TinyModel(tiny_file(spec, tensors));
}

std::string refusal(const TinyModel& model, GpuDtype dtype) {
  simt::DeviceLog log;
  simt::SimtDevice device({.log = &log});
  try {
    const DeviceWeights weights(device, model.config, model.weights, {dtype, nullptr});
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUnsupported);
    CHECK(log.live == 0);
    return with_flags(e.what());
  }
  return "";
}

}  // namespace

TEST_CASE("device weights: every weight of every model, type and size of buffers") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const TinyModel model(c.spec);
    for (GpuDtype dtype : {GpuDtype::kAsStored, GpuDtype::kInt8, GpuDtype::kFp16}) {
      CAPTURE(gpu_dtype_name(dtype));
      for (size_t staging_bytes : {size_t{1}, size_t{10000}, size_t{16} << 20}) {
        CAPTURE(staging_bytes);
        simt::DeviceLog log;
        simt::SimtDevice device({.log = &log});
        size_t done = 0, total = 0, calls = 0;
        const auto progress = [&](size_t d, size_t t) {
          CHECK(d > done);
          CHECK(d <= t);
          CHECK((total == 0 || t == total));
          done = d;
          total = t;
          ++calls;
        };
        const DeviceWeights weights(device, model.config, model.weights,
                                    {dtype, progress, staging_bytes});
        check_weights(device, weights, model, dtype);
        const WeightSizes sizes = weight_sizes(model.config, model.weights, dtype);
        CHECK(done == total);
        CHECK(total == sizes.source);
        CHECK(calls > 20);
        CHECK(log.device_bytes == sizes.total());
        CHECK(weights.bytes() == sizes.total());
        CHECK(plan_memory(model.config, model.weights, {dtype, 64}).weights == sizes.total());
      }
    }
  }
}

TEST_CASE("device weights: a buffer is filled while the other is on its way") {
  const TinyModel model(q8_0_spec());
  simt::SimtDevice device;
  const DeviceWeights weights(device, model.config, model.weights,
                              {GpuDtype::kAsStored, nullptr, 5000});
  const size_t buffers = weights.bytes() / 5000;
  REQUIRE(buffers > 8);
  // A wait for each buffer but the first two, and two at the end; not one for each copy.
  CHECK(size_t(device.log().synchronizations) < 2 * buffers);
  CHECK(device.log().copies > 2 * device.log().synchronizations);
}

TEST_CASE("device weights: what they are called") {
  simt::SimtDevice device;
  const auto description = [&](const TinySpec& spec, GpuDtype dtype) {
    const TinyModel model(spec);
    const DeviceWeights weights(device, model.config, model.weights, {dtype, nullptr});
    return std::string(weights.description());
  };
  TinySpec head = q8_0_spec(), down = q8_0_spec();
  head.types["token_embd.weight"] = DType::kF16;
  head.tied = true;
  down.types["ffn_down.weight"] = DType::kF16;
  CHECK(description(q8_0_spec(), GpuDtype::kAsStored) == "int8");
  CHECK(description(q8_0_spec(), GpuDtype::kFp16) == "fp16");
  CHECK(description(head, GpuDtype::kAsStored) == "int8 and fp16");
  CHECK(description(down, GpuDtype::kAsStored) == "int8 and fp16");
  CHECK(description(down, GpuDtype::kInt8) == "int8");
  TinySpec four;
  four.type = DType::kQ4_0;
  CHECK(description(four, GpuDtype::kAsStored) == "4-bit");
  CHECK(description(four, GpuDtype::kInt8) == "4-bit");
  CHECK(description(four, GpuDtype::kFp16) == "fp16");
  four.types["ffn_down.weight"] = DType::kIQ4_NL;
  CHECK(description(four, GpuDtype::kAsStored) == "int8 and 4-bit");
  four.types["output.weight"] = DType::kF16;
  CHECK(description(four, GpuDtype::kAsStored) == "int8, 4-bit and fp16");
  four.types["ffn_down.weight"] = DType::kQ5_1;
  CHECK(description(four, GpuDtype::kAsStored) == "4-bit, 5-bit and fp16");
  four.types["ffn_down.weight"] = DType::kQ4_0;
  CHECK(description(four, GpuDtype::kAsStored) == "4-bit and fp16");
  four.dim = 256;
  four.types["attn_q.weight"] = DType::kQ6_K;
  CHECK(description(four, GpuDtype::kAsStored) == "4-bit, 6-bit and fp16");
}

TEST_CASE("device weights: too large for FP16 is refused with their number and what to do") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const TinyModel large = model_with("blk.1.ffn_down.weight", 100, {65520, 1, -1e20f, 65519});
  std::string text = refusal(large, GpuDtype::kAsStored);
  CAPTURE(text);
  CHECK(text.find("found 2 too large") != std::string::npos);
  CHECK(text.find("--dtype int8 or --device cpu") != std::string::npos);
  CHECK(refusal(large, GpuDtype::kFp16) == text);
  // Scales reach 127 times as far; 1e20 is too large for them too, and the rest of its block with
  // it is not.
  text = refusal(large, GpuDtype::kInt8);
  CAPTURE(text);
  CHECK(text.find("found 1 too large") != std::string::npos);
  CHECK(text.find("--device cpu") != std::string::npos);
  CHECK(text.find("--dtype") == std::string::npos);
  CHECK(refusal(model_with("output.weight", 7, {65520, -8e6f}), GpuDtype::kInt8) == "");
  // What is infinite or no number in the file is so on the device.
  const TinyModel infinite =
      model_with("blk.0.attn_k.weight", 3, {kInfinity, -kInfinity, std::nanf("")});
  for (GpuDtype dtype : {GpuDtype::kFp16, GpuDtype::kInt8}) CHECK(refusal(infinite, dtype) == "");
}

TEST_CASE("device weights: a conversion that loses weights is refused by its type's name") {
  TinySpec spec;
  spec.ffn_dim = 256;
  spec.types["ffn_down.weight"] = DType::kQ3_K;
  std::vector<TinyTensor> tensors = tiny_tensors(spec);
  for (TinyTensor& t : tensors) {
    if (t.name != "blk.1.ffn_down.weight") continue;
    BlockQ3_K block{};  // 65504 * -32 * -4 is more than 127 times what FP16 holds
    block.d = float_to_half(65504.0f);
    std::memcpy(t.bytes.data(), &block, sizeof block);
  }
  const TinyModel model(tiny_file(spec, tensors));
  for (GpuDtype dtype : {GpuDtype::kAsStored, GpuDtype::kInt8}) {
    const std::string text = refusal(model, dtype);
    CAPTURE(text);
    CHECK(text.find("expected Q3_K weights that INT8 blocks can hold") != std::string::npos);
  }
  CHECK(refusal(model, GpuDtype::kFp16).find("too large") != std::string::npos);
}

TEST_CASE("device weights: stopped by its progress, or by an allocation, nothing is left") {
  const TinyModel model(q8_0_spec(3));
  struct Stopped {};
  simt::DeviceLog log;
  size_t stop_at = 1, n_stops = 0;
  for (bool complete = false; !complete; stop_at += 5000) {
    simt::SimtDevice device({.log = &log});
    const auto stop = [&](size_t done, size_t) {
      if (done >= stop_at) throw Stopped();
    };
    try {
      const DeviceWeights weights(device, model.config, model.weights,
                                  {GpuDtype::kFp16, stop, 4096});
      complete = true;
    } catch (const Stopped&) {
      ++n_stops;
    }
    CHECK(log.live == 0);
  }
  CHECK(log.wrong == "");
  CHECK(n_stops > 20);

  int n_refused = 0;
  for (bool complete = false; !complete;) {
    simt::SimtDevice device({.refuse_allocation = n_refused + 1, .log = &log});
    try {
      const DeviceWeights weights(device, model.config, model.weights, {});
      complete = true;
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kLimit);
      ++n_refused;
    }
    CHECK(log.live == 0);
    CHECK(log.wrong == "");
  }
  CHECK(n_refused == 3 + 2 + 2);  // layers, head, embedding, and two buffers
}

TEST_CASE("device weights: random ones have the right sizes and are all finite") {
  TinySpec spec = q8_0_spec();
  spec.vocab_size = 90;
  const ModelConfig config = TinyModel(spec).config;
  for (GpuDtype dtype : {GpuDtype::kInt8, GpuDtype::kFp16}) {
    CAPTURE(gpu_dtype_name(dtype));
    simt::DeviceLog log;
    simt::SimtDevice device({.log = &log});
    const DeviceWeights weights(device, config, dtype, 1);
    const bool int8 = dtype == GpuDtype::kInt8;
    CHECK(weights.bytes() == weight_sizes(config, random_weights(config), dtype).total());
    CHECK(log.device_bytes == weights.bytes());
    CHECK(std::string(weights.description()) == gpu_dtype_name(dtype));
    const auto halves = [&](const uint16_t* from, size_t n, float least, float most) {
      for (uint16_t half : device.read(from, n)) {
        const float value = std::fabs(half_to_float(half));
        if (!(least <= value && value < most)) return false;
      }
      return true;
    };
    std::set<std::string> seen;  // how each begins
    REQUIRE(weights.layers().size() == size_t(config.n_layers));
    for (const DeviceLayer& l : weights.layers()) {
      for (const DeviceMatrix* m :
           {&l.wq, &l.wk, &l.wv, &l.wo, &l.w_gate, &l.w_up, &l.w_down, &weights.lm_head()}) {
        REQUIRE(m->int8() == int8);
        const MatrixBytes bytes = matrix_bytes({DType::kF16, m->n_out(), m->n_in()}, int8);
        if (int8) {
          CHECK(halves(m->i8->d, bytes.scales / 2, 0x1p-14f, 0x1p-13f));
          const std::vector<int8_t> q = device.read(m->i8->q, 512);
          seen.emplace(q.begin(), q.end());
        } else {
          CHECK(halves(m->f16->w, bytes.values / 2, 0x1p-7f, 0x1p-5f));
          const std::vector<uint16_t> w = device.read(m->f16->w, 256);
          seen.emplace(reinterpret_cast<const char*>(w.data()), 512);
        }
      }
      for (const float* norm : {l.attn_norm, l.ffn_norm, weights.output_norm()}) {
        CHECK(device.read(norm, config.dim) == std::vector<float>(config.dim, 1.0f));
      }
      CHECK(l.bq == nullptr);
      CHECK(l.q_norm == nullptr);
    }
    CHECK(seen.size() == size_t(7 * config.n_layers + 1));
    CHECK(weights.embedding_type() == DType::kF16);
    CHECK(halves(static_cast<const uint16_t*>(weights.embedding()),
                 size_t(config.vocab_size) * config.dim, 0x1p-7f, 0x1p-5f));
    CHECK(weights.layers()[1].w_down.n_in() == config.ffn_dim);
  }
}

TEST_CASE("upload of one matrix: as the whole model's, of any type") {
  TinySpec spec;
  spec.vocab_size = 83;
  for (DType type : {DType::kQ8_0, DType::kF32, DType::kF16, DType::kQ4_0, DType::kQ4_K}) {
    spec.type = DType::kF16;
    spec.dim = 256;
    spec.types["output.weight"] = type;  // and attn_output
    spec.head_dim = 64;
    const TinyModel model(spec);
    simt::DeviceLog log;
    simt::SimtDevice device({.log = &log});
    std::vector<DeviceMemory<std::byte>> memory;
    for (bool int8 : {true, false}) {
      const size_t before = log.device_bytes;
      const Matrix& source = model.weights.lm_head;
      const DeviceMatrix found = upload_matrix(device, source, int8, memory);
      CHECK(difference(device, found, source, int8) == "");
      CHECK(log.device_bytes - before == device_bytes(source, int8));
    }
    CHECK(memory.size() == 2);
  }
  const TinyModel large = model_with("output.weight", 5, {1e5f});
  simt::DeviceLog log;
  simt::SimtDevice device({.log = &log});
  std::vector<DeviceMemory<std::byte>> memory;
  CHECK_THROWS_AS(upload_matrix(device, large.weights.lm_head, false, memory), Error);
  CHECK(log.live == 0);
}

}  // namespace device_weights_host_test
