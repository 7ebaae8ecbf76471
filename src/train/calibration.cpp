#include "train/calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specbound {

namespace {

constexpr int kBins = 15;  // of TemperatureFit, as elsewhere

void add_row(std::vector<ReliabilityBin>& sums, float confidence, bool right) {
  const float last = static_cast<float>(sums.size() - 1);
  // NaN stays NaN here, and goes into the first.
  const float at = std::min(confidence * static_cast<float>(sums.size()), last);
  ReliabilityBin& bin = sums[at > 0 ? static_cast<size_t>(at) : 0];
  ++bin.rows;
  bin.confidence += confidence;
  bin.accuracy += right;
}

std::vector<ReliabilityBin> means(std::vector<ReliabilityBin> sums) {
  for (ReliabilityBin& bin : sums) {
    if (bin.rows == 0) continue;
    bin.confidence /= static_cast<double>(bin.rows);
    bin.accuracy /= static_cast<double>(bin.rows);
  }
  return sums;
}

}  // namespace

std::vector<ReliabilityBin> reliability(std::span<const float> confidence,
                                        std::span<const uint8_t> right, int bins) {
  std::vector<ReliabilityBin> sums(static_cast<size_t>(bins));
  for (size_t i = 0; i < confidence.size(); ++i) add_row(sums, confidence[i], right[i]);
  return means(std::move(sums));
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

float learnable_temperature(int index) {
  return static_cast<float>(4 * std::exp2(-static_cast<double>(index) / kTemperaturesAnOctave));
}

void TemperatureFit::add(const ConfidenceCurve& confidence, bool right) {
  constexpr double kLeast = 1e-6;  // a chance that is never said: one row decides nothing alone
  ++rows_;
  right_ += right;
  for (size_t t = 0; t < confidence.size(); ++t) {
    // In this order, which makes NaN the least.
    const double p = std::min(std::max(kLeast, double{confidence[t]}), 1 - kLeast);
    loss_[t] -= std::log(right ? p : 1 - p);
    bins_[t].resize(kBins);
    add_row(bins_[t], confidence[t], right);
  }
}

int TemperatureFit::best() const {
  if (right_ == 0 || right_ == rows_) return kNoAnnealing;
  return static_cast<int>(std::min_element(loss_.begin(), loss_.end()) - loss_.begin());
}

double TemperatureFit::error() const {
  return calibration_error(means(bins_[static_cast<size_t>(best())]));
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
