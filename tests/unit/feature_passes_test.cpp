// Hidden states of texts that share passes: the files of each text alone, whatever stops and goes
// on.
#include "corpus/feature_passes.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>

#include "engine_rig.h"
#include "features_rig.h"
#include "forwarding_backend.h"
#include "sanitized.h"
#include "sequences_rig.h"
#include "temp_dir.h"

namespace feature_passes_test {

using namespace specbound;
using namespace specbound::test::features;
using test::TempDir;
using test::TinySpec;
namespace fs = std::filesystem;

namespace {

constexpr int kTexts = 40;

// Of all lengths up to the context, dialogues that go on and texts that begin alike among them,
// replies anywhere in them, none at all in some.
std::vector<TrainingText> random_texts(int vocab_size, test::TinyRandom& random) {
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  std::vector<TrainingText> texts;
  for (int i = 0; i < kTexts; ++i) {
    TrainingText& text = texts.emplace_back();
    const int n = below(4) == 0 ? 100 + below(156) : 2 + below(60);
    if (below(3) == 0 && i > 0) {
      const std::vector<int32_t>& other = texts[below(i)].tokens;
      const int begins = below(static_cast<int>(other.size()) + 1);
      text.tokens.assign(other.begin(), other.begin() + std::min(begins, n));
    } else if (below(2)) {
      text.tokens = test::token_ids(std::min(n, 11), vocab_size);
    }
    while (std::ssize(text.tokens) < n) text.tokens.push_back(below(vocab_size));
    text.learn.assign(text.tokens.size(), 0);
    for (int runs = below(4); runs > 0; --runs) {
      const int from = below(n), to = std::min(from + 1 + below(40), n);
      std::fill(text.learn.begin() + from, text.learn.begin() + to, uint8_t{1});
    }
    text.learn.back() = 0;
  }
  return texts;
}

// A backend of slots alone, and what of each text it was given as a prompt.
class Slots final : public test::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override {
    prompts.emplace_back(inner_->kv_len(1), std::ssize(tokens));
    inner_->prefill(tokens, progress, context);
  }
  std::vector<std::pair<int, std::ptrdiff_t>> prompts;  // first position, tokens
};

// Raises a flag in its run of layers number `at`.
class Interrupted final : public test::ForwardingBackend, public ChunkRows {
 public:
  explicit Interrupted(std::unique_ptr<Backend> inner) : ForwardingBackend(std::move(inner)) {}
  Sequences* sequences() override { return inner_->sequences(); }
  ChunkRows* chunk_rows() override { return this; }
  int most_rows() const override { return inner_->chunk_rows()->most_rows(); }
  void embed_chunk(std::span<const Part> parts) override {
    inner_->chunk_rows()->embed_chunk(parts);
  }
  void run_chunk(int to) override {
    inner_->chunk_rows()->run_chunk(to);
    if (--at == 0) abort = true;
  }
  std::span<const float> chunk_row(int row) const override {
    return inner_->chunk_rows()->chunk_row(row);
  }
  int at = 0;
  std::atomic<bool> abort = false;
};

}  // namespace

TEST_CASE("features: a raised flag stops it") {
  Rig rig;
  const TempDir dir;
  FeatureStore store((dir / "a"), {1}, 64, kPlenty);
  std::atomic<bool> abort = false;
  FeaturePasses passes(store, *rig.backend, rig.norm, &abort);
  CHECK(passes.add(rig.texts[0]));
  abort = true;
  CHECK_FALSE(passes.add(rig.texts[1]));
  CHECK_FALSE(passes.leave_out());
  CHECK_FALSE(passes.finish());
  CHECK(store.n_rows() == 0);
}

TEST_CASE("features: what is left out is counted in its place") {
  Rig rig;
  const TempDir dir;
  FeatureStore store((dir / "a"), {1}, 64, kPlenty);
  FeaturePasses passes(store, *rig.backend, rig.norm);
  CHECK(passes.add(rig.texts[0]));
  CHECK(store.n_texts() == 0);  // its rows wait
  CHECK(passes.learnt_rows() == 19);
  CHECK(passes.leave_out());
  CHECK(store.n_texts() == 2);
  CHECK(passes.add(rig.texts[3]));
  CHECK(passes.finish());
  store.finish();
  CHECK(store.n_texts() == 3);
  CHECK(store.n_rows() == 38);
}

