// Anonymous mappings, and how much memory there is for them.
#include "engine/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "engine/cgroup.h"
#include "error.h"

namespace specbound {
namespace {

// What the machine has; all that can be where it does not say.
size_t machine_free() {
  std::ifstream file("/proc/meminfo");
  std::string label;
  for (size_t kilobytes = 0; file >> label >> kilobytes;) {
    if (label == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, label);  // the unit
  }
  return std::numeric_limits<size_t>::max();
}

}  // namespace

size_t memory_free() {
  const size_t free = machine_free();
  return std::min<size_t>(free, cgroup_memory().free_bytes.value_or(free));
}

void require_memory(size_t needed, const std::string& what) {
  const size_t available = memory_free();
  if (needed <= available) return;
  throw Error(
      ErrorCode::kLimit,
      format("not enough memory: %.1f MB needed (%s), %.1f MB free; a smaller context (-c) or "
             "model would help",
             static_cast<double>(needed) / 1e6, what.c_str(),
             static_cast<double>(available) / 1e6));
}

void* map_pages(size_t bytes, const char* what, PageSize page_size) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    throw Error(ErrorCode::kLimit,
                format("no memory for the %s: %.1f MB asked of the system: %s", what,
                       static_cast<double>(bytes) / 1e6, std::strerror(errno)));
  }
  // Advice: kernels without huge pages run as well, a little slower.
  if (page_size == PageSize::kHuge) madvise(p, size, MADV_HUGEPAGE);
  return p;
}

void unmap_pages(void* p, size_t bytes) {
  munmap(p, std::max<size_t>(bytes, 1));
}

void give_back_pages(void* p, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(p);
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace specbound
