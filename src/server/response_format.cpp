#include "server/response_format.h"

#include <string>
#include <utility>

#include "json/json_member.h"

namespace specbound::server {
namespace {

bool asks_nothing(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

// A schema by its text, in which the keys have their order.
ResponseFormat of_schema(const char* field, const Fields& holder, const char* key,
                         std::string_view text) {
  const Json* schema = holder.find(key);
  if (!schema || !(schema->is_object() || schema->is_boolean())) {
    holder.refuse(key, "a JSON schema, an object");
  }
  return {field, std::string(text)};
}

ResponseFormat of_format(const Fields& fields, std::string_view text) {
  const char* const field = "response_format";
  const Json& value = *fields.find(field);
  if (!value.is_object()) fields.refuse(field, "an object with a type");
  const Fields format(value, std::string(field) + ".");
  const std::string type = format.text("type").value_or("");
  if (type == "text") return {};
  if (type == "json_object" && format.find("schema")) {
    return of_schema(field, format, "schema", json_member(text, "schema"));
  }
  if (type == "json_object") return {field, R"({"type": "object"})"};
  if (type != "json_schema") format.refuse("type", "text, json_object or json_schema");
  const Json* named = format.find("json_schema");
  if (!named || !named->is_object()) format.refuse("json_schema", "an object with a schema");
  const Fields inner(*named, std::string(field) + ".json_schema.");
  inner.text("name");
  inner.flag("strict");  // replies keep to the schema either way
  return of_schema(field, inner, "schema", json_member(json_member(text, "json_schema"), "schema"));
}

}  // namespace

ResponseFormat read_response_format(const Fields& fields, std::string_view body) {
  ResponseFormat asked;
  for (const char* field : {"response_format", "json_schema", "grammar"}) {
    const Json* value = fields.find(field);
    if (!value || asks_nothing(*value)) continue;
    ResponseFormat one;
    if (field[0] == 'r') {
      one = of_format(fields, json_member(body, field));
    } else if (field[0] == 'j') {
      one = of_schema(field, fields, field, json_member(body, field));
    } else {
      if (!value->is_string()) fields.refuse(field, "a string");
      one = {field, value->get<std::string>(), true};
    }
    if (one.field.empty()) continue;
    if (!asked.field.empty()) {
      throw ApiError(400,
                     format("%s: %s says already what replies must be: give one of them", field,
                            asked.field.c_str()),
                     field);
    }
    asked = std::move(one);
  }
  if (!asked.field.empty() && fields.flag("ignore_eos").value_or(false)) {
    throw ApiError(
        400,
        format("ignore_eos: expected false beside %s, which ends replies", asked.field.c_str()),
        "ignore_eos");
  }
  return asked;
}

ApiError format_error(const std::string& field, const Error& error) {
  std::string_view rest = error.what();
  std::string between = ": ";
  for (const std::string_view named : {"grammar", "json_schema"}) {  // "grammar, line 1: ..."
    if (!rest.starts_with(named)) continue;
    rest.remove_prefix(named.size());
    between = "";
  }
  return ApiError(400, field + between + std::string(rest), field,
                  error.code() == ErrorCode::kUnsupported ? "unsupported_value" : "");
}

Grammar::Shared compiled(const ResponseFormat& format) {
  if (format.field.empty()) return nullptr;
  try {
    return format.gbnf ? Grammar::from_gbnf(format.text) : Grammar::from_json_schema(format.text);
  } catch (const Error& e) {
    throw format_error(format.field, e);
  }
}

}  // namespace specbound::server
