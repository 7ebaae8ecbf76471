// Reading, filling, and what code they are. Grids stride over memory of any size.
#include "probe.h"

#include <algorithm>

#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kLoadsInFlight = 8;  // of a thread, 16 bytes each
constexpr int kFillThreads = 256;
constexpr size_t kFillBlocks = 1024;  // at most

__global__ void read_words_kernel(ReadWords p) {
  const auto* const words = static_cast<const Word4*>(p.memory);
  const size_t n = p.bytes / sizeof(Word4);
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  const size_t thread = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t sum = 0;
  size_t i = thread;
  for (; i + (kLoadsInFlight - 1) * stride < n; i += kLoadsInFlight * stride) {
    Word4 w[kLoadsInFlight];
#pragma unroll
    for (int u = 0; u < kLoadsInFlight; ++u) w[u] = load_once(words + i + u * stride);
#pragma unroll
    for (int u = 0; u < kLoadsInFlight; ++u) sum += w[u].x + w[u].y + w[u].z + w[u].w;
  }
  for (; i < n; i += stride) {
    const Word4 w = load_once(words + i);
    sum += w.x + w.y + w.z + w.w;
  }
  p.sums[thread] = sum;
}

__global__ void fill_random_kernel(FillRandom p) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n;
       i += stride) {
    const uint64_t place = i + p.seed;
    uint32_t x = static_cast<uint32_t>(place) * 0x9e3779b9u + static_cast<uint32_t>(place >> 32);
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    p.words[i] = ((x ^ (x >> 16)) & p.mask) | p.bits;
  }
}

}  // namespace

void read_words(const ReadWords& p, Stream stream) {
  SB_CHECK(aligned(p.memory, 16) && p.bytes % 16 == 0 && aligned(p.sums, 4) && p.blocks >= 1);
  launch(read_words_kernel, "read_words",
         {.blocks = {static_cast<unsigned>(p.blocks)}, .threads = p.threads}, stream, p);
}

void fill_random(const FillRandom& p, Stream stream) {
  SB_CHECK(aligned(p.words, 4));
  if (p.n == 0) return;
  const size_t blocks = std::min((p.n + kFillThreads - 1) / kFillThreads, kFillBlocks);
  launch(fill_random_kernel, "fill_random",
         {.blocks = {static_cast<unsigned>(blocks)}, .threads = kFillThreads}, stream, p);
}

CodeVersion code_version() {
#ifdef __CUDACC__
  cudaFuncAttributes attributes{};
  const cudaError_t status =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(read_words_kernel));
  if (status != cudaSuccess) {
    throw Error(ErrorCode::kDevice, format("kernels: %s", cudaGetErrorString(status)));
  }
  return {attributes.binaryVersion, attributes.ptxVersion};
#else
  return {0, 0};
#endif
}

}  // namespace specbound::kernels
