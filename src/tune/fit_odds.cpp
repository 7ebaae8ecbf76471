#include "tune/fit_odds.h"

#include <algorithm>
#include <cmath>

#include "drafters/lookup.h"

namespace specbound {
namespace {

constexpr int kFolds = 5;  // dialogues are held out by turns, in so many parts

double loss(const OddsCase& one, const CandidateOdds& odds) {
  constexpr double kLeast = 1e-12;  // a chance that rounds to 0 is no infinite loss
  const double chance = odds.chance(one.features);
  return -std::log(std::max(one.right ? chance : 1 - chance, kLeast));
}

double total_loss(std::span<const OddsCase> cases, const CandidateOdds& odds) {
  double sum = 0;
  for (const OddsCase& one : cases) sum += loss(one, odds);
  return sum;
}

}  // namespace

std::vector<OddsCase> look_up(std::span<const TuningText> texts, std::span<const int32_t> given,
                              const Datastore* store) {
  std::vector<const TuningText*> order;
  for (const TuningText& text : texts) order.push_back(&text);
  std::ranges::stable_sort(order, {}, &TuningText::dialogue);
  LookupMemory memory;
  memory.give(given);
  std::vector<OddsCase> cases;
  std::vector<Lookup::Found> found;
  for (size_t i = 0, remembered = 0; i < order.size(); ++i) {
    const int dialogue = order[i]->dialogue;
    // A dialogue's own replies stand in its text.
    for (; order[remembered]->dialogue != dialogue; ++remembered) {
      const TuningText& before = *order[remembered];
      memory.add(std::span(before.tokens).subspan(static_cast<size_t>(before.prompt_tokens)));
    }
    const std::span<const int32_t> text = order[i]->tokens;
    const std::span<const int32_t> prompt =
        text.first(static_cast<size_t>(order[i]->prompt_tokens));
    const SamplingParams& sampling = order[i]->sampling;
    Lookup lookup(!given.empty() || dialogue % 2 == 1 ? &memory : nullptr, store);
    lookup.begin(prompt);
    for (size_t at = prompt.size(); at < text.size(); ++at) {
      lookup.find(text.first(at), sampling.temperature,
                  {.seed = sampling.seed, .pos = static_cast<uint32_t>(at)}, found);
      for (const Lookup::Found& f : found) {
        cases.push_back({f.features, f.token == text[at], dialogue});
      }
      lookup.push(text[at]);
    }
  }
  return cases;
}

double log_loss(std::span<const OddsCase> cases, const CandidateOdds::Weights& weights) {
  return total_loss(cases, CandidateOdds(weights)) / static_cast<double>(cases.size());
}

// By stochastic gradient descent, over the cases in a fixed scattered order.
CandidateOdds::Weights fit_odds(std::span<const OddsCase> cases,
                                const CandidateOdds::Weights& begin, double pull) {
  constexpr int kEpochs = 40;
  constexpr size_t kPrime = 7919;
  const size_t stride = cases.size() % kPrime == 0 ? 1 : kPrime;
  CandidateOdds odds(begin);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const double rate = 0.1 / (1 + epoch);
    for (size_t i = 0; i < cases.size(); ++i) {
      const OddsCase& one = cases[i * stride % cases.size()];
      odds.learn(one.features, one.right, rate);
    }
    if (pull > 0) odds.fade(std::exp(-rate * pull));
  }
  return odds.weights();
}

FittedOdds fit_shipped_odds(std::span<const OddsCase> cases,
                            const std::function<bool(int done, int total)>& progress) {
  const CandidateOdds::Weights& shipped = CandidateOdds::shipped();
  FittedOdds fitted{.weights = fit_odds(cases, shipped, kOddsPull), .cases = cases.size()};
  if (cases.empty()) return fitted;
  double sum = 0;
  for (int fold = 0; fold < kFolds; ++fold) {
    if (progress && !progress(fold + 1, kFolds + 1)) return fitted;
    std::vector<OddsCase> seen, held_out;
    for (const OddsCase& one : cases) {
      (one.dialogue % kFolds == fold ? held_out : seen).push_back(one);
    }
    if (held_out.empty()) continue;
    sum += total_loss(held_out, CandidateOdds(fit_odds(seen, shipped, kOddsPull)));
  }
  fitted.shipped_loss = log_loss(cases, shipped);
  fitted.held_out_loss = sum / static_cast<double>(cases.size());
  return fitted;
}

}  // namespace specbound
