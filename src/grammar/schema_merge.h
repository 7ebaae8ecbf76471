// What can be found out about JSON schemas without writing a rule: which place in a schema a
// reference names, what two that hold at once say together, whether a value can be one of both.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"

namespace specbound {

using Schema = nlohmann::ordered_json;

// They say nothing of what is valid.
bool is_annotation(std::string_view keyword);
// Annotations, and where references point to.
bool says_nothing(std::string_view keyword);

// A place in a schema as messages have it: "#/properties/a"; the begin of a long one.
std::string place_in(const std::string& place, std::string_view key);
// Throws Error(kUnsupported) for a schema with a name of its own and references in it, which begin
// there: below the whole schema they are not followed. A name that begins with # is of a place.
void check_no_resource(const Schema& schema, const std::string& place);

// The types a schema names: words of "null", "boolean", "integer", "number", "string", "array",
// "object"; empty: it names none. Throws Error(kUsage).
std::vector<std::string> types_of(const Schema& schema, const std::string& place);
// The same; where none is named, those that the keywords speak of.
std::vector<std::string> types_meant(const Schema& schema, const std::string& place);
// Throws Error(kUnsupported) for a keyword that is not followed.
void check_keywords(const Schema& schema, const std::string& place);
// Whether a value is of one of them; of an empty list: yes.
bool is_of(const nlohmann::json& value, const std::vector<std::string>& types);

// One schema that allows what both allow. Throws Error(kUnsupported) where none is known.
Schema merged(Schema a, const Schema& b, const std::string& place);

// What tells the values of a schema from those of another.
struct SchemaTraits {
  std::vector<std::string> types;  // empty: none is named
  std::optional<std::set<nlohmann::json>> constants;
  std::map<std::string, std::set<nlohmann::json>> tags;  // constants of properties it requires
};
// What was found out of the places in a schema, each once however often it is asked for: lists of
// definitions are searched from their beginnings, and traits may lie behind many references.
class KnownPlaces {
 public:
  // `root` must outlive it.
  explicit KnownPlaces(const Schema& root) : root_(root) {}

  // What `reference` names. Throws Error(kUnsupported) for what is in no such place, in another
  // document, or in a resource of its own.
  const Schema& referred(const std::string& reference, const std::string& place);
  // Of a schema that stays where it is.
  const SchemaTraits& traits(const Schema& schema, const std::string& place);

 private:
  const Schema& behind_references(const Schema& schema, const std::string& place);

  const Schema& root_;
  std::map<std::string, const Schema*> referred_;
  std::map<const Schema*, SchemaTraits> traits_;
};
// No value is allowed by both: their types differ, or a constant does, their own or that of a
// property that both require. False where that is not known.
bool are_disjoint(const SchemaTraits& a, const SchemaTraits& b);

std::string found_text(const Schema& value);  // as JSON, for messages
// "json_schema: PLACE: KEYWORD: expected .., found .."
[[noreturn]] void refuse_schema(ErrorCode code, const std::string& place, std::string_view keyword,
                                const std::string& expected, const std::string& found);

}  // namespace specbound
