// What the parts of the CUDA engine that look at hidden rows share: exit checks and draws.
#pragma once

#include "engine/cuda/device.h"
#include "engine/cuda/device_weights.h"
#include "engine/kv_type.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

class DeviceRope;

// Everything in it outlives who holds it.
struct DeviceModel {
  Device& device;
  const ModelConfig& config;
  const DeviceWeights& weights;
  const Matrix* host_lm_head = nullptr;  // (vocab_size, dim) as the file has it; null: none has
  const float* h = nullptr;              // H (kMaxRows, dim) on the device
  int n_ctx = 0;                         // positions of a text at most
  bool graphs = true;                    // false: every kernel launched by itself
  DeviceRope* rope = nullptr;            // of positions below n_ctx; a draft layer needs it
  KvType kv = KvType::kFp16;             // of a draft layer too
};

}  // namespace specbound
