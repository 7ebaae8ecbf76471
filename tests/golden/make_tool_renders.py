#!/usr/bin/env python3
"""Renders chat templates with all that a request may hold with Jinja2, set up as transformers does.

usage: make_tool_renders.py > tool_renders.json    (needs jinja2)
       make_tool_renders.py TEMPLATE CASE          that text itself

cases: what templates are given (messages, tools, variables, whether a reply is asked for).
templates: every file of tests/data/chat-templates with what Jinja2 makes of each case, in order:
the text's size and its hash (FNV-1a, 64 bits), null where the template refuses it, false where it
fails.
"""
import glob
import json
import os
import sys

from make_template_renders import FILES, Refused, absent, make_environment

WEATHER = {"type": "function", "function": {
    "name": "get_weather",
    "description": "Current weather of a city, \"as felt\" & <as is>\nGrüße 你好 🦙",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city's name"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 0, "maximum": 14},
            "where": {"type": "object", "properties": {
                "lat": {"type": "number", "minimum": -90.5}, "lon": {"type": ["number", "null"]}}},
            "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["city"], "additionalProperties": False}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Finds pages.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}},
                   "required": ["query"]}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "description": "Tells the time.",
    "parameters": {"type": "object", "properties": {}}}}
TOOLS = [WEATHER, SEARCH, CLOCK]

SYSTEM = {"role": "system", "content": "You are a pirate."}
USER = {"role": "user", "content": "Weather in Oslo?"}
ARGUMENTS = {"city": "Oslo \"N\" ø", "unit": "celsius", "days": 3,
             "where": {"lat": 59.9, "lon": None}, "tags": ["a", "b"], "exact": True}


def call(name, arguments, number):
    return {"id": f"call{number:05d}", "type": "function",
            "function": {"name": name, "arguments": arguments}}


def result(content, number, **more):
    return {"role": "tool", "tool_call_id": f"call{number:05d}", "content": content, **more}


def calls(*list_of_calls, content=None, **more):
    return {"role": "assistant", "content": content, "tool_calls": list(list_of_calls), **more}


def says(content, **more):
    return {"role": "assistant", "content": content, **more}


def case(*messages, tools=None, ask=True, **variables):
    if tools:
        variables = {"tools": tools, **variables}
    return {"messages": list(messages), "variables": variables, "ask": ask}


ASKED = call("get_weather", ARGUMENTS, 1)
AS_TEXT = call("get_weather", json.dumps(ARGUMENTS, ensure_ascii=False), 1)
TWO = [call("search", {"query": "fjord"}, 2), call("clock", {}, 3)]
SUNNY = result('{"temperature": 21.5, "sky": "clear"}', 1, name="get_weather")
ON = {"enable_thinking": True, "thinking": True}
OFF = {"enable_thinking": False, "thinking": False}
PARTS = [{"type": "text", "text": "Weather in Oslo?"}, {"type": "text", "text": " And Bergen? "}]
CASES = [
    case(USER),
    case(SYSTEM, USER, says("Arr."), {"role": "user", "content": "So?"}),
    case(USER, tools=TOOLS),
    case(SYSTEM, USER, tools=TOOLS),
    case(USER, calls(ASKED), SUNNY, tools=TOOLS),
    case(USER, calls(ASKED, content=""), SUNNY, tools=TOOLS),
    case(USER, calls(AS_TEXT, content=""), SUNNY, tools=TOOLS),
    case(SYSTEM, USER, calls(*TWO, content="I look.\n"),
         result("Found <|im_end|>\n", 2, name="search"), result("12:00", 3, name="clock"),
         says("It is noon."),
         {"role": "user", "content": "Thanks"}, tools=TOOLS),
    case(SYSTEM, USER, calls(TWO[0], content=""), result("x", 2, name="search"),
         calls(TWO[1], content="", reasoning_content="What time?"), result("12", 3, name="clock"),
         tools=TOOLS, **ON),
    case(USER, tools=TOOLS, **ON),
    case(USER, **ON),
    case(USER, **OFF),
    case(SYSTEM, USER, tools=TOOLS, **OFF),
    case(USER, says("Cold.", reasoning_content="It is the north."),
         {"role": "user", "content": "Why?"}),
    case(USER, says("Cold.", reasoning_content="It is the north."),
         ask=False),
    case(USER, says("<think>\nnorth\n</think>\n\nCold."), ask=False, **ON),
    case({"role": "user", "content": PARTS}),
    case({"role": "system", "content": [{"type": "text", "text": "S"}]},
         {"role": "user", "content": PARTS}, {"role": "assistant", "content": PARTS[:1]},
         {"role": "user", "content": PARTS[:1]}),
    case({"role": "developer", "content": "Be brief."}, USER),
    case({"role": "developer", "content": "Be brief."}, USER, tools=TOOLS[1:]),
    case(USER, calls(ASKED), ask=False, tools=TOOLS),
    case(SYSTEM, USER, calls(ASKED, content=""), SUNNY, says("Sunny."),
         ask=False, tools=TOOLS[:1]),
    case(USER, tools=TOOLS[2:], date_string="1 January 2030"),
    case(SYSTEM, USER, reasoning_effort="high", builtin_tools=["python", "browser"],
         documents=[{"title": "T", "text": "Text of it."}], tools_in_user_message=False,
         tools=TOOLS),
    case({"role": "user", "content": "  \n"}, says(""), USER, ask=False),
]


def render(template, given):
    return template.render(messages=given["messages"], bos_token="<s>", eos_token="</s>",
                           add_generation_prompt=given["ask"],
                           **{**absent(template), **given["variables"]})


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{len(data)} {value:016x}"


def digest(template, given):
    try:
        return fnv1a(render(template, given).encode())
    except Refused:
        return None
    except Exception:  # whatever Jinja2 and Python refuse
        return False


def main():
    environment = make_environment()
    sources = {}
    for path in sorted(glob.glob(FILES)):
        with open(path, encoding="utf-8", newline="") as file:
            sources[os.path.basename(path).removesuffix(".jinja")] = file.read()
    if len(sys.argv) == 3:
        template = environment.from_string(sources[sys.argv[1]])
        print(render(template, CASES[int(sys.argv[2])]), end="")
        return
    templates = []
    for name, source in sources.items():
        try:
            template = environment.from_string(source)
        except Exception:  # no Jinja
            templates.append([name, False])
            continue
        templates.append([name, [digest(template, given) for given in CASES]])
    lists = []
    for name, entries in (("cases", CASES), ("templates", templates)):
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        lists.append('"%s": [\n%s\n]' % (name, lines))
    print("{" + ",\n".join(lists) + "}")


main()
