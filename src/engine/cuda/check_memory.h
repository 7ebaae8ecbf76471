// What exit heads take on a GPU: their weights, and what checks work with. Free of kernels: known
// before there is a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cuda/device.h"
#include "engine/cuda/workspace.h"
#include "engine/kv_type.h"
#include "engine/row_paths.h"
#include "kernels/exit_head.h"
#include "kernels/layouts.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

struct HeadLayout {
  // Checks read the first `shortlist` tokens of the file's list.
  HeadLayout(const ExitHeads& heads, int shortlist, const ModelConfig& config);

  // The part of a folded matrix that is read.
  Matrix part(Matrix folded) const;
  // Some head multiplies rows of lm_head.
  bool listed() const { return chained || layer_says_list; }
  // Bytes of weights but draft layers'. `lm_head_int8`: the form that the model's lm_head has on
  // the device; where it has 4 bits, its rows take less than is counted.
  size_t weight_bytes(const ExitHeads& heads, bool lm_head_int8) const;

  int dim, shortlist;
  bool chained = false;
  std::vector<int> layers;       // indices of draft layers that have a token to say
  bool layer_says_list = false;  // one of them, those of the file's list
  int inner = 0;                 // of chained heads, the widest
  int path = 0;                  // rows that a medusa (1) or hydra head reads at most; 0: none
  int logits = 0;                // of a check at most
};

// All that is taken while `heads` are set, for texts of up to n_ctx tokens; a draft layer keeps K
// and V as `kv`.
size_t device_heads_bytes(const ExitHeads& heads, int shortlist, const ModelConfig& config,
                          bool lm_head_int8, int n_ctx, KvType kv);

// What a check is about, in device memory: one graph serves every row and temperature.
struct CheckState {
  kernels::Pass row;    // of H
  kernels::Pass alone;  // the same in slot 0, where rows of checks lie
  kernels::ExitRule rule;
  kernels::Pass drawn;       // `alone` of a row that exits, of no rows else
  kernels::Pass path;        // of a hydra head: the rows of `path` behind the state,
  int32_t tokens[kMaxRows];  // embeddings of these
};

struct CheckMemory {
  CheckMemory(Device& device, const HeadLayout& layout);
  static size_t bytes_needed(const HeadLayout& layout);

  // The first (0) or second (1) half of u[slot] (2 dim): the row's own, the state before it.
  kernels::RowsI8 half(int slot, int second) const;
  kernels::RowsI8 both(int slot) const;  // of u[slot]

  const int dim;
  DeviceMemory<CheckState> state;
  DeviceRows row;             // one, as a matmul takes it
  DeviceMemory<float> ones;   // (dim): norm without a weight
  DeviceMemory<int32_t> ids;  // (shortlist)
  DeviceMemory<int8_t> u_q;   // (kMaxRows + 1, 2 dim) in panels, for chained heads
  DeviceMemory<float> u_d;
  DeviceMemory<float> path;          // (path, dim): the state before the root, what follows it
  DeviceMemory<float> y;             // (dim + inner), of a path (2, dim)
  DeviceMemory<float> z, penalized;  // (logits), to whole quadruples
  DeviceMemory<kernels::PeakChunk> peaks;
  DeviceMemory<kernels::ExitDecision> decision;  // until what is drawn by it is there
};

}  // namespace specbound
