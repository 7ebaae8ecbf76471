#include "server/chat_messages.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "error.h"
#include "server/api_error.h"
#include "server/ordered_json.h"

namespace specbound::server {

namespace {

using Role = ChatMessage::Role;

constexpr size_t kMaxId = 256;  // bytes of a call's id, and of a name

std::string read_short(const Fields& fields, const char* name) {
  std::string text = fields.text(name).value_or("");
  if (text.size() > kMaxId) {
    fields.bad(name, format("at most %zu bytes", kMaxId), std::to_string(text.size()));
  }
  return text;
}

Role read_role(const Fields& message) {
  const std::string role = message.text("role").value_or("");
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "system") return Role::kSystem;
  if (role == "developer") return Role::kDeveloper;
  if (role == "tool") return Role::kTool;
  message.refuse("role", "system, developer, user, assistant or tool");
}

// A string, or parts of text, each on lines of its own.
void read_content(const Fields& fields, ChatMessage& message) {
  const Json* content = fields.find("content");
  if (!content && !message.calls.empty()) return;
  if (content && content->is_string()) {
    message.content = content->get<std::string>();
    return;
  }
  if (!content || !content->is_array()) {
    fields.refuse("content", "a string or an array of text parts");
  }
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& json = (*content)[i];
    const std::string path = fields.name("content") + format("[%zu]", i);
    if (!json.is_object()) {
      throw ApiError(400, path + ": expected an object with type and text", path);
    }
    const Fields part(json, path + ".");
    if (const std::string type = part.text("type").value_or(""); type != "text") {
      part.refuse("type", "text, all that this model reads");
    }
    const std::optional<std::string> text = part.text("text");
    if (!text) part.refuse("text", "a string");
    message.content += (i > 0 ? "\n" : "") + *text;
  }
}

// The arguments of a call as a dict; null for a text that is no JSON object.
ChatValue arguments_in(const std::string& text) {
  try {
    const bool object =
        parse_json(text, "the arguments", {kMaxJsonDepth, kMaxJsonValues, true}).is_object();
    return object ? ordered_value(text) : ChatValue();
  } catch (const Error&) {
    return {};
  }
}

// `ordered`: the same, which is an object, too.
ToolCall read_call(const Json& json, const ChatValue& ordered, const std::string& path) {
  if (!json.is_object()) throw ApiError(400, path + ": expected an object", path);
  const Fields fields(json, path + ".");
  if (const auto type = fields.text("type"); type && *type != "function") {
    fields.refuse("type", "function");
  }
  const Json* object = fields.find("function");
  if (!object || !object->is_object()) fields.refuse("function", "an object");
  const Fields function(*object, fields.name("function") + ".");
  ToolCall call{.id = read_short(fields, "id"), .name = read_short(function, "name")};
  if (call.name.empty()) function.refuse("name", "the name of a function");
  const Json* arguments = function.find("arguments");
  if (arguments && arguments->is_object()) {  // as templates have it, not OpenAI's clients
    call.values = *ordered.find("function")->find("arguments");
    call.arguments = json_of(call.values);
    return call;
  }
  if (!arguments || !arguments->is_string()) function.refuse("arguments", "JSON in a string");
  call.arguments = arguments->get<std::string>();
  call.values = arguments_in(call.arguments);
  return call;
}

void read_calls(const Fields& fields, const ChatValue& ordered, ChatMessage& message) {
  const Json* list = fields.find("tool_calls");
  if (!list || (list->is_array() && list->empty())) return;
  if (message.role != Role::kAssistant) {
    throw ApiError(400, fields.name("tool_calls") + ": only the assistant calls tools",
                   fields.name("tool_calls"));
  }
  if (!list->is_array() || list->size() > kMaxCalls) {
    fields.refuse("tool_calls", format("an array of at most %zu calls", kMaxCalls));
  }
  const ChatValue::List& same = *ordered.find("tool_calls")->list();
  for (size_t i = 0; i < list->size(); ++i) {
    message.calls.push_back(
        read_call((*list)[i], same[i], fields.name("tool_calls") + format("[%zu]", i)));
  }
}

