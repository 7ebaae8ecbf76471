#include "drafters/candidate_odds.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace specbound {
namespace {

// bench_lookup fit, over replies of SmolLM2-135M-Instruct and Qwen2.5-Coder-1.5B-Instruct.
constexpr CandidateOdds::Weights kShipped = {
    .text = {-1.97f, -2.89f, -2.25f, -1.88f, -0.73f, -0.61f, -2.28f, -1.66f, -1.05f,
             0.54f,  -0.05f, -0.49f, -0.62f, -0.09f, 1.23f,  0.37f,  -0.40f, -0.69f,
             0.04f,  1.17f,  0.75f,  -1.86f, -0.01f, 0.61f,  1.61f,  0.87f,  -0.60f,
             1.32f,  1.00f,  2.13f,  1.36f,  -0.23f, 0.92f,  0.93f,  2.95f,  1.78f,
             0.84f,  1.55f,  2.17f,  3.51f,  2.63f,  0.47f,  2.97f,  2.91f,  4.95f},
    .memory = {-2.84f, -3.69f, -2.78f, -2.69f, -2.30f, -1.85f, -3.15f, -2.24f, -1.85f,
               -0.81f, -1.02f, -2.20f, -1.34f, -1.00f, 0.14f,  -0.57f, -1.99f, -1.55f,
               -0.55f, 0.48f,  -0.05f, -0.23f, 0.29f,  0.30f,  1.09f,  0.50f,  -1.06f,
               -0.18f, 0.87f,  2.47f,  0.16f,  0.05f,  0.68f,  1.17f,  2.62f,  0.72f,
               -1.07f, -0.23f, 1.00f,  2.68f,  0.45f,  0.35f,  0.00f,  0.85f,  1.45f},
    // fit-store, 10 million tokens of people's chats against what SmolLM2 wrote.
    .store = {-3.50f, -3.86f, -3.26f, -3.05f, -2.42f, -2.71f, -3.75f, -2.78f, -2.72f,
              -1.20f, -2.48f, -3.74f, -2.98f, -2.76f, -0.85f, -2.42f, -3.74f, -3.08f,
              -2.61f, -1.17f, -1.89f, -3.42f, -2.78f, -2.33f, -0.83f, -1.19f, -3.82f,
              -2.79f, -2.20f, -0.06f, -0.61f, -3.84f, -3.03f, -2.21f, -0.11f, -0.39f,
              -1.07f, -0.23f, 1.00f,  2.43f,  0.82f,  0.35f,  0.00f,  0.85f,  1.45f},
    .rival = {1.14f, 0.23f, -0.14f, -0.83f, -1.73f},
    .both = 3.64f,
    // tune, the mean of SmolLM2's draft layer on 88 replies and the demo model's chained head.
    .alone = -2.0f,
    .guess = {-1.9f, -0.4f, 0.4f, 0.65f, 1.15f, 1.45f, 1.8f, 2.1f, 2.65f, 2.95f, 3.85f, 5.15f},
    .against = {-0.4f, -0.8f, -0.85f, -0.9f, -1.05f, -1.15f, -1.4f, -1.6f, -1.95f, -2.4f, -3.2f,
                -4.2f},
    .noise = {-1.04f, -0.66f, -0.65f, -0.39f, -0.02f, 0.45f, 0.83f, 1.31f},
    .rival_noise = {-0.10f, 0.25f, 0.20f, 0.08f, 0.06f, -0.13f, -0.20f, -0.34f}};

}  // namespace

float CandidateOdds::heat(const Features& f) {
  return std::min(f.temperature, kHottest);
}

int CandidateOdds::cell(const Continuation& c) {
  constexpr int kLast[kLengths - 1] = {1, 2, 3, 4, 6, 8, 12, 16};
  const auto length = std::lower_bound(std::begin(kLast), std::end(kLast), c.length) - kLast;
  const int quarters = 4 * c.count / std::max(c.total, 1);
  const int agreement = c.total <= 1 ? 0 : 1 + std::min(quarters, 3);
  return static_cast<int>(length) * kAgreements + agreement;
}

