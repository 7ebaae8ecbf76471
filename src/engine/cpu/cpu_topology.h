// How many cores this process may use.
#pragma once

namespace specbound {

// Logical CPUs in this process's affinity mask, cut to its cgroup's quota; at least 1.
int usable_cpus();
// The same, hyper-threads of one core counted once: decoding is bound by memory, not by threads.
int usable_cores();

}  // namespace specbound
