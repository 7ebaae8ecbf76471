// Memory that kernels read and write, for tests: on the host under the SIMT executor, on a GPU when
// nvcc compiles the test. And the runs that a result must not depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "error.h"
#include "simt/fault.h"
#include "stream.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <sys/mman.h>

#include "simt/executor.h"
#include "simt/fiber.h"
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#endif
#endif

namespace simt {

#ifdef __CUDACC__
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Fault(std::string(what) + ": " + cudaGetErrorString(status));
}
#endif

// What memory holds that nobody has written.
inline unsigned char& poison() {
#ifdef __CUDACC__
  static unsigned char byte = 0xff;
  return byte;
#else
  return options().poison;
#endif
}

inline specbound::kernels::Stream stream() {
  return nullptr;
}

#ifndef __CUDACC__
// How often the host has taken, written, read or freed memory: each time it waits for what runs.
inline uint64_t& host_waits() {
  static uint64_t n = 0;
  return n;
}
#endif

// Waits for what was launched; what went wrong there comes out here.
inline void synchronize() {
#ifdef __CUDACC__
  check(cudaDeviceSynchronize(), "synchronize");
#else
  ++host_waits();
#endif
}

#ifndef __CUDACC__
// Of what stands for a kernel's work, where the bytes begin and how many they are: a kernel that
// may overlap those before it must wait before it reads them (tests/ptx).
inline std::map<uint64_t, size_t>& made_by_kernels() {
  static std::map<uint64_t, size_t> made;
  return made;
}

// Where the bytes of each live buffer begin, and how many they are: what tests/ptx holds every
// access to.
inline std::map<uint64_t, size_t>& live_buffers() {
  static std::map<uint64_t, size_t> live;
  return live;
}
#endif

// Bytes of a device between guard bytes that nobody may write; 256-byte aligned.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes)
      : bytes_(bytes), total_((bytes + 255) / 256 * 256 + 2 * kGuardBytes) {
#ifdef __CUDACC__
    void* memory = nullptr;
    check(cudaMalloc(&memory, total_), "cudaMalloc");
    all_ = static_cast<unsigned char*>(memory);
#else
    void* const pages =
        mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<unsigned char*>(pages);
    live_buffers()[reinterpret_cast<uint64_t>(data())] = bytes_;
    ++host_waits();
#endif
    fill(0, total_, kGuard);
    fill(kGuardBytes, bytes_, poison());
    guard(true);
  }
  DeviceBytes(DeviceBytes&& other) noexcept
      : bytes_(other.bytes_), total_(other.total_), all_(std::exchange(other.all_, nullptr)) {}
  DeviceBytes& operator=(DeviceBytes&&) = delete;

  // Throws Fault when a guard was written, unless something is thrown already.
  ~DeviceBytes() noexcept(false) {
    if (all_ == nullptr) return;
    std::exception_ptr wrong;
    try {
      check_guards();
    } catch (const Fault& fault) {
      wrong = std::current_exception();
      if (std::uncaught_exceptions() > 0) std::fprintf(stderr, "%s\n", fault.what());
    }
    guard(false);
#ifdef __CUDACC__
    cudaFree(all_);
#else
    live_buffers().erase(reinterpret_cast<uint64_t>(data()));
    made_by_kernels().erase(reinterpret_cast<uint64_t>(data()));
    ++host_waits();
    munmap(all_, total_);
#endif
    if (wrong && std::uncaught_exceptions() == 0) std::rethrow_exception(wrong);
  }

#ifndef __CUDACC__
  // Locked memory cannot be touched; it must be open again when it goes.
  void lock(bool locked) const {
    const int status = mprotect(all_, total_, locked ? PROT_NONE : PROT_READ | PROT_WRITE);
    SB_CHECK(status == 0);
  }
