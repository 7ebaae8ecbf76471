// What an Engine holds: a model with what drafts for it, and a reply while it is made. Seen by the
// files of Engine only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/loaded_model.h"
#include "app/speculation.h"
#include "decode/generate.h"
#include "gui/engine/engine.h"

namespace specbound::gui {

// In order of dependence.
struct Engine::Model {
  // Opens; the session comes once it is loaded.
  explicit Model(const LoadRequest& request)
      : loaded(request.model), speculation(request.speculation, loaded) {}

  LoadedModel loaded;
  Speculation speculation;
  std::optional<Session> session;
};

struct Engine::Reply {
  uint64_t id = 0;
  std::vector<int32_t> prompt;
  int dropped_turns = 0;
  uint32_t number = 0;
  int max_tokens = -1;
  bool racing = false;  // nothing but the reply: no plain rounds to compare with, settings wait
  Speculator* speculator = nullptr;

  // What came of it.
  GenerateStats stats;
  std::string text;
  std::vector<int32_t> tokens;
};

// In an exception's handler: what is to be said of it, in one line.
std::string what_failed();

inline constexpr const char* kNoModel = "no model is loaded: open a GGUF file first";

}  // namespace specbound::gui
