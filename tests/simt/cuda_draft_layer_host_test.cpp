// The draft layer on the CUDA engine: the CPU's bits after any rounds of trees, and replies that
// are plain ones with it. docs/architecture.md 6.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "decode/differential_backend.h"
#include "decode/side_by_side.h"
#include "drafters/exit_head.h"
#include "drafters/specbound.h"
#include "engine/cuda/check_memory.h"
#include "simt/cuda_rig.h"
#include "unit/loop_events.h"
#include "unit/sequences_rig.h"
#include "unit/tiny_heads.h"

namespace cuda_draft_layer_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
constexpr int kInner = 64;

struct Subject {
  TinyModel model;
  std::vector<std::byte> bytes;
  std::vector<ExitHeads> heads;
  int list;

  // The list is the vocabulary: beside a shorter one the CPU also says tokens of the text.
  explicit Subject(const TinySpec& spec, KvType kv = KvType::kFp16)
      : model(spec, kv), list(model.config.vocab_size) {
    const HeadsBase base = heads_base(model.gguf, model.config);
    NewHeads file;
    file.base = base;
    for (int i = 0; i < list; ++i) file.shortlist.push_back((i * 7 + 5) % list);
    file.heads = {random_layer(base, kInner, 3)};
    file.defaults.kind = HeadKind::kLayer;
    bytes = exit_heads_file("heads", file);
    heads.push_back(ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base));
  }
};

// What both find of a row, bit for bit.
void check_look(Backend& gpu, Backend& cpu, int slot) {
  const ExitPeak found = gpu.exit_check(0, slot, 0.7f), expected = cpu.exit_check(0, slot, 0.7f);
  REQUIRE(same_bits(&found.confidence, &expected.confidence, 1));
  REQUIRE(found.token == expected.token);
  const std::span<const float> z = gpu.exit_logits(), expected_z = cpu.exit_logits();
  REQUIRE(z.size() == expected_z.size());
  REQUIRE(same_bits(z.data(), expected_z.data(), z.size()));
  REQUIRE(std::ranges::equal(gpu.exit_ids(), cpu.exit_ids()));
}

void run_rounds(const Subject& s, Backend& gpu, Backend& cpu, int rounds) {
  const int layers = s.model.config.n_layers, vocab = s.model.config.vocab_size;
  const auto both = [&](const auto& call) {
    for (Backend* backend : {&gpu, &cpu}) call(*backend);
  };
  TinyRandom random(5);
  Text text = token_ids(30, vocab, 11);  // more than a pass through the block takes
  both([&](Backend& b) { run_rows(b, std::span(text).first(text.size() - 1)); });
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const int pos = static_cast<int>(text.size()) - 1;
    both([&](Backend& b) { b.embed(0, text.back()); });
    const bool asks = round % 3 != 1;
    if (asks) check_look(gpu, cpu, 0);
    // A random tree, asked about along the way; a random row of it is accepted.
    const int rows = 1 + static_cast<int>(random.next() % 6);
    std::vector<int> parents = {-1};
    Text tokens = {text.back()};
    RowPaths paths;
    for (int slot = 1; slot < rows; ++slot) {
      parents.push_back(static_cast<int>(random.next() % slot));
      tokens.push_back(static_cast<int32_t>(random.next() % vocab));
      both([&](Backend& b) {
        b.embed(slot, tokens[slot]);
        b.follow(slot, parents[slot]);
      });
      paths.follow(slot, parents[slot]);
      if (asks) check_look(gpu, cpu, slot);
    }
    both([&](Backend& b) { b.run_layers(0, rows, pos, 1, layers); });
    const int last = static_cast<int>(random.next() % rows);
    Text path;
    for (int slot = last; slot > 0; slot = parents[slot]) path.insert(path.begin(), tokens[slot]);
    both([&](Backend& b) { b.keep_path(pos, paths[last]); });
    text.insert(text.end(), path.begin(), path.end());
    text.push_back(static_cast<int32_t>(random.next() % vocab));
    if (round % 7 == 6) text.resize(text.size() / 2);  // the reply is taken back
    both([&](Backend& b) { b.truncate(static_cast<int>(text.size()) - 1); });
  }
}

}  // namespace

