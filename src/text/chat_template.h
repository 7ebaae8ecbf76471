// Renders a conversation as the prompt text its model was trained on: the Jinja text of the model's
// file, or a built-in one, run by jinja.h. What messages hold stays text there: control tokens are
// the template's alone.
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

  // The built-in template of that name; without one tokenizer.chat_template. One that cannot be
  // rendered here is replaced by ChatML, and a missing one too if the vocabulary has ChatML's
  // tokens; notes() says so. Throws Error(kUsage) for an unknown name and Error(kUnsupported) for a
  // file without a template (--raw still works).
  static std::unique_ptr<ChatTemplate> from_gguf(const Gguf& gguf, std::string_view name = {});

  // What `name` may be, in the order of the list that help texts show.
  static std::vector<std::string> names();

  virtual const char* name() const = 0;

  // Ids of the whole conversation, BOS included, ending where the assistant's next reply begins.
  // Throws Error(kUnsupported) for a conversation that the template cannot render.
  virtual std::vector<int32_t> encode(const Tokenizer& tokenizer,
                                      std::span<const ChatMessage> messages) const = 0;
  // The same as text with control tokens spelled out.
  virtual std::string render(std::span<const ChatMessage> messages) const = 0;
  // How a generated reply is stored as a message: the space the template puts in front is cut.
  virtual std::string reply_text(std::string_view generated) const = 0;

  // What the user should know of the choice: lines to print.
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  std::vector<std::string> notes_;
};

struct BuiltinTemplate {
  std::string name;
  std::string jinja;
  std::vector<std::string> controls;  // tokens without which it is only text
};
const std::vector<BuiltinTemplate>& builtin_templates();

}  // namespace specbound
