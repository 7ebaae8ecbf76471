// The rounds of a reply as another model can replay them: where their drafts left, and how many
// were right. Read from a trace, or drawn so that a published compression rate comes out.
// docs/architecture.md 3.3.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace specbound {

struct RecordedRound {
  std::vector<int> exits;  // layer of each draft
  int accepted = 0;        // of the drafts, from the first on

  bool operator==(const RecordedRound&) const = default;
};

struct RecordedRounds {
  int n_layers = 0;               // of the model that they come from
  int w_max = 0;                  // rows of a round at most
  std::vector<int> check_layers;  // ascending; each exit is one of them
  std::vector<RecordedRound> rounds;

  // In a model of `to` layers (at least 2): every layer at the same share of the depth, check
  // layers that meet become one. Layer 0 (before any) stays.
  RecordedRounds scaled(int to) const;
  // Tokens a round, each of which gives one more than it has accepted.
  double compression_rate() const;
  double mean_exit_layer() const;  // of all drafts; 0 without any
  double acceptance() const;       // accepted drafts of all
};

// The rounds of a trace (trace/recorder.h) that looked for drafts. `name` is for messages. Throws
// Error(kFormat) naming the line for what is no trace, Error(kUnsupported) for replies that drafted
// in different ways or without exit heads.
RecordedRounds read_recorded_rounds(std::istream& trace, const std::string& name);

// What is known of rounds that nobody recorded.
struct RoundFigures {
  double compression_rate = 0;  // 1 to `rows`
  double mean_exit = 0;         // layer
  int checks = 1;               // check layers
  int rows = 8;                 // of every round
};

// The check layers nearest to the mean exit, two apart: one at it, two beside it, and so on; at
// least 1, below the last. Fewer where there is no room.
std::vector<int> check_layers_around(double mean_exit, int checks, int n_layers);

// `n` rounds (at least 1) of figures.rows rows in a model of n_layers layers (at least 2). Every
// row leaves at a check layer, as evenly as the mean exit allows; each draft is right with the
// chance that gives the compression rate. Both as exactly as n rounds can have them, in an order
// drawn from a fixed seed. Throws Error(kUsage) for what cannot be.
RecordedRounds drawn_rounds(const RoundFigures& figures, int n, int n_layers);

}  // namespace specbound
