// The CUDA engine against the CPU backend: INT8 models by memcmp, FP16 ones closely; and against
// itself, by memcmp, whatever rows share a pass, with graphs and without.
// docs/architecture.md 4, 8.
#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "simt/cuda_rig.h"
#include "unit/farther.h"
#include "unit/sanitized.h"

namespace cuda_backend_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kPositions = 70;  // crosses an attention chunk (64)

struct Case {
  std::string name;
  TinySpec spec;
  double tolerance = 0;  // of logits, relative to the largest
  KvType kv = KvType::kFp16;
};

TinySpec experts_spec(int n_layers) {
  TinySpec spec = q8_0_spec(n_layers);
  spec.architecture = "qwen3moe";
  spec.n_experts = 7;
  spec.n_experts_used = 3;
  spec.types["ffn_gate_inp.weight"] = DType::kF32;
  return spec;
}

std::vector<Case> int8_cases() {
  std::vector<Case> all;
  TinySpec llama = q8_0_spec();
  all.push_back({"llama", llama});
  TinySpec qwen3 = q8_0_spec(1);
  qwen3.architecture = "qwen3";
  qwen3.dim = 1024;  // two chunks of K
  qwen3.head_dim = 24;
  qwen3.tied = true;
  all.push_back({"qwen3", qwen3});
  TinySpec qwen2 = q8_0_spec(1);
  qwen2.architecture = "qwen2";
  qwen2.output_bias = true;
  qwen2.rope_freqs = true;
  qwen2.n_heads = 8;
  qwen2.n_kv_heads = 1;
  qwen2.head_dim = 8;
  all.push_back({"qwen2", qwen2});
  TinySpec four;
  four.type = DType::kQ4_0;
  four.n_layers = 1;
  all.push_back({"Q4_0", four});
  TinySpec q4_k_m;  // as llama.cpp mixes it, and gate and up of two forms
  q4_k_m.type = DType::kQ4_K;
  q4_k_m.dim = q4_k_m.ffn_dim = 256;
  q4_k_m.head_dim = 64;
  q4_k_m.n_layers = 1;
  q4_k_m.types = {{"attn_v.weight", DType::kQ6_K},
                  {"ffn_up.weight", DType::kQ3_K},
                  {"output.weight", DType::kQ6_K}};  // attn_output too
  all.push_back({"Q4_K_M", q4_k_m});
  TinySpec q4_1;
  q4_1.type = DType::kQ4_1;
  q4_1.n_layers = 1;
  all.push_back({"Q4_1", q4_1});
  TinySpec five;
  five.type = DType::kQ5_K;
  five.dim = five.ffn_dim = 256;
  five.head_dim = 64;
  five.n_layers = 1;
  five.types = {{"attn_v.weight", DType::kQ5_0}, {"ffn_down.weight", DType::kQ5_1}};
  all.push_back({"5 bits", five});
  TinySpec experts = experts_spec(2);
  all.push_back({"qwen3moe", experts});
  experts.n_layers = 1;
  experts.type = DType::kQ4_K;
  experts.dim = experts.ffn_dim = 256;
  experts.head_dim = 64;
  experts.types = {{"ffn_down_exps.weight", DType::kQ6_K}};  // and a router of four bits
  all.push_back({"qwen3moe Q4_K", experts});
  for (const size_t i : {0, 2, 4}) {  // heads of 16, 8, 64
    all.push_back({all[i].name + ", K/V INT8", all[i].spec, 0, KvType::kInt8});
  }
  return all;
}

std::vector<Case> half_cases() {
  std::vector<Case> all;
  TinySpec llama;
  llama.type = DType::kF16;
  llama.ffn_dim = 172;  // no multiple of 32
  llama.head_dim = 8;
  all.push_back({"llama F16", llama, 1e-4});
  TinySpec mixed;  // floats and INT8 in one layer
  mixed.type = DType::kF16;
  mixed.architecture = "qwen2";
  mixed.dim = 96;
  mixed.types["ffn_down.weight"] = DType::kQ8_0;
  mixed.types["attn_v.weight"] = DType::kQ8_0;
  mixed.types["attn_output.weight"] = DType::kQ8_0;
  mixed.types["token_embd.weight"] = DType::kQ8_0;
  // The CPU quantizes the rows that its INT8 matrices read, here those that share rows with FP16
  // ones are FP16: close, but no closer than quantization is.
  all.push_back({"qwen2 F16 and Q8_0", mixed, 1e-1});
  // A number near the middle of two bytes falls to the other side.
  all.push_back({"llama F16, K/V INT8", llama, 2e-2, KvType::kInt8});
  return all;
}

