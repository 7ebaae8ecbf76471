#include "engine/cuda/device_rows.h"

#include "engine/int8_formula.h"
#include "error.h"

namespace specbound {
namespace {

size_t padded_values(int max_rows, int widest) {
  return static_cast<size_t>(kernels::panels_of(max_rows)) * kernels::kPanelRows *
         padded_in(widest);
}

// Two FP16 parts, the larger of the two forms.
size_t value_bytes(int max_rows, int widest) {
  return padded_values(max_rows, widest) * 2 * sizeof(uint16_t);
}

// Of INT8's blocks, the larger number.
size_t n_scales(int max_rows, int widest) {
  return padded_values(max_rows, widest) / kQuantBlock;
}

}  // namespace

int padded_in(int n_in) {
  return (n_in + kQuantBlock - 1) / kQuantBlock * kQuantBlock;
}

DeviceRows::DeviceRows(Device& device, int max_rows, int widest)
    : widest_(widest),
      values_(device, value_bytes(max_rows, widest)),
      scales_(device, n_scales(max_rows, widest)) {}

size_t DeviceRows::bytes_needed(int max_rows, int widest) {
  return value_bytes(max_rows, widest) + n_scales(max_rows, widest) * sizeof(float);
}

PreparedRows DeviceRows::rows(int n_in, bool int8) const {
  SB_CHECK(n_in <= widest_);
  PreparedRows rows{int8};
  if (int8) {
    rows.i8 = {n_in, reinterpret_cast<int8_t*>(values_.data()), scales_.data()};
  } else {
    rows.f16 = {padded_in(n_in), reinterpret_cast<uint16_t*>(values_.data()), scales_.data()};
  }
  return rows;
}

}  // namespace specbound
