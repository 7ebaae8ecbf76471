// Shapes as errors quote them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "error.h"

namespace specbound {

// "(32, 64)"
inline std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (uint64_t size : shape) {
    text += format("%s%llu", text.size() > 1 ? ", " : "", static_cast<unsigned long long>(size));
  }
  return text + ")";
}

}  // namespace specbound
