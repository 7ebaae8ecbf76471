// What exit checks on a GPU work with, beside the heads' weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device.h"
#include "engine/cuda/device_rows.h"
#include "engine/cuda/head_layout.h"
#include "kernels/exit_head.h"
#include "kernels/layouts.h"

namespace specbound {

// What a check is about, in device memory: one graph serves every row and temperature.
struct CheckState {
  kernels::Pass row;    // of H
  kernels::Pass alone;  // the same in slot 0, where rows of checks lie
  kernels::ExitRule rule;
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
  DeviceMemory<float> y;             // (dim + inner)
  DeviceMemory<float> z, penalized;  // (logits), to whole quadruples
  DeviceMemory<kernels::PeakChunk> peaks;
};

}  // namespace specbound
