// What a kernel did wrong, as a test sees it. Tests with planted faults know it by its first word.
#pragma once

#include <stdexcept>
#include <string>

namespace simt {

class Fault : public std::runtime_error {
 public:
  explicit Fault(const std::string& what) : std::runtime_error("simt: " + what) {}
};

}  // namespace simt