int CandidateOdds::rival(int length) {
  return length <= 0 ? 0 : length == 1 ? 1 : length == 2 ? 2 : length <= 4 ? 3 : 4;
}

int CandidateOdds::guess(float confidence) {
  constexpr float kFrom[kGuesses - 1] = {0.1f, 0.2f, 0.3f, 0.4f,  0.5f, 0.6f,
                                         0.7f, 0.8f, 0.9f, 0.95f, 0.99f};
  if (std::isnan(confidence)) return 0;
  return static_cast<int>(std::ranges::upper_bound(kFrom, confidence) - kFrom);
}

int CandidateOdds::noise(float gumbel) {
  constexpr float kFrom[kNoises - 1] = {-1.0f, -0.4f, 0.2f, 0.8f, 1.5f, 2.3f, 3.3f};
  return static_cast<int>(std::upper_bound(std::begin(kFrom), std::end(kFrom), gumbel) - kFrom);
}

double CandidateOdds::chance(const Features& f) const {
  const int lookups = f.lookups();
  double odds = lookups == 0 ? now_.alone : now_.rival[static_cast<size_t>(f.rival)];
  if (f.text >= 0) odds += now_.text[static_cast<size_t>(f.text)];
  if (f.memory >= 0) odds += now_.memory[static_cast<size_t>(f.memory)];
  if (f.store >= 0) odds += now_.store[static_cast<size_t>(f.store)];
  if (lookups > 1) odds += (lookups - 1) * now_.both;
  if (f.guess >= 0) odds += now_.guess[static_cast<size_t>(f.guess)];
  if (f.against >= 0) odds += now_.against[static_cast<size_t>(f.against)];
  odds += heat(f) * (now_.noise[static_cast<size_t>(f.noise)] +
                     now_.rival_noise[static_cast<size_t>(f.rival_noise)]);
  return 1 / (1 + std::exp(-odds));
}

void CandidateOdds::learn(const Features& f, bool right, double rate) {
  const auto step = static_cast<float>(rate * ((right ? 1 : 0) - chance(f)));
  const int lookups = f.lookups();
  (lookups == 0 ? now_.alone : now_.rival[static_cast<size_t>(f.rival)]) += step;
  if (f.text >= 0) now_.text[static_cast<size_t>(f.text)] += step;
  if (f.memory >= 0) now_.memory[static_cast<size_t>(f.memory)] += step;
  if (f.store >= 0) now_.store[static_cast<size_t>(f.store)] += step;
  if (lookups > 1) now_.both += static_cast<float>(lookups - 1) * step;
  if (f.guess >= 0) now_.guess[static_cast<size_t>(f.guess)] += step;
  if (f.against >= 0) now_.against[static_cast<size_t>(f.against)] += step;
  now_.noise[static_cast<size_t>(f.noise)] += heat(f) * step;
  now_.rival_noise[static_cast<size_t>(f.rival_noise)] += heat(f) * step;
}

void CandidateOdds::fade(double kept) {
  const auto share = static_cast<float>(kept);
  const auto back = [&](auto& now, const auto& first) {
    for (size_t i = 0; i < now.size(); ++i) now[i] = first[i] + share * (now[i] - first[i]);
  };
  back(now_.text, first_.text);
  back(now_.memory, first_.memory);
  back(now_.store, first_.store);
  back(now_.rival, first_.rival);
  now_.both = first_.both + share * (now_.both - first_.both);
  now_.alone = first_.alone + share * (now_.alone - first_.alone);
  back(now_.guess, first_.guess);
  back(now_.against, first_.against);
  back(now_.noise, first_.noise);
  back(now_.rival_noise, first_.rival_noise);
}

void CandidateOdds::Weights::forget_guesses() {
  alone = kShipped.alone;
  guess = kShipped.guess;
  against = kShipped.against;
}

const CandidateOdds::Weights& CandidateOdds::shipped() {
  return kShipped;
}

}  // namespace specbound
