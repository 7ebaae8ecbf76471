#include "grammar/schema_merge.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "json/json_reader.h"

namespace specbound {
namespace {

struct Keyword {
  std::string_view name;
  std::string_view type;  // of values that it speaks of; empty: of all
};
constexpr Keyword kKeywords[] = {
    {"type", ""},
    {"enum", ""},
    {"const", ""},
    {"nullable", ""},
    {"$ref", ""},
    {"anyOf", ""},
    {"oneOf", ""},
    {"allOf", ""},
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"uniqueItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
};

constexpr std::string_view kTypes[] = {"null",   "boolean", "integer", "number",
                                       "string", "array",   "object"};
constexpr size_t kShown = 200;       // bytes of a place, a keyword or a value in a message
constexpr int kMostReferences = 16;  // from one to the next

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string shown(std::string_view text) {
  return text.size() > kShown ? std::string(text.substr(0, kShown)) + "..." : std::string(text);
}

// `types` with all that a number may be.
std::vector<std::string> widened(std::vector<std::string> types) {
  if (contains(types, "number") && !contains(types, "integer")) types.emplace_back("integer");
  return types;
}

Schema types_of_both(const std::vector<std::string>& a, const std::vector<std::string>& b,
                     const std::string& place) {
  Schema both = Schema::array();
  for (const std::string_view type : kTypes) {
    if (contains(widened(a), type) && contains(widened(b), type)) both.push_back(type);
  }
  if (both.empty()) {
    refuse_schema(ErrorCode::kUsage, place, "type", "schemas that some value fits",
                  "none in common");
  }
  return both;
}

Schema values_in_both(const Schema& a, const Schema& b, const std::string& place) {
  const std::set<Schema> of_b(b.begin(), b.end());
  Schema both = Schema::array();
  for (const Schema& value : a) {
    if (of_b.contains(value)) both.push_back(value);
  }
  if (both.empty()) {
    refuse_schema(ErrorCode::kUsage, place, "enum", "schemas that some value fits",
                  "none in common");
  }
  return both;
}

// Properties of `b` that `a` does not name, which a's additionalProperties would have to judge.
bool judges(const Schema& a, const Schema& b) {
  const auto additional = a.find("additionalProperties");
  if (additional == a.end() || *additional == true || !b.contains("properties")) return false;
  const Schema none = Schema::object();
  const Schema& known = a.contains("properties") ? a["properties"] : none;
  return std::ranges::any_of(b["properties"].items(),
                             [&](const auto& item) { return !known.contains(item.key()); });
}

// The constants that a schema allows, equal ones once; nullopt: others too.
std::optional<std::set<nlohmann::json>> constants(const Schema& schema) {
  if (schema.contains("const")) return std::set<nlohmann::json>{nlohmann::json(schema["const"])};
  if (!schema.contains("enum") || !schema["enum"].is_array()) return std::nullopt;
  std::set<nlohmann::json> all;
  for (const Schema& value : schema["enum"]) all.insert(nlohmann::json(value));
  return all;
}

bool share_none(const std::set<nlohmann::json>& a, const std::set<nlohmann::json>& b) {
  const bool a_is_less = a.size() < b.size();
  return std::ranges::none_of(a_is_less ? a : b, [&](const nlohmann::json& value) {
    return (a_is_less ? b : a).contains(value);
  });
}

// The same with what nullable says said by the types: null is one of those that are named, or it
// says nothing.
Schema without_nullable(Schema schema, const std::string& place) {
  const auto nullable = schema.find("nullable");
  if (nullable == schema.end()) return schema;
  if (!nullable->is_boolean()) {
    refuse_schema(ErrorCode::kUsage, place, "nullable", "true or false", found_text(*nullable));
  }
  const bool adds = *nullable == true;
  schema.erase("nullable");
  std::vector<std::string> types = types_of(schema, place);
  if (adds && !types.empty() && !contains(types, "null")) {
    types.emplace_back("null");
    schema["type"] = types;
  }
  return schema;
}

std::set<std::string> required_by(const Schema& schema) {
  std::set<std::string> names;
  const auto required = schema.find("required");
  if (required == schema.end() || !required->is_array()) return names;
  for (const Schema& name : *required) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

bool refers(const Schema& schema) {
  if (schema.is_object() && schema.contains("$ref")) return true;
  return schema.is_structured() && std::ranges::any_of(schema, refers);
}

// A fragment of a URI as what it stands for; what is no %XX stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 2);
    const char* const end = digits.data() + digits.size();
    uint8_t byte = 0;
    const bool coded = text[i] == '%' && digits.size() == 2 &&
                       std::from_chars(digits.data(), end, byte, 16).ptr == end;
    out += coded ? static_cast<char>(byte) : text[i];
    if (coded) i += 2;
  }
  return out;
}

const Schema& place_of(const Schema& root, const std::string& reference, const std::string& place) {
  const auto refuse = [&] {
    refuse_schema(ErrorCode::kUnsupported, place, "$ref", "a place in the schema, as #/$defs/NAME",
                  '"' + printable(reference) + '"');
  };
  if (!reference.starts_with('#')) refuse();
  const std::string pointer = percent_decoded(std::string_view(reference).substr(1));
  const Schema* at = &root;
  for (size_t begin = 0; begin < pointer.size();) {
    if (pointer[begin] != '/') refuse();
    const size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    std::string key;
    for (size_t i = begin + 1; i < end; ++i) {
      const bool escaped = pointer[i] == '~' && i + 1 < end;
      key += !escaped ? pointer[i] : pointer[++i] == '1' ? '/' : '~';
    }
    begin = end;
    if (const auto found = at->find(key); found != at->end()) {
      at = &*found;
    } else if (at->is_array() && !key.empty() && key.size() < 6 &&
               std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; }) &&
               std::stoul(key) < at->size()) {
      at = &(*at)[std::stoul(key)];
    } else {
      refuse();
    }
    check_no_resource(*at, place);
  }
  return *at;
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  constexpr std::string_view kAnnotations[] = {
      "title",   "description", "default",    "examples", "example",   "$comment",
      "$schema", "$id",         "deprecated", "readOnly", "writeOnly", "discriminator"};
  return std::ranges::find(kAnnotations, keyword) != std::end(kAnnotations);
}

