#include "runtime/prompt.h"

#include <span>

#include "error.h"
#include "templates/chat_template.h"

namespace specbound {

namespace {

Prompt raw_prompt(const LoadedModel& model, bool parse_special, const std::string& text) {
  const Tokenizer& tokenizer = model.tokenizer();
  Prompt prompt;
  prompt.ids = tokenizer.encode(text, {.parse_special = parse_special});
  if (text.empty()) {
    if (prompt.ids.empty() && tokenizer.bos() >= 0) prompt.ids = {tokenizer.bos()};
    // The reply is the whole text: the space that vocabularies put before a first word goes.
    prompt.first_piece = [&tokenizer](int32_t id, std::string_view) {
      return tokenizer.decode(std::span(&id, 1));
    };
  }
  if (prompt.ids.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: the vocabulary has no BOS token to start from: give a prompt",
                       model.path().c_str()));
  }
  return prompt;
}

Prompt chat_prompt(const LoadedModel& model, const std::string& system, const std::string& text) {
  const ChatTemplate& chat_template = model.chat_template();
  std::vector<ChatMessage> messages;
  if (!system.empty()) messages.push_back({ChatMessage::Role::kSystem, system});
  messages.push_back({ChatMessage::Role::kUser, text});
  Prompt prompt;
  prompt.ids = chat_template.encode(model.tokenizer(), messages);
  prompt.first_piece = [&chat_template](int32_t, std::string_view piece) {
    return chat_template.reply_text(piece);
  };
  return prompt;
}

}  // namespace

void PromptOptions::check(const std::string& system, const ModelOptions& model) const {
  if (raw && !system.empty()) {
    throw Error(ErrorCode::kUsage, "system: needs the chat template that raw=on leaves out");
  }
  if (raw && !model.chat_template.empty()) {
    throw Error(ErrorCode::kUsage, "chat_template: names what raw=on leaves out: give one of them");
  }
  if (raw && !model.chat_template_file.empty()) {
    throw Error(ErrorCode::kUsage,
                "chat_template_file: names what raw=on leaves out: give one of them");
  }
  if (parse_special && !raw) {
    throw Error(ErrorCode::kUsage, "parse_special: works with raw=on only");
  }
}

Prompt make_prompt(const LoadedModel& model, const PromptOptions& options,
                   const std::string& system, const std::string& text) {
  Prompt prompt = options.raw ? raw_prompt(model, options.parse_special, text)
                              : chat_prompt(model, system, text);
  // Session says the same, but only when the weights are there.
  if (prompt.ids.size() > static_cast<size_t>(model.n_ctx())) {
    throw Error(ErrorCode::kLimit,
                format("the prompt has %zu tokens, the context holds %d: shorten it or raise n_ctx",
                       prompt.ids.size(), model.n_ctx()));
  }
  return prompt;
}

}  // namespace specbound
