// The forward pass on a GPU as straight lines of launches, the mirror of CpuBackend::forward: the
// same named steps in the same order. docs/architecture.md 8.
#pragma once

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_kv.h"
#include "engine/cuda/device_weights.h"
#include "engine/cuda/prefill_matmuls.h"
#include "engine/cuda/workspace.h"
#include "kernels/attention.h"
#include "kernels/layouts.h"
#include "model/config.h"

namespace specbound {

// What a pass is about, in device memory: one graph serves every round.
struct PassState {
  kernels::Pass pass;
  int32_t tokens[kMaxRows];  // of the pass's rows
  kernels::RowTree tree;     // read where one of them is not straight
};

// The same of rows of several sequences.
struct SideBySideState {
  kernels::Pass pass;
  int32_t tokens[kMaxRows];
  kernels::RowSequences rows;
};

// The same of a chunk of a prompt.
struct ChunkState {
  kernels::Pass pass;
  kernels::Pass parts[kPrefillChunk / kMaxRows];  // its rows, 16 at a time
  int32_t tokens[kPrefillChunk];
};

// A decode pass: what it is about, in device memory, and what its launches are made for.
struct DecodePass {
  const kernels::Pass* pass;
  // Null: all rows are straight, or of other texts.
  const kernels::RowTree* tree = nullptr;
  int sequence = 0;                                  // of all rows,
  const kernels::RowSequences* sequences = nullptr;  // or null
  // What q, k and v multiply; null: the rows, normed.
  const PreparedRows* attn_rows = nullptr;
  int max_rows = kMaxRows;  // that there are
  int context = 0;      // attention's grid is made for so many positions: no row may be past them
  bool begins = false;  // no kernel of the pass comes before its layers
};

class DeviceForward {
 public:
  // Everything must outlive it.
  DeviceForward(Device& device, const ModelConfig& config, const DeviceWeights& weights,
                Workspace& workspace, const DeviceKv& kv, const DeviceRope& rope)
      : device_(device),
        config_(config),
        weights_(weights),
        work_(workspace),
        kv_(kv),
        rope_(rope) {}

  // h (slots, dim): rows pass->slot.. become the embeddings of `tokens` (n_rows).
  void embed(const kernels::Pass* pass, const int32_t* tokens, int max_rows, float* h) const;
  // H[pass->slot..] through layers from..to.
  void decode(const DecodePass& rows, int from, int to) const;
  // The rows of workspace.prefill_h, of `sequence`, multiplied by `x`, through layers from..to;
  // `chunk`, in device memory, says that they are `rows`. With kv_only the model's last layer stops
  // at its K/V: no one reads the rows after it.
  void prefill(const ChunkState& chunk, const kernels::Pass& rows, int sequence, int from, int to,
               bool kv_only, PrefillMatmuls& x) const;

 private:
  kernels::Heads heads(const DeviceLayer& w, int layer, int sequence) const;
  kernels::Attend attention(const kernels::Pass* pass, const kernels::Heads& heads,
                            int context) const;
  void attend_in_parts(const ChunkState& chunk, const kernels::Pass& rows,
                       const kernels::Heads& heads) const;
  void add_normed(const kernels::Pass* pass, int max_rows, const float* bias, const float* norm,
                  float* h) const;

  Device& device_;
  const ModelConfig& config_;
  const DeviceWeights& weights_;
  Workspace& work_;
  const DeviceKv& kv_;
  const DeviceRope& rope_;
};

}  // namespace specbound
