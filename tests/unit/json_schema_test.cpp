// JSON schemas as grammars, against the jsonschema package: whatever a grammar takes it says is
// valid, and what is written in the grammar's order and form is taken (tests/golden). Keywords that
// are not followed are errors that name them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "expect_error.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "json/json_member.h"
#include "read_file.h"

namespace json_schema_test {

using namespace specbound;
using namespace specbound::test;
using Json = nlohmann::json;

namespace {

bool takes(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar.automaton());
  return matcher.accepts(matcher.next(matcher.start(), text));
}

bool takes(std::string_view schema, std::string_view text) {
  return takes(*Grammar::from_json_schema(schema), text);
}

void check_refused(std::string_view schema, ErrorCode code,
                   std::initializer_list<std::string_view> parts) {
  INFO("schema: ", std::string(schema.substr(0, 200)));
  check_mentions(expect_error(code, [&] { Grammar::from_json_schema(schema); }), parts);
}

}  // namespace

TEST_CASE("schemas: texts are taken as jsonschema judges them") {
  const Json golden = Json::parse(read_file(std::string(SPECBOUND_GOLDEN) + "/schema_golden.json"));
  int n_valid = 0, n_invalid = 0;
  for (const Json& entry : golden) {
    const std::string schema = entry["schema"];
    CAPTURE(schema);
    const Grammar::Shared grammar = Grammar::from_json_schema(schema);
    for (const Json& c : entry["cases"]) {
      const std::string text = c["text"];
      CAPTURE(text);
      const bool valid = c["valid"], taken = takes(*grammar, text);
      (valid ? n_valid : n_invalid) += 1;
      if (taken) CHECK(valid);
      if (c["written"]) CHECK(taken == valid);
    }
  }
  CHECK(n_valid > 200);
  CHECK(n_invalid > 200);
}

TEST_CASE("schemas: properties come in the order of the schema, optional ones may be left out") {
  const char* const schema = R"({"properties": {"b": {"type": "integer"}, "a": {"type": "null"},
                                 "c": {"const": 1}}, "required": ["a"]})";
  for (const char* text : {R"({"b":1,"a":null})", R"({"a":null})", R"({"a":null,"c":1})",
                           R"({"b": 1, "a": null, "c": 1})", "{\n  \"b\": 1,\n  \"a\": null\n}"}) {
    CAPTURE(text);
    CHECK(takes(schema, text));
  }
  for (const char* text : {R"({"a":null,"b":1})", R"({"b":1})", R"({"b":1,"c":1})", "{}",
                           R"({"a":null,"d":1})", R"({"a":null,})", R"({,"a":null})"}) {
    CAPTURE(text);
    CHECK_FALSE(takes(schema, text));
  }
}

TEST_CASE("schemas: white space cannot go on for ever") {
  CHECK(takes(R"({"type": "object"})", "{ }"));
  CHECK(takes(R"({"type": "array"})", "[\n    1,\n    2\n]"));
  CHECK_FALSE(takes(R"({"type": "array"})", "[" + std::string(50, ' ') + "1]"));
  CHECK_FALSE(takes(R"({"type": "array"})", "[\n\n\n\n1]"));
  CHECK_FALSE(takes(R"({"type": "integer"})", "1 "));
}

TEST_CASE("schemas: any object") {
  const Grammar::Shared grammar = Grammar::any_json_object();
  CHECK(
      takes(*grammar, R"({"a": [1, -2.5e3, {"b": null}, true, "x\u00e9\ud83d\ude00\n"], "": {}})"));
  for (const char* text : {"[]", "1", "{\"a\":01}", R"({"a":"\x"})", R"({"a":"\ud83d"})", "{a:1}",
                           R"({"a":.5})", R"({"a":1.})", R"({"a":tru})", "{\"a\":\"\n\"}"}) {
    CAPTURE(text);
    CHECK_FALSE(takes(*grammar, text));
  }
}

