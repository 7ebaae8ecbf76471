// Read from the scheduler, /sys and /sys/fs/cgroup.
#include "engine/cpu/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>

#include "error.h"

namespace specbound {
namespace {

// CPUs the cgroup's quota is worth, rounded up; a large number without one.
int quota_cpus() {
  int cpus = 1 << 20;
  if (FILE* f = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    double quota = 0, period = 0;
    if (std::fscanf(f, "%lf %lf", &quota, &period) == 2 && period > 0) {
      cpus = std::max(1, static_cast<int>(std::ceil(quota / period)));
    }
    std::fclose(f);
  }
  return cpus;
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(allowed, quota_cpus()));
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  std::set<std::string> cores;  // the sibling list names a core
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    char siblings[256] = "";
    const std::string path =
        format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (FILE* f = std::fopen(path.c_str(), "r")) {
      if (!std::fgets(siblings, sizeof siblings, f)) siblings[0] = 0;
      std::fclose(f);
    }
    cores.insert(siblings[0] ? siblings : format("cpu%d", cpu));
  }
  return std::max(1, std::min(static_cast<int>(cores.size()), quota_cpus()));
}

}  // namespace specbound
