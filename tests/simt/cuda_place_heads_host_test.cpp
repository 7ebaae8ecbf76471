// Medusa and Hydra heads on the CUDA engine: the CPU's bits behind any path, and replies that are
// plain ones with them. docs/architecture.md 6.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "drafters/head_tree.h"
#include "engine/cuda/check_memory.h"
#include "simt/cuda_rig.h"
#include "simt/hidden_rig.h"
#include "simt/reply_rig.h"
#include "unit/expect_error.h"
#include "unit/loop_events.h"
#include "unit/sequences_rig.h"
#include "unit/tiny_heads.h"

namespace cuda_place_heads_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
constexpr int kPlaces = 4;

struct Form {
  HeadKind kind;
  bool shared;     // the model's lm_head
  bool quantized;  // Q8_0, else F32
};

struct Subject {
  TinyModel model;
  std::vector<std::byte> bytes;
  std::vector<ExitHeads> heads;

  Subject(const TinySpec& spec, const Form& form) : model(spec) {
    const HeadsBase base = heads_base(model.gguf, model.config);
    NewHead head = form.kind == HeadKind::kHydra ? random_hydra(base, kPlaces, 2, 3)
                                                 : random_medusa(base, kPlaces, 2, 3);
    if (form.shared) head = with_shared_lm_head(head);
    NewHeads file;
    file.base = base;
    file.heads = {form.quantized ? quantized_head(head) : head};
    file.defaults.kind = form.kind;
    bytes = exit_heads_file("heads", file);
    heads.push_back(ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base));
  }
};

// Rounds that are random trees behind a text, each looked at row by row as deep as there are heads:
// `look` compares.
template <class Look>
void run_rounds(const Subject& s, Backend& gpu, Backend& cpu, int rounds, const Look& look) {
  const int layers = s.model.config.n_layers, vocab = s.model.config.vocab_size;
  const auto both = [&](const auto& call) {
    for (Backend* backend : {&gpu, &cpu}) call(*backend);
  };
  TinyRandom random(5);
  Text text = token_ids(12, vocab, 11);
  both([&](Backend& b) { b.embed(0, text[0]); });
  look(0);  // no state was kept yet: it is zeros
  both([&](Backend& b) {
    run_rows(b, std::span(text).first(text.size() - 1));
    b.keep_state(static_cast<int>(text.size()) - 2);
  });
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const int pos = static_cast<int>(text.size()) - 1;
    Text tokens;
    RowPaths paths;
    const int rows = 3 + static_cast<int>(random.next() % 8);
    for (int slot = 0; slot < rows; ++slot) {
      CAPTURE(slot);
      tokens.push_back(slot == 0 ? text.back() : static_cast<int32_t>(random.next() % vocab));
      const int parent = slot == 0 ? 0 : static_cast<int>(random.next() % slot);
      both([&](Backend& b) {
        b.embed(slot, tokens[slot]);
        if (slot > 0) b.follow(slot, parent);
      });
      if (slot > 0) paths.follow(slot, parent);
      if (paths[slot].depth < kPlaces) look(slot);
    }
    both([&](Backend& b) { b.run_layers(0, rows, pos, 1, layers); });
    const int last = static_cast<int>(random.next() % rows);
    both([&](Backend& b) {
      b.keep_state(last);
      b.keep_path(pos, paths[last]);
    });
    for (int d = 1; d <= paths[last].depth; ++d) text.push_back(tokens[paths[last].slots[d]]);
    text.push_back(static_cast<int32_t>(random.next() % vocab));
  }
}

}  // namespace

TEST_CASE("CUDA engine, medusa and hydra heads: the CPU's bits, whatever path they look at") {
  for (const HeadKind kind : {HeadKind::kMedusa, HeadKind::kHydra}) {
    for (const bool shared : {false, true}) {
      CAPTURE(std::string(head_kind_name(kind)));
      CAPTURE(shared);
      // With embeddings that are scaled and logits that are capped: for the model alone.
      const Subject s(shared ? windowed_spec(2) : q8_0_spec(2), {kind, shared, true});
      simt::DeviceLog log;
      {
        const auto gpu = cuda_backend(s.model, {}, &log), cpu = s.model.backend(best_isa(), 1);
        const size_t before = log.device_bytes;
        for (Backend* backend : {gpu.get(), cpu.get()}) backend->set_exit_heads(&s.heads[0], 0);
        CHECK(log.device_bytes - before ==
              device_heads_bytes(s.heads[0], 0, s.model.config, true, gpu->n_ctx(), KvType::kFp16));
        run_rounds(s, *gpu, *cpu, 6, [&](int slot) {
          const ExitPeak found = gpu->exit_check(0, slot, 0.7f);
          const ExitPeak expected = cpu->exit_check(0, slot, 0.7f);
          REQUIRE(same_bits(&found.confidence, &expected.confidence, 1));
          REQUIRE(found.token == expected.token);
          REQUIRE(gpu->exit_ids().empty());
          const std::span<const float> z = gpu->exit_logits(), expected_z = cpu->exit_logits();
          REQUIRE(z.size() == expected_z.size());
          REQUIRE(same_bits(z.data(), expected_z.data(), z.size()));
        });
      }
      CHECK(log.graph_launches > 0);
      CHECK(log.live == 0);
      CHECK(log.wrong == "");
    }
  }
}

