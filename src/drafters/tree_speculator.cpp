#include "drafters/tree_speculator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace specbound {
namespace {

constexpr double kOwnRate = 1.0 / 32;  // of a draft by the guesser's rule, in own_right_
constexpr double kMostTime = 3;        // that answers take, of what they are known to

// The share of a pass over the round's rows that drafting had run when verification began.
double share_run(const RoundEvent& round, int n_layers) {
  double run = 0;
  for (const LayerPass& pass : round.passes) {
    if (pass.phase == Phase::kDraft) run += pass.rows * (pass.to - pass.from + 1);
  }
  return std::min(run / (static_cast<double>(round.rows.size()) * n_layers), 1.0);
}

}  // namespace

TreeSpeculator::TreeSpeculator(Guesser* guesser, LookupMemory* memory, int w_max, bool measured,
                               const Datastore* store)
    : w_max_(w_max),
      measured_(measured),
      candidates_(belief_, memory, store),
      budget_(measured),
      shared_(belief_, memory, store, measured) {
  set_width(w_max);
  set_guesser(guesser, !measured);
}

void TreeSpeculator::set_width(int w_max) {
  w_max_ = w_max;
  shared_.set_width(w_max);
}

void TreeSpeculator::set_costs(const RowCosts& costs) {
  budget_.set_costs(costs);
  shared_.set_costs(costs);
}

void TreeSpeculator::draft_forced(bool on) {
  candidates_.draft_forced(on);
  shared_.draft_forced(on);
}

void TreeSpeculator::draft_siblings(bool on) {
  candidates_.draft_siblings(on);
  shared_.draft_siblings(on);
}

void TreeSpeculator::set_guesser(Guesser* guesser, bool own_rule) {
  own_rule_ = own_rule || !measured_;
  std::vector<double> assumed;
  for (int stage = 0; guesser && stage < guesser->stages(); ++stage) {
    assumed.push_back(guesser->assumed_cost(stage));
  }
  // What was learned of it stays where it is the same.
  if (guesser != guesser_ || assumed != asking_.assumed()) asking_ = Asking(assumed);
  guesser_ = guesser;
  control_.active = !own_rule_;
}

void TreeSpeculator::forget() {
  if (guesser_) guesser_->forget();
  candidates_.forget();
}

void TreeSpeculator::begin(std::span<const int32_t> text) {
  if (guesser_) guesser_->begin(text);
  if (!std::ranges::equal(text, candidates_.text())) caution_ = shared_.caution_of(text);
  candidates_.begin(text);
  // Nothing is left of a round that was broken off.
  candidates_.start();
  answers_.clear();
  own_rows_ = 1;
  answers_in_reply_ = 0;
}

SharedDrafter* TreeSpeculator::shared() {
  shared_.set_costs(costs().now());
  shared_.left(candidates_.text(), caution_);
  return w_max_ > 1 ? &shared_ : nullptr;
}

// Asks about the newest row, which is right with chance `path`, as far as that pays. False when
// aborted.
bool TreeSpeculator::ask(Round& round, double path) {
  using Clock = std::chrono::steady_clock;
  if (!guesser_->ready(round)) return true;
  for (int stage = 0; stage < asking_.stages(); ++stage) {
    const Said* const likely = candidates_.likeliest();
    const double best = likely ? candidates_.chance(*likely) : 0;
    const int32_t before = likely ? likely->token : -1;
    if (likely && likely->forced == TokenGrammar::Forced::Kind::kSure) return true;
    // Nor where no row could be had for the answer, as the reply has lost by its drafts.
    if (path * asking_.gain(stage, best) <= budget_.rate() * asking_.cost(stage) ||
        !budget_.could_pay(path / caution_.margin())) {
      ++control_.declined;
      return true;
    }
    const Clock::time_point begin = Clock::now();
    const std::optional<Guesser::Guess> guess = guesser_->guess(round, stage);
    if (!guess) return false;
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    ++control_.asked;
    candidates_.hear(round, *guess);
    const double row = budget_.cost(1);
    const Said* const now = candidates_.likeliest();
    answers_.push_back({round.newest(), stage, best, before, now ? now->token : -1,
                        path * best > caution_.margin() * row,
                        now ? path * candidates_.chance(*now) : 0, row});
    // A reply's first answer comes cold, and may have to read the prompt.
    if (answers_in_reply_++ > 0 && costs().scaled()) {
      asking_.took(stage, seconds.count() / costs().pass(1, round.pos()));
    }
  }
  return true;
}

// The path that the guesser is asked about, as long as it grows. False when aborted.
bool TreeSpeculator::follow(Round& round) {
  for (double path = 1;;) {
    const int row = round.newest();
    candidates_.look_up(round, row);
    if (!round.full() && !ask(round, path)) return false;
    const Said* const best = round.full() ? nullptr : candidates_.likeliest();
    if (!best) return true;
    const double right = path * candidates_.chance(*best);
    const Candidate next{row, best->token, right, best->layer};
    candidates_.wait(row, path);
    if (right < Candidates::kLeastRight || round.would_end(next.parent, next.token)) return true;
    if (!take(round, next)) return true;
    path = right;
  }
}

