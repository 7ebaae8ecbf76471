// Q4_K of 256 floats, x ~ d * scale * q - dmin * min in 8 parts of 32: for each part several scales
// are tried, each with the least squares fit of scale and offset to the q that it gives, as ggml's
// quantizer of its K types does; the fits are then rounded to what the block can hold (scales and
// mins of 6 bits, FP16 d and dmin), and of the rounded ones near each fit the best is kept.
// Errors are weighted by rms(x) + |x|: large weights count more in the sums they go into.
#include <algorithm>
#include <cmath>

#include "model/codec.h"
#include "numerics/half.h"

namespace specbound {
namespace {

constexpr int kParts = 8, kPart = 32, kLevels = 15, kScales = 63;
constexpr int kLanes = 8;           // sums run in as many, in an order that vectors keep
constexpr float kLargest = 6e7f;    // about kLevels * kScales * 65504
constexpr float kNoRange = 1e-30f;  // far below what an FP16 scale can hold
constexpr int kTried = 21;          // scales, from range / 14 to range / 16
constexpr float kFirst = 14, kStep = 0.1f;

struct Fit {
  float scale = 0, offset = 0;  // x ~ scale * q - offset, both >= 0
};

// Numbers of one part: values, weights.
struct Part {
  float x[kPart], weight[kPart];
};

float lane_sum(const float* lanes) {
  float sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

float level(float value) {
  const float held = value < 0 ? 0 : value > kLevels ? kLevels : value;
  return static_cast<float>(static_cast<int>(held + 0.5f));
}

Part part_of(const float* x) {
  Part part;
  float squares[kLanes] = {};
  for (int i = 0; i < kPart; ++i) squares[i % kLanes] += x[i] * x[i];
  const float rms = std::sqrt(lane_sum(squares) / kPart);
  for (int i = 0; i < kPart; ++i) {
    part.x[i] = x[i];
    part.weight[i] = rms + std::fabs(x[i]);
  }
  return part;
}

// The least squares fit to the levels that steps of 1 / inverse from `low` on give, and its error
// but for what all fits to this part share. Sums are over y = x - low: no large offset drowns the
// differences.
Fit fit_levels(const Part& part, float low, float inverse, double& error) {
  float w[kLanes] = {}, wy[kLanes] = {}, wq[kLanes] = {}, wqq[kLanes] = {}, wyq[kLanes] = {};
  for (int i = 0; i < kPart; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float y = part.x[i + l] - low, weight = part.weight[i + l], q = level(y * inverse);
      w[l] += weight;
      wy[l] += weight * y;
      wq[l] += weight * q;
      wqq[l] += weight * q * q;
      wyq[l] += weight * y * q;
    }
  }
  const double sw = lane_sum(w), sy = lane_sum(wy), sq = lane_sum(wq), sqq = lane_sum(wqq),
               syq = lane_sum(wyq);
  // y ~ scale * q - shift, offset = shift - low.
  const double determinant = sw * sqq - sq * sq;
  double scale = determinant > 0 ? (sw * syq - sq * sy) / determinant : 0;
  double shift = (scale * sq - sy) / sw;
  if (shift < low) {  // no offset below 0
    shift = low;
    scale = sqq > 0 ? (syq + shift * sq) / sqq : 0;
  }
  scale = std::max(scale, 0.0);
  error = scale * scale * sqq + shift * shift * sw -
          2 * (scale * shift * sq + scale * syq - shift * sy);
  return {static_cast<float>(scale), static_cast<float>(shift - low)};
}

Fit best_fit(const Part& part) {
  const auto [least, most] = std::minmax_element(part.x, part.x + kPart);
  const float low = std::min(*least, 0.0f), range = *most - low;
  if (range < kNoRange) return {0, -low};
  Fit best;
  double best_error = 0;
  for (int i = 0; i < kTried; ++i) {
    double error = 0;
    const Fit fit = fit_levels(part, low, (kFirst + kStep * static_cast<float>(i)) / range, error);
    if (i > 0 && error >= best_error) continue;
    best = fit;
    best_error = error;
  }
  return best;
}

// Levels of a part under a rounded fit. Returns the weighted error.
float levels_of(const Part& part, const Fit& fit, float* q) {
  const float inverse = fit.scale > 0 ? 1.0f / fit.scale : 0;
  float errors[kLanes] = {};
  for (int i = 0; i < kPart; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float x = part.x[i + l];
      q[i + l] = level((x + fit.offset) * inverse);
      const float difference = fit.scale * q[i + l] - fit.offset - x;
      errors[l] += part.weight[i + l] * difference * difference;
    }
  }
  return lane_sum(errors);
}

int rounded(float value, float unit) {
  return unit > 0 ? std::min(static_cast<int>(value / unit + 0.5f), kScales) : 0;
}

void store_scale(BlockQ4_K& block, int part, int scale, int min) {
  uint8_t* s = block.scales;
  if (part < 4) {
    s[part] = static_cast<uint8_t>(s[part] | scale);
    s[part + 4] = static_cast<uint8_t>(s[part + 4] | min);
  } else {
    s[part + 4] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
    s[part - 4] = static_cast<uint8_t>(s[part - 4] | (scale >> 4) << 6);
    s[part] = static_cast<uint8_t>(s[part] | (min >> 4) << 6);
  }
}

// The best scale and min of 6 bits near the fit, and the levels under them. Zeros are tried too:
// where d is too small for FP16, no offset may be left alone.
void store_part(BlockQ4_K& block, int index, const Part& part, const Fit& fit) {
  const float d = half_to_float(block.d), dmin = half_to_float(block.dmin);
  const int scale = rounded(fit.scale, d), min = rounded(fit.offset, dmin);
  int best_scale = 0, best_min = 0;
  float best_q[kPart], best_error = levels_of(part, {}, best_q);
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kScales); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, kScales); ++m) {
      float q[kPart];
      const Fit near = {d * static_cast<float>(s), dmin * static_cast<float>(m)};
      const float error = levels_of(part, near, q);
      if (error >= best_error) continue;
      std::copy_n(q, kPart, best_q);
      best_error = error;
      best_scale = s;
      best_min = m;
    }
  }
  store_scale(block, index, best_scale, best_min);
  const int shift = index % 2 * 4;
  for (int i = 0; i < kPart; ++i) {
    uint8_t& byte = block.q[index / 2 * kPart + i];
    byte = static_cast<uint8_t>(byte | static_cast<int>(best_q[i]) << shift);
  }
}

}  // namespace

BlockQ4_K encode_q4_k(const float* x) {
  BlockQ4_K block = {};
  // Not finite, or so large that the scale is not: every value is a NaN.
  const auto held = [](float v) { return std::fabs(v) <= kLargest; };
  if (!std::all_of(x, x + kParts * kPart, held)) {
    block.d = block.dmin = 0x7c00;
    return block;
  }
  Part parts[kParts];
  Fit fits[kParts];
  float scale = 0, offset = 0;
  for (int p = 0; p < kParts; ++p) {
    parts[p] = part_of(x + p * kPart);
    fits[p] = best_fit(parts[p]);
    scale = std::max(scale, fits[p].scale);
    offset = std::max(offset, fits[p].offset);
  }
  block.d = float_to_half(scale / kScales);
  block.dmin = float_to_half(offset / kScales);
  const bool finite =
      std::isfinite(half_to_float(block.d)) && std::isfinite(half_to_float(block.dmin));
  for (int p = 0; finite && p < kParts; ++p) store_part(block, p, parts[p], fits[p]);
  return block;
}

}  // namespace specbound
