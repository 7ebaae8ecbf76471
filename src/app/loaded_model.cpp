#include "app/loaded_model.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>

#include "app/gpu.h"
#include "app/interrupt.h"
#include "app/model_path.h"
#include "app/progress.h"
#include "app/terminal_text.h"
#include "engine/cpu/cpu_topology.h"
#include "engine/cuda/head_layout.h"
#include "error.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Shows how far it is, ends it on Ctrl-C, and leaves the bytes and the time they took.
std::function<void(size_t, size_t)> progress_into(Progress& bar, size_t& bytes, double& seconds) {
  return [&bar, &bytes, &seconds, start = Clock::now()](size_t done, size_t total) {
    if (interrupt_flag()) throw Interrupted("interrupted while loading");
    bar.update(done, total);
    bytes = done;
    seconds = seconds_since(start);
  };
}

}  // namespace

LoadedModel::LoadedModel(const ModelFlags& flags) {
  const Clock::time_point start = Clock::now();
  options_ = flags.cpu_options();
  path_ = find_model(flags.model);
  gguf_ = Gguf::open(path_);
  config_ = read_config(gguf_);
  device_ = flags.device;
  choice_ = choose_device(device_, config_, [] { return gpu_engine().survey(); });
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

LoadedModel::Moved LoadedModel::load_on_cpu() {
  if (const int cpus = usable_cpus(); options_.n_threads > cpus) {
    std::fprintf(stderr,
                 "warning: -t %d: %d CPU%s can be used here; more threads than that slow it down\n",
                 options_.n_threads, cpus, cpus == 1 ? "" : "s");
  }
  Moved moved;
  CpuOptions options = options_;
  Progress bar("repacking weights", Progress::Unit::kBytes);
  options.progress = progress_into(bar, moved.bytes, moved.seconds);
  backend_ = make_cpu_backend(config_, weights_, options);
  return moved;
}

LoadedModel::Moved LoadedModel::load_on_gpu(const ExitHeads* heads) {
  Moved moved;
  CudaOptions options;
  options.n_ctx = options_.n_ctx;
  options.dtype = device_.dtype;
  options.prefill = device_.prefill;
  if (heads) {  // at most: which of their tokens are looked at is known once there is a backend
    const int shortlist = static_cast<int>(heads->shortlist().size());
    options.heads_bytes = device_heads_bytes(*heads, shortlist, config_, false, n_ctx());
  }
  try {
    std::unique_ptr<Device> device = gpu_engine().open(*choice_.gpu);
    Progress bar("uploading weights", Progress::Unit::kBytes);
    options.progress = progress_into(bar, moved.bytes, moved.seconds);
    backend_ = gpu_engine().backend(std::move(device), config_, weights_, options);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kDevice) throw;
    throw Error(e.code(), std::string(e.what()) + "; --device cpu does without the GPU");
  }
  return moved;
}

void LoadedModel::load(const ExitHeads* heads) {
  SB_CHECK(!backend_);
  if (options_.n_ctx > config_.max_seq_len) {
    std::fprintf(stderr,
                 "warning: -c %d: the model was trained on %d tokens; text past that degrades\n",
                 options_.n_ctx, config_.max_seq_len);
  }
  const Clock::time_point start = Clock::now();
  const Moved moved = choice_.gpu ? load_on_gpu(heads) : load_on_cpu();
  load_seconds_ += seconds_since(start);

  std::string loaded = format("loaded in %.0f ms", 1e3 * load_seconds_);
  if (moved.bytes > 0 && moved.seconds > 0) {
    loaded += format(", %s %.1f MB at %.1f GB/s", choice_.gpu ? "uploaded" : "repacked",
                     1e-6 * static_cast<double>(moved.bytes),
                     1e-9 * static_cast<double>(moved.bytes) / moved.seconds);
  }
  std::fprintf(stderr, "model: %s (%s, %d layers, context %d of %d), %s\n",
               terminal_text(path_).c_str(), config_.architecture.c_str(), config_.n_layers,
               n_ctx(), config_.max_seq_len, loaded.c_str());
  std::fprintf(stderr, "backend: %s\n", backend_->description().c_str());
  if (choice_.gpu && device_.prefill == PrefillPath::kCublas) {
    std::fprintf(stderr,
                 "--prefill cublas: the bits of a prompt are those of this version of cuBLAS\n");
  }
  if (!choice_.note.empty()) {
    std::fprintf(stderr, "%s\n", terminal_text(choice_.note).c_str());
  }
}

bool LoadedModel::ends_reply(int32_t id) const {
  return tokenizer_->is_end(id) || (id >= 0 && id == tokenizer_->bos());
}

}  // namespace specbound
