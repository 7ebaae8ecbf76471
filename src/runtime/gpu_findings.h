// What `specbound doctor` says of GPUs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/gpu.h"

namespace specbound {

// One that can run the kernels, opened and measured as far as it goes.
struct GpuFinding {
  DeviceInfo info;
  std::optional<size_t> free_bytes;
  std::optional<double> read_bandwidth;  // bytes a second
  std::optional<int> context;            // of the bundled model: the most positions that fit
  int model_context = 0;                 // what that model has
  std::string failure;                   // where it went no further
};

struct GpuFindings {
  GpuSurvey survey;
  std::string cublas;  // empty: none, or not looked for
  std::vector<GpuFinding> gpus;
};

// `bundled_model`: its file; empty: there is none.
GpuFindings examine_gpus(const std::string& bundled_model);

// Lines of text, and an object.
std::vector<std::string> gpu_lines(const GpuFindings& findings);
nlohmann::ordered_json gpu_findings_json(const GpuFindings& findings);

}  // namespace specbound
