// The CPU kernels, written once over the vector operations of a simd_*.h, which is included first.
// Everything is in an anonymous namespace: three translation units compile this text for three
// instruction sets, and no function of one may stand in for that of another at link time. For the
// same reason nothing from std:: is called, and what tiles.h and int8_formula.h give is inlined.
//
// A row's arithmetic never looks at how many rows share the call: rows only add accumulators.
#pragma once

#include "engine/cpu/kernels.h"

namespace specbound {
namespace {

// e^x, relative error below 2^-22. Below -87 the result is 0, so that no subnormal arises; above
// 88 it is infinite. Cody-Waite reduction by ln 2 in two parts, then a polynomial of degree 7. A
// caller whose x is never positive spares the upper end: the same bits.
template <bool kNotPositive = false>
inline V exp(V x) {
  const Mask tiny = less(x, set1(-87.0f));
  V c = x;
  if constexpr (!kNotPositive) c = min(set1(88.0f), c);
  c = max(set1(-87.0f), c);  // NaN passes: it is the second operand
  const V n = round_even(mul(c, set1(1.44269504f)));
  V r = fma(n, set1(-0.693359375f), c);
  r = fma(n, set1(2.12194440e-4f), r);
  V p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, set1(1.0f)));
  p = mul(p, pow2(n));
  if constexpr (!kNotPositive) p = select(less(set1(88.0f), x), set1(__builtin_inff()), p);
  return select(tiny, zero(), p);
}

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

void quantize(const float* x, int row, int begin, int end, const QuantRows& out) {
  const int panel = row / kPanelRows, rows = out.panel_rows(panel), r = row % kPanelRows;
  const size_t first = out.panel_offset(panel) + r;
  for (int b = begin; b < end; ++b, x += kQuantBlock) {
    const size_t at = first + static_cast<size_t>(b) * rows;
    const V x0 = load(x), x1 = load(x + 16);
    const float amax = max_magnitude(max_bits(abs(x0), abs(x1)));
    const bool finite = amax < __builtin_inff();
    const bool live = finite && amax >= kQuantFloor;
    const V inverse = set1(live ? 127.0f / amax : 0.0f);
    int8_t* q = out.q + at * kQuantBlock;
    int total = 0;
    if (live) {
      total = store_int8(q, mul(x0, inverse), mul(x1, inverse));
    } else {
      __builtin_memset(q, 0, kQuantBlock);
    }
    out.scale[at] = live ? amax / 127.0f : finite ? 0.0f : __builtin_nanf("");
    out.bias[at] = -128 * total;
  }
}

