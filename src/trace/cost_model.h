// What each step of a round costs on one machine with one model, measured: the currency in which
// settings are compared. docs/architecture.md 3.3, 9.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace specbound {

// What a check costs, for one kind of head (as head_kind_name spells it, or "lens") over `tokens`
// logits. A kind of "draw" is the drawing of a token at a temperature from that many logits.
struct CheckCost {
  std::string kind;
  int tokens = 0;
  double seconds = 0;
};

struct CostModel {
  static constexpr int kRows = 16;
  static constexpr const char* kDraw = "draw";

  int n_layers = 0;
  int vocab_size = 0;
  std::array<double, kRows + 1> layer{};  // [M] seconds of one layer over M rows
  // Where the first layers run elsewhere (Backend::first_layers()): how many, each of them, and
  // what a pass over some of them takes beside them.
  int first_layers = 0;
  std::array<double, kRows + 1> first_layer{};
  double first_pass = 0;
  std::array<double, kRows + 1> logits{};  // [M] lm_head over M rows
  double pass = 0;  // of every pass over one or more layers, beside them: waking the threads
  std::vector<CheckCost> checks;
  double plain_token = 0;  // a plain greedy token, everything included
  double argmax = 0;       // a greedy token from the logits of the whole vocabulary
  double row = 0;          // of every row beside the layers and the logits: its embedding
  double round = 0;        // of every round beside its rows

  // Seconds of a pass through layers from..to, 1-based and inclusive.
  double run(int from, int to, int rows) const;
  // Of all layers and the logits over M rows.
  double verify(int rows) const { return run(1, n_layers, rows) + logits[rows]; }
  // Linear in the tokens between and beyond what was measured of that kind; 0 without any.
  double check(const std::string& kind, int tokens) const;
  // A token from the logits of the whole vocabulary.
  double target(bool greedy) const { return greedy ? argmax : check(kDraw, vocab_size); }
  // A token of plain decoding.
  double plain(bool greedy) const { return plain_token + target(greedy) - argmax; }
  // The same machine and model with 1 <= `n` <= n_layers first layers elsewhere; where some are
  // already, or else none of the costs there is known.
  CostModel with_first_layers(int n) const;
};

// E[tokens of a round] of `rows` rows whose drafts are right with chance `acceptance` each.
double expected_tokens(double acceptance, int rows);

// The acceptance with which rounds of `rows` rows give `tokens`, 1 to rows, each.
double acceptance_for(double tokens, int rows);

// The speedup over plain greedy decoding when every draft leaves at `exit_layer` after one check
// of `check_seconds`, and every round has `rows` rows.
double predicted_speedup(const CostModel& costs, int exit_layer, double check_seconds,
                         double acceptance, int rows);

}  // namespace specbound
