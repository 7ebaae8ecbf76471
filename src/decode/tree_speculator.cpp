#include "decode/tree_speculator.h"

#include <algorithm>
#include <cmath>

namespace specbound {
namespace {

constexpr double kSure = 0.6;         // of the likeliest continuation: no head is asked
constexpr double kLeastRight = 0.01;  // of a path that is followed at all
constexpr double kRateKept = 0.98;    // of the running rate, from round to round
constexpr double kFirstRounds = 8;    // that the plain rate counts for at first
constexpr int kFadeEvery = 32;        // rounds
// What a row must be worth of what it costs: of many candidates that look just worth it, those that
// look better than they are get taken. By bench_lookup the mean is flat from 1 to 2, and fewer
// replies lose.
constexpr double kMargin = 1.6;

}  // namespace

TreeSpeculator::TreeSpeculator(SpecBound* first, LookupMemory* memory, int w_max, bool measured)
    : first_(first),
      w_max_(w_max),
      measured_(measured),
      lookup_(memory),
      tokens_(kFirstRounds),
      time_(kFirstRounds) {}

void TreeSpeculator::forget() {
  if (first_) first_->forget();
  lookup_.forget();
}

void TreeSpeculator::begin(std::span<const int32_t> text) {
  if (first_) first_->begin(text);
  lookup_.begin(text);
}

// What may stand behind row `parent`, which is right with that chance.
void TreeSpeculator::look_up(const Round& round, int parent, double parent_right) {
  lookup_.find(round.history(parent), round.sampler().params().temperature, round.place(parent),
               found_);
  for (const Lookup::Found& found : found_) {
    seen_.push_back({parent, found.token, found.features});
    const double right = parent_right * odds_.chance(found.features);
    if (right < kLeastRight) continue;
    candidates_.push_back({parent, found.token, right});
    std::ranges::push_heap(candidates_, {}, &Candidate::right);
  }
}

DraftEnd TreeSpeculator::draft(Round& round) {
  candidates_.clear();
  seen_.clear();
  look_up(round, 0, 1);
  DraftEnd end = DraftEnd::kPlain;
  if (first_ && (candidates_.empty() || candidates_.front().right < kSure)) {
    end = first_->draft(round);
    if (end == DraftEnd::kAborted) return end;
    const int drafts = round.rows() - 1;
    const double survival = first_->policy() ? first_->policy()->survival() : 1;
    for (int slot = 1; slot <= drafts; ++slot) {
      // Survival is of the whole chain; each draft is taken to have an equal share.
      look_up(round, slot, std::pow(survival, static_cast<double>(slot) / drafts));
    }
  }
  const int own = round.rows();
  // Costs rise in steps, so that the second row may cost as much as the next six: rows go on where
  // enough of them would pay together, and the last ones go where too few came.
  int kept = round.newest();
  double worth = 0, most = 0;  // of all that is looked up, and of that up to `kept`, less its cost
  while (!round.full() && !candidates_.empty()) {
    std::ranges::pop_heap(candidates_, {}, &Candidate::right);
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    if (worth + most_worth(round, best.right) <= most) break;
    if (round.child(best.parent, best.token) >= 0) continue;  // a head says so too
    if (round.would_end(best.parent, best.token)) continue;
    worth += best.right - cost(round, 1);
    round.append_to(best.parent, best.token, 0);
    if (worth > most) {
      most = worth;
      kept = round.newest();
    }
    look_up(round, round.newest(), best.right);
  }
  round.drop_behind(kept);
  return round.rows() > own ? DraftEnd::kWidth : end;
}

// Of one row or more, none likelier than `right`, less their cost.
double TreeSpeculator::most_worth(const Round& round, double right) const {
  double most = right - cost(round, 1);
  for (int more = 2; more <= round.room(); ++more) {
    most = std::max(most, more * right - cost(round, more));
  }
  return most;
}

// What `more` rows must be worth, in tokens.
double TreeSpeculator::cost(const Round& round, int more) const {
  if (!measured_) return 0;
  const int rows = round.rows();
  const int pos = round.pos();
  return kMargin * rate() * (costs_.pass(rows + more, pos) - costs_.pass(rows, pos)) /
         costs_.pass(1, pos);
}

// Tokens in the time of a plain round, which always gives one.
double TreeSpeculator::rate() const {
  return std::max(tokens_ / time_, 1.0);
}

// What drafting with exit heads took, the layers before them too, though the pass that verifies
// does not run these again. Without heads no clock moves what rounds are planned by.
double TreeSpeculator::heads_seconds(const RoundEvent& round) const {
  return first_ && measured_ ? round.seconds({Phase::kDraft, Phase::kCheck}) : 0;
}

void TreeSpeculator::accept(Backend& backend, const RoundEvent& round) {
  if (first_) first_->accept(backend, round);
  const int rows = static_cast<int>(round.rows.size());
  for (const TokenEvent& token : round.tokens) {
    lookup_.push(token.token);
    for (const Seen& seen : seen_) {
      if (seen.parent == token.slot) odds_.learn(seen.features, seen.token == token.token);
    }
  }
  seen_.clear();  // a plain round looks up nothing
  tokens_ = kRateKept * tokens_ + static_cast<double>(round.tokens.size());
  time_ = kRateKept * time_ +
          (costs_.pass(rows, round.pos) + heads_seconds(round)) / costs_.pass(1, round.pos);
  if (++rounds_ % kFadeEvery == 0) odds_.fade();
}

}  // namespace specbound
