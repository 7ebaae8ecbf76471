// Anonymous mappings, and how much memory there is for them.
#include "engine/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "error.h"

namespace specbound {
namespace {

constexpr size_t kUnknown = std::numeric_limits<size_t>::max();

// The number after `label` at the start of a line of `path`; kUnknown if there is none.
size_t read_number(const char* path, const char* label) {
  size_t value = kUnknown;
  if (FILE* f = std::fopen(path, "r")) {
    const size_t length = std::strlen(label);
    char line[128];
    while (value == kUnknown && std::fgets(line, sizeof line, f)) {
      if (std::strncmp(line, label, length) != 0) continue;
      if (std::sscanf(line + length, "%zu", &value) != 1) value = kUnknown;
    }
    std::fclose(f);
  }
  return value;
}

// Page cache counts against a cgroup too, but is given back before anything is killed.
size_t cgroup_free() {
  const size_t limit = read_number("/sys/fs/cgroup/memory.max", "");
  const size_t used = read_number("/sys/fs/cgroup/memory.stat", "anon ");
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  return limit - std::min(limit, used);
}

}  // namespace

size_t memory_free() {
  const size_t kilobytes = read_number("/proc/meminfo", "MemAvailable:");
  return std::min(kilobytes == kUnknown ? kUnknown : kilobytes * 1024, cgroup_free());
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
