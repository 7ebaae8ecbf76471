// A model ready to run, with everything it stands on, in order of dependence. Loading says on
// stderr what was loaded, what it runs on and whether speculation is active: nothing is silent.
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
  // Throws Error for anything that keeps the model from running: see the parts.
  explicit LoadedModel(const ModelFlags& flags);

  const std::string& path() const { return path_; }
  const Gguf& gguf() const { return gguf_; }
  const ModelConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Backend& backend() { return *backend_; }
  double load_seconds() const { return load_seconds_; }

  // The token ends a reply. A BOS does too: models trained on documents in a row write it where the
  // next document begins.
  bool ends_reply(int32_t id) const;

 private:
  std::string path_;
  Gguf gguf_;
  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Weights weights_;
  std::unique_ptr<Backend> backend_;
  double load_seconds_ = 0;
};

}  // namespace specbound