bool says_nothing(std::string_view keyword) {
  return is_annotation(keyword) || keyword == "$defs" || keyword == "definitions";
}

std::string place_in(const std::string& place, std::string_view key) {
  if (place.size() > kShown) return place;
  std::string out = place + '/';
  for (const char c : key.substr(0, kShown))
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

void refuse_schema(ErrorCode code, const std::string& place, std::string_view keyword,
                   const std::string& expected, const std::string& found) {
  std::string message = "json_schema: ";
  message += shown(place);
  if (!keyword.empty()) message += ": " + printable(shown(keyword));
  throw Error(code, message + ": expected " + expected + ", found " + shown(found));
}

std::string found_text(const Schema& value) {
  return json_text(nlohmann::json(value));
}

void check_no_resource(const Schema& schema, const std::string& place) {
  const auto id = schema.find("$id");
  if (id == schema.end() || !id->is_string() || id->get<std::string>().starts_with('#')) return;
  if (!refers(schema)) return;
  refuse_schema(ErrorCode::kUnsupported, place, "$id",
                "it on the whole schema alone, where references begin", found_text(*id));
}

std::vector<std::string> types_of(const Schema& schema, const std::string& place) {
  const auto type = schema.find("type");
  if (type == schema.end()) return {};
  const Schema list = type->is_array() ? *type : Schema::array({*type});
  std::vector<std::string> types;
  for (const Schema& one : list) {
    const std::string word = one.is_string() ? one.get<std::string>() : "";
    if (std::ranges::find(kTypes, word) == std::end(kTypes) || list.empty()) {
      refuse_schema(ErrorCode::kUsage, place, "type", "one or more of " + joined(kTypes),
                    found_text(one));
    }
    if (!contains(types, word)) types.push_back(word);
  }
  if (types.empty()) refuse_schema(ErrorCode::kUsage, place, "type", "one type or more", "none");
  return types;
}

void check_keywords(const Schema& schema, const std::string& place) {
  for (const auto& item : schema.items()) {
    if (says_nothing(item.key())) continue;
    if (std::ranges::find(kKeywords, item.key(), &Keyword::name) != std::end(kKeywords)) continue;
    refuse_schema(ErrorCode::kUnsupported, place, item.key(),
                  "a keyword that replies can be held to", "one that is not followed");
  }
}

std::vector<std::string> types_meant(const Schema& schema, const std::string& place) {
  std::vector<std::string> types = types_of(schema, place);
  if (!types.empty()) return types;
  for (const Keyword& keyword : kKeywords) {
    const std::string type(keyword.type);
    if (type.empty() || !schema.contains(std::string(keyword.name))) continue;
    if (!contains(types, type)) types.push_back(type);
  }
  return types;
}

bool is_of(const nlohmann::json& value, const std::vector<std::string>& types) {
  const bool whole = value.is_number_integer() || (value.is_number_float() && whole_number(value));
  return types.empty() || std::ranges::any_of(types, [&](const std::string& type) {
           return (type == "null" && value.is_null()) ||
                  (type == "boolean" && value.is_boolean()) || (type == "integer" && whole) ||
                  (type == "number" && value.is_number()) ||
                  (type == "string" && value.is_string()) ||
                  (type == "array" && value.is_array()) || (type == "object" && value.is_object());
         });
}

Schema merged(Schema a, const Schema& other, const std::string& place) {
  if (a.is_boolean() && a == true) return other;
  if (other.is_boolean() && other == true) return a;
  const auto refuse = [&](std::string_view keyword, const char* expected) {
    refuse_schema(ErrorCode::kUnsupported, place, keyword, expected, "schemas that differ in it");
  };
  if (!a.is_object() || !other.is_object()) refuse("", "schemas that some value fits");
  a = without_nullable(std::move(a), place);
  const Schema b = without_nullable(other, place);
  if (judges(a, b) || judges(b, a)) {
    refuse("additionalProperties", "one schema alone to say what other properties may be");
  }
  for (const auto& [x, y] : {std::pair<const Schema*, const Schema*>(&a, &b), {&b, &a}}) {
    if (x->contains("items") && y->contains("prefixItems")) {
      refuse("items", "one schema alone to say what items are");
    }
  }
  Schema both = std::move(a);
  for (const auto& item : b.items()) {
    const std::string& key = item.key();
    const Schema& value = item.value();
    if (says_nothing(key)) continue;
    if (!both.contains(key)) {
      both[key] = value;
      continue;
    }
    Schema& known = both[key];
    if (known == value) continue;
    if (key == "required" && known.is_array() && value.is_array()) {
      std::set<Schema> names(known.begin(), known.end());
      for (const Schema& name : value) {
        if (names.insert(name).second) known.push_back(name);
      }
    } else if (key == "properties" && known.is_object() && value.is_object()) {
      for (const auto& property : value.items()) {
        Schema& there = known[property.key()];
        there = there.is_null() ? property.value() : Schema{{"allOf", {there, property.value()}}};
      }
    } else if (key == "type") {
      known = types_of_both(types_of(both, place), types_of(b, place), place);
    } else if (key == "enum" && known.is_array() && value.is_array()) {
      known = values_in_both(known, value, place);
    } else if ((key.starts_with("min") || key == "exclusiveMinimum") && known.is_number() &&
               value.is_number()) {
      known = std::max(known, value);
    } else if ((key.starts_with("max") || key == "exclusiveMaximum") && known.is_number() &&
               value.is_number()) {
      known = std::min(known, value);
    } else if (key == "items" || key == "additionalProperties") {
      known = Schema{{"allOf", {known, value}}};
    } else {
      refuse(key, "the same in all, or in one alone");
    }
  }
  return both;
}

const Schema& KnownPlaces::referred(const std::string& reference, const std::string& place) {
  const Schema*& known = referred_[reference];
  if (!known) known = &place_of(root_, reference, place);
  return *known;
}

const Schema& KnownPlaces::behind_references(const Schema& schema, const std::string& place) {
  const Schema* at = &schema;
  for (int i = 0; at->is_object() && at->contains("$ref"); ++i) {
    const Schema& reference = (*at)["$ref"];
    if (!reference.is_string() || i == kMostReferences) break;
    at = &referred(reference.get<std::string>(), place);
  }
  return *at;
}

const SchemaTraits& KnownPlaces::traits(const Schema& schema, const std::string& place) {
  const Schema& at = behind_references(schema, place);
  const auto [entry, fresh] = traits_.try_emplace(&at);
  SchemaTraits& traits = entry->second;
  if (!fresh || !at.is_object()) return traits;
  traits.types = widened(types_of(at, place));
  if (const auto nullable = at.find("nullable");
      nullable != at.end() && *nullable == true && !traits.types.empty()) {
    traits.types.emplace_back("null");
  }
  traits.constants = constants(at);
  const auto properties = at.find("properties");
  if (traits.types != std::vector<std::string>{"object"} || properties == at.end()) return traits;
  const std::set<std::string> required = required_by(at);
  for (const auto& item : properties->items()) {
    if (!required.contains(item.key())) continue;
    const Schema& value = behind_references(item.value(), place);
    if (!value.is_object()) continue;
    if (auto known = constants(value)) traits.tags.emplace(item.key(), *std::move(known));
  }
  return traits;
}

bool are_disjoint(const SchemaTraits& a, const SchemaTraits& b) {
  if (a.constants && b.constants) return share_none(*a.constants, *b.constants);
  if (a.constants || b.constants) {
    return std::ranges::none_of(
        a.constants ? *a.constants : *b.constants,
        [&](const nlohmann::json& value) { return is_of(value, a.constants ? b.types : a.types); });
  }
  if (!a.types.empty() && !b.types.empty() &&
      std::ranges::none_of(a.types, [&](const std::string& t) { return contains(b.types, t); })) {
    return true;
  }
  return std::ranges::any_of(a.tags, [&](const auto& tag) {
    const auto other = b.tags.find(tag.first);
    return other != b.tags.end() && share_none(tag.second, other->second);
  });
}

}  // namespace specbound
