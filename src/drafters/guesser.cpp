#include "drafters/guesser.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace specbound {
namespace {

constexpr int kScored = 16;  // by z: noise seldom lifts one from below

struct Scored {
  float score;
  int32_t place;  // in z
};
constexpr auto kHigher = [](const Scored& a, const Scored& b) { return a.score > b.score; };

}  // namespace

void Guesser::Guess::add_others(std::span<const float> z, std::span<const int32_t> ids,
                                float temperature, const DrawPlace& place) {
  // A heap whose top is the least of those kept. NaN is never above it.
  std::array<Scored, kScored> kept;
  int n = 0;
  float least = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < z.size(); ++i) {
    if (!(z[i] > least)) continue;
    if (n == kScored) std::pop_heap(kept.begin(), kept.begin() + n--, kHigher);
    kept[n++] = {z[i], static_cast<int32_t>(i)};
    std::push_heap(kept.begin(), kept.begin() + n, kHigher);
    if (n == kScored) least = kept[0].score;
  }
  for (Scored& one : std::span(kept).first(n)) {
    if (!ids.empty()) one.place = ids[one.place];
    if (temperature > 0) one.score = one.score / temperature + gumbel(place, one.place);
  }
  std::sort(kept.begin(), kept.begin() + n, kHigher);
  double total = 0;
  for (const Scored& one : std::span(kept).first(n)) {
    if (one.place != token) total += std::exp(double{one.score} - kept[0].score);
  }
  others = 0;
  for (const Scored& one : std::span(kept).first(n)) {
    if (one.place == token || others == kMostOthers) continue;
    const double part = std::exp(double{one.score} - kept[0].score) / total;
    other[others++] = {one.place, static_cast<float>((1 - confidence) * part)};
  }
}

}  // namespace specbound