DraftEnd TreeSpeculator::draft(Round& round) {
  candidates_.start();
  answers_.clear();
  own_rows_ = 1;
  const auto start = [&] {
    kept_ = round.newest();
    budget_.start(1, round.rows(), round.room(), round.pos());
  };
  const auto look_behind = [&](int slot, double path) {
    candidates_.look_up(round, slot);
    candidates_.wait(slot, path);
  };
  start();
  DraftEnd end = DraftEnd::kDifficult;  // lookups always could have drafted
  if (guesser_ && own_rule_) {
    const DraftEnd of_guesser = guesser_->draft(round);
    if (of_guesser == DraftEnd::kAborted) return of_guesser;
    if (of_guesser != DraftEnd::kPlain) end = of_guesser;
    own_rows_ = round.rows();
    start();
    for (int slot = 0; slot < own_rows_; ++slot) look_behind(slot, std::pow(own_right_, slot));
  } else if (guesser_) {
    if (!follow(round)) return DraftEnd::kAborted;
  } else {
    look_behind(0, 1);
  }
  control_.rounds += own_rule_ ? 0 : 1;
  while (!round.full() && candidates_.best(round)) {
    const Candidate best = candidates_.take();
    if (!take(round, best)) break;
    look_behind(round.newest(), best.right);
  }
  // Rows that layers have run on stay.
  round.drop_behind(std::max(kept_, round.rows_run() - 1));
  return round.rows() > own_rows_ ? DraftEnd::kWidth : end;
}

// False: it does not pay.
bool TreeSpeculator::take(Round& round, const Candidate& best) {
  if (!budget_.take(best.right / caution_.margin())) return false;
  round.append_to(best.parent, best.token, best.drafted_at);
  if (budget_.at_best()) kept_ = round.newest();
  return true;
}

// What the guesser took, in plain rounds: the layers before exit heads too. By its own rule that is
// what the clock says; where it was asked and took far more than its answers are known to, it has
// read a prompt or was interrupted, which says nothing of rounds to come.
double TreeSpeculator::guesser_time(const RoundEvent& round) const {
  if (!guesser_ || !measured_) return 0;
  double known = 0;
  for (const Answer& answer : answers_) known += asking_.cost(answer.stage);
  if (!costs().scaled()) return known;
  const double took = round.seconds({Phase::kDraft, Phase::kCheck}) / costs().pass(1, round.pos);
  return own_rule_ ? took : std::min(took, kMostTime * known);
}

// What an answer has brought, in tokens, where `token` came: what the row is worth that was spent
// with it, less what one without it would have been. Nothing is known where the row was left only
// because the reply has not gained enough yet: in others it would have been spent.
std::optional<double> TreeSpeculator::worth(const RoundEvent& round, const Answer& answer,
                                            const TokenEvent& token) const {
  const bool spent = std::ranges::any_of(round.rows, [&](const RowEvent& row) {
    return row.parent == answer.parent && row.token == answer.after;
  });
  if (!spent && answer.right > Caution::kMargin * answer.row) return std::nullopt;
  const double with = spent ? (answer.after == token.token) - answer.row : 0;
  const double without = answer.before_pays ? (answer.before == token.token) - answer.row : 0;
  return with - without;
}

void TreeSpeculator::accept(Backend& backend, const RoundEvent& round) {
  if (guesser_) guesser_->accept(backend, round);
  const int rows = static_cast<int>(round.rows.size());
  candidates_.learn(round);
  for (const TokenEvent& token : round.tokens) {
    if (token.slot + 1 < own_rows_) {
      const bool right = round.rows[token.slot + 1].token == token.token;
      own_right_ += kOwnRate * ((right ? 1 : 0) - own_right_);
    }
    for (const Answer& a : answers_) {
      if (a.parent != token.slot) continue;
      if (const auto brought = worth(round, a, token)) asking_.learn(a.stage, a.best, *brought);
    }
  }
  own_rows_ = 1;
  const int tokens = static_cast<int>(round.tokens.size());
  const double left = 1 - share_run(round, backend.config().n_layers);
  const double time = left * budget_.time(1, rows, round.pos) + guesser_time(round);
  budget_.gave(tokens, 1, time);
  if (measured_) caution_.gave(tokens, time);
  answers_.clear();
  // A reply's first round comes cold from the prefill; what drafting ran, verification did not.
  const bool whole = std::ranges::none_of(
      round.passes, [](const LayerPass& pass) { return pass.phase == Phase::kDraft; });
  if (round.round > 0 && whole) {
    budget_.costs().learn(rows, round.pos, round.seconds({Phase::kVerify, Phase::kLogits}));
  }
  if (belief_.count_round()) asking_.fade();
}

}  // namespace specbound
