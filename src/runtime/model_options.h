// Which model is run, and how: the same for every front end.
#pragma once

#include <string>

#include "engine/cpu/cpu_backend.h"
#include "runtime/device_choice.h"

namespace specbound {

struct ModelOptions {
  std::string model;          // empty: the bundled demo model
  int n_ctx = 0;              // 0: as trained
  int n_threads = 0;          // 0: one per physical core
  std::string chat_template;  // a built-in one; empty: as the file says
  DeviceOptions device;
  std::string isa = "auto";
  bool no_repack = false;

  // Throws Error(kUsage) for what this CPU lacks.
  CpuOptions cpu_options() const;
};

}  // namespace specbound
