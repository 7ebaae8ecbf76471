#include "decode/tree_speculator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace specbound {
namespace {

constexpr double kLeastRight = 0.01;      // of a path that is followed at all
constexpr double kRateKept = 0.98;        // of the running rate, from round to round
constexpr double kFirstRounds = 8;        // that the plain rate counts for at first
constexpr int kFadeEvery = 32;            // rounds
constexpr double kOwnRate = 1.0 / 32;     // of a draft by the guesser's rule, in own_right_
constexpr double kForcedRate = 1.0 / 32;  // of a token that a grammar forces, in forced_right_
// What a row must be worth of what it costs: of many candidates that look just worth it, those that
// look better than they are get taken.
constexpr double kMargin = 1.2;
// And as much again for each round, of the first kGains, that a reply has not yet gained over plain
// decoding, so that one in which little repeats is as fast as without drafts; this fades by kFades
// with each token. By bench_lookup, where rows are dear (Qwen2.5-Coder-1.5B on AVX2), no reply of
// 53 then loses more than 2 %, without it 6 do, and the mean stays.
constexpr double kGains = 2;
constexpr double kFades = 0.05;

}  // namespace

TreeSpeculator::TreeSpeculator(Guesser* guesser, LookupMemory* memory, int w_max, bool measured,
                               const Datastore* store)
    : w_max_(w_max),
      measured_(measured),
      lookup_(memory, store),
      tokens_(kFirstRounds),
      time_(kFirstRounds) {
  set_guesser(guesser, !measured);
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
  lookup_.forget();
}

void TreeSpeculator::begin(std::span<const int32_t> text) {
  if (guesser_) guesser_->begin(text);
  lookup_.begin(text);
  answers_in_reply_ = 0;
  gained_ = 0;
}

// What may stand behind row `parent`.
void TreeSpeculator::look_up(const Round& round, int parent) {
  here_ = said_.size();
  Sampler& sampler = round.sampler();
  const std::span<const int32_t> history = round.history(parent);
  TokenGrammar::Forced forced;
  if (drafts_forced_) forced = sampler.forced(history);
  const bool sure = forced.kind == TokenGrammar::Forced::Kind::kSure;
  if (!sure) {
    lookup_.find(history, sampler.params().temperature, round.place(parent), found_);
    for (const Lookup::Found& found : found_) {
      if (!sampler.may_follow(history, found.token)) continue;
      said_.push_back({parent, found.token, found.features, 0});
    }
  }
  if (forced.kind == TokenGrammar::Forced::Kind::kNone) return;
  const auto known = std::ranges::find(std::span(said_).subspan(here_), forced.token, &Said::token);
  Said& said = known != std::span(said_).subspan(here_).end()
                   ? *known
                   : said_.emplace_back(Said{parent, forced.token, {}, 0});
  said.forced = forced.kind;
}

double TreeSpeculator::chance(const Said& said) const {
  const double forced = forced_right_[static_cast<size_t>(said.forced)];
  const bool known = said.features.lookups() > 0 || said.features.guess != CandidateOdds::kNothing;
  return known || said.forced == TokenGrammar::Forced::Kind::kNone
             ? std::max(forced, odds_.chance(said.features))
             : forced;
}

// All that was said of the newest row looked up becomes candidates; the row is right with chance
// `path`.
void TreeSpeculator::wait(int parent, double path) {
  for (size_t i = here_; i < said_.size(); ++i) {
    const double right = path * chance(said_[i]);
    if (right < kLeastRight) continue;
    candidates_.push_back({parent, said_[i].token, right, said_[i].layer});
    std::ranges::push_heap(candidates_, {}, &Candidate::right);
  }
}

// Behind the newest row looked up; nullptr: nothing is said of it. Holds until more is said.
const TreeSpeculator::Said* TreeSpeculator::likeliest() const {
  const auto best =
      std::ranges::max_element(said_.begin() + static_cast<std::ptrdiff_t>(here_), said_.end(), {},
                               [&](const Said& said) { return chance(said); });
  return best == said_.end() ? nullptr : &*best;
}

