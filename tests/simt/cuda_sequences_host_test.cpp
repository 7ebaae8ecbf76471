// Several texts on the CUDA engine (docs/architecture.md 3.6): the test of the CPU's sequences, by
// decoding against its bits; prompts against those that the engine reads alone; replies side by
// side; as many as memory has room for.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "decode/sessions.h"
#include "drafters/tree_speculator.h"
#include "engine/cuda/memory_plan.h"
#include "engine/cuda/workspace.h"
#include "simt/cuda_rig.h"
#include "unit/expect_error.h"
#include "unit/sanitized.h"
#include "unit/sequences_rig.h"

namespace cuda_sequences_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

std::unique_ptr<Backend> with_sequences(const TinyModel& model, int n, int n_ctx = 0,
                                        simt::DeviceLog* log = nullptr,
                                        simt::DeviceOptions device = {}) {
  CudaOptions options;
  options.n_sequences = n;
  options.n_ctx = n_ctx;
  return cuda_backend(model, options, log, device);
}

std::vector<TinySpec> specs() {
  TinySpec grouped = q8_0_spec(2);
  grouped.n_heads = 10;
  grouped.n_kv_heads = 1;
  TinySpec qwen3 = q8_0_spec(2);
  qwen3.architecture = "qwen3";
  qwen3.head_dim = 24;
  const TinySpec gemma2 = windowed_spec(2);
  TinySpec experts = q8_0_spec(2);
  experts.architecture = "qwen3moe";
  experts.types["ffn_gate_inp.weight"] = DType::kF32;
  return {grouped, qwen3, gemma2, experts};
}

// What a text leaves: K and V of all its positions.
std::vector<uint16_t> kv_of(const Backend& backend) {
  const size_t kv_dim = backend.config().kv_dim();
  std::vector<uint16_t> kv;
  for (int l = 1; l <= backend.config().n_layers; ++l) {
    for (int pos = 0; pos < backend.kv_len(l); ++pos) {
      kv.resize(kv.size() + 2 * kv_dim);
      uint16_t* k = kv.data() + kv.size() - 2 * kv_dim;
      backend.inspect().read_kv(l, pos, {k, kv_dim}, {k + kv_dim, kv_dim});
    }
  }
  return kv;
}

}  // namespace

TEST_CASE("CUDA engine, sequences: a row has the bits that it has alone on the CPU") {
  uint64_t seed = 1;
  for (const TinySpec& spec : specs()) {
    CAPTURE(spec.architecture);
    for (const KvType kv : kKvTypesTested) {
      CAPTURE(kv_type_name(kv));
      const TinyModel model(spec, kv);
      simt::DeviceLog log;
      const bool prefill = kv == KvType::kInt8;  // has the CPU's bits there
      run_texts_at_random(expected_texts(model), *with_sequences(model, kTexts, 0, &log), ++seed,
                          prefill);
      CHECK(log.graph_launches > 0);
      CHECK(log.live == 0);
      CHECK(log.wrong == "");
    }
  }
}

TEST_CASE("CUDA engine, sequences: prompts and trees of one text leave the others alone") {
  const TinyModel model(q8_0_spec(2));
  const ModelConfig& c = model.config;
  const auto together = with_sequences(model, 3), alone = cuda_backend(model);
  Sequences* sequences = together->sequences();
  std::vector<std::vector<uint16_t>> expected;
  for (int s = 0; s < 3; ++s) {
    const std::vector<int32_t> ids = token_ids(20 + 30 * s, c.vocab_size, 5 + s);
    sequences->select(2 - s);
    alone->truncate(0);
    for (Backend* backend : {together.get(), alone.get()}) {
      backend->prefill(ids);
      const int pos = backend->kv_len(1);
      for (int slot = 0; slot < 4; ++slot) backend->embed(slot, 3 + slot + s);
      RowPaths paths;
      paths.follow(2, 0);
      paths.follow(3, 2);
      backend->follow(2, 0);
      backend->follow(3, 2);
      backend->run_layers(0, 4, pos, 1, 2);
      backend->keep_path(pos, paths[3]);
    }
    expected.push_back(kv_of(*alone));
  }
  for (int s = 0; s < 3; ++s) {
    sequences->select(2 - s);
    REQUIRE(together->kv_len(1) == 20 + 30 * s + 3);
    REQUIRE(kv_of(*together) == expected[s]);
  }
  sequences->copy_prefix(1, 40);  // into the first, which is selected
  REQUIRE(together->kv_len(1) == 40);
  alone->truncate(0);
  alone->prefill(token_ids(50, c.vocab_size, 6));
  alone->truncate(40);
  REQUIRE(kv_of(*together) == kv_of(*alone));
}

