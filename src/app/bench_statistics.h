// What repeated and paired measurements come to: `bench` and `spec-bench` have no other statistics.
#pragma once

#include <span>

namespace specbound {

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
