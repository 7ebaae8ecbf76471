// The CUDA engine on every architecture beyond Llama's, against the CPU backend: INT8 by memcmp,
// FP16 closely, and the same bits whatever rows share a pass; exit checks, and the decode loop.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "drafters/exit_head.h"
#include "drafters/specbound.h"
#include "simt/cublas_rig.h"
#include "simt/cuda_rig.h"
#include "simt/hidden_rig.h"
#include "unit/loop_events.h"
#include "unit/temp_dir.h"
#include "unit/tiny_heads.h"

namespace cuda_architectures_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kPositions = 90;  // windows leave a whole attention chunk (64) behind
constexpr int kWindow = 20;

TinySpec spec_of(const char* architecture, int n_layers = 2) {
  TinySpec spec = q8_0_spec(n_layers);
  spec.architecture = architecture;
  return spec;
}

TinySpec gemma2_spec(int n_layers = 2, int window = kWindow) {
  TinySpec spec = spec_of("gemma2", n_layers);
  spec.tied = true;
  spec.output_bias = true;  // on the way into a post norm
  spec.window = window;
  spec.attn_softcap = 2;
  spec.final_softcap = 3;
  return spec;
}

// The last layer sees all, and has a rotation of its own, YaRN's.
TinySpec gemma3_spec(int n_layers = 2, int window = kWindow) {
  TinySpec spec = spec_of("gemma3", n_layers);
  spec.tied = true;
  spec.window = window;
  spec.window_step = n_layers;
  spec.rope_theta = 1000;
  spec.metadata = [](GgufWriter& w) {
    w.add_string("gemma3.rope.scaling.type", "yarn");
    w.add_float("gemma3.rope.scaling.factor", 4);
    w.add_uint("gemma3.rope.scaling.original_context_length", 64);
  };
  return spec;
}

TinySpec phi3_spec(int window = kWindow) {
  TinySpec spec = spec_of("phi3");
  spec.window = window;
  spec.rope_dim = 12;  // of 16
  spec.long_rope = true;
  return spec;
}

std::vector<TinySpec> all_specs() {
  std::vector<TinySpec> all = {spec_of("gemma", 1), gemma2_spec(),         gemma3_spec(),
                               phi3_spec(),         spec_of("smollm3", 4), spec_of("llama")};
  all[0].head_dim = 32;
  all[0].n_kv_heads = 1;
  all.back().window = kWindow;  // Mistral's
  return all;
}

Record run_all(Backend& backend, const std::vector<int32_t>& ids, int rows, int slot) {
  Record record(backend.config(), static_cast<int>(ids.size()));
  run_positions(backend, ids, 0, static_cast<int>(ids.size()), rows, slot, record);
  return record;
}

std::span<const float> row(Record& record, int pos) {
  return {record.logits_at(pos), static_cast<size_t>(record.vocab_size)};
}

ExitHeads heads_for(const TinyModel& model, int shortlist) {
  const TempDir folder;
  const std::string path = folder / "heads.gguf";
  write_exit_heads(path, random_heads(heads_base(model.gguf, model.config), shortlist));
  return ExitHeads::open(path, model.gguf, model.config);
}

}  // namespace

TEST_CASE("CUDA engine, architectures, INT8: the CPU backend's bits, whatever rows run together") {
  for (const TinySpec& spec : all_specs()) {
    CAPTURE(spec.architecture);
    const TinyModel model(spec);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const auto cpu = model.backend(best_isa(), 1);
    const Record expected = run_all(*cpu, ids, 1, 0);
    for (const int rows : {16, 7}) {
      CAPTURE(rows);
      const auto backend = cuda_backend(model);
      const Record found = run_all(*backend, ids, rows, rows == 7 ? 5 : 0);
      REQUIRE(Record::difference(found, expected, 0, kPositions) == "");
    }
  }
}

