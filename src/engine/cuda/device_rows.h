// Memory for rows of activations on their way into a matmul, INT8 or FP16 (kernels/layouts.h).
#pragma once

#include <cstddef>

#include "engine/cuda/device.h"
#include "kernels/layouts.h"

namespace specbound {

// Rows as matmuls take them: one of the two.
struct PreparedRows {
  bool int8 = false;
  kernels::RowsI8 i8{};
  kernels::RowsF16 f16{};
};

// Rows are padded with zeros to whole blocks of 32.
int padded_in(int n_in);

// For up to `max_rows` rows of up to `widest` values, prepared either way.
class DeviceRows {
 public:
  DeviceRows() = default;
  DeviceRows(Device& device, int max_rows, int widest);
  static size_t bytes_needed(int max_rows, int widest);

  PreparedRows rows(int n_in, bool int8) const;  // n_in <= widest

 private:
  int widest_ = 0;
  DeviceMemory<std::byte> values_;
  DeviceMemory<float> scales_;
};

}  // namespace specbound
