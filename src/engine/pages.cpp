// Anonymous mappings, refused up front when they cannot fit: an overcommitted allocation would end
// in the kernel's killing the process halfway through a reply.
#include "engine/pages.h"

#include <sys/mman.h>

#include <cstdio>
#include <limits>

#include "error.h"

namespace specbound {
namespace {

// MemAvailable of /proc/meminfo in bytes; the largest number where that cannot be read.
size_t memory_available() {
  size_t kilobytes = std::numeric_limits<size_t>::max() / 1024;
  if (FILE* f = std::fopen("/proc/meminfo", "r")) {
    char line[128];
    while (std::fgets(line, sizeof line, f)) {
      if (std::sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) break;
    }
    std::fclose(f);
  }
  return kilobytes * 1024;
}

}  // namespace

void* map_pages(size_t bytes, const char* what) {
  const size_t available = memory_available();
  void* p = MAP_FAILED;
  if (bytes <= available) {
    p = mmap(nullptr, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0);
  }
  if (p == MAP_FAILED) {
    throw Error(
        ErrorCode::kLimit,
        format("not enough memory for the %s: %.1f MB needed, %.1f MB free; a smaller context "
               "(-c) or model would help",
               what, static_cast<double>(bytes) / 1e6, static_cast<double>(available) / 1e6));
  }
  madvise(p, bytes, MADV_HUGEPAGE);  // advice: kernels without it run as well, a little slower
  return p;
}

void unmap_pages(void* p, size_t bytes) {
  munmap(p, bytes ? bytes : 1);
}

}  // namespace specbound
