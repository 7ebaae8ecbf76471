#include "runtime/loaded_model.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "engine/cpu/cpu_topology.h"
#include "engine/cuda/check_memory.h"
#include "error.h"
#include "model/conversion.h"
#include "runtime/gpu.h"
#include "runtime/load_watcher.h"
#include "runtime/model_path.h"
#include "runtime/text_input.h"

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
  if (watcher.progress) watcher.progress(label, 0, 1);
  return [&watcher, label, &bytes, &seconds, start = Clock::now()](size_t done, size_t total) {
    if (watcher.abort && *watcher.abort) throw Interrupted("interrupted while loading");
    if (watcher.progress) watcher.progress(label, done, total);
    bytes = done;
    seconds = seconds_since(start);
  };
}

}  // namespace

LoadedModel::LoadedModel(const ModelOptions& options, LoadWatcher watcher)
    : options_(options), watcher_(std::move(watcher)) {
  cpu_options_ = options.cpu_options();
  path_ = find_model(options.model, watcher_);
  const Clock::time_point start = Clock::now();  // a download is no loading
  gguf_ = Gguf::open(path_);
  config_ = read_config(gguf_);
  choice_ = choose_device(options.device, config_, [] { return gpu_engine().survey(); });
  tokenizer_ = Tokenizer::from_gguf(gguf_);
  if (tokenizer_->vocab_size() > config_.vocab_size) {
    throw Error(ErrorCode::kFormat,
                format("%s: the vocabulary has %d tokens, but the model only %d rows for them",
                       path_.c_str(), tokenizer_->vocab_size(), config_.vocab_size));
  }
  weights_ = map_weights(gguf_, config_);
  cpu_options_.n_ctx = checked_context(cpu_options_.n_ctx, config_);
  load_seconds_ = seconds_since(start);
}

ModelOptions LoadedModel::options_beside(const std::string& path) const {
  ModelOptions options = options_;
  options.model = path;
  options.n_ctx = n_ctx();
  options.n_sequences = 1;
  options.device.layers.reset();  // of this model's
  options.device.where = choice_.gpu ? DeviceOptions::Where::kCuda : DeviceOptions::Where::kCpu;
  options.device.gpu = choice_.gpu;
  return options;
}

LoadedModel::Moved LoadedModel::load_on_cpu(const LoadWatcher& watcher, const Backend* beside) {
  if (const int cpus = usable_cpus(); cpu_options_.n_threads > cpus) {
    watcher.say(format(
        "warning: n_threads=%d: %d CPU%s can be used here; more threads than that slow it down",
        cpu_options_.n_threads, cpus, cpus == 1 ? "" : "s"));
  }
  Moved moved;
  CpuOptions options = cpu_options_;
  options.beside = beside;
  options.progress = progress_into(watcher, "repacking weights", moved.bytes, moved.seconds);
  backend_ = make_cpu_backend(config_, weights_, options);
  return moved;
}

LoadedModel::Moved LoadedModel::load_on_gpu(const ExitHeads* heads, const LoadWatcher& watcher) {
  Moved moved;
  CudaOptions options;
  options.n_ctx = cpu_options_.n_ctx;
  options.dtype = options_.device.dtype;
  options.prefill = options_.device.prefill;
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
    throw Error(e.code(), std::string(e.what()) + "; device=cpu does without the GPU");
  }
  return moved;
}

void LoadedModel::load(const ExitHeads* heads, const LoadWatcher& watcher, const Backend* beside) {
  SB_CHECK(!backend_);
  if (cpu_options_.n_ctx > config_.max_seq_len) {
    watcher.say(
        format("warning: n_ctx=%d: the model was trained on %d tokens; text past that degrades",
               cpu_options_.n_ctx, config_.max_seq_len));
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
  watcher.describe(description() + ", " + loaded);
  watcher.describe("backend: " + backend_->description());
  const bool as_fp16 = choice_.gpu && options_.device.dtype == GpuDtype::kFp16;
  if (const std::string note = conversion_note(weights_); !note.empty() && !as_fp16) {
    watcher.describe(note);
  }
  if (choice_.gpu && options_.device.prefill == PrefillPath::kCublas) {
    watcher.say("prefill=cublas: the bits of a prompt are those of this version of cuBLAS");
  }
  if (!choice_.note.empty()) watcher.say(choice_.note);
}

std::string LoadedModel::description() const {
  return format("model: %s (%s, %d layers, context %d of %d)", path_.c_str(),
                config_.architecture.c_str(), config_.n_layers, n_ctx(), config_.max_seq_len);
}

const ChatTemplate& LoadedModel::chat_template() const {
  if (!chat_template_) {
    const std::string& file = options_.chat_template_file;
    if (!file.empty() && !options_.chat_template.empty()) {
      throw Error(ErrorCode::kUsage,
                  "chat_template and chat_template_file name two templates: give one of them");
    }
    chat_template_ = file.empty() ? ChatTemplate::from_gguf(gguf_, options_.chat_template)
                                  : ChatTemplate::from_text(gguf_, read_bytes(file), file);
    for (const std::string& line : chat_template_->notes()) watcher_.say(line);
  }
  return *chat_template_;
}

const ChatTemplate* LoadedModel::find_chat_template() const {
  try {
    return &chat_template();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    return nullptr;
  }
}

std::shared_ptr<const TokenGrammar> LoadedModel::constrain(Grammar::Shared grammar) const {
  if (!grammar) return nullptr;
  if (!token_trie_) {
    token_trie_ = std::make_shared<const TokenTrie>(*tokenizer_,
                                                    [this](int32_t id) { return ends_reply(id); });
  }
  return std::make_shared<const TokenGrammar>(std::move(grammar), token_trie_);
}

bool LoadedModel::ends_reply(int32_t id) const {
  return tokenizer_->is_end(id) || (id >= 0 && id == tokenizer_->bos());
}

}  // namespace specbound
