// A model with everything it stands on, in order of dependence, in two steps: opening, which is
// quick and enough to make prompts, and loading, after which it runs: on a GPU, on the CPU, or its
// first layers on the one and the rest on the other, as options and machine have it. Loading tells
// a watcher what was loaded and what it runs on: nothing is silent.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "engine/backend.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/memory_plan.h"
#include "grammar/grammar.h"
#include "grammar/token_grammar.h"
#include "grammar/token_trie.h"
#include "library/load_watcher.h"
#include "library/tile_cache.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "runtime/model_options.h"
#include "templates/chat_template.h"
#include "text/tokenizer.h"

namespace specbound {

class LoadedModel {
 public:
  // Opens. Throws Error for anything that keeps the model from running: see the parts.
  explicit LoadedModel(const ModelOptions& options, LoadWatcher watcher = {});
  // Makes the backend; whole on a GPU only where these heads, if there are any, fit beside it.
  // `later`: bytes of a GPU that further texts leave to what is loaded behind it. Throws Error when
  // it cannot be had, Interrupted on the watcher's `abort`.
  void load(const ExitHeads* heads = nullptr, size_t later = 0) {
    load(heads, watcher_, nullptr, later);
  }
  // The same for another watcher. `beside`: the backend of another model on the same device, with
  // which this one takes turns.
  void load(const ExitHeads* heads, const LoadWatcher& watcher, const Backend* beside = nullptr,
            size_t later = 0);

  // For another model that is to run beside this one: what this one was opened with, the GPU that
  // is to run it, if any, and no more context.
  ModelOptions options_beside(const std::string& path) const;
  // Before load(), of one that was opened so: `other`, which is loaded by now, may run elsewhere
  // than it was to. Where that has no layer on the GPU, neither has this one.
  void go_beside(const LoadedModel& other);
  // That the whole model is planned to take of its GPU, cuBLAS's workspace left out; 0: it is to
  // run on the CPU.
  size_t gpu_bytes() const;

  const std::string& path() const { return path_; }
  // "model: m.gguf (llama, 16 layers, context 768 of 768)"
  std::string description() const;
  const Gguf& gguf() const { return gguf_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }  // as they lie in the file
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const LoadWatcher& watcher() const { return watcher_; }  // that it was opened with
  // How conversations are written, found when first asked for: the watcher is then told what is to
  // be known of it. Throws Error where there is none.
  const ChatTemplate& chat_template() const;
  // nullptr for a model without one: it continues plain text.
  const ChatTemplate* find_chat_template() const;
  int n_ctx() const { return cpu_options_.n_ctx; }       // of the backend, known before it is there
  Backend& backend() { return *backend_; }               // after load()
  double load_seconds() const { return load_seconds_; }  // opening and loading
  // That another process takes to run it on the CPU with the same context, K and V: with weights
  // that are read where they lie in the file.
  size_t bytes_on_cpu() const;

  // A grammar over the tokens of this vocabulary, which is looked through when that is first asked
  // for; nullptr for nullptr.
  std::shared_ptr<const TokenGrammar> constrain(Grammar::Shared grammar) const;

  // The token ends a reply. A BOS does too: models trained on documents in a row write it where the
  // next document begins.
  bool ends_reply(int32_t id) const;

 private:
  // Bytes of weights that were brought into the order kernels want, and how long it took.
  struct Moved {
    size_t bytes = 0;
    double seconds = 0;
    std::string text(const char* how) const;
  };
  void keep_tiles(const LoadWatcher& watcher);
  Moved load_on_cpu(const LoadWatcher& watcher, const Backend* beside);
  Moved load_on_gpu(const ExitHeads* heads, size_t later, const LoadWatcher& watcher);
  int layers_on(Device& device, const MemoryRequest& request);

  ModelOptions options_;
  LoadWatcher watcher_;
  CpuOptions cpu_options_;
  DeviceChoice choice_;
  bool whole_ = true;  // of it, if it has a GPU
  std::string path_;
  Gguf gguf_;
  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  mutable std::unique_ptr<ChatTemplate> chat_template_;
  mutable std::shared_ptr<const TokenTrie> token_trie_;
  Weights weights_;
  std::optional<TileCache> tiles_;
  std::unique_ptr<Backend> backend_;
  std::optional<TileWriter> tile_writer_;  // of what the backend has
  double load_seconds_ = 0;
};

}  // namespace specbound