TEST_CASE("CUDA engine, medusa and hydra heads: float weights, near the CPU's") {
  for (const HeadKind kind : {HeadKind::kMedusa, HeadKind::kHydra}) {
    CAPTURE(std::string(head_kind_name(kind)));
    const Subject s(q8_0_spec(2), {kind, false, false});
    const auto gpu = cuda_backend(s.model), cpu = s.model.backend(best_isa(), 1);
    for (Backend* backend : {gpu.get(), cpu.get()}) backend->set_exit_heads(&s.heads[0], 0);
    run_rounds(s, *gpu, *cpu, 3, [&](int slot) {
      const float found = gpu->exit_check(0, slot, 1).confidence;
      CHECK(std::abs(found - cpu->exit_check(0, slot, 1).confidence) < 5e-3);
      CHECK(relative_difference(gpu->exit_logits(), cpu->exit_logits()) < 5e-3);
    });
  }
}

TEST_CASE("CUDA engine, medusa and hydra heads: the CPU's events and plain decoding's bits") {
  constexpr int kPrompt = 12, kReply = 10;
  for (const HeadKind kind : {HeadKind::kMedusa, HeadKind::kHydra}) {
    CAPTURE(std::string(head_kind_name(kind)));
    const Subject s(q8_0_spec(2), {kind, kind == HeadKind::kHydra, true});
    const auto gpu = cuda_backend(s.model), cpu = s.model.backend(best_isa(), 1);
    for (Backend* backend : {gpu.get(), cpu.get()}) backend->set_exit_heads(&s.heads[0], 0);
    HeadTree tree(s.heads[0], kind, 9);
    for (const float temperature : {0.0f, 0.8f}) {
      CAPTURE(temperature);
      const SamplingParams params{.temperature = temperature, .seed = 3};
      const auto found = [&](Backend& backend) {
        backend.truncate(0);
        return loop_events(backend, &tree, params, Text{7}, kReply);
      };
      CHECK(found(*gpu) == found(*cpu));
      check_plain_bits(*gpu, tree, params, kPrompt, kReply, 3);
    }
  }
}

TEST_CASE(
    "CUDA engine, published heads: weights too large for FP16 are refused by the file's name") {
  constexpr float kLarge = 1e6f;
  const TinyModel model(q8_0_spec(2));
  const HeadsBase base = heads_base(model.gguf, model.config);
  for (const char* where : {"heads", "W", "block"}) {
    CAPTURE(std::string(where));
    const bool by_place = where[0] == 'h';
    NewHead head = by_place ? random_medusa(base, 2, 1, 3) : random_eagle(base, 64, false, 3);
    HeadTensor& tensor = by_place          ? head.medusa[1].blocks[0].map
                         : where[0] == 'W' ? head.map
                                           : head.gate;
    std::memcpy(tensor.encoded.data(), &kLarge, sizeof kLarge);
    NewHeads file;
    file.base = base;
    file.heads = {head};
    file.defaults.kind = head.kind;
    const std::vector<std::byte> bytes = exit_heads_file("heads", file);
    const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "large.heads.gguf"), &base);
    simt::DeviceLog log;
    const auto gpu = cuda_backend(model, {}, &log);
    const int live = log.live;
    const std::string text =
        expect_error(ErrorCode::kUnsupported, [&] { gpu->set_exit_heads(&heads, 0); });
    check_mentions(text, {"large.heads.gguf: expected weights that the GPU's FP16 numbers can hold",
                          "found 1 too large", "; --device cpu can use them"});
    CHECK(text.find("--dtype") == std::string::npos);
    CHECK(log.live == live);
  }
}

}  // namespace cuda_place_heads_host_test
