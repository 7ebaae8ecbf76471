// What the control groups of this process leave it: a limit may be set at any of them.
#pragma once

#include <cstdint>
#include <optional>

namespace specbound {

// The least quota, in cores; nothing where there is none.
std::optional<double> cgroup_cores();

struct CgroupMemory {
  std::optional<uint64_t> limit_bytes;  // the least
  // What its groups leave, each below its limit: the least. Pages of files count against a group
  // too, but are given back before anything is killed.
  std::optional<uint64_t> free_bytes;
};
CgroupMemory cgroup_memory();

}  // namespace specbound
