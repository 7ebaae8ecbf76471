// A model with everything it stands on, in order of dependence, in two steps: opening, which is
// quick and enough to make prompts, and loading, after which it runs: on a GPU or on the CPU, as
// flags and machine have it. Loading says what was loaded and what it runs on, on stderr or to a
// watcher: nothing is silent.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "app/cli.h"
#include "engine/backend.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace specbound {

// Who looks on while a model is loaded.
struct LoadWatcher {
  // `done` of `total` bytes (at first 0 of 1) of the weights: "repacking weights".
  std::function<void(const std::string& label, size_t done, size_t total)> progress;
  std::function<void(const std::string& line)> note;  // something to tell, as text of one line
  const std::atomic<bool>* abort = nullptr;           // ends the loading
};

// A bar and lines on stderr; Ctrl-C ends it.
LoadWatcher terminal_watcher();

class LoadedModel {
 public:
  // Opens. Throws Error for anything that keeps the model from running: see the parts.
  explicit LoadedModel(const ModelFlags& flags);
  // Makes the backend; on a GPU only where these heads, if there are any, fit beside the model.
  // With a bar and lines on stderr. Throws Error when it cannot be had, Interrupted on Ctrl-C.
  void load(const ExitHeads* heads = nullptr);
  // The same for `watcher`, on whose `abort` it throws Interrupted. `beside`: the backend of
  // another model on the same device, with which this one takes turns.
  void load(const ExitHeads* heads, const LoadWatcher& watcher, const Backend* beside = nullptr);

  // For another model that is to run beside this one: what this one was opened with, where it runs,
  // and no more context.
  ModelFlags flags_beside(const std::string& path) const;

  const std::string& path() const { return path_; }
  const Gguf& gguf() const { return gguf_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }  // as they lie in the file
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // How conversations are written, found when first asked for: what is to be known of it is then
  // said on stderr, or to `note`. Throws Error where there is none.
  const ChatTemplate& chat_template(
      const std::function<void(const std::string& line)>& note = nullptr) const;
  int n_ctx() const { return options_.n_ctx; }           // of the backend, known before it is there
  Backend& backend() { return *backend_; }               // after load()
  double load_seconds() const { return load_seconds_; }  // opening and loading

  // The token ends a reply. A BOS does too: models trained on documents in a row write it where the
  // next document begins.
  bool ends_reply(int32_t id) const;

 private:
  // Bytes of weights that were brought into the order kernels want, and how long it took.
  struct Moved {
    size_t bytes = 0;
    double seconds = 0;
  };
  Moved load_on_cpu(const LoadWatcher& watcher, const Backend* beside);
  Moved load_on_gpu(const ExitHeads* heads, const LoadWatcher& watcher);

  ModelFlags flags_;
  CpuOptions options_;
  DeviceChoice choice_;
  std::string path_;
  Gguf gguf_;
  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  mutable std::unique_ptr<ChatTemplate> chat_template_;
  Weights weights_;
  std::unique_ptr<Backend> backend_;
  double load_seconds_ = 0;
};

}  // namespace specbound
