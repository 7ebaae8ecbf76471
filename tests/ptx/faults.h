// Mistakes planted in the text of kernels, so that the tests are known to see what they are for.
#pragma once

#include <string>
#include <vector>

namespace ptx {

// In lines of a kernel that match `pattern`, the part that matches becomes `replacement`; in the
// line number `which` of them (from 0), or in all (-1).
struct PlantedFault {
  const char* name;
  const char* kernel;  // part of a name that one kernel has
  const char* pattern;
  int which;
  const char* replacement;
  const char* caught_by;  // a test case
};

const std::vector<PlantedFault>& planted_faults();

// The kernel's name, and its text with the fault. Throws TextError when the text no longer has it.
std::pair<std::string, std::string> planted(const PlantedFault& fault);

// Runs each case with its fault; one line each. 1: one of them passed all the same.
int run_faults();

}  // namespace ptx
