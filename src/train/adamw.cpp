#include "train/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/blocks.h"

namespace specbound {

namespace {
constexpr int64_t kBlock = 1 << 14;
}

void Parameter::resize(size_t n) {
  for (std::vector<float>* values : {&value, &gradient, &mean, &square}) values->assign(n, 0);
}

void AdamW::step(ThreadPool& pool, std::span<Parameter* const> parameters, int64_t step,
                 float rate) const {
  // Blocks are summed in their order, whoever did them.
  double norm_square = 0;
  std::vector<double> sums;
  for (const Parameter* p : parameters) {
    const int64_t n = static_cast<int64_t>(p->value.size());
    sums.assign(static_cast<size_t>((n + kBlock - 1) / kBlock), 0);
    for_blocks(pool, n, kBlock, [&](int64_t begin, int64_t end) {
      double sum[4] = {};
      for (int64_t i = begin; i < end; ++i) {
        sum[i & 3] += static_cast<double>(p->gradient[i]) * p->gradient[i];
      }
      sums[static_cast<size_t>(begin / kBlock)] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    });
    for (const double s : sums) norm_square += s;
  }
  const double norm = std::sqrt(norm_square);
  const float clip = norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
  const double count = static_cast<double>(step);
  const float mean_scale = static_cast<float>(1 / (1 - std::pow(double{beta1}, count)));
  const float square_scale = static_cast<float>(1 / (1 - std::pow(double{beta2}, count)));
  const float keep = 1 - rate * weight_decay;
  for (Parameter* p : parameters) {
    float* value = p->value.data();
    float* gradient = p->gradient.data();
    float* mean = p->mean.data();
    float* square = p->square.data();
    for_blocks(pool, static_cast<int64_t>(p->value.size()), kBlock,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const float g = gradient[i] * clip;
                   mean[i] = beta1 * mean[i] + (1 - beta1) * g;
                   square[i] = beta2 * square[i] + (1 - beta2) * g * g;
                   const float root = __builtin_sqrtf(square[i] * square_scale) + epsilon;
                   value[i] = keep * value[i] - rate * (mean[i] * mean_scale) / root;
                   gradient[i] = 0;
                 }
               });
  }
}

float rate_for(int dim) {
  constexpr float kRate = 2e-3f, kWidth = 576;
  return kRate * std::min(1.0f, kWidth / static_cast<float>(dim));
}

float learning_rate(float peak, double done) {
  constexpr double kWarmUp = 0.02, kLast = 0.03;
  const double d = std::clamp(done, 0.0, 1.0);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * d));
  const double warm = std::min(1.0, (d + 1e-4) / kWarmUp);
  return static_cast<float>(peak * warm * (kLast + (1 - kLast) * cosine));
}

}  // namespace specbound
