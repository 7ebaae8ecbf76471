// Read from the scheduler, /sys and the control groups.
#include "engine/cpu/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/cgroup.h"
#include "error.h"

namespace specbound {
namespace {

// Those that this process may run on; none where the system does not say.
std::vector<int> allowed_cpus() {
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  constexpr int kMost = 1 << 20;
  // The system refuses a set with less room than it has CPUs.
  for (int n = CPU_SETSIZE; n <= kMost; n *= 2) {
    const std::unique_ptr<cpu_set_t, Free> set(CPU_ALLOC(n));
    const size_t bytes = CPU_ALLOC_SIZE(n);
    if (!set) break;
    if (sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> cpus;
      for (int cpu = 0; cpu < n; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
      }
      return cpus;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

// At least one, and no more than the quota is worth, rounded up.
int within_quota(size_t cpus) {
  const double quota = std::ceil(cgroup_cores().value_or(static_cast<double>(cpus)));
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cpus), quota)));
}

}  // namespace

int usable_cpus() {
  return within_quota(allowed_cpus().size());
}

int usable_cores() {
  std::set<std::string> cores;  // the sibling list names a core
  for (const int cpu : allowed_cpus()) {
    std::ifstream file(format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu));
    std::string siblings;
    cores.insert(std::getline(file, siblings) ? siblings : format("cpu%d", cpu));
  }
  return within_quota(cores.size());
}

}  // namespace specbound
