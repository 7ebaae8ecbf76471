// The GPU engine of a build without CUDA. Programs that have one bring their own gpu_engine(),
// which the linker takes before it looks into the library.
#include "runtime/gpu.h"

namespace specbound {

const GpuEngine& gpu_engine() {
  static constexpr GpuEngine kNone = {
      []() -> GpuSurvey {
        return {GpuSurvey::State::kNotBuilt, "this build has no GPU backend", 0, "", {}};
      },
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      nullptr};
  return kNone;
}

}  // namespace specbound
