#include "decode/candidate_odds.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace specbound {
namespace {

constexpr float kKept = 0.99f;  // of what was learned, from fade() to fade()

// bench_lookup fit, over replies of SmolLM2-135M-Instruct and Qwen2.5-Coder-1.5B-Instruct.
constexpr CandidateOdds::Weights kShipped = {
    .text = {-1.62f, -2.81f, -1.96f, -1.72f, -0.41f, -0.24f, -1.88f, -1.20f, -0.79f,
             0.76f,  0.29f,  -0.87f, -0.47f, 0.23f,  1.17f,  0.65f,  -0.83f, 0.35f,
             0.13f,  1.34f,  1.10f,  -0.20f, 0.62f,  0.65f,  2.03f,  1.40f,  0.71f,
             1.21f,  1.34f,  2.23f,  1.68f,  0.68f,  1.19f,  2.34f,  2.83f,  1.57f,
             0.38f,  1.07f,  1.85f,  3.41f,  2.77f,  0.00f,  1.37f,  3.06f,  4.89f},
    .memory = {-2.88f, -3.43f, -2.45f, -2.15f, -1.58f, -1.72f, -2.88f, -2.14f, -1.49f,
               -0.86f, -1.39f, -2.16f, -1.01f, -1.10f, 0.17f,  -0.55f, -1.75f, -1.66f,
               -1.75f, -0.27f, 0.19f,  -0.19f, 0.13f,  0.49f,  0.39f,  -0.29f, -0.22f,
               0.69f,  0.51f,  0.81f,  0.49f,  -0.11f, -0.12f, 0.07f,  0.62f,  0.00f,
               0.00f,  0.00f,  0.00f,  -0.10f, 0.00f,  0.00f,  0.00f,  0.00f,  0.00f},
    .rival = {0.91f, 0.02f, -0.44f, -1.11f, -2.26f},
    .both = 3.52f};

}  // namespace

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

double CandidateOdds::chance(const Features& f) const {
  double odds = now_.rival[static_cast<size_t>(f.rival)];
  if (f.text >= 0) odds += now_.text[static_cast<size_t>(f.text)];
  if (f.memory >= 0) odds += now_.memory[static_cast<size_t>(f.memory)];
  if (f.text >= 0 && f.memory >= 0) odds += now_.both;
  return 1 / (1 + std::exp(-odds));
}

void CandidateOdds::learn(const Features& f, bool right, double rate) {
  const auto step = static_cast<float>(rate * ((right ? 1 : 0) - chance(f)));
  now_.rival[static_cast<size_t>(f.rival)] += step;
  if (f.text >= 0) now_.text[static_cast<size_t>(f.text)] += step;
  if (f.memory >= 0) now_.memory[static_cast<size_t>(f.memory)] += step;
  if (f.text >= 0 && f.memory >= 0) now_.both += step;
}

void CandidateOdds::fade() {
  const auto back = [](float& now, float first) { now = first + kKept * (now - first); };
  for (size_t i = 0; i < kCells; ++i) {
    back(now_.text[i], first_.text[i]);
    back(now_.memory[i], first_.memory[i]);
  }
  for (size_t i = 0; i < kRivals; ++i) back(now_.rival[i], first_.rival[i]);
  back(now_.both, first_.both);
}

const CandidateOdds::Weights& CandidateOdds::shipped() {
  return kShipped;
}

}  // namespace specbound
