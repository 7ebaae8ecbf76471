#include "engine/cpu/cpu_plan.h"

#include <algorithm>
#include <span>

#include "engine/cpu/cpu_topology.h"
#include "engine/cpu/kv_cache.h"
#include "engine/pages.h"
#include "error.h"

namespace specbound {

int checked_context(int asked, const ModelConfig& config) {
  constexpr int kDefault = 4096, kMost = 1 << 24;
  if (asked < 0 || asked > kMost) {
    throw Error(ErrorCode::kUsage,
                format("context (-c): expected 1 to %d tokens, or 0 for the model's own; found %d",
                       kMost, asked));
  }
  return asked ? asked : std::min(config.max_seq_len, kDefault);
}

int checked_threads(int asked) {
  if (asked < 0 || asked > kMaxThreads) {
    throw Error(ErrorCode::kUsage,
                format("threads (-t): expected 1 to %d, or 0 for one per core; found %d",
                       kMaxThreads, asked));
  }
  return asked ? asked : std::min(usable_cores(), kMaxThreads);
}

bool heads_divide(const ModelConfig& config, int threads) {
  return config.n_kv_heads % threads == 0 && config.head_dim % kTileOutputs == 0;
}

int layers_elsewhere(const CpuOptions& options) {
  return options.first_layers ? options.first_layers->n_layers() : 0;
}

std::vector<PartitionedMatrix> partitioned_matrices(const Weights& weights, int without,
                                                    int head_unit) {
  std::vector<PartitionedMatrix> matrices;
  for (const LayerWeights& w : std::span(weights.layers).subspan(without)) {
    matrices.insert(matrices.end(),
                    {{w.wq, head_unit}, {w.wk, head_unit}, {w.wv, head_unit}, {w.wo}});
    if (w.router.n_out > 0) matrices.push_back({w.router});
    if (w.w_gate.n_out == 0) continue;  // an adapter's block: attention alone
    for (int e = 0; e < w.n_experts(); ++e) {
      matrices.insert(matrices.end(), {{w.expert(w.w_gate, e), kQuantBlock},
                                       {w.expert(w.w_up, e), kQuantBlock},
                                       {w.expert(w.w_down, e)}});
    }
  }
  matrices.push_back({weights.lm_head});
  return matrices;
}

// Of rows under way those of experts, which may be as many as a prompt's rows times all experts.
size_t expert_rows_bytes(const ModelConfig& config) {
  const size_t rows = static_cast<size_t>(kPrefillChunk) * config.n_experts_used;
  constexpr size_t kFloatAndQuantized = 6;  // bytes of a value
  return rows * (static_cast<size_t>(config.dim) + config.ffn_dim) * kFloatAndQuantized;
}

CpuMemory memory_needed(const ModelConfig& config, const Weights& weights,
                        const CpuOptions& options) {
  const int without = layers_elsewhere(options);
  const int n_ctx = checked_context(options.n_ctx, config);
  return {KvCache::bytes_needed(config, n_ctx, without, options.kv),
          LinearStore::bytes_needed(partitioned_matrices(weights, without, kTileOutputs),
                                    options.repack),
          expert_rows_bytes(config)};
}

// Everything together, before any of it is taken.
int sequences_in_memory(const ModelConfig& config, const Weights& weights,
                        const CpuOptions& options) {
  const CpuMemory needed = memory_needed(config, weights, options);
  require_memory(needed.total(), format("K/V cache %.1f MB, repacked weights %.1f MB",
                                        static_cast<double>(needed.kv) / 1e6,
                                        static_cast<double>(needed.tiles) / 1e6));
  if (layers_elsewhere(options) > 0) return 1;  // those layers keep one text
  const size_t free = memory_free(), left = free - std::min(free, needed.kv + needed.tiles);
  const size_t further = std::min<size_t>(options.n_sequences - 1, left / 2 / needed.kv);
  return 1 + static_cast<int>(further);
}

}  // namespace specbound
