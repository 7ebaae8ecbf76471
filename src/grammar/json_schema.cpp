#include "grammar/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "error.h"
#include "grammar/json_pattern.h"
#include "grammar/json_values.h"
#include "grammar/schema_bounds.h"
#include "grammar/schema_merge.h"
#include "json/json_reader.h"
#include "text/utf8.h"

namespace specbound {
namespace {

using Id = GrammarRules::Id;

constexpr int kMaxNested = 200;                 // schemas within each other, merged ones counted
constexpr int kMaxSchemas = 50'000;             // looked at, likewise
constexpr size_t kMaxReference = 1024;          // bytes
constexpr size_t kMaxOneOf = 256;               // parts, for each is held against each
constexpr size_t kMaxListed = size_t{1} << 20;  // bytes of merged schemas that are kept
constexpr size_t kMaxMerged = size_t{8} << 20;  // bytes of schemas that are merged

class SchemaReader {
 public:
  SchemaReader(std::string_view json, JsonValues& values)
      : root_(parse_ordered_json(json, "json_schema",
                                 {JsonRules::kMaxDepth, JsonRules::kMaxValues, false})),
        places_(root_),
        values_(values),
        rules_(values.rules()) {}

  Id read() {
    const Id whole = of(root_, "#");
    define_open();
    return whole;
  }

  Id property(const std::string& name) {
    const Id value = rule_of(root_.at("properties").at(name), place_in("#/properties", name));
    define_open();
    return value;
  }

 private:
  using Code = ErrorCode;

  [[noreturn]] void refuse(Code code, const std::string& place, std::string_view keyword,
                           const std::string& expected, const std::string& found) const {
    refuse_schema(code, place, keyword, expected, found);
  }

  std::string referred_by(const Schema& schema, const std::string& place) const {
    for (const auto& item : schema.items()) {
      if (item.key() == "$ref" || says_nothing(item.key())) continue;
      refuse(Code::kUnsupported, place, item.key(), "nothing else beside $ref", "it");
    }
    const Schema& reference = schema["$ref"];
    if (!reference.is_string()) {
      refuse(Code::kUsage, place, "$ref", "a string", found_text(reference));
    }
    const std::string to = reference.get<std::string>();
    if (to.size() > kMaxReference) {
      refuse(Code::kLimit, place, "$ref", format("at most %zu bytes", kMaxReference),
             std::to_string(to.size()));
    }
    return to;
  }

  Id reference(const Schema& schema, const std::string& place) {
    const std::string to = referred_by(schema, place);
    return rule_of(places_.referred(to, place), to);
  }

  // A rule for each place that is referred to, so that references cost nothing however often they
  // come, and may come back to where they stand.
  Id rule_of(const Schema& schema, const std::string& place) {
    const auto [at, fresh] = rules_of_.try_emplace(&schema, 0);
    if (fresh) {
      at->second = rules_.declare(place);
      open_.push_back({at->second, &schema, place});
    }
    return rules_.rule(at->second);
  }

  void define_open() {
    while (!open_.empty()) {
      const auto [rule, schema, place] = open_.front();
      open_.pop_front();
      rules_.define(rule, of(*schema, place));
    }
  }

  Id of(const Schema& schema, const std::string& place) {
    if (++n_schemas_ > kMaxSchemas) {
      refuse(Code::kLimit, place, "",
             format("at most %d schemas, references in allOf counted", kMaxSchemas), "more");
    }
    if (depth_ > kMaxNested) {
      refuse(Code::kLimit, place, "", format("schemas nested %d deep at most", kMaxNested),
             "more levels");
    }
    ++depth_;
    const Id id = nested(schema, place);
    --depth_;
    return id;
  }

  Id nested(const Schema& schema, const std::string& place) {
    if (schema.is_boolean() && schema == true) return values_.any();
    if (schema.is_boolean()) {
      refuse(Code::kUsage, place, "", "a schema that some value fits", "false");
    }
    if (!schema.is_object()) {
      refuse(Code::kUsage, place, "", "a schema, an object", found_text(schema));
    }
    check_keywords(schema, place);
    if (&schema != &root_) check_no_resource(schema, place);
    if (schema.contains("$ref")) return reference(schema, place);
    if (schema.contains("allOf")) return all_of(schema, place);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (schema.contains(keyword)) return any_of(schema, keyword, place);
    }
    if (schema.contains("const") || schema.contains("enum")) return one_of_values(schema, place);
    return of_types(schema, place);
  }