ChatMessage read_message(const Json& json, const ChatValue& ordered, size_t number) {
  const std::string path = format("messages[%zu]", number);
  if (!json.is_object()) throw ApiError(400, path + ": expected an object", path);
  const Fields fields(json, path + ".");
  for (const char* name : {"function_call", "audio"}) {
    const Json* value = fields.find(name);
    if (value && !value->empty()) {
      throw ApiError(400, fields.name(name) + ": only text and tool_calls can be read",
                     fields.name(name), "unsupported_value");
    }
  }
  ChatMessage message{.role = read_role(fields), .content = ""};
  read_calls(fields, ordered, message);
  read_content(fields, message);
  message.name = read_short(fields, "name");
  if (message.role == Role::kAssistant) {
    message.reasoning = fields.text("reasoning_content").value_or("");
  }
  if (message.role == Role::kTool) message.call_id = read_short(fields, "tool_call_id");
  return message;
}

// The results of calls say whose they are, for templates that name the tool.
void name_results(std::vector<ChatMessage>& messages) {
  const std::vector<ToolCall>* calls = nullptr;  // the newest
  for (ChatMessage& message : messages) {
    if (!message.calls.empty()) calls = &message.calls;
    if (message.role != Role::kTool || !message.name.empty() || !calls) continue;
    const auto call = std::ranges::find(*calls, message.call_id, &ToolCall::id);
    if (call != calls->end()) message.name = call->name;
  }
}

ChatValue::Dict read_variables(const Fields& fields, const ChatValue& ordered) {
  const Json* given = fields.find("chat_template_kwargs");
  if (!given) return {};
  if (!given->is_object()) fields.refuse("chat_template_kwargs", "an object");
  for (const char* own : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (given->contains(own)) {
      const std::string name = std::string("chat_template_kwargs.") + own;
      throw ApiError(400, name + ": not a variable of its own", name);
    }
  }
  return *ordered.find("chat_template_kwargs")->dict();
}

void check_size(const Chat& chat) {
  ChatValue::Size size;
  const auto check = [&](const char* field) {
    if (size.values <= kMaxChatValues) return;
    throw ApiError(400,
                   format("%s: expected at most %zu values in tools, arguments and "
                          "chat_template_kwargs together, found more",
                          field, kMaxChatValues),
                   field);
  };
  for (const auto& [name, value] : chat.variables) value.add_to(size);
  check("chat_template_kwargs");
  for (const ChatValue& tool : chat.tools.as_given) tool.add_to(size);
  check("tools");
  for (const ChatMessage& message : chat.messages) {
    for (const ToolCall& call : message.calls) call.values.add_to(size);
  }
  check("messages");
}

}  // namespace

bool Chat::goes_on() const {
  return continues && is_begun(messages.back());
}

Chat read_chat(const Fields& fields, std::string_view body) {
  const Json* list = fields.find("messages");
  if (!list || !list->is_array() || list->empty()) {
    fields.refuse("messages", "an array of at least one message");
  }
  const ChatValue ordered = ordered_value(body);
  const ChatValue::List& same = *ordered.find("messages")->list();
  Chat chat;
  for (size_t i = 0; i < list->size(); ++i) {
    chat.messages.push_back(read_message((*list)[i], same[i], i));
  }
  name_results(chat.messages);
  chat.tools = read_tools(fields, ordered);
  chat.variables = read_variables(fields, ordered);
  check_size(chat);
  const ChatMessage& last = chat.messages.back();
  const std::optional<bool> asks = fields.flag("add_generation_prompt");
  chat.asks = asks.value_or(true);
  chat.continues = last.role == Role::kAssistant && last.calls.empty() && !asks.value_or(false);
  if (chat.continues && chat.messages.size() == 1 && !is_begun(last)) {
    throw ApiError(400, "messages: expected more than one of the assistant's without a text",
                   "messages");
  }
  return chat;
}

}  // namespace specbound::server
