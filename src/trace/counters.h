// Counters of the decode loop, always on; a snapshot is a copy. docs/architecture.md 9.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "trace/cost_model.h"
#include "trace/event.h"

namespace specbound {

struct Counters {
  int rounds = 0;
  int decoded_tokens = 0;  // given to texts, end tokens counted
  int drafted_tokens = 0;
  int accepted_tokens = 0;
  int checks = 0;
  int plain_rounds = 0;               // of the rounds, those in which nothing was to be drafted
  int64_t plain_ns = 0;               // what these took
  std::vector<int> accepted_at;       // [layer]: accepted drafts; 0: before any layer
  std::array<int64_t, kPhases> ns{};  // by Phase

  // A RoundEvent or a RoundRecord.
  template <class Round>
  void add(const Round& round) {
    ++rounds;
    decoded_tokens += static_cast<int>(round.tokens.size());
    drafted_tokens += round.drafted();
    if (round.plain()) {
      ++plain_rounds;
      plain_ns += round.total_ns();
    }
    for (const auto& row : round.rows) checks += static_cast<int>(row.checks.size());
    for (const auto& token : round.tokens) {
      if (!token.accepted()) continue;
      ++accepted_tokens;
      count(accepted_at, token.exit_layer);
    }
    for (int i = 0; i < kPhases; ++i) ns[i] += round.ns[i];
  }

  void add(const Counters& other) {
    rounds += other.rounds;
    decoded_tokens += other.decoded_tokens;
    drafted_tokens += other.drafted_tokens;
    accepted_tokens += other.accepted_tokens;
    checks += other.checks;
    plain_rounds += other.plain_rounds;
    plain_ns += other.plain_ns;
    add_all(accepted_at, other.accepted_at);
    for (int i = 0; i < kPhases; ++i) ns[i] += other.ns[i];
  }

  bool operator==(const Counters&) const = default;

  // Of the accepted drafts, those before any layer counted with 0; nullopt without any.
  std::optional<double> mean_exit_layer() const {
    double sum = 0;
    for (size_t l = 0; l < accepted_at.size(); ++l) sum += static_cast<double>(l) * accepted_at[l];
    if (accepted_tokens == 0) return std::nullopt;
    return sum / accepted_tokens;
  }

  // One more at this place, and another's counts, place by place.
  static void count(std::vector<int>& counts, int at) {
    if (counts.size() <= static_cast<size_t>(at)) counts.resize(at + 1);
    ++counts[at];
  }
  static void add_all(std::vector<int>& counts, const std::vector<int>& others) {
    counts.resize(std::max(counts.size(), others.size()));
    for (size_t i = 0; i < others.size(); ++i) counts[i] += others[i];
  }
};

// Drafts by their place in the round: [0] is that of the first ones, right behind the root.
struct DraftPlaces {
  std::vector<int> drafted, accepted;

  // A RoundEvent or a RoundRecord.
  template <class Round>
  void add(const Round& round) {
    std::array<int, CostModel::kRows> depth{};  // [slot]
    for (size_t slot = 1; slot < round.rows.size(); ++slot) {
      depth[slot] = depth[static_cast<size_t>(round.rows[slot].parent)] + 1;
      Counters::count(drafted, depth[slot] - 1);
    }
    for (size_t i = 0; i < round.tokens.size(); ++i) {
      if (round.tokens[i].accepted()) Counters::count(accepted, static_cast<int>(i));
    }
  }

  void add(const DraftPlaces& other) {
    Counters::add_all(drafted, other.drafted);
    Counters::add_all(accepted, other.accepted);
  }
};

}  // namespace specbound
