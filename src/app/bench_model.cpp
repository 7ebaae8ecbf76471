#include "app/bench_model.h"

#include <map>

#include "engine/cpu/cpu_topology.h"
#include "error.h"

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

BenchModel bench_model(LoadedModel& model, const ModelFlags& flags) {
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
  const bool gpu = model.backend().gpu() != nullptr;
  out.backend = gpu ? "CUDA" : "CPU";
  out.device = model.backend().device();
  out.threads = gpu ? 0 : flags.n_threads ? flags.n_threads : usable_cores();
  return out;
}

ModelBytes model_bytes(LoadedModel& model, const ModelFlags& flags) {
  const GpuDtype dtype = flags.device.dtype;
  ModelBytes bytes = model_bytes(model.config(), dtype == GpuDtype::kInt8);
  if (model.backend().gpu() && dtype != GpuDtype::kAsStored) return bytes;
  bytes.lm_head = static_cast<double>(model.weights().lm_head.run_bytes());
  bytes.layer = (static_cast<double>(model.weights().bytes_per_token()) - bytes.lm_head) /
                model.config().n_layers;
  return bytes;
}

ModelFlags model_flags(const BenchFlags& flags, const std::string& path, int n_ctx) {
  ModelFlags one = flags.model;
  one.model = path;
  one.n_ctx = n_ctx;
  return one;
}

}  // namespace specbound
