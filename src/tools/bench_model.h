// What a benchmark measures: the model, the bytes that decoding reads of it, the machine under it,
// and how fast that reads memory in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "engine/kv_type.h"
#include "runtime/loaded_model.h"
#include "tools/bench.h"
#include "trace/statistics.h"

namespace specbound {

// Bytes that have to be read at least once, in the order of a pass.
struct ModelBytes {
  double layer = 0;  // weights of one
  double lm_head = 0;
  double kv_position = 0;  // K and V of one position in one layer
  int n_layers = 0;

  // Of one layer over one row with `context` positions before it.
  double row(double context) const { return layer + kv_position * (context + 1); }
  double token(double context) const { return n_layers * row(context) + lm_head; }
};
// `int8`: matrices are INT8, else FP16.
ModelBytes model_bytes(const ModelConfig& config, bool int8, KvType kv = KvType::kFp16);

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
BenchModel bench_model(LoadedModel& model, const ModelOptions& options);

// Of `model` as it runs, by Weights::bytes_per_token(); on a GPU with --dtype int8 or fp16 by that.
ModelBytes model_bytes(LoadedModel& model, const ModelOptions& options);

// The options of a model of -m, or of the bundled one (empty), in a context of n_ctx positions (0:
// LoadedModel's own).
ModelOptions options_of(const BenchOptions& options, const std::string& path, int n_ctx);

// Where there are several, opens each of -m once: a file that cannot be opened costs no measurement
// of those before it. Throws what opening throws.
void check_models(const BenchOptions& options, int n_ctx);

// How fast memory is read, in the same run as what is held against it.
struct ReadBandwidth {
  Spread rate;              // bytes a second; zeros: unknown
  size_t buffer_bytes = 0;  // that were read again and again
  bool cached = false;      // a cache holds them, at least in part
  bool comparable = true;   // false: it holds the weights, but the buffer was larger

  // Of this bandwidth; nullopt where that says nothing.
  std::optional<double> share(double bytes_per_second) const;
  bool known() const { return rate.median > 0; }
  nlohmann::ordered_json json() const;  // null: unknown
  // "read bandwidth 21.3 GB/s (20.9 - 21.5)", and of which cache.
  std::string text() const;
};

struct BenchMachine {
  nlohmann::ordered_json hardware;
  size_t cache_bytes = 0;  // of its largest cache; 0 if unknown
  bool gpu = false;
  // Bytes a second, read by as many threads as decode from a buffer of so many bytes; a GPU has its
  // own size, and none where too little of its memory is free.
  std::function<std::optional<double>(size_t bytes)> read_bandwidth;
};
// What `backend` runs on, which must outlive it. n_threads: of the CPU; 0: one for each core.
BenchMachine bench_machine(Backend& backend, int n_threads);

// Of the machine, measured before, between and after what is held against it. A small model lies in
// a cache, which gives more than memory does: so does the buffer, of the bytes of a token.
class BandwidthSamples {
 public:
  // `machine` must outlive it. `token_bytes`: what a token reads.
  BandwidthSamples(const BenchMachine& machine, double token_bytes);
  void take() {
    for (int i = 0; i < 3; ++i) {
      if (const auto rate = machine_.read_bandwidth(bytes_)) samples_.push_back(*rate);
    }
  }
  ReadBandwidth result() const;

 private:
  const BenchMachine& machine_;
  size_t bytes_;
  bool cached_;
  std::vector<double> samples_;
};

}  // namespace specbound
