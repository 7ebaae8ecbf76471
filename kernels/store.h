// Small values from the host into device memory, in the order of the stream: they travel as the
// kernel's parameters, so that there is no buffer of the host that must be left alone.
#pragma once

#include <cstdint>

#include "stream.h"

namespace specbound::kernels {

inline constexpr int kStoredWords = 64;

struct StoreWords {
  uint32_t* to;
  int n;  // 1..kStoredWords
  uint32_t words[kStoredWords];
};
void store_words(const StoreWords& p, Stream stream);

}  // namespace specbound::kernels
