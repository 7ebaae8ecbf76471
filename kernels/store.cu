// A thread stores a word.
#include "store.h"

#include "launch.cuh"

namespace specbound::kernels {
namespace {

__global__ void store_words_kernel(StoreWords p) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < p.n) p.to[i] = p.words[i];
}

}  // namespace

void store_words(const StoreWords& p, Stream stream) {
  SB_CHECK(aligned(p.to, 4) && p.n >= 1 && p.n <= kStoredWords);
  launch(store_words_kernel, "store_words", {{1}, kStoredWords, 0}, stream, p);
}

}  // namespace specbound::kernels