std::span<const float> row_at(Record& record, int pos) {
  return {record.logits_at(pos), static_cast<size_t>(record.vocab_size)};
}

Record run_all(Backend& backend, const std::vector<int32_t>& ids, int rows, int slot) {
  Record record(backend.config(), static_cast<int>(ids.size()));
  run_positions(backend, ids, 0, static_cast<int>(ids.size()), rows, slot, record);
  return record;
}

}  // namespace

TEST_CASE("CUDA engine, INT8: the CPU backend's bits at every layer, whatever rows run together") {
  for (const Case& c : int8_cases()) {
    CAPTURE(c.name);
    const TinyModel model(c.spec, c.kv);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const auto cpu = model.backend(best_isa(), 1);
    const Record expected = run_all(*cpu, ids, 1, 0);
    for (const int rows : some_of({7, 16})) {
      CAPTURE(rows);
      const auto backend = cuda_backend(model);
      const Record found = run_all(*backend, ids, rows, rows == 7 ? 5 : 0);
      REQUIRE(Record::difference(found, expected, 0, kPositions) == "");
    }
    const auto backend = cuda_backend(model);
    REQUIRE(Record::difference(run_all(*backend, ids, 1, 15), expected, 0, kPositions) == "");
  }
}

TEST_CASE("CUDA engine, FP16: close to the CPU, and the same bits whatever rows run together") {
  for (const Case& c : half_cases()) {
    CAPTURE(c.name);
    const TinyModel model(c.spec, c.kv);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const auto cpu = model.backend(best_isa(), 1);
    const Record expected = run_all(*cpu, ids, 16, 0);
    const auto backend = cuda_backend(model);
    Record found = run_all(*backend, ids, 16, 0);
    Record close = expected;
    for (int pos = 0; pos < kPositions; ++pos) {
      CAPTURE(pos);
      REQUIRE(relative_difference(row_at(found, pos), row_at(close, pos)) < c.tolerance);
    }
    for (const int rows : {9, 5}) {
      CAPTURE(rows);
      backend->truncate(0);
      const Record again = run_all(*backend, ids, rows, 16 - rows);
      REQUIRE(Record::difference(again, found, 0, kPositions) == "");
    }
    backend->truncate(0);
    const std::vector<int32_t> few(ids.begin(), ids.begin() + 6);
    REQUIRE(Record::difference(run_all(*backend, few, 1, 3), found, 0, 6) == "");
  }
}

TEST_CASE("CUDA engine: stretches of layers, with graphs and without, are the layers one by one") {
  TinySpec spec = q8_0_spec(4);
  const TinyModel model(spec);
  const std::vector<int32_t> ids = token_ids(24, model.config.vocab_size);
  const auto cpu = model.backend(best_isa(), 1);
  const Record expected = run_all(*cpu, ids, 1, 0);
  for (const bool graphs : {true, false}) {
    CAPTURE(graphs);
    simt::DeviceLog log;
    {
      CudaOptions options;
      options.graphs = graphs;
      const auto backend = cuda_backend(model, options, &log);
      Record found = expected;
      for (int pos = 0; pos < 24; pos += 3) {
        for (int i = 0; i < 3; ++i) {
          backend->embed(i, ids[pos + i]);
          backend->run_layers(i, 1, pos + i, 1, 2);  // a row drafts behind the other
        }
        backend->run_layers(0, 3, pos, 3, 4);
        backend->logits(0, 3, found.logits_at(pos));
        for (int i = 0; i < 3; ++i) found.read_kv(*backend, pos + i);
      }
      REQUIRE(Record::difference(found, expected, 0, 24) == "");
      // Stretch 1-2 came 24 times, 3-4 8 times, the logits 8 times: all but the first as graphs.
      REQUIRE(log.graph_launches == (graphs ? 23 + 7 + 7 : 0));
    }
    REQUIRE(log.live == 0);
    REQUIRE(log.wrong == "");
  }
}

