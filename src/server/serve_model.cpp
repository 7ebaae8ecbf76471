#include "server/serve_model.h"

#include <chrono>
#include <utility>

#include "engine/cuda/device.h"
#include "error.h"
#include "runtime/reply.h"
#include "runtime/reply_options.h"
#include "server/api_error.h"

namespace specbound {

namespace {

using server::ApiError;

// What an error says, with the model's name for its file: where that lies is not for clients.
std::string named(std::string message, const std::string& path, const std::string& id) {
  if (message.starts_with(path)) message.replace(0, path.size(), id);
  return message;
}

}  // namespace

ServeModel::ServeModel(LoadedModel& model, Speculation& speculation, std::string id)
    : model_(model),
      speculation_(speculation),
      speculates_(speculation.active()),
      session_(model.backend(), Sampler(greedy_sampling())) {
  using namespace std::chrono;
  info_.id = std::move(id);
  info_.created = duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
  info_.architecture = model.config().architecture;
  info_.n_ctx = model.n_ctx();
  info_.n_vocab = model.tokenizer().vocab_size();
  info_.n_layers = model.config().n_layers;
  try {
    chat_template_ = &model.chat_template();  // now: later there are threads
  } catch (const Error& e) {                  // /v1/completions does without
    no_template_ = named(e.what(), model.path(), info_.id);
  }
}

Prompt ServeModel::prompt(const server::CompletionRequest& request) const {
  Prompt prompt = request.chat ? chat_prompt(request) : raw_prompt(request);
  if (prompt.ids.size() > static_cast<size_t>(model_.n_ctx())) {
    throw ApiError(400,
                   format("the prompt has %zu tokens, the context holds %d", prompt.ids.size(),
                          model_.n_ctx()),
                   request.chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return prompt;
}

Prompt ServeModel::chat_prompt(const server::CompletionRequest& request) const {
  if (!chat_template_) throw ApiError(400, no_template_, "messages", "no_chat_template");
  try {
    return {chat_template_->encode(model_.tokenizer(), request.messages),
            [this](int32_t, std::string_view piece) { return chat_template_->reply_text(piece); }};
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "messages", "");
  }
}

Prompt ServeModel::raw_prompt(const server::CompletionRequest& request) const {
  if (!request.tokens.empty()) return {request.tokens, nullptr};
  try {
    PromptOptions raw;
    raw.raw = true;
    return make_prompt(model_, raw, "", request.text);
  } catch (const Error& e) {
    const bool too_long = e.code() == ErrorCode::kLimit;
    throw ApiError(400, named(e.what(), model_.path(), info_.id), "prompt",
                   too_long ? "context_length_exceeded" : "");
  }
}

std::vector<int32_t> ServeModel::tokenize(std::string_view text, bool add_special) const {
  try {
    return model_.tokenizer().encode(text, {.add_special = add_special});
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "content", "");
  }
}

void ServeModel::choose_speculation(std::optional<bool> asked) {
  const bool on = asked.value_or(speculates_);
  if (on != speculation_.active()) speculation_.set_active(on, "speculation=off");
  session_.set_speculator(speculation_.speculator());
}

ReplyStats ServeModel::reply(const server::CompletionRequest& request, const Prompt& prompt,
                             const std::atomic<bool>& abort, const OnText& on_text) {
  if (Device* gpu = model_.backend().gpu()) gpu->take_over();  // another thread has opened it
  const server::ReplySettings& settings = request.settings;
  SamplingOptions sampling;
  sampling.params = settings.sampling;
  sampling.seed = settings.seed;
  session_.set_sampling(sampling.resolve());
  choose_speculation(settings.speculation);

  ReplyRequest asked;
  asked.prompt = prompt.ids;
  asked.max_tokens = settings.max_tokens;
  asked.ignore_eos = settings.ignore_eos;
  asked.stop = settings.stop;
  asked.first_piece = prompt.first_piece;
  asked.abort = &abort;
  asked.on_text = [&on_text](std::string_view bytes, int) {
    on_text(bytes);
    return true;
  };
  return generate_reply(model_, session_, asked).stats;
}

}  // namespace specbound