// What the guesser says of the token behind the newest row, in place of what it said before.
void TreeSpeculator::hear(const Round& round, const Guesser::Guess& guess) {
  const int parent = round.newest();
  const std::span<const int32_t> history = round.history(parent);
  const bool masked = !round.sampler().may_follow(history, guess.token);
  const int against = masked ? CandidateOdds::kNothing : CandidateOdds::guess(guess.confidence);
  for (Said& said : std::span(said_).subspan(here_)) {
    said.features.guess = CandidateOdds::kNothing;
    said.features.against = against;
    said.masked = masked;
  }
  const auto name = [&](int32_t token, float share) {
    const auto behind = std::span(said_).subspan(here_);
    const auto known = std::ranges::find(behind, token, &Said::token);
    Said& said = known != behind.end() ? *known : said_.emplace_back(Said{parent, token, {}, 0});
    said.features.guess = CandidateOdds::guess(share);
    said.features.against = CandidateOdds::kNothing;
    said.layer = guess.layer;
    said.masked = masked;
  };
  if (!masked) name(guess.token, guess.confidence);
  for (const Guesser::Guess::Other& other : std::span(guess.other).first(guess.others)) {
    if (round.sampler().may_follow(history, other.token)) name(other.token, other.share);
  }
}

// Asks about the newest row, which is right with chance `path`, as far as that pays. False when
// aborted.
bool TreeSpeculator::ask(Round& round, double path) {
  using Clock = std::chrono::steady_clock;
  if (!guesser_->ready(round)) return true;
  for (int stage = 0; stage < asking_.stages(); ++stage) {
    const Said* const likely = likeliest();
    const double best = likely ? chance(*likely) : 0;
    const int32_t before = likely ? likely->token : -1;
    if (likely && likely->forced == TokenGrammar::Forced::Kind::kSure) return true;
    if (path * asking_.gain(stage, best) <= rate() * asking_.cost(stage)) {
      ++control_.declined;
      return true;
    }
    const Clock::time_point begin = Clock::now();
    const std::optional<Guesser::Guess> guess = guesser_->guess(round, stage);
    if (!guess) return false;
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    ++control_.asked;
    hear(round, *guess);
    const double margin = this->margin();
    const double row = cost(round, 1) / margin;
    const Said* const now = likeliest();
    answers_.push_back({round.newest(), stage, best, before, now ? now->token : -1,
                        path * best > margin * row, row});
    // A reply's first answer comes cold, and may have to read the prompt.
    if (answers_in_reply_++ > 0 && costs_.scaled()) {
      asking_.took(stage, seconds.count() / costs_.pass(1, round.pos()));
    }
  }
  return true;
}

// The path that the guesser is asked about, as long as it grows. False when aborted.
bool TreeSpeculator::follow(Round& round) {
  for (double path = 1;;) {
    const int row = round.newest();
    look_up(round, row);
    if (!round.full() && !ask(round, path)) return false;
    const Said* const best = round.full() ? nullptr : likeliest();
    if (!best) return true;
    const double right = path * chance(*best);
    const Candidate next{row, best->token, right, best->layer};
    wait(row, path);
    if (right < kLeastRight || round.would_end(next.parent, next.token) || !take(round, next)) {
      return true;
    }
    path = right;
  }
}

DraftEnd TreeSpeculator::draft(Round& round) {
  candidates_.clear();
  said_.clear();
  answers_.clear();
  worth_ = most_ = 0;
  kept_ = round.newest();
  own_rows_ = 1;
  DraftEnd end = DraftEnd::kPlain;
  if (guesser_ && own_rule_) {
    end = guesser_->draft(round);
    if (end == DraftEnd::kAborted) return end;
    own_rows_ = round.rows();
    kept_ = round.newest();
    for (int slot = 0; slot < own_rows_; ++slot) {
      look_up(round, slot);
      wait(slot, std::pow(own_right_, slot));
    }
  } else if (guesser_) {
    if (!follow(round)) return DraftEnd::kAborted;
    if (!answers_.empty()) end = DraftEnd::kDifficult;
  } else {
    look_up(round, 0);
    wait(0, 1);
  }
  control_.rounds += own_rule_ ? 0 : 1;
  while (!round.full() && !candidates_.empty()) {
    std::ranges::pop_heap(candidates_, {}, &Candidate::right);
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    if (round.child(best.parent, best.token) >= 0) continue;
    if (round.would_end(best.parent, best.token)) continue;
    if (!take(round, best)) break;
    look_up(round, round.newest());
    wait(round.newest(), best.right);
  }
  // Rows that layers have run on stay.
  const int run = round.backend().kv_len(1) - round.pos() - 1;
  round.drop_behind(std::max(kept_, run));
  return round.rows() > own_rows_ ? DraftEnd::kWidth : end;
}

