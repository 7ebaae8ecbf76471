// y = W x for rows of a pass, INT8 or FP16: rows normed or taken as they are, prepared for the
// matmul that reads them, and multiplied. The counterpart of cpu/linear.h.
//
// `max_rows` sizes the grid and chooses the kernel, pass->n_rows says how many rows there are.
#pragma once

#include <initializer_list>

#include "engine/cuda/device_weights.h"
#include "engine/cuda/workspace.h"
#include "kernels/layouts.h"
#include "kernels/projections.h"

namespace specbound {

inline constexpr int kLastRow = 0;  // in place of max_rows: the pass's last row alone, as row 0

// norm(H[pass->slot..]) * weight; h (slots, dim). Decode and prefill rows go through the same
// kernel. `overlaps`: what was launched last belongs to the same pass.
PreparedRows norm_rows(const DeviceRows& to, bool int8, const kernels::Pass* pass, int max_rows,
                       const float* h, const float* weight, int dim, float eps,
                       kernels::Stream stream, bool overlaps = false);
// x (n_rows, ld), n values of each row.
PreparedRows prepare_rows(const DeviceRows& to, bool int8, const kernels::Pass* pass, int max_rows,
                          const float* x, int ld, int n, kernels::Stream stream);

// y (n_rows, ld) = (parts[0] x, parts[1] x, ...), side by side; 1..16 rows, max_rows at most, 1..3
// parts of the rows' type.
void project_rows(const kernels::Pass* pass, const PreparedRows& x,
                  std::initializer_list<const DeviceMatrix*> parts, float* y, int ld,
                  kernels::Stream stream, int max_rows);
// The same of norm(H[pass->slot]) * weight, for the row of a pass of one that INT8 weights read:
// norm_rows() and project_rows() in one launch.
void project_normed_row(const kernels::Pass* pass, const kernels::NormedRow& x,
                        std::initializer_list<const DeviceMatrix*> parts, float* y, int ld,
                        kernels::Stream stream, bool overlaps);
// h += W x + bias (null: none); rows as above.
void project_residual_rows(const kernels::Pass* pass, const PreparedRows& x, const DeviceMatrix& w,
                           const float* bias, float* h, kernels::Stream stream, int max_rows);
// y (n_rows, ldy) = W x, or y + W x with `add`, + bias (null: none); 1..512 rows.
void prefill_matmul(const kernels::Pass* pass, int max_rows, const PreparedRows& x,
                    const DeviceMatrix& w, const float* bias, bool add, float* y, int ldy,
                    kernels::Stream stream);

}  // namespace specbound
