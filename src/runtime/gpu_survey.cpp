#include "runtime/gpu_survey.h"

#include <cctype>
#include <sstream>

#include "error.h"

namespace specbound {

using State = GpuSurvey::State;

GpuSurvey no_driver() {
  return {State::kNoDriver,
          "no NVIDIA driver (libcuda.so.1 is not found); for a GPU install driver 580 or newer, in "
          "a container start it with --gpus all",
          0,
          "",
          {}};
}

GpuSurvey old_driver(int driver_cuda, const std::string& driver) {
  return {State::kOldDriver,
          format("the NVIDIA driver %s%sserves CUDA %d.%d, expected 13.0: install driver 580 or "
                 "newer",
                 driver.c_str(), driver.empty() ? "" : " ", driver_cuda / 1000,
                 driver_cuda % 1000 / 10),
          driver_cuda,
          driver,
          {}};
}

GpuSurvey no_gpu(int driver_cuda, const std::string& driver, const std::string& reason,
                 const char* visible) {
  std::string why = "CUDA finds no GPU: " + reason;
  if (visible) {
    why +=
        format("; CUDA_VISIBLE_DEVICES is \"%s\": unset it to see all", printable(visible).c_str());
  } else {
    why += "; nvidia-smi shows what the driver sees";
  }
  return {State::kNoGpu, why, driver_cuda, driver, {}};
}

GpuSurvey old_gpus(int driver_cuda, const std::string& driver, const DeviceInfo& one) {
  return {State::kNoGpu,
          format("the GPU %s has compute capability %d.%d, expected 7.5 (Turing) or newer",
                 one.name.c_str(), one.sm / 10, one.sm % 10),
          driver_cuda,
          driver,
          {}};
}

std::string driver_version_in(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool version = std::isdigit(static_cast<unsigned char>(word[0])) &&
                         word.find('.') != std::string::npos &&
                         word.find_first_not_of("0123456789.") == std::string::npos;
    if (version) return word;
  }
  return "";
}

}  // namespace specbound
