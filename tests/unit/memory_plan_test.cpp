// What a model takes on a GPU, and what is said when it does not fit.
#include "engine/cuda/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "engine/cuda/workspace.h"
#include "engine_rig.h"
#include "error.h"
#include "terminal/flag_names.h"

namespace memory_plan_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr size_t kReserve = size_t{256} << 20;

ModelConfig shape_7b() {
  ModelConfig c;
  c.architecture = "llama";
  c.dim = 4096;
  c.ffn_dim = 11008;
  c.n_layers = 32;
  c.n_heads = c.n_kv_heads = 32;
  c.head_dim = 128;
  c.vocab_size = 32000;
  c.max_seq_len = 4096;
  c.norm_eps = 1e-5f;
  return c;
}

// Which matrices become INT8, in the order of the pass: "i" or "f" each.
class Types final : public WeightSink {
 public:
  std::string types;
  DeviceMatrix matrix(const Matrix&, bool int8) override {
    types += int8 ? 'i' : 'f';
    return {};
  }
  const float* floats(const float*, int) override { return nullptr; }
  const void* table(const Matrix&) override {
    types += 't';
    return nullptr;
  }
};

// q k v o, the router of experts, gate up down, then the head; "t": as the file has it.
std::string types_of(const TinyModel& model, GpuDtype dtype) {
  Types sink;
  place_layer(model.config, model.weights.layers[0], dtype, sink);
  place_head(model.config, model.weights, dtype, sink);
  return sink.types;
}

std::string types_of(const TinySpec& spec, GpuDtype dtype = GpuDtype::kAsStored) {
  return types_of(TinyModel(spec), dtype);
}

TinySpec q8_0_but(const std::string& ending, DType type) {
  TinySpec spec = q8_0_spec();
  spec.types[ending] = type;
  return spec;
}

size_t int8_bytes(int n_out, int n_in) {  // both parts end at multiples of 256
  const size_t blocks = size_t((n_out + 15) / 16) * (n_in / 32);
  return blocks * 512 + (blocks * 32 + 255) / 256 * 256;
}

size_t fp16_bytes(int n_out, int n_in) {
  return size_t((n_out + 15) / 16) * ((n_in + 31) / 32) * 1024;
}

size_t float_bytes(int n) {
  return (size_t(n) * 4 + 255) / 256 * 256;
}

std::string refusal(const ModelConfig& config, const Weights& weights, const MemoryRequest& request,
                    size_t free, size_t total) {
  try {
    require_fits(config, weights, request, free, total);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kLimit);
    return with_flags(e.what());
  }
  return "fits";
}

