#include "runtime/saved_conversation.h"

#include <nlohmann/json.hpp>

#include "error.h"
#include "json/json_reader.h"
#include "json/json_writer.h"
#include "system/regular_file.h"
#include "system/text_input.h"
#include "text/utf8.h"

namespace specbound {

namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;  // more than anybody says in one conversation
constexpr size_t kMaxMessages = 10000;
constexpr JsonLimits kLimits = {.depth = 8, .repeated_keys = true};  // a conversation has 3
constexpr int kVersion = 1;
constexpr size_t kTitleCharacters = 40;

const char* role_name(ChatMessage::Role role) {
  return role == ChatMessage::Role::kUser ? "user" : "assistant";
}

// Both when it is read and, so that what was written can be read, when it is written.
void check_size(size_t bytes, const std::string& name) {
  if (bytes <= kMaxFileBytes) return;
  throw Error(ErrorCode::kLimit, format("%s: expected at most %zu MiB, found %zu bytes",
                                        name.c_str(), kMaxFileBytes >> 20, bytes));
}

void check_messages(size_t count, const std::string& name) {
  if (count <= kMaxMessages) return;
  throw Error(ErrorCode::kLimit, format("%s: expected at most %zu messages, found %zu",
                                        name.c_str(), kMaxMessages, count));
}

// 0 where there is none.
int64_t whole_field(const JsonObject& object, const char* key, int64_t most) {
  if (!object.value().contains(key)) return 0;
  const std::optional<int64_t> number = object.whole(key, 0, most);
  if (!number) object.refuse(key, "a whole number");
  return *number;
}

SavedMessage parse_message(const json& value, size_t index, const std::string& place) {
  const JsonObject object(value, place + format(": message %zu", index));
  SavedMessage message;
  message.role = index % 2 == 0 ? ChatMessage::Role::kUser : ChatMessage::Role::kAssistant;
  if (object.text("role") != role_name(message.role))
    object.refuse("role", role_name(message.role));
  const std::optional<std::string> text = object.text("text");
  if (!text) object.refuse("text", "a string");
  message.text = *text;
  message.figures = object.text("figures").value_or("");
  message.number = static_cast<uint32_t>(whole_field(object, "number", UINT32_MAX));
  return message;
}

}  // namespace

std::string saved_conversation_json(const SavedConversation& conversation) {
  const std::string name = "conversation \"" + conversation.title + "\"";
  check_messages(conversation.messages.size(), name);
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const SavedMessage& message : conversation.messages) {
    nlohmann::ordered_json object = {{"role", role_name(message.role)}, {"text", message.text}};
    if (message.role == ChatMessage::Role::kAssistant) {
      object["figures"] = message.figures;
      object["number"] = message.number;
    }
    messages.push_back(std::move(object));
  }
  const nlohmann::ordered_json object = {{"version", kVersion},
                                         {"title", conversation.title},
                                         {"system", conversation.system},
                                         {"changed", conversation.changed},
                                         {"messages", std::move(messages)}};
  std::string text = dump(object) + "\n";
  check_size(text.size(), name);
  return text;
}

SavedConversation parse_saved_conversation(std::string_view text, const std::string& name) {
  check_size(text.size(), name);
  const std::string place = name + ": no conversation of this program";
  const json value = parse_json(text, place, kLimits);
  const JsonObject object(value, place);
  if (object.whole("version", 0, INT32_MAX) != kVersion) {
    object.refuse("version", format("%d", kVersion));
  }
  SavedConversation conversation;
  conversation.title = title_from(object.text("title").value_or(""));
  conversation.system = object.text("system").value_or("");
  conversation.changed = whole_field(object, "changed", INT64_MAX);
  const json* messages = object.find("messages");
  if (!messages || !messages->is_array()) object.refuse("messages", "a list");
  check_messages(messages->size(), name);
  for (size_t i = 0; i < messages->size(); ++i) {
    conversation.messages.push_back(parse_message((*messages)[i], i, place));
  }
  return conversation;
}

SavedConversation read_saved_conversation(const std::string& path) {
  check_regular(path, kMaxFileBytes);
  return parse_saved_conversation(read_bytes(path), path);
}

std::string title_from(std::string_view text) {
  std::string title;
  size_t characters = 0;
  bool space = false;  // owed before the next character
  while (!text.empty()) {
    const Utf8Head head = utf8_head(text);
    const std::string_view c = text.substr(0, head.length);
    text.remove_prefix(c.size());
    if (c == "\n" && !title.empty()) break;
    const bool whole = head.kind == Utf8Head::kWhole;
    if (!whole || c == " " || is_shapeless(code_point(c))) {
      space = !title.empty();
      continue;
    }
    if (characters + (space ? 2 : 1) > kTitleCharacters) {
      title += "\u2026";
      break;
    }
    if (space) title += ' ';
    characters += space ? 2 : 1;
    space = false;
    title += c;
  }
  return title.empty() ? "Untitled" : title;
}

}  // namespace specbound
