// What a benchmark says about the model that it measured, and the bytes that decoding reads of it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "app/bench_flags.h"
#include "app/bench_report.h"
#include "app/loaded_model.h"

namespace specbound {

struct BenchModel {
  std::string path;
  std::string name;         // "llama 16L Q8_0": architecture, layers, most of the weights' type
  uint64_t bytes = 0;       // of the tensors in the file
  uint64_t parameters = 0;  // likewise
  std::string backend;      // "CPU" or "CUDA"
  std::string device;       // Backend::device()
  int threads = 0;          // of the CPU; 0 on a GPU

  nlohmann::ordered_json json() const;
  std::string size_text() const;        // "3.56 GiB"
  std::string parameters_text() const;  // "6.74 B"
};
// `model` is loaded.
BenchModel bench_model(LoadedModel& model, const ModelFlags& flags);

// Of `model` as it runs, by Weights::bytes_per_token(); on a GPU with --dtype int8 or fp16 by that.
ModelBytes model_bytes(LoadedModel& model, const ModelFlags& flags);

// The flags of a model of -m, or of the bundled one (empty), in a context of n_ctx positions (0:
// LoadedModel's own).
ModelFlags model_flags(const BenchFlags& flags, const std::string& path, int n_ctx);

}  // namespace specbound
