// What the CPU engine makes of a model and its options before it runs: how its matrices are dealt
// to threads, and what there is memory for.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/linear.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

// Of CpuOptions. Throws Error(kUsage).
int checked_threads(int asked);
// Each thread can make whole heads, keys and values with the queries that attend to them.
bool heads_divide(const ModelConfig& config, int threads);
// The first layers that are not the CPU's (CpuOptions).
int layers_elsewhere(const CpuOptions& options);
// Of all layers but the first `without`, in the order that a pass reads them; a head is computed
// `head_unit` outputs together. What makes the next matmul's input makes whole blocks of it.
std::vector<PartitionedMatrix> partitioned_matrices(const Weights& weights, int without,
                                                    int head_unit);
// Bytes that a backend takes for one text, beside weights that stay where they lie. All other rows
// are small beside these.
struct CpuMemory {
  size_t kv = 0, tiles = 0;
  size_t expert_rows = 0;  // on their way through experts
  size_t total() const { return kv + tiles + expert_rows; }
};
CpuMemory memory_needed(const ModelConfig& config, const Weights& weights,
                        const CpuOptions& options);
// How many texts there is memory for beside the model, of options.n_sequences: further ones take no
// more than half of what one leaves. Throws Error(kLimit) where there is none for one.
int sequences_in_memory(const ModelConfig& config, const Weights& weights,
                        const CpuOptions& options);

}  // namespace specbound
