// How fast exit heads learn on a GPU at a model's shape: random features, as one JSON object on
// stdout. Without flags: the folded heads that train-heads makes for a 7B model.
//   gpu_train [--dim N] [--shortlist N] [--folded N] [--chained N] [--batch N] [--steps N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "error.h"
#include "runtime/gpu.h"
#include "train/head_learner.h"

using namespace specbound;

namespace {

constexpr int kChunkRows = 1024, kChunks = 4, kReply = 64, kUnroll = 3;
// What train-heads does without flags.
constexpr double kRows = 200000, kEpochs = 20;

std::vector<float> noise(size_t n, uint64_t seed, float size) {
  std::vector<float> values(n);
  for (float& v : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = (static_cast<float>(seed >> 40) * 0x1p-23f - 1) * size;
  }
  return values;
}

double seconds_since(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

// Products of one row: forward, logits, and twice that backward; the target once for all heads.
double flops_of_row(double dim, double shortlist, int folded, int chained) {
  const double logits = 2 * shortlist * dim, map = 2 * dim * dim;
  // Map (2 dim) and inner read [x; s], and their gradients go back to the state too.
  const double chain = 2 * logits + (2 + 2 + 1) * map + (2 + 2 + 1) * map + 3 * map;
  return logits * (chained > 0 ? kUnroll : 1) + folded * 2 * (logits + map) +
         chained * kUnroll * chain;
}

}  // namespace

int main(int argc, char** argv) try {
  int dim = 4096, shortlist_size = 8192, n_folded = 9, n_chained = 0, batch = 512, steps = 50;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const std::pair<const char*, int*> flags[] = {
        {"--dim", &dim},         {"--shortlist", &shortlist_size},
        {"--folded", &n_folded}, {"--chained", &n_chained},
        {"--batch", &batch},     {"--steps", &steps}};
    const auto found = std::find_if(std::begin(flags), std::end(flags),
                                    [&](const auto& known) { return flag == known.first; });
    if (found == std::end(flags) || i + 1 >= argc) {
      throw Error(ErrorCode::kUsage, flag + ": no such flag, or no value");
    }
    *found->second = std::stoi(argv[i + 1]);
  }
  const GpuSurvey survey = gpu_engine().survey();
  if (survey.state != GpuSurvey::State::kReady) {
    throw Error(ErrorCode::kUnsupported, survey.why_not);
  }
  const std::unique_ptr<Device> device = gpu_engine().open(survey.gpus.front().index);

  // A layer for each head; chunks are all the same, which the arithmetic does not care about.
  const int n_layers = std::max(n_folded, n_chained);
  FeatureChunk chunk;
  chunk.rows = kChunkRows;
  chunk.dim = dim;
  const size_t n = static_cast<size_t>(kChunkRows) * static_cast<size_t>(dim);
  for (int l = 0; l < n_layers; ++l) chunk.x.push_back(noise(n, static_cast<uint64_t>(l), 1.7f));
  chunk.y = noise(n, 99, 1.7f);
  chunk.next.resize(kChunkRows);
  for (int r = 0; r < kChunkRows; ++r) chunk.follows.push_back(r % kReply != 0);
  const FeatureSource source{std::vector<int>(static_cast<size_t>(n_layers)), dim, kChunks,
                             int64_t{kChunkRows} * kChunks, [&](int) { return chunk; }};

  ThreadPool pool(1);
  const Gemm gemm(pool);
  const std::vector<float> lm_head =
      noise(static_cast<size_t>(shortlist_size) * static_cast<size_t>(dim), 7, 0.03f);
  std::vector<int32_t> shortlist(static_cast<size_t>(shortlist_size));
  for (int i = 0; i < shortlist_size; ++i) shortlist[static_cast<size_t>(i)] = i;
  TrainingStep step(gemm, lm_head, dim, shortlist, 1.5f);

  std::vector<LearningHead> heads;
  std::vector<int> x_index;
  BatchPlan plan{std::vector<uint8_t>(static_cast<size_t>(n_layers), 1),
                 std::vector<uint8_t>(static_cast<size_t>(n_layers)), n_chained > 0 ? kUnroll : 0};
  const auto add_head = [&](HeadKind kind, int layer) {
    LearningHead head;
    head.kind = kind;
    head.dim = dim;
    head.n_inner = kind == HeadKind::kChained ? dim : 0;
    const size_t n_in = static_cast<size_t>(head.n_in());
    const size_t n_inner = static_cast<size_t>(head.n_inner);
    head.map.resize(static_cast<size_t>(dim) * n_in);
    head.inner.resize(n_inner * n_in);
    head.outer.resize(static_cast<size_t>(dim) * n_inner);
    head.map.value = noise(head.map.value.size(), 11, 0.01f);
    head.inner.value = noise(head.inner.value.size(), 12, 0.01f);
    heads.push_back(std::move(head));
    x_index.push_back(layer);
    if (kind == HeadKind::kChained) plan.chained_layer[static_cast<size_t>(layer)] = 1;
  };
  for (int l = 0; l < n_chained; ++l) add_head(HeadKind::kChained, l);
  for (int l = 0; l < n_folded; ++l) add_head(HeadKind::kFolded, l);
  const RowSplit split{kChunks, 0, source.n_rows, 0};
  Batches batches(source, split, plan.chains, batch, 0);
  const std::unique_ptr<HeadLearner> learner =
      gpu_engine().learner(*device, {source, step, heads, x_index, plan, batches.most_rows(), {}});
  learner->begin();

  // The equations of the first head; the first round brings the features.
  const EquationsOf wanted[] = {{0, n_chained > 0}};
  double equations = 0;
  for (int round = 0; round < 2; ++round) {
    learner->begin_equations(wanted);
    device->synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int c = 0; c < kChunks; ++c) learner->add_equations(c, kAllRows);
    device->synchronize();
    equations = seconds_since(start);
  }
  learner->take_equations();

  BatchPlace place;
  std::vector<RowAt> rows;
  std::vector<double> losses(heads.size());
  int64_t learnt = 0;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps + 3; ++i) {
    if (i == 3) {  // warm
      start = std::chrono::steady_clock::now();
      learnt = 0;
    }
    if (!batches.next(1 << 30, place, *learner, rows)) break;
    learner->learn(rows, i + 1, 1e-4f, losses);
    learnt += std::ssize(rows);
  }
  const double seconds = seconds_since(start), rows_per_second = double(learnt) / seconds;
  const double flops = flops_of_row(dim, shortlist_size, n_folded, n_chained);
  const double equation_rows = double(source.n_rows) / equations;

  nlohmann::json out;
  out["arithmetic"] = learner->arithmetic();
  out["dim"] = dim;
  out["shortlist"] = shortlist_size;
  out["folded"] = n_folded;
  out["chained"] = n_chained;
  out["batch"] = batch;
  out["loss"] = losses.back();
  out["rows_per_second"] = rows_per_second;
  out["step_ms"] = 1e3 * seconds / steps;
  out["gflop_per_row"] = 1e-9 * flops;
  out["tflops"] = 1e-12 * flops * rows_per_second;
  out["equation_rows_per_second"] = equation_rows;
  out["predicted_minutes"] = {
      {"rows", kRows},
      {"epochs", kEpochs},
      {"steps", kRows * kEpochs / rows_per_second / 60},
      {"equations", kRows * static_cast<double>(heads.size()) / equation_rows / 60}};
  std::printf("%s\n", out.dump(1).c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu_train: %s\n", e.what());
  return 1;
}
