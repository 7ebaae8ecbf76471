// Why there is no GPU to use: every reason is told apart, with what to do.
#include "runtime/gpu_survey.h"

#include <doctest/doctest.h>

#include <string>

namespace gpu_survey_test {

using namespace specbound;
using State = GpuSurvey::State;

TEST_CASE("the driver's own version, from the line that it shows in /proc") {
  CHECK(driver_version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 "
                          "07:12:56 UTC 2025") == "580.65.06");
  CHECK(driver_version_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  "
                          "Release Build  (root@builder)") == "575.57.08");
  CHECK(driver_version_in("550.54") == "550.54");
  CHECK(driver_version_in("").empty());
  CHECK(driver_version_in("no version 12 here, 1.2b").empty());
}

TEST_CASE("a missing driver, an old one, no GPU and an old GPU are told apart") {
  const auto says = [](const GpuSurvey& survey, const std::string& text) {
    CHECK(survey.gpus.empty());
    CHECK(survey.why_not.find('\n') == std::string::npos);
    return survey.why_not.find(text) != std::string::npos;
  };
  CHECK(no_driver().state == State::kNoDriver);
  CHECK(says(no_driver(), "install driver 580 or newer"));

  const GpuSurvey old = old_driver(12080, "570.86.10");
  CHECK(old.state == State::kOldDriver);
  CHECK(says(old, "the NVIDIA driver 570.86.10 serves CUDA 12.8, expected 13.0"));
  CHECK(says(old_driver(12080, ""), "the NVIDIA driver serves CUDA 12.8"));

  const GpuSurvey none = no_gpu(13000, "580.65.06", "no device", nullptr);
  CHECK(none.state == State::kNoGpu);
  CHECK(none.driver == "580.65.06");
  CHECK(says(none, "CUDA finds no GPU: no device; nvidia-smi"));
  CHECK(says(no_gpu(13000, "", "no device", "-1"), "CUDA_VISIBLE_DEVICES is \"-1\": unset it"));

  DeviceInfo pascal;
  pascal.name = "NVIDIA GeForce GTX 1080";
  pascal.sm = 61;
  CHECK(old_gpus(13000, "", pascal).state == State::kNoGpu);
  CHECK(says(old_gpus(13000, "", pascal), "GTX 1080 has compute capability 6.1, expected 7.5"));
}

}  // namespace gpu_survey_test
