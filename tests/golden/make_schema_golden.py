#!/usr/bin/env python3
"""Writes schema_golden.json: JSON schemas and texts, each with what the jsonschema package says of
it. `written`: the text has the form that grammars write (compact, properties in their order,
nothing that the schema does not name), so that it must be taken where it is valid."""
import datetime
import json
import os
import re

import jsonschema

FORMATS = jsonschema.FormatChecker(formats=())


def checks(name, errors=(ValueError,)):
    return FORMATS.checks(name, raises=errors)


@checks("date")
def is_date(text):
    return not isinstance(text, str) or bool(datetime.date.fromisoformat(text))


@checks("time")
def is_time(text):
    return not isinstance(text, str) or bool(
        re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
        and (datetime.time.fromisoformat(text.replace("Z", "+00:00")) or True))


@checks("date-time")
def is_date_time(text):
    if not isinstance(text, str):
        return True
    date, t, time = text.partition("T")
    return bool(t) and is_date(date) and is_time(time)


@checks("uuid")
def is_uuid(text):
    return not isinstance(text, str) or bool(
        re.fullmatch("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text))


@checks("email")
def is_email(text):
    return not isinstance(text, str) or bool(
        re.fullmatch(r"[A-Za-z0-9]+([._+-][A-Za-z0-9]+)*@([A-Za-z0-9-]+\.)+[A-Za-z]+", text))


@checks("ipv4")
def is_ipv4(text):
    return not isinstance(text, str) or bool(
        re.fullmatch(r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(?=.)|$)){4}", text))


SCALARS = ['null', 'true', 'false', '0', '-1', '7', '12', '1.5', '""', '"a"', '"ab"', '"1"', '[]',
           '[1]', '{}', '{"a":1}']
NUMBERS = ['0', '1', '2', '3', '5', '9', '10', '11', '12', '19', '20', '21', '42', '55', '99',
           '100', '101', '110', '123', '200', '500', '999', '1000', '1234', '-1', '-2', '-5', '-9',
           '-10', '-11', '-42', '-99', '-100', '-101', '"1"', 'null']
REALS = ['0', '1', '5', '4', '4.5', '5.1', '0.5', '-0.5', '-1', '-1.25', '2.000001', '0.000001',
         '4.999999', '10', '9.9', '10.5', '-5', '-4.9', '-5.1', '100', '"1"']
TEXTS = ['""', '"a"', '"ab"', '"abc"', '"abcd"', '"abcdefghijk"', '"\u00e9"', '"\u00e9\u20ac"',
         '"\U0001f600"', '"\U0001f600\U0001f600\U0001f600\U0001f600"', '"\\n"', '"\\u00e9\\"x"',
         '"\\ud83d\\ude00"', '"\\\\"', '1', 'null']
LISTS = ['[]', '[1]', '[1,2]', '[1,2,3]', '[1,2,3,4]', '["a"]', '["a",1]', '["a",1,null]',
         '["a","b"]', '[1,"a"]', '[[1],[2]]', '[null]', '{}', '1']

# (schema, texts in the form that is written, texts that are valid or not in another form)
CASES = [
    ({"type": "null"}, SCALARS, []),
    ({"type": "boolean"}, SCALARS, []),
    ({"type": "integer"}, SCALARS + NUMBERS, ['1.0', '1e2', '-0']),
    ({"type": "number"}, SCALARS + NUMBERS + REALS, ['1e5', '2.5E-3', '1E+2']),
    ({"type": "string"}, SCALARS + TEXTS, []),
    ({"type": "array"}, SCALARS + LISTS, []),
    ({"type": "object"}, SCALARS, ['{"a":{"b":[1,2,{"c":null}]}}', '{"a": 1, "b": 2}']),
    ({"type": ["string", "null"]}, SCALARS + TEXTS, []),
    ({"type": ["integer", "boolean", "array"]}, SCALARS, []),
    ({"type": ["number", "integer"]}, NUMBERS + REALS, []),
    ({"type": "string", "title": "t", "description": "d", "default": 1, "examples": [2]}, SCALARS,
     []),
    ({}, SCALARS + TEXTS + LISTS, []),
    (True, SCALARS, []),
    ({"const": 5}, NUMBERS, ['5.0']),
    ({"const": "a\"\\\n\u00e9"}, ['"a\\"\\\\\\n\u00e9"', '"a"', '5'], ['"a\\u0022"']),
    ({"const": {"a": [1, None, True]}}, ['{"a":[1,null,true]}', '{"a":[]}'], []),
    ({"enum": ["red", "green", None, 7, [1]]},
     ['"red"', '"green"', 'null', '7', '[1]', '"blue"', '"re"', '77', '[]', 'true'], []),
    ({"enum": ["a", "ab", 1], "type": "string"}, ['"a"', '"ab"', '1', '"b"'], []),
    ({"type": "integer", "minimum": 3}, NUMBERS, []),
    ({"type": "integer", "maximum": 100}, NUMBERS, []),
    ({"type": "integer", "minimum": -10, "maximum": 123}, NUMBERS, []),
    ({"type": "integer", "minimum": 12, "maximum": 12}, NUMBERS, []),
    ({"type": "integer", "minimum": 19, "maximum": 500}, NUMBERS, []),
    ({"type": "integer", "minimum": -100, "maximum": -5}, NUMBERS, []),
    ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 100}, NUMBERS, []),
    ({"type": "integer", "minimum": 0.5, "maximum": 99.5}, NUMBERS, []),
    ({"type": "number", "minimum": 0, "maximum": 5}, REALS, ['5.0', '1e0']),
    ({"type": "number", "exclusiveMinimum": 0}, REALS, []),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 5}, REALS, []),
    ({"type": "number", "minimum": -5, "exclusiveMaximum": 10}, REALS, ['-5.0', '-0']),
    ({"type": "number", "minimum": -5, "maximum": -1}, REALS, []),
    ({"type": "number", "exclusiveMinimum": -5, "maximum": 0}, REALS, ['-0.0', '0.0']),
    ({"type": "string", "minLength": 2}, TEXTS, []),
    ({"type": "string", "maxLength": 3}, TEXTS, []),
    ({"type": "string", "minLength": 1, "maxLength": 2}, TEXTS, []),
    ({"type": "string", "minLength": 0, "maxLength": 0}, TEXTS, []),
    ({"type": "string", "pattern": "^[a-c]+$"}, TEXTS + ['"cab"'], []),
    ({"type": "string", "pattern": "^(\\d{3}-)?\\d{2,4}$"},
     ['"12"', '"123-45"', '"123-4567"', '"1"', '"12345"', '"123-"', '"ab"'], []),
    ({"type": "string", "pattern": "^(?:a|b\\.c|[^a-z\"]{2})$"},
     ['"a"', '"b.c"', '"bxc"', '"AB"', '"A\\""', '"  "', '"ab"', '"\u00e9\u00e9"'], []),
    ({"type": "string", "pattern": "^\"\\\\\\w\\s\\x41.$"},
     ['"\\"\\\\x A!"', '"\\"\\\\x AA"', '"x"', '"\\"\\\\- AA"'], []),
    ({"type": "string", "pattern": "^$"}, [t for t in TEXTS if t != '"\\n"'], []),
    ({"type": "string", "format": "date"},
     ['"2024-02-28"', '"2024-02-30"', '"2023-13-01"', '"2023-04-31"', '"2023-12-31"', '"x"',
      '"2023-1-1"'], ['"2024-02-29"']),
    ({"type": "string", "format": "time"},
     ['"12:30:00Z"', '"23:59:59.123+02:00"', '"24:00:00Z"', '"12:30"', '"12:61:00Z"'], []),
    ({"type": "string", "format": "date-time"},
     ['"2024-01-31T12:30:00Z"', '"2024-01-32T12:30:00Z"', '"2024-01-31 12:30:00Z"',
      '"2024-01-31T12:30:00.5-08:00"', '"2024-01-31"'], []),
    ({"type": "string", "format": "uuid"},
     ['"123e4567-e89b-12d3-a456-426614174000"', '"123e4567e89b12d3a456426614174000"', '"x"'], []),
    ({"type": "string", "format": "email"},
     ['"a@b.de"', '"first.last@mail.example.com"', '"a"', '"a@b"', '"@b.de"', '"a b@c.de"'], []),
    ({"type": "string", "format": "ipv4"},
     ['"127.0.0.1"', '"255.255.255.255"', '"256.1.1.1"', '"1.2.3"', '"01.2.3.4"'], []),
    ({"type": "array", "items": {"type": "integer"}}, LISTS, []),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, LISTS, []),
    ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, LISTS, []),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3,
      "uniqueItems": False}, LISTS, []),
    ({"type": "array", "minItems": 1, "maxItems": 2}, LISTS, []),
    ({"type": "array", "maxItems": 0}, LISTS, []),
    ({"type": "array", "items": False}, LISTS, []),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
     [t for t in LISTS if t != '["a",1,null]'], ['["a",1,null]']),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2,
      "items": False}, LISTS, []),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": ["null", "integer"]},
      "minItems": 1, "maxItems": 3}, LISTS + ['["a",1,2,3]', '["a",null,2]'], []),
    ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, LISTS, []),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
      "required": ["a", "b"], "additionalProperties": False},
     ['{"a":1,"b":"x"}', '{"a":1}', '{"b":"x"}', '{}', '{"a":"x","b":"x"}',
      '{"a":1,"b":"x","c":1}', '[]'], ['{"b":"x","a":1}']),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
     ['{"a":1,"b":"x"}', '{"a":1}', '{"b":"x"}', '{}', '{"a":"x"}'],
     ['{"c":1}', '{"b":"x","a":1}']),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "required": ["b", "d"]},
     ['{"a":1,"b":1,"c":1,"d":1}', '{"b":1,"d":1}', '{"b":1,"c":1,"d":1}', '{"a":1,"b":1,"d":1}',
      '{"a":1,"c":1,"d":1}', '{"a":1,"b":1}', '{"d":1}'], []),
    ({"type": "object", "properties": {"a": {"type": "null"}},
      "additionalProperties": {"type": "integer"}},
     ['{"a":null}', '{"a":null,"b":1}', '{"b":1,"aa":2}', '{"a":1}', '{"b":null}', '{}',
      '{"a":null,"a\\"":1}', '{"ab":1}', '{"":1}'], ['{"\\u0061":1}', '{"b":1,"a":null}']),
    ({"type": "object", "properties": {"ab": {"type": "null"}, "abc": {"type": "null"},
                                       "b\u00e9": {"type": "null"}},
      "additionalProperties": True},
     ['{"ab":null,"a":1}', '{"a":1}', '{"abcd":1}', '{"ab":1}', '{"abc":1}', '{"b":2}',
      '{"b\u00e9":2}', '{"b\u00e8":2}', '{"x":{"y":[]}}'], []),
    ({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}}},
     ['{}', '{"a":[true]}', '{"a":[],"b":[false,true]}', '{"a":1}', '{"a":[1]}'], []),
    ({"type": "object", "additionalProperties": False}, ['{}', '{"a":1}'], []),
    ({"type": "object", "required": ["x"]}, ['{"x":1}', '{}'], ['{"y":1,"x":2}', '{"x":1,"y":2}']),
    ({"type": "object", "properties": {"a": False, "b": {"type": "null"}}},
     ['{"b":null}', '{}', '{"a":1}'], []),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, SCALARS, []),
    ({"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "null"}], "title": "x"}, ['{"a":1}', 'null', '{"a":null}', '1'], []),
    ({"type": "object", "properties": {"k": {"type": "string"}, "a": {"type": "integer"},
                                       "b": {"type": "integer"}},
      "anyOf": [{"required": ["a"]}, {"required": ["k", "b"]}]},
     ['{"k":"x","a":1}', '{"a":1}', '{"k":"x","b":1}', '{"b":1}', '{"k":"x"}', '{"a":1,"b":2}'],
     []),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}, {"const": None}]}, SCALARS, []),
    ({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}, "x": {"type": "integer"}},
                 "required": ["t", "x"]},
                {"type": "object", "properties": {"t": {"enum": ["b", "c"]}},
                 "required": ["t"], "additionalProperties": False}],
      "discriminator": {"propertyName": "t"}},
     ['{"t":"a","x":1}', '{"t":"b"}', '{"t":"c"}', '{"t":"a"}', '{"t":"d"}', '{"t":"b","x":1}'],
     []),
    ({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"b": {"type": "string"}, "a": {"minimum": 3}},
                 "required": ["b"]}]},
     ['{"a":5,"b":"x"}', '{"a":1,"b":"x"}', '{"a":5}', '{"a":"5","b":"x"}'], []),
    ({"allOf": [{"type": ["integer", "string"]}, {"type": ["number", "null"]}, {"minimum": 2},
                {"minimum": 1, "maximum": 9}]}, NUMBERS, []),
    ({"$defs": {"p": {"type": "object", "properties": {"n": {"type": "string"}},
                      "required": ["n"]}},
      "type": "object", "properties": {"x": {"$ref": "#/$defs/p"},
                                       "y": {"type": "array", "items": {"$ref": "#/$defs/p"}}},
      "required": ["x"]},
     ['{"x":{"n":"a"}}', '{"x":{"n":"a"},"y":[{"n":"b"},{"n":"c"}]}', '{"x":{}}', '{"x":1}',
      '{"x":{"n":"a"},"y":[1]}'], []),
    ({"definitions": {"a/b~c": {"type": "integer"}}, "$ref": "#/definitions/a~1b~0c"}, NUMBERS, []),
    ({"type": "object", "properties": {"v": {"type": "integer"}, "l": {"$ref": "#"}}},
     ['{"v":1}', '{"v":1,"l":{"v":2,"l":{}}}', '{"l":1}', '{"v":1,"l":{"v":"x"}}'], []),
    ({"type": "array", "items": {"anyOf": [{"type": "number"}, {"$ref": "#"}]}},
     ['[]', '[1,[2,[3]],4]', '["a"]', '[[["a"]]]'], []),
    ({"allOf": [{"$ref": "#/$defs/b"}, {"properties": {"z": {"type": "boolean"}}}],
      "$defs": {"b": {"type": "object", "properties": {"i": {"type": "integer"}},
                      "required": ["i"]}}},
     ['{"i":1,"z":true}', '{"i":1}', '{"z":true}', '{"i":1,"z":1}'], []),
    ({"type": "object", "properties": {"reasoning": {"type": "string"},
                                       "answer": {"enum": ["yes", "no"]},
                                       "score": {"type": "number", "minimum": 0, "maximum": 1}},
      "required": ["reasoning", "answer", "score"], "additionalProperties": False},
     ['{"reasoning":"a","answer":"yes","score":0.75}', '{"reasoning":"a","answer":"yes","score":1}',
      '{"reasoning":"a","answer":"maybe","score":1}', '{"reasoning":"a","answer":"no","score":1.5}',
      '{"reasoning":"","answer":"no","score":0}'], []),
]


def main():
    golden = []
    for schema, written, others in CASES:
        validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
        validator.check_schema(schema)
        cases = []
        for text in dict.fromkeys(written):
            cases.append({"text": text, "valid": validator.is_valid(json.loads(text)),
                          "written": True})
        for text in others:
            cases.append({"text": text, "valid": validator.is_valid(json.loads(text)),
                          "written": False})
        golden.append({"schema": json.dumps(schema), "cases": cases})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema_golden.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=0, ensure_ascii=True)
        file.write("\n")
    print(len(golden), "schemas,", sum(len(g["cases"]) for g in golden), "texts")


if __name__ == "__main__":
    main()
