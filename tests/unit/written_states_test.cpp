// The states of replies taken while the model writes them, against those of another look at them.
#include "corpus/written_states.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "corpus/corpus.h"
#include "corpus/self_generate.h"
#include "features_rig.h"
#include "temp_dir.h"

namespace written_states_test {

using namespace specbound;
using test::TempDir;
using test::features::add_all;
using test::features::contents;

namespace {

// A model that can write a little, its tokenizer, and what it is asked.
struct Rig {
  test::TinyModel model{spec()};
  std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(model.gguf);
  std::vector<CorpusText> corpus;
  std::vector<const CorpusText*> texts;
  SelfGenerateOptions options;

  Rig() {
    for (int i = 0; i < kTexts; ++i) {
      const std::string text = {static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26)};
      corpus.push_back({.messages = {}, .text = text});
    }
    for (const CorpusText& text : corpus) texts.push_back(&text);
    options.tokens = 2000;
    options.max_reply = 12;
    options.ends_reply = [](int32_t id) { return id == 2; };
  }
  static constexpr int kTexts = 70;
  static test::TinySpec spec() {
    test::TinySpec spec;
    spec.vocabulary = true;
    spec.vocab_size = 320;
    spec.max_seq_len = 64;
    return spec;
  }

  std::span<const float> norm() const {
    return {model.weights.output_norm, static_cast<size_t>(model.config.dim)};
  }
  std::unique_ptr<Backend> backend(int n_sequences) const {
    CpuOptions cpu;
    cpu.n_threads = 1;
    cpu.n_sequences = n_sequences;
    return make_cpu_backend(model.config, model.weights, cpu);
  }
  FeatureStore store(const TempDir& dir, size_t max_bytes = test::features::kPlenty) const {
    return FeatureStore(dir / "features", {0}, model.config.dim, max_bytes, 4096);
  }
  std::vector<TrainingText> write(Backend& backend, WrittenStates* states) {
    options.states = states;
    return self_generate(backend, *tokenizer, nullptr, texts, options);
  }
};

}  // namespace

TEST_CASE("states taken as texts are written are those of another look at them") {
  Rig rig;
  for (const int n_sequences : {1, 3, 16}) {
    for (const bool holds_out : {false, true}) {
      CAPTURE(n_sequences);
      CAPTURE(holds_out);
      const auto backend = rig.backend(n_sequences);
      const TempDir dir, again;
      FeatureStore written = rig.store(dir), looked_at = rig.store(again);
      WrittenStates states(written, *backend, rig.norm(), holds_out);
      auto out = rig.write(*backend, &states);
      states.finish();
      written.finish();
      REQUIRE(out.size() == Rig::kTexts);
      CHECK(written.n_texts() == Rig::kTexts);
      if (holds_out) CHECK(hold_out(out) < Rig::kTexts);
      add_all(looked_at, *backend, rig.norm(), out);
      CHECK(contents(dir / "features") == contents(again / "features"));

      // Where there is room for few what fits is there; more is not even written where the rest is
      // to be filled with learning.
      const TempDir little;
      const size_t most = written.bytes() / 3;
      FeatureStore small = rig.store(little, most);
      WrittenStates few(small, *backend, rig.norm(), holds_out);
      out = rig.write(*backend, &few);
      few.finish();
      CHECK((out.size() < 50) == holds_out);
      CHECK(small.n_texts() > 10);
      CHECK(small.bytes() <= most);
    }
  }
  CHECK_FALSE(WrittenStates::possible(std::vector<int>{0, 2}, *rig.backend(1)));
}

TEST_CASE("states of a run that was interrupted are taken up, the rest is looked at") {
  Rig rig;
  for (const bool holds_out : {false, true}) {
    CAPTURE(holds_out);
    const auto backend = rig.backend(16);
    const TempDir dir, whole;
    FeatureStore expected = rig.store(whole);
    auto texts = rig.write(*backend, nullptr);
    if (holds_out) hold_out(texts);
    add_all(expected, *backend, rig.norm(), texts);

    rig.options.file = dir / "texts.bin";
    for (const int64_t after : {20, 150, 400}) {
      CAPTURE(after);
      std::filesystem::remove_all(dir / "features");
      std::filesystem::remove(rig.options.file);
      std::atomic<bool> abort{false};
      rig.options.abort = &abort;
      rig.options.progress = [&](int64_t done, int64_t) { abort = done >= after; };
      {
        FeatureStore begun = rig.store(dir);
        WrittenStates states(begun, *backend, rig.norm(), holds_out);
        CHECK(rig.write(*backend, &states).size() < Rig::kTexts);
        begun.keep();  // as a kill does, what was not written yet is gone
      }
      rig.options.abort = nullptr;
      rig.options.progress = nullptr;
      FeatureStore resumed = rig.store(dir);
      CHECK_FALSE(resumed.resume());
      WrittenStates none(resumed, *backend, rig.norm(), holds_out);
      auto out = rig.write(*backend, &none);  // has texts: no state is taken
      REQUIRE(out.size() == Rig::kTexts);
      if (holds_out) hold_out(out);
      add_all(resumed, *backend, rig.norm(), out);
      CHECK(contents(dir / "features") == contents(whole / "features"));
    }
    rig.options.file.clear();
  }
}

}  // namespace written_states_test
