// The SIMT executor: runs CUDA kernels on the host, one block after the other, the threads of a
// block as fibers that take turns at barriers and warp operations. What kernels see of it is
// device.h; this is what tests see.
//
// A test program links the kernels, compiled as C++, with the executor:
//   g++ -std=c++20 -O2 -g -ffp-contract=off -fno-math-errno -fno-strict-aliasing -Wall -Wextra
//     -Wno-unknown-pragmas -Isrc -Ikernels -Itests -x c++ kernels/NAME.cu tests/simt/executor.cpp
//     tests/simt/fiber.cpp tests/simt/NAME_test.cpp tests/unit/main.cpp
//     -x none build/release/libspecbound_training.a
//     build/release/libspecbound_core.a -lboost_context -llzma -lpcre2-8 -lpthread
// With -fsanitize=address,undefined every access past a DeviceBuffer or the shared memory stops the
// program; with -fsanitize=thread a missing barrier is a reported race (packaging/test.sh --all).
//
// A launch throws Fault, naming kernel, block, thread and source lines, when
//   - threads of a block meet __syncthreads at different lines, or some have exited;
//   - lanes of a warp meet a warp operation at different lines or with different sizes, or some
//     have exited or wait at a barrier of the block;
//   - a thread exits before its copies to shared memory are there;
//   - bytes around the block's shared memory were written (without ASan: seen at its end);
//   - its shape is impossible.
// Whatever a kernel throws itself also comes out of the launch. Either way the other threads are
// unwound first. Launches are for one host thread at a time.
//
// The order in which threads run and the bytes that shared memory holds at first are options: a
// result that depends on either is wrong (for_each_order in device_buffer.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "simt/device.h"
#include "simt/fault.h"

namespace simt {

// Of the threads that could run, and of the blocks.
enum class Order {
  kForward,  // the first
  kReverse,  // the last
  kRandom,   // any; drawn anew at every barrier and warp operation
};

struct Options {
  Order order = Order::kForward;
  uint64_t seed = 1;                   // of kRandom
  unsigned char poison = 0xff;         // what memory holds that nobody has written
  size_t max_shared_bytes = 64 << 10;  // of a block: what sm_75 has
};

// For launches from now on.
Options& options();

// Runs all of a launch, by the options.
void run_grid(const Launch& launch);

// What runs launches without a stream; the executor, or what a test program puts in its place.
using Runner = void (*)(const Launch& launch, const void* parameters, size_t parameter_bytes);
Runner& runner();

}  // namespace simt

// What a launch may be submitted to (kernels/stream.h). It runs what it keeps when it likes.
struct CUstream_st {
  virtual void submit(simt::Launch launch, const void* parameters, size_t parameter_bytes) = 0;

 protected:
  ~CUstream_st() = default;
};
