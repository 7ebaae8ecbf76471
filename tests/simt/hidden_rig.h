// Hidden rows and a tiny model's weights on a SimtDevice, and the same in a CPU backend: for what
// looks at rows there, without the engine that makes them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/cuda/device_checks.h"
#include "engine/cuda/device_kv.h"
#include "engine/cuda/device_model.h"
#include "simt/simt_device.h"
#include "unit/engine_rig.h"
#include "unit/farther.h"

namespace specbound::test {

class HiddenRig {
 public:
  explicit HiddenRig(const TinyModel& model, GpuDtype dtype = GpuDtype::kAsStored)
      : model(model),
        cpu(model.backend(best_isa(), 1)),
        weights(device, model.config, model.weights, {dtype, {}}),
        rope_(device, model.config, nullptr, kContext),
        h_(device, static_cast<size_t>(kMaxRows) * model.config.dim) {
    rope_.ensure(kContext - 1);
  }

  // With graphs and without; the file's lm_head or none.
  DeviceModel on_device(bool graphs = true, bool host_lm_head = true) {
    const Matrix* lm_head = host_lm_head ? &model.weights.lm_head : nullptr;
    return {device, model.config, weights, lm_head, h_.data(), kContext, graphs, &rope_};
  }
  static constexpr int kContext = 64;

  // H[slot], here and there.
  void set_row(int slot, const std::vector<float>& row) {
    device.write(h_.data() + static_cast<size_t>(slot) * model.config.dim, row);
    std::copy(row.begin(), row.end(), const_cast<float*>(cpu->inspect().hidden(slot).data()));
  }
  // Normal values, of another size in each row; all equal in slot 2, NaN in 5, infinite in 9.
  void set_rows(uint64_t seed, int n = kMaxRows) {
    TinyRandom random(seed);
    for (int slot = 0; slot < n; ++slot) {
      std::vector<float> row(model.config.dim);
      for (float& x : row) x = (0.1f + static_cast<float>(slot)) * random.normal();
      if (slot == 2) std::fill(row.begin(), row.end(), 0.0f);
      if (slot == 5) row[seed % row.size()] = std::numeric_limits<float>::quiet_NaN();
      if (slot == 9) row[seed % row.size()] = std::numeric_limits<float>::infinity();
      set_row(slot, row);
    }
  }
  // The row that a draft layer looks at: of a straight round at the beginning of a text.
  static DeviceExitChecks::Row row(int slot) {
    static const RowPaths paths;
    static constexpr std::array<int32_t, kMaxRows> kTokens{};
    return {0, slot, paths[slot], kTokens};
  }
  std::vector<float> cpu_logits(int slot) const {
    std::vector<float> z(model.config.vocab_size);
    cpu->logits(slot, 1, z.data());
    return z;
  }
  // Waits since the last call.
  int waits() {
    const int all = device.log().synchronizations;
    return all - std::exchange(waits_, all);
  }

  const TinyModel& model;
  std::unique_ptr<Backend> cpu;
  simt::SimtDevice device;
  DeviceWeights weights;

 private:
  DeviceRope rope_;
  DeviceMemory<float> h_;  // H (kMaxRows, dim)
  int waits_ = 0;
};

}  // namespace specbound::test
