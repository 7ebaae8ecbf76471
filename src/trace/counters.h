// Counters of the decode loop, always on; a snapshot is a copy. DESIGN 9.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "trace/event.h"

namespace specbound {

struct Counters {
  int rounds = 0;
  int decoded_tokens = 0;  // given to texts, end tokens counted
  int drafted_tokens = 0;
  int accepted_tokens = 0;
  int checks = 0;
  std::vector<int> accepted_at;       // [layer]: accepted drafts; 0: before any layer
  std::array<int64_t, kPhases> ns{};  // by Phase

  // A RoundEvent or a RoundRecord.
  template <class Round>
  void add(const Round& round) {
    ++rounds;
    decoded_tokens += static_cast<int>(round.tokens.size());
    drafted_tokens += round.drafted();
    for (const auto& row : round.rows) checks += static_cast<int>(row.checks.size());
    for (const auto& token : round.tokens) {
      if (!token.accepted()) continue;
      ++accepted_tokens;
      if (accepted_at.size() <= static_cast<size_t>(token.exit_layer)) {
        accepted_at.resize(token.exit_layer + 1);
      }
      ++accepted_at[token.exit_layer];
    }
    for (int i = 0; i < kPhases; ++i) ns[i] += round.ns[i];
  }

  void add(const Counters& other) {
    rounds += other.rounds;
    decoded_tokens += other.decoded_tokens;
    drafted_tokens += other.drafted_tokens;
    accepted_tokens += other.accepted_tokens;
    checks += other.checks;
    accepted_at.resize(std::max(accepted_at.size(), other.accepted_at.size()));
    for (size_t l = 0; l < other.accepted_at.size(); ++l) accepted_at[l] += other.accepted_at[l];
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
};

}  // namespace specbound
