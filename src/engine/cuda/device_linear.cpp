#include "engine/cuda/device_linear.h"

#include "kernels/prefill_gemm.h"
#include "kernels/projections_f16.h"
#include "kernels/rows.h"

namespace specbound {

PreparedRows norm_rows(const DeviceRows& to, bool int8, const kernels::Pass* pass, int max_rows,
                       const float* h, const float* weight, int dim, float eps,
                       kernels::Stream stream, bool overlaps) {
  const PreparedRows rows = to.rows(dim, int8);
  const bool last_row = max_rows == kLastRow;
  if (last_row) max_rows = 1;
  if (int8) {
    kernels::norm_quantize({pass, h, weight, eps, rows.i8, max_rows, last_row, overlaps}, stream);
  } else {
    kernels::norm_f16({pass, h, weight, dim, eps, rows.f16, max_rows, last_row, overlaps}, stream);
  }
  return rows;
}

PreparedRows prepare_rows(const DeviceRows& to, bool int8, const kernels::Pass* pass, int max_rows,
                          const float* x, int ld, int n, kernels::Stream stream) {
  const PreparedRows rows = to.rows(n, int8);
  if (int8) {
    kernels::quantize_rows({pass, x, ld, rows.i8, max_rows}, stream);
  } else {
    kernels::scale_rows_f16({pass, x, ld, n, rows.f16, max_rows}, stream);
  }
  return rows;
}

void project_rows(const kernels::Pass* pass, const PreparedRows& x,
                  std::initializer_list<const DeviceMatrix*> parts, float* y, int ld,
                  kernels::Stream stream, int max_rows) {
  const auto launch = [&](auto kernel, auto p, const auto& rows, auto tiles) {
    p.pass = pass;
    p.x = rows;
    for (const DeviceMatrix* part : parts) p.parts[p.n_parts++] = (part->*tiles).value();
    p.y = y;
    p.ld = ld;
    if constexpr (requires { p.max_rows; }) p.max_rows = max_rows;
    kernel(p, stream);
  };
  if (x.int8) {
    launch(kernels::project, kernels::Project{}, x.i8, &DeviceMatrix::i8);
  } else {
    launch(kernels::project_f16, kernels::ProjectF16{}, x.f16, &DeviceMatrix::f16);
  }
}

void project_normed_row(const kernels::Pass* pass, const kernels::NormedRow& x,
                        std::initializer_list<const DeviceMatrix*> parts, float* y, int ld,
                        kernels::Stream stream, bool overlaps) {
  kernels::ProjectNormed p{};
  p.pass = pass;
  p.x = x;
  for (const DeviceMatrix* part : parts) p.parts[p.n_parts++] = part->i8.value();
  p.y = y;
  p.ld = ld;
  p.overlaps = overlaps;
  kernels::project_normed(p, stream);
}

void project_residual_rows(const kernels::Pass* pass, const PreparedRows& x, const DeviceMatrix& w,
                           const float* bias, float* h, kernels::Stream stream, int max_rows) {
  if (x.int8) {
    kernels::project_residual({pass, x.i8, w.i8.value(), bias, h, max_rows}, stream);
  } else {
    kernels::project_residual_f16({pass, x.f16, w.f16.value(), bias, h}, stream);
  }
}

void prefill_matmul(const kernels::Pass* pass, int max_rows, const PreparedRows& x,
                    const DeviceMatrix& w, const float* bias, bool add, float* y, int ldy,
                    kernels::Stream stream) {
  if (x.int8) {
    kernels::prefill_matmul_i8({pass, max_rows, w.i8.value(), x.i8, bias, add, y, ldy}, stream);
  } else {
    kernels::prefill_matmul_f16({pass, max_rows, w.f16.value(), x.f16, bias, add, y, ldy}, stream);
  }
}

}  // namespace specbound
