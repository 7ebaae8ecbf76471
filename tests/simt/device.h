// What a kernel finds when the host compiler compiles it: CUDA's words, meant by the SIMT executor.
// Included by kernels/intrinsics.cuh; kernels know nothing else of the executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct CUstream_st;

namespace simt {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// A place in a kernel's source. clang 14 has no std::source_location.
struct Where {
  const char* file;
  int line;
};

// Of the thread that runs now.
extern Index thread_index, block_index, block_size, grid_size;

// A barrier of the block: all of its threads, at one line.
void sync_threads(Where where);
void sync_warp(Where where);

// The block's shared memory, 16-byte aligned; poisoned at the start of each block.
unsigned char* shared_memory();

// All 32 lanes of the warp hand in `size` bytes and read what everyone handed in.
void exchange_bytes(const void* mine, void* all, size_t size, Where where);

// The rendezvous of a warp that every warp operation is made from.
template <class T>
void exchange(const T& mine, T (&all)[32], const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  exchange_bytes(&mine, all, sizeof(T), {file, line});
}

// Copies to shared memory on their way, which a thread must not exit before. They arrive at once
// where threads run in reverse, else as late as they may: when their thread waits for them.
void copy_later(std::function<void()> copy);
void wait_for_copies();

// A kernel on its way: body() is to run once for every thread of every block.
struct Launch {
  const char* kernel;
  Index blocks;
  unsigned threads;  // of a block
  size_t shared_bytes;
  std::function<void()> body;
  const void* function = nullptr;  // the kernel, by which a program finds its name
  bool overlaps = false;           // kernels/launch.cuh
};

// Without a stream runs it at once; a stream keeps it for later (executor.h). The parameters tell
// which memory it is about.
void submit(CUstream_st* stream, Launch launch, const void* parameters, size_t parameter_bytes);

}  // namespace simt

#define threadIdx ::simt::thread_index
#define blockIdx ::simt::block_index
#define blockDim ::simt::block_size
#define gridDim ::simt::grid_size

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::sync_threads({file, line});
}
inline void __syncwarp(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::sync_warp({file, line});
}
