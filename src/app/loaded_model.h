// A model with everything it stands on, in order of dependence, in two steps: opening, which is
// quick and enough to make prompts, and loading, after which it runs. Loading says on stderr what
// was loaded and what it runs on: nothing is silent.
#pragma once

#include <memory>
#include <string>

#include "app/cli.h"
#include "engine/backend.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace specbound {

class LoadedModel {
 public:
  // Opens. Throws Error for anything that keeps the model from running: see the parts.
  explicit LoadedModel(const ModelFlags& flags);
  // Makes the backend. Throws Error when it cannot be had, Interrupted on Ctrl-C.
  void load();

  const std::string& path() const { return path_; }
  const Gguf& gguf() const { return gguf_; }
  const ModelConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int n_ctx() const { return options_.n_ctx; }           // of the backend, known before it is there
  Backend& backend() { return *backend_; }               // after load()
  double load_seconds() const { return load_seconds_; }  // opening and loading

  // The token ends a reply. A BOS does too: models trained on documents in a row write it where the
  // next document begins.
  bool ends_reply(int32_t id) const;

 private:
  CpuOptions options_;
  bool asked_for_gpu_ = false;
  std::string path_;
  Gguf gguf_;
  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Weights weights_;
  std::unique_ptr<Backend> backend_;
  double load_seconds_ = 0;
};

}  // namespace specbound