TEST_CASE("CUDA engine, draft layer: after any rounds it finds what the CPU's does") {
  const TinySpec gemma2 = windowed_spec(2);
  TinySpec qwen2 = q8_0_spec(2);
  qwen2.architecture = "qwen2";
  for (const TinySpec& spec : {q8_0_spec(2), gemma2, qwen2}) {
    for (const KvType kv : kKvTypesTested) {
      CAPTURE(spec.architecture);
      CAPTURE(kv_type_name(kv));
      const Subject s(spec, kv);
      simt::DeviceLog log;
      {
        const auto gpu = cuda_backend(s.model, {}, &log), cpu = s.model.backend(best_isa(), 1);
        const size_t before = log.device_bytes;
        for (Backend* backend : {gpu.get(), cpu.get()}) {
          backend->set_exit_heads(&s.heads[0], s.list);
        }
        CHECK(log.device_bytes - before ==
              device_heads_bytes(s.heads[0], s.list, s.model.config, true, gpu->n_ctx(), kv));
        run_rounds(s, *gpu, *cpu, 18);
      }
      CHECK(log.graph_launches > 0);
      CHECK(log.live == 0);
      CHECK(log.wrong == "");
    }
  }
}

TEST_CASE("CUDA engine, draft layer: set in the middle of a text, and after other texts") {
  const Subject s(q8_0_spec(2));
  CudaOptions on_gpu;
  on_gpu.n_sequences = 2;
  CpuOptions on_cpu;
  on_cpu.n_threads = 1;
  on_cpu.n_sequences = 2;
  const auto gpu = cuda_backend(s.model, on_gpu);
  const auto cpu = make_cpu_backend(s.model.config, s.model.weights, on_cpu);
  const Text text = token_ids(30, s.model.config.vocab_size);
  const auto look = [&](int end) {
    for (Backend* backend : {gpu.get(), cpu.get()}) {
      const auto from = static_cast<size_t>(backend->kv_len(1));
      run_rows(*backend, std::span(text).subspan(from, end - from));
      backend->embed(0, text[end]);
    }
    check_look(*gpu, *cpu, 0);
  };
  const auto each = [&](const auto& call) {
    for (Backend* backend : {gpu.get(), cpu.get()}) call(*backend);
  };
  each([&](Backend& b) { run_rows(b, std::span(text).first(17)); });
  each([&](Backend& b) { b.set_exit_heads(&s.heads[0], s.list); });
  look(17);
  look(21);
  each([&](Backend& b) { b.sequences()->select(1); });
  look(5);
  each([&](Backend& b) { b.sequences()->copy_prefix(0, 9); });
  look(9);
  look(12);
  each([&](Backend& b) {
    b.sequences()->run_side_by_side(std::vector<Sequences::Part>{{1}, {0}});
  });
  each([&](Backend& b) { b.truncate(0); });
  look(20);
}

TEST_CASE("CUDA engine, draft layer: replies have the CPU's events and plain decoding's bits") {
  const Subject s(q8_0_spec(2));
  constexpr int kPrompt = 12, kReply = 10;
  const auto gpu = cuda_backend(s.model), cpu = s.model.backend(best_isa(), 1);
  for (Backend* backend : {gpu.get(), cpu.get()}) backend->set_exit_heads(&s.heads[0], s.list);
  TrainedHead head(s.heads[0], HeadKind::kLayer);
  SpecBoundParams settings;
  settings.check_layers = {0};
  settings.tau = 0;
  for (const float temperature : {0.0f, 0.8f}) {
    CAPTURE(temperature);
    const SamplingParams params{.temperature = temperature, .seed = 3};
    SpecBound speculator(head, settings, s.model.config.n_layers);
    // Nothing of a prompt of one token is read otherwise than by decoding.
    const auto found = [&](Backend& backend) {
      return loop_events(backend, &speculator, params, Text{7}, kReply);
    };
    CHECK(found(*gpu) == found(*cpu));
    DifferentialBackend differential(*gpu, kPrompt + kReply, kReply);
    GenerateOptions options;
    options.max_tokens = kReply;
    const SideBySide reply = decode_side_by_side(
        *gpu, &differential, params, token_ids(kPrompt, s.model.config.vocab_size), options,
        [&](std::span<const int32_t>) { return &speculator; });
    if (reply.difference) FAIL_CHECK(describe(*reply.difference));
    CHECK(reply.speculative.counters.drafted_tokens > 3);
    CHECK(differential.rows_compared() >= kReply);
  }
}

}  // namespace cuda_draft_layer_host_test