// Costs rise in steps, so that the second row may cost as much as the next six: rows go on where
// enough of them would pay together, and the last ones go where too few came. False: it does not
// pay.
bool TreeSpeculator::take(Round& round, const Candidate& best) {
  if (worth_ + most_worth(round, best.right) <= most_) return false;
  worth_ += best.right - cost(round, 1);
  round.append_to(best.parent, best.token, best.drafted_at);
  if (worth_ > most_) {
    most_ = worth_;
    kept_ = round.newest();
  }
  return true;
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
  return margin() * rate() * (costs_.pass(rows + more, pos) - costs_.pass(rows, pos)) /
         costs_.pass(1, pos);
}

double TreeSpeculator::margin() const {
  return kMargin * (1 + std::max(kGains - gained_, 0.0));
}

// Tokens in the time of a plain round, which always gives one.
double TreeSpeculator::rate() const {
  return std::max(tokens_ / time_, 1.0);
}

// What the guesser took, in plain rounds: the layers before exit heads too, though the pass that
// verifies does not run these again.
double TreeSpeculator::guesser_time(const RoundEvent& round) const {
  if (!guesser_ || !measured_) return 0;
  if (costs_.scaled()) {
    return round.seconds({Phase::kDraft, Phase::kCheck}) / costs_.pass(1, round.pos);
  }
  double time = 0;
  for (const Answer& answer : answers_) time += asking_.cost(answer.stage);
  return time;
}

// What an answer has brought, in tokens, where `token` came: what the row is worth that was spent
// with it, less what one without it would have been.
double TreeSpeculator::worth(const RoundEvent& round, const Answer& answer,
                             const TokenEvent& token) const {
  const bool spent = std::ranges::any_of(round.rows, [&](const RowEvent& row) {
    return row.parent == answer.parent && row.token == answer.after;
  });
  const double with = spent ? (answer.after == token.token) - answer.row : 0;
  const double without = answer.before_pays ? (answer.before == token.token) - answer.row : 0;
  return with - without;
}

// What a grammar forces says nothing of what the odds are made of, nor do the shares of a guess
// whose likeliest token it forbids.
void TreeSpeculator::learn(const Said& said, bool right) {
  if (said.forced != TokenGrammar::Forced::Kind::kNone) {
    double& rate = forced_right_[static_cast<size_t>(said.forced)];
    rate += kForcedRate * ((right ? 1 : 0) - rate);
    return;
  }
  if (said.masked) return;
  odds_.learn(said.features, right);
  if (observer_) observer_(said.features, right);
}

void TreeSpeculator::accept(Backend& backend, const RoundEvent& round) {
  if (guesser_) guesser_->accept(backend, round);
  const int rows = static_cast<int>(round.rows.size());
  for (const TokenEvent& token : round.tokens) {
    lookup_.push(token.token);
    if (token.slot + 1 < own_rows_) {
      const bool right = round.rows[token.slot + 1].token == token.token;
      own_right_ += kOwnRate * ((right ? 1 : 0) - own_right_);
    }
    for (const Said& said : said_) {
      if (said.parent != token.slot) continue;
      learn(said, said.token == token.token);
    }
    for (const Answer& a : answers_) {
      if (a.parent != token.slot) continue;
      asking_.learn(a.stage, a.best, worth(round, a, token));
    }
  }
  said_.clear();  // a plain round looks up nothing
  own_rows_ = 1;
  const auto tokens = static_cast<double>(round.tokens.size());
  const double time =
      costs_.pass(rows, round.pos) / costs_.pass(1, round.pos) + guesser_time(round);
  tokens_ = kRateKept * tokens_ + tokens;
  time_ = kRateKept * time_ + time;
  gained_ += (1 + kFades) * tokens - time;
  answers_.clear();
  // A reply's first round comes cold from the prefill; what drafting ran, verification did not.
  const bool whole = std::ranges::none_of(
      round.passes, [](const LayerPass& pass) { return pass.phase == Phase::kDraft; });
  if (round.round > 0 && whole) {
    costs_.learn(rows, round.pos, round.seconds({Phase::kVerify, Phase::kLogits}));
  }
  if (++rounds_ % kFadeEvery != 0) return;
  odds_.fade();
  asking_.fade();
}

}  // namespace specbound