TEST_CASE("schemas: what is not followed is an error that names keyword and place") {
  using enum ErrorCode;
  for (const char* keyword :
       {"not", "if", "then", "patternProperties", "propertyNames", "minProperties", "dependencies",
        "contains", "multipleOf", "unevaluatedProperties", "$anchor", "contentEncoding", "x-new",
        "dependentRequired", "additionalItems", "$dynamicRef", "maxProperties", "strict"}) {
    check_refused(format(R"({"properties": {"a/b": {"type": "string", "%s": 1}}})", keyword),
                  kUnsupported, {"#/properties/a~1b", keyword, "not followed"});
  }
  check_refused("{\"type\": \"strin\"}", kUsage, {"#: type", "strin"});
  check_refused("{\"type\": []}", kUsage, {"type"});
  check_refused("1", kUsage, {"#", "an object"});
  check_refused("false", kUsage, {"false"});
  check_refused("{", kFormat, {"json_schema", "JSON"});
  check_refused("{\"type\": \"object\", \"type\": \"object\"}", kFormat, {"'type' twice"});
  check_refused(R"({"uniqueItems": true})", kUnsupported, {"uniqueItems"});
  check_refused(R"({"items": [{"type": "null"}]})", kUnsupported, {"items", "prefixItems"});
  check_refused(R"({"format": "hostname"})", kUnsupported, {"format", "hostname", "date-time"});
  check_refused(R"({"pattern": "abc"})", kUnsupported, {"pattern", "^"});
  check_refused(R"({"pattern": "^abc"})", kUnsupported, {"pattern", "$"});
  check_refused(R"({"pattern": "^abc\\$"})", kUnsupported, {"pattern", "$"});
  check_refused(R"({"pattern": "^a|b$"})", kUnsupported, {"alternatives in a group"});
  check_refused(R"({"pattern": "^(?=a)b$"})", kUnsupported, {"(?="});
  check_refused(R"({"pattern": "^a\\b$"})", kUnsupported, {"escapes"});
  check_refused(R"({"pattern": "^(a)\\1$"})", kUnsupported, {"escapes"});
  check_refused(R"({"pattern": "^a*?$"})", kUnsupported, {"one count"});
  check_refused(R"({"pattern": "^(a$"})", kUsage, {") for each ("});
  check_refused(R"({"pattern": "^[a$"})", kUsage, {"]"});
  check_refused(R"({"pattern": "^*$"})", kUsage, {"pattern"});
  check_refused(R"({"pattern": "^a{99999}$"})", kLimit, {"10000"});
  check_refused(R"({"pattern": "^a$", "maxLength": 3})", kUnsupported, {"pattern", "length"});
  check_refused(R"({"type": "number", "minimum": 0.5})", kUnsupported, {"minimum", "whole"});
  check_refused(R"({"type": "integer", "minimum": 3, "maximum": 2})", kUsage, {"bounds"});
  for (const char* bound : {"9007199254740993", "-9007199254740993", "18446744073709551615"}) {
    for (const char* keyword : {"minimum", "exclusiveMaximum"}) {
      check_refused(format(R"({"type": "integer", "%s": %s})", keyword, bound), kLimit,
                    {keyword, "2^53"});
    }
  }
  check_refused(R"({"minLength": 3, "maxLength": 2})", kUsage, {"maxLength", "minLength"});
  check_refused(R"({"minLength": -1})", kUsage, {"minLength"});
  check_refused(R"({"maxLength": 1e9})", kLimit, {"maxLength"});
  check_refused(R"({"minItems": 3, "prefixItems": [{}], "items": false})", kUsage, {"minItems"});
  check_refused(R"({"enum": []})", kUsage, {"enum"});
  check_refused(R"({"enum": [1], "type": "string"})", kUsage, {"enum"});
  check_refused(R"({"enum": [1], "minimum": 2})", kUnsupported, {"minimum", "beside enum"});
  check_refused(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", kUnsupported, {"oneOf"});
  check_refused(R"({"anyOf": []})", kUsage, {"anyOf"});
  check_refused(R"({"allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]})", kUnsupported,
                {"#/allOf", "pattern"});
  check_refused(R"({"allOf": [{"type": "null"}, {"type": "string"}]})", kUsage, {"type"});
  check_refused(R"({"properties": {"a": {"type": "null"}}, "required": "a"})", kUsage,
                {"required", "a list of names"});
  check_refused(R"({"oneOf": [{"type": "string", "nullable": true},
                              {"type": "integer", "nullable": true}]})",
                kUnsupported, {"oneOf", "may both hold"});
  check_refused(R"({"oneOf": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1.0}}]})",
                kUnsupported, {"oneOf"});
  check_refused(R"({"allOf": [{"type": "string"}, {"nullable": 1}]})", kUsage,
                {"#/allOf/1", "nullable"});
  check_refused(R"({"allOf": [{"additionalProperties": false}, {"properties": {"a": {}}}]})",
                kUnsupported, {"additionalProperties"});
  check_refused(R"({"$ref": "#/$defs/x"})", kUnsupported, {"$ref", "#/$defs/x"});
  check_refused(R"({"$ref": "http://a/b"})", kUnsupported, {"$ref", "http"});
  check_refused(R"({"$ref": "#", "minLength": 1})", kUnsupported, {"minLength", "beside $ref"});
  // References in a schema with a name of its own begin there.
  check_refused(R"({"properties": {"a": {"$id": "http://a/b", "items": {"$ref": "#"}}}})",
                kUnsupported, {"#/properties/a", "$id", "http://a/b"});
  check_refused(R"({"allOf": [{"$id": "b", "items": {"$ref": "#"}}]})", kUnsupported,
                {"#/allOf/0", "$id"});
  check_refused(
      R"({"$defs": {"a": {"$id": "b", "items": {"$ref": "#"}}}, "$ref": "#/$defs/a/items"})",
      kUnsupported, {"$id"});
  check_refused(R"({"required": ["a"], "additionalProperties": false})", kUsage, {"required", "a"});
  check_refused(R"({"properties": {"a": false}, "required": ["a"]})", kUsage, {"false"});
}

TEST_CASE("schemas: a name of the whole, or of a place in it, changes nothing") {
  // A name changes nothing where nothing refers.
  CHECK(takes(R"({"type": "object", "properties": {"a": {"$id": "b", "type": "integer"}}})",
              R"({"a":1})"));
  const char* const named = R"({"$id": "http://a/b", "type": "object", "properties": {
      "$id": {"$id": "#/properties/$id", "type": "integer"}, "l": {"$ref": "#"}}})";
  CHECK(takes(named, R"({"$id":1,"l":{"l":{}}})"));
  CHECK_FALSE(takes(named, R"({"$id":"a"})"));
}

