// Logits of rows that went through all layers, and the draws after them. Draws leave their logits
// on the device: what comes back is a token, or the head of the row (kernels/sampling.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "engine/backend.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_model.h"
#include "engine/cuda/device_sampler.h"
#include "engine/cuda/workspace.h"

namespace specbound {

class DeviceLogits {
 public:
  explicit DeviceLogits(const DeviceModel& model);
  // On the device. Free of kernels.
  static size_t bytes_needed(const ModelConfig& config, int n_ctx) {
    return sizeof(kernels::Pass) + DeviceRows::bytes_needed(kMaxRows, config.dim) +
           static_cast<size_t>(kMaxRows) * padded_logits(config.vocab_size) * sizeof(float) +
           DeviceSampler::bytes_needed(n_ctx, kMaxRows, config.vocab_size);
  }

  // See Backend. All wait, once.
  void logits(int slot, int n, float* out);
  // The same of rows h (n, dim) on the device that are not those of H, n <= kMaxRows.
  void logits_of(const float* h, int n, float* out);
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text, RowDraw* draws);

 private:
  // What a graph is made for.
  struct Launches {
    std::optional<DrawKind> draw;
    int max_rows;  // 8 or 16
    auto operator<=>(const Launches&) const = default;
  };
  // Rows of logits as kernels read them: whole quadruples.
  static constexpr int padded_logits(int n) { return (n + 3) / 4 * 4; }
  void launch_logits(const float* h, int max_rows);
  void launch(const kernels::Pass& pass, std::optional<DrawKind> draw);
  void copy_logits(int n, float* out);

  const DeviceModel model_;
  const int ld_;
  DeviceRows normed_;                 // (kMaxRows, dim)
  DeviceMemory<kernels::Pass> pass_;  // rows of h
  DeviceMemory<float> logits_;        // (kMaxRows, ld)
  PinnedMemory<float> copied_;        // the same
  DeviceSampler sampler_;
  GraphCache<Launches> graphs_;
};

}  // namespace specbound
