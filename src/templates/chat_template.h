// Renders a conversation as the prompt text its model was trained on: the Jinja text of the model's
// file, or a built-in one, run by jinja.h. What messages hold stays text there: control tokens are
// the template's alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/chat_value.h"
#include "model/gguf.h"
#include "templates/reply_format.h"
#include "text/tokenizer.h"

namespace specbound {

// Of a GGUF file: a template for conversations with tools beside tokenizer.chat_template.
inline constexpr const char* kToolTemplateKey = "tokenizer.chat_template.tool_use";

// A tool that the assistant called.
struct ToolCall {
  std::string id = {}, name = {};
  std::string arguments = {};  // JSON
  ChatValue values = {};       // the same as a dict; null where it is none
};

struct ChatMessage {
  enum class Role { kSystem, kUser, kAssistant, kTool, kDeveloper };
  Role role;
  std::string content = {};
  std::vector<ToolCall> calls = {};     // an assistant's
  std::string reasoning = {};           // an assistant's
  std::string call_id = {}, name = {};  // a tool's: which call it answers, and whose
};

// It has text that a reply may go on with: not white space alone, as Jinja has it.
bool is_begun(const ChatMessage& message);

// All that a prompt is made of.
struct ChatInput {
  std::span<const ChatMessage> messages;
  ChatValue::List tools = {};      // as OpenAI's interface has them
  ChatValue::Dict variables = {};  // more that the template may ask for: enable_thinking
  // The prompt ends where a reply begins; none: if the last message is the user's.
  std::optional<bool> asks = {};
  // The last message, which is the assistant's, is begun and goes on.
  bool continues = false;
};

struct ChatPrompt {
  std::vector<int32_t> ids;
  bool thinks = false;  // what comes next are thoughts, up to their closing mark
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  // The built-in template of that name; without one tokenizer.chat_template, and kToolTemplateKey
  // where there are tools that it has no place for. One that cannot be rendered here is replaced by
  // ChatML, and a missing one too if the vocabulary has ChatML's tokens; notes() says so. Throws
  // Error(kUsage) for an unknown name and Error(kUnsupported) for a file without a template (--raw
  // still works).
  static std::unique_ptr<ChatTemplate> from_gguf(const Gguf& gguf, std::string_view name = {});
  // That text, of `path`; the file says what its tokens are. Throws Error(kUnsupported) where it
  // cannot be rendered here.
  static std::unique_ptr<ChatTemplate> from_text(const Gguf& gguf, std::string_view jinja,
                                                 const std::string& path);

  // What `name` may be, in the order of the list that help texts show.
  static std::vector<std::string> names();

  virtual const char* name() const = 0;

  // Ids of the whole conversation, BOS included, ending where the assistant's next reply begins.
  // Throws Error(kUnsupported) for what the template cannot render: it has no place for tools, it
  // refuses the conversation.
  virtual ChatPrompt prompt(const Tokenizer& tokenizer, const ChatInput& input) const = 0;
  // The same as text with control tokens spelled out.
  virtual std::string text(const ChatInput& input) const = 0;

  std::vector<int32_t> encode(const Tokenizer& tokenizer,
                              std::span<const ChatMessage> messages) const {
    return prompt(tokenizer, {.messages = messages}).ids;
  }
  std::string render(std::span<const ChatMessage> messages) const {
    return text({.messages = messages});
  }
  // How a generated reply is stored as a message: the space the template puts in front is cut.
  virtual std::string reply_text(std::string_view generated) const = 0;

  // How replies write calls and thoughts.
  const ReplyFormat& reply_format() const { return format_; }
  bool takes_tools() const { return takes_tools_; }
  // What the user should know of the choice: lines to print.
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  ReplyFormat format_;
  bool takes_tools_ = false;
  std::vector<std::string> notes_;
};

struct BuiltinTemplate {
  std::string name;
  std::string jinja;
  std::vector<std::string> controls;  // tokens without which it is only text
};
const std::vector<BuiltinTemplate>& builtin_templates();

}  // namespace specbound
