// Rows of activations on their way into a matmul: embedded, normed, quantized. The bits are those
// of the CPU backend (engine/cpu: rmsnorm of kernels_impl.h, quantize of matmul_impl.h, read_row of
// linear.cpp).
//
// All of them, prefill's 512 rows as well as decode's 1..16, are one block a row: `max_rows` sizes
// the grid, pass->n_rows says how many rows there are; more than max_rows are not looked at.
#pragma once

#include "layouts.h"
#include "numerics/dtype.h"
#include "stream.h"

namespace specbound::kernels {

// out = quantize(rmsnorm(h) * weight).
struct NormQuantize {
  const Pass* pass;     // 1 <= n_rows <= max_rows
  const float* h;       // H (slots, dim), 16-byte aligned: rows pass->slot..
  const float* weight;  // (dim), 16-byte aligned
  float eps;
  RowsI8 out;    // (panels_of(n_rows)) panels; out.n_in = dim, q and d 16-byte aligned; rows from
                 // n_rows to the end of the last panel become zero
  int max_rows;  // 1..512
  bool last_row = false;  // only that of the pass, as row 0: for an exit check. max_rows is 1
  bool overlaps = false;  // with the kernel before it, which is one of the same pass (launch.cuh)
};
void norm_quantize(const NormQuantize& p, Stream stream);

// out = rmsnorm(h) * weight, or h as it is.
struct NormFloats {
  const Pass* pass;     // 1 <= n_rows <= max_rows
  const float* h;       // H (slots, dim), 16-byte aligned: rows pass->slot..
  const float* weight;  // (dim), or null: no norm
  int dim;              // a multiple of 4
  float eps;
  float* out;             // (n_rows, ld)
  int max_rows;           // 1..512
  bool last_row = false;  // only that of the pass, as row 0; max_rows is 1
  int ld = 0;             // at least dim; 0: dim
};
void norm_floats(const NormFloats& p, Stream stream);

// out = quantize(x).
struct QuantizeRows {
  const Pass* pass;  // 1 <= n_rows <= max_rows
  const float* x;    // (n_rows, ld), 16-byte aligned
  int ld;            // a multiple of 4, at least out.n_in
  RowsI8 out;        // as above
  int max_rows;      // 1..512
};
void quantize_rows(const QuantizeRows& p, Stream stream);

// H[pass->slot + row] = row tokens[row] of the embedding, as dequantize() has it, times scale.
struct EmbedRows {
  const Pass* pass;       // 1 <= n_rows <= max_rows
  const int32_t* tokens;  // (n_rows), each a row of the table
  DType type;             // of the table: one that runs_as() something, dim in whole blocks
  const void* table;      // (vocab_size, dim) as a GGUF file holds it, 4-byte aligned
  int dim;
  float* h;      // H (slots, dim)
  int max_rows;  // 1..512
  float scale = 1;
};
void embed_rows(const EmbedRows& p, Stream stream);

}  // namespace specbound::kernels
