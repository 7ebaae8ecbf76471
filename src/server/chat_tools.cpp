#include "server/chat_tools.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "json/json_writer.h"
#include "server/api_error.h"
#include "server/ordered_json.h"

namespace specbound::server {

namespace {

using Kind = ToolChoice::Kind;

constexpr std::string_view kNameSigns = "_-.:/";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxToolName &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kNameSigns.find(c) != kNameSigns.npos;
         });
}

// "function" under `key` of an object that is of that type, which is the only one there is.
Fields read_function(const Fields& fields) {
  if (fields.text("type").value_or("") != "function") fields.refuse("type", "function");
  const Json* function = fields.find("function");
  if (!function || !function->is_object()) fields.refuse("function", "an object");
  return Fields(*function, fields.name("function") + ".");
}

std::string read_name(const Fields& function) {
  const std::string name = function.text("name").value_or("");
  if (!is_name(name)) {
    function.refuse("name", format("1 to %zu letters, digits and characters of %s", kMaxToolName,
                                   kNameSigns.data()));
  }
  return name;
}

// What a schema takes are strings and nothing else.
bool is_text_schema(const Json& schema) {
  if (!schema.is_object()) return false;
  const auto all = [&](const char* key, auto&& fits) {
    const auto list = schema.find(key);
    return list != schema.end() && list->is_array() && !list->empty() &&
           std::all_of(list->begin(), list->end(), fits);
  };
  if (schema.contains("type")) return schema["type"] == "string";
  return all("enum", [](const Json& value) { return value.is_string(); }) ||
         all("anyOf", is_text_schema);
}

using Keyword = ChatValue::Dict::value_type;

// Arguments are an object, whatever else a schema would let them be: it says so from here on, and
// branches that are something else go.
std::string schema_of_arguments(const Fields& function, const ChatValue& ordered) {
  const Json& parameters = *function.find("parameters");
  ChatValue::Dict schema = *ordered.dict();
  std::erase_if(schema, [](const Keyword& keyword) { return keyword.first == "nullable"; });
  const auto is_other = [](const ChatValue& branch) {
    const ChatValue* type = branch.find("type");
    return type && type->text() && *type->text() != "object";
  };
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto at = std::ranges::find(schema, key, &Keyword::first);
    if (at == schema.end()) continue;
    if (auto* branches = std::get_if<ChatValue::List>(&at->second.value)) {
      std::erase_if(*branches, is_other);
    }
  }
  if (const auto type = parameters.find("type"); type != parameters.end()) {
    const bool listed = type->is_array() && std::ranges::count(*type, Json("object")) > 0;
    if (*type != "object" && !listed) {
      const std::string name = function.name("parameters.type");
      throw ApiError(400, name + ": expected object, found " + json_text(*type), name);
    }
    std::ranges::find(schema, "type", &Keyword::first)->second = "object";
    return json_of(std::move(schema));
  }
  // Beside a reference there may be nothing.
  const auto reference = std::ranges::find(schema, "$ref", &Keyword::first);
  if (reference != schema.end() && !parameters.contains("allOf")) {
    ChatValue::List alone = {ChatValue::Dict{std::move(*reference)}};
    *reference = {"allOf", std::move(alone)};
  }
  schema.insert(schema.begin(), {"type", "object"});
  return json_of(std::move(schema));
}

// `ordered`: the same, which is an object, too.
Tool read_tool(const Json& json, const ChatValue& ordered, const std::string& path) {
  if (!json.is_object()) throw ApiError(400, path + ": expected an object", path);
  const Fields function = read_function(Fields(json, path + "."));
  Tool tool{.name = read_name(function)};
  function.text("description");
  tool.strict = function.flag("strict").value_or(false);
  const Json* parameters = function.find("parameters");
  if (!parameters) return tool;
  if (!parameters->is_object()) function.refuse("parameters", "a JSON schema: an object");
  tool.parameters = schema_of_arguments(function, *ordered.find("function")->find("parameters"));
  const auto properties = parameters->find("properties");
  if (properties == parameters->end()) return tool;
  if (!properties->is_object()) {
    const std::string name = function.name("parameters.properties");
    throw ApiError(400, name + ": expected an object, found " + json_text(*properties), name);
  }
  for (const auto& [name, schema] : properties->items()) {
    if (is_text_schema(schema)) tool.text_parameters.push_back(name);
  }
  return tool;
}

ToolChoice read_choice(const Fields& fields, const std::vector<Tool>& tools) {
  const Json* value = fields.find("tool_choice");
  if (!value) return {tools.empty() ? Kind::kNone : Kind::kAuto};
  if (*value == "none") return {Kind::kNone};
  if (*value == "auto") return {tools.empty() ? Kind::kNone : Kind::kAuto};
  if (tools.empty()) throw ApiError(400, "tool_choice: only with tools", "tool_choice");
  if (*value == "required") return {Kind::kRequired};
  if (!value->is_object()) {
    fields.refuse("tool_choice", "none, auto, required, or an object that names a function");
  }
  const Fields function = read_function(Fields(*value, "tool_choice."));
  ToolChoice choice{Kind::kNamed, read_name(function)};
  if (std::ranges::count(tools, choice.name, &Tool::name) == 0) {
    function.refuse("name", "the name of one of the tools");
  }
  return choice;
}

}  // namespace

bool ToolRequest::strict() const {
  return choice.kind == Kind::kAuto && std::ranges::count(tools, true, &Tool::strict) > 0;
}

ToolRequest read_tools(const Fields& fields, const ChatValue& ordered) {
  ToolRequest request;
  const Json* list = fields.find("tools");
  if (list && !list->is_array()) fields.refuse("tools", "an array of functions");
  if (list && list->size() > kMaxTools) {
    fields.bad("tools", format("at most %zu", kMaxTools), std::to_string(list->size()));
  }
  for (size_t i = 0; list && i < list->size(); ++i) {
    Tool tool = read_tool((*list)[i], (*ordered.find("tools")->list())[i], format("tools[%zu]", i));
    if (std::ranges::count(request.tools, tool.name, &Tool::name) > 0) {
      const std::string name = format("tools[%zu].function.name", i);
      throw ApiError(400, name + ": expected each name once, found " + tool.name + " twice", name);
    }
    request.tools.push_back(std::move(tool));
  }
  request.choice = read_choice(fields, request.tools);
  request.parallel = fields.flag("parallel_tool_calls").value_or(true);
  if (request.choice.kind == Kind::kNone) {
    request.tools.clear();
  } else {
    request.as_given = *ordered.find("tools")->list();
  }
  return request;
}

}  // namespace specbound::server
