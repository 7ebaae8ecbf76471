// The Q4_K encoder, which no package can be asked about: against the plain way, least and largest
// value of each part, and at the edges of what a block can hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "model/codec.h"
#include "numerics/half.h"

namespace specbound::encode_q4_k_test {
namespace {

constexpr int kElements = 256, kPart = 32, kParts = 8;
using Values = std::vector<float>;

Values decoded(const BlockQ4_K& block) {
  Values out(kElements);
  dequantize(reinterpret_cast<const std::byte*>(&block), DType::kQ4_K, kElements, out.data());
  return out;
}

double square_error(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum;
}

double squares(const Values& x) {
  return square_error(x, Values(x.size()));
}

// Scales and mins from the least and the largest value of each part, rounded to six bits of the
// largest among them.
Values by_extremes(const Values& x) {
  float scales[kParts], mins[kParts], scale = 0, min = 0;
  for (int p = 0; p < kParts; ++p) {
    const auto [least, most] = std::minmax_element(&x[p * kPart], &x[p * kPart] + kPart);
    mins[p] = std::max(0.0f, -*least);
    scales[p] = (*most + mins[p]) / 15;
    scale = std::max(scale, scales[p]);
    min = std::max(min, mins[p]);
  }
  const float d = half_to_float(float_to_half(scale / 63));
  const float dmin = half_to_float(float_to_half(min / 63));
  Values out(kElements);
  for (int i = 0; i < kElements; ++i) {
    const float s = d * std::round(scales[i / kPart] / d);
    const float m = dmin > 0 ? dmin * std::round(mins[i / kPart] / dmin) : 0;
    const float q = s > 0 ? std::clamp(std::round((x[i] + m) / s), 0.0f, 15.0f) : 0;
    out[i] = s * q - m;
  }
  return out;
}

}  // namespace

TEST_CASE("encode Q4_K: the error is well below that of least and largest values") {
  std::mt19937 random(8);
  const auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random() * 0x1p-32;
    return sum;
  };
  double ours = 0, naive = 0, total = 0;
  for (int n = 0; n < 200; ++n) {
    Values x(kElements);
    for (float& v : x) v = static_cast<float>(0.02 * normal());
    const Values found = decoded(encode_q4_k(x.data()));
    const double error = square_error(x, found), plain = square_error(x, by_extremes(x));
    CHECK(error < 1.02 * plain);  // weighted fits serve large weights first
    ours += error;
    naive += plain;
    total += squares(x);
  }
  CHECK(ours < 0.9 * naive);
  // ggml's own quantizer leaves 7.14 % of normal weights.
  CHECK(std::sqrt(ours / total) < 0.0714);
}

TEST_CASE("encode Q4_K: what a block holds without error survives") {
  std::mt19937 random(9);
  for (int n = 0; n < 50; ++n) {
    // Parts that use all levels, so that scales and mins can be told from the values.
    BlockQ4_K block = {};
    block.d = float_to_half(0.0009765625f);
    block.dmin = float_to_half(0.00390625f);
    for (uint8_t& s : block.scales) s = static_cast<uint8_t>(random());
    block.scales[0] = block.scales[4] = 63;
    for (uint8_t& q : block.q) q = static_cast<uint8_t>(random());
    for (int i = 0; i < 4; ++i) block.q[i * 32] = 0xf0, block.q[i * 32 + 1] = 0x0f;
    const Values x = decoded(block);
    const Values again = decoded(encode_q4_k(x.data()));
    CHECK(square_error(x, again) <= 1e-4 * squares(x));
  }
}

TEST_CASE("encode Q4_K: parts of one value, zeros, and values of one sign") {
  Values x(kElements);
  CHECK(decoded(encode_q4_k(x.data())) == x);
  const auto ratio = [](const Values& values) {
    return std::sqrt(square_error(values, decoded(encode_q4_k(values.data()))) / squares(values));
  };
  for (const float value : {1.0f, -1.0f, 0.1f, -4096.0f}) {
    CAPTURE(value);
    std::fill(x.begin(), x.end(), value);
    CHECK(ratio(x) < 1e-3);
  }
  for (int i = 0; i < kElements; ++i) x[i] = static_cast<float>(i % 16) + 100;
  CHECK(ratio(x) < 0.04);  // no offset below 0: levels must reach from 0
  for (float& v : x) v = -v;
  CHECK(ratio(x) < 0.01);
  // One large part beside small ones: theirs are coarse, and not made worse than zeros.
  for (int i = 0; i < kElements; ++i) x[i] = (i % 2 ? -1.0f : 1.0f) * (i < kPart ? 1.0f : 1e-4f);
  const Values found = decoded(encode_q4_k(x.data()));
  for (int i = kPart; i < kElements; ++i) CHECK(std::fabs(found[i]) <= 1e-3f);
}

TEST_CASE("encode Q4_K: what FP16 scales cannot hold") {
  const auto count = [](const Values& x, auto test) {
    return std::count_if(x.begin(), x.end(), test);
  };
  const auto not_finite = [](float v) { return !std::isfinite(v); };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float value : {kInf, -kInf, std::nanf(""), 1e30f, -1e30f, 5e7f, -5e7f}) {
    CAPTURE(value);
    Values x(kElements, 0.01f);
    x[77] = value;
    const bool held = value == 5e7f;  // 15 levels of 63 scales; offsets have no levels
    CHECK(count(decoded(encode_q4_k(x.data())), not_finite) == (held ? 0 : kElements));
  }
  // Below FP16's smallest: zeros rather than noise.
  for (const float value : {1e-7f, -1e-7f, 1e-20f, 1e-30f, 1e-38f, 1e-45f}) {
    CAPTURE(value);
    Values x(kElements);
    for (int i = 0; i < kElements; ++i) x[i] = i % 3 ? value : -value / 2;
    const Values found = decoded(encode_q4_k(x.data()));
    CHECK(square_error(x, found) <= squares(x));
    CHECK(count(found, not_finite) == 0);
  }
}

}  // namespace specbound::encode_q4_k_test
