#include "runtime/loaded_model.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "engine/cpu/cpu_plan.h"
#include "engine/cpu/cpu_topology.h"
#include "error.h"
#include "library/load_watcher.h"
#include "library/model_path.h"
#include "model/conversion.h"
#include "runtime/gpu.h"
#include "runtime/gpu_fit.h"
#include "system/text_input.h"

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
  weights_ = map_weights(gguf_, config_);
  choice_ = choose_device(options.device, config_, weights_, [] { return gpu_engine().survey(); });
  tokenizer_ = Tokenizer::from_gguf(gguf_);
  if (tokenizer_->vocab_size() > config_.vocab_size) {
    throw Error(ErrorCode::kFormat,
                format("%s: the vocabulary has %d tokens, but the model only %d rows for them",
                       path_.c_str(), tokenizer_->vocab_size(), config_.vocab_size));
  }
  cpu_options_.n_ctx = checked_context(cpu_options_.n_ctx, config_);
  load_seconds_ = seconds_since(start);
}

ModelOptions LoadedModel::options_beside(const std::string& path) const {
  using Where = DeviceOptions::Where;
  ModelOptions options = options_;
  options.model = path;
  options.n_ctx = n_ctx();
  options.n_sequences = 1;
  if (choice_.gpu) {
    options.device.where = Where::kAuto;
    options.device.gpu = choice_.gpu;
    options.device.layers.reset();  // of this model's
  } else {                          // nothing of what was asked of a GPU
    options.device = DeviceOptions();
    options.device.where = Where::kCpu;
    options.device.kv = options_.device.kv;
  }
  return options;
}

size_t LoadedModel::bytes_on_cpu() const {
  CpuOptions options;
  options.n_ctx = n_ctx();
  options.kv = cpu_options_.kv;
  size_t bytes = memory_needed(config_, weights_, options).total();
  for (const GgufTensor& tensor : gguf_.tensors()) {
    if (!takes_int8_rows(tensor.type)) bytes += tensor.bytes.size();  // no tiles are made of it
  }
  return bytes;
}

void LoadedModel::go_beside(const LoadedModel& other) {
  SB_CHECK(!backend_);
  if (!other.choice_.gpu) {
    choice_ = {};
  } else if (other.whole_) {  // the GPU has room for this one too, or that is an error
    options_.device.where = DeviceOptions::Where::kCuda;
  }
}

size_t LoadedModel::gpu_bytes() const {
  if (!choice_.gpu) return 0;
  const DeviceOptions& device = options_.device;
  return plan_memory(config_, weights_,
                     whole_model(config_, nullptr, n_ctx(), device.kv, device.dtype))
      .total();
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
  options.kept_tiles = &tiles_.emplace(gguf_, options_.keep_tiles);
  backend_ = make_cpu_backend(config_, weights_, options);
  if (tiles_->mapped_bytes() > 0) return {};  // what was read was in order
  return moved;
}

// For the next start, once this one has come to its end.
void LoadedModel::keep_tiles(const LoadWatcher& watcher) {
  if (!options_.write_tiles) return;
  std::optional<OfferedTiles> offered = tiles_ ? tiles_->take_offered() : std::nullopt;
  if (!offered) return;
  if (const std::string why = why_not_kept(*offered); !why.empty()) {
    watcher.describe("repacked weights are not kept for the next start: " + why);
    return;
  }
  tile_writer_.emplace(std::move(*offered), watcher_.abort);
}

// How many of the first layers go there; more than there are: the whole model. Leaves a note where
// that is not what was asked for.
int LoadedModel::layers_on(Device& device, const MemoryRequest& request) {
  const int n_layers = config_.n_layers, whole = n_layers + 1;
  if (choice_.layers) return *choice_.layers;
  if (options_.device.prefill == PrefillPath::kCublas) return whole;
  const size_t free = device.free_bytes();
  const MemoryPlan plan = plan_memory(config_, weights_, request);
  if (plan.total() <= free) return whole;
  const int most = most_layers(config_, weights_, request, free);
  // Asked for by name a GPU that cannot be had is an error, with the numbers.
  if (most == 0 && options_.device.where == DeviceOptions::Where::kCuda) return whole;
  const std::string there =
      most > 0 ? format("n_gpu_layers=%d of %d layers run there, the rest", most, n_layers)
               : std::string("every layer");
  choice_.note =
      format("the model does not fit on the GPU (%s): %s on the CPU",
             shortage_text(plan, free, device.info().total_bytes).c_str(), there.c_str());
  return most;
}

