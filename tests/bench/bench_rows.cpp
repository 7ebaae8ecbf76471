// Seconds of one pass over M rows (all layers and logits), M = 1..16, as one JSON object on stdout:
// what verifying M tokens costs against decoding one. The row counts take turns, so that a slow
// spell of the machine touches all of them. bench_rows -m FILE [-t N] [--prompt P] [--repeats R]
// [--no-repack]
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench_model.h"

using namespace specbound;

int main(int argc, char** argv) try {
  const bench::Arguments a = bench::parse(argc, argv);
  bench::Model model(a, a.prompt + kMaxRows);
  Backend& backend = *model.backend;
  const int n_layers = model.config.n_layers;
  const std::vector<int32_t> prompt = bench::ids(a.prompt, model.config.vocab_size);
  std::vector<float> logits(static_cast<size_t>(kMaxRows) * model.config.vocab_size);
  backend.prefill(prompt);
  std::vector<std::vector<double>> samples(kMaxRows + 1);
  for (int i = 0; i <= a.repeats; ++i) {
    for (int m = 1; m <= kMaxRows; ++m) {
      backend.truncate(a.prompt);
      const double start = bench::now();
      for (int r = 0; r < m; ++r) backend.embed(r, prompt[r]);
      backend.run_layers(0, m, a.prompt, 1, n_layers);
      backend.logits(0, m, logits.data());
      const double t = bench::now() - start;
      if (i > 0) samples[m].push_back(t);  // the first turn warms up
    }
  }
  nlohmann::json seconds = nlohmann::json::array(), ratio = nlohmann::json::array();
  for (int m = 1; m <= kMaxRows; ++m) {
    seconds.push_back(bench::median(samples[m]));
    ratio.push_back(bench::median(samples[m]) / bench::median(samples[1]));
  }
  const nlohmann::json out = {{"backend", backend.description()},
                              {"prompt", a.prompt},
                              {"seconds", seconds},
                              {"ratio", ratio}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_rows: %s\n", e.what());
  return 1;
}
