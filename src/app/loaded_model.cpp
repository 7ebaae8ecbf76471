#include "app/loaded_model.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "app/gpu.h"
#include "app/interrupt.h"
#include "app/model_path.h"
#include "app/progress.h"
#include "app/terminal_text.h"
#include "engine/cpu/cpu_topology.h"
#include "engine/cuda/head_layout.h"
#include "error.h"
#include "model/conversion.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Shows how far it is, ends it when asked to, and leaves the bytes and the time they took.
std::function<void(size_t, size_t)> progress_into(const LoadWatcher& watcher,
                                                  const std::string& label, size_t& bytes,
                                                  double& seconds) {
  watcher.progress(label, 0, 1);
  return [&watcher, label, &bytes, &seconds, start = Clock::now()](size_t done, size_t total) {
    if (watcher.abort && *watcher.abort) throw Interrupted("interrupted while loading");
    watcher.progress(label, done, total);
    bytes = done;
    seconds = seconds_since(start);
  };
}

}  // namespace

LoadedModel::LoadedModel(const ModelFlags& flags) : flags_(flags) {
  const Clock::time_point start = Clock::now();
  options_ = flags.cpu_options();
  path_ = find_model(flags.model);
  gguf_ = Gguf::open(path_);
  config_ = read_config(gguf_);
  choice_ = choose_device(flags.device, config_, [] { return gpu_engine().survey(); });
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

ModelFlags LoadedModel::flags_beside(const std::string& path) const {
  ModelFlags flags = flags_;
  flags.model = path;
  flags.n_ctx = n_ctx();
  flags.device.layers.reset();  // of this model's
  flags.device.where = choice_.gpu ? DeviceFlags::Where::kCuda : DeviceFlags::Where::kCpu;
  flags.device.gpu = choice_.gpu;
  return flags;
}

LoadedModel::Moved LoadedModel::load_on_cpu(const LoadWatcher& watcher, const Backend* beside) {
  if (const int cpus = usable_cpus(); options_.n_threads > cpus) {
    watcher.note(
        format("warning: -t %d: %d CPU%s can be used here; more threads than that slow it down",
               options_.n_threads, cpus, cpus == 1 ? "" : "s"));
  }
  Moved moved;
  CpuOptions options = options_;
  options.beside = beside;
  options.progress = progress_into(watcher, "repacking weights", moved.bytes, moved.seconds);
  backend_ = make_cpu_backend(config_, weights_, options);
  return moved;
}

LoadedModel::Moved LoadedModel::load_on_gpu(const ExitHeads* heads, const LoadWatcher& watcher) {
  Moved moved;
  CudaOptions options;
  options.n_ctx = options_.n_ctx;
  options.dtype = flags_.device.dtype;
  options.prefill = flags_.device.prefill;
  if (heads) {  // at most: which of their tokens are looked at is known once there is a backend
    const int shortlist = static_cast<int>(heads->shortlist().size());
    options.heads_bytes = device_heads_bytes(*heads, shortlist, config_, false, n_ctx());
  }
  try {
    std::unique_ptr<Device> device = gpu_engine().open(*choice_.gpu);
    options.progress = progress_into(watcher, "uploading weights", moved.bytes, moved.seconds);
    backend_ = gpu_engine().backend(std::move(device), config_, weights_, options);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kDevice) throw;
    throw Error(e.code(), std::string(e.what()) + "; --device cpu does without the GPU");
  }
  return moved;
}

LoadWatcher terminal_watcher() {
  const auto bar = std::make_shared<std::optional<Progress>>();
  LoadWatcher terminal;
  terminal.progress = [bar](const std::string& label, size_t done, size_t total) {
    if (!*bar) bar->emplace(label, Progress::Unit::kBytes);
    (*bar)->update(done, total);
  };
  terminal.note = [bar](const std::string& line) {
    bar->reset();
    std::fprintf(stderr, "%s\n", terminal_text(line).c_str());
  };
  terminal.abort = &interrupt_flag();
  return terminal;
}

void LoadedModel::load(const ExitHeads* heads) {
  load(heads, terminal_watcher());
}

void LoadedModel::load(const ExitHeads* heads, const LoadWatcher& watcher, const Backend* beside) {
  SB_CHECK(!backend_);
  if (options_.n_ctx > config_.max_seq_len) {
    watcher.note(
        format("warning: -c %d: the model was trained on %d tokens; text past that degrades",
               options_.n_ctx, config_.max_seq_len));
  }
  const Clock::time_point start = Clock::now();
  const Moved moved = choice_.gpu ? load_on_gpu(heads, watcher) : load_on_cpu(watcher, beside);
  load_seconds_ += seconds_since(start);

  std::string loaded = format("loaded in %.0f ms", 1e3 * load_seconds_);
  if (moved.bytes > 0 && moved.seconds > 0) {
    loaded += format(", %s %.1f MB at %.1f GB/s", choice_.gpu ? "uploaded" : "repacked",
                     1e-6 * static_cast<double>(moved.bytes),
                     1e-9 * static_cast<double>(moved.bytes) / moved.seconds);
  }
  watcher.note(format("model: %s (%s, %d layers, context %d of %d), %s", path_.c_str(),
                      config_.architecture.c_str(), config_.n_layers, n_ctx(), config_.max_seq_len,
                      loaded.c_str()));
  watcher.note("backend: " + backend_->description());
  const bool as_fp16 = choice_.gpu && flags_.device.dtype == GpuDtype::kFp16;
  if (const std::string note = conversion_note(weights_); !note.empty() && !as_fp16) {
    watcher.note(note);
  }
  if (choice_.gpu && flags_.device.prefill == PrefillPath::kCublas) {
    watcher.note("--prefill cublas: the bits of a prompt are those of this version of cuBLAS");
  }
  if (!choice_.note.empty()) watcher.note(choice_.note);
}

const ChatTemplate& LoadedModel::chat_template(
    const std::function<void(const std::string& line)>& note) const {
  if (!chat_template_) {
    chat_template_ = ChatTemplate::from_gguf(gguf_, flags_.chat_template);
    for (const std::string& line : chat_template_->notes()) {
      note ? note(line) : (void)std::fprintf(stderr, "%s\n", terminal_text(line).c_str());
    }
  }
  return *chat_template_;
}

bool LoadedModel::ends_reply(int32_t id) const {
  return tokenizer_->is_end(id) || (id >= 0 && id == tokenizer_->bos());
}

}  // namespace specbound
