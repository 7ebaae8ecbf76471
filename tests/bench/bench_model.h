// What the bench programs share: opening a model, timing.
#pragma once

#include <charconv>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "error.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "trace/statistics.h"

namespace specbound::bench {

struct Arguments {
  std::string model;
  int threads = 0, prompt = 512, gen = 128, repeats = 7;
  bool repack = true;
};

// -m FILE -t N --prompt P --gen G --repeats R --no-repack; --json is accepted, the output always
// is. `a`: what holds without them.
inline Arguments parse(int argc, char** argv, Arguments a = {}) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--no-repack") {
      a.repack = false;
      continue;
    }
    if (i + 1 >= argc) throw Error(ErrorCode::kUsage, flag + " needs a value");
    const std::string value = argv[++i];
    if (flag == "-m") {
      a.model = value;
      continue;
    }
    int* number = flag == "-t"          ? &a.threads
                  : flag == "--prompt"  ? &a.prompt
                  : flag == "--gen"     ? &a.gen
                  : flag == "--repeats" ? &a.repeats
                                        : nullptr;
    if (!number) throw Error(ErrorCode::kUsage, "unknown flag " + flag);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (error != std::errc() || end != value.data() + value.size() || *number < 0) {
      throw Error(ErrorCode::kUsage, flag + ": expected a whole number, found " + value);
    }
  }
  return a;
}

struct Model {
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  std::unique_ptr<Backend> backend;

  Model(const Arguments& a, int n_ctx, int n_sequences = 1)
      : gguf(Gguf::open(a.model)), config(read_config(gguf)), weights(map_weights(gguf, config)) {
    CpuOptions options;
    options.n_ctx = n_ctx;
    options.n_threads = a.threads;
    options.n_sequences = n_sequences;
    options.repack = a.repack;
    backend = make_cpu_backend(config, weights, options);
  }
};

inline double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Token ids that differ from one another without meaning anything.
inline std::vector<int32_t> ids(int n, int vocab_size) {
  std::vector<int32_t> v(n);
  for (int i = 0; i < n; ++i) v[i] = static_cast<int32_t>((i * 7919LL + 13) % vocab_size);
  return v;
}

}  // namespace specbound::bench
