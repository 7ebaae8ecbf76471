// What a GPU is measured with: memory that is only read, and words that look like weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stream.h"

namespace specbound::kernels {

// Reads all of it, many loads in flight a thread; sums[thread] = the sum of the 32-bit words that
// the thread read.
struct ReadWords {
  const void* memory;  // 16-byte aligned
  size_t bytes;        // a multiple of 16
  uint32_t* sums;      // (blocks, threads)
  int blocks;
  int threads;  // of a block: 32..1024, a multiple of 32
};
void read_words(const ReadWords& p, Stream stream);

// words[i] = (hash(seed, i) & mask) | bits.
struct FillRandom {
  uint32_t* words;
  size_t n;
  uint32_t mask, bits;
  uint64_t seed;
};
void fill_random(const FillRandom& p, Stream stream);

// What the kernels run as on the current device: the architecture of the machine code, and that of
// the PTX which it was compiled from, by nvcc or, where that is the lesser, by the driver; 10 major
// + minor. Zeros on the host. Throws Error(kDevice).
struct CodeVersion {
  int binary, ptx;
};
CodeVersion code_version();

}  // namespace specbound::kernels
