// How far confidences can be trusted, and the law from a margin to a chance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace specbound {

// Rows whose confidence falls between i / bins and (i + 1) / bins.
struct ReliabilityBin {
  int64_t rows = 0;
  double confidence = 0, accuracy = 0;  // means
};

std::vector<ReliabilityBin> reliability(std::span<const float> confidence,
                                        std::span<const uint8_t> right, int bins = 15);

// Expected calibration error (Guo et al., arXiv 1706.04599): the mean over rows of the difference
// between a bin's confidence and accuracy.
double calibration_error(std::span<const ReliabilityBin> bins);

// The chance of being right as 1 / (1 + exp(-(scale x + offset))), most likely by Newton's method.
// Counts are smoothed as Platt's are, so that a head that is always right, or never, gets finite
// values. No rows: scale 1, offset 0.
struct LogisticFit {
  double scale = 1, offset = 0;
};
LogisticFit fit_logistic(std::span<const float> x, std::span<const uint8_t> right);

}  // namespace specbound
