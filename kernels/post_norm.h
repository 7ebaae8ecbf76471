// What a block adds to the hidden rows, normed first (gemma2), in the CPU's bits: the matmul leaves
// its rows (projections.h, prefill_gemm.h), one block a row norms and adds them.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

// h += rmsnorm(y + bias) * weight.
struct AddNormed {
  const Pass* pass;     // 1 <= n_rows <= max_rows
  float* y;             // (n_rows, dim), 16-byte aligned; holds y + bias afterwards
  const float* bias;    // (dim) or null
  const float* weight;  // (dim)
  int dim;              // a multiple of 4
  float eps;
  float* h;      // H (slots, dim): rows pass->slot..
  int max_rows;  // 1..512
};
void add_normed(const AddNormed& p, Stream stream);

}  // namespace specbound::kernels
