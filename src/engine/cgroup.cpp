#include "engine/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNoLimit = uint64_t{1} << 60;  // version 1 has none that is called so

struct Folder {
  fs::path path;
  bool first_version;
};

// A line of `groups` is "ID:CONTROLLERS:PATH", of version 2 "0::PATH", whose tree stands at the
// root or beside those of version 1. Innermost first, up to the root of each tree.
std::vector<Folder> folders_of(const CgroupFiles& files, std::string_view controller) {
  std::vector<Folder> folders;
  const auto add = [&folders](const fs::path& tree, const fs::path& group, bool first_version) {
    for (fs::path p = group.relative_path(); !p.empty(); p = p.parent_path()) {
      folders.push_back({tree / p, first_version});
    }
    folders.push_back({tree, first_version});
  };
  std::ifstream lines(files.groups);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* tree : {"", "unified"}) add(files.root / tree, group, false);
    } else if (("," + controllers + ",").find("," + std::string(controller) + ",") !=
               std::string::npos) {
      add(files.root / controllers, group, true);
      if (controllers != controller) add(files.root / controller, group, true);
    }
  }
  return folders;
}

// Nothing for "max" and "-1".
std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Of a small file; nothing where there is none.
std::optional<uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return number_of(word);
}

uint64_t sum_of(const fs::path& statistics, std::initializer_list<std::string_view> keys) {
  std::ifstream file(statistics);
  std::string key;
  uint64_t all = 0;
  for (uint64_t bytes = 0; file >> key >> bytes;) {
    if (std::ranges::count(keys, key) > 0) all += bytes;
  }
  return all;
}

template <class T>
void lower(std::optional<T>& least, T value) {
  least = least ? std::min(*least, value) : value;
}

}  // namespace

std::optional<double> cgroup_cores(const CgroupFiles& files) {
  std::optional<double> least;
  for (const auto& [path, first_version] : folders_of(files, "cpu")) {
    std::optional<uint64_t> quota, period;  // microseconds
    if (first_version) {
      quota = number_in(path / "cpu.cfs_quota_us");
      period = number_in(path / "cpu.cfs_period_us");
    } else {
      std::ifstream file(path / "cpu.max");
      std::string first, second;
      file >> first >> second;
      quota = number_of(first);
      period = number_of(second);
    }
    if (!quota || !period || *quota == 0 || *period == 0) continue;
    lower(least, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  return least;
}

CgroupMemory cgroup_memory(const CgroupFiles& files) {
  CgroupMemory memory;
  for (const auto& [path, first_version] : folders_of(files, "memory")) {
    const auto limit = number_in(path / (first_version ? "memory.limit_in_bytes" : "memory.max"));
    if (!limit || *limit >= kNoLimit) continue;
    const uint64_t all =
        number_in(path / (first_version ? "memory.usage_in_bytes" : "memory.current")).value_or(0);
    const fs::path statistics = path / "memory.stat";
    const uint64_t given_back =
        first_version ? sum_of(statistics, {"total_inactive_file", "total_active_file"})
                      : sum_of(statistics, {"inactive_file", "active_file", "slab_reclaimable"});
    const uint64_t used = all - std::min(all, given_back);
    lower(memory.limit_bytes, *limit);
    lower(memory.free_bytes, *limit - std::min(*limit, used));
  }
  return memory;
}

}  // namespace specbound
