// A model's weights on a GPU, in the order in which kernels stream them (kernels/layouts.h), and
// how they come there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/cuda/device.h"
#include "engine/cuda/weight_layout.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

struct UploadOptions {
  GpuDtype dtype = GpuDtype::kAsStored;
  // Bytes of the file; may throw. The embedding of a model whose head is tied counts twice.
  std::function<void(size_t done, size_t total)> progress = {};
  size_t staging_bytes = size_t{16} << 20;  // of each of the two pinned buffers, at most
  const char* help = nullptr;  // what runs weights that FP16 cannot hold; null: those of a model
};
inline constexpr const char* kHeadsHelp = "device=cpu can use them";

class DeviceWeights {
 public:
  // Uploads, converting on the way, through two pinned buffers: while one is copied the other is
  // filled. Waits. `weights` are not needed afterwards. Throws Error(kLimit), Error(kDevice), and
  // Error(kUnsupported) when a weight is lost: FP16 numbers cannot hold it.
  DeviceWeights(Device& device, const ModelConfig& config, const Weights& weights,
                const UploadOptions& options);
  // Random ones in the shapes of random_weights(), made on the device: for measuring speed. `dtype`
  // is kInt8 or kFp16; the embedding is F16. Waits.
  DeviceWeights(Device& device, const ModelConfig& config, GpuDtype dtype, uint64_t seed);

  const std::vector<DeviceLayer>& layers() const { return layers_; }
  const float* output_norm() const { return head_.output_norm; }  // (dim)
  const DeviceMatrix& lm_head() const { return head_.lm_head; }
  // (vocab_size, dim) as the file has it.
  DType embedding_type() const { return embedding_type_; }
  const void* embedding() const { return memory_.back().data(); }
  size_t bytes() const;  // on the device
  // "int8", "4-bit", "fp16", or several: "int8, 4-bit and fp16".
  std::string description() const;

 private:
  class Placing;
  class Uploading;
  class Randomizing;

  void allocate(Device& device, const WeightSizes& sizes);
  void place(const ModelConfig& config, const Weights& weights, GpuDtype dtype, Placing& sink);

  std::vector<DeviceLayer> layers_;
  DeviceHead head_;
  DType embedding_type_ = DType::kF32;
  std::vector<DeviceMemory<std::byte>> memory_;  // of each layer, the head, the embedding
};

// One matrix, uploaded as DeviceWeights does it: for exit heads. `int8`: for INT8 rows of whole
// blocks of 32; otherwise as FP16. The memory is appended to `memory`. Waits. Throws as
// DeviceWeights does, with kHeadsHelp.
DeviceMatrix upload_matrix(Device& device, const Matrix& source, bool int8,
                           std::vector<DeviceMemory<std::byte>>& memory);
// The same of n floats, as they are; null stays null.
const float* upload_floats(Device& device, const float* source, int n,
                           std::vector<DeviceMemory<std::byte>>& memory);

}  // namespace specbound
