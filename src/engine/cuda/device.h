// One GPU as the engine needs it: memory, one stream, graphs of launches. Two things are behind it:
// the CUDA runtime (cuda_device.cpp), and the SIMT executor in tests, which keeps the order of a
// stream but runs nothing before somebody waits for it.
//
// Everything below but memory is in the order of the one stream, as kernels that are launched into
// stream() are, and returns before it is done unless it says that it waits. What goes wrong on the
// device comes out of any later call as Error(kDevice); after that the device is lost, and every
// call but the releasing ones throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "error.h"
#include "kernels/store.h"
#include "kernels/stream.h"

namespace specbound {

struct DeviceInfo {
  int index = 0;
  std::string name;  // "NVIDIA GeForce RTX 4090"
  int sm = 0;        // compute capability, 10 major + minor
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t l2_bytes = 0;
  std::string kernels;  // of an open device, what code it runs: "sm_89 code"; empty: unknown
};

// Launches recorded once, launched together as often as wanted. Lives no longer than its device.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

// A point in the stream. Lives no longer than its device.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  // The calling thread goes on with this device: the one that opened it does so already. One thread
  // at a time.
  virtual void take_over() {}
  virtual size_t free_bytes() = 0;
  virtual kernels::Stream stream() const = 0;

  // Memory on the device, 256-byte aligned, holding anything; null for none. Throws Error(kLimit).
  virtual void* allocate(size_t bytes) = 0;
  // Memory of the host that never moves: the device copies from and to it at full speed, and
  // kernels may write to it at the same address. Throws Error(kLimit).
  virtual void* allocate_pinned(size_t bytes) = 0;
  // Nothing that was asked for may still use it.
  virtual void release(void* memory) noexcept = 0;
  virtual void release_pinned(void* memory) noexcept = 0;

  // Host memory is pinned, and left alone until the copy is known to be done.
  virtual void copy_in(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, size_t bytes) = 0;
  virtual void clear(void* memory, size_t bytes) = 0;  // zeros

  // What `launches` launches into stream(), and copies, are recorded instead of run. A graph takes
  // memory of the device: throws Error(kLimit).
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void()>& launches) = 0;
  virtual void launch(DeviceGraph& graph) = 0;

  virtual std::unique_ptr<DeviceEvent> mark() = 0;
  virtual void wait(DeviceEvent& event) = 0;  // waits
  // Waits for `to`. Between the two marks, in device time.
  virtual double seconds_between(DeviceEvent& from, DeviceEvent& to) = 0;
  virtual void synchronize() = 0;  // waits for everything
  // Waits, with as little delay as can be had, for a kernel to write `value` to a word of pinned
  // memory.
  virtual void wait_for(const uint32_t* word, uint32_t value) = 0;
};

// What devices throw.
Error device_failed(const DeviceInfo& info, const std::string& what, const std::string& why);
Error out_of_device_memory(const DeviceInfo& info, size_t bytes, size_t free_bytes);
Error out_of_graph_memory(const DeviceInfo& info, size_t free_bytes);
Error out_of_pinned_memory(size_t bytes);

// n values of a plain type in memory that a device gives.
template <class T, void* (Device::*kTake)(size_t), void (Device::*kRelease)(void*) noexcept>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Device& device, size_t n)
      : device_(&device), data_(static_cast<T*>((device.*kTake)(n * sizeof(T)))), size_(n) {}
  ~DeviceArray() {
    if (data_) (device_->*kRelease)(data_);
  }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  Device* device_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};
template <class T>
using DeviceMemory = DeviceArray<T, &Device::allocate, &Device::release>;
template <class T>
using PinnedMemory = DeviceArray<T, &Device::allocate_pinned, &Device::release_pinned>;

// Graphs of launches that come again: recorded when a key comes the second time (by then its
// kernels are loaded, which recording must not be disturbed by), launched from then on. Where there
// is hardly memory for one more, kernels are launched by themselves.
template <class Key>
class GraphCache {
 public:
  GraphCache(Device& device, bool enabled) : device_(device), enabled_(enabled) {}

  // `launches` launches into the device's stream what belongs to `key`; all that differs from one
  // time to the next lies in device memory.
  void run(const Key& key, const std::function<void()>& launches) {
    if (!enabled_) return launches();
    if (entries_.size() >= kMostKeys && !entries_.contains(key)) drop_all();
    Entry& entry = entries_[key];
    if (!entry.came) {
      launches();
      entry.came = true;
      return;
    }
    if (!entry.graph) {
      try {
        // What is planned for others, and code that the driver loads when it is first launched,
        // need some of what is left.
        const size_t free = device_.free_bytes();
        if (free < kLeftFree) throw out_of_graph_memory(device_.info(), free);
        entry.graph = device_.record(launches);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kLimit) throw;
        drop_all();  // those that are still wanted come back, into the memory of the others
        return launches();
      }
    }
    device_.launch(*entry.graph);
  }

  // Nothing that was launched may still be under way.
  void clear() { entries_.clear(); }

 private:
  // A graph of many layers takes some megabytes. Rows only stop at check layers, so that few
  // stretches make up all rounds; `verify --bits`, which stops at every layer, comes near to that.
  static constexpr size_t kMostKeys = 1024;
  static constexpr size_t kLeftFree = size_t{64} << 20;

  struct Entry {
    bool came = false;
    std::unique_ptr<DeviceGraph> graph;
  };

  void drop_all() {
    device_.synchronize();
    entries_.clear();
  }

  Device& device_;
  const bool enabled_;
  std::map<Key, Entry> entries_;
};

// The way of large things onto the device: through two pinned buffers, one being filled while the
// other is copied.
class Staging {
 public:
  // Two buffers of `bytes` each.
  Staging(Device& device, size_t bytes);
  // Waits for what is under way: nothing that was sent still reads the buffers, nor writes to where
  // it was sent.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  size_t bytes() const { return buffers_[0].memory.size(); }
  // What of a buffer can be filled now, at least `least` bytes (at most bytes()), 64-byte aligned.
  // May wait for copies.
  std::span<std::byte> room(size_t least);
  // Copies the first `bytes` of what room() gave and send() has not yet taken to the device.
  void send(void* to, size_t bytes);
  void finish();  // waits until all has arrived

 private:
  struct Buffer {
    PinnedMemory<std::byte> memory;
    std::unique_ptr<DeviceEvent> sent;  // null: nothing is
  };

  Device& device_;
  Buffer buffers_[2];
  int filling_ = 0;
  size_t used_ = 0;
};

// A small value of the host into device memory, in the order of the stream (kernels/store.h).
template <class T>
void store_value(Device& device, T* to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint32_t) == 0);
  static_assert(sizeof(T) <= kernels::kStoredWords * sizeof(uint32_t));
  kernels::StoreWords store{reinterpret_cast<uint32_t*>(to), sizeof(T) / sizeof(uint32_t), {}};
  std::memcpy(store.words, &value, sizeof value);
  kernels::store_words(store, device.stream());
}

}  // namespace specbound
