// Memory for what the steps of a pass hand on on the CPU: prepared rows, heads, activations.
#pragma once

#include <vector>

#include "engine/cpu/cpu_layer.h"
#include "engine/cpu/linear.h"
#include "engine/pages.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

struct WorkingRows {
  WorkingRows() = default;  // of no pass
  // For passes of up to `rows` rows through layers that are dealt to threads as `any` is.
  // `own_heads`: each thread makes whole heads. Throws Error(kLimit).
  WorkingRows(const ModelConfig& config, const Weights& weights, const CpuLayer& any, int threads,
              bool own_heads, int rows);

  // Where a thread finds the heads that it works on.
  struct Heads {
    Outputs q, k, v;
  };
  Heads heads(int thread);

  RowBuffer attended;          // (rows, q_dim)
  RowBuffer gate;              // (rows, ffn_dim), where a row has one feed-forward
  Pages<float> added;          // (rows, dim): what is normed on its way to h, if any is
  RowBuffer shared;            // (rows, dim) prepared rows, by all threads together
  RowBuffer attn_input;        // those of Weights::attn_input
  std::vector<RowBuffer> own;  // [thread] prepared rows, by each thread for itself
  // (rows, outputs) of one thread. Nobody else's lie near: where threads took turns along a row,
  // each core's prefetcher went on into lines that the other was about to write, and that cost more
  // than the arithmetic.
  std::vector<Pages<float>> own_gate, own_up;

 private:
  int q_dim_ = 0, kv_dim_ = 0;
  std::vector<Pages<float>> q_, k_, v_;  // likewise, or [0] of all threads
};

}  // namespace specbound
