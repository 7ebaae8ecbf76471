#include "server/response_format.h"

#include <string>

#include "error.h"
#include "json/json_member.h"
#include "server/api_error.h"

namespace specbound::server {
namespace {

bool asks_nothing(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

template <class Make>
Grammar::Shared made(const char* field, const Make& make) {
  try {
    return make();
  } catch (const Error& e) {
    const bool unsupported = e.code() == ErrorCode::kUnsupported;
    throw ApiError(400, std::string(field) + ": " + e.what(), field,
                   unsupported ? "unsupported_value" : "");
  }
}

// A schema by its text, in which the keys have their order.
Grammar::Shared of_schema(const char* field, const Fields& holder, const char* key,
                          std::string_view text) {
  const Json* schema = holder.find(key);
  if (!schema || !(schema->is_object() || schema->is_boolean())) {
    holder.refuse(key, "a JSON schema, an object");
  }
  return made(field, [&] { return Grammar::from_json_schema(text); });
}

Grammar::Shared of_format(const Fields& fields, std::string_view text) {
  const char* const field = "response_format";
  const Json& value = *fields.find(field);
  if (!value.is_object()) fields.refuse(field, "an object with a type");
  const Fields format(value, std::string(field) + ".");
  const std::string type = format.text("type").value_or("");
  if (type == "text") return nullptr;
  if (type == "json_object" && format.find("schema")) {
    return of_schema(field, format, "schema", json_member(text, "schema"));
  }
  if (type == "json_object") return Grammar::any_json_object();
  if (type != "json_schema") format.refuse("type", "text, json_object or json_schema");
  const Json* named = format.find("json_schema");
  if (!named || !named->is_object()) format.refuse("json_schema", "an object with a schema");
  const Fields inner(*named, std::string(field) + ".json_schema.");
  inner.text("name");
  inner.flag("strict");  // replies keep to the schema either way
  return of_schema(field, inner, "schema", json_member(json_member(text, "json_schema"), "schema"));
}

}  // namespace

Grammar::Shared read_response_format(const Fields& fields, std::string_view body) {
  const char* given = nullptr;
  Grammar::Shared grammar;
  for (const char* field : {"response_format", "json_schema", "grammar"}) {
    const Json* value = fields.find(field);
    if (!value || asks_nothing(*value)) continue;
    Grammar::Shared one;
    if (field[0] == 'r') {
      one = of_format(fields, json_member(body, field));
    } else if (field[0] == 'j') {
      one = of_schema(field, fields, field, json_member(body, field));
    } else {
      if (!value->is_string()) fields.refuse(field, "a string");
      one = made(field, [&] { return Grammar::from_gbnf(value->get_ref<const std::string&>()); });
    }
    if (!one) continue;
    if (given) {
      throw ApiError(
          400, format("%s: %s says already what replies must be: give one of them", field, given),
          field);
    }
    given = field;
    grammar = std::move(one);
  }
  if (given && fields.flag("ignore_eos").value_or(false)) {
    throw ApiError(400, format("ignore_eos: expected false beside %s, which ends replies", given),
                   "ignore_eos");
  }
  return grammar;
}

}  // namespace specbound::server
