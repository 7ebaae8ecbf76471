// A thread caps a logit.
#include "softcap.h"

#include "float_formula.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) cap_logits_kernel(CapLogits p) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (i >= p.n || row >= p.pass->n_rows) return;
  float& z = p.z[static_cast<size_t>(row) * p.ld + i];
  z = softcap(z, p.cap);
}

}  // namespace

void cap_logits(const CapLogits& p, Stream stream) {
  SB_CHECK(p.pass != nullptr && p.z != nullptr && p.n >= 1 && p.ld >= p.n && p.cap > 0);
  SB_CHECK(p.max_rows >= 1 && p.max_rows <= kMaxDecodeRows);
  launch(
      cap_logits_kernel, "cap_logits",
      {{static_cast<unsigned>((p.n + kThreads - 1) / kThreads), static_cast<unsigned>(p.max_rows)},
       kThreads,
       0},
      stream, p);
}

}  // namespace specbound::kernels