  // A schema that was made on the way; references to it hold.
  const Schema& keep(Schema schema, const char* keyword, const std::string& place) {
    kept_bytes_ += schema.dump().size();
    if (kept_bytes_ > kMaxListed) {
      refuse(Code::kLimit, place, keyword, "schemas that are small when they are put together",
             "more than a megabyte");
    }
    kept_.push_back(std::move(schema));
    return kept_.back();
  }

  // What else a schema says.
  static Schema without(const Schema& schema, std::string_view keyword) {
    Schema rest = Schema::object();
    for (const auto& item : schema.items()) {
      if (item.key() != keyword && !says_nothing(item.key())) rest[item.key()] = item.value();
    }
    return rest;
  }

  const Schema& list(const Schema& schema, const char* keyword, const std::string& place) const {
    const Schema& all = schema[keyword];
    if (!all.is_array() || all.empty()) {
      refuse(Code::kUsage, place, keyword, "a list of one schema or more", found_text(all));
    }
    return all;
  }

  // What a schema that is only a reference stands for, so that it can be put together with others.
  const Schema& resolved(const Schema& schema, const std::string& place) {
    if (!schema.is_object() || !schema.contains("$ref")) return schema;
    return places_.referred(referred_by(schema, place), place);
  }

  // A schema with another of a list; what that costs goes by both, little as the result may be.
  Schema together(Schema a, const Schema& part, const char* keyword, const std::string& place) {
    check_no_resource(part, place);
    const Schema& other = resolved(part, place);
    merged_bytes_ += a.dump().size() + other.dump().size();
    if (merged_bytes_ > kMaxMerged) {
      refuse(Code::kLimit, place, keyword, "little to put together, each reference counted",
             format("more than %zu bytes", kMaxMerged));
    }
    return merged(std::move(a), other, place);
  }

  Id all_of(const Schema& schema, const std::string& place) {
    Schema whole = without(schema, "allOf");
    const std::string inside = place_in(place, "allOf");
    const Schema& parts = list(schema, "allOf", place);
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string here = place_in(inside, std::to_string(i));
      whole = together(std::move(whole), parts[i], "allOf", here);
    }
    return of(keep(std::move(whole), "allOf", place), place);
  }

