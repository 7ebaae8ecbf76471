// The CPU kernels, written once over the vector operations and tile products of a simd_*.h,
// with AVX2 of a tile_dot_*.h too, which are included first.
// Everything is in an anonymous namespace: translation units compile this text for their
// instruction sets, and no function of one may stand in for that of another at link time. For the
// same reason nothing from std:: is called, and what tiles.h and int8_formula.h give is inlined.
//
// A row's arithmetic never looks at how many rows share the call: rows only add accumulators.
#pragma once

#include "engine/cpu/attention_impl.h"
#include "engine/cpu/float_impl.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_rows_impl.h"
#include "engine/cpu/matmul_impl.h"

namespace specbound {
namespace {

// Sums of squares run in 32 virtual lanes (k mod 32) as every float sum here does.
void rmsnorm(const float* x, const float* w, float eps, int n, float* y) {
  V lo = zero(), hi = zero();
  int k = 0;
  for (; k + 32 <= n; k += 32) {
    const V a = load(x + k), b = load(x + k + 16);
    lo = fma(a, a, lo);
    hi = fma(b, b, hi);
  }
  if (k < n) {
    const int left = n - k;
    const V a = load_n(x + k, left < 16 ? left : 16);
    const V b = load_n(x + k + 16, left > 16 ? left - 16 : 0);
    lo = fma(a, a, lo);
    hi = fma(b, b, hi);
  }
  const float mean = sum(add(lo, hi)) / static_cast<float>(n);
  const V scale = set1(1.0f / __builtin_sqrtf(mean + eps));
  for (k = 0; k + 16 <= n; k += 16) store(y + k, mul(mul(load(x + k), scale), load(w + k)));
  if (k < n) store_n(y + k, mul(mul(load_n(x + k, n - k), scale), load_n(w + k, n - k)), n - k);
}

void rotate(float* x, const float* cosine, const float* sine, bool interleaved, int n) {
  const auto read = [](const float* p, int left) { return left < 16 ? load_n(p, left) : load(p); };
  const auto write = [](float* p, V v, int left) { left < 16 ? store_n(p, v, left) : store(p, v); };
  if (interleaved) {
    for (int i = 0; i < n; i += 16) {
      const V a = read(x + i, n - i);
      const V turned = mul(swap_pairs(a), read(sine + i, n - i));
      write(x + i, add(mul(a, read(cosine + i, n - i)), turned), n - i);
    }
    return;
  }
  const int half = n / 2;
  for (int i = 0; i < half; i += 16) {
    const int left = half - i;
    const V a = read(x + i, left), b = read(x + half + i, left);
    const V c = read(cosine + i, left), s = read(sine + half + i, left);
    write(x + i, sub(mul(a, c), mul(b, s)), left);
    write(x + half + i, add(mul(a, s), mul(b, c)), left);
  }
}

template <V (*kActivation)(V)>
void activate_mul(float* gate, const float* up, int n) {
  int i = 0;
  for (; i + 16 <= n; i += 16) store(gate + i, mul(kActivation(load(gate + i)), load(up + i)));
  const int left = n - i;
  if (left > 0) {
    store_n(gate + i, mul(kActivation(load_n(gate + i, left)), load_n(up + i, left)), left);
  }
}

void softcap(float* x, float cap, int n) {
  int i = 0;
  for (; i + 16 <= n; i += 16) store(x + i, softcapped(load(x + i), cap));
  if (i < n) store_n(x + i, softcapped(load_n(x + i, n - i), cap), n - i);
}

float softmax_peak(const float* z, int n, float temperature) {
  const V lowest = set1(-__builtin_inff());
  const auto read = [&](int i) {  // lanes past the end hold -inf
    return n - i >= 16 ? load(z + i)
                       : select(less(lanes(), set1(static_cast<float>(n - i))),
                                load_n(z + i, n - i), lowest);
  };
  V highest = lowest;
  for (int i = 0; i < n; i += 16) highest = max(read(i), highest);  // a NaN is passed over
  const float peak = max_lane(highest);
  if (!(__builtin_fabsf(peak) < __builtin_inff())) return peak > 0 ? 1.0f : 0.0f;

  const V top = set1(peak), scale = set1(1.0f / temperature);
  V total = zero();
  for (int i = 0; i < n; i += 16) {
    const V x = mul(sub(read(i), top), scale);
    total = add(total, exp(max(x, set1(-100.0f))));  // e^-100 is 0 here, and NaN becomes that
  }
  return 1.0f / sum(total);
}

void peak_chunks(const float* z, int n, float temperature, PeakChunk* chunks) {
  const V lowest = set1(-__builtin_inff()), scale = set1(1.0f / temperature);
  constexpr int kVectors = kPeakChunk / 16;
  for (int begin = 0; begin < n; begin += kPeakChunk, ++chunks) {
    V x[kVectors];
    V highest = lowest;
    for (int j = 0; j < kVectors; ++j) {  // lanes past the end hold -inf
      const int left = n - begin - 16 * j;
      const float* p = z + begin + 16 * j;
      x[j] = left >= 16 ? load(p)
             : left > 0
                 ? select(less(lanes(), set1(static_cast<float>(left))), load_n(p, left), lowest)
                 : lowest;
      highest = max(x[j], highest);  // a NaN is passed over
    }
    const float peak = max_lane(highest);
    chunks->highest = peak;
    V total = zero();
    if (__builtin_fabsf(peak) < __builtin_inff()) {
      for (int j = 0; j < kVectors; ++j) {
        const V e = mul(sub(x[j], set1(peak)), scale);
        total = add(total, exp(max(e, set1(-100.0f))));  // e^-100 is 0 here, and NaN becomes that
      }
    }
    store(chunks->sum, total);
  }
}

float join_peaks(const PeakChunk* chunks, int n_chunks, float temperature, const float* z, int n,
                 int* place) {
  float peak = -__builtin_inff();
  int first = 0;
  for (int c = 0; c < n_chunks; ++c) {
    if (!(chunks[c].highest > peak)) continue;
    peak = chunks[c].highest;
    first = c;
  }
  *place = 0;
  if (peak == -__builtin_inff()) return 0.0f;
  int at = first * kPeakChunk;
  while (at < n - 1 && z[at] != peak) ++at;
  *place = at;
  if (peak == __builtin_inff()) return 1.0f;

  const V top = set1(peak), scale = set1(1.0f / temperature);
  V total = zero();
  for (int begin = 0; begin < n_chunks; begin += 16) {
    const int count = n_chunks - begin < 16 ? n_chunks - begin : 16;
    float weight[16] = {};
    for (int c = 0; c < count; ++c) weight[c] = chunks[begin + c].highest;
    const V e = mul(sub(load(weight), top), scale);
    store(weight, exp(max(e, set1(-100.0f))));
    for (int c = 0; c < count; ++c) {
      total = fma(load(chunks[begin + c].sum), set1(weight[c]), total);
    }
  }
  return 1.0f / sum(total);
}

float read_all(const float* x, size_t n) {
  V sums[8];  // apart, so that no addition waits for the one before
  for (V& sum : sums) sum = zero();
  for (size_t i = 0; i < n; i += 128) {
    for (size_t j = 0; j < 8; ++j) sums[j] = add(sums[j], load(x + i + 16 * j));
  }
  V total = zero();
  for (const V& sum : sums) total = add(total, sum);
  return sum(total);
}

constexpr Kernels make_kernels(Isa isa) {
  return {isa,
          rmsnorm,
          quantize,
          matmul_tiles,
          matmul_q8_0,
          matmul_float,
          rotate,
          activate_mul<silu>,
          activate_mul<gelu>,
          softcap,
          store_kv,
          attention,
          attend_chunks,
          join_chunks,
          softmax_peak,
          peak_chunks,
          join_peaks,
          read_all};
}

}  // namespace
}  // namespace specbound
