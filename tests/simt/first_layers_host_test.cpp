// A model whose first layers run on a GPU and the rest on the CPU: the bits and texts of the CPU
// alone, however many layers they are, whatever drafts. docs/architecture.md 4, 8.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "drafters/space.h"
#include "simt/cuda_rig.h"
#include "unit/drafter_rows.h"
#include "unit/expect_error.h"
#include "unit/temp_dir.h"
#include "unit/tiny_heads.h"

namespace first_layers_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kPositions = 70;  // crosses an attention chunk (64)

TinySpec experts_spec() {
  TinySpec spec = q8_0_spec(3);
  spec.architecture = "qwen3moe";
  spec.types["ffn_gate_inp.weight"] = DType::kF32;
  return spec;
}

struct Case {
  TinySpec spec;
  KvType kv = KvType::kFp16;
};

std::vector<Case> cases() {
  TinySpec llama = q8_0_spec(4);
  TinySpec q4_k_m;  // as llama.cpp mixes it
  q4_k_m.type = DType::kQ4_K;
  q4_k_m.dim = q4_k_m.ffn_dim = 256;
  q4_k_m.head_dim = 64;
  q4_k_m.n_layers = 2;
  q4_k_m.types = {{"attn_v.weight", DType::kQ6_K}, {"output.weight", DType::kQ6_K}};
  const TinySpec gemma2 = windowed_spec(3);
  return {{llama},
          {q4_k_m},
          {gemma2},
          {experts_spec()},
          {llama, KvType::kInt8},
          {gemma2, KvType::kInt8}};
}

// 0 to all layers.
std::vector<int> splits(int n_layers) {
  std::vector<int> all;
  for (const int n : {0, 1, n_layers / 2, n_layers - 1, n_layers}) {
    if (all.empty() || n > all.back()) all.push_back(n);
  }
  return all;
}

}  // namespace

TEST_CASE(
    "first layers on a GPU: the bits of the CPU alone at every layer, however many they are") {
  for (const Case& one : cases()) {
    const TinySpec& spec = one.spec;
    CAPTURE(spec.architecture);
    CAPTURE(kv_type_name(one.kv));
    const TinyModel model(spec, one.kv);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    Record expected(model.config, kPositions);
    run_positions(*model.backend(best_isa(), 1), ids, 0, kPositions, 1, 0, expected);
    for (const int n_first : splits(spec.n_layers)) {
      CAPTURE(n_first);
      simt::DeviceLog log;
      {
        const auto backend = split_backend(model, n_first, 1 + n_first % 2, 0, &log);
        for (const int rows : {16, 7}) {
          backend->truncate(0);
          Record found(model.config, kPositions);
          run_positions(*backend, ids, 0, kPositions, rows, rows == 7 ? 5 : 0, found);
          REQUIRE(Record::difference(found, expected, 0, kPositions) == "");
        }
        REQUIRE((log.graph_launches > 0) == (n_first > 0));
        REQUIRE((backend->gpu() != nullptr) == (n_first > 0));
      }
      REQUIRE(log.live == 0);
      REQUIRE(log.wrong == "");
    }
  }
}

TEST_CASE("first layers on a GPU: prompts too have the CPU's bits, however they are cut") {
  constexpr int kPrompt = 69;
  for (const Case& one : cases()) {
    const TinySpec& spec = one.spec;
    CAPTURE(spec.architecture);
    CAPTURE(kv_type_name(one.kv));
    const TinyModel model(spec, one.kv);
    const ModelConfig& c = model.config;
    const std::vector<int32_t> ids = token_ids(kPrompt + 1, c.vocab_size);
    const auto cpu = model.backend(best_isa(), 1);
    const Record expected = prefilled(*cpu, ids, {kPrompt});
    std::vector<float> z(c.vocab_size), logits(z.size());
    cpu->truncate(0);
    cpu->prefill_rows(std::span(ids).first(kPrompt));
    cpu->prefill_logits(kPrompt - 1, 1, logits.data());
    for (const int n_first : splits(spec.n_layers)) {
      CAPTURE(n_first);
      const auto backend = split_backend(model, n_first);
      for (const auto& parts : {std::vector<int>{kPrompt}, std::vector<int>{16, 1, 52}}) {
        backend->truncate(0);
        const Record found = prefilled(*backend, ids, parts);
        REQUIRE(Record::difference(found, expected, 0, kPrompt + 1) == "");
      }
      backend->truncate(0);
      backend->prefill_rows(std::span(ids).first(kPrompt));
      backend->prefill_logits(kPrompt - 1, 1, z.data());
      REQUIRE(same_bits(z.data(), logits.data(), z.size()));
      // A chunk that is looked at between layers.
      const ChunkRows::Part prompt{0, std::span(ids).first(kPrompt)};
      for (Backend* on : {cpu.get(), backend.get()}) {
        on->truncate(0);
        on->chunk_rows()->embed_chunk({&prompt, 1});
      }
      for (int layer = 1; layer <= c.n_layers; ++layer) {
        for (Backend* on : {cpu.get(), backend.get()}) on->chunk_rows()->run_chunk(layer);
        for (int row = 0; row < kPrompt; ++row) {
          REQUIRE(same_bits(backend->chunk_rows()->chunk_row(row).data(),
                            cpu->chunk_rows()->chunk_row(row).data(), size_t(c.dim)));
        }
      }
    }
  }
}

// Equal tokens have equal rows, which all take the same experts, and threads get parts of unlike
// sizes of those.
TEST_CASE("first layers on a GPU: experts that every row of a prompt takes, by many threads") {
  const TinyModel model(experts_spec());
  const std::vector<int32_t> ids(101, 7);
  const Record expected = prefilled(*model.backend(best_isa(), 1), ids, {100});
  for (const int threads : {1, 2, 3, 5, 7}) {
    CAPTURE(threads);
    const auto backend = split_backend(model, 1, threads, 101);  // room for no more rows
    REQUIRE(Record::difference(prefilled(*backend, ids, {100}), expected, 0, 101) == "");
  }
}

