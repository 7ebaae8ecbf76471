#include "drafters/candidates.h"

#include <algorithm>

#include "error.h"

namespace specbound {
namespace {

constexpr int kFadeEvery = 32;            // rounds
constexpr double kForcedRate = 1.0 / 32;  // of a token that a grammar forces, in forced_right_

}  // namespace

double Belief::chance(const Said& said) const {
  const double forced = forced_right_[static_cast<size_t>(said.forced)];
  const bool known = said.features.lookups() > 0 || said.features.guess != CandidateOdds::kNothing;
  return known || said.forced == TokenGrammar::Forced::Kind::kNone
             ? std::max(forced, odds_.chance(said.features))
             : forced;
}

// What a grammar forces says nothing of what the odds are made of, nor do the shares of a guess
// whose likeliest token it forbids.
void Belief::learn(const Said& said, bool right) {
  if (said.forced != TokenGrammar::Forced::Kind::kNone) {
    double& rate = forced_right_[static_cast<size_t>(said.forced)];
    rate += kForcedRate * ((right ? 1 : 0) - rate);
    return;
  }
  if (said.masked) return;
  odds_.learn(said.features, right);
  if (observer_) observer_(said.features, right);
}

bool Belief::count_round() {
  if (++rounds_ % kFadeEvery != 0) return false;
  odds_.fade();
  return true;
}

void Candidates::start() {
  said_.clear();
  here_ = 0;
  waiting_.clear();
  best_.reset();
}

void Candidates::look_up(const Round& round, int parent) {
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
  const auto known = std::ranges::find(here(), forced.token, &Said::token);
  Said& said =
      known != here().end() ? *known : said_.emplace_back(Said{parent, forced.token, {}, 0});
  said.forced = forced.kind;
}

void Candidates::hear(const Round& round, const Guesser::Guess& guess) {
  const int parent = round.newest();
  const std::span<const int32_t> history = round.history(parent);
  const bool masked = !round.sampler().may_follow(history, guess.token);
  const int against = masked ? CandidateOdds::kNothing : CandidateOdds::guess(guess.confidence);
  for (Said& said : here()) {
    said.features.guess = CandidateOdds::kNothing;
    said.features.against = against;
    said.masked = masked;
  }
  const auto name = [&](int32_t token, float share) {
    const auto known = std::ranges::find(here(), token, &Said::token);
    Said& said = known != here().end() ? *known : said_.emplace_back(Said{parent, token, {}, 0});
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

const Said* Candidates::likeliest() const {
  const auto best =
      std::ranges::max_element(said_.begin() + static_cast<std::ptrdiff_t>(here_), said_.end(), {},
                               [&](const Said& said) { return chance(said); });
  return best == said_.end() ? nullptr : &*best;
}

void Candidates::wait(int parent, double path) {
  const auto put = [&](const Candidate& candidate) {
    waiting_.push_back(candidate);
    std::ranges::push_heap(waiting_, {}, &Candidate::right);
  };
  if (best_) put(take());
  for (const Said& said : here()) {
    const double right = path * chance(said);
    if (right >= kLeastRight) put({parent, said.token, right, said.layer});
  }
}

const Candidate* Candidates::best(Round& round) {
  while (!best_ && !waiting_.empty()) {
    std::ranges::pop_heap(waiting_, {}, &Candidate::right);
    const Candidate next = waiting_.back();
    waiting_.pop_back();
    if (round.child(next.parent, next.token) >= 0) continue;
    if (!drafts_siblings_ && round.has_child(next.parent)) continue;
    if (!round.would_end(next.parent, next.token)) best_ = next;
  }
  return best_ ? &*best_ : nullptr;
}

Candidate Candidates::take() {
  SB_CHECK(best_);
  return *std::exchange(best_, std::nullopt);
}

void Candidates::learn(const RoundEvent& round) {
  for (const TokenEvent& token : round.tokens) {
    lookup_.push(token.token);
    for (const Said& said : said_) {
      if (said.parent == token.slot) belief_.learn(said, said.token == token.token);
    }
  }
  start();  // of a plain round nothing is said
}

}  // namespace specbound
