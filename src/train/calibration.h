// How far confidences can be trusted, the temperature at which they can, and the law from a margin
// to a chance.
#pragma once

#include <array>
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

// What learned annealing chooses among: temperatures that fall from 4 to 0.27 in steps of an
// eighth of an octave, so that the exponentials of one octave, squared, are those of the next.
inline constexpr int kTemperatureOctaves = 4, kTemperaturesAnOctave = 8;
inline constexpr int kTemperatures = kTemperatureOctaves * kTemperaturesAnOctave;
inline constexpr int kNoAnnealing = 2 * kTemperaturesAnOctave;  // where T = 1
float learnable_temperature(int index);
using ConfidenceCurve = std::array<float, kTemperatures>;  // of a row, by temperature

// The temperature at which a head's confidence is likeliest to be its chance of being right (Guo et
// al.), and what that confidence is worth.
class TemperatureFit {
 public:
  void add(const ConfidenceCurve& confidence, bool right);
  // 1 unless some rows were right and some wrong: those of one outcome ask for no end of it.
  float temperature() const { return learnable_temperature(best()); }
  double error() const;  // calibration_error() at that temperature

 private:
  int best() const;

  int64_t rows_ = 0, right_ = 0;
  std::array<double, kTemperatures> loss_ = {};                  // -log likelihood
  std::array<std::vector<ReliabilityBin>, kTemperatures> bins_;  // sums
};

// The chance of being right as 1 / (1 + exp(-(scale x + offset))), most likely by Newton's method.
// Counts are smoothed as Platt's are, so that a head that is always right, or never, gets finite
// values. No rows: scale 1, offset 0.
struct LogisticFit {
  double scale = 1, offset = 0;
};
LogisticFit fit_logistic(std::span<const float> x, std::span<const uint8_t> right);

}  // namespace specbound
