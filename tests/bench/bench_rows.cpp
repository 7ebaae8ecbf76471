// Seconds of one pass over M rows (all layers and logits), M = 1..16, as one JSON object on stdout:
// what verifying M tokens costs against decoding one. The row counts take turns, so that a slow
// spell of the machine touches all of them. With --checks instead: what an exit check costs, in
// units of one layer of one row, by kind of head and length of the shortlist, and what one by a
// draft layer does, beside a layer and a folded check.
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

int shortlist_size(const ModelConfig& c) {
  return std::min(c.vocab_size, 4096);
}

// A file of these: only time is looked at.
ExitHeads random_heads(const bench::Model& model, std::vector<NewHead> heads) {
  const ModelConfig& c = model.config;
  NewHeads file;
  file.base = heads_base(model.gguf, c);
  for (int i = 0; i < shortlist_size(c); ++i) file.shortlist.push_back(i);
  file.defaults.kind = heads[0].kind;
  file.defaults.check_layers.clear();
  for (const NewHead& head : heads) {
    if (head.kind == heads[0].kind) file.defaults.check_layers.push_back(head.layer);
  }
  file.heads = std::move(heads);
  file.defaults.shortlist = shortlist_size(c);
  const std::string path = std::filesystem::temp_directory_path() /
                           format("bench-heads-%d.gguf", static_cast<int>(getpid()));
  write_exit_heads(path, file);
  ExitHeads opened = ExitHeads::open(path, model.gguf, c);
  std::remove(path.c_str());  // its map stays
  return opened;
}

// Of every kind after every layer but the last.
ExitHeads random_heads(const bench::Model& model) {
  const ModelConfig& c = model.config;
  std::vector<NewHead> heads;
  for (int l = 1; l < c.n_layers; ++l) {
    NewHead full, folded, chained;
    full.layer = folded.layer = chained.layer = l;
    full.kind = HeadKind::kFull;
    full.map = random_tensor(c.dim, c.dim);
    folded.folded = random_tensor(shortlist_size(c), c.dim);
    chained.kind = HeadKind::kChained;
    chained.map = random_tensor(c.dim, 2 * c.dim);
    chained.inner = random_tensor(2 * c.dim, 2 * c.dim);
    chained.outer = random_tensor(c.dim, 2 * c.dim);
    for (NewHead* head : {&full, &folded, &chained}) heads.push_back(std::move(*head));
  }
  return random_heads(model, std::move(heads));
}

// A draft layer as train-heads makes it.
ExitHeads random_layer(const bench::Model& model) {
  const ModelConfig& c = model.config;
  const int inner = (2 * c.dim + 31) / 32 * 32;
  NewHead layer;
  layer.kind = HeadKind::kLayer;
  layer.map = random_tensor(c.dim, 2 * c.dim);
  layer.q = random_tensor(c.q_dim(), c.dim);
  layer.k = layer.v = random_tensor(c.kv_dim(), c.dim);
  layer.o = random_tensor(c.dim, c.q_dim());
  layer.gate = layer.up = random_tensor(inner, c.dim);
  layer.down = random_tensor(c.dim, inner);
  layer.norm = random_tensor(1, c.dim);
  return random_heads(model, {std::move(layer)});
}

// The check that begins a round, behind the row before, whose state the layer takes up in the same
// batch, and a folded one of as many tokens, which is the shortlist's part of it.
nlohmann::json measure_draft_layer(bench::Model& model, const bench::Arguments& a,
                                   const ExitHeads& others, double layer) {
  Backend& backend = *model.backend;
  const int n_layers = model.config.n_layers;
  const std::vector<int32_t> prompt = bench::ids(a.prompt + 2, model.config.vocab_size);
  const ExitHeads heads = random_layer(model);
  std::vector<float> logits(model.config.vocab_size);
  const auto checked = [&](const ExitHeads& of, int head, int shortlist) {
    backend.truncate(0);
    backend.set_exit_heads(&of, shortlist);
    backend.prefill(std::span(prompt).first(static_cast<size_t>(a.prompt)));
    std::vector<double> seconds;
    for (int i = 0; i <= a.repeats; ++i) {
      backend.truncate(a.prompt);
      backend.embed(0, prompt[a.prompt]);
      backend.run_layers(0, 1, a.prompt, 1, n_layers);
      backend.keep_state(0);
      backend.logits(0, 1, logits.data());
      const bool folded = of.heads()[head].kind == HeadKind::kFolded;
      if (!folded) backend.embed(0, prompt[a.prompt + 1]);
      const double start = bench::now();
      backend.exit_check(head, 0, 1);
      if (i > 0) seconds.push_back(bench::now() - start);
    }
    return median(seconds);
  };
  nlohmann::json found = nlohmann::json::array();
  for (int shortlist : {256, 1024, 4096}) {
    if (shortlist > static_cast<int>(heads.shortlist().size())) break;
    const double seconds = checked(heads, 0, shortlist);
    const double folded = checked(others, others.find(HeadKind::kFolded, 1), shortlist);
    found.push_back({{"shortlist", shortlist},
                     {"seconds", seconds},
                     {"folded_seconds", folded},
                     {"of_layer_and_shortlist", seconds / (layer + folded)}});
  }
  return found;
}

// One row, a layer at a time as drafting takes them, with and without a check after each.
nlohmann::json measure_checks(bench::Model& model, const bench::Arguments& a) {
  Backend& backend = *model.backend;
  const int n_layers = model.config.n_layers;
  const std::vector<int32_t> prompt = bench::ids(a.prompt, model.config.vocab_size);
  if (n_layers < 2)
    throw Error(ErrorCode::kUsage, "--checks: expected a model of 2 layers or more");
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
  return {{"layer_seconds", layer},
          {"call_seconds", call},
          {"checks", checks},
          {"draft_layer", measure_draft_layer(model, a, heads, layer)}};
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
