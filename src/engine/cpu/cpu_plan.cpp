#include "engine/cpu/cpu_plan.h"

#include <algorithm>

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
  return asked ? asked : usable_cores();
}

bool heads_divide(const ModelConfig& config, int threads) {
  return config.n_kv_heads % threads == 0 && config.head_dim % kTileOutputs == 0;
}

std::vector<PartitionedMatrix> partitioned_matrices(const Weights& weights, int head_unit) {
  std::vector<PartitionedMatrix> matrices;
  for (const LayerWeights& w : weights.layers) {
    matrices.insert(matrices.end(), {{w.wq, head_unit},
                                     {w.wk, head_unit},
                                     {w.wv, head_unit},
                                     {w.wo},
                                     {w.w_gate, kQuantBlock},
                                     {w.w_up, kQuantBlock},
                                     {w.w_down}});
  }
  matrices.push_back({weights.lm_head});
  return matrices;
}

// Everything together, before any of it is taken. The rows under way are small beside the rest.
int sequences_in_memory(const ModelConfig& config, const Weights& weights,
                        const CpuOptions& options) {
  const size_t kv = KvCache::bytes_needed(config, checked_context(options.n_ctx, config));
  const size_t tiles =
      LinearStore::bytes_needed(partitioned_matrices(weights, kTileOutputs), options.repack);
  require_memory(kv + tiles,
                 format("K/V cache %.1f MB, repacked weights %.1f MB",
                        static_cast<double>(kv) / 1e6, static_cast<double>(tiles) / 1e6));
  const size_t free = memory_free(), left = free - std::min(free, kv + tiles);
  const size_t further = std::min<size_t>(options.n_sequences - 1, left / 2 / kv);
  return 1 + static_cast<int>(further);
}

}  // namespace specbound
