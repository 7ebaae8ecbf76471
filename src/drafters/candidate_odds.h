// One calibrated probability for candidates of all sources: the chance that a candidate is the
// text's next token where all before it is. Log-odds that add up, a figure for what each source
// says of it and for what speaks against it. What ships was fitted to texts that real models wrote
// (tests/bench/bench_lookup.cpp); `tune` fits it to a model's own (tune/fit_odds.h); what
// verification says corrects it while texts are written.
// docs/architecture.md 3.4.
#pragma once

#include <array>
#include <span>

#include "drafters/lookup_index.h"

namespace specbound {

class CandidateOdds {
 public:
  static constexpr int kLengths = 9;     // of a match: 1, 2, 3, 4, to 6, 8, 12, 16, more
  static constexpr int kAgreements = 5;  // its share of the places: one alone, and four of several
  static constexpr int kCells = kLengths * kAgreements;
  static constexpr int kRivals = 5;    // longest match of another candidate: none, to 1, 2, 4, more
  static constexpr int kNoises = 8;    // of the noise that a token is drawn with
  static constexpr int kGuesses = 12;  // of a guess's confidence, finer towards 1
  static constexpr int kNothing = -1;

  // Where a lookup's continuation is counted, 0..kCells-1.
  static int cell(const Continuation& continuation);
  static int rival(int length);
  // Of a confidence, 0..kGuesses-1.
  static int guess(float confidence);
  // Of a Gumbel variate, 0..kNoises-1.
  static int noise(float gumbel);

  // What is known of a candidate.
  struct Features {
    int text = kNothing;    // cell of its lookup in the text itself
    int memory = kNothing;  // and in texts of before
    int store = kNothing;   // and in a datastore
    int rival = 0;
    int guess = kNothing;    // of a head or a draft model that was asked and names it
    int against = kNothing;  // and names another one
    // Where tokens are drawn, the noise of each is known before the model has spoken: of this one,
    // and the largest of its rivals.
    float temperature = 0;  // 0: greedy, and noise says nothing
    int noise = 0, rival_noise = 0;

    // Lookups that say it.
    int lookups() const { return (text >= 0) + (memory >= 0) + (store >= 0); }
  };
  struct Weights {
    std::array<float, kCells> text, memory, store;
    std::array<float, kRivals> rival;
    float both;   // where two of text, memory and store say it; twice where all do
    float alone;  // where none does, in place of rivals
    std::array<float, kGuesses> guess, against;
    // At temperature 1; in proportion at others, as far as kHottest.
    std::array<float, kNoises> noise, rival_noise;

    // Those of guesses as shipped: for another guesser than they were fitted to.
    void forget_guesses();

    bool operator==(const Weights&) const = default;
    // All of them, one call for each kind: visit("text", span of its figures).
    template <class W, class Visit>
    static void each(W& weights, Visit&& visit) {
      visit("text", std::span(weights.text));
      visit("memory", std::span(weights.memory));
      visit("store", std::span(weights.store));
      visit("rival", std::span(weights.rival));
      visit("both", std::span(&weights.both, 1));
      visit("alone", std::span(&weights.alone, 1));
      visit("guess", std::span(weights.guess));
      visit("against", std::span(weights.against));
      visit("noise", std::span(weights.noise));
      visit("rival_noise", std::span(weights.rival_noise));
    }
  };
  static const Weights& shipped();

  explicit CandidateOdds(const Weights& weights = shipped()) : first_(weights), now_(weights) {}

  double chance(const Features& features) const;
  // Moves what spoke of it towards what it turned out to be.
  void learn(const Features& features, bool right) { learn(features, right, kRate); }
  void learn(const Features& features, bool right, double rate);
  // A little back to where it began.
  void fade() { fade(kKept); }
  // `kept`: of what was learned.
  void fade(double kept);
  const Weights& weights() const { return now_; }

 private:
  static constexpr double kRate = 0.15;
  static constexpr double kKept = 0.99;
  static constexpr float kHottest = 1.5f;

  static float heat(const Features& features);

  Weights first_, now_;
};

}  // namespace specbound
