// What is behind the handles of specbound.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "capi/engine.h"
#include "capi/failure.h"
#include "decode/sampler.h"
#include "runtime/stats.h"

struct sb_model {
  mutable specbound::capi::Failure failure;
  std::shared_ptr<specbound::capi::Engine> engine;  // null: opening it failed
};

struct sb_session {
  mutable specbound::capi::Failure failure;
  std::shared_ptr<specbound::capi::Engine> engine;
  std::atomic<bool> busy{false};   // sb_generate() is under way
  std::atomic<bool> abort{false};  // it is to end

  mutable std::mutex mutex;  // of what follows
  specbound::SamplingParams sampling;
  bool speculates = false;
  std::optional<specbound::ReplyStats> newest;  // reply; none: or it failed
};

namespace specbound::capi {

// Throws Error(kUsage) for a model that could not be opened.
Engine& engine_of(const sb_model& model);

}  // namespace specbound::capi
