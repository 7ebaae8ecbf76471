// A model that was loaded, with all that makes replies of it: what the handles of the C API stand
// for. Shared by its model and its sessions, so that they may be freed in any order.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "capi/failure.h"
#include "decode/generate.h"
#include "decode/sampler.h"
#include "runtime/speculative_model.h"
#include "runtime/stats.h"

namespace specbound::capi {

class Engine {
 public:
  // Loads. Throws Error, and Interrupted when a callback ends it.
  Engine(const char* path, const sb_model_options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const LoadedModel& model() const { return opened_.model(); }
  const Tokenizer& tokenizer() const { return model().tokenizer(); }
  // Throws Error(kUnsupported) where the file has none.
  const ChatTemplate& chat_template() const;
  bool has_chat_template() const { return template_ != nullptr; }
  const std::string& backend() const { return backend_; }
  const std::string& speculation_line() const { return speculation_line_; }
  bool can_speculate() const { return can_speculate_; }
  bool begins_speculating() const { return begins_speculating_; }

  // Ids of messages up to the next reply. Throws Error(kUsage) for what is no conversation.
  std::vector<int32_t> encode(std::span<const sb_message> messages) const;

  // The model to oneself, on this thread. Throws Error(kUsage) in a callback of the one who has it:
  // it would wait for ever.
  class Turn {
   public:
    explicit Turn(Engine& engine);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    Session& session() { return *engine_.session_; }
    Speculation& speculation() { return engine_.opened_.speculation(); }

   private:
    Engine& engine_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  LoadWatcher watcher_of(const sb_model_options& options);
  void load();
  void take_over_gpu();

  bool loading_ = true;  // somebody looks on
  SpeculativeModel opened_;
  // One for all sessions of the C API: it keeps what the cache holds of the newest prompt, whoever
  // gave it, and the bits of a reply do not depend on that.
  std::optional<Session> session_;
  const ChatTemplate* template_ = nullptr;
  std::string no_template_;  // why there is none
  std::string backend_, speculation_line_;
  bool can_speculate_ = false, begins_speculating_ = false;

  std::mutex mutex_;                       // of the turn
  std::atomic<std::thread::id> has_turn_;  // nobody: none
};

// Throws Error(kUsage) for a model that could not be opened.
Engine& engine_of(const sb_model& model);

}  // namespace specbound::capi

// ---- what is behind the handles of specbound.h ----

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