TEST_CASE("first layers on a GPU: every drafter gives plain decoding's bits and the CPU's text") {
  using namespace drafters;
  const TempDir folder;
  const std::string path = folder / "m.heads.gguf";
  NewHeads file = random_heads(heads_base(model(4).gguf, model(4).config));
  file.heads.push_back(random_layer(file.base, 64, 5));
  file.heads.push_back(random_medusa(file.base, 3, 1, 50));
  file.heads.push_back(random_eagle(file.base, 64, true, 60));
  file.heads.push_back(random_eagle3(file.base, 64, 90));
  file.heads.push_back(random_hydra(file.base, 3, 2, 120));
  file.heads.push_back(random_mtp(file.base, 64, true, 150));
  file.heads.push_back(random_kangaroo(file.base, 2, 190));
  write_exit_heads(path, file);
  const ExitHeads heads = ExitHeads::open(path, model(4).gguf, model(4).config);
  file = {.base = file.base, .masks = {.rows = random_head_tensor(3, file.base.dim, 210, 0.7f)}};
  write_exit_heads(folder / "masks.gguf", file);
  const ExitHeads masks = ExitHeads::open(folder / "masks.gguf", model(4).gguf, model(4).config);

  std::vector<Row> rows = {without({2, 4, 6}),
                           tree(model(8), false),
                           tree(model(4, DType::kQ8_0, 1, "gemma2"), true),
                           ngrams(3, 8),
                           modelled("the first layers", model(2), 4, 0),
                           of_type(DType::kQ8_0, true)};
  rows.push_back(
      {.name = "behind masks",
       .model = model(4),
       .drafter = [&](Backend&, Text) { return std::make_shared<Space>(masks.masks(), kMaxRows); },
       .samplings = {sampling(0), sampling(0.7f)}});
  for (const HeadKind kind : kHeadKinds) {
    rows.push_back(trained(heads, kind, ConfidenceRule::kPeak, 0, 32));
  }
  size_t next = 0;
  for (Row& row : rows) {
    // The whole table at full length is the CPU's test: same_text_test.cpp.
    row.samplings = {row.samplings.front(), held(changing(row.samplings.back()))};
    row.prompts.resize(1);
    if (row.replies.front() > 0) row.replies = {6, 4};
    row.drafted = 2;
    row.accepted = row.rejected = row.trees = 0;
    const std::vector<Tokens> expected = run(row);
    const std::vector<int> all = splits(row.model.config.n_layers);
    for (int i = 0; i < 2; ++i) {
      const int n_first = all[1 + next++ % (all.size() - 1)];
      CAPTURE(n_first);
      const auto engine = [&](const TinyModel& model, int threads, int n_ctx) {
        return split_backend(model, n_first, threads, n_ctx);
      };
      CHECK(run(row, engine) == expected);
    }
  }
}

TEST_CASE("first layers on a GPU: one text, and what it says of itself") {
  const TinyModel model(q8_0_spec(4));
  const auto cpu = model.backend(best_isa(), 1), split = split_backend(model, 3);
  CHECK(split->sequences() == nullptr);
  CHECK(!split->samples_on_device());
  const std::string device = split->device();
  check_mentions(device, {"CUDA (", ", weights int8, 3 of 4 layers) + CPU ("});
  CHECK(device.ends_with(cpu->device()));
  check_mentions(split->description(), {device + ", weights Q8_0 in tiles, context "});
  const TinyModel int8(q8_0_spec(4), KvType::kInt8);
  check_mentions(split_backend(int8, 3)->device(), {", 3 of 4 layers, K/V int8) + CPU ("});
}

TEST_CASE("first layers on a GPU: after a launch that failed another prompt has the CPU's bits") {
  const TinyModel model(q8_0_spec(3));
  const std::vector<int32_t> failing = token_ids(40, model.config.vocab_size, 2),
                             ids = token_ids(50, model.config.vocab_size, 3);
  const Record expected = prefilled(*model.backend(best_isa(), 1), ids, {49});
  for (const int launch : {5, 25, 40}) {  // each 16 rows take about 17
    CAPTURE(launch);
    const auto backend = split_backend(model, 2);
    auto& device = *static_cast<simt::SimtDevice*>(backend->gpu());
    device.options().fail_launch = device.log().launches + launch;
    expect_error(ErrorCode::kDevice, [&] { backend->prefill(failing); });
    backend->truncate(0);
    REQUIRE(Record::difference(prefilled(*backend, ids, {49}), expected, 0, 50) == "");
  }
}

TEST_CASE("first layers on a GPU: a device that fails leaves one error, and all memory") {
  const TinyModel model(q8_0_spec(3));
  const std::vector<int32_t> ids = token_ids(20, model.config.vocab_size);
  for (int lose_at = 1;; lose_at += 7) {
    CAPTURE(lose_at);
    simt::DeviceLog log;
    bool failed = false;
    try {
      simt::DeviceOptions device;
      device.log = &log;
      device.lose_at = lose_at;
      CpuOptions options;
      options.n_threads = 1;
      options.first_layers = make_first_layers(std::make_unique<simt::SimtDevice>(device),
                                               model.config, model.weights, {}, 2);
      const auto backend = make_cpu_backend(model.config, model.weights, options);
      backend->prefill(ids);
      backend->embed(0, 3);
      backend->run_layers(0, 1, 20, 1, 3);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kDevice);
      failed = true;
    }
    CHECK(log.live == 0);
    if (!failed) break;
  }
}

}  // namespace first_layers_host_test
