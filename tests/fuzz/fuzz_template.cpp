// Any bytes as a chat template, and any bytes as the messages of a conversation in a built-in one.
// The first byte of an input says which.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "jinja/jinja.h"
#include "jinja/text.h"
#include "model/gguf.h"
#include "templates/chat_template.h"
#include "tests/unit/tiny_vocabulary.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace specbound;
using Role = ChatMessage::Role;

// Bytes and the control tokens of all built-in templates.
const test::TinyVocabulary& vocabulary() {
  static const test::TinyVocabulary v = [] {
    test::TinyVocabulary v;
    v.add_bytes();
    for (const BuiltinTemplate& builtin : builtin_templates()) {
      for (const std::string& control : builtin.controls) {
        const bool known = std::any_of(v.tokens.begin(), v.tokens.end(),
                                       [&](const auto& t) { return t.text == control; });
        if (!known) v.tokens.push_back({control, 0, TokenType::kControl});
      }
    }
    v.more = [](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_space_prefix", false); };
    return v;
  }();
  return v;
}

const Tokenizer& tokenizer() {
  static const auto t = vocabulary().load();
  return *t;
}

std::unique_ptr<ChatTemplate> open_template(std::string_view source, std::string_view name) {
  test::TinyVocabulary v = vocabulary();
  v.more = [&](GgufWriter& w) { w.add_string("tokenizer.chat_template", std::string(source)); };
  const auto bytes = v.bytes();
  return ChatTemplate::from_gguf(Gguf::parse(bytes, "fuzz.gguf"), name);
}

// Always an answer, soon, and one that conversations can be put in, or an Error.
void fuzz_source(std::string_view source) {
  const auto chat = open_template(source, "");
  const ChatMessage talk[] = {
      {Role::kSystem, "S"}, {Role::kUser, "U"}, {Role::kAssistant, "R"}, {Role::kUser, "\xff"}};
  for (size_t n = 0; n <= std::size(talk); ++n) {
    const auto some = std::span(talk).first(n);
    try {
      chat->render(some);
      const bool replied = n > 0 && some.back().role == Role::kAssistant;
      chat->text({.messages = some, .asks = true, .continues = replied});
      for (const int32_t id : chat->encode(tokenizer(), some)) {
        SB_CHECK(id >= 0 && id < tokenizer().vocab_size());
      }
    } catch (const Error&) {
    }
  }
  try {
    const jinja::Template direct(source);
    jinja::Inputs inputs;
    inputs.messages = {jinja::message("user", "{{ a }}"), jinja::message("assistant", " b\n"),
                       jinja::message("tool", "")};
    const jinja::Text text = direct.render(inputs);
    SB_CHECK(is_utf8(text.bytes()));
    size_t size = 0;
    for (const jinja::Text::Part& part : text.parts()) {
      SB_CHECK(part.bytes.data() == text.bytes().data() + size && !part.bytes.empty());
      size += part.bytes.size();
    }
    SB_CHECK(size == text.size());
    // No byte that is the messages' alone passes for the template's.
    const ChatValue::Dict deep = {{"\x01", ChatValue::List{"\x01", 0.5, ChatValue()}}};
    inputs.messages = {jinja::message("user", "\x01"), jinja::message("assistant", "\x01 \x01")};
    inputs.messages[1].emplace_back("tool_calls", ChatValue::List{deep});
    inputs.variables = {{"tools", ChatValue::List{deep}}};
    const jinja::Text marked = direct.render(inputs);
    for (const jinja::Text::Part& part : marked.parts()) {
      SB_CHECK(part.input || source.find('\x01') != source.npos ||
               source.find("\\") != source.npos || part.bytes.find('\x01') == part.bytes.npos);
    }
  } catch (const jinja::NotUnderstood&) {
  } catch (const jinja::Refused&) {
  }
}

size_t count_controls(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
  const std::vector<int32_t> ids = chat.encode(tokenizer(), messages);
  return std::count_if(ids.begin(), ids.end(),
                       [](int32_t id) { return tokenizer().is_control(id); });
}

// Whatever messages say, the control tokens are those of the template.
void fuzz_messages(uint8_t which, std::string_view text) {
  static const std::vector<std::unique_ptr<ChatTemplate>> chats = [] {
    std::vector<std::unique_ptr<ChatTemplate>> out;
    for (const std::string& name : ChatTemplate::names()) out.push_back(open_template("", name));
    return out;
  }();
  const ChatTemplate& chat = *chats[which % chats.size()];
  std::vector<ChatMessage> messages, plain;
  for (const std::string_view part : jinja::split(text, std::string_view("\0", 1))) {
    const Role role = !messages.empty() && messages.back().role == Role::kUser ? Role::kAssistant
                      : messages.empty() && part.starts_with('S')              ? Role::kSystem
                                                                               : Role::kUser;
    messages.push_back({role, std::string(part)});
    plain.push_back({role, "x"});
  }
  SB_CHECK(count_controls(chat, messages) == count_controls(chat, plain));
  chat.render(messages);
  chat.reply_text(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (data[0] % 2 == 0) {
    fuzz_source(text.substr(1));
  } else {
    fuzz_messages(data[1], text.substr(2));
  }
  return 0;
}