LoadedModel::Moved LoadedModel::load_on_gpu(const ExitHeads* heads, size_t later,
                                            const LoadWatcher& watcher) {
  Moved moved;
  CudaOptions options;
  options.n_ctx = cpu_options_.n_ctx;
  options.n_sequences = options_.one_text_on_gpu ? 1 : options_.n_sequences;
  options.dtype = options_.device.dtype;
  options.prefill = options_.device.prefill;
  options.kv = options_.device.kv;
  const MemoryRequest request =
      whole_model(config_, heads, options.n_ctx, options.kv, options.dtype);
  options.heads_bytes = request.heads;
  options.later_bytes = later;
  try {
    std::unique_ptr<Device> device = gpu_engine().open(*choice_.gpu);
    const int layers = layers_on(*device, request);
    whole_ = layers > config_.n_layers;
    if (layers > 0) {
      options.progress = progress_into(watcher, "uploading weights", moved.bytes, moved.seconds);
    }
    if (whole_) {
      backend_ = gpu_engine().backend(std::move(device), config_, weights_, options);
    } else if (layers > 0) {
      cpu_options_.first_layers =
          gpu_engine().first_layers(std::move(device), config_, weights_, options, layers);
    } else {
      choice_.gpu.reset();
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kDevice) throw;
    throw Error(e.code(), std::string(e.what()) + "; device=cpu does without the GPU");
  }
  return moved;
}

// ", uploaded 812.3 MB at 11.9 GB/s"
std::string LoadedModel::Moved::text(const char* how) const {
  if (bytes == 0 || seconds <= 0) return "";
  const auto moved = static_cast<double>(bytes);
  return format(", %s %.1f MB at %.1f GB/s", how, 1e-6 * moved, 1e-9 * moved / seconds);
}

void LoadedModel::load(const ExitHeads* heads, const LoadWatcher& watcher, const Backend* beside,
                       size_t later) {
  SB_CHECK(!backend_);
  if (cpu_options_.n_ctx > config_.max_seq_len) {
    watcher.say(
        format("warning: n_ctx=%d: the model was trained on %d tokens; text past that degrades",
               cpu_options_.n_ctx, config_.max_seq_len));
  }
  const Clock::time_point start = Clock::now();
  Moved uploaded, repacked;
  if (choice_.gpu) uploaded = load_on_gpu(heads, later, watcher);
  if (!backend_) repacked = load_on_cpu(watcher, beside);
  load_seconds_ += seconds_since(start);

  const double mapped = tiles_ ? static_cast<double>(tiles_->mapped_bytes()) : 0;
  const std::string loaded =
      format("loaded in %.0f ms", 1e3 * load_seconds_) + uploaded.text("uploaded") +
      repacked.text("repacked") +
      (mapped > 0 ? format(", mapped %.1f MB repacked earlier", 1e-6 * mapped) : "");
  watcher.describe(description() + ", " + loaded);
  watcher.describe("backend: " + backend_->description());
  const bool as_fp16 = choice_.gpu && whole_ && options_.device.dtype == GpuDtype::kFp16;
  if (const std::string note = conversion_note(weights_); !note.empty() && !as_fp16) {
    watcher.describe(note);
  }
  if (choice_.gpu && options_.device.prefill == PrefillPath::kCublas) {
    watcher.say("prefill=cublas: the bits of a prompt are those of this version of cuBLAS");
  }
  if (!choice_.note.empty()) watcher.say(choice_.note);
  for (const std::string& line : tokenizer_->notes()) watcher.say(line);
  keep_tiles(watcher);
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
