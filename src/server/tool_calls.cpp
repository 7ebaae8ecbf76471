#include "server/tool_calls.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "json/json_writer.h"
#include "server/json_body.h"
#include "templates/reply_format.h"

namespace specbound::server {

namespace {

constexpr JsonLimits kLimits = {kMaxJsonDepth, kMaxJsonValues, true};

std::optional<Json> parsed(std::string_view text) {
  try {
    return parse_json(text, "a call", kLimits);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Where the value ends that valid JSON has at `at`: a comma or a bracket that is not its own.
size_t value_end(std::string_view json, size_t at) {
  int depth = 0;
  for (bool in_string = false; at < json.size(); ++at) {
    const char c = json[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth < 0) return at;
    if (c == ',' && depth == 0) return at;
  }
  return at;
}

// The elements of a valid array, or the entries of a valid object, as they stand there.
std::vector<std::string_view> elements_of(std::string_view json) {
  std::vector<std::string_view> out;
  json = trimmed(json);
  for (size_t at = 1; at < json.size();) {
    const size_t end = value_end(json, at);
    const std::string_view element = trimmed(json.substr(at, end - at));
    if (!element.empty()) out.push_back(element);
    at = end + 1;
  }
  return out;
}

// The value of a key of a valid object, as it stands there; the last one counts.
std::optional<std::string_view> value_of(std::string_view object, std::string_view key) {
  std::optional<std::string_view> value;
  for (const std::string_view entry : elements_of(object)) {
    size_t quote = 1;
    while (entry[quote] != '"') quote += entry[quote] == '\\' ? 2 : 1;
    const std::string_view name = entry.substr(0, quote + 1);
    if (Json::parse(name) != Json(key)) continue;
    value = trimmed(entry.substr(entry.find(':', quote) + 1));
  }
  return value;
}

bool knows(std::span<const Tool> tools, const std::string& name) {
  return std::ranges::count(tools, name, &Tool::name) > 0;
}

// `json`: that text, an object or not.
std::optional<CallText> call_in_object(const Json& json, std::string_view text,
                                       std::span<const Tool> known) {
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find(json.contains("name") ? "name" : "tool_name");
  if (name == json.end() || !name->is_string() || name->empty()) return std::nullopt;
  const char* key = json.contains("arguments") ? "arguments" : "parameters";
  CallText call{name->get<std::string>(), "{}"};
  if (call.name.empty() || (!known.empty() && !knows(known, call.name))) return std::nullopt;
  const auto arguments = json.find(key);
  if (arguments == json.end()) return known.empty() ? std::optional(call) : std::nullopt;
  if (arguments->is_null()) return call;
  std::optional<std::string> object = call_arguments(*value_of(text, key));
  if (!object) return std::nullopt;
  call.arguments = *std::move(object);
  return call;
}

std::string_view without_line_ends(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// Arguments that stand outside of JSON, as an object.
class TaggedArguments {
 public:
  TaggedArguments(const std::string& name, std::span<const Tool> tools) {
    const auto tool = std::ranges::find(tools, name, &Tool::name);
    if (tool != tools.end()) texts_ = &tool->text_parameters;
  }

  // Of tools that nobody knows all values are text.
  void add(std::string_view key, std::string_view value) {
    const bool is_text = !texts_ || std::ranges::count(*texts_, key) > 0;
    entries_ += (entries_.empty() ? "" : ", ") + dump(Json(key)) + ": ";
    entries_ += !is_text && parsed(value) ? std::string(trimmed(value)) : dump(Json(value));
  }
  std::string object() const { return "{" + entries_ + "}"; }

 private:
  const std::vector<std::string>* texts_ = nullptr;
  std::string entries_;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::string> call_arguments(std::string_view json) {
  const std::optional<Json> value = parsed(json);
  if (!value) return std::nullopt;
  if (value->is_object()) return std::string(trimmed(json));
  if (!value->is_string()) return std::nullopt;
  const std::string inner = value->get<std::string>();
  const std::optional<Json> object = parsed(inner);
  return object && object->is_object() ? std::optional(inner) : std::nullopt;
}

std::optional<std::vector<CallText>> calls_in_json(std::string_view text,
                                                   std::span<const Tool> known) {
  const std::optional<Json> json = parsed(text);
  if (!json || json->empty()) return std::nullopt;
  std::vector<CallText> calls;
  const auto add = [&](const Json& object, std::string_view source) {
    std::optional<CallText> call = call_in_object(object, source, known);
    if (call) calls.push_back(*std::move(call));
    return call.has_value();
  };
  if (!json->is_array()) {
    if (!add(*json, text)) return std::nullopt;
    return calls;
  }
  const std::vector<std::string_view> sources = elements_of(text);
  for (size_t i = 0; i < json->size(); ++i) {
    if (!add((*json)[i], sources[i])) return std::nullopt;
  }
  return calls;
}

size_t first_call_end(std::string_view list) {
  return value_end(list, 1);
}

std::optional<CallText> call_in_tags(std::string_view text, std::span<const Tool> tools) {
  constexpr std::string_view kFunction = "<function=", kFunctionEnd = "</function>";
  constexpr std::string_view kParameter = "<parameter=", kParameterEnd = "</parameter>";
  text = trimmed(text);
  if (!text.starts_with(kFunction) || !text.ends_with(kFunctionEnd)) return std::nullopt;
  text.remove_suffix(kFunctionEnd.size());
  // What stands between `open` and '>', both taken off.
  const auto take_tag = [&](std::string_view open) -> std::optional<std::string> {
    const size_t end = text.find('>');
    if (!text.starts_with(open) || end == text.npos || end == open.size()) return std::nullopt;
    std::string name(text.substr(open.size(), end - open.size()));
    text.remove_prefix(end + 1);
    return name;
  };
  const std::optional<std::string> name = take_tag(kFunction);
  if (!name) return std::nullopt;
  TaggedArguments arguments(*name, tools);
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const std::optional<std::string> key = take_tag(kParameter);
    const size_t end = text.find(kParameterEnd);
    if (!key || end == text.npos) return std::nullopt;
    const std::string_view value = without_line_ends(text.substr(0, end));
    text.remove_prefix(end + kParameterEnd.size());
    arguments.add(*key, value);
  }
  return CallText{*name, arguments.object()};
}

std::optional<CallText> call_in_pairs(std::string_view text, std::span<const Tool> tools) {
  const auto take_between = [&](std::string_view open,
                                std::string_view close) -> std::optional<std::string_view> {
    text = trimmed(text);
    const size_t end = text.find(close);
    if (!text.starts_with(open) || end == text.npos) return std::nullopt;
    const std::string_view inside = text.substr(open.size(), end - open.size());
    text.remove_prefix(end + close.size());
    return inside;
  };
  const size_t end = std::min(text.find('<'), text.size());
  const std::string name(trimmed(text.substr(0, end)));
  if (name.empty() || std::ranges::any_of(name, is_blank)) return std::nullopt;
  text.remove_prefix(end);
  TaggedArguments arguments(name, tools);
  while (!trimmed(text).empty()) {
    const auto key = take_between(kGlmTags[0], kGlmTags[1]);
    const auto value = key ? take_between(kGlmTags[2], kGlmTags[3]) : std::nullopt;
    if (!value) return std::nullopt;
    arguments.add(*key, *value);
  }
  return CallText{name, arguments.object()};
}

std::string name_in_json(const std::string& begun) {
  const bool list = begun.starts_with('[');
  std::optional<Json> json = parsed(begun + (list ? "{}}]" : "{}}"));
  if (!json || json->empty()) return {};
  const Json call = list ? json->back() : *json;
  const std::optional<CallText> found = call_in_object(call, call.dump(), {});
  return found ? found->name : std::string();
}

}  // namespace specbound::server
