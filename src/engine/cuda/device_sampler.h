// Draws on the device (kernels/sampling.h), behind whatever makes logits there: what the kernels
// read (the rule, the text) and what they leave in pinned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/backend.h"
#include "engine/cuda/device.h"
#include "kernels/sampling.h"

namespace specbound {

// The kernels that a rule takes.
struct DrawKind {
  bool penalized = false, filtered = false, weighed = false;

  auto operator<=>(const DrawKind&) const = default;
};
DrawKind kind_of(const DrawRule& rule);

class DeviceSampler {
 public:
  // Texts of up to n_ctx tokens; up to max_rows rows of up to `widest` logits.
  DeviceSampler(Device& device, int n_ctx, int max_rows, int widest);
  // On the device. Free of kernels, as all sizes that a plan of memory adds up.
  static size_t bytes_needed(int n_ctx, int max_rows, int widest) {
    return sizeof(kernels::SamplingState) + static_cast<size_t>(n_ctx) * sizeof(int32_t) +
           parts_of(max_rows, widest) * sizeof(kernels::DrawPart);
  }

  // Before launch(): what the device does not have yet of the rule and of the text goes over. What
  // was launched with another text is done.
  void prepare(const DrawRule& rule, std::span<const int32_t> text);
  // The draws after `rows`. Penalized logits go to `penalized` (rows.max_rows, rows.ld), which may
  // be rows.logits.
  void launch(DrawKind kind, kernels::LogitRows rows, float* penalized) const;
  // What launch() has left for the first n rows; `top` holds until the next launch().
  void take(DrawKind kind, int n, RowDraw* draws) const;

 private:
  static size_t parts_of(int max_rows, int widest) {
    return static_cast<size_t>(max_rows) * kernels::draw_parts(widest);
  }

  Device& device_;
  DeviceMemory<kernels::SamplingState> state_;
  std::optional<kernels::SamplingState> stored_;  // what state_ holds
  DeviceMemory<int32_t> text_;                    // (n_ctx)
  PinnedMemory<int32_t> uploaded_;                // (n_ctx): what text_ holds
  size_t n_uploaded_ = 0;
  DeviceMemory<kernels::DrawPart> parts_;    // (max_rows, draw_parts(widest))
  PinnedMemory<kernels::DrawnToken> drawn_;  // (max_rows)
  PinnedMemory<TopLogits> top_;              // (max_rows)
};

}  // namespace specbound
