// Draft layers of every kind on the CUDA engine: the CPU's bits after any rounds of trees, and
// replies that are plain ones with them. docs/architecture.md 6.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "drafters/exit_head.h"
#include "drafters/head_tree.h"
#include "drafters/kangaroo.h"
#include "drafters/specbound.h"
#include "engine/cuda/check_memory.h"
#include "simt/cuda_rig.h"
#include "simt/hidden_rig.h"
#include "simt/reply_rig.h"
#include "unit/loop_events.h"
#include "unit/sanitized.h"
#include "unit/sequences_rig.h"
#include "unit/tiny_heads.h"

namespace cuda_draft_layer_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
constexpr int kInner = 64;

NewHead random_head_of(HeadKind kind, const HeadsBase& base) {
  switch (kind) {
    case HeadKind::kEagle:
      return random_eagle(base, kInner, true, 3);
    case HeadKind::kEagle3:
      return random_eagle3(base, kInner, 4);
    case HeadKind::kMtp:
      return random_mtp(base, kInner, true, 5);
    case HeadKind::kKangaroo:
      return random_kangaroo(base, 2, 6);
    default:
      return random_layer(base, kInner, 3);
  }
}
constexpr HeadKind kPublished[] = {HeadKind::kEagle, HeadKind::kEagle3, HeadKind::kMtp,
                                   HeadKind::kKangaroo};

struct Subject {
  TinyModel model;
  std::vector<std::byte> bytes;
  std::vector<ExitHeads> heads;  // one file
  int list;

  // The list is the vocabulary: beside a shorter one the CPU also says tokens of the text. Matrices
  // are Q8_0, or what published ones come in.
  explicit Subject(const TinySpec& spec, HeadKind kind = HeadKind::kLayer,
                   KvType kv = KvType::kFp16, bool quantized = true)
      : Subject(spec, std::span(&kind, 1), kv, quantized) {}
  Subject(const TinySpec& spec, std::span<const HeadKind> kinds, KvType kv, bool quantized)
      : model(spec, kv),
        list(std::ranges::count(kinds, HeadKind::kLayer) ? model.config.vocab_size : 0) {
    const HeadsBase base = heads_base(model.gguf, model.config);
    NewHeads file;
    file.base = base;
    for (int i = 0; i < list; ++i) file.shortlist.push_back((i * 7 + 5) % list);
    for (const HeadKind kind : kinds) {
      const NewHead head = random_head_of(kind, base);
      file.heads.push_back(quantized ? quantized_head(head) : head);
    }
    file.defaults.kind = kinds[0];
    bytes = exit_heads_file("heads", file);
    heads.push_back(ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base));
  }

  int layer() const { return heads[0].heads()[0].layer; }  // that it stands behind
};

// What both find of a row, bit for bit.
void check_look(Backend& gpu, Backend& cpu, int slot, int head = 0) {
  const ExitPeak found = gpu.exit_check(head, slot, 0.7f);
  const ExitPeak expected = cpu.exit_check(head, slot, 0.7f);
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
  const auto prompt = std::span(text).first(text.size() - 1);
  // Prompts that are read in chunks have the CPU's bits over INT8 K/V alone.
  both([&](Backend& b) {
    if (s.model.kv != KvType::kInt8) return run_rows(b, prompt);
    b.prefill(prompt.first(19));
    b.prefill(prompt.subspan(19));
  });
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const int pos = static_cast<int>(text.size()) - 1;
    both([&](Backend& b) { b.embed(0, text.back()); });
    const bool asks = round % 3 != 1;
    const auto ask = [&](int slot) {
      if (!asks) return;
      both([&](Backend& b) { bring(b, s.layer(), pos, slot); });
      check_look(gpu, cpu, slot);
    };
    ask(0);
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
      ask(slot);
    }
    both([&](Backend& b) {
      bring(b, s.layer(), pos, rows - 1);
      b.run_layers(0, rows, pos, s.layer() + 1, layers);
    });
    const int last = static_cast<int>(random.next() % rows);
    Text path;
    for (int slot = last; slot > 0; slot = parents[slot]) path.insert(path.begin(), tokens[slot]);
    both([&](Backend& b) { b.keep_path(pos, paths[last]); });
    text.insert(text.end(), path.begin(), path.end());
    text.push_back(static_cast<int32_t>(random.next() % vocab));
    // The reply is taken back, once to its first token.
    if (round % 7 == 6) text.resize(round == 6 ? text.size() / 2 : 1);
    both([&](Backend& b) { b.truncate(static_cast<int>(text.size()) - 1); });
  }
}

