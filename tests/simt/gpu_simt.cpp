// The GPU of specbound_simt, the whole program with its GPU engine on the SIMT executor: sm_75.
// What end-to-end tests want of it comes from the environment:
//   SPECBOUND_SIMT_STATE=no-driver|old-driver|no-gpu   the survey finds that instead
//   SPECBOUND_SIMT_GPUS=N               so many of them, all alike; one otherwise
//   SPECBOUND_SIMT_MEMORY=BYTES         of a GPU, all free; 8 GiB otherwise
//   SPECBOUND_SIMT_REFUSE=N             allocation N is refused
//   SPECBOUND_SIMT_FAIL_LAUNCH=N        launch N of a kernel fails at once
//   SPECBOUND_SIMT_FAIL_KERNEL=N        kernel N fails as it runs: whoever waits hears of it
//   SPECBOUND_SIMT_LOSE=N               operation N and all later ones fail
// N counts from 1, as simt_device.h says, anew in each device that is opened.
#include <cstdlib>
#include <optional>
#include <string>

#include "engine/cuda/device_first_layers.h"
#include "engine/cuda/read_bandwidth.h"
#include "error.h"
#include "runtime/gpu.h"
#include "runtime/gpu_survey.h"
#include "simt/simt_device.h"
#include "system/number_text.h"
#include "train/device_learner.h"

namespace specbound {

namespace {

size_t number(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  if (!text) return otherwise;
  const std::optional<uint64_t> value = parse_uint(text);
  if (!value) throw Error(ErrorCode::kUsage, format("%s: expected a number", name));
  return *value;
}

int count(const char* name, int otherwise) {
  return static_cast<int>(number(name, static_cast<size_t>(otherwise)));
}

simt::DeviceOptions options_of(int index) {
  simt::DeviceOptions options;
  options.index = index;
  options.total_bytes = number("SPECBOUND_SIMT_MEMORY", options.total_bytes);
  options.refuse_allocation = count("SPECBOUND_SIMT_REFUSE", 0);
  options.fail_launch = count("SPECBOUND_SIMT_FAIL_LAUNCH", 0);
  options.fail_kernel = count("SPECBOUND_SIMT_FAIL_KERNEL", 0);
  options.lose_at = count("SPECBOUND_SIMT_LOSE", 0);
  return options;
}

int n_gpus() {
  return count("SPECBOUND_SIMT_GPUS", 1);
}

std::unique_ptr<Device> open(int index) {
  if (index < 0 || index >= n_gpus()) {
    throw Error(ErrorCode::kUsage,
                format("expected one of %d GPUs, found cuda:%d", n_gpus(), index));
  }
  return std::make_unique<simt::SimtDevice>(options_of(index));
}

GpuSurvey survey() {
  const char* const text = std::getenv("SPECBOUND_SIMT_STATE");
  const std::string state = text ? text : "";
  if (state == "no-driver") return no_driver();
  if (state == "old-driver") return old_driver(12040, "550.54");
  if (state == "no-gpu") return no_gpu(13000, "580.65.06", "simulated", nullptr);
  GpuSurvey ready{GpuSurvey::State::kReady, "", 13000, "", {}};
  for (int i = 0; i < n_gpus(); ++i) {
    ready.gpus.push_back(simt::SimtDevice(options_of(i)).info());
  }
  return ready;
}

}  // namespace

const GpuEngine& gpu_engine() {
  static constexpr GpuEngine kSimt = {survey,
                                      open,
                                      make_cuda_backend,
                                      make_first_layers,
                                      make_random_cuda_backend,
                                      read_bandwidth,
                                      make_device_learner};
  return kSimt;
}

}  // namespace specbound
