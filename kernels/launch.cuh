// How kernels are started, and how they find their shared memory: the same text for a GPU and for
// the SIMT executor.
//
//   __global__ void scale(Scale p) { ... block_shared<float>() ... }
//   launch(scale, "scale", {.blocks = {n}, .threads = 256, .shared_bytes = 1024}, stream, p);
//
// A kernel takes one struct by value. Threads of a block are one-dimensional.
#pragma once

#include "error.h"
#include "intrinsics.cuh"
#include "stream.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace specbound::kernels {

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Grid blocks;
  int threads = kWarp;  // of a block, a multiple of 32
  size_t shared_bytes = 0;
  // The kernel waits for those before it by itself (wait_for_previous()), and so may be started
  // while the last of them still runs, if that one lets it (let_next_start()). Before it has waited
  // it only reads, and only what no kernel that may still run writes: weights, keys and values of
  // earlier passes, and the Pass, as the first kernel behind one that stores a Pass never overlaps.
  bool overlaps = false;
};

// The block's shared memory from `offset` bytes on (a multiple of 16), as the launch gave it; holds
// anything at first.
template <class T>
SPECBOUND_DEVICE T* block_shared(size_t offset = 0) {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char arena[];
  return reinterpret_cast<T*>(arena + offset);
#else
  return reinterpret_cast<T*>(simt::shared_memory() + offset);
#endif
}

// For the contracts that launchers check.
inline bool aligned(const void* p, size_t bytes) {
  return p != nullptr && reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

#ifdef __CUDACC__
// Whether the kernel waits (wait_for_previous()): code from PTX below sm_90 does not, whatever card
// the driver compiled it for.
template <class Parameters>
bool can_overlap(void (*kernel)(Parameters)) {
  cudaFuncAttributes attributes{};
  const auto status = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
  if (status == cudaSuccess) return attributes.ptxVersion >= 90;
  cudaGetLastError();  // or the next call would find it
  return false;
}
#endif

// Starts the kernel; nothing is awaited. Throws Error(kDevice) when it cannot be started.
template <class Parameters>
void launch(void (*kernel)(Parameters), const char* name, const LaunchShape& shape, Stream stream,
            const Parameters& parameters) {
#ifdef __CUDACC__
  constexpr size_t kWithoutAsking = 48 << 10;  // of shared memory
  cudaError_t status = cudaSuccess;
  if (shape.shared_bytes > kWithoutAsking) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shape.shared_bytes));
  }
  if (status == cudaSuccess) {
    void* arguments[] = {const_cast<Parameters*>(&parameters)};
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(shape.blocks.x, shape.blocks.y, shape.blocks.z);
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = shape.overlaps && can_overlap(kernel) ? 1 : 0;
    status = cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();  // or the next call would find it
    throw Error(ErrorCode::kDevice, format("kernel %s: %s", name, cudaGetErrorString(status)));
  }
#else
  simt::submit(stream,
               {name,
                {shape.blocks.x, shape.blocks.y, shape.blocks.z},
                static_cast<unsigned>(shape.threads),
                shape.shared_bytes,
                [kernel, parameters] { kernel(parameters); },
                reinterpret_cast<const void*>(kernel),
                shape.overlaps},
               &parameters, sizeof parameters);
#endif
}

}  // namespace specbound::kernels
