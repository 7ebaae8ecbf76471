// Renders a conversation as the prompt text its model was trained on, as pieces: control tokens are
// theirs, user text is never parsed for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "text/tokenizer.h"

namespace specbound {

struct ChatMessage {
  enum class Role { kSystem, kUser, kAssistant };
  Role role;
  std::string content;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  // Recognized from tokenizer.chat_template; Error(kUnsupported) says what was found when the text
  // is none this program knows (--raw still works).
  static std::unique_ptr<ChatTemplate> from_gguf(const Gguf& gguf);

  virtual const char* name() const = 0;

  // Ids of the whole conversation, BOS included, ending where the assistant's next reply begins.
  virtual std::vector<int32_t> encode(const Tokenizer& tokenizer,
                                      std::span<const ChatMessage> messages) const = 0;
  // The same as text with control tokens spelled out (what the Jinja original renders).
  virtual std::string render(std::span<const ChatMessage> messages) const = 0;
  // How a generated reply is stored as a message: the space the template puts in front is cut.
  virtual std::string reply_text(std::string_view generated) const = 0;
};

}  // namespace specbound
