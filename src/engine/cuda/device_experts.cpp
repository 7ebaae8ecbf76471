#include "engine/cuda/device_experts.h"

#include "engine/cuda/device_linear.h"
#include "kernels/experts.h"
#include "kernels/rows.h"

namespace specbound {

void run_experts(Device& device, const ModelConfig& config, const Workspace& work,
                 const kernels::Pass* pass, int max_rows, const DeviceLayer& w, float* h) {
  const kernels::Stream stream = device.stream();
  const int dim = config.dim, n = config.n_experts;
  const ExpertWorkspace& own = work.experts;
  const kernels::ExpertRoutes routes{n, config.n_experts_used, own.scores.data(), own.shares.data(),
                                     own.groups.data()};

  // x = norm(h); scores = router x
  kernels::RowsI8 x;
  if (w.router.table) {
    float* normed = work.qkv.data();
    kernels::norm_floats({pass, h, w.ffn_norm, dim, config.norm_eps, normed, max_rows}, stream);
    kernels::score_experts({pass, normed, w.router.type, w.router.table, dim, routes, max_rows},
                           stream);
    x = prepare_rows(work.normed, true, pass, max_rows, normed, dim, dim, stream).i8;
  } else {
    const PreparedRows rows =
        norm_rows(work.normed, true, pass, max_rows, h, w.ffn_norm, dim, config.norm_eps, stream);
    if (max_rows <= kernels::kMaxDecodeRows) {
      project_rows(pass, rows, {&w.router.int8}, routes.scores, n, stream, max_rows);
    } else {
      prefill_matmul(pass, max_rows, rows, w.router.int8, nullptr, false, routes.scores, n, stream);
    }
    x = rows.i8;
  }

  // x, once for each of a row's experts, side by side by expert
  kernels::route_experts({pass, routes, max_rows}, stream);
  const kernels::RowsI8 in{dim, own.in_q.data(), own.in_d.data()};
  kernels::gather_expert_rows({pass, routes, x, in, max_rows}, stream);

  // act = activation(Wg x) * (Wu x); h += weight * (Wd act), by ascending expert
  const kernels::RowsI8 act{config.ffn_dim, own.act_q.data(), own.act_d.data()};
  kernels::expert_gate_up({routes, in, stacked_tiles(*w.w_gate.i8, n), stacked_tiles(*w.w_up.i8, n),
                           act, config.activation, max_rows},
                          stream);
  kernels::expert_down({routes, act, stacked_tiles(*w.w_down.i8, n), own.out.data(), max_rows},
                       stream);
  kernels::add_experts({pass, routes, own.out.data(), dim, h, max_rows}, stream);
}

}  // namespace specbound
