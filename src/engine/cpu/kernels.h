// The CPU kernels as a table, one per instruction set. Their sources are one text (kernels_impl.h)
// compiled over sets of vector operations, so all instruction sets give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kv_format.h"
#include "engine/cpu/tiles.h"
#include "model/weights.h"

namespace specbound {

// A query: one head of one row.
struct Query {
  const float* q;  // (head_dim)
  float* out;      // (head_dim)
  int pos;         // attends to positions first..pos
  int first = 0;
  // Of a row in a tree (engine/row_paths.h): the key of position root + d lies at place root +
  // path[d] of the cache, path ascending. nullptr: every key lies at its position.
  const uint8_t* path = nullptr;
  int root = 0;
};

// Exit checks take the softmax of z by chunks of this many, whoever computed them.
inline constexpr int kPeakChunk = 64;

// Of one chunk of z: the largest (-inf: nothing but NaN and -inf) and, in 16 virtual lanes, the sum
// of exp((z - highest) / temperature), 0 where `highest` is infinite.
struct PeakChunk {
  float sum[16];
  float highest;
};

struct Kernels {
  Isa isa;
  // y (n) = x / rms(x) * w.
  void (*rmsnorm)(const float* x, const float* w, float eps, int n, float* y);
  // Blocks [begin, end) of row `row` of `out` = quantized x, by int8_formula.h.
  void (*quantize)(const float* x, int row, int begin, int end, const QuantRows& out);
  // y (rows, ldy), outputs [0, n_out): = or += W x.
  void (*matmul_tiles)(const TileMatrix& w, const QuantRows& x, float* y, int ldy, bool accumulate);
  // The same bits from Q8_0 blocks in place, outputs [begin, end); y begins with `begin`.
  void (*matmul_q8_0)(const Matrix& w, int begin, int end, const QuantRows& x, float* y, int ldy,
                      bool accumulate);
  // F32, F16 or BF16 weights in place: 32 virtual lanes (k mod 32) of fma, one fixed tree. x is
  // (rows, ldx), readable and zero up to n_in rounded up to 32.
  void (*matmul_float)(const Matrix& w, int begin, int end, const float* x, int ldx, int n_rows,
                       float* y, int ldy, bool accumulate);
  // Rotates the pairs of a head x (n) in place: interleaved, or elements n/2 apart. `cosine` and
  // `sine` (n) hold each pair's angle at both of its places, the sine negative at the first.
  void (*rotate)(float* x, const float* cosine, const float* sine, bool interleaved, int n);
  // gate (n) = silu(gate) * up; gelu(gate) * up.
  void (*silu_mul)(float* gate, const float* up, int n);
  void (*gelu_mul)(float* gate, const float* up, int n);
  // x (n) = cap * tanh(x / cap), cap > 0.
  void (*softcap)(float* x, float cap, int n);
  // One position of a K/V head: k, v (head_dim) rounded to its type.
  void (*store_kv)(const float* k, const float* v, int head_dim, int pos, const KvHead& head);
  // All queries of one K/V head, one at least: softmax(softcap(scale q K)) V; cap 0 for none.
  // scratch holds (n_queries, v_stride + 2) floats.
  void (*attention)(const KvHead& head, const Query* queries, int n_queries, int head_dim,
                    float scale, float cap, float* scratch);
  // The same in two steps. What each of the chunks [from, to) of keys gives, alone: results (to -
  // from, n_queries, v_stride + 2);
  void (*attend_chunks)(const KvHead& head, const Query* queries, int n_queries, int head_dim,
                        float scale, float cap, int from, int to, float* results);
  // then those of a query, which has keys in one of them, ascending and `stride` floats apart.
  // scratch holds (v_stride + 2) floats, out (head_dim).
  void (*join_chunks)(const float* results, size_t stride, int n_chunks, int v_stride, int head_dim,
                      float* scratch, float* out);
  // max softmax(z / temperature) of z (n); NaN counts as -inf, a +inf takes all, -inf alone is 0.
  float (*softmax_peak)(const float* z, int n, float temperature);
  // The same in two steps: chunks of z (n), the last one may be short,
  void (*peak_chunks)(const float* z, int n, float temperature, PeakChunk* chunks);
  // then all chunks of a row z (n). *place: of the largest, the lowest of equals.
  float (*join_peaks)(const PeakChunk* chunks, int n_chunks, float temperature, const float* z,
                      int n, int* place);
  // Reads x (n), n a multiple of 128, by the loads that weights are read with, and returns the sum:
  // for measuring how fast memory can be read.
  float (*read_all)(const float* x, size_t n);
};

const Kernels& kernels_for(Isa isa);

extern const Kernels kKernelsPortable;
extern const Kernels kKernelsAvx2;     // x86-64 builds only
extern const Kernels kKernelsAvxVnni;  // x86-64 builds only
extern const Kernels kKernelsAvx512;   // x86-64 builds only

}  // namespace specbound
