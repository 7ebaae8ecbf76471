// A block norms a row and adds it.
#include "post_norm.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "row_norm.cuh"

namespace specbound::kernels {
namespace {

// Four blocks a multiprocessor: with fewer to plan for, ptxas unrolls into registers it lacks.
__global__ void __launch_bounds__(kRowThreads, 4) add_normed_kernel(AddNormed p) {
  const int row = static_cast<int>(blockIdx.x);
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, false);
  if (row >= rows.n) return;
  const int thread = static_cast<int>(threadIdx.x);
  float* y = p.y + static_cast<size_t>(row) * p.dim;
  float* h = p.h + static_cast<size_t>(rows.first + row) * p.dim;
  if (p.bias) {
    for (int k = thread; k < p.dim; k += kRowThreads) y[k] = y[k] + p.bias[k];
    __syncthreads();
  }
  const float scale = inverse_rms(y, p.dim, p.eps);
  for (int k = thread; k < p.dim; k += kRowThreads) {
    h[k] = h[k] + (y[k] * scale) * p.weight[k];
  }
}

}  // namespace

void add_normed(const AddNormed& p, Stream stream) {
  SB_CHECK(p.pass != nullptr && p.max_rows >= 1 && p.max_rows <= kMaxPrefillRows);
  SB_CHECK(p.dim >= 4 && p.dim % 4 == 0 && aligned(p.y, 16));
  SB_CHECK(aligned(p.weight, 4) && aligned(p.h, 4));
  launch(add_normed_kernel, "add_normed",
         {{static_cast<unsigned>(p.max_rows)}, kRowThreads, kNormBytes}, stream, p);
}

}  // namespace specbound::kernels