TEST_CASE("CUDA engine, sequences: a prompt that failed is over when another text's begins") {
  const TinyModel model(q8_0_spec(2));
  const int vocab_size = model.config.vocab_size;
  const auto backend = with_sequences(model, 2);
  backend->prefill(token_ids(20, vocab_size, 5));
  const std::vector<uint16_t> expected = kv_of(*backend);
  auto& device = *static_cast<simt::SimtDevice*>(backend->gpu());
  device.options().fail_launch = device.log().launches + 12;  // behind a layer's keys and values
  expect_error(ErrorCode::kDevice, [&] { backend->prefill(token_ids(30, vocab_size, 6)); });
  backend->truncate(20);
  backend->sequences()->select(1);
  backend->prefill(token_ids(10, vocab_size, 8));
  backend->sequences()->select(0);
  REQUIRE(kv_of(*backend) == expected);
}

TEST_CASE("CUDA engine, sequences: replies side by side are those that Session writes alone") {
  constexpr int kContext = 40;
  for (const KvType kv : kKvTypesTested) {
    CAPTURE(kv_type_name(kv));
    const TinyModel model(q8_0_spec(2), kv);
    std::vector<BatchRequest> wanted = batch_requests(model, 12, kContext);
    for (size_t i = 0; i < 9; ++i) {  // the device draws for all that share their passes
      wanted[i].sampling.repeat_penalty = 1;
      wanted[i].sampling.frequency_penalty = 0;
    }
    wanted[2].options.max_tokens = 12;
    wanted[8] = wanted[10] = wanted[2];  // what the first one left is right
    LookupMemory memory;
    TreeSpeculator tree(nullptr, &memory, kMaxRows, false);
    for (size_t i = 0; i < wanted.size(); i += 2) wanted[i].speculator = [&] { return &tree; };
    const auto together = with_sequences(model, 5, kContext),
               alone = with_sequences(model, 1, kContext);
    int drafted = 0, accepted = 0;  // in replies that were never alone
    for (const GenerateStats& stats : check_replies(*together, *alone, wanted)) {
      if (stats.side_by_side < stats.counters.rounds) continue;
      drafted += stats.counters.drafted_tokens;
      accepted += stats.counters.accepted_tokens;
    }
    CHECK(drafted > 20);
    CHECK(accepted > 5);
    const uint64_t block = kv_cache_bytes(model.config, 1, kv);
    for (const uint64_t most : some_of({2 * block, uint64_t{0}})) {
      check_replies(*together, *alone, wanted, most);
      uint64_t kept = 0;
      for (int i = 0; i < 5; ++i) kept += together->sequences()->kv_bytes(i);
      CHECK(kept == most);
    }
  }
}

TEST_CASE(
    "CUDA engine, sequences: drafts are a launch a layer more, and one for who follows whom") {
  const TinyModel model(q8_0_spec(3));
  simt::DeviceLog log;
  const auto backend = with_sequences(model, 3, 0, &log);
  const auto kernels = [&](const std::vector<Sequences::Part>& parts) {
    for (int s = 0; s < 3; ++s) backend->sequences()->cut(s, 0);
    for (int slot = 0; slot < 3; ++slot) backend->embed(slot, 7 + slot);
    backend->wait();
    const int before = log.kernels_run;
    backend->sequences()->run_side_by_side(parts);
    backend->wait();
    return log.kernels_run - before;
  };
  const int plain = kernels({{0}, {1}, {2}});
  for (int time = 0; time < 3; ++time) {  // companies of as many rows take turns
    CHECK(kernels({{2, 2}, {0}}) == plain + 4);
    CHECK(kernels({{1}, {2}, {0}}) == plain);
  }
}

TEST_CASE("CUDA engine, sequences: as many as memory has room for") {
  constexpr int kContext = 64;
  for (const KvType kv : kKvTypesTested) {
    const TinyModel model(q8_0_spec(2), kv);
    CHECK(cuda_backend(model)->sequences()->n_sequences() == 1);
    MemoryRequest request{GpuDtype::kAsStored, kContext};
    request.kv = kv;
    const MemoryPlan one = plan_memory(model.config, model.weights, request);
    const size_t each = kv_cache_bytes(model.config, kContext, kv);
    for (const int further : {0, 3, 100}) {
      CAPTURE(further);
      simt::DeviceLog log;
      simt::DeviceOptions device;
      device.total_bytes = one.total() + 2 * further * each;
      {
        const auto backend = with_sequences(model, 16, kContext, &log, device);
        const int n = std::min(16, 1 + further);
        CHECK(backend->sequences()->n_sequences() == n);
        const bool told = backend->description().ends_with(format(" each of %d texts", n));
        CHECK(told == (n > 1));
      }
      CHECK(log.live == 0);
      CHECK(log.wrong == "");
    }
  }
}

}  // namespace cuda_sequences_host_test
