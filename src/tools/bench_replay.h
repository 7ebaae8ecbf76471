// Recorded or drawn rounds (trace/recorded_rounds.h) replayed through a model of random weights, in
// alternation with plain decoding of the same text: what speculation would give at this size. A
// prediction, never a measured speedup of a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/bench_measure.h"
#include "trace/counters.h"
#include "trace/recorded_rounds.h"

namespace specbound {

struct ReplayOptions {
  int repeats = 5;
  int prompt = 128;  // tokens before the replay
  int shortlist = 8192;
  HeadKind kind = HeadKind::kFolded;  // that checks
  std::function<void(const std::string& what)> step;
};

// One sequence of rounds.
struct ReplayedCell {
  RecordedRounds rounds;  // scaled to the model
  Spread speedup;         // over plain decoding of the very same tokens, just before
  Spread round;           // seconds
  Counters counters;      // of all repeats
};

struct ReplayedGroup {
  std::vector<ReplayedCell> cells;
  Spread plain_token;  // seconds
  // Tokens a round that would just pay: what a round costs, in plain tokens. Of a round's cost
  // nothing depends on how many of its drafts are right.
  Spread break_even;
};

// Rounds that check at the same layers share heads, and plain runs to be compared with.
// Throws Error(kLimit) when the context is too small, or when the replay wrote other tokens than
// plain decoding.
ReplayedGroup replay_rounds(Backend& backend, const std::vector<RecordedRounds>& sequences,
                            const ReplayOptions& options);

// Context that a replay needs.
int replay_context(const std::vector<RecordedRounds>& sequences, int prompt);

// ---- the paper's figures ----

// Compression rates of Vicuna-7B by task (Table 1). Where drafts left it does not say.
struct PublishedTask {
  const char* name;
  double compression_rate;
};
inline constexpr PublishedTask kPublishedTasks[] = {{"Math", 3.78}, {"Multi.", 3.05},
                                                    {"QA", 4.23},   {"RAG", 5.48},
                                                    {"Sum.", 3.97}, {"Trans.", 6.41}};

}  // namespace specbound