TEST_CASE("schemas: what is referred to may be coded as a URI has it") {
  const std::string schema = R"({"definitions": {"A<b~/é>": {"const": 1}, "100%": {"const": 2},
      "%zz": {"const": 3}}, "$ref": "#/definitions/)";
  for (const auto& [reference, text] :
       {std::pair("A%3Cb~0~1%c3%A9%3E", "1"), std::pair("A<b~0~1é>", "1"), std::pair("100%", "2"),
        std::pair("100%25", "2"), std::pair("%zz", "3"), std::pair("%25zz", "3")}) {
    const std::string whole = schema + reference + "\"}";
    CAPTURE(whole);
    CHECK(takes(whole, text));
  }
  check_refused(schema + "A%3C\"}", ErrorCode::kUnsupported, {"$ref", "A%3C"});
  CHECK(takes(R"({"$defs": {"a": {"const": 1}}, "$ref": "#%2F%24defs/a"})", "1"));
}

TEST_CASE("schemas: what tells the parts of oneOf apart may lie behind references") {
  const std::string first = R"({"$defs": {"t": {"$ref": "#/$defs/a"}, "a": {"const": "a"}},
      "oneOf": [{"type": "object", "properties": {"k": {"$ref": "#/$defs/t"}})";
  const std::string second = R"(}, {"type": "object", "properties": {"k": {"const": "b"}},
      "required": ["k"]}]})";
  CHECK(takes(first + R"(, "required": ["k"])" + second, R"({"k":"b"})"));
  CHECK(takes(first + R"(, "required": ["k"])" + second, R"({"k":"a"})"));
  check_refused(first + second, ErrorCode::kUnsupported, {"oneOf", "may both hold"});
}