TEST_CASE("CUDA engine, architectures, FP16: close to the CPU, and a row's bits are its own") {
  for (TinySpec spec : all_specs()) {
    CAPTURE(spec.architecture);
    spec.type = DType::kF16;
    const TinyModel model(spec);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const auto cpu = model.backend(best_isa(), 1);
    Record expected = run_all(*cpu, ids, 16, 0);
    const auto backend = cuda_backend(model);
    Record found = run_all(*backend, ids, 16, 0);
    for (int pos = 0; pos < kPositions; ++pos) {
      CAPTURE(pos);
      REQUIRE(relative_difference(row(found, pos), row(expected, pos)) < 1e-4);
    }
    Record again = found;
    constexpr int kAgain = 70;
    backend->truncate(kAgain);
    run_positions(*backend, ids, kAgain, kPositions, 5, 9, again);
    REQUIRE(Record::difference(again, found, kAgain, kPositions) == "");
  }
}

TEST_CASE("CUDA engine, architectures, prefill: near the CPU's, however it is cut") {
  for (TinySpec spec : all_specs()) {
    CAPTURE(spec.architecture);
    for (const DType type : {DType::kQ8_0, DType::kF16}) {
      if (type == DType::kF16 && spec.architecture != "gemma2") continue;
      spec.type = type;
      const TinyModel model(spec);
      constexpr int kPrompt = 77;
      const std::vector<int32_t> ids = token_ids(kPrompt + 1, model.config.vocab_size);
      const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
      Record expected = prefilled(*cpu, ids, {kPrompt}), found = prefilled(*gpu, ids, {kPrompt});
      // INT8: roundings may fall to the other side.
      REQUIRE(relative_difference(row(found, kPrompt), row(expected, kPrompt)) <
              (type == DType::kQ8_0 ? 2e-2 : 1e-3));
      gpu->truncate(0);
      REQUIRE(Record::difference(prefilled(*gpu, ids, {16, 1, 60}), found, 0, kPrompt + 1) == "");
    }
  }
}

TEST_CASE("CUDA engine, architectures, prefill by cuBLAS: near the CPU's") {
  const FakeCublas fake;
  CudaOptions by_cublas;
  by_cublas.prefill = PrefillPath::kCublas;
  std::vector<TinySpec> specs = all_specs();
  for (TinySpec& spec : specs) spec.type = DType::kF16;
  specs.push_back(spec_of("qwen3moe"));
  specs.back().type = DType::kQ8_0;  // experts take nothing else
  // Once more, with K/V of 8 bits: in whose steps it comes near.
  specs.push_back(gemma2_spec());
  specs.back().type = DType::kF16;
  for (const TinySpec& spec : specs) {
    CAPTURE(spec.architecture);
    const KvType kv = &spec == &specs.back() ? KvType::kInt8 : KvType::kFp16;
    const bool int8 = spec.type == DType::kQ8_0 || kv == KvType::kInt8;
    const TinyModel model(spec, kv);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const auto last_row = [&](Backend& backend) {
      backend.prefill(std::span(ids).first(kPositions - 1));
      std::vector<float> z(model.config.vocab_size);
      backend.embed(0, ids.back());
      backend.run_layers(0, 1, kPositions - 1, 1, model.config.n_layers);
      backend.logits(0, 1, z.data());
      return z;
    };
    const std::vector<float> expected = last_row(*model.backend(best_isa(), 1));
    // What one product may be off (cublas_host_test.cpp); the CPU quantizes rows.
    REQUIRE(relative_difference(last_row(*cuda_backend(model, by_cublas)), expected) <
            (int8 ? 5e-2 : 2e-3));
  }
}

TEST_CASE("CUDA engine, phi3: the long factors hold past the context that the short ones end at") {
  const TinyModel model(phi3_spec());
  const int original = model.config.rope_original_context;
  const std::vector<int32_t> ids = token_ids(20, model.config.vocab_size);
  std::vector<Record> records;
  for (const int n_ctx : {original, original + 1}) {
    const Record expected = run_all(*model.backend(best_isa(), 1, true, n_ctx), ids, 1, 0);
    CudaOptions options;
    options.n_ctx = n_ctx;
    records.push_back(run_all(*cuda_backend(model, options), ids, 16, 0));
    REQUIRE(Record::difference(records.back(), expected, 0, 20) == "");
  }
  CHECK(Record::difference(records[0], records[1], 0, 20) != "");
}

