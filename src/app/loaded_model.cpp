#include "app/loaded_model.h"

#include <chrono>
#include <cstdio>

#include "app/interrupt.h"
#include "app/model_path.h"
#include "app/progress.h"
#include "app/terminal_text.h"
#include "engine/cpu/cpu_topology.h"
#include "error.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

}  // namespace

LoadedModel::LoadedModel(const ModelFlags& flags) {
  const Clock::time_point start = Clock::now();
  options_ = flags.cpu_options();
  path_ = find_model(flags.model);
  gguf_ = Gguf::open(path_);
  config_ = read_config(gguf_);
  asked_for_gpu_ = flags.all_layers_on_gpu(config_.n_layers);
  tokenizer_ = Tokenizer::from_gguf(gguf_);
  if (tokenizer_->vocab_size() > config_.vocab_size) {
    throw Error(ErrorCode::kFormat,
                format("%s: the vocabulary has %d tokens, but the model only %d rows for them",
                       path_.c_str(), tokenizer_->vocab_size(), config_.vocab_size));
  }
  weights_ = map_weights(gguf_, config_);
  options_.n_ctx = checked_context(options_.n_ctx, config_);
  load_seconds_ = seconds_since(start);
}

void LoadedModel::load() {
  SB_CHECK(!backend_);
  if (options_.n_ctx > config_.max_seq_len) {
    std::fprintf(stderr,
                 "warning: -c %d: the model was trained on %d tokens; text past that degrades\n",
                 options_.n_ctx, config_.max_seq_len);
  }
  if (const int cpus = usable_cpus(); options_.n_threads > cpus) {
    std::fprintf(stderr,
                 "warning: -t %d: %d CPU%s can be used here; more threads than that slow it down\n",
                 options_.n_threads, cpus, cpus == 1 ? "" : "s");
  }

  const Clock::time_point start = Clock::now();
  size_t repacked_bytes = 0;
  double repack_seconds = 0;
  {
    Progress bar("repacking weights", Progress::Unit::kBytes);
    CpuOptions options = options_;
    options.progress = [&](size_t done, size_t total) {
      if (interrupt_flag()) throw Interrupted("interrupted while loading");
      bar.update(done, total);
      repacked_bytes = done;
      repack_seconds = seconds_since(start);
    };
    backend_ = make_cpu_backend(config_, weights_, options);
  }
  load_seconds_ += seconds_since(start);

  std::string loaded = format("loaded in %.0f ms", 1e3 * load_seconds_);
  if (repacked_bytes > 0 && repack_seconds > 0) {
    loaded += format(", repacked %.1f MB at %.1f GB/s", 1e-6 * static_cast<double>(repacked_bytes),
                     1e-9 * static_cast<double>(repacked_bytes) / repack_seconds);
  }
  std::fprintf(stderr, "model: %s (%s, %d layers, context %d of %d), %s\n",
               terminal_text(path_).c_str(), config_.architecture.c_str(), config_.n_layers,
               n_ctx(), config_.max_seq_len, loaded.c_str());
  std::fprintf(stderr, "backend: %s\n", backend_->description().c_str());
  if (asked_for_gpu_) {
    std::fprintf(stderr, "-ngl all: this build has no GPU backend, every layer runs on the CPU\n");
  }
}

bool LoadedModel::ends_reply(int32_t id) const {
  return tokenizer_->is_end(id) || (id >= 0 && id == tokenizer_->bos());
}

}  // namespace specbound
