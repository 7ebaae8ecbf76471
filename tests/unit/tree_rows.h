// What tests of the tree of all sources stand on: a model, texts that repeat, costs, and the rows
// of a first round.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "decode/generate.h"
#include "drafters/tree_speculator.h"
#include "engine_rig.h"

namespace specbound::test::tree_rows {

constexpr int kLayers = 8, kVocab = 97;
using Text = std::vector<int32_t>;

inline const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

// What a row more costs, in plain rounds.
inline RowCosts costing(double row) {
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1 + row * (rows - 1);
  return costs;
}

struct Row {
  int32_t token;
  int parent, drafted_at;
  bool operator==(const Row&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << "{" << row.token << ", " << row.parent << ", " << row.drafted_at << "}";
}

// Rows are left where, and as deep as, a row behind them was drafted that has stayed.
inline void check_exits(const RoundEvent& round) {
  std::vector<int> exits(round.rows.size(), kNoDraft);
  for (const RowEvent& row : round.rows) {
    if (row.parent < 0) continue;
    exits[row.parent] = std::max(exits[row.parent], row.drafted_at);
  }
  for (size_t i = 0; i < exits.size(); ++i) CHECK(round.rows[i].exit_layer == exits[i]);
}

// The rows of the first round of a reply to `prompt`, and why there are no more.
inline std::vector<Row> first_round(TreeSpeculator& tree, const Text& prompt, int end_token = -1,
                                    DraftEnd* end = nullptr) {
  const auto engine = model().backend(best_isa(), 1);
  Session session(*engine, Sampler(SamplingParams{.temperature = 0}));
  session.set_speculator(&tree);
  GenerateOptions options;
  options.max_tokens = 20;
  options.is_end = [&](int32_t token) { return token == end_token; };
  std::vector<Row> rows;
  options.on_round = [&](const RoundEvent& round) {
    check_exits(round);
    if (round.round > 0) return;
    if (end) *end = round.draft_end;
    for (const RowEvent& row : round.rows) rows.push_back({row.token, row.parent, row.drafted_at});
  };
  session.generate(prompt, options);
  return rows;
}

// Eight tokens, and the first five of them again.
inline const Text kEcho = {11, 22, 33, 44, 55, 66, 77, 88, 11, 22, 33, 44, 55};
// 1 2 goes on with 3 and with 4, which go on differently.
inline const Text kFork = {1, 2, 3, 30, 9, 1, 2, 4, 40, 8, 1, 2};

}  // namespace specbound::test::tree_rows
