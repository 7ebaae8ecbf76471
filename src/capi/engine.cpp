#include "capi/engine.h"

#include "error.h"
#include "library/load_watcher.h"

namespace specbound::capi {

namespace {

ModelOptions model_options(const char* path, const sb_model_options& options) {
  need(path, "path");
  // The program takes the bundled model then.
  if (!*path) throw Error(ErrorCode::kUsage, "path: expected the name of a file, found \"\"");
  ModelOptions made;
  made.model = path;
  made.n_ctx = options.n_ctx;
  made.n_threads = options.n_threads;
  if (options.chat_template) made.chat_template = options.chat_template;
  if (options.device) read_device(made.device, options.device);
  if (options.kv) made.device.kv = read_kv_type(options.kv);
  return made;
}

SpeculationOptions speculation_options(const sb_model_options& options) {
  SpeculationOptions made;
  if (options.heads) made.heads = options.heads;
  if (options.no_controller) made.controller = false;
  switch (options.speculation) {
    case SB_SPECULATION_AUTO:
      break;
    case SB_SPECULATION_ON:
    case SB_SPECULATION_OFF:
      made.on = options.speculation == SB_SPECULATION_ON;
      break;
    default:
      throw Error(ErrorCode::kUsage, format("speculation: expected 0 to %d, found %d",
                                            SB_SPECULATION_OFF, options.speculation));
  }
  return made;
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
    : opened_(model_options(path, options), speculation_options(options), watcher_of(options)) {
  load();
}

// Tuned settings may be looked for later too, when nobody listens any more.
LoadWatcher Engine::watcher_of(const sb_model_options& options) {
  LoadWatcher watcher;
  watcher.progress = [this, options](const std::string& label, size_t done, size_t total) {
    if (!loading_ || !options.on_progress) return;
    if (options.on_progress(options.user_data, label.c_str(), done, total) != 0) {
      throw Interrupted("loading was ended by the progress callback");
    }
  };
  watcher.note = [this, options](const std::string& line) {
    if (loading_ && options.on_note) options.on_note(options.user_data, line.c_str());
  };
  return watcher;
}

void Engine::load() {
  LoadedModel& model = opened_.model();
  const Speculation& speculation = opened_.speculation();
  try {
    template_ = &model.chat_template();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    no_template_ = e.what();
  }
  opened_.load();
  session_.emplace(model.backend(), Sampler(greedy_sampling()));

  backend_ = model.backend().description();
  speculation_line_ = speculation.description();
  can_speculate_ = !speculation.drafter().empty();
  begins_speculating_ = speculation.active();
  model.watcher().say(speculation_line_);
  loading_ = false;
}

Engine::~Engine() {
  try {
    take_over_gpu();
  } catch (const Error&) {  // a device that is lost gives its memory back by itself
  }
}

void Engine::take_over_gpu() {
  if (Device* gpu = opened_.model().backend().gpu()) gpu->take_over();
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
  if (conversation.back().role != ChatMessage::Role::kUser) {
    throw Error(ErrorCode::kUsage,
                "messages: expected the user's at the end, for there must be one to answer");
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
