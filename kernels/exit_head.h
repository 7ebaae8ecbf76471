// Exit checks (docs/architecture.md 6): logits of one row and how sure they are. The bits are those
// of the CPU backend (engine/cpu/exit_checks.cpp; engine/cpu/kernels_impl.h: peak_chunks,
// join_peaks). A check ends in exit_logits and join_peaks, with a draw behind it in tell_decision;
// before them,
//   folded   norm_quantize(H[slot], ones), the last row of the pass -> x
//   full     the map (projections_f16.h), quantize_rows -> x; `w` is lm_head
//   chained  norm_quantize(H[slot], ones) -> the first half of u[slot], whose second half is the
//            state before the slot, quantized; project: [map; inner] u -> [y, c]; silu_quantize(c),
//            project_residual: y += outer c; quantize_rows(y) -> the second half of u[slot + 1],
//            which is x. The state before slot 0 is norm_quantize(H, output_norm).
//   medusa   the map of x and add_silu for each block, quantize_rows -> x; `w` is the place's own,
//            or lm_head. hydra: also project_residual, of the first block's residual
// All but the first take a Pass of one row in slot 0.
// A half of u (2 dim) begins at block dim/32 of its panel: q + dim * 8, d + dim / 4.
// Logits from elsewhere (FP16 weights) take cap_logits and peak_chunks instead of exit_logits.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

inline constexpr int kPeakChunk = 64;  // logits

constexpr int peak_chunks_of(int n) {
  return (n + kPeakChunk - 1) / kPeakChunk;
}

// Of one chunk of z: the largest (-inf: nothing but NaN and -inf) and, in 16 virtual lanes, the sum
// of exp((z - highest) / temperature), 0 where `highest` is infinite.
struct PeakChunk {
  float sum[16];
  float highest;
};

// What a check is asked, in device memory: one graph serves every layer and temperature.
struct ExitRule {
  float temperature;  // > 0
  float threshold;
  uint32_t number;  // of the check
};

// What it finds. The number is written last: a host that waits for it finds the rest too.
struct alignas(16) ExitDecision {
  float confidence;  // max softmax(z / temperature); a row of nothing but NaN and -inf has 0
  int32_t token;     // of the largest z, the first of equals
  uint32_t exits;    // confidence >= threshold
  uint32_t number;
};

// z = W x, capped, and its chunks, for the first row of x. A block computes a chunk.
struct ExitLogits {
  const ExitRule* rule;
  TilesI8 w;          // (n, n_in), n >= 1
  RowsI8 x;           // one row; n_in = w.n_in; q 16-byte, d 8-byte aligned
  float* z;           // (n)
  PeakChunk* peaks;   // (peak_chunks_of(n))
  float softcap = 0;  // of logits: cap * tanh(z / cap); 0: none
};
void exit_logits(const ExitLogits& p, Stream stream);

// The chunks of z.
struct PeakChunks {
  const ExitRule* rule;
  const float* z;  // (n)
  int n;           // >= 1
  PeakChunk* peaks;
};
void peak_chunks(const PeakChunks& p, Stream stream);

// The decision from all chunks of z.
struct JoinPeaks {
  const ExitRule* rule;
  const PeakChunk* peaks;
  const float* z;      // (n)
  const int32_t* ids;  // (n) tokens, or null: 0, 1, 2, ...
  int n;               // >= 1
  ExitDecision* decision;
  // Null, or the rows of what is drawn next: 1 where the row exits, else 0.
  int32_t* drawn_rows = nullptr;
};
void join_peaks(const JoinPeaks& p, Stream stream);

// *to = *from, for a host that waits for the number: after it finds what kernels before this one
// have left it.
struct TellDecision {
  const ExitDecision* from;  // on the device
  ExitDecision* to;
};
void tell_decision(const TellDecision& p, Stream stream);

// out = quantize(silu(x)): the inner part of a chained head.
struct SiluQuantize {
  const float* x;  // (out.n_in)
  RowsI8 out;      // one row, the others of its panel become zero; q 4-byte aligned
};
void silu_quantize(const SiluQuantize& p, Stream stream);

// y = silu(y + bias) + x, of one row: what a block of a medusa or hydra head makes of W x.
struct AddSilu {
  float* y;           // (n)
  const float* bias;  // (n)
  const float* x;     // (n), not y; or null: nothing is added
  int n;              // >= 1
};
void add_silu(const AddSilu& p, Stream stream);

}  // namespace specbound::kernels
