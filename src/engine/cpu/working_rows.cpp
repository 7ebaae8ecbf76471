#include "engine/cpu/working_rows.h"

#include "engine/row_paths.h"

namespace specbound {

WorkingRows::WorkingRows(const ModelConfig& config, const Weights& weights, const CpuLayer& any,
                         int threads, bool own_heads, int rows)
    : q_dim_(config.q_dim()), kv_dim_(config.kv_dim()) {
  const char* what = "working rows";
  const auto n = static_cast<size_t>(rows);
  attended = RowBuffer(rows, config.q_dim());
  if (config.n_experts == 0) gate = RowBuffer(rows, config.ffn_dim);
  if (weights.layers[0].post_attn_norm) added = Pages<float>(n * config.dim, what);
  shared = RowBuffer(rows, config.dim);
  if (weights.attn_input) attn_input = RowBuffer(kMaxRows, weights.layers[0].wq.n_in);
  for (int t = 0; t < threads; ++t) {
    own.emplace_back(kMaxRows, round_up(config.dim, kQuantBlock));
    const size_t part = own_heads ? threads : 1;  // of the heads
    if (t == 0 || own_heads) {
      q_.emplace_back(n * config.q_dim() / part, what);
      k_.emplace_back(n * config.kv_dim() / part, what);
      v_.emplace_back(n * config.kv_dim() / part, what);
    }
    if (config.n_experts > 0 || config.ffn_dim == 0) continue;
    const Slice mine = any.w_gate.slice_of(t, threads);
    own_gate.emplace_back(n * (mine.end - mine.begin), what);
    own_up.emplace_back(n * (mine.end - mine.begin), what);
  }
}

WorkingRows::Heads WorkingRows::heads(int thread) {
  const int parts = static_cast<int>(q_.size());
  if (parts == 1) thread = 0;
  const int q = q_dim_ / parts, kv = kv_dim_ / parts;
  return {{q_[thread].data(), q, thread * q},
          {k_[thread].data(), kv, thread * kv},
          {v_[thread].data(), kv, thread * kv}};
}

}  // namespace specbound
