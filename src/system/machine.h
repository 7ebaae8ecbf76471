// What this machine offers, read from the system and measured: for `doctor`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace specbound {

std::string cpu_model();  // its name; empty if the system does not say

struct CpuInfo {
  std::string model;       // cpu_model()
  int physical_cores = 0;  // of the machine
  int logical_cores = 0;
  int usable_threads = 0;              // this process may run on: affinity mask, quota
  std::optional<double> cgroup_cores;  // the container's CPU quota, where there is one
  size_t last_cache_bytes = 0;         // the largest cache; 0 if unknown
};
CpuInfo read_cpu_info();

struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  std::optional<uint64_t> cgroup_limit_bytes;
  std::optional<uint64_t> cgroup_free_bytes;  // see engine/cgroup.h

  uint64_t free_bytes() const {
    return std::min(available_bytes, cgroup_free_bytes.value_or(available_bytes));
  }
};
MemoryInfo read_memory_info();

// Bytes per second that `n_threads` together read from a buffer of `buffer_bytes` over about
// `seconds`, as the engine reads weights: by its widest loads, each thread of a pool through a
// share of its own again and again. Throws Error(kLimit) when the buffer cannot be had.
double measure_read_bandwidth(int n_threads, size_t buffer_bytes, double seconds);

// A list such as "0-3,8,10-11" as sysfs prints it: how many numbers it holds; 0 if it is malformed.
int count_cpu_list(const std::string& list);

}  // namespace specbound
