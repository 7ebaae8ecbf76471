#include "app/saved_conversation.h"

#include <nlohmann/json.hpp>

#include "app/regular_file.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"
#include "text/utf8_stream.h"

namespace specbound {

namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;  // more than anybody says in one conversation
constexpr size_t kMaxMessages = 10000;
constexpr int kMaxDepth = 8;  // a conversation has 3
constexpr int kVersion = 1;
constexpr size_t kTitleCharacters = 40;

const char* role_name(ChatMessage::Role role) {
  return role == ChatMessage::Role::kUser ? "user" : "assistant";
}

[[noreturn]] void wrong(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::kFormat, name + ": no conversation of this program: " + what);
}

json parse_json(std::string_view text, const std::string& name) {
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) wrong(name, format("nested deeper than %d levels", kMaxDepth));
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), shallow);
  } catch (const json::exception& e) {
    // Its message quotes the file.
    wrong(name, "expected JSON, found " + terminal_text(printable(e.what())));
  }
}

const json& field(const json& object, const char* key, const std::string& where,
                  const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) wrong(name, format("expected \"%s\" %s", key, where.c_str()));
  return *found;
}

std::string string_field(const json& object, const char* key, const std::string& where,
                         const std::string& name) {
  const json& value = field(object, key, where, name);
  if (!value.is_string()) {
    wrong(name,
          format("expected text as \"%s\" %s, found %s", key, where.c_str(), value.type_name()));
  }
  return value.get<std::string>();
}

std::string optional_string(const json& object, const char* key, const std::string& where,
                            const std::string& name) {
  return object.contains(key) ? string_field(object, key, where, name) : "";
}

// Whole numbers of 0 to `max`; anything else is refused.
int64_t integer_field(const json& object, const char* key, int64_t max, const std::string& where,
                      const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  // What JSON can say above int64 is unsigned.
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(max)) &&
      found->get<int64_t>() >= 0 && found->get<int64_t>() <= max;
  if (!fits) {
    wrong(name, format("expected a whole number of 0 to %lld as \"%s\" %s",
                       static_cast<long long>(max), key, where.c_str()));
  }
  return found->get<int64_t>();
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

SavedMessage parse_message(const json& object, size_t index, const std::string& name) {
  const std::string where = format("in message %zu", index);
  if (!object.is_object()) {
    wrong(name, format("expected an object as message %zu, found %s", index, object.type_name()));
  }
  SavedMessage message;
  message.role = index % 2 == 0 ? ChatMessage::Role::kUser : ChatMessage::Role::kAssistant;
  const std::string role = string_field(object, "role", where, name);
  if (role != role_name(message.role)) {
    wrong(name, format("expected \"%s\" as \"role\" %s, found \"%s\"", role_name(message.role),
                       where.c_str(), printable(role).c_str()));
  }
  message.text = string_field(object, "text", where, name);
  message.figures = optional_string(object, "figures", where, name);
  message.number = static_cast<uint32_t>(integer_field(object, "number", UINT32_MAX, where, name));
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
  std::string text =
      object.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  check_size(text.size(), name);
  return text;
}

SavedConversation parse_saved_conversation(std::string_view text, const std::string& name) {
  check_size(text.size(), name);
  const json object = parse_json(text, name);
  if (!object.is_object()) {
    wrong(name, format("expected an object, found %s", object.type_name()));
  }
  const std::string where = "at the top";
  const int64_t version = integer_field(object, "version", INT32_MAX, where, name);
  if (version != kVersion) {
    wrong(name,
          format("expected \"version\" %d, found %lld", kVersion, static_cast<long long>(version)));
  }
  SavedConversation conversation;
  conversation.title = title_from(optional_string(object, "title", where, name));
  conversation.system = optional_string(object, "system", where, name);
  conversation.changed = integer_field(object, "changed", INT64_MAX, where, name);
  const json& messages = field(object, "messages", where, name);
  if (!messages.is_array()) {
    wrong(name, format("expected a list as \"messages\", found %s", messages.type_name()));
  }
  check_messages(messages.size(), name);
  for (size_t i = 0; i < messages.size(); ++i) {
    conversation.messages.push_back(parse_message(messages[i], i, name));
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
