// Texts whose hidden states are made, and the files that hold them.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "corpus/feature_passes.h"
#include "engine_rig.h"

namespace specbound::test::features {

constexpr size_t kPlenty = size_t{1} << 30;

// Those that are not there yet.
inline void add_all(FeatureStore& store, Backend& backend, std::span<const float> norm,
                    std::span<const TrainingText> texts) {
  {
    FeaturePasses passes(store, backend, norm);
    for (size_t i = static_cast<size_t>(store.n_texts()); i < texts.size(); ++i) {
      REQUIRE(passes.add(texts[i]));
    }
    REQUIRE(passes.finish());
    CHECK(passes.learnt_rows() == store.n_rows() - store.n_prompt_rows());
  }
  store.finish();
}

struct Rig {
  TinyModel model;
  std::unique_ptr<Backend> backend;
  std::vector<float> norm;
  std::vector<TrainingText> texts;

  Rig() : model(spec()), backend(model.backend(Isa::kPortable, 1)) {
    norm.assign(model.weights.output_norm, model.weights.output_norm + model.config.dim);
    // The second begins as the first does; long gaps, and gaps shorter than a pass.
    const auto ids = token_ids(120, model.config.vocab_size);
    const auto add = [&](int from, int to, std::vector<std::pair<int, int>> learnt) {
      TrainingText text;
      text.tokens.assign(ids.begin() + from, ids.begin() + to);
      text.learn.assign(to - from, 0);
      for (const auto& [begin, end] : learnt) {
        std::fill(text.learn.begin() + begin, text.learn.begin() + end, 1);
      }
      texts.push_back(text);
    };
    add(0, 60, {{40, 59}});
    add(0, 100, {{30, 33}, {36, 40}, {80, 99}});
    add(0, 10, {});
    add(100, 120, {{0, 19}});
  }
  static TinySpec spec() {
    TinySpec spec;
    spec.n_layers = 4;
    return spec;
  }

  void add_all(FeatureStore& store) { features::add_all(store, *backend, norm, texts); }
};
inline std::vector<std::string> contents(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    out.push_back(entry.path().filename().string() +
                  std::string((std::istreambuf_iterator<char>(file)), {}));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace specbound::test::features