TEST_CASE("schemas: many values are read in one way") {
  std::string many = "{\"enum\":[\"\",\"value\",1,12,123";
  for (int i = 0; i < 9000; ++i) many += format(",\"value %d\"", i);
  many += "]}";
  for (const char* text :
       {"\"\"", "\"value\"", "1", "12", "123", "\"value 0\"", "\"value 8999\""}) {
    CHECK(takes(many, text));
  }
  for (const char* text : {"\"v\"", "\"value \"", "1234", "13", "\"value 9000\"", "\"value 08\""}) {
    CHECK_FALSE(takes(many, text));
  }
}

TEST_CASE("schemas: null is what allOf and oneOf leave of nullable") {
  const char* const both =
      R"({"allOf": [{"type": "integer", "nullable": true}, {"type": "integer", "minimum": 5}]})";
  CHECK(takes(both, "5"));
  CHECK_FALSE(takes(both, "null"));
  const char* const each = R"({"allOf": [{"type": "integer", "nullable": true},
                                         {"type": ["integer", "null"], "minimum": 5}]})";
  CHECK(takes(each, "null"));
  const char* const one =
      R"({"oneOf": [{"type": "integer", "nullable": true}, {"type": "string"}]})";
  CHECK(takes(one, "null"));
}

TEST_CASE("schemas: recursion is followed, but not where it never ends") {
  const char* const list = R"({"$defs": {"node": {"type": "object", "properties": {
      "v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
      "required": ["v", "next"]}}, "$ref": "#/$defs/node"})";
  CHECK(takes(list, R"({"v":1,"next":{"v":2,"next":null}})"));
  CHECK_FALSE(takes(list, R"({"v":1,"next":{"v":2}})"));
  check_refused(R"({"$ref": "#"})", ErrorCode::kUsage, {"#", "left recursion"});
  check_refused(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", ErrorCode::kUsage,
                {"endless"});
  check_refused(R"({"allOf": [{"$ref": "#"}]})", ErrorCode::kLimit, {"nested"});
}

TEST_CASE("schemas: hostile ones are refused or bounded") {
  using enum ErrorCode;
  check_refused(std::string(Grammar::kMaxSource + 1, ' '), kLimit, {"1048576"});
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"items\":";
  check_refused(deep, kFormat, {"64 deep"});
  std::string wide = "{\"enum\":[0";
  for (int i = 1; i < 20'000; ++i) wide += "," + std::to_string(i);
  check_refused(wide + "]}", kFormat, {"16384"});
  // Each definition twice the one before: references are followed once.
  std::string doubled = "{\"$defs\":{\"d0\":{\"type\":\"null\"}";
  for (int i = 1; i < 500; ++i) {
    doubled += format(R"(,"d%d":{"prefixItems":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]})",
                      i, i - 1, i - 1);
  }
  CHECK(takes(doubled + R"(},"$ref":"#/$defs/d2"})", "[[null,null],[null,null]]"));
  CHECK_FALSE(takes(doubled + R"(},"$ref":"#/$defs/d499"})", "[null]"));
  // The same through allOf, where they are put together.
  std::string merged = "{\"$defs\":{\"d0\":{\"minLength\":1}";
  for (int i = 1; i < 100; ++i) {
    merged += format(R"(,"d%d":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/d%d"}]},)"
                     R"("b":{"allOf":[{"$ref":"#/$defs/d%d"}]}}})",
                     i, i - 1, i - 1);
  }
  check_refused(merged + R"(},"allOf":[{"$ref":"#/$defs/d99"}]})", kLimit, {"at most"});
  // Messages are short.
  const std::string long_name(900'000, 'n');
  check_refused("{\"" + long_name + "\":1}", kUnsupported, {"nnn...", "not followed"});
  check_refused("{\"$ref\":\"#/" + long_name + "\"}", kLimit, {"$ref", "1024"});
  check_refused("{\"type\":\"" + long_name + "\"}", kUsage, {"type", "nnn..."});
  // A list of many items that must all come, and one of which none must.
  std::string list = "true";
  for (int i = 1; i < 16'000; ++i) list += ",true";
  list = "{\"type\":\"array\",\"prefixItems\":[" + list + "]";
  CHECK_NOTHROW(Grammar::from_json_schema(list + ",\"minItems\":16000}"));
  CHECK_NOTHROW(Grammar::from_json_schema(list + "}"));
  // Long lists of values are intersected at once, and not thousands of times.
  std::string ascending = "0", descending = "5399";
  for (int i = 1; i < 5400; ++i) {
    ascending += "," + std::to_string(i);
    descending += "," + std::to_string(5399 - i);
  }
  const std::string both = "{\"$defs\":{\"a\":{\"enum\":[" + ascending + "]},\"b\":{\"enum\":[" +
                           descending + "]}},\"allOf\":[{\"$ref\":\"#/$defs/a\"}";
  CHECK(takes(both + R"(,{"$ref":"#/$defs/b"}]})", "5399"));
  std::string again;
  for (int i = 0; i < 900; ++i) again += R"(,{"$ref":"#/$defs/b"},{"$ref":"#/$defs/a"})";
  check_refused(both + again + "]}", kLimit, {"allOf", "8388608"});
  // Each part of oneOf is looked at once, constants are found by what they are.
  std::string parts, values;
  for (int i = 0; i < 256; ++i) {
    values = std::to_string(i);
    for (int j = 1; j < 60; ++j) values += "," + std::to_string(i + 256 * j);
    parts += (i > 0 ? ",{\"enum\":[" : "{\"enum\":[") + values + "]}";
  }
  CHECK_NOTHROW(Grammar::from_json_schema("{\"oneOf\":[" + parts + "]}"));
  check_refused("{\"oneOf\":[" + parts + ",{\"const\":\"a\"}]}", kLimit, {"oneOf", "256"});
  // So is what a part refers to, of hundreds of lists that have it: here 800 required properties,
  // each behind up to 16 references, of which each is looked for among 800.
  std::string places = R"({"$defs":{"x":{"type":"object","properties":{)", must, chains, uses;
  for (int i = 0; i < 800; ++i) {
    const std::string comma = i > 0 ? "," : "";
    places += comma + format(R"("k%d":{"$ref":"#/$defs/d%d"})", i, i);
    must += comma + format(R"("k%d")", i);
    chains += i % 16 == 15 ? format(R"(,"d%d":{"type":"string"})", i)
                           : format(R"(,"d%d":{"$ref":"#/$defs/d%d"})", i, i + 1);
  }
  for (int i = 0; i < 500; ++i) {
    uses +=
        (i > 0 ? "," : "") + format(R"("p%d":{"oneOf":[{"$ref":"#/$defs/x"},{"type":"null"}]})", i);
  }
  CHECK_NOTHROW(Grammar::from_json_schema(places + "},\"required\":[" + must + "]}" + chains +
                                          "},\"properties\":{" + uses + "}}"));
  std::string names = "{\"additionalProperties\":true,\"properties\":{\"" + std::string(300, 'a');
  check_refused(names + "\":{}}}", kLimit, {"names", "256"});
}

TEST_CASE("the text of a member: the last one, whatever its key is spelled like") {
  const std::string body =
      R"( {"a":1, "b" : {"c":"}\"","d":[1,{"c":2}]} ,"\u0062":{"z":1,"y":"\\"}, "e":tru})";
  CHECK(json_member(body, "a") == "1");
  CHECK(json_member(body, "b") == R"({"z":1,"y":"\\"})");
  CHECK(json_member(json_member(body, "b"), "y") == R"("\\")");
  CHECK(json_member(body, "e") == "tru");
  CHECK(json_member(body, "c").empty());
  CHECK(json_member("{}", "a").empty());
}

}  // namespace json_schema_test