void check_rounds(const Subject& s, int rounds) {
  CAPTURE(std::string(head_kind_name(s.heads[0].heads()[0].kind)));
  CAPTURE(s.model.config.architecture);
  CAPTURE(std::string(kv_type_name(s.model.kv)));
  simt::DeviceLog log;
  {
    const auto gpu = cuda_backend(s.model, {}, &log), cpu = s.model.backend(best_isa(), 1);
    const size_t before = log.device_bytes;
    for (Backend* backend : {gpu.get(), cpu.get()}) backend->set_exit_heads(&s.heads[0], s.list);
    CHECK(log.device_bytes - before ==
          device_heads_bytes(s.heads[0], s.list, s.model.config, true, gpu->n_ctx(), s.model.kv));
    run_rounds(s, *gpu, *cpu, rounds);
  }
  CHECK(log.graph_launches > 0);
  CHECK(log.live == 0);
  CHECK(log.wrong == "");
}

}  // namespace

TEST_CASE("CUDA engine, draft layer: after any rounds it finds what the CPU's does") {
  const TinySpec gemma2 = windowed_spec(2);
  TinySpec qwen2 = q8_0_spec(2);
  qwen2.architecture = "qwen2";
  for (const TinySpec& spec : {q8_0_spec(2), gemma2, qwen2}) {
    for (const KvType kv : kKvTypesTested) check_rounds(Subject(spec, HeadKind::kLayer, kv), 18);
  }
}

TEST_CASE("CUDA engine, published layers: after any rounds they find what the CPU's do") {
  for (const HeadKind kind : kPublished) {
    check_rounds(Subject(q8_0_spec(3), kind), 18);
    check_rounds(Subject(windowed_spec(3), kind, KvType::kInt8), 9);
  }
}

TEST_CASE("CUDA engine, draft layers: all kinds in one file, each as the CPU's") {
  const std::vector<HeadKind> kinds = {HeadKind::kLayer, HeadKind::kEagle, HeadKind::kEagle3,
                                       HeadKind::kMtp, HeadKind::kKangaroo};
  const Subject s(q8_0_spec(3), kinds, KvType::kFp16, true);
  const auto gpu = cuda_backend(s.model), cpu = s.model.backend(best_isa(), 1);
  const Text text = token_ids(21, s.model.config.vocab_size);
  for (Backend* backend : {gpu.get(), cpu.get()}) {
    backend->set_exit_heads(&s.heads[0], s.list);
    run_rows(*backend, std::span(text).first(20));
  }
  for (int slot = 0; slot < 3; ++slot) {
    for (Backend* backend : {gpu.get(), cpu.get()}) {
      backend->embed(slot, text[20 - slot]);
      bring(*backend, 2, 20, slot);  // as far as the adapter wants
    }
    for (size_t head = 0; head < kinds.size(); ++head) {
      CAPTURE(head);
      check_look(*gpu, *cpu, slot, static_cast<int>(head));
    }
  }
}

// A wrong norm, or none, is far from that; what is right is as far as FP16 is from F32.
TEST_CASE("CUDA engine, published layers: float weights, near the CPU's") {
  for (const HeadKind kind : kPublished) {
    CAPTURE(std::string(head_kind_name(kind)));
    const Subject s(q8_0_spec(3), kind, KvType::kFp16, false);
    const auto gpu = cuda_backend(s.model), cpu = s.model.backend(best_isa(), 1);
    const Text text = token_ids(21, s.model.config.vocab_size);
    for (Backend* backend : {gpu.get(), cpu.get()}) {
      backend->set_exit_heads(&s.heads[0], 0);
      run_rows(*backend, std::span(text).first(20));
    }
    for (int slot = 0; slot < 3; ++slot) {
      CAPTURE(slot);
      ExitPeak peaks[2];
      for (Backend* backend : {gpu.get(), cpu.get()}) {
        backend->embed(slot, text[20 - slot]);
        bring(*backend, s.layer(), 20, slot);
        peaks[backend == cpu.get()] = backend->exit_check(0, slot, 1);
      }
      CHECK(relative_difference(gpu->exit_logits(), cpu->exit_logits()) < 5e-3);
      CHECK(std::abs(peaks[0].confidence - peaks[1].confidence) < 5e-3);
    }
  }
}

