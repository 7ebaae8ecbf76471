#include "engine/cuda/gpu_limits.h"

#include "error.h"
#include "kernels/attention.h"
#include "kernels/sampling.h"

namespace specbound {

std::string why_not_on_gpu(const ModelConfig& config) {
  if (config.head_dim % 8 != 0 || config.head_dim > kernels::kMaxHeadDim) {
    return format("its heads have %d dimensions, the kernels take multiples of 8 up to %d",
                  config.head_dim, kernels::kMaxHeadDim);
  }
  if (config.dim % 4 != 0) {
    return format("its rows have %d values, the kernels take multiples of 4", config.dim);
  }
  if (config.vocab_size > kernels::kMaxLogits) {
    return format("its vocabulary has %d tokens, the kernels take up to %d", config.vocab_size,
                  kernels::kMaxLogits);
  }
  return "";
}

}  // namespace specbound