TEST_CASE("CUDA engine, capped logits: exit checks of all kinds, INT8 the CPU's bits") {
  constexpr int kVocab = 150, kList = 70;
  for (const DType type : {DType::kQ8_0, DType::kF16}) {
    CAPTURE(static_cast<int>(type));
    TinySpec spec = gemma2_spec(3);
    spec.type = type;
    spec.vocab_size = kVocab;
    const TinyModel model(spec);
    const ExitHeads heads = heads_for(model, kList);
    const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
    for (const auto* backend : {&cpu, &gpu}) {
      (*backend)->set_exit_heads(&heads, kList);
      (*backend)->embed(0, heads.shortlist()[5]);  // the CPU would say another one too
      (*backend)->run_layers(0, 1, 0, 1, 1);
      (*backend)->keep_state(0);
    }
    for (size_t i = 0; i < heads.heads().size(); ++i) {
      const HeadKind kind = heads.heads()[i].kind;
      CAPTURE(std::string(head_kind_name(kind)));
      const int head = static_cast<int>(i);
      const ExitPeak expected = cpu->exit_check(head, 0, 0.8f),
                     found = gpu->exit_check(head, 0, 0.8f);
      const std::span<const float> z = gpu->exit_logits(), wanted = cpu->exit_logits();
      for (const float x : z) REQUIRE(std::abs(x) <= model.config.final_softcap);
      if (type == DType::kQ8_0 && kind != HeadKind::kFull) {  // full heads have FP16 maps
        REQUIRE(same_bits(z.data(), wanted.data(), wanted.size()));
        REQUIRE(same_bits(&found.confidence, &expected.confidence, 1));
        REQUIRE(found.token == expected.token);
      } else {
        REQUIRE(relative_difference(z, wanted) < (type == DType::kQ8_0 ? 2e-2 : 1e-3));
        REQUIRE(std::abs(found.confidence - expected.confidence) < 0.02f);
      }
    }
  }
}

TEST_CASE("CUDA engine, architectures, the loop: the CPU's events, greedy and sampled") {
  // The list is the vocabulary: beside a shorter one the CPU also says tokens of the text.
  constexpr int kList = 150, kLayers = 4, kTokens = 10;
  const SamplingParams greedy{0, 0, 1, 0, 1, 64, 5}, penalized{0.8f, 0, 1, 0, 1.2f, 64, 5},
      filtered{0.9f, 40, 0.95f, 0, 1, 64, 5};
  struct Case {
    TinySpec spec;
    HeadKind kind;
    SamplingParams params;
  };
  for (Case c : std::vector<Case>{{gemma2_spec(kLayers, 4), HeadKind::kFolded, greedy},
                                  {gemma2_spec(kLayers, 4), HeadKind::kChained, penalized},
                                  {gemma2_spec(kLayers, 4), HeadKind::kFolded, filtered},
                                  {gemma3_spec(kLayers, 4), HeadKind::kChained, greedy},
                                  {spec_of("gemma"), HeadKind::kFolded, penalized},
                                  {phi3_spec(4), HeadKind::kChained, filtered},
                                  {spec_of("smollm3"), HeadKind::kFolded, greedy}}) {
    CAPTURE(c.spec.architecture);
    CAPTURE(std::string(head_kind_name(c.kind)));
    CAPTURE(c.params.temperature);
    c.spec.n_layers = kLayers;
    c.spec.vocab_size = kList;
    const TinyModel model(c.spec);
    const ExitHeads heads = heads_for(model, kList);
    const auto events = [&](Backend& backend) {
      backend.set_exit_heads(&heads, kList);
      TrainedHead head(heads, c.kind);
      SpecBoundParams settings;
      settings.check_layers = heads.layers(c.kind);
      settings.tau = 0.03f;
      settings.w_max = 4;
      SpecBound speculator(head, settings, kLayers);
      return loop_events(backend, &speculator, c.params, std::vector<int32_t>{7}, kTokens);
    };
    const std::vector<std::string> found = events(*cuda_backend(model));
    REQUIRE(found == events(*model.backend(best_isa(), 1)));
    CHECK(std::any_of(found.begin(), found.end(), [](const std::string& event) {
      return event.find(":0x") != std::string::npos;  // the confidence of a check
    }));
  }
}

}  // namespace cuda_architectures_host_test