TEST_CASE("CUDA engine, draft layers: set in the middle of a text, and after other texts") {
  for (const HeadKind kind : {HeadKind::kLayer, HeadKind::kEagle3, HeadKind::kKangaroo}) {
    CAPTURE(std::string(head_kind_name(kind)));
    const Subject s(q8_0_spec(3), kind);
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
        bring(*backend, s.layer(), end, 0);
      }
      check_look(*gpu, *cpu, 0);
      for (Backend* backend : {gpu.get(), cpu.get()}) backend->truncate(end);
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
}

TEST_CASE("CUDA engine, draft layers: memory refused, at any point, is one error, no more") {
  const std::vector<HeadKind> kinds = {HeadKind::kEagle3, HeadKind::kKangaroo};
  const Subject s(q8_0_spec(3), kinds, KvType::kFp16, true);
  simt::DeviceLog log;
  const auto gpu = cuda_backend(s.model, {}, &log);
  simt::DeviceOptions& options = static_cast<simt::SimtDevice*>(gpu->gpu())->options();
  const int live = log.live;
  int refused = 0;
  for (bool set = false; !set;) {
    options.refuse_allocation = log.allocations + refused + 1;
    try {
      gpu->set_exit_heads(&s.heads[0], 0);
      set = true;
    } catch (const Error& e) {
      REQUIRE(e.code() == ErrorCode::kLimit);
      REQUIRE(log.live == live);
      ++refused;
    }
  }
  CHECK(refused > 60);
  options.refuse_allocation = 0;
  const auto cpu = s.model.backend(best_isa(), 1);
  cpu->set_exit_heads(&s.heads[0], 0);
  for (Backend* backend : {gpu.get(), cpu.get()}) {
    run_rows(*backend, Text{3, 1, 4});
    backend->embed(0, 1);
  }
  check_look(*gpu, *cpu, 0);
}

TEST_CASE("CUDA engine, draft layers: replies have the CPU's events and plain decoding's bits") {
  constexpr int kPrompt = 12, kReply = 10;
  for (const HeadKind kind : kHeadKinds) {
    if (!is_layer(kind)) continue;
    CAPTURE(std::string(head_kind_name(kind)));
    const Subject s(q8_0_spec(3), kind);
    const auto gpu = cuda_backend(s.model), cpu = s.model.backend(best_isa(), 1);
    for (Backend* backend : {gpu.get(), cpu.get()}) backend->set_exit_heads(&s.heads[0], s.list);
    TrainedHead head(s.heads[0], kind);
    SpecBoundParams settings;
    settings.check_layers = {s.layer()};
    settings.tau = 0;
    // As `specbound` asks it and, where it is published, alone.
    const auto drafters = [&] {
      std::vector<std::unique_ptr<Speculator>> made;
      made.push_back(std::make_unique<SpecBound>(head, settings, s.model.config.n_layers));
      if (kind == HeadKind::kKangaroo) {
        made.push_back(
            std::make_unique<Kangaroo>(s.heads[0], KangarooParams{.w_max = 5, .eta = 0}));
      } else if (is_published(kind)) {
        made.push_back(std::make_unique<HeadTree>(s.heads[0], kind, 9));
      }
      return made;
    };
    for (const float temperature : some_of({0.8f, 0.0f})) {
      CAPTURE(temperature);
      const SamplingParams params{.temperature = temperature, .seed = 3};
      for (const std::unique_ptr<Speculator>& speculator : drafters()) {
        CAPTURE(std::string(speculator->name()));
        // Nothing of a prompt of one token is read otherwise than by decoding.
        const auto found = [&](Backend& backend) {
          backend.truncate(0);
          return loop_events(backend, speculator.get(), params, Text{7}, kReply);
        };
        CHECK(found(*gpu) == found(*cpu));
        check_plain_bits(*gpu, *speculator, params, kPrompt, kReply, 3);
      }
    }
  }
}

}  // namespace cuda_draft_layer_host_test
