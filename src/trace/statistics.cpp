#include "trace/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

#include "error.h"

namespace specbound {

namespace {

constexpr int kResamples = 10000;
constexpr uint64_t kSeed = 1;

double quotient(double a, double b) {
  return b > 0 ? a / b : 0;
}

}  // namespace

Spread spread_of(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  return {median(samples), *low, *high};
}

MeanDeviation mean_deviation(std::span<const double> samples) {
  MeanDeviation out;
  if (samples.empty()) return out;
  const double n = static_cast<double>(samples.size());
  out.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  if (samples.size() < 2) return out;
  double squares = 0;
  for (const double sample : samples) squares += (sample - out.mean) * (sample - out.mean);
  out.deviation = std::sqrt(squares / (n - 1));
  return out;
}

RatioInterval ratio_of_sums(std::span<const double> a, std::span<const double> b) {
  SB_CHECK(a.size() == b.size());
  const size_t n = a.size();
  RatioInterval out;
  out.ratio =
      quotient(std::accumulate(a.begin(), a.end(), 0.0), std::accumulate(b.begin(), b.end(), 0.0));
  out.low = out.high = out.ratio;
  if (n < 2) return out;
  std::mt19937_64 random(kSeed);
  std::vector<double> ratios(kResamples);
  for (double& ratio : ratios) {
    double sum_a = 0, sum_b = 0;
    for (size_t i = 0; i < n; ++i) {
      const size_t drawn = random() % n;  // a distribution of the library may differ elsewhere
      sum_a += a[drawn];
      sum_b += b[drawn];
    }
    ratio = quotient(sum_a, sum_b);
  }
  std::sort(ratios.begin(), ratios.end());
  constexpr int kTail = kResamples / 40;  // 2.5 %
  out.low = ratios[kTail];
  out.high = ratios[kResamples - 1 - kTail];
  return out;
}

}  // namespace specbound
