#include "decode/hybrid.h"

#include <algorithm>
#include <iterator>

namespace specbound {
namespace {

constexpr int kLongestRun = 17;  // longer ones are alike
constexpr double kPriorTries = 4, kPriorRight = 2;
constexpr double kMostTries = 64;     // that count: texts change
constexpr double kCountKept = 0.999;  // from round to round

// Tokens before `place` that are those at the end of the text.
int run_before(std::span<const int32_t> text, int place) {
  int run = 0;
  while (run < std::min(place, kLongestRun) && text[place - 1 - run] == text[text.size() - 1 - run])
    ++run;
  return run;
}

}  // namespace

int LookupOdds::place(int run) {
  constexpr int kLast[kRuns - 1] = {1, 2, 3, 4, 6, 8, 16};
  return static_cast<int>(std::lower_bound(std::begin(kLast), std::end(kLast), run) - kLast);
}

double LookupOdds::chance(int run) const {
  const FadingCount& count = counts_[place(run)];
  return (count.right + kPriorRight) / (count.tried + kPriorTries);
}

void LookupOdds::learn(int run, bool right) {
  counts_[place(run)].add(right, kMostTries);
}

void LookupOdds::fade() {
  for (FadingCount& count : counts_) count.fade(kCountKept);
}

void HybridSpeculator::begin(std::span<const int32_t> text) {
  first_.begin(text);
  index_.assign(text);
}

DraftEnd HybridSpeculator::draft(Round& round) {
  own_ = kMaxRows;
  odds_.fade();
  const DraftEnd end = first_.draft(round);
  if (end == DraftEnd::kReplyEnd || end == DraftEnd::kAborted || round.full()) return end;
  const std::span<const int32_t> text = round.history(round.newest());
  const int place = index_.find(text);
  if (place < 0) return end;
  own_ = round.rows();
  run_ = run_before(text, place);
  const int rows = paying(round);
  return rows > 0 ? draft_from(round, place, rows) : end;
}

// Rows to look up: as many as bring the most tokens beyond their cost.
int HybridSpeculator::paying(const Round& round) const {
  const DraftPolicy* policy = first_.policy();
  if (!policy) return round.room();
  double survival = policy->survival(), gain = 0, most = 0;
  int best = 0;
  for (int n = 0; n < round.room(); ++n) {
    survival *= odds_.chance(run_ + n);
    gain += survival - policy->outside_cost(round.rows() + n, n);
    if (gain <= most) continue;
    most = gain;
    best = n + 1;
  }
  return best;
}

void HybridSpeculator::accept(Backend& backend, const RoundEvent& round) {
  first_.accept(backend, round);
  for (const TokenEvent& event : round.tokens) {
    index_.push(event.token);
    if (event.draft >= 0 && event.slot + 1 >= own_) {
      odds_.learn(run_ + event.slot + 1 - own_, event.accepted());
    }
  }
  own_ = kMaxRows;
}

}  // namespace specbound