TEST_CASE("features: texts that share passes have the bytes of each alone") {
  TinySpec mixture;
  mixture.architecture = "qwen3moe";
  mixture.type = DType::kQ8_0;
  mixture.head_dim = 32;
  uint64_t seed = 1;
  for (const TinySpec& spec :
       {test::q8_0_spec(3), test::gemma2_spec(), test::gemma3_spec(), mixture}) {
    CAPTURE(spec.architecture);
    const test::TinyModel model(spec);
    const std::vector<int> layers = {0, 1};
    const std::span norm(model.weights.output_norm, static_cast<size_t>(model.config.dim));
    test::TinyRandom random(seed++);
    const std::vector<TrainingText> texts = random_texts(model.config.vocab_size, random);
    for (const bool prompts : {false, true}) {
      CAPTURE(prompts);
      const TempDir dir;
      const auto store_in = [&](const std::string& name, size_t chunk_bytes = 5000) {
        auto store = std::make_unique<FeatureStore>(dir / name, layers, model.config.dim, kPlenty,
                                                    chunk_bytes);
        if (prompts) store->with_prompts();
        return store;
      };
      const auto want = store_in("want");
      for (const TrainingText& text : texts) {
        // Alone, in slots, nothing there from before.
        test::ForwardingBackend slots(model.backend(Isa::kPortable, 1));
        FeaturePasses alone(*want, slots, norm);
        REQUIRE(alone.add(text));
        REQUIRE(alone.finish());
      }
      want->finish();
      for (const int sequences : test::some_of({kTexts, 1, 2, 16})) {
        CAPTURE(sequences);
        const int threads = 1 + sequences % 3;
        const auto backend = test::with_sequences(model, best_isa(), threads, sequences);
        const std::string name = "found" + std::to_string(sequences);
        auto found = store_in(name);
        add_all(*found, *backend, norm, texts);
        CHECK(contents(dir / name) == contents(dir / "want"));
        // After a kill behind any chunk, in other company.
        found.reset();
        for (const int kept : test::some_of({0, 1, want->n_chunks() - 1, want->n_chunks() / 2})) {
          CAPTURE(kept);
          fs::create_directories(dir / name);
          for (int c = 0; c < kept; ++c) {
            const std::string file = format("/features-%05d.bin", c);
            fs::copy_file((dir / "want") + file, (dir / name) + file);
          }
          found = store_in(name);
          CHECK_FALSE(found->resume());
          add_all(*found, *backend, norm, texts);
          CHECK(contents(dir / name) == contents(dir / "want"));
          found.reset();
        }
      }
    }
  }
}

TEST_CASE(
    "features: a pass that is stopped anywhere leaves an empty backend and files to go on from") {
  constexpr int kSequences = 5;
  const test::TinyModel model(test::q8_0_spec(3));
  const std::span norm(model.weights.output_norm, static_cast<size_t>(model.config.dim));
  test::TinyRandom random(9);
  const std::vector<TrainingText> texts = random_texts(model.config.vocab_size, random);
  const TempDir dir;
  const auto store_in = [&](const std::string& name) {
    return std::make_unique<FeatureStore>(dir / name, std::vector<int>{0, 1}, model.config.dim,
                                          kPlenty, 5000);
  };
  const auto want = store_in("want");
  add_all(*want, *model.backend(Isa::kPortable, 1), norm, texts);
  Interrupted backend(test::with_sequences(model, best_isa(), 2, kSequences));
  int stopped = 0;
  for (int at = 1;; at += 2) {
    CAPTURE(at);
    const std::string name = "at" + std::to_string(at);
    auto store = store_in(name);
    backend.at = at;
    backend.abort = false;
    bool whole = true;
    {
      FeaturePasses passes(*store, backend, norm, &backend.abort);
      for (size_t i = 0; whole && i < texts.size(); ++i) whole = passes.add(texts[i]);
      whole = whole && passes.finish();
    }
    for (int i = 0; i < kSequences; ++i) {
      backend.sequences()->select(i);
      for (int l = 1; l <= model.config.n_layers; ++l) CHECK(backend.kv_len(l) == 0);
      CHECK(backend.sequences()->kv_bytes(i) == 0);
    }
    if (whole) break;
    ++stopped;
    store->keep();
    store = store_in(name);
    CHECK_FALSE(store->resume());
    backend.at = 0;
    add_all(*store, backend, norm, texts);
    CHECK(contents(dir / name) == contents(dir / "want"));
  }
  CHECK(stopped > 5);
}

TEST_CASE("features: in slots a text that is there in part goes as it went") {
  Rig rig;
  const TempDir dir;
  const std::vector<int> layers = {0, 2};
  FeatureStore want((dir / "want"), layers, 64, kPlenty, 3000);
  std::vector<decltype(Slots::prompts)> went;
  for (const TrainingText& text : rig.texts) {
    Slots slots(rig.model.backend(Isa::kPortable, 1));
    FeaturePasses passes(want, slots, rig.norm);
    REQUIRE(passes.add(text));
    REQUIRE(passes.finish());
    went.push_back(slots.prompts);
  }
  want.finish();
  CHECK(went[1].size() == 2);
  int within = 0;
  for (int kept = 1; kept < want.n_chunks(); ++kept) {
    CAPTURE(kept);
    const std::string folder = dir / ("f" + std::to_string(kept));
    fs::create_directories(folder);
    for (int c = 0; c < kept; ++c) {
      const std::string name = format("/features-%05d.bin", c);
      fs::copy_file((dir / "want") + name, folder + name);
    }
    FeatureStore store(folder, layers, 64, kPlenty, 3000);
    CHECK_FALSE(store.resume());
    if (store.rows_of_text() == 0) continue;
    ++within;
    Slots slots(rig.model.backend(Isa::kPortable, 1));
    FeaturePasses passes(store, slots, rig.norm);
    const auto text = static_cast<size_t>(store.n_texts());
    REQUIRE(passes.add(rig.texts[text]));
    REQUIRE(passes.finish());
    CHECK(slots.prompts == went[text]);
  }
  CHECK(within > 3);
}

}  // namespace feature_passes_test
