// What decoding is made of, measured on one backend: a token, a pass over some rows, a row that
// leaves early, a check. For `specbound bench`. docs/architecture.md 8.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decode/sampler.h"
#include "engine/backend.h"
#include "model/exit_heads.h"
#include "trace/statistics.h"

namespace specbound {

struct ShapeCostOptions {
  int repeats = 5;
  int n_gen = 128;       // tokens of a decoding run
  int shortlist = 8192;  // tokens of a folded or chained check; cut to the vocabulary
  // Before each part: what comes. May throw.
  std::function<void(const std::string& what)> step;
};

struct ContextCosts {
  int context = 0;  // positions before
  Spread token;     // seconds of a token of plain greedy decoding, n_gen of them in a row
  Spread layer;     // of a layer over one row, a share of passes through all layers
  // [M] all layers over M rows and the draws after them.
  std::array<Spread, kMaxRows + 1> verify;
};

// A row through layers 1..exit_layer with a check after each of the check layers, the last of them
// exit_layer; rows follow each other as in a round, each waiting for the decision before it.
struct DraftedRow {
  int exit_layer = 0;
  std::vector<int> check_layers;
  Spread seconds;
};

struct CheckTime {
  HeadKind kind = HeadKind::kFolded;
  int tokens = 0;
  Spread device;  // what it adds to layers that are waited for anyway; on a CPU the same as `call`
  Spread call;    // from asking to the answer, nothing else under way
};

struct DraftCosts {
  CheckTime check;  // that the rows make
  std::vector<DraftedRow> rows;
};

struct LaunchCosts {
  Spread launch;  // the host's time for launching the smallest graph
  Spread graph;   // the same graph from launching it to knowing that it is done
  Spread layer;   // one row through one layer, likewise
};

class BenchMeasure {
 public:
  // Both must outlive it. The backend's K/V and exit heads are the measurement's own.
  BenchMeasure(Backend& backend, const ShapeCostOptions& options);

  // `context` + max(n_gen, kMaxRows) + 1 must fit.
  ContextCosts at_context(int context);
  // By exit layer, with one folded check and with two. None in a model of one layer. To be called
  // behind at_context() of the same context.
  DraftCosts drafted_rows(int context);
  // By head kind. None in a model of one layer.
  std::vector<CheckTime> checks();
  // Nullopt without a GPU.
  std::optional<LaunchCosts> launches();

  int shortlist() const { return shortlist_; }

 private:
  template <class F>
  double timed(F work);
  void bring_row(int layer, int slot = 0);
  void finish_rows(int rows);
  CheckTime time_check(HeadKind kind, int head, int layer, int tokens);
  Spread drafted_row(const ExitHeads& heads, const std::vector<int>& check_layers);
  void step(const std::string& what) const;

  Backend& backend_;
  const ShapeCostOptions& options_;
  const int n_layers_, vocab_size_, shortlist_;
  int context_ = 0;
  int batch_ = 1;  // passes of a sample
  std::vector<int32_t> tokens_;
  std::vector<float> z_;  // (kMaxRows, vocab_size), where the host draws
  Sampler greedy_;
};

// Bytes that backends can be told to leave free for the heads of all measurements.
size_t bench_heads_bytes(const ModelConfig& config, int shortlist);

}  // namespace specbound
