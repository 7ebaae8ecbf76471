// The SIMT executor as the engine's GPU. It is as late as a GPU may be: what was asked for runs
// only when somebody waits, and no further than to what is waited for. So a wait that is missing, a
// buffer that is used again too early, a word that is written before what it stands for, all give
// wrong results in every run.
//
// Throws Fault at once for what would be a mistake on any GPU: copies from or to memory that is not
// where device.h says, waiting or allocating while a graph is recorded, graphs in graphs, a graph
// about memory that was released. Memory is poisoned, lies between guard bytes, and cannot be
// touched by the host when it is the device's: that is a SIGSEGV, as it would be there.
//
// Released while something in the stream is still to use it (by the pointers in its parameters), or
// with its guard bytes written: a Fault from the next call that waits. While an exception unwinds a
// release waits for the stream instead, as CUDA's does, and never throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/device.h"
#include "simt/device_buffer.h"
#include "simt/executor.h"

namespace simt {

// What a device did; outlives it. Numbers from the device's start.
struct DeviceLog {
  int operations = 0;   // calls of Device but info, stream and releases; launches into the stream
  int allocations = 0;  // device and pinned
  int live = 0;         // allocations, graphs and marks that are still there
  int launches = 0;     // of kernels, into the stream or a graph
  int kernels_run = 0;  // those of graphs as often as their graph
  int copies = 0;       // into the stream or a graph; clears too
  int synchronizations = 0;  // calls that waited
  int records = 0, graph_launches = 0;
  size_t device_bytes = 0, most_device_bytes = 0;  // allocated now, at most
  std::string wrong;  // found when there was no call left to say so; empty: nothing
};

struct DeviceOptions {
  int index = 0;
  size_t total_bytes = size_t{8} << 30;
  size_t taken_bytes = 0;  // by others
  int sm = 75;
  // From 1; 0: never.
  int refuse_allocation = 0;  // this one throws Error(kLimit)
  int refuse_record = 0;      // of DeviceLog::records: this one and all later ones, Error(kLimit)
  int fail_launch = 0;        // of DeviceLog::launches: throws Error(kDevice)
  int fail_kernel = 0;       // of DeviceLog::kernels_run: the call that waits throws Error(kDevice)
  int lose_at = 0;           // this operation and all later ones throw Error(kDevice)
  DeviceLog* log = nullptr;  // without one, what it would hold as `wrong` ends the program
};

class SimtDevice final : public specbound::Device, private CUstream_st {
 public:
  explicit SimtDevice(const DeviceOptions& options = {});
  ~SimtDevice() override;

  const specbound::DeviceInfo& info() const override { return info_; }
  size_t free_bytes() override;
  specbound::kernels::Stream stream() const override { return const_cast<SimtDevice*>(this); }
  void* allocate(size_t bytes) override;
  void* allocate_pinned(size_t bytes) override;
  void release(void* memory) noexcept override;
  void release_pinned(void* memory) noexcept override;
  void copy_in(void* to, const void* from, size_t bytes) override;
  void copy_out(void* to, const void* from, size_t bytes) override;
  void clear(void* memory, size_t bytes) override;
  std::unique_ptr<specbound::DeviceGraph> record(const std::function<void()>& launches) override;
  void launch(specbound::DeviceGraph& graph) override;
  std::unique_ptr<specbound::DeviceEvent> mark() override;
  void wait(specbound::DeviceEvent& event) override;
  double seconds_between(specbound::DeviceEvent& from, specbound::DeviceEvent& to) override;
  void synchronize() override;
  void wait_for(const uint32_t* word, uint32_t value) override;

  const DeviceLog& log() const { return *log_; }
  // May change at any time: the next allocation is number log().allocations + 1.
  DeviceOptions& options() { return options_; }

  // For tests: n values of device memory, from and to vectors. They wait.
  template <class T>
  std::vector<T> read(const T* from, size_t n);
  template <class T>
  void write(T* to, const std::vector<T>& values);

 private:
  struct Block {
    uint64_t id;
    bool pinned;
    DeviceBytes bytes;
  };
  struct Item {
    std::string what;
    std::function<void()> run;
    std::vector<uint64_t> uses;  // blocks
    bool kernel;
  };
  struct Graph;
  struct Mark;
  class Unlocked;

  void submit(Launch launch, const void* parameters, size_t parameter_bytes) override;
  void begin(const std::string& what);
  void begin_waiting(const std::string& what);
  void* take(size_t bytes, bool pinned);
  void give_back(void* memory, bool pinned) noexcept;
  Block* block_of(const void* memory);
  uint64_t require(const char* what, const void* memory, size_t bytes, bool pinned);
  void enqueue(Item item);
  template <class Until>
  void run_until(const Until& until);
  void run_one();
  void fail(std::exception_ptr failure);

  DeviceOptions options_;
  DeviceLog own_log_;
  DeviceLog* log_;
  specbound::DeviceInfo info_;
  std::map<const unsigned char*, Block> blocks_;  // by their first byte
  uint64_t n_blocks_ = 0;
  std::deque<Item> queue_;
  std::vector<Item>* recording_ = nullptr;
  bool lost_ = false;
  std::exception_ptr pending_;  // for the next call that waits
};

template <class T>
std::vector<T> SimtDevice::read(const T* from, size_t n) {
  const specbound::PinnedMemory<T> pinned(*this, n);
  copy_out(pinned.data(), from, n * sizeof(T));
  synchronize();
  return {pinned.data(), pinned.data() + n};
}

template <class T>
void SimtDevice::write(T* to, const std::vector<T>& values) {
  const specbound::PinnedMemory<T> pinned(*this, values.size());
  std::copy(values.begin(), values.end(), pinned.data());
  copy_in(to, pinned.data(), values.size() * sizeof(T));
  synchronize();
}

}  // namespace simt
