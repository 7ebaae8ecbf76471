// specbound doctor: what this machine offers and what will be used of it.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/settings_file.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/cpu_topology.h"
#include "error.h"
#include "json/or_null.h"
#include "runtime/gpu_findings.h"
#include "runtime/machine.h"
#include "runtime/model_path.h"

namespace specbound::doctor_command {

namespace {

constexpr double kProbeSeconds = 0.2;

struct Findings {
  CpuInfo cpu;
  MemoryInfo memory;
  int n_threads = 1;                            // of the second measurement
  double bandwidth_one = 0, bandwidth_all = 0;  // bytes per second
  std::string bundled_model;                    // empty if not found
  std::string settings;                         // the file that was read; empty: none
  uint64_t bundled_bytes = 0;
  GpuFindings gpus;
};

// Larger than the caches, but a small part of what is free.
size_t probe_bytes(const CpuInfo& cpu, const MemoryInfo& memory) {
  constexpr uint64_t kLeast = uint64_t{64} << 20, kMost = uint64_t{512} << 20;
  uint64_t bytes = std::clamp(uint64_t{4} * cpu.last_cache_bytes, kLeast, kMost);
  if (memory.available_bytes > 0) bytes = std::min(bytes, memory.available_bytes / 4);
  return std::max<uint64_t>(bytes, uint64_t{1} << 20);
}

Findings examine(const std::string& model) {
  Findings f;
  f.cpu = read_cpu_info();
  f.memory = read_memory_info();
  f.n_threads = usable_cores();  // what the engine takes by default
  const size_t bytes = probe_bytes(f.cpu, f.memory);
  f.bandwidth_one = measure_read_bandwidth(1, bytes, kProbeSeconds);
  f.bandwidth_all =
      f.n_threads > 1 ? measure_read_bandwidth(f.n_threads, bytes, kProbeSeconds) : f.bandwidth_one;
  try {
    f.bundled_model = find_model(model);
    std::error_code ignored;
    f.bundled_bytes = std::filesystem::file_size(f.bundled_model, ignored);
    if (ignored) f.bundled_bytes = 0;
  } catch (const Error&) {
    // Not found is a finding too.
  }
  f.gpus = examine_gpus(f.bundled_model);
  return f;
}

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (Isa isa : {Isa::kAvx512Vnni, Isa::kAvx2, Isa::kPortable}) {
    if (isa_supported(isa)) names.emplace_back(isa_name(isa));
  }
  return names;
}

void print_text(const Findings& f) {
  const auto row = [](const char* name, const std::string& text) {
    std::printf("%-10s %s\n", name, text.c_str());
  };
  const auto gigabytes = [](uint64_t bytes) { return 1e-9 * static_cast<double>(bytes); };
  std::string cpu = f.cpu.model.empty() ? "unknown model" : f.cpu.model;
  cpu += format(", %d cores, %d threads", f.cpu.physical_cores, f.cpu.logical_cores);
  if (f.cpu.usable_threads != f.cpu.logical_cores) {
    cpu += format(", %d usable here", f.cpu.usable_threads);
  }
  if (f.cpu.cgroup_cores) cpu += format(", container limit %.1f cores", *f.cpu.cgroup_cores);
  row("CPU", cpu);
  row("kernels",
      std::string(isa_name(best_isa())) + " (can run: " + joined(supported_isas()) + ")");
  std::string memory = format("%.1f GB, %.1f GB available", gigabytes(f.memory.total_bytes),
                              gigabytes(f.memory.available_bytes));
  if (f.memory.cgroup_limit_bytes) {
    memory += format(", container limit %.1f GB", gigabytes(*f.memory.cgroup_limit_bytes));
  }
  row("memory", memory);
  std::string bandwidth = format("%.1f GB/s read by one thread", 1e-9 * f.bandwidth_one);
  if (f.n_threads > 1)
    bandwidth += format(", %.1f GB/s by %d", 1e-9 * f.bandwidth_all, f.n_threads);
  row("bandwidth", bandwidth);
  const char* name = "GPU";
  for (const std::string& line : gpu_lines(f.gpus)) row(std::exchange(name, ""), line);
  row("model",
      f.bundled_model.empty()
          ? "bundled model not found: give one with -m FILE.gguf"
          : f.bundled_model + format(" (%.1f MB)", 1e-6 * static_cast<double>(f.bundled_bytes)));
  row("settings", f.settings.empty() ? "no file: " + shown_path(default_settings_path())
                                     : shown_path(f.settings));
}

void print_json(const Findings& f) {
  const nlohmann::ordered_json json = {
      {"version", SPECBOUND_VERSION},
      {"cpu",
       {{"model", or_null(f.cpu.model)},
        {"physical_cores", f.cpu.physical_cores},
        {"logical_cores", f.cpu.logical_cores},
        {"usable_threads", f.cpu.usable_threads},
        {"cgroup_cores", or_null(f.cpu.cgroup_cores)},
        {"kernels", isa_name(best_isa())},
        {"kernels_supported", supported_isas()}}},
      {"memory",
       {{"total_bytes", f.memory.total_bytes},
        {"available_bytes", f.memory.available_bytes},
        {"cgroup_limit_bytes", or_null(f.memory.cgroup_limit_bytes)}}},
      {"read_bandwidth",
       {{"one_thread_bytes_per_second", f.bandwidth_one},
        {"threads", f.n_threads},
        {"all_threads_bytes_per_second", f.bandwidth_all}}},
      {"gpu", gpu_findings_json(f.gpus)},
      {"bundled_model", or_null(f.bundled_model)},
      {"settings_file", or_null(f.settings)},
  };
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

struct DoctorFlags {
  std::string model, settings;
  bool json = false;
};

void declare(Flags& flags, DoctorFlags& given) {
  add_model_file(flags, given.model);
  flags.add_switch("--json", given.json, "as a JSON object").command_line_only();
  flags.add_check([&flags, &given] { given.settings = settings_path(flags); });
}

int run(DoctorFlags& given) {
  Findings findings = examine(given.model);
  findings.settings = given.settings;
  if (given.json) {
    print_json(findings);
  } else {
    print_text(findings);
  }
  return 0;
}

const CommandOf<DoctorFlags> kDoctor(
    {.rank = 160,
     .name = "doctor",
     .summary = "what this machine offers: CPU, GPU, memory, bandwidth",
     .text = "What this machine offers: CPU, kernels, memory, measured bandwidth, GPU, model.",
     .footer = "Examples:\n"
               "  specbound doctor\n"
               "  specbound doctor --json > machine.json"},
    declare, run);

}  // namespace

}  // namespace specbound::doctor_command
