// How fast exit heads learn: random hidden states of the demo model's shape (the arithmetic does
// not care what they are), as one JSON object on stdout.
//   bench_train [--rows N] [--shortlist N] [--batch N] [-t N] [--own]
// Or how fast hidden states are made of a model's texts of N tokens, of which a third is prompt:
//   bench_train --features MODEL [--length N] [--seconds N] [-t N] [--slots]
// With --slots as of a backend that shows no chunks: 16 rows of one text in a pass.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "bench_model.h"
#include "corpus/feature_passes.h"
#include "error.h"
#include "tests/unit/forwarding_backend.h"
#include "train/head_trainer.h"

using namespace specbound;

namespace {

constexpr int kDim = 256, kVocab = 4096, kLayers = 16, kReply = 64;

std::vector<float> noise(size_t n, uint64_t seed) {
  std::vector<float> values(n);
  for (float& v : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = (static_cast<float>(seed >> 40) * 0x1p-23f - 1) * 1.7f;
  }
  return values;
}

struct FeaturesBench {
  std::string model;  // empty: none
  int length = 60, seconds = 8;
  bool slots = false;
};

// Tokens that do not begin alike, as states at layer 0 and the last one.
nlohmann::json measure_features(const FeaturesBench& bench, int threads) {
  bench::Arguments arguments;
  arguments.model = bench.model;
  arguments.threads = threads;
  bench::Model model(arguments, 4096, kMaxRows);
  const int dim = model.config.dim;
  const size_t n = static_cast<size_t>(bench.length), most = size_t{1} << 20;
  const std::vector<int32_t> ids = bench::ids(1 << 20, model.config.vocab_size);
  std::vector<TrainingText> texts;
  for (size_t at = 0; at + n < most; at += n) {
    TrainingText& text = texts.emplace_back();
    text.tokens.assign(ids.begin() + at, ids.begin() + at + n);
    text.learn.assign(n, 1);
    std::fill_n(text.learn.begin(), n / 3, uint8_t{0});
    text.learn.back() = 0;
  }
  const std::string folder = std::filesystem::temp_directory_path() /
                             format("bench-features-%d", static_cast<int>(getpid()));
  int64_t tokens = 0;
  double seconds = 0;
  {
    FeatureStore store(folder, {0}, dim, size_t{1} << 32);
    std::unique_ptr<Backend> backend = std::move(model.backend);
    if (bench.slots) backend = std::make_unique<test::ForwardingBackend>(std::move(backend));
    FeaturePasses passes(store, *backend, {model.weights.output_norm, static_cast<size_t>(dim)});
    passes.add(texts[0]);  // warms up
    passes.finish();
    const double start = bench::now();
    for (size_t i = 1; i < texts.size() && bench::now() < start + bench.seconds; ++i) {
      passes.add(texts[i]);
      tokens += bench.length;
    }
    passes.finish();
    seconds = bench::now() - start;
  }
  std::filesystem::remove_all(folder);
  return {{"tokens_per_second", static_cast<double>(tokens) / seconds}};
}

}  // namespace

int main(int argc, char** argv) try {
  int rows = 20000, shortlist_size = 1024;
  FeaturesBench features;
  TrainOptions options;
  options.layers = {0, 2, 4, 8};
  options.deepest_chained = 0;
  options.epochs = 1;
  options.threads = 2;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--own") == 0) {
      options.own_gemm = true;
      continue;
    }
    if (std::strcmp(argv[i], "--slots") == 0) {
      features.slots = true;
      continue;
    }
    const std::string flag = argv[i];
    if (i + 1 >= argc) throw Error(ErrorCode::kUsage, flag + " needs a value");
    if (flag == "--features") {
      features.model = argv[++i];
      continue;
    }
    const int value = std::stoi(argv[++i]);
    if (value < 1) throw Error(ErrorCode::kUsage, flag + ": expected 1 or more, found " + argv[i]);
    if (flag == "--rows") {
      rows = value;
    } else if (flag == "--shortlist") {
      shortlist_size = value;
    } else if (flag == "--batch") {
      options.batch = value;
    } else if (flag == "-t") {
      options.threads = value;
    } else if (flag == "--length") {
      features.length = value;
    } else if (flag == "--seconds") {
      features.seconds = value;
    } else {
      throw Error(ErrorCode::kUsage, "unknown flag " + flag);
    }
  }
  if (!features.model.empty()) {
    std::printf("%s\n", measure_features(features, options.threads).dump().c_str());
    return 0;
  }
  FeatureChunk chunk;
  chunk.rows = rows;
  chunk.dim = kDim;
  for (size_t l = 0; l < options.layers.size(); ++l) {
    chunk.x.push_back(noise(static_cast<size_t>(rows) * kDim, l + 1));
  }
  chunk.y = noise(static_cast<size_t>(rows) * kDim, 99);
  chunk.next.resize(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) chunk.follows.push_back(r % kReply != 0);
  const FeatureSource source{options.layers, kDim, 1, rows, [&](int) { return chunk; }};
  const std::vector<float> lm_head = noise(size_t{kVocab} * kDim, 7);
  std::vector<int32_t> shortlist(static_cast<size_t>(shortlist_size));
  for (int i = 0; i < shortlist_size; ++i) shortlist[static_cast<size_t>(i)] = i;
  const HeadsBase base{"llama", kLayers, kDim, kVocab, ""};
  const TrainedHeads trained = train_heads(source, lm_head, shortlist, base, options, nullptr);

  nlohmann::json out;
  out["tokens_x_layers_per_second"] = trained.tokens_x_layers_per_second;
  out["arithmetic"] = trained.arithmetic;
  out["loss"] = trained.loss_curve.back().second;
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_train: %s\n", e.what());
  return 1;
}
