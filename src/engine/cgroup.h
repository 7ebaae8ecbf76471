// What the control groups of this process leave it, of version 1, 2 or both: a limit may be set at
// any of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace specbound {

// Where the system shows them.
struct CgroupFiles {
  std::filesystem::path groups = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

// The least quota, in cores; nothing where there is none.
std::optional<double> cgroup_cores(const CgroupFiles& files = {});

struct CgroupMemory {
  std::optional<uint64_t> limit_bytes;  // the least
  // What its groups leave, each below its limit: the least. What the system gives back before
  // anything is killed, pages of files above all, counts as left.
  std::optional<uint64_t> free_bytes;
};
CgroupMemory cgroup_memory(const CgroupFiles& files = {});

}  // namespace specbound