// y += or = the 16 outputs of `tile` for R rows of a panel, from its row r0 on.
template <int R>
inline void tile_times_rows(const TileMatrix& w, int tile, const QuantRows& x, int panel, int r0,
                            float* y, int ldy, bool accumulate) {
  const int n_blocks = w.n_blocks(), rows = x.panel_rows(panel);
  const size_t first_block = static_cast<size_t>(tile) * n_blocks;
  const uint8_t* wq = w.q + first_block * 512;
  const uint16_t* wd = w.d + first_block * kTileOutputs;
  const size_t first_row = x.panel_offset(panel) + r0;
  const int8_t* xq = x.q + first_row * kQuantBlock;
  const float* xs = x.scale + first_row;
  const int32_t* xb = x.bias + first_row;
  V total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = zero();
  const int chunks = k_chunks(w.n_in);
  for (int c = 0; c < chunks; ++c) {
    V acc[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = zero();
    const int end = k_chunk_begin(w.n_in, c + 1);
    for (int b = k_chunk_begin(w.n_in, c); b < end; ++b) {
      const size_t at = static_cast<size_t>(b) * rows;
      V isum[R];
      tile_dot<R>(wq + static_cast<size_t>(b) * 512, xq + at * kQuantBlock, xb + at, isum);
      const V dw = load_f16(wd + b * kTileOutputs);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[r] = fma(isum[r], mul(dw, set1(xs[at + r])), acc[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = add(total[r], acc[r]);
  }
  const int n = w.n_out - tile * kTileOutputs;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* out = y + static_cast<size_t>(panel * kPanelRows + r0 + r) * ldy + tile * kTileOutputs;
    if (n >= kTileOutputs) {
      store(out, accumulate ? add(load(out), total[r]) : total[r]);
    } else {
      store_n(out, accumulate ? add(load_n(out, n), total[r]) : total[r], n);
    }
  }
}

void matmul_tiles(const TileMatrix& w, const QuantRows& x, float* y, int ldy, bool accumulate) {
  for (int tile = 0; tile < w.n_tiles(); ++tile) {
    for (int panel = 0; panel < x.n_panels(); ++panel) {
      const int rows = x.panel_rows(panel);
      for (int r = 0; r < rows; r += kMaxTileRows) {
        const int n = rows - r < kMaxTileRows ? rows - r : kMaxTileRows;
        switch (n) {
#define SPECBOUND_CASE(R)                                           \
  case R:                                                           \
    if constexpr (R <= kMaxTileRows) {                              \
      tile_times_rows<R>(w, tile, x, panel, r, y, ldy, accumulate); \
    }                                                               \
    break;
          SPECBOUND_CASE(1)
          SPECBOUND_CASE(2)
          SPECBOUND_CASE(3)
          SPECBOUND_CASE(4)
          SPECBOUND_CASE(5)
          SPECBOUND_CASE(6)
          SPECBOUND_CASE(7)
          SPECBOUND_CASE(8)
#undef SPECBOUND_CASE
        }
      }
    }
  }
}

void matmul_q8_0(const Matrix& w, int begin, int end, const QuantRows& x, float* y, int ldy,
                 bool accumulate) {
  const int n_blocks = x.n_blocks(), chunks = k_chunks(w.n_in);
  const auto* blocks = reinterpret_cast<const BlockQ8_0*>(w.data);
  for (int out = begin; out < end; ++out) {
    const BlockQ8_0* row = blocks + static_cast<size_t>(out) * n_blocks;
    for (int i = 0; i < x.n_rows; ++i) {
      const int panel = i / kPanelRows, rows = x.panel_rows(panel);
      const size_t first = x.panel_offset(panel) + i % kPanelRows;
      float total = 0;
      for (int c = 0; c < chunks; ++c) {
        float acc = 0;
        const int last = k_chunk_begin(w.n_in, c + 1);
        for (int b = k_chunk_begin(w.n_in, c); b < last; ++b) {
          const size_t at = first + static_cast<size_t>(b) * rows;
          const int32_t isum = block_dot(row[b].q, x.q + at * kQuantBlock);
          const float scale = half_scalar(row[b].d) * x.scale[at];
          acc = __builtin_fmaf(static_cast<float>(isum), scale, acc);
        }
        total += acc;
      }
      float& target = y[static_cast<size_t>(i) * ldy + out - begin];
      target = accumulate ? target + total : total;
    }
  }
}

// 16 weights as floats from element k on, however they are stored; the _n form ends with zeros.
struct WeightsF32 {
  const float* p;
  V at(int k) const { return load(p + k); }
  V at_n(int k, int n) const { return load_n(p + k, n); }
};
struct WeightsF16 {
  const uint16_t* p;
  V at(int k) const { return load_f16(p + k); }
  V at_n(int k, int n) const { return load_f16_n(p + k, n); }
};
struct WeightsBF16 {
  const uint16_t* p;
  V at(int k) const { return load_bf16(p + k); }
  V at_n(int k, int n) const { return load_bf16_n(p + k, n); }
};

// y[r] = dot(w, x[r]) for R rows, K padded with zeros to a multiple of 32.
template <int R, class W>
inline void dot_rows(W w, int n, const float* x, int ldx, float* y) {
  V lo[R], hi[R];
  for (int r = 0; r < R; ++r) lo[r] = hi[r] = zero();
  int k = 0;
  for (; k + 32 <= n; k += 32) {
    const V a = w.at(k), b = w.at(k + 16);
    for (int r = 0; r < R; ++r) {
      const float* xr = x + static_cast<size_t>(r) * ldx + k;
      lo[r] = fma(a, load(xr), lo[r]);
      hi[r] = fma(b, load(xr + 16), hi[r]);
    }
  }
  if (k < n) {
    const int left = n - k;
    const V a = w.at_n(k, left < 16 ? left : 16);
    const V b = w.at_n(k + 16, left > 16 ? left - 16 : 0);
    for (int r = 0; r < R; ++r) {
      const float* xr = x + static_cast<size_t>(r) * ldx + k;
      lo[r] = fma(a, load(xr), lo[r]);
      hi[r] = fma(b, load(xr + 16), hi[r]);
    }
  }
  for (int r = 0; r < R; ++r) y[r] = sum(add(lo[r], hi[r]));
}

template <class W, class T>
void matmul_float_as(const Matrix& w, int begin, int end, const float* x, int ldx, int n_rows,
                     float* y, int ldy, bool accumulate) {
  constexpr int kRows = kMaxTileRows < 4 ? 4 : kMaxTileRows;
  for (int out = begin; out < end; ++out) {
    const W row{reinterpret_cast<const T*>(w.data) + static_cast<size_t>(out) * w.n_in};
    for (int r = 0; r < n_rows; r += kRows) {
      const int n = n_rows - r < kRows ? n_rows - r : kRows;
      const float* xr = x + static_cast<size_t>(r) * ldx;
      float sums[kRows];
      if (n == kRows) {
        dot_rows<kRows>(row, w.n_in, xr, ldx, sums);
      } else {
        for (int i = 0; i < n; ++i) {
          dot_rows<1>(row, w.n_in, xr + static_cast<size_t>(i) * ldx, ldx, sums + i);
        }
      }
      for (int i = 0; i < n; ++i) {
        float& target = y[static_cast<size_t>(r + i) * ldy + out - begin];
        target = accumulate ? target + sums[i] : sums[i];
      }
    }
  }
}

void matmul_float(const Matrix& w, int begin, int end, const float* x, int ldx, int n_rows,
                  float* y, int ldy, bool accumulate) {
  if (w.type == DType::kF32) {
    matmul_float_as<WeightsF32, float>(w, begin, end, x, ldx, n_rows, y, ldy, accumulate);
  } else if (w.type == DType::kF16) {
    matmul_float_as<WeightsF16, uint16_t>(w, begin, end, x, ldx, n_rows, y, ldy, accumulate);
  } else {
    matmul_float_as<WeightsBF16, uint16_t>(w, begin, end, x, ldx, n_rows, y, ldy, accumulate);
  }
}

void rotate(float* x, const float* cosine, const float* sine, bool neighbours, int n) {
  const auto read = [](const float* p, int left) { return left < 16 ? load_n(p, left) : load(p); };
  const auto write = [](float* p, V v, int left) { left < 16 ? store_n(p, v, left) : store(p, v); };
  if (neighbours) {
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

void silu_mul(float* gate, const float* up, int n) {
  const auto silu = [](V g) { return div(g, add(set1(1.0f), exp(sub(zero(), g)))); };
  int i = 0;
  for (; i + 16 <= n; i += 16) store(gate + i, mul(silu(load(gate + i)), load(up + i)));
  const int left = n - i;
  if (left > 0) store_n(gate + i, mul(silu(load_n(gate + i, left)), load_n(up + i, left)), left);
}

void store_kv(const float* k, const float* v, int head_dim, int pos, const KvHead& head) {
  uint16_t* column = head.k + static_cast<size_t>(pos / kKeyBlock) * head_dim * kKeyBlock;
  for (int d = 0; d < head_dim; d += 16) {
    const int n = head_dim - d < 16 ? head_dim - d : 16;
    uint16_t half[16];
    store_f16(half, load_n(k + d, n));
    for (int i = 0; i < n; ++i) column[(d + i) * kKeyBlock + pos % kKeyBlock] = half[i];
    store_f16(head.v + static_cast<size_t>(pos) * head.v_stride + d, load_n(v + d, n));
  }
}

constexpr int kKeyVectors = kAttentionChunk / kKeyBlock;

// score[i][j] (16 positions each, lanes are positions) = q_i . k by ascending d, one fma a lane,
// for a chunk's key blocks [first, n), J at once as long as there are J; k is at the first.
template <int Q, int J>
inline void chunk_scores(const uint16_t* k, int first, int n, const Query* queries, int head_dim,
                         V (*score)[kKeyVectors]) {
  const size_t block = static_cast<size_t>(head_dim) * kKeyBlock;
  for (; first + J <= n; first += J, k += J * block) {
    V acc[Q][J];
    for (int i = 0; i < Q; ++i) {
      for (int j = 0; j < J; ++j) acc[i][j] = zero();
    }
    for (int d = 0; d < head_dim; ++d) {
      V kd[J];
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) {
        kd[j] = load_f16(k + j * block + static_cast<size_t>(d) * kKeyBlock);
      }
#pragma GCC unroll 4
      for (int i = 0; i < Q; ++i) {
        const V qd = set1(queries[i].q[d]);
#pragma GCC unroll 4
        for (int j = 0; j < J; ++j) acc[i][j] = fma(kd[j], qd, acc[i][j]);
      }
    }
    for (int i = 0; i < Q; ++i) {
      for (int j = 0; j < J; ++j) score[i][first + j] = acc[i][j];
    }
  }
  if constexpr (J > 1) {
    if (first < n) chunk_scores<Q, J - 1>(k, first, n, queries, head_dim, score);
  }
}

// out_i = old_scale_i out_i + new_scale_i sum_j weight[i][j] v_j over a chunk's keys, ascending, in
// D times 16 dimensions from d on. The first `least` of the `most` keys count for every query.
template <int Q, int D>
inline void add_values(const KvHead& head, int begin, int d, const int* n_keys, int least, int most,
                       const float (*weight)[kAttentionChunk], const float* old_scale,
                       const float* new_scale, float* scratch) {
  V out[Q][D];
  for (int i = 0; i < Q; ++i) {
    for (int e = 0; e < D; ++e) out[i][e] = zero();
  }
  const uint16_t* v = head.v + static_cast<size_t>(begin) * head.v_stride + d;
  for (int j = 0; j < least; ++j, v += head.v_stride) {
#pragma GCC unroll 8
    for (int e = 0; e < D; ++e) {
      const V vj = load_f16(v + 16 * e);
#pragma GCC unroll 4
      for (int i = 0; i < Q; ++i) out[i][e] = fma(vj, set1(weight[i][j]), out[i][e]);
    }
  }
  for (int j = least; j < most; ++j, v += head.v_stride) {
    for (int e = 0; e < D; ++e) {
      const V vj = load_f16(v + 16 * e);
      for (int i = 0; i < Q; ++i) {
        if (j < n_keys[i]) out[i][e] = fma(vj, set1(weight[i][j]), out[i][e]);
      }
    }
  }
  for (int i = 0; i < Q; ++i) {
    float* sum_so_far = scratch + static_cast<size_t>(i) * (head.v_stride + 2) + d;
    for (int e = 0; e < D; ++e, sum_so_far += 16) {
      const V rescaled = mul(load(sum_so_far), set1(old_scale[i]));
      store(sum_so_far, fma(out[i][e], set1(new_scale[i]), rescaled));
    }
  }
}

// One chunk of one K/V head for Q queries. A query's result so far is its row of scratch:
// out (v_stride), then the largest score m and the sum l of exp(score - m).
template <int Q>
inline void attend_chunk(const KvHead& head, const Query* queries, int chunk, int head_dim,
                         float scale, float* scratch) {
  // As many key blocks or dimensions at once as sums fit in registers, four vectors at most: one
  // sum alone waits for each of its fmas.
  constexpr int kAtOnce = kAttentionSums / Q < 4 ? kAttentionSums / Q : 4;
  const int begin = chunk * kAttentionChunk;
  int n_keys[Q], least = kAttentionChunk, most = 0;
  for (int i = 0; i < Q; ++i) {
    const int n = queries[i].pos + 1 - begin;
    n_keys[i] = n < kAttentionChunk ? n : kAttentionChunk;
    most = n_keys[i] > most ? n_keys[i] : most;
    least = n_keys[i] < least ? n_keys[i] : least;
  }
  const uint16_t* k = head.k + static_cast<size_t>(begin) * head_dim;
  V score[Q][kKeyVectors];
  const int blocks = (most + kKeyBlock - 1) / kKeyBlock;
  chunk_scores<Q, kAtOnce>(k, 0, blocks, queries, head_dim, score);
  float weight[Q][kAttentionChunk], chunk_max[Q], chunk_sum[Q];
  for (int i = 0; i < Q; ++i) {
    // Masked keys are skipped: their scores come from memory that may hold anything.
    V largest = set1(-__builtin_inff());
    for (int j = 0; j < blocks; ++j) {
      const int left = n_keys[i] - 16 * j;
      V s = mul(score[i][j], set1(scale));
      if (left < 16) {
        s = select(less(lanes(), set1(static_cast<float>(left))), s, set1(-__builtin_inff()));
      }
      score[i][j] = s;
      largest = max(s, largest);
    }
    chunk_max[i] = max_lane(largest);
    V total = zero();
    for (int j = 0; j < blocks; ++j) {
      const V p = exp<true>(sub(score[i][j], set1(chunk_max[i])));
      store(weight[i] + 16 * j, p);
      total = add(total, p);
    }
    chunk_sum[i] = sum(total);
  }
  // Combine in chunk order; whether a row rescales is that row's own affair.
  const auto state = [&](int i) {
    return scratch + static_cast<size_t>(i) * (head.v_stride + 2) + head.v_stride;
  };
  static_assert(2 * Q <= 16);
  float largest[Q], scales[16] = {};  // the old ones, then the new ones
  for (int i = 0; i < Q; ++i) {
    const float before = state(i)[0];
    largest[i] = before > chunk_max[i] ? before : chunk_max[i];
    scales[i] = before - largest[i];
    scales[Q + i] = chunk_max[i] - largest[i];
  }
  store(scales, exp<true>(load(scales)));
  const float *old_scale = scales, *new_scale = scales + Q;
  for (int i = 0; i < Q; ++i) {
    float* so_far = state(i);
    so_far[0] = largest[i];
    so_far[1] = __builtin_fmaf(chunk_sum[i], new_scale[i], so_far[1] * old_scale[i]);
  }
  int d = 0;
  for (; d + 16 * kAtOnce <= head.v_stride; d += 16 * kAtOnce) {
    add_values<Q, kAtOnce>(head, begin, d, n_keys, least, most, weight, old_scale, new_scale,
                           scratch);
  }
  for (; d < head.v_stride; d += 16) {
    add_values<Q, 1>(head, begin, d, n_keys, least, most, weight, old_scale, new_scale, scratch);
  }
}

void attention(const KvHead& head, const Query* queries, int n_queries, int head_dim, float scale,
               float* scratch) {
  const size_t stride = static_cast<size_t>(head.v_stride) + 2;
  int last = 0;
  for (int i = 0; i < n_queries; ++i) {
    float* state = scratch + i * stride;
    __builtin_memset(state, 0, stride * sizeof(float));
    state[head.v_stride] = -__builtin_inff();
    last = queries[i].pos > last ? queries[i].pos : last;
  }
  for (int chunk = 0; chunk <= last / kAttentionChunk; ++chunk) {
    const int begin = chunk * kAttentionChunk;
    int i = 0;
    while (i < n_queries) {
      const auto sees = [&](int n) {  // the next n queries all reach into this chunk
        for (int j = i; j < i + n; ++j) {
          if (j >= n_queries || queries[j].pos < begin) return false;
        }
        return true;
      };
      float* state = scratch + i * stride;
      if (sees(4)) {
        attend_chunk<4>(head, queries + i, chunk, head_dim, scale, state);
        i += 4;
      } else if (sees(3)) {
        attend_chunk<3>(head, queries + i, chunk, head_dim, scale, state);
        i += 3;
      } else if (sees(2)) {
        attend_chunk<2>(head, queries + i, chunk, head_dim, scale, state);
        i += 2;
      } else {
        if (sees(1)) attend_chunk<1>(head, queries + i, chunk, head_dim, scale, state);
        i += 1;
      }
    }
  }
  for (int i = 0; i < n_queries; ++i) {
    const float* state = scratch + i * stride;
    const V inverse = set1(1.0f / state[head.v_stride + 1]);
    for (int d = 0; d < head_dim; d += 16) {
      const int n = head_dim - d < 16 ? head_dim - d : 16;
      store_n(queries[i].out + d, mul(load(state + d), inverse), n);
    }
  }
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

constexpr Kernels make_kernels(Isa isa) {
  return {isa,      rmsnorm,  quantize,  matmul_tiles, matmul_q8_0, matmul_float, rotate,
          silu_mul, store_kv, attention, softmax_peak, peak_chunks, join_peaks};
}

}  // namespace
}  // namespace specbound
