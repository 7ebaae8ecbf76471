#include "app/bench_machine.h"

#include <algorithm>

#include "app/gpu.h"
#include "app/machine.h"
#include "error.h"

namespace specbound {

BenchMachine bench_machine(Backend& backend, int n_threads) {
  BenchMachine machine;
  if (Device* gpu = backend.gpu()) {
    const GpuEngine& engine = gpu_engine();
    const DeviceInfo info = gpu->info();
    const GpuSurvey survey = engine.survey();
    machine.hardware = {{"device", info.name},
                        {"sm", info.sm},
                        {"multiprocessors", info.multiprocessors},
                        {"memory_bytes", info.total_bytes},
                        {"l2_bytes", info.l2_bytes},
                        {"driver", survey.driver},
                        {"driver_cuda", survey.driver_cuda}};
    machine.read_bandwidth = [&engine, gpu] { return engine.read_bandwidth(*gpu, 0.1); };
    return machine;
  }
  const CpuInfo cpu = read_cpu_info();
  machine.hardware = {{"device", cpu.model}, {"cores", cpu.physical_cores}};
  const int threads = n_threads ? n_threads : std::max(1, cpu.usable_threads);
  const size_t buffer = std::max(size_t{64} << 20, 2 * cpu.last_cache_bytes);
  machine.read_bandwidth = [threads, buffer] {
    return measure_read_bandwidth(threads, buffer, 0.05);
  };
  return machine;
}

std::string bandwidth_text(const Spread& bandwidth) {
  return format("read bandwidth %.1f GB/s (%.1f - %.1f)", 1e-9 * bandwidth.median,
                1e-9 * bandwidth.min, 1e-9 * bandwidth.max);
}

}  // namespace specbound