// Heads that take as much whatever the context is.
std::function<size_t(int)> heads_of(size_t bytes) {
  return [bytes](int) { return bytes; };
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("GPU weights: which matrices are INT8") {
  const TinySpec q8_0 = q8_0_spec();
  CHECK(types_of(q8_0) == "iiiiiiii");
  CHECK(types_of(q8_0, GpuDtype::kInt8) == "iiiiiiii");
  CHECK(types_of(q8_0, GpuDtype::kFp16) == "ffffffff");
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    TinySpec spec;
    spec.type = type;
    CHECK(types_of(spec) == "ffffffff");
    CHECK(types_of(spec, GpuDtype::kInt8) == "iiiiiiii");
    CHECK(types_of(spec, GpuDtype::kFp16) == "ffffffff");
  }
  TinySpec four;  // what is quantized takes INT8 rows, in whatever form
  four.dim = four.ffn_dim = 256;
  four.head_dim = 64;
  for (DType type : {DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ5_1, DType::kQ2_K}) {
    four.type = type;
    CHECK(types_of(four) == "iiiiiiii");
    CHECK(types_of(four, GpuDtype::kInt8) == "iiiiiiii");
    CHECK(types_of(four, GpuDtype::kFp16) == "ffffffff");
  }
  TinySpec experts = q8_0_spec();
  experts.architecture = "qwen3moe";
  CHECK(types_of(experts) == "iiiiiiiii");
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    experts.types["ffn_gate_inp.weight"] = type;
    CHECK(types_of(experts) == "iiiitiiii");
    CHECK(types_of(experts, GpuDtype::kInt8) == "iiiitiiii");
  }
  experts.types["ffn_down_exps.weight"] = DType::kF16;
  const TinyModel mixed(experts);
  const auto why_not = [&](GpuDtype dtype) {
    return why_not_on_gpu(mixed.config, mixed.weights, dtype);
  };
  CHECK(has(why_not(GpuDtype::kAsStored), "its experts are F16,"));
  CHECK(has(why_not(GpuDtype::kFp16), "its experts are fp16,"));
  CHECK(why_not(GpuDtype::kInt8) == "");
  // Those that read the same rows agree; down and o go their own ways.
  CHECK(types_of(q8_0_but("attn_q.weight", DType::kF16)) == "fffiiiii");
  CHECK(types_of(q8_0_but("attn_k.weight", DType::kF32)) == "fffiiiii");
  CHECK(types_of(q8_0_but("attn_v.weight", DType::kBF16)) == "fffiiiii");
  CHECK(types_of(q8_0_but("attn_output.weight", DType::kF16)) == "iiifiiii");
  CHECK(types_of(q8_0_but("ffn_gate.weight", DType::kF16)) == "iiiiffii");
  CHECK(types_of(q8_0_but("ffn_up.weight", DType::kF16)) == "iiiiffii");
  CHECK(types_of(q8_0_but("output.weight", DType::kF16)) == "iiifiiif");  // attn_output too
  // Gate and up leave what down reads quantized.
  CHECK(types_of(q8_0_but("ffn_down.weight", DType::kF16)) == "iiiifffi");
  CHECK(types_of(q8_0_but("ffn_down.weight", DType::kF16), GpuDtype::kInt8) == "iiiiiiii");

  TinySpec odd;  // as INT8, rows that are not whole blocks stay FP16
  odd.ffn_dim = 172;
  CHECK(types_of(odd, GpuDtype::kInt8) == "iiiifffi");
  odd = {};
  odd.n_heads = 3;
  odd.n_kv_heads = 1;
  odd.head_dim = 8;
  CHECK(types_of(odd, GpuDtype::kInt8) == "iiifiiii");
  odd = {};
  odd.dim = 80;
  CHECK(types_of(odd, GpuDtype::kInt8) == "fffiffif");
}

TEST_CASE("GPU memory: the plan counts every part") {
  TinySpec spec = q8_0_spec(3);
  spec.architecture = "qwen2";
  spec.types["ffn_down.weight"] = DType::kF16;
  spec.types["token_embd.weight"] = DType::kBF16;
  const TinyModel model(spec);
  const ModelConfig& c = model.config;
  const size_t floats =
      2 * float_bytes(c.dim) + float_bytes(c.q_dim()) + 2 * float_bytes(c.kv_dim());
  const size_t layer = floats + int8_bytes(c.q_dim(), c.dim) + 2 * int8_bytes(c.kv_dim(), c.dim) +
                       int8_bytes(c.dim, c.q_dim()) + 2 * fp16_bytes(c.ffn_dim, c.dim) +
                       fp16_bytes(c.dim, c.ffn_dim);
  const size_t head = float_bytes(c.dim) + int8_bytes(c.vocab_size, c.dim);
  const size_t table = size_t{2} * c.vocab_size * c.dim;

  const MemoryPlan plan =
      plan_memory(c, model.weights, {GpuDtype::kAsStored, 100, heads_of(12345)});
  CHECK(plan.weights == 3 * layer + head + table);
  CHECK(plan.heads == 12345);
  CHECK(plan.kv == size_t{3} * 2 * 128 * c.kv_dim() * 2);  // whole chunks of 64
  CHECK(plan.workspace == cuda_workspace_bytes(c, 100));
  CHECK(plan.reserve == kReserve);
  CHECK(plan.total() == plan.weights + plan.heads + plan.kv + plan.workspace + plan.reserve);

  const WeightSizes sizes = weight_sizes(c, model.weights, GpuDtype::kAsStored);
  CHECK(sizes.layers == std::vector<size_t>(3, layer));
  CHECK(sizes.head == head);
  CHECK(sizes.embedding == table);
  size_t source = table + model.weights.lm_head.bytes() + 4 * size_t(c.dim);
  for (const LayerWeights& w : model.weights.layers) {
    source += w.wq.bytes() + w.wk.bytes() + w.wv.bytes() + w.wo.bytes() + w.w_gate.bytes() +
              w.w_up.bytes() + w.w_down.bytes() +
              4 * size_t(2 * c.dim + c.q_dim() + 2 * c.kv_dim());
  }
  CHECK(sizes.source == source);
  CHECK(sizes.widest_tile == 1024 * 3);  // of down: 16 rows of 96 halves
}