TEST_CASE("CUDA engine: without memory for graphs the kernels are launched by themselves") {
  const TinyModel model(q8_0_spec());
  const std::vector<int32_t> ids = token_ids(6, model.config.vocab_size);
  const Record expected = run_all(*cuda_backend(model), ids, 1, 0);
  for (const int refuse : {1, 2, 3}) {
    CAPTURE(refuse);
    simt::DeviceLog log;
    {
      simt::DeviceOptions device;
      device.refuse_record = refuse;
      const auto backend = cuda_backend(model, {}, &log, device);
      REQUIRE(Record::difference(run_all(*backend, ids, 1, 0), expected, 0, 6) == "");
      REQUIRE(log.records == refuse - 1);
    }
    REQUIRE(log.live == 0);
    REQUIRE(log.wrong == "");
  }
}

TEST_CASE("CUDA engine: H is there after the embedding, and after any layer") {
  const TinyModel model(q8_0_spec());
  const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
  const size_t dim = model.config.dim;
  for (const auto* backend : {&cpu, &gpu}) {
    (*backend)->embed(4, 11);
    (*backend)->embed(5, 12);
  }
  REQUIRE(same_bits(gpu->inspect().hidden(5).data(), cpu->inspect().hidden(5).data(), dim));
  for (const auto* backend : {&cpu, &gpu}) (*backend)->run_layers(4, 2, 0, 1, 1);
  for (const int slot : {4, 5}) {
    REQUIRE(same_bits(gpu->inspect().hidden(slot).data(), cpu->inspect().hidden(slot).data(), dim));
  }
}

TEST_CASE("CUDA engine, prefill with logits: decode's bits where no attention parts them") {
  for (const DType type : {DType::kQ8_0, DType::kF16}) {
    CAPTURE(static_cast<int>(type));
    TinySpec spec = q8_0_spec(2);
    spec.type = type;
    const TinyModel model(spec);
    const size_t vocab_size = model.config.vocab_size;
    constexpr int kRows = 41;
    const std::vector<int32_t> ids = token_ids(kRows, model.config.vocab_size);
    const auto backend = cuda_backend(model), cpu = model.backend(best_isa(), 1);
    const auto logits = [&](Backend& on, std::initializer_list<int> parts) {
      std::vector<float> z(kRows * vocab_size);
      on.truncate(0);
      int done = 0;
      for (const int part : parts) {
        on.prefill_rows(std::span(ids).subspan(done, part));
        for (int r = 0; r < part; r += 7) {
          on.prefill_logits(r, std::min(7, part - r), &z[(done + r) * vocab_size]);
        }
        done += part;
        for (int l = 1; l <= 2; ++l) REQUIRE(on.kv_len(l) == done);
      }
      REQUIRE(done == kRows);
      return z;
    };
    const std::vector<float> found = logits(*backend, {kRows}), expected = logits(*cpu, {kRows});
    for (int pos = 0; pos < kRows; ++pos) {
      CAPTURE(pos);
      const size_t at = pos * vocab_size;
      REQUIRE(relative_difference({&found[at], vocab_size}, {&expected[at], vocab_size}) <
              (type == DType::kF16 ? 1e-3 : 2e-2));  // INT8: roundings may fall to the other side
    }
    const std::vector<float> cut = logits(*backend, {16, 1, 24});
    REQUIRE(same_bits(cut.data(), found.data(), found.size()));

    // The first position attends to itself alone. H is another's.
    backend->truncate(0);
    std::vector<float> z(vocab_size);
    backend->embed(0, ids[0]);
    backend->run_layers(0, 1, 0, 1, 2);
    const std::vector<float> h(backend->inspect().hidden(0).begin(),
                               backend->inspect().hidden(0).end());
    backend->logits(0, 1, z.data());
    if (type == DType::kQ8_0) REQUIRE(same_bits(z.data(), found.data(), vocab_size));
    backend->truncate(0);
    backend->prefill_rows(std::span(ids).first(1));
    backend->prefill_logits(0, 1, z.data());
    REQUIRE(same_bits(z.data(), found.data(), vocab_size));
    REQUIRE(same_bits(backend->inspect().hidden(0).data(), h.data(), h.size()));
    backend->logits(0, 1, z.data());  // a graph's launch, behind one without
    if (type == DType::kQ8_0) REQUIRE(same_bits(z.data(), found.data(), vocab_size));

    // Keys and values are prefill's.
    Record a(model.config, kRows), b(model.config, kRows);
    logits(*backend, {kRows});
    for (int pos = 0; pos < kRows; ++pos) a.read_kv(*backend, pos);
    backend->truncate(0);
    backend->prefill(ids);
    for (int pos = 0; pos < kRows; ++pos) b.read_kv(*backend, pos);
    REQUIRE(Record::difference(a, b, 0, kRows) == "");
  }
}