#endif

  void* data() const {
    return all_ + kGuardBytes;
  }
  size_t bytes() const {
    return bytes_;
  }

  void read(void* to, size_t offset, size_t bytes) const {
    check_guards();
    if (bytes > 0) copy_out(to, kGuardBytes + offset, bytes);
  }

  void write(const void* from, size_t offset, size_t bytes) {
    if (bytes == 0) return;
#ifdef __CUDACC__
    check(cudaMemcpy(all_ + kGuardBytes + offset, from, bytes, cudaMemcpyHostToDevice), "write");
#else
    std::memcpy(all_ + kGuardBytes + offset, from, bytes);
    ++host_waits();
#endif
  }

 private:
  static constexpr size_t kGuardBytes = 1024;
  static constexpr unsigned char kGuard = 0xa5;

  void copy_out(void* to, size_t offset, size_t bytes) const {
#ifdef __CUDACC__
    check(cudaMemcpy(to, all_ + offset, bytes, cudaMemcpyDeviceToHost), "read");
#else
    std::memcpy(to, all_ + offset, bytes);
    ++host_waits();
#endif
  }

  void fill(size_t offset, size_t bytes, unsigned char with) {
    if (bytes == 0) return;
#ifdef __CUDACC__
    check(cudaMemset(all_ + offset, with, bytes), "fill");
#else
    std::memset(all_ + offset, with, bytes);
#endif
  }

  // With ASan an access to a guard stops the program, so that there is nothing to compare later.
  void guard([[maybe_unused]] bool closed) {
#ifdef SIMT_ASAN
    if (closed) {
      ASAN_POISON_MEMORY_REGION(all_, kGuardBytes);
      ASAN_POISON_MEMORY_REGION(all_ + kGuardBytes + bytes_, total_ - kGuardBytes - bytes_);
    } else {
      ASAN_UNPOISON_MEMORY_REGION(all_, total_);
    }
#endif
  }

  void check_guards() const {
#ifndef SIMT_ASAN
    check_guard(0, kGuardBytes);
    check_guard(kGuardBytes + bytes_, total_ - kGuardBytes - bytes_);
#endif
  }

  void check_guard(size_t offset, size_t bytes) const {
    std::vector<unsigned char> guard(bytes);
    copy_out(guard.data(), offset, bytes);
    for (size_t i = 0; i < bytes; ++i) {
      if (guard[i] == kGuard) continue;
      const auto at = static_cast<ptrdiff_t>(offset + i) - static_cast<ptrdiff_t>(kGuardBytes);
      throw Fault(specbound::format("device buffer of %zu bytes: written at byte %td", bytes_, at));
    }
  }

  size_t bytes_, total_;
  unsigned char* all_ = nullptr;
};

// n values of a plain type on the device.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit DeviceBuffer(size_t n) : n_(n), bytes_(n * sizeof(T)) {}  // poisoned
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    write(values);
  }

  T* data() const { return static_cast<T*>(bytes_.data()); }
  size_t size() const { return n_; }

  // From now on it stands for what a kernel has just made.
  void from_kernel() const {
#ifndef __CUDACC__
    made_by_kernels()[reinterpret_cast<uint64_t>(data())] = n_ * sizeof(T);
#endif
  }

  // Waits for what was launched.
  std::vector<T> read() const {
    synchronize();
    std::vector<T> values(n_);
    bytes_.read(values.data(), 0, n_ * sizeof(T));
    return values;
  }

  // From element `first` on.
  void write(const std::vector<T>& values, size_t first = 0) {
    if (first + values.size() > n_) throw std::out_of_range("DeviceBuffer::write");
    bytes_.write(values.data(), first * sizeof(T), values.size() * sizeof(T));
  }

 private:
  size_t n_;
  DeviceBytes bytes_;
};

// Runs fn() in every order that a result must not depend on: threads and blocks forward, in reverse
// and at random, memory poisoned with either of two bytes; on a GPU once with each byte. What fn
// returns, a vector of plain values, must be the same every time, and is returned.
template <class Fn>
auto for_each_order(const Fn& fn) {
  using Result = std::invoke_result_t<Fn>;
  constexpr bool kReturns = !std::is_void_v<Result>;
  struct Restore {
#ifndef __CUDACC__
    Options was = options();
    ~Restore() {
      options() = was;
    }
#else
    unsigned char was = poison();
    ~Restore() {
      poison() = was;
    }
#endif
  } restore;
  std::conditional_t<kReturns, Result, char> first{};
  bool any = false;
  const auto run = [&](const char* order) {
    if constexpr (kReturns) {
      Result result = fn();
      using Value = typename Result::value_type;
      static_assert(std::is_trivially_copyable_v<Value>);
      if (any && (result.size() != first.size() ||
                  std::memcmp(result.data(), first.data(), first.size() * sizeof(Value)) != 0)) {
        throw Fault(specbound::format(
            "threads %s, memory filled with %02x: another result than forward with ff", order,
            poison()));
      }
      if (!any) first = std::move(result);
    } else {
      fn();
    }
    any = true;
  };
  for (const unsigned char byte : {0xff, 0x5b}) {
    poison() = byte;
#ifdef __CUDACC__
    run("as the GPU has them");
#else
    options().order = Order::kForward;
    run("forward");
    options().order = Order::kReverse;
    run("in reverse");
    options().order = Order::kRandom;
    options().seed = byte;
    run("at random");
#endif
  }
  if constexpr (kReturns) return first;
}

}  // namespace simt
