// The command line of `specbound spec-bench`.
#pragma once

#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "spec_bench/spec_bench_plan.h"

namespace specbound {

struct SpecBenchFlags {
  SpecBenchOptions options;
  std::vector<std::string> settings;  // "NAME: FLAGS"

  // Reads the settings. Throws Error(kUsage) for what was given and does not go together.
  void check();
};
void add_spec_bench_flags(Flags& flags, SpecBenchFlags& given);

}  // namespace specbound