TEST_CASE("CUDA engine, prefill: the CPU's keys and values but for attention, however it is cut") {
  std::vector<TinySpec> specs(3, q8_0_spec(3));
  specs[1].type = DType::kQ4_0;
  specs[2].type = DType::kF16;
  specs.push_back(experts_spec(3));
  specs.push_back(experts_spec(3));
  specs.back().types.clear();  // its router is INT8 too
  for (const TinySpec& spec : specs) {
    const DType type = spec.type;
    CAPTURE(spec.architecture);
    CAPTURE(static_cast<int>(type));
    const TinyModel model(spec);
    constexpr int kPrompt = 41;
    const std::vector<int32_t> ids = token_ids(kPrompt + 1, model.config.vocab_size);
    const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
    Record expected = prefilled(*cpu, ids, {kPrompt}), found = prefilled(*gpu, ids, {kPrompt});
    const size_t layer_1 = model.config.kv_dim();  // keys and values before any attention
    for (int pos = 0; type != DType::kF16 && pos < kPrompt; ++pos) {
      const size_t at = pos * 3 * layer_1;
      REQUIRE(same_bits(&found.k[at], &expected.k[at], layer_1));
      REQUIRE(same_bits(&found.v[at], &expected.v[at], layer_1));
    }
    REQUIRE(relative_difference(row_at(found, kPrompt), row_at(expected, kPrompt)) <
            (type != DType::kF16 ? 2e-2 : 1e-3));  // INT8: roundings may fall to the other side
    gpu->truncate(0);
    REQUIRE(Record::difference(prefilled(*gpu, ids, {16, 1, 24}), found, 0, kPrompt + 1) == "");
  }
}

// Their attention is that of decoding.
TEST_CASE("CUDA engine, K/V INT8: prompts have the CPU's bits, however they are cut") {
  for (const TinySpec& spec : {q8_0_spec(3), windowed_spec(2), experts_spec(2)}) {
    CAPTURE(spec.architecture);
    const TinyModel model(spec, KvType::kInt8);
    constexpr int kPrompt = 83;  // crosses an attention chunk, and ends within one of 16 rows
    const std::vector<int32_t> ids = token_ids(kPrompt + 1, model.config.vocab_size);
    const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
    const Record expected = prefilled(*cpu, ids, {kPrompt});
    for (const auto& parts :
         {std::vector<int>{kPrompt}, std::vector<int>{16, 1, 66}, std::vector<int>{61, 22}}) {
      gpu->truncate(0);
      REQUIRE(Record::difference(prefilled(*gpu, ids, parts), expected, 0, kPrompt + 1) == "");
    }
    std::vector<float> z(model.config.vocab_size), logits(z.size());
    for (Backend* backend : {gpu.get(), cpu.get()}) {
      backend->truncate(0);
      backend->prefill_rows(std::span(ids).first(kPrompt));
      backend->prefill_logits(kPrompt - 20, 1, backend == gpu.get() ? z.data() : logits.data());
    }
    REQUIRE(same_bits(z.data(), logits.data(), z.size()));
    CHECK(gpu->device().ends_with(", K/V int8)"));
  }
}

TEST_CASE("CUDA engine, K/V INT8: prompts of FP16 weights have the bits of decoding") {
  TinySpec spec = q8_0_spec(2);
  spec.type = DType::kF16;
  const TinyModel model(spec, KvType::kInt8);
  constexpr int kPrompt = 70;
  const std::vector<int32_t> ids = token_ids(kPrompt + 1, model.config.vocab_size);
  const auto gpu = cuda_backend(model);
  const Record decoded = run_all(*gpu, ids, 16, 0);
  Record expected(model.config, kPrompt + 1);
  expected.k = decoded.k;
  expected.v = decoded.v;
  gpu->truncate(0);
  Record found = prefilled(*gpu, ids, {kPrompt});
  found.hidden = expected.hidden;
  expected.logits = found.logits;
  REQUIRE(Record::difference(found, expected, 0, kPrompt + 1) == "");
  REQUIRE(same_bits(found.logits_at(kPrompt), &decoded.logits[size_t{kPrompt} * found.vocab_size],
                    found.vocab_size));
}

}  // namespace cuda_backend_host_test
