#include "train/calibration.h"

#include <algorithm>
#include <cmath>

namespace specbound {

std::vector<ReliabilityBin> reliability(std::span<const float> confidence,
                                        std::span<const uint8_t> right, int bins) {
  std::vector<ReliabilityBin> result(static_cast<size_t>(bins));
  for (size_t i = 0; i < confidence.size(); ++i) {
    // NaN stays NaN here, and goes into the first.
    const float at =
        std::min(confidence[i] * static_cast<float>(bins), static_cast<float>(bins - 1));
    ReliabilityBin& bin = result[at > 0 ? static_cast<size_t>(at) : 0];
    ++bin.rows;
    bin.confidence += confidence[i];
    bin.accuracy += right[i];
  }
  for (ReliabilityBin& bin : result) {
    if (bin.rows == 0) continue;
    bin.confidence /= static_cast<double>(bin.rows);
    bin.accuracy /= static_cast<double>(bin.rows);
  }
  return result;
}

double calibration_error(std::span<const ReliabilityBin> bins) {
  double sum = 0;
  int64_t rows = 0;
  for (const ReliabilityBin& bin : bins) {
    sum += static_cast<double>(bin.rows) * std::abs(bin.confidence - bin.accuracy);
    rows += bin.rows;
  }
  return rows > 0 ? sum / static_cast<double>(rows) : 0;
}

LogisticFit fit_logistic(std::span<const float> x, std::span<const uint8_t> right) {
  if (x.empty()) return {};
  const double n = static_cast<double>(x.size());
  const double n_right = static_cast<double>(std::count(right.begin(), right.end(), 1));
  const double goal_right = (n_right + 1) / (n_right + 2);
  const double goal_wrong = 1 / (n - n_right + 2);
  // In units of the spread of x; the slope is held by a penalty worth one row, or rows that are all
  // alike would leave it open.
  double mean = 0, spread = 0;
  for (const float v : x) mean += v / n;
  for (const float v : x) spread += (v - mean) * (v - mean) / n;
  spread = spread > 0 ? std::sqrt(spread) : 1;

  const auto loss = [&](double a, double b) {
    double sum = 0.5 * a * a;
    for (size_t i = 0; i < x.size(); ++i) {
      const double z = a * ((x[i] - mean) / spread) + b;
      // log(1 + e^z) - goal z
      sum += std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))) -
             (right[i] ? goal_right : goal_wrong) * z;
    }
    return sum;
  };
  double a = 0, b = std::log((n_right + 1) / (n - n_right + 1));
  double current = loss(a, b);
  for (int iteration = 0; iteration < 100; ++iteration) {
    double ga = a, gb = 0, haa = 1, hab = 0, hbb = 1e-12;
    for (size_t i = 0; i < x.size(); ++i) {
      const double t = (x[i] - mean) / spread;
      const double p = 1 / (1 + std::exp(-(a * t + b)));
      const double error = p - (right[i] ? goal_right : goal_wrong), weight = p * (1 - p);
      ga += error * t;
      gb += error;
      haa += weight * t * t;
      hab += weight * t;
      hbb += weight;
    }
    const double determinant = haa * hbb - hab * hab;
    if (!(determinant > 0)) break;
    const double da = (hbb * ga - hab * gb) / determinant;
    const double db = (haa * gb - hab * ga) / determinant;
    double length = 1;
    while (length > 1e-6 && !(loss(a - length * da, b - length * db) <= current)) length /= 2;
    if (length <= 1e-6) break;
    a -= length * da;
    b -= length * db;
    const double next = loss(a, b);
    const bool settled = current - next < 1e-9 * (1 + std::abs(current));
    current = next;
    if (settled) break;
  }
  return {a / spread, b - a * mean / spread};
}

}  // namespace specbound
