// What repeated and paired measurements come to: benches, tuning and the comparison of a chat have
// no other statistics.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace specbound {

// The mean of the middle two of an even number; 0 of none. Inline: GPU benches link no library.
inline double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  return n % 2 ? samples[n / 2] : 0.5 * (samples[n / 2 - 1] + samples[n / 2]);
}

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(const std::vector<double>& samples);

struct MeanDeviation {
  double mean = 0;
  double deviation = 0;  // of the sample (n - 1); 0 of fewer than two
};
MeanDeviation mean_deviation(std::span<const double> samples);

// A ratio of sums (or of means: the same) over pairs, with its 95 % interval.
struct RatioInterval {
  double ratio = 0;
  double low = 0, high = 0;  // of fewer than two pairs: the ratio itself
};

// sum(a) / sum(b), a[i] and b[i] of the same prompt; 0 where a sum of `b` is. The interval is a
// percentile bootstrap that draws pairs, 10,000 times from a fixed seed: the same numbers give the
// same interval. A t interval of log ratios is not used: it is of the geometric mean, which no
// clock shows, and takes ratios for log-normal, which prompts that gain and prompts that lose are
// not. Of few pairs (below about ten) any such interval is somewhat too narrow.
RatioInterval ratio_of_sums(std::span<const double> a, std::span<const double> b);

}  // namespace specbound
