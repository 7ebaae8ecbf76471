#include "server/tagged_call_grammar.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "grammar/json_schema.h"
#include "grammar/schema_merge.h"
#include "json/json_reader.h"

namespace specbound::server {

namespace {

using Ordered = nlohmann::ordered_json;
using Part = GrammarPart;
using Parts = std::vector<Part>;

struct CallTags {
  std::string begin, behind_name, key_open, key_close, value_open, value_close, end;
};

CallTags call_tags(CallSyntax syntax) {
  if (syntax == CallSyntax::kXml) {
    return {"\n<function=", ">\n", "<parameter=", ">", "", "</parameter>", "</function>\n"};
  }
  return {"",
          "",
          std::string(kGlmTags[0]),
          std::string(kGlmTags[1]),
          std::string(kGlmTags[2]),
          std::string(kGlmTags[3]),
          ""};
}

Part line() {
  return Part::one_of({{}, {Part::literal("\n")}});
}

[[noreturn]] void refuse_value(const std::string& place, const std::string& keyword) {
  throw Error(ErrorCode::kUnsupported,
              place + ": " + keyword +
                  ": expected a keyword that values in tags can be held to, as this model writes "
                  "them, found one that is not followed");
}

class TaggedCall {
 public:
  TaggedCall(CallSyntax syntax, const Tool& tool, const std::string& schema)
      : syntax_(syntax),
        tags_(call_tags(syntax)),
        tool_(tool),
        json_(schema),
        schema_(parse_ordered_json(schema, "parameters",
                                   {JsonRules::kMaxDepth, JsonRules::kMaxValues, true})),
        properties_(schema_.value("properties", Ordered::object())) {}

  Part whole() const {
    Parts parts = {Part::literal(tags_.begin), Part::plain(tool_.name),
                   Part::literal(tags_.behind_name)};
    if (syntax_ == CallSyntax::kGlm) parts.push_back(line());
    check_object();
    if (takes_any()) {
      parts.push_back(Part::several({any_value()}));
    } else {
      for (const auto& [name, property] : properties_.items()) {
        Parts value = value_of(name, property);
        if (is_required(name)) {
          std::ranges::move(value, std::back_inserter(parts));
        } else {
          parts.push_back(Part::one_of({{}, std::move(value)}));
        }
      }
    }
    if (!tags_.end.empty()) parts.push_back(Part::literal(tags_.end));
    return Part::arguments(json_, std::move(parts));
  }

 private:
  void check_object() const {
    for (const auto& [key, value] : schema_.items()) {
      if (says_nothing(key) || key == "properties" || key == "additionalProperties") continue;
      if (key == "required" && value.is_array()) {
        for (const Ordered& name : value) {
          if (!name.is_string() || !properties_.contains(name.get<std::string>())) {
            refuse_value("#", "required");
          }
        }
        continue;
      }
      if (key != "type" || value != "object") refuse_value("#", key);
    }
  }

  // As JSON has it: a schema that names no properties leaves them open.
  bool takes_any() const {
    const Ordered open = true;
    return !schema_.contains("properties") && schema_.value("additionalProperties", open) == open;
  }

  bool is_required(const std::string& name) const {
    const auto found = schema_.find("required");
    return found != schema_.end() && std::ranges::find(*found, Ordered(name)) != found->end();
  }

  Parts key(const std::string& name) const {
    Parts parts = {Part::literal(tags_.key_open), Part::plain(name),
                   Part::literal(tags_.key_close)};
    if (!tags_.value_open.empty()) {
      parts.push_back(line());
      parts.push_back(Part::literal(tags_.value_open));
    }
    return parts;
  }

  Parts any_value() const {
    const Part sign = Part::none_of("<>\n");
    Parts parts = {Part::literal(tags_.key_open), sign, Part::several({{sign}}),
                   Part::literal(tags_.key_close)};
    if (!tags_.value_open.empty()) {
      parts.push_back(line());
      parts.push_back(Part::literal(tags_.value_open));
    }
    parts.push_back(Part::until(tags_.value_close));
    parts.push_back(line());
    return parts;
  }

  Parts value_of(const std::string& name, const Ordered& property) const {
    const std::string place = "#/properties/" + name;
    if (name.empty() || name.find_first_of("<>\n") != name.npos)
      refuse_value(place, "a name of signs");
    Parts parts = key(name);
    const bool is_text = std::ranges::count(tool_.text_parameters, name) > 0;
    if (is_text) {
      add_text(property, place, parts);
    } else {
      const bool lines = syntax_ == CallSyntax::kXml;
      if (lines) parts.push_back(line());
      parts.push_back(Part::value(name));
      if (lines) parts.push_back(line());
      parts.push_back(Part::literal(tags_.value_close));
    }
    parts.push_back(line());
    return parts;
  }

  // A text as it is: any, or one of some.
  void add_text(const Ordered& property, const std::string& place, Parts& parts) const {
    const Ordered* listed = nullptr;
    const Ordered* constant = nullptr;
    for (const auto& [key, value] : property.items()) {
      if (says_nothing(key) || key == "type") continue;
      if (key == "enum" && value.is_array() && !value.empty()) {
        listed = &value;
      } else if (key == "const") {
        constant = &value;
      } else {
        refuse_value(place, key);
      }
    }
    if (listed && constant) refuse_value(place, "const");
    if (!listed && !constant) {
      parts.push_back(Part::until(tags_.value_close));
      return;
    }
    const std::string line_end = syntax_ == CallSyntax::kXml ? "\n" : "";
    std::vector<Parts> texts;
    for (const Ordered& value : listed ? *listed : Ordered::array({*constant})) {
      const std::string text = value.is_string() ? value.get<std::string>() : std::string();
      if (!value.is_string() || text.find(tags_.value_close) != text.npos) {
        refuse_value(place, listed ? "enum" : "const");
      }
      texts.push_back({Part::plain(line_end + text + line_end), Part::literal(tags_.value_close)});
    }
    parts.push_back(Part::one_of(std::move(texts)));
  }

  const CallSyntax syntax_;
  const CallTags tags_;
  const Tool& tool_;
  const std::string& json_;
  const Ordered schema_, properties_;
};

}  // namespace

GrammarPart tagged_call(CallSyntax syntax, const Tool& tool, const std::string& schema) {
  return TaggedCall(syntax, tool, schema).whole();
}

}  // namespace specbound::server
