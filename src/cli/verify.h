// The command line of `specbound verify`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "tools/verify.h"

namespace specbound {

struct VerifyFlags {
  VerifyOptions options;
  std::vector<std::string> texts;
  std::string file;

  // Of -p, -f or the built-in set. Throws Error(kUsage) for both flags, and what reading throws.
  std::vector<std::string> prompts() const;
  // Throws Error(kUsage) for what was given and does not go together.
  void check(const Flags& flags) const;
};
void add_verify_flags(Flags& flags, VerifyFlags& given);

// "0,0.7,1": temperatures that the sampler takes. Throws Error(kUsage).
std::vector<float> parse_temperatures(std::string_view text);
// "3" is the seeds 1, 2 and 3; "7,8" (or "7," for one) are those very seeds. Throws Error(kUsage).
std::vector<uint64_t> parse_seeds(std::string_view text);

}  // namespace specbound
