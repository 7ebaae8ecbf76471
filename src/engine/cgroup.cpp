// Read from /proc/self/cgroup and /sys/fs/cgroup.
#include "engine/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace specbound {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = "/sys/fs/cgroup";

// Innermost first, up to the root of the hierarchy.
std::vector<fs::path> cgroup_folders() {
  std::ifstream file("/proc/self/cgroup");
  fs::path group = "/";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) group = line.substr(3);
  }
  std::vector<fs::path> folders;
  for (fs::path p = group.relative_path(); !p.empty(); p = p.parent_path()) {
    folders.push_back(kRoot / p);
  }
  folders.push_back(kRoot);
  return folders;
}

// Nothing for "max", and where there is no such file.
std::optional<uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

uint64_t file_bytes(const fs::path& folder) {
  std::ifstream file(folder / "memory.stat");
  std::string key;
  uint64_t all = 0;
  for (uint64_t bytes = 0; file >> key >> bytes;) {
    if (key == "inactive_file" || key == "active_file") all += bytes;
  }
  return all;
}

template <class T>
void lower(std::optional<T>& least, T value) {
  least = least ? std::min(*least, value) : value;
}

}  // namespace

std::optional<double> cgroup_cores() {
  std::optional<double> least;
  const auto take = [&least](std::optional<uint64_t> quota, std::optional<uint64_t> period) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    lower(least, static_cast<double>(*quota) / static_cast<double>(*period));
  };
  for (const fs::path& folder : cgroup_folders()) {
    std::ifstream file(folder / "cpu.max");  // "max 100000" or "150000 100000", in microseconds
    uint64_t quota = 0, period = 0;
    if (file >> quota >> period) take(quota, period);
  }
  take(number_in(kRoot / "cpu/cpu.cfs_quota_us"),  // version 1
       number_in(kRoot / "cpu/cpu.cfs_period_us"));
  return least;
}

CgroupMemory cgroup_memory() {
  CgroupMemory memory;
  for (const fs::path& folder : cgroup_folders()) {
    const std::optional<uint64_t> limit = number_in(folder / "memory.max");
    if (!limit) continue;
    const uint64_t all = number_in(folder / "memory.current").value_or(0);
    const uint64_t used = all - std::min(all, file_bytes(folder));
    lower(memory.limit_bytes, *limit);
    lower(memory.free_bytes, *limit - std::min(*limit, used));
  }
  return memory;
}

}  // namespace specbound
