// How fast exit heads learn: random hidden states of the demo model's shape (the arithmetic does
// not care what they are), as one JSON object on stdout.
//   bench_train [--rows N] [--shortlist N] [--batch N] [-t N] [--own]
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "error.h"
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

}  // namespace

int main(int argc, char** argv) try {
  int rows = 20000, shortlist_size = 1024;
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
    const std::string flag = argv[i];
    if (i + 1 >= argc) throw Error(ErrorCode::kUsage, flag + " needs a value");
    const int value = std::stoi(argv[++i]);
    if (flag == "--rows") {
      rows = value;
    } else if (flag == "--shortlist") {
      shortlist_size = value;
    } else if (flag == "--batch") {
      options.batch = value;
    } else if (flag == "-t") {
      options.threads = value;
    } else {
      throw Error(ErrorCode::kUsage, "unknown flag " + flag);
    }
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
