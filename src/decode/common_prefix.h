// What two texts begin with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace specbound {

// Tokens.
inline std::ptrdiff_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace specbound
