// Hidden states that are made on a GPU, or on one and the CPU: the files of the CPU alone.
// docs/architecture.md 3.6, 6.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "simt/cuda_rig.h"
#include "unit/features_rig.h"
#include "unit/temp_dir.h"

namespace features_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr size_t kChunkBytes = 8000;

// The second begins as the first does; of the third nothing is learnt.
std::vector<TrainingText> some_texts(int vocab_size) {
  const std::vector<int32_t> ids = token_ids(90, vocab_size);
  std::vector<TrainingText> texts;
  const auto add = [&](int from, int to, int learnt) {
    TrainingText& text = texts.emplace_back();
    text.tokens.assign(ids.begin() + from, ids.begin() + to);
    text.learn.assign(text.tokens.size(), 0);
    std::fill_n(text.learn.end() - 1 - learnt, learnt, uint8_t{1});
  };
  add(0, 40, 12);
  add(0, 50, 12);
  add(0, 5, 0);
  add(60, 90, 29);
  return texts;
}

}  // namespace

TEST_CASE("features: a GPU, alone or with the CPU, leaves the files of the CPU") {
  const TinySpec gemma2 = windowed_spec(3);
  for (const TinySpec& spec : {q8_0_spec(3), gemma2}) {
    CAPTURE(spec.architecture);
    const TinyModel model(spec);
    const std::span norm(model.weights.output_norm, static_cast<size_t>(model.config.dim));
    const std::vector<TrainingText> texts = some_texts(model.config.vocab_size);
    const auto files = [&](Backend& backend, bool prompts) {
      const TempDir dir;
      FeatureStore store(dir / "f", {0, 1, 2}, model.config.dim, features::kPlenty, kChunkBytes);
      if (prompts) store.with_prompts();
      features::add_all(store, backend, norm, texts);
      CHECK(store.n_chunks() > 2);
      CHECK(backend.kv_len(1) == 0);
      return features::contents(dir / "f");
    };
    for (const bool prompts : {false, true}) {
      CAPTURE(prompts);
      const std::vector<std::string> want = files(*model.backend(best_isa(), 1), prompts);
      for (int n_first = 1; n_first <= spec.n_layers; ++n_first) {
        CAPTURE(n_first);
        CHECK(files(*split_backend(model, n_first, n_first % 2 + 1), prompts) == want);
      }
      // Its prefill has bits of its own, and with prompts everything is decoded.
      if (!prompts) continue;
      CudaOptions options;
      options.n_sequences = 3;
      CHECK(files(*cuda_backend(model, options), prompts) == want);
    }
  }
}

}  // namespace features_host_test
