// specbound doctor: what this machine offers and what will be used of it.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/settings_file.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/cpu_topology.h"
#include "engine/cuda/cublas.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "json/json_writer.h"
#include "library/model_advice.h"
#include "library/model_path.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "runtime/gpu.h"
#include "runtime/gpu_fit.h"
#include "system/machine.h"
#include "terminal/progress.h"

namespace specbound::doctor_command {

namespace {

using Json = nlohmann::ordered_json;
using State = GpuSurvey::State;

constexpr double kProbeSeconds = 0.2;

// ---- GPUs ----

// One that can run the kernels, opened and measured as far as it goes.
struct GpuFinding {
  DeviceInfo info;
  std::optional<size_t> free_bytes;
  std::optional<double> read_bandwidth;  // bytes a second
  std::optional<int> context;            // of the bundled model: the most positions that fit,
  std::optional<int> context_int8;       // and with K/V of 8 bits
  int model_context = 0;                 // what that model has
  std::optional<int> layers;  // of it, the most that fit with the context that it gets by itself
  int model_layers = 0;       // what it has, and the output
  std::string failure;        // where it went no further
};

struct GpuFindings {
  GpuSurvey survey;
  std::string cublas;  // empty: none, or not looked for
  std::vector<GpuFinding> gpus;
};

// How much of the bundled model's context fits, or how many of its layers.
void fit_model(const std::string& model, GpuFinding& gpu) {
  const Gguf gguf = Gguf::open(model);
  const ModelConfig config = read_config(gguf);
  const Weights weights = map_weights(gguf, config);
  if (!why_not_on_gpu(config, weights, GpuDtype::kAsStored).empty()) return;
  const GpuFit fit = fit_on_gpu(gguf, config, weights, *gpu.free_bytes);
  gpu.model_context = config.max_seq_len;
  gpu.context = fit.context;
  gpu.context_int8 = fit.context_int8;
  gpu.model_layers = config.n_layers + 1;
  gpu.layers = fit.layers;
}

GpuFinding examine(const DeviceInfo& info, const std::string& bundled_model) {
  GpuFinding gpu;
  gpu.info = info;
  try {
    const std::unique_ptr<Device> device = gpu_engine().open(info.index);
    gpu.info = device->info();
    gpu.free_bytes = device->free_bytes();
    gpu.read_bandwidth = gpu_engine().read_bandwidth(*device, kProbeSeconds);
    if (!bundled_model.empty()) fit_model(bundled_model, gpu);
  } catch (const Error& e) {
    gpu.failure = e.what();
  }
  return gpu;
}

const char* state_name(State state) {
  constexpr const char* kNames[] = {"not-built", "no-driver", "old-driver", "no-gpu", "ready"};
  static_assert(std::size(kNames) == static_cast<size_t>(State::kReady) + 1);
  return kNames[static_cast<size_t>(state)];
}

double gigabytes(uint64_t bytes) {
  return 1e-9 * static_cast<double>(bytes);
}

void add_lines(const GpuFinding& gpu, std::vector<std::string>& lines) {
  const DeviceInfo& info = gpu.info;
  lines.push_back(format("cuda:%d %s, compute capability %d.%d, %d multiprocessors", info.index,
                         info.name.c_str(), info.sm / 10, info.sm % 10, info.multiprocessors));
  std::string line = format("%.1f GB", gigabytes(info.total_bytes));
  if (gpu.free_bytes) line += format(", %.1f GB free", gigabytes(*gpu.free_bytes));
  if (gpu.read_bandwidth) line += format(", %.1f GB/s read", 1e-9 * *gpu.read_bandwidth);
  if (!info.kernels.empty()) line += ", kernels: " + info.kernels;
  lines.push_back(line);
  if (gpu.context) {
    const int most = gpu.model_context;
    const bool more = *gpu.context_int8 > *gpu.context;
    lines.push_back("bundled model: " +
                    (*gpu.context >= most ? format("its whole context of %d positions fits", most)
                     : *gpu.context > 0   ? format("%d of its %d positions fit", *gpu.context, most)
                                          : std::string("does not fit")) +
                    (more ? format(", %d with --kv int8", *gpu.context_int8) : ""));
  }
  if (gpu.layers && *gpu.layers > 0) {
    lines.push_back(*gpu.layers == gpu.model_layers
                        ? "-ngl all: it fits whole"
                        : format("-ngl %d: so many of its %d layers fit, the CPU runs the rest",
                                 *gpu.layers, gpu.model_layers - 1));
  }
  if (!gpu.failure.empty()) lines.push_back("failed: " + gpu.failure);
}

// `bundled_model`: its file; empty: there is none.
GpuFindings examine_gpus(const std::string& bundled_model) {
  GpuFindings findings;
  findings.survey = gpu_engine().survey();
  if (findings.survey.state != State::kReady) return findings;
  findings.cublas = cublas_found();
  for (const DeviceInfo& info : findings.survey.gpus) {
    findings.gpus.push_back(examine(info, bundled_model));
  }
  return findings;
}

std::vector<std::string> gpu_lines(const GpuFindings& findings) {
  if (findings.survey.state == State::kNotBuilt) {
    return {"none: " + findings.survey.why_not +
            "; CUDA toolkit 13 makes one that has (docs/cuda.md)"};
  }
  if (findings.survey.state != State::kReady) return {"none: " + findings.survey.why_not};
  std::vector<std::string> lines;
  for (const GpuFinding& gpu : findings.gpus) add_lines(gpu, lines);
  const GpuSurvey& survey = findings.survey;
  lines.push_back(format(
      "driver %s (CUDA %d.%d), %s", survey.driver.empty() ? "unknown" : survey.driver.c_str(),
      survey.driver_cuda / 1000, survey.driver_cuda % 1000 / 10,
      findings.cublas.empty() ? "no cuBLAS: train-heads runs on the CPU, no --prefill cublas"
                              : findings.cublas.c_str()));
  return lines;
}

Json gpu_findings_json(const GpuFindings& findings) {
  const GpuSurvey& survey = findings.survey;
  Json gpus = Json::array();
  for (const GpuFinding& gpu : findings.gpus) {
    const DeviceInfo& info = gpu.info;
    gpus.push_back({{"index", info.index},
                    {"name", info.name},
                    {"compute_capability", format("%d.%d", info.sm / 10, info.sm % 10)},
                    {"multiprocessors", info.multiprocessors},
                    {"total_bytes", info.total_bytes},
                    {"free_bytes", or_null(gpu.free_bytes)},
                    {"read_bytes_per_second", or_null(gpu.read_bandwidth)},
                    {"kernels", or_null(info.kernels)},
                    {"bundled_model_context", or_null(gpu.context)},
                    {"bundled_model_context_kv_int8", or_null(gpu.context_int8)},
                    {"bundled_model_layers", or_null(gpu.layers)},
                    {"failure", or_null(gpu.failure)}});
  }
  return {{"backend_in_this_build", gpu_engine().built()},
          {"state", state_name(survey.state)},
          {"why_not", or_null(survey.why_not)},
          {"driver", or_null(survey.driver)},
          {"cuda_version", survey.driver_cuda > 0 ? Json(survey.driver_cuda) : Json(nullptr)},
          {"cublas", or_null(findings.cublas)},
          {"gpus", gpus}};
}

// ---- the whole machine ----

// Of the one that runs models by itself: the first GPU, else the CPU.
struct Recommendation {
  std::string device;  // "cuda:0", "cpu"
  ModelAdvice advice;
};

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

Recommendation recommend(const Findings& f) {
  for (const GpuFinding& gpu : f.gpus.gpus) {
    if (!gpu.free_bytes || !gpu.read_bandwidth) continue;
    return {format("cuda:%d", gpu.info.index),
            advised_model({*gpu.free_bytes, *gpu.read_bandwidth})};
  }
  return {"cpu", advised_model({f.memory.free_bytes(), f.bandwidth_all})};
}

// "specbound chat -m qwen3:4b", and why.
std::vector<std::string> recommendation_lines(const Findings& f) {
  const auto [device, advice] = recommend(f);
  const ShortName& model = *advice.model;
  const std::string runs_on =
      device == "cpu" ? format("%d thread%s", f.n_threads, f.n_threads == 1 ? "" : "s") : device;
  return {format("specbound chat -m %s", model.name),
          format("%s, on %s at most %.0f tokens a second without speculation; files of up to "
                 "%.1f GB fit",
                 size_text(model).c_str(), runs_on.c_str(), advice.tokens_per_second,
                 gigabytes(advice.largest_file)),
          "faster still with draft heads: specbound train-heads -m MODEL makes them, or idle "
          "time does"};
}

Json recommendation_json(const Findings& f) {
  const auto [device, advice] = recommend(f);
  return {{"model", advice.model->name},
          {"device", device},
          {"threads", f.n_threads},
          {"most_tokens_per_second", advice.tokens_per_second},
          {"largest_file_bytes", advice.largest_file}};
}

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
    f.bundled_model = find_model(model, terminal_watcher());
    std::error_code ignored;
    f.bundled_bytes = std::filesystem::file_size(f.bundled_model, ignored);
    if (ignored) f.bundled_bytes = 0;
  } catch (const Error&) {
    if (!model.empty()) throw;
    // That the bundled one is not found is a finding too.
  }
  if (!model.empty()) Gguf::open(f.bundled_model);  // throws where it is no model
  f.gpus = examine_gpus(f.bundled_model);
  return f;
}

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (Isa isa : kIsas) {
    if (isa_supported(isa)) names.emplace_back(isa_name(isa));
  }
  std::ranges::reverse(names);  // the fastest first
  return names;
}

void print_text(const Findings& f) {
  const auto row = [](const char* name, const std::string& text) {
    std::printf("%-10s %s\n", name, text.c_str());
  };
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
  name = "try";
  for (const std::string& line : recommendation_lines(f)) row(std::exchange(name, ""), line);
}

void print_json(const Findings& f) {
  const Json json = {
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
      {"recommendation", recommendation_json(f)},
  };
  std::printf("%s\n", dump(json, 2).c_str());
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
     .text = "What this machine offers: CPU, kernels, memory, measured bandwidth, GPU, model; and "
             "which model to try on it.",
     .footer = "Examples:\n"
               "  specbound doctor\n"
               "  specbound doctor --json > machine.json"},
    declare, run);

}  // namespace

}  // namespace specbound::doctor_command