TEST_CASE("GPU memory: a 7B takes 7.3 GB as int8 and 13.5 GB as fp16, and 2.1 GB of K/V") {
  const ModelConfig c = shape_7b();
  const Weights weights = random_weights(c);
  const double table = 2.0 * c.vocab_size * c.dim;  // F16
  const double matrices = 32.0 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) + 32000.0 * 4096;
  const auto near = [](size_t bytes, double expected) {
    return double(bytes) > expected && double(bytes) < 1.0005 * expected;  // and the norms
  };
  const MemoryPlan int8 = plan_memory(c, weights, {GpuDtype::kInt8, 4096});
  CHECK(near(int8.weights, matrices * 34 / 32 + table));
  const MemoryPlan fp16 = plan_memory(c, weights, {GpuDtype::kFp16, 4096});
  CHECK(near(fp16.weights, matrices * 2 + table));
  CHECK(int8.kv == size_t{2147483648});
  CHECK(int8.workspace < size_t{400} << 20);
}

TEST_CASE("GPU memory: an 8B of Q4_K_M takes 5.0 GB, and fits a card of 8 GB with 8192 tokens") {
  ModelConfig c = shape_7b();
  c.ffn_dim = 14336;
  c.n_kv_heads = 8;
  c.vocab_size = 128256;
  c.max_seq_len = 8192;
  // As llama.cpp mixes it: v and down of half of the layers, and the head, are Q6_K.
  Weights weights = random_weights(c);
  for (int l = 0; l < c.n_layers; ++l) {
    LayerWeights& w = weights.layers[l];
    for (Matrix* m : {&w.wq, &w.wk, &w.wv, &w.wo, &w.w_gate, &w.w_up, &w.w_down}) {
      m->type = DType::kQ4_K;
    }
    if (l % 2 == 0) w.wv.type = w.w_down.type = DType::kQ6_K;
  }
  weights.token_embd.type = DType::kQ4_K;
  weights.lm_head.type = DType::kQ6_K;
  const double vocab = 128256.0 * 4096, v = 1024.0 * 4096, down = 14336.0 * 4096;
  const double four = 32 * (2 * 4096.0 * 4096 + v + 2 * down) + 16 * (v + down);
  const double six = 16 * (v + down) + vocab;
  const double expected = four * 148 / 256 + six * 210 / 256 + vocab * 144 / 256;
  const MemoryRequest request{GpuDtype::kAsStored, 8192};
  const MemoryPlan plan = plan_memory(c, weights, request);
  CHECK(double(plan.weights) > expected);
  CHECK(double(plan.weights) < 1.0005 * expected);
  CHECK(double(plan.weights) < 5.05e9);
  // The display and the driver have their part of the card.
  CHECK(refusal(c, weights, request, 7'400'000'000, 8'000'000'000) == "fits");
  // As INT8 it is the same; as FP16 it is not.
  CHECK(plan_memory(c, weights, {GpuDtype::kInt8, 8192}).weights == plan.weights);
  CHECK(plan_memory(c, weights, {GpuDtype::kFp16, 8192}).weights > size_t{15'000'000'000});
}

TEST_CASE("GPU memory: the largest context fits, and no larger one does") {
  TinySpec spec;
  spec.max_seq_len = 1000;
  const TinyModel model(spec);
  MemoryRequest request;
  const auto total = [&](int n_ctx) {
    request.n_ctx = n_ctx;
    return plan_memory(model.config, model.weights, request).total();
  };
  const auto largest = [&](int asked, size_t free) {
    request.n_ctx = asked;
    return largest_context(model.config, model.weights, request, free);
  };
  // Without heads, and with a draft layer, which keeps states of every position.
  for (const int of_position : {0, 20000}) {
    request.heads = [=](int n_ctx) { return size_t(n_ctx) * of_position; };
    for (int n_ctx : {64, 128, 640, 960}) {
      CAPTURE(n_ctx);
      CHECK(largest(100, total(n_ctx)) == n_ctx);
      CHECK(largest(5000, total(n_ctx)) == n_ctx);
      CHECK(largest(100, total(n_ctx) - 1) == n_ctx - 64);
    }
  }
  CHECK(largest(100, total(1000)) == 1000);  // the model's own
  CHECK(largest(100, size_t{1} << 40) == 1000);
  CHECK(largest(5000, size_t{1} << 40) == 5000);  // what was asked for
  CHECK(largest(100, 0) == 0);
  CHECK(largest(100, total(64) - 1) == 0);
}

TEST_CASE("GPU memory: half of what one text leaves free is for the K/V of others") {
  const ModelConfig c = shape_7b();
  const Weights weights = random_weights(c);
  MemoryRequest request{GpuDtype::kInt8, 4096};
  const MemoryPlan one = plan_memory(c, weights, request);
  const auto fit = [&](int most, size_t free) {
    return sequences_that_fit(c, weights, request, most, free);
  };
  for (const int further : {0, 1, 7}) {
    const size_t free = one.total() + 2 * further * one.kv;
    CHECK(fit(100, free) == 1 + further);
    CHECK(fit(100, free + 2 * one.kv - 1) == 1 + further);
    CHECK(fit(3, free) == std::min(3, 1 + further));
  }
  CHECK(fit(100, one.total() - 1) == 1);
  request.n_sequences = 5;
  const MemoryPlan five = plan_memory(c, weights, request);
  CHECK(five.kv == 5 * one.kv);
  CHECK(five.total() == one.total() + 4 * one.kv);
  CHECK(fit(100, one.total() + 2 * one.kv) == 2);
  // What is loaded later has its place before them, but not before the first.
  request.later = 1000;
  CHECK(plan_memory(c, weights, request).total() == five.total());
  CHECK(fit(100, one.total() + 999 + 2 * one.kv) == 1);
  CHECK(fit(100, one.total() + 1000 + 2 * one.kv) == 2);
  CHECK(fit(100, one.total()) == 1);
}

TEST_CASE("GPU memory: a refusal has the numbers and what would help") {
  constexpr size_t kMB = 1'000'000, kGB = 1000 * kMB;
  const ModelConfig c = shape_7b();
  const Weights weights = random_weights(c);
  const MemoryRequest fp16{GpuDtype::kFp16, 4096, heads_of(100 * kMB)};
  const MemoryPlan plan = plan_memory(c, weights, fp16);
  CHECK(refusal(c, weights, fp16, plan.total(), 24 * kGB) == "fits");

  std::string text = refusal(c, weights, fp16, plan.total() - 1, 24 * kGB);
  CAPTURE(text);
  CHECK(text ==
        format("not enough memory on the GPU: needs %.1f GB (weights 13.5 GB, exit heads "
               "100.0 MB, K/V for -c 4096 2.1 GB, workspace %.1f MB, reserve 268.4 MB), "
               "found %.1f GB of 24.0 GB free; -c 4032 is the largest context that fits; "
               "--device cpu or -ngl 32 or --dtype int8 (%.1f GB) or --kv int8 (%.1f GB) or "
               "closing other programs would help",
               1e-9 * double(plan.total()), 1e-6 * double(plan.workspace),
               1e-9 * double(plan.total()),
               1e-9 * double(plan_memory(c, weights, {GpuDtype::kInt8, 4096, fp16.heads}).total()),
               1e-9 * double(plan.total() - plan.kv * 30 / 64)));

  // A GPU that is too small is not helped by closing programs.
  text = refusal(c, weights, fp16, 14 * kGB + 500 * kMB, 15 * kGB);
  CHECK(has(text, "largest context that fits"));
  CHECK(!has(text, "closing"));
  // No context helps.
  text = refusal(c, weights, fp16, 8 * kGB, 8 * kGB);
  const int layers = most_layers(c, weights, fp16, 8 * kGB);
  CHECK(layers > 10);
  CHECK(has(text, format("no context (-c N) is small enough; --device cpu or -ngl %d or --dtype "
                         "int8 (",
                         layers)));
  // Not even one layer.
  CHECK(has(refusal(c, weights, fp16, kGB / 2, kGB), "small enough; --device cpu or --dtype int8"));
  // cuBLAS reads the prompts of whole models.
  MemoryRequest cublas = fp16;
  cublas.cublas = 1;
  CHECK(!has(refusal(c, weights, cublas, 8 * kGB, 8 * kGB), "-ngl"));
  // As int8 already, and no heads.
  text = refusal(c, weights, {GpuDtype::kInt8, 4096}, 7 * kGB, 8 * kGB);
  CHECK(has(text, "--device cpu or -ngl "));
  CHECK(!has(text, "--dtype"));
  CHECK(!has(text, "exit heads"));
  CHECK(has(text, " or --kv int8 ("));
  // K/V of 8 bits already.
  MemoryRequest smallest{GpuDtype::kInt8, 65536};
  smallest.kv = KvType::kInt8;
  CHECK(!has(refusal(c, weights, smallest, 7 * kGB, 8 * kGB), "--kv"));
}

TEST_CASE("GPU memory: K/V of 8 bits take 34 bytes where FP16 takes 64, and leave more positions") {
  const ModelConfig c = shape_7b();
  const Weights weights = random_weights(c);
  MemoryRequest request{GpuDtype::kInt8, 4096};
  const MemoryPlan fp16 = plan_memory(c, weights, request);
  request.kv = KvType::kInt8;
  const MemoryPlan int8 = plan_memory(c, weights, request);
  CHECK(int8.kv == fp16.kv / 64 * 34);
  CHECK(int8.total() == fp16.total() - fp16.kv + int8.kv);
  request.n_ctx = 65536;
  const size_t free = 24'000'000'000;
  const int positions = largest_context(c, weights, request, free);
  request.kv = KvType::kFp16;
  CHECK(positions > 1.8 * largest_context(c, weights, request, free));
  // Heads that do not fill their last scale.
  ModelConfig odd = c;
  odd.head_dim = 40;
  CHECK(kv_cache_bytes(odd, 100, KvType::kInt8) == size_t{2} * 32 * 32 * 128 * (40 + 2 * 2));
  CHECK(kv_cache_bytes(odd, 100, KvType::kFp16) == size_t{2} * 32 * 32 * 128 * 40 * 2);
}

TEST_CASE("GPU memory: first layers take their own weights and K/V, and nothing of the output") {
  constexpr size_t kGB = 1'000'000'000;
  const ModelConfig c = shape_7b();
  const Weights weights = random_weights(c);
  MemoryRequest part{GpuDtype::kInt8, 4096, heads_of(kGB)};  // exit heads are the CPU's
  const MemoryPlan whole = plan_memory(c, weights, part);
  const WeightSizes sizes = weight_sizes(c, weights, GpuDtype::kInt8);
  size_t before = 0;
  for (const int n : {0, 1, 16, 31, 32}) {
    CAPTURE(n);
    part.layers = n;
    const MemoryPlan plan = plan_memory(c, weights, part);
    CHECK(plan.weights == n * sizes.layers[0]);
    CHECK(plan.kv == whole.kv / 32 * n);
    CHECK(plan.heads == 0);
    CHECK(plan.workspace == layers_workspace_bytes(c, 4096, 16));
    CHECK(plan.workspace < whole.workspace);
    CHECK(plan.reserve == kReserve);
    CHECK(plan.total() > before);
    before = plan.total();
    if (n == 0) continue;
    // Just enough for them, and a byte too little.
    CHECK(most_layers(c, weights, part, plan.total()) == n);
    CHECK(most_layers(c, weights, part, plan.total() - 1) == n - 1);
    CHECK(refusal(c, weights, part, plan.total(), plan.total()) == "fits");
    const std::string text = refusal(c, weights, part, plan.total() - 1, 8 * kGB);
    CHECK(has(text, format("(%d layers' weights ", n)));
    CHECK(has(text, format(" or -ngl %d ", n - 1)) == (n > 1));
  }
  CHECK(most_layers(c, weights, part, 0) == 0);
  CHECK(most_layers(c, weights, part, size_t{1} << 50) == 32);
  CHECK(before < whole.total());
  // A longer context leaves room for fewer.
  MemoryRequest longer = part;
  longer.n_ctx = 32768;
  CHECK(most_layers(c, weights, longer, 6 * kGB) < most_layers(c, weights, part, 6 * kGB));
}

}  // namespace memory_plan_test
