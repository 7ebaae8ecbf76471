#include "system/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "engine/cgroup.h"
#include "engine/cpu/cpu_topology.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"
#include "error.h"
#include "system/number_text.h"

namespace specbound {

namespace {

// The first line of a small file of the system; empty if there is none.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value behind `key` in files of "key : value" lines.
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

// "65536 kB" in /proc/meminfo, "32768K" in sysfs.
uint64_t kilobytes(const std::string& text) {
  const std::optional<uint64_t> n =
      parse_uint(text.substr(0, text.find_first_not_of("0123456789")));
  return n.value_or(0) * 1024;
}

size_t largest_cache() {
  size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string size =
        first_line(format("/sys/devices/system/cpu/cpu0/cache/index%d/size", index));
    largest = std::max<size_t>(largest, kilobytes(size));
  }
  return largest;
}

}  // namespace

int count_cpu_list(const std::string& list) {
  std::istringstream ranges(list);
  int64_t count = 0;
  for (std::string range; std::getline(ranges, range, ',');) {
    const size_t dash = range.find('-');
    const std::optional<uint64_t> first = parse_uint(range.substr(0, dash));
    const std::optional<uint64_t> last =
        dash == std::string::npos ? first : parse_uint(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last > 1 << 20) return 0;
    count += static_cast<int64_t>(*last - *first) + 1;
  }
  return static_cast<int>(count);
}

std::string cpu_model() {
  return value_of("/proc/cpuinfo", "model name");
}

CpuInfo read_cpu_info() {
  CpuInfo info;
  info.model = cpu_model();
  const std::string root = "/sys/devices/system/cpu/";
  info.logical_cores = count_cpu_list(first_line(root + "online"));
  std::set<std::string> cores;  // the set of sibling threads names a core
  for (int cpu = 0; cpu < info.logical_cores; ++cpu) {
    const std::string siblings =
        first_line(root + format("cpu%d/topology/thread_siblings_list", cpu));
    if (!siblings.empty()) cores.insert(siblings);
  }
  info.usable_threads = usable_cpus();
  if (info.logical_cores == 0) info.logical_cores = info.usable_threads;
  info.physical_cores = cores.empty() ? info.logical_cores : static_cast<int>(cores.size());
  info.cgroup_cores = cgroup_cores();
  info.last_cache_bytes = largest_cache();
  return info;
}

MemoryInfo read_memory_info() {
  MemoryInfo info;
  info.total_bytes = kilobytes(value_of("/proc/meminfo", "MemTotal"));
  info.available_bytes = kilobytes(value_of("/proc/meminfo", "MemAvailable"));
  const CgroupMemory group = cgroup_memory();
  info.cgroup_limit_bytes = group.limit_bytes;
  info.cgroup_free_bytes = group.free_bytes;
  return info;
}

double measure_read_bandwidth(int n_threads, size_t buffer_bytes, double seconds) {
  constexpr size_t kStep = 128;              // of Kernels::read_all
  constexpr size_t kLook = size_t{1} << 18;  // values, some microseconds
  const Kernels& kernels = kernels_for(best_isa());
  const size_t each = std::max<size_t>(
      buffer_bytes / sizeof(float) / static_cast<size_t>(n_threads) / kStep * kStep, kStep);
  const size_t mapped = each * static_cast<size_t>(n_threads) * sizeof(float);
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kLimit, format("no memory for a probe of %zu MB", mapped >> 20));
  }
  madvise(memory, mapped, MADV_HUGEPAGE);

  using Clock = std::chrono::steady_clock;
  std::atomic<int> sink{0};
  std::vector<double> rates(static_cast<size_t>(n_threads));
  ThreadPool pool(n_threads);
  pool.run([&](int thread) {
    float* values = static_cast<float*>(memory) + each * static_cast<size_t>(thread);
    std::fill_n(values, each, 1.0f);
    pool.barrier();
    size_t passes = 0;
    float sum = 0;
    const Clock::time_point start = Clock::now();
    double elapsed = 0;
    while (elapsed < seconds) {
      // What fits into a cache is read several times between two looks at the clock.
      for (size_t read = 0; read < kLook; read += each, ++passes) {
        sum += kernels.read_all(values, each);
      }
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    sink += sum > 0 ? 1 : 0;  // so that the reading is not left out
    rates[static_cast<size_t>(thread)] =
        static_cast<double>(passes * each * sizeof(float)) / elapsed;
  });
  munmap(memory, mapped);
  double total = 0;
  for (double rate : rates) total += rate;
  return total;
}

}  // namespace specbound
