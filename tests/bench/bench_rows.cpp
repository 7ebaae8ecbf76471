// Seconds of one pass over M rows (all layers and logits), M = 1..16, as one JSON object on stdout:
// what verifying M tokens costs against decoding one. The row counts take turns, so that a slow
// spell of the machine touches all of them. With --checks instead: what an exit check costs, in
// units of one layer of one row, by kind of head and length of the shortlist.
// bench_rows -m FILE [--checks] [-t N] [--prompt P] [--repeats R] [--no-repack]
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench_model.h"
#include "model/exit_heads.h"

using namespace specbound;

namespace {

nlohmann::json measure_rows(bench::Model& model, const bench::Arguments& a) {
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
    seconds.push_back(median(samples[m]));
    ratio.push_back(median(samples[m]) / median(samples[1]));
  }
  return {{"seconds", seconds}, {"ratio", ratio}};
}

HeadTensor random_tensor(int n_out, int n_in) {
  HeadTensor tensor{n_out, n_in, std::vector<float>(static_cast<size_t>(n_out) * n_in)};
  uint32_t state = 1;
  for (float& v : tensor.values) {
    state = state * 1664525 + 1013904223;
    v = (static_cast<float>(state >> 8) * 0x1p-23f - 1) / std::sqrt(static_cast<float>(n_in));
  }
  return tensor;
}

// Heads of every kind after every layer but the last, of random values: only time is looked at.
ExitHeads random_heads(const bench::Model& model) {
  const ModelConfig& c = model.config;
  NewHeads file;
  file.base = heads_base(model.gguf, c);
  for (int i = 0; i < std::min(c.vocab_size, 4096); ++i) file.shortlist.push_back(i);
  const int n = static_cast<int>(file.shortlist.size());
  for (int l = 1; l < c.n_layers; ++l) {
    NewHead full, folded, chained;
    full.layer = folded.layer = chained.layer = l;
    full.kind = HeadKind::kFull;
    full.map = random_tensor(c.dim, c.dim);
    folded.folded = random_tensor(n, c.dim);
    chained.kind = HeadKind::kChained;
    chained.map = random_tensor(c.dim, 2 * c.dim);
    chained.inner = random_tensor(2 * c.dim, 2 * c.dim);
    chained.outer = random_tensor(c.dim, 2 * c.dim);
    for (NewHead* head : {&full, &folded, &chained}) file.heads.push_back(std::move(*head));
    file.defaults.check_layers.push_back(l);
  }
  file.defaults.shortlist = n;
  const std::string path = std::filesystem::temp_directory_path() /
                           format("bench-heads-%d.gguf", static_cast<int>(getpid()));
  write_exit_heads(path, file);
  ExitHeads heads = ExitHeads::open(path, model.gguf, c);
  std::remove(path.c_str());  // its map stays
  return heads;
}

// One row, a layer at a time as drafting takes them, with and without a check after each.
nlohmann::json measure_checks(bench::Model& model, const bench::Arguments& a) {
  Backend& backend = *model.backend;
  const int n_layers = model.config.n_layers;
  const std::vector<int32_t> prompt = bench::ids(a.prompt, model.config.vocab_size);
  const ExitHeads heads = random_heads(model);
  const int listed = static_cast<int>(heads.shortlist().size());
  std::vector<float> logits(model.config.vocab_size);
  backend.prefill(prompt);
  double layer = 0, call = 0;
  const auto pass = [&](bool apart, std::optional<HeadKind> kind) {
    backend.truncate(a.prompt);
    backend.embed(0, prompt[0]);
    const double start = bench::now();
    if (!apart) backend.run_layers(0, 1, a.prompt, 1, n_layers);
    for (int l = 1; apart && l <= n_layers; ++l) {
      backend.run_layers(0, 1, a.prompt, l, l);
      if (kind && l < n_layers) backend.exit_check(heads.find(*kind, l), 0, 1);
    }
    const double seconds = bench::now() - start;
    backend.keep_state(0);
    backend.logits(0, 1, logits.data());  // between passes caches see what they see in a round
    return seconds;
  };
  nlohmann::json checks = nlohmann::json::array();
  for (int shortlist : {256, 512, 1024, 2048, 4096}) {
    if (shortlist > listed) break;
    backend.set_exit_heads(&heads, shortlist);
    for (HeadKind kind : {HeadKind::kFolded, HeadKind::kChained, HeadKind::kFull}) {
      if (kind == HeadKind::kFull && shortlist != 256) continue;
      std::vector<double> together, alone, checked;
      for (int i = 0; i <= a.repeats; ++i) {
        const double t[] = {pass(false, {}), pass(true, {}), pass(true, kind)};
        if (i == 0) continue;
        together.push_back(t[0]);
        alone.push_back(t[1] - t[0]);
        checked.push_back(t[2] - t[1]);
      }
      layer = median(together) / n_layers;
      call = median(alone) / (n_layers - 1);
      const double seconds = median(checked) / (n_layers - 1);
      nlohmann::json entry = {
          {"kind", head_kind_name(kind)}, {"seconds", seconds}, {"layers", seconds / layer}};
      entry["shortlist"] = kind == HeadKind::kFull ? model.config.vocab_size : shortlist;
      checks.push_back(entry);
    }
  }
  return {{"layer_seconds", layer}, {"call_seconds", call}, {"checks", checks}};
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<char*> rest(argv, argv + argc);
  const bool checks =
      std::erase_if(rest, [](const char* s) { return s == std::string("--checks"); });
  const bench::Arguments a = bench::parse(static_cast<int>(rest.size()), rest.data());
  bench::Model model(a, a.prompt + kMaxRows);
  nlohmann::json out = checks ? measure_checks(model, a) : measure_rows(model, a);
  out["backend"] = model.backend->description();
  out["prompt"] = a.prompt;
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_rows: %s\n", e.what());
  return 1;
}
