#include "capi/engine.h"

#include <utility>

#include "app/interrupt.h"
#include "error.h"

namespace specbound::capi {

namespace {

ModelFlags model_flags(const char* path, const sb_model_options& options) {
  need(path, "path");
  // The program takes the bundled model then.
  if (!*path) throw Error(ErrorCode::kUsage, "path: expected the name of a file, found \"\"");
  ModelFlags flags;
  flags.model = path;
  flags.n_ctx = options.n_ctx;
  flags.n_threads = options.n_threads;
  if (options.chat_template) flags.chat_template = options.chat_template;
  if (options.device) read_device(flags.device, options.device);
  return flags;
}

SpeculationFlags speculation_flags(const sb_model_options& options) {
  SpeculationFlags flags;
  if (options.heads) flags.heads = options.heads;
  if (options.no_controller) flags.controller = false;
  switch (options.speculation) {
    case SB_SPECULATION_AUTO:
      break;
    case SB_SPECULATION_ON:
    case SB_SPECULATION_OFF:
      flags.on = options.speculation == SB_SPECULATION_ON;
      break;
    default:
      throw Error(ErrorCode::kUsage, format("speculation: expected 0 to %d, found %d",
                                            SB_SPECULATION_OFF, options.speculation));
  }
  return flags;
}

LoadWatcher watcher_of(const sb_model_options& options) {
  LoadWatcher watcher;
  watcher.progress = [options](const std::string& label, size_t done, size_t total) {
    if (!options.on_progress) return;
    if (options.on_progress(options.user_data, label.c_str(), done, total) != 0) {
      throw Interrupted("loading was ended by the progress callback");
    }
  };
  watcher.note = [options](const std::string& line) {
    if (options.on_note) options.on_note(options.user_data, line.c_str());
  };
  return watcher;
}

ChatMessage::Role role_of(const sb_message& message) {
  need(message.role, "a message's role");
  need(message.content, "a message's content");
  using Role = ChatMessage::Role;
  const std::string_view name = message.role;
  if (name == "system") return Role::kSystem;
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  throw Error(ErrorCode::kUsage,
              format("a message's role: expected system, user or assistant, found \"%s\"",
                     printable(name).c_str()));
}

}  // namespace

Engine::Engine(const char* path, const sb_model_options& options)
    : model_(model_flags(path, options)), speculation_(speculation_flags(options), model_) {
  load(watcher_of(options));
}

void Engine::load(const LoadWatcher& watcher) {
  try {
    template_ = &model_.chat_template(watcher.note);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    no_template_ = e.what();
  }
  model_.load(speculation_.heads(), watcher);
  // Tuned settings may be looked for later too, when nobody listens any more.
  LoadWatcher later;
  later.progress = [this, progress = watcher.progress](const std::string& label, size_t done,
                                                       size_t total) {
    if (loading_) progress(label, done, total);
  };
  later.note = [this, note = watcher.note](const std::string& line) {
    if (loading_) note(line);
  };
  speculation_.attach(model_.backend(), std::move(later));
  session_.emplace(model_.backend(), Sampler(greedy_sampling()));

  backend_ = model_.backend().description();
  speculation_line_ = speculation_.description();
  can_speculate_ = !speculation_.drafter().empty();
  begins_speculating_ = speculation_.active();
  watcher.note(speculation_line_);
  loading_ = false;
}

Engine::~Engine() {
  try {
    take_over_gpu();
  } catch (const Error&) {  // a device that is lost gives its memory back by itself
  }
}

void Engine::take_over_gpu() {
  if (Device* gpu = model_.backend().gpu()) gpu->take_over();
}

const ChatTemplate& Engine::chat_template() const {
  if (!template_) throw Error(ErrorCode::kUnsupported, no_template_);
  return *template_;
}

std::vector<int32_t> Engine::encode(std::span<const sb_message> messages) const {
  std::vector<ChatMessage> conversation;
  for (const sb_message& message : messages) {
    conversation.push_back({role_of(message), message.content});
  }
  if (conversation.empty()) {
    throw Error(ErrorCode::kUsage, "messages: expected one or more, found none");
  }
  return chat_template().encode(tokenizer(), conversation);
}

Engine::Turn::Turn(Engine& engine) : engine_(engine), lock_(engine.mutex_, std::defer_lock) {
  if (engine.has_turn_ == std::this_thread::get_id()) {
    throw Error(ErrorCode::kUsage,
                "called from a callback of the same model, which is busy until that returns");
  }
  lock_.lock();
  engine_.take_over_gpu();
  engine_.has_turn_ = std::this_thread::get_id();
}

Engine::Turn::~Turn() {
  engine_.has_turn_ = std::thread::id();
}

}  // namespace specbound::capi