  Id any_of(const Schema& schema, const char* keyword, const std::string& place) {
    const Schema base = without(schema, keyword);
    const Schema& parts = list(schema, keyword, place);
    const std::string inside = place_in(place, keyword);
    const bool one = keyword[0] == 'o';
    if (one && parts.size() > kMaxOneOf) {
      refuse(Code::kLimit, place, keyword, format("at most %zu schemas (else anyOf)", kMaxOneOf),
             std::to_string(parts.size()));
    }
    std::vector<Id> all;
    std::vector<const SchemaTraits*> traits;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string here = place_in(inside, std::to_string(i));
      if (one) traits.push_back(&places_.traits(parts[i], here));
      for (size_t j = 0; one && j < i; ++j) {
        if (are_disjoint(*traits[i], *traits[j])) continue;
        refuse(Code::kUnsupported, place, keyword,
               "schemas that exclude each other by type or by a constant (else anyOf)",
               format("that %zu and %zu may both hold", j, i));
      }
      if (base.empty()) {
        all.push_back(of(parts[i], here));
      } else {
        all.push_back(of(keep(together(base, parts[i], keyword, here), keyword, here), here));
      }
    }
    return rules_.choice(std::move(all));
  }

  Id one_of_values(const Schema& schema, const std::string& place) {
    for (const auto& item : schema.items()) {
      const std::string& key = item.key();
      if (says_nothing(key) || key == "enum" || key == "const" || key == "type") continue;
      if (key == "nullable" && item.value() == false) continue;
      refuse(Code::kUnsupported, place, key, "type alone beside enum and const", "it");
    }
    const char* keyword = schema.contains("enum") ? "enum" : "const";
    const Schema listed =
        schema.contains("enum") ? schema["enum"] : Schema::array({schema["const"]});
    if (!listed.is_array()) refuse(Code::kUsage, place, "enum", "a list", found_text(listed));
    const std::vector<std::string> types = types_of(schema, place);
    std::vector<std::string> all;
    for (const Schema& value : listed) {
      if (!is_of(value, types)) continue;
      if (schema.contains("const") && value != schema["const"]) continue;
      all.push_back(values_.written(value.dump()));
    }
    if (all.empty()) refuse(Code::kUsage, place, keyword, "a value that fits the schema", "none");
    return rules_.one_of(std::move(all));
  }

  Id of_types(const Schema& schema, const std::string& place) {
    std::vector<std::string> types = types_meant(schema, place);
    const auto nullable = schema.find("nullable");
    if (nullable != schema.end() && !nullable->is_boolean()) {
      refuse(Code::kUsage, place, "nullable", "true or false", found_text(*nullable));
    }
    if (types.empty()) return values_.any();
    if (nullable != schema.end() && *nullable == true) types.emplace_back("null");
    std::vector<Id> all;
    for (const std::string& type : types) {
      const bool within = type == "integer" && std::ranges::find(types, "number") != types.end();
      if (!within) all.push_back(of_type(type, schema, place));
    }
    return rules_.choice(std::move(all));
  }

  Id of_type(const std::string& type, const Schema& schema, const std::string& place) {
    if (type == "object") return object(schema, place);
    if (type == "array") return array(schema, place);
    if (type == "string") return string(schema, place);
    if (type == "integer") return integer(schema, place);
    if (type == "number") return number(schema, place);
    return type == "boolean" ? values_.boolean() : values_.null();
  }

  // ---- texts ----

  Id string(const Schema& schema, const std::string& place) {
    const bool counted = schema.contains("minLength") || schema.contains("maxLength");
    for (const char* keyword : {"pattern", "format"}) {
      if (!schema.contains(keyword)) continue;
      const bool both = schema.contains("pattern") && schema.contains("format");
      if (counted || both) {
        refuse(Code::kUnsupported, place, keyword, "no other keyword about texts beside it",
               both ? "pattern and format" : "a length");
      }
      if (!schema[keyword].is_string()) {
        refuse(Code::kUsage, place, keyword, "a string", found_text(schema[keyword]));
      }
      const std::string text = schema[keyword].get<std::string>();
      return values_.quoted(keyword[0] == 'p' ? pattern(text, place) : known_format(text, place));
    }
    if (!counted) return values_.string();
    const auto [least, most] = length_bounds(schema, "minLength", "maxLength", place);
    return values_.string(least, most);
  }

  Id pattern(const std::string& text, const std::string& place) {
    try {
      return json_pattern(text, values_);
    } catch (const Error& e) {
      throw Error(e.code(), "json_schema: " + place + ": pattern: " + e.what());
    }
  }

  Id known_format(const std::string& name, const std::string& place) {
    const std::string_view known = pattern_of_format(name);
    if (known.empty()) {
      refuse(Code::kUnsupported, place, "format", "one of " + pattern_formats(), found_text(name));
    }
    return pattern(std::string(known), place);
  }

  // ---- numbers ----

  Id integer(const Schema& schema, const std::string& place) {
    const auto bounds = integer_bounds(schema, place);
    return bounds ? values_.integer(bounds->first, bounds->second) : values_.integer();
  }

  Id number(const Schema& schema, const std::string& place) {
    const std::optional<JsonValues::Bounds> bounds = number_bounds(schema, place);
    if (!bounds) return values_.number();
    const std::optional<Id> id = values_.number(*bounds);
    if (!id) refuse_empty_range(place);
    return *id;
  }

  // ---- lists ----

  Id array(const Schema& schema, const std::string& place) {
    const auto unique = schema.find("uniqueItems");
    if (unique != schema.end() && *unique != false) {
      refuse(Code::kUnsupported, place, "uniqueItems", "false, for items are not compared",
             found_text(*unique));
    }
    const Schema none = Schema::array();
    const Schema& first = schema.contains("prefixItems") ? schema["prefixItems"] : none;
    if (!first.is_array()) {
      refuse(Code::kUsage, place, "prefixItems", "a list of schemas", found_text(first));
    }
    const auto items = schema.find("items");
    if (items != schema.end() && items->is_array()) {
      refuse(Code::kUnsupported, place, "items", "one schema (prefixItems takes a list)", "a list");
    }
    auto [least, most] = length_bounds(schema, "minItems", "maxItems", place);
    const int n_first = static_cast<int>(first.size());
    // Where a list is given and nothing behind it, more items come only where they must.
    const bool closed = (items != schema.end() && *items == false) ||
                        (items == schema.end() && n_first > 0 && least <= n_first);
    if (closed) most = most == GrammarRules::kUnbounded ? n_first : std::min(most, n_first);
    if (most != GrammarRules::kUnbounded && most < least) {
      refuse(Code::kUsage, place, "minItems", format("%d at most, for no more can be", most),
             std::to_string(least));
    }
    std::optional<Id> more;
    if (most == GrammarRules::kUnbounded || most > n_first) {
      more = items == schema.end() ? values_.any() : of(*items, place_in(place, "items"));
    }
    if (n_first == 0) return values_.brackets(plain_list(more, least, most));
    std::vector<Id> each;
    for (int i = 0; i < n_first && (most == GrammarRules::kUnbounded || i < most); ++i) {
      each.push_back(of(first[static_cast<size_t>(i)],
                        place_in(place_in(place, "prefixItems"), std::to_string(i))));
    }
    // From the end: behind item i comes nothing, or a comma and item i + 1.
    Id rest = rules_.empty();
    if (more) {
      rest = rules_.repeat(rules_.sequence({values_.comma(), *more}), std::max(least - n_first, 0),
                           most == GrammarRules::kUnbounded ? most : most - n_first);
    }
    for (size_t i = 1; i < each.size(); ++i) each[i] = rules_.sequence({values_.comma(), each[i]});
    const size_t must = std::min(each.size(), static_cast<size_t>(least));
    for (size_t i = each.size(); i-- > must;) {
      rest = rules_.optional(rules_.sequence({each[i], rest}));
    }
    each.resize(must);
    each.push_back(rest);  // one sequence: what is nested is built recursively
    return values_.brackets(rules_.sequence(std::move(each)));
  }

  Id plain_list(std::optional<Id> item, int least, int most) {
    if (!item) return rules_.empty();
    const Id more = rules_.sequence({values_.comma(), *item});
    const Id all =
        rules_.sequence({*item, rules_.repeat(more, std::max(least - 1, 0),
                                              most == GrammarRules::kUnbounded ? most : most - 1)});
    return least == 0 ? rules_.optional(all) : all;
  }

  // ---- objects ----

  struct Property {
    Id member;
    bool required;
  };

  std::vector<Property> named_properties(const Schema& schema, const Schema& additional,
                                         const std::string& place,
                                         std::vector<std::u32string>& names) {
    const Schema none = Schema::object(), nothing = Schema::array();
    const Schema& listed = schema.contains("properties") ? schema["properties"] : none;
    const Schema& required = schema.contains("required") ? schema["required"] : nothing;
    if (!listed.is_object()) {
      refuse(Code::kUsage, place, "properties", "an object", found_text(listed));
    }
    std::map<std::string, bool> must;
    if (!required.is_array()) {
      refuse(Code::kUsage, place, "required", "a list of names", found_text(required));
    }
    for (const Schema& name : required) {
      if (!name.is_string()) {
        refuse(Code::kUsage, place, "required", "a list of names", found_text(required));
      }
      must[name.get<std::string>()] = true;
    }
    std::vector<Property> all;
    const auto add = [&](const std::string& name, const Schema& value, const std::string& at) {
      names.push_back(characters_of(name, place));
      const Id key = rules_.literal(values_.written(Schema(name).dump()));
      const bool is_required = must.contains(name);
      // A property that nothing fits is one that must not be there.
      if (value == false && !is_required) return;
      all.push_back({values_.member(key, of(value, at)), is_required});
    };
    for (const auto& item : listed.items()) {
      add(item.key(), item.value(), place_in(place_in(place, "properties"), item.key()));
    }
    for (const auto& [name, _] : must) {
      if (listed.contains(name)) continue;
      if (additional == false) {
        refuse(Code::kUsage, place, "required", "names of properties",
               '"' + printable(name) + "\", which additionalProperties rules out");
      }
      add(name, additional, place_in(place, "additionalProperties"));
    }
    return all;
  }

  std::u32string characters_of(std::string_view text, const std::string& place) const {
    std::u32string out;
    while (!text.empty()) {
      const Utf8Head head = utf8_head(text);
      out += head.code;
      text.remove_prefix(static_cast<size_t>(head.length));
    }
    if (out.size() > JsonValues::kMaxUnlike) {
      refuse(Code::kLimit, place, "properties",
             format("names of at most %zu characters", JsonValues::kMaxUnlike),
             std::to_string(out.size()));
    }
    return out;
  }

  Id object(const Schema& schema, const std::string& place) {
    const auto given = schema.find("additionalProperties");
    if (given != schema.end() && !given->is_boolean() && !given->is_object()) {
      refuse(Code::kUsage, place, "additionalProperties", "true, false or a schema",
             found_text(*given));
    }
    const Schema any = true;
    const Schema& additional = given == schema.end() ? any : *given;
    std::vector<std::u32string> names;
    const std::vector<Property> properties = named_properties(schema, additional, place, names);
    // A schema that names properties and does not speak of others gets none.
    const bool open = additional != false && (given != schema.end() || names.empty());
    std::optional<Id> extra;
    if (open) {
      const Id key =
          names.empty() ? values_.string() : values_.quoted(values_.unlike(std::move(names)));
      extra = values_.member(key, of(additional, place_in(place, "additionalProperties")));
    }
    return values_.braces(in_order(properties, extra, place));
  }

  // Members in the order of the schema. Two rules a property, for what comes from it on where it is
  // the first member and where it is not; so many optional ones as there may be cost no more.
  Id in_order(const std::vector<Property>& properties, std::optional<Id> extra,
              const std::string& place) {
    const Id nothing = rules_.empty();
    Id first = extra ? values_.members(*extra) : nothing;
    Id later = nothing;
    if (extra) {
      later =
          rules_.repeat(rules_.sequence({values_.comma(), *extra}), 0, GrammarRules::kUnbounded);
    }
    for (size_t i = properties.size(); i-- > 0;) {
      const auto& [member, required] = properties[i];
      const Id behind = named_rule(later, place);
      Id as_first = rules_.sequence({member, behind});
      Id as_later = rules_.sequence({values_.comma(), member, behind});
      if (!required) {
        as_first = rules_.choice({as_first, named_rule(first, place)});
        as_later = rules_.choice({as_later, behind});
      }
      first = as_first;
      later = as_later;
    }
    return first;
  }

  Id named_rule(Id id, const std::string& place) {
    const GrammarRules::Kind kind = rules_[id].kind;
    if (kind == GrammarRules::Kind::kRule || kind == GrammarRules::Kind::kEmpty) return id;
    const int rule = rules_.declare(place);
    rules_.define(rule, id);
    return rules_.rule(rule);
  }

  struct Open {
    int rule;
    const Schema* schema;
    std::string place;
  };

  const Schema root_;
  KnownPlaces places_;  // of root_, kept_ beside it
  JsonValues& values_;
  GrammarRules& rules_;
  std::map<const Schema*, int> rules_of_;  // of places in root_
  std::deque<Open> open_;                  // those to be defined
  std::deque<Schema> kept_;
  size_t kept_bytes_ = 0, merged_bytes_ = 0;
  int n_schemas_ = 0, depth_ = 0;
};

}  // namespace

class JsonRules::Shared {
 public:
  Shared(GrammarRules& rules, bool in_tags) : values(rules, in_tags) {}

  JsonValues values;
};

JsonRules::JsonRules(GrammarRules& rules, bool in_tags)
    : shared_(std::make_unique<Shared>(rules, in_tags)) {}
JsonRules::~JsonRules() = default;

GrammarRules::Id JsonRules::schema(std::string_view json) {
  return SchemaReader(json, shared_->values).read();
}

JsonRules::Properties JsonRules::properties(std::string_view json) {
  const auto reader = std::make_shared<SchemaReader>(json, shared_->values);
  return [reader](const std::string& name) { return reader->property(name); };
}

}  // namespace specbound
