#include "tools/bench_model.h"

#include <algorithm>
#include <map>

#include "engine/cpu/cpu_topology.h"
#include "engine/cpu/kv_cache.h"
#include "error.h"
#include "runtime/gpu.h"
#include "system/machine.h"
#include "terminal/progress.h"

namespace specbound {

namespace {

// The type that holds most bytes.
std::string main_type(const Gguf& gguf) {
  std::map<std::string, uint64_t> bytes;
  for (const GgufTensor& tensor : gguf.tensors()) {
    bytes[dtype_info(tensor.type)->name] += tensor.bytes.size();
  }
  std::string most;
  for (const auto& [type, n] : bytes) {
    if (most.empty() || n > bytes[most]) most = type;
  }
  return most;
}

}  // namespace

nlohmann::ordered_json BenchModel::json() const {
  return {{"model_filename", path},       {"model_type", name}, {"model_size", bytes},
          {"model_n_params", parameters}, {"backend", backend}, {"device", device},
          {"n_threads", threads}};
}

std::string BenchModel::size_text() const {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? format("%.2f MiB", mib) : format("%.2f GiB", mib / 1024);
}

std::string BenchModel::parameters_text() const {
  const double millions = 1e-6 * static_cast<double>(parameters);
  return millions < 1000 ? format("%.2f M", millions) : format("%.2f B", millions / 1000);
}

BenchModel bench_model(LoadedModel& model, const ModelOptions& options) {
  BenchModel out;
  out.path = model.path();
  out.name = format("%s %dL %s", model.config().architecture.c_str(), model.config().n_layers,
                    main_type(model.gguf()).c_str());
  for (const GgufTensor& tensor : model.gguf().tensors()) {
    uint64_t n = 1;
    for (const uint64_t size : tensor.shape) n *= size;
    out.parameters += n;
    out.bytes += tensor.bytes.size();
  }
  const bool gpu = model.backend().samples_on_device();  // whole
  out.backend = gpu ? "CUDA" : model.backend().gpu() ? "CUDA+CPU" : "CPU";
  out.device = model.backend().device();
  out.threads = gpu ? 0 : options.n_threads ? options.n_threads : usable_cores();
  return out;
}

ModelBytes model_bytes(const ModelConfig& c, bool int8, KvType kv) {
  const auto matrix = [&](double n_out, double n_in) {
    return int8 ? n_out * n_in * 34 / 32 : n_out * n_in * 2;
  };
  ModelBytes bytes;
  bytes.n_layers = c.n_layers;
  bytes.layer = matrix(c.q_dim() + 2.0 * c.kv_dim(), c.dim) + matrix(c.dim, c.q_dim()) +
                3 * matrix(c.ffn_dim, c.dim) * std::max(c.n_experts_used, 1) +
                matrix(c.n_experts, c.dim) + 2.0 * c.dim * sizeof(float);
  bytes.lm_head = matrix(c.vocab_size, c.dim);
  bytes.kv_position = static_cast<double>(kv_position_bytes(c, kv));
  return bytes;
}

ModelBytes model_bytes(LoadedModel& model, const ModelOptions& options) {
  const GpuDtype dtype = options.device.dtype;
  ModelBytes bytes = model_bytes(model.config(), dtype == GpuDtype::kInt8, options.device.kv);
  if (model.backend().samples_on_device() && dtype != GpuDtype::kAsStored) return bytes;
  bytes.lm_head = static_cast<double>(model.weights().lm_head.run_bytes());
  bytes.layer = (static_cast<double>(model.weights().bytes_per_token()) - bytes.lm_head) /
                model.config().n_layers;
  return bytes;
}

ModelOptions options_of(const BenchOptions& options, const std::string& path, int n_ctx) {
  ModelOptions one = options.model;
  one.model = path;
  one.n_ctx = n_ctx;
  return one;
}

void check_models(const BenchOptions& options, int n_ctx) {
  if (options.models.size() < 2) return;
  for (const std::string& path : options.models) {
    LoadedModel(options_of(options, path, n_ctx), terminal_watcher());
  }
}

BenchMachine bench_machine(Backend& backend, int n_threads) {
  BenchMachine machine;
  if (backend.samples_on_device()) {  // a model whose rest the CPU runs waits for that
    Device* gpu = backend.gpu();
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
    machine.cache_bytes = info.l2_bytes;
    machine.gpu = true;
    machine.read_bandwidth = [&engine, gpu](size_t) { return engine.read_bandwidth(*gpu, 0.1); };
    return machine;
  }
  const CpuInfo cpu = read_cpu_info();
  machine.hardware = {{"device", cpu.model}, {"cores", cpu.physical_cores}};
  machine.cache_bytes = cpu.last_cache_bytes;
  const int threads = n_threads ? n_threads : usable_cores();
  machine.read_bandwidth = [threads](size_t bytes) {
    return measure_read_bandwidth(threads, bytes, 0.05);
  };
  return machine;
}

BandwidthSamples::BandwidthSamples(const BenchMachine& machine, double token_bytes)
    : machine_(machine),
      // Beyond twice the largest cache more bytes are read no slower.
      bytes_(std::min(static_cast<size_t>(token_bytes),
                      std::max(size_t{64} << 20, 2 * machine.cache_bytes))),
      cached_(bytes_ < 2 * machine.cache_bytes) {
  machine_.read_bandwidth(bytes_);  // the first one is not counted
}

ReadBandwidth BandwidthSamples::result() const {
  return {spread_of(samples_), bytes_, cached_, !(cached_ && machine_.gpu)};
}

std::optional<double> ReadBandwidth::share(double bytes_per_second) const {
  if (!comparable || !known()) return std::nullopt;
  return bytes_per_second / rate.median;
}

nlohmann::ordered_json ReadBandwidth::json() const {
  if (!known()) return nullptr;
  nlohmann::ordered_json json = spread_json(rate);
  json["buffer_bytes"] = buffer_bytes;
  json["cached"] = cached;
  return json;
}

std::string ReadBandwidth::text() const {
  if (!known()) return "read bandwidth unknown: too little memory is free to measure it";
  std::string text = format("read bandwidth %.1f GB/s (%.1f - %.1f)", 1e-9 * rate.median,
                            1e-9 * rate.min, 1e-9 * rate.max);
  if (!comparable) return text + "; the weights lie in the cache, which is faster";
  if (!cached) return text;
  return text + format(" of the %.1f MB that a token reads: a cache holds them, at least in part",
                       1e-6 * static_cast<double>(buffer_bytes));
}

}  // namespace specbound
