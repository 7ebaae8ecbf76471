#!/usr/bin/env python3
"""specbound serve and tools, with a model that writes calls: from the request through the chat
template to the calls in the answer and, with their results, to the reply."""
import json
import tempfile
import unittest

from scripted_model import make_scripted_model
from serve_client import CHAT, Server, ServerCase, ask
from specbound_process import DEMO, FolderCase, specbound

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}
CITY = {"type": "function", "function": {
    "name": "get_city", "parameters": {"type": "object", "properties": {
        "city": {"enum": ["Oslo"]}}, "required": ["city"], "additionalProperties": False}}}
# The model would add to its arguments what this schema does not allow.
STRICT = {"type": "function", "function": {**CITY["function"], "name": "get_weather",
                                           "strict": True}}
ARGUMENTS = '{"city": "Oslo", "n": [1, 2]}'
# Control tokens where models have them: thoughts and calls are not shown by themselves.
THOUGHTS = [("<think>",), "\nHm. ", "They ask ", "for the ", "weather.\n", ("</think>",)]
CALL = [("<tool_call>",), "\n{\"name\": ", "\"get_weather\", ", "\"arguments\": ", ARGUMENTS[:9],
        ARGUMENTS[9:], "}\n", ("</tool_call>",)]
REPLY = ["It is ", "sunny ", "in Oslo."]
TEMPLATE = """\
{{ bos_token }}{% for tool in tools or [] %}{{ (tool | tojson) + '\\n' }}{% endfor %}\
{% for m in messages %}{{ m.role + ': ' + m.content }}{% for call in m.tool_calls or [] %}\
<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}{{ '\\n' }}{% endfor %}\
{% if add_generation_prompt %}\
{{ '<|told|>' if messages[-1].role == 'tool' else '<|call|>' if tools else '<|ask|>' }}{% endif %}\
{# <think> </think> #}"""
SCRIPTS = {"<|call|>": [*THOUGHTS, "\n\nI look. ", *CALL], "<|told|>": REPLY,
           "<|ask|>": ["Hello ", "there."]}


def message_of(answer):
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json["choices"][0]["message"]


def assembled(events):
    """What clients make of the deltas of a stream, and why it ended."""
    message, reason = {"content": "", "reasoning_content": "", "tool_calls": []}, None
    for event in events:
        choice = event["choices"][0]
        reason = choice["finish_reason"] or reason
        delta = choice["delta"]
        for name in ("content", "reasoning_content"):
            message[name] += delta.get(name) or ""
        for call in delta.get("tool_calls", []):
            if call["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"id": call["id"], "type": call["type"],
                                              "function": dict(call["function"])})
            else:
                assert "id" not in call and "name" not in call["function"], call
                function = message["tool_calls"][call["index"]]["function"]
                function["arguments"] += call["function"]["arguments"]
    return message, reason


class ToolsCase(ServerCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.MODEL = make_scripted_model(folder.name, TEMPLATE, SCRIPTS)
        super().setUpClass()

    def ask(self, **fields):
        return ask(**{"tools": [WEATHER], "max_tokens": 64, **fields})

    def check_called(self, message):
        self.assertEqual(message["content"], "I look. ")
        self.assertEqual(message["reasoning_content"], "Hm. They ask for the weather.")
        call, = message["tool_calls"]
        self.assertEqual(call["type"], "function")
        self.assertEqual(call["function"], {"name": "get_weather", "arguments": ARGUMENTS})
        self.assertRegex(call["id"], r"^[A-Za-z0-9]{9}$")


class Calls(ToolsCase):
    def test_a_call_whole_and_streamed_with_speculation_and_without(self):
        for fields in ({}, {"speculation": False}, {"temperature": 1, "seed": 1}):
            answer = self.server.post(CHAT, self.ask(**fields))
            self.check_called(message_of(answer))
            self.assertEqual(answer.json["choices"][0]["finish_reason"], "tool_calls")
            message, reason = assembled(self.server.stream(CHAT, self.ask(**fields)).events())
            self.check_called(message)
            self.assertEqual(reason, "tool_calls")

    def test_with_the_result_comes_the_reply(self):
        first = message_of(self.server.post(CHAT, self.ask()))
        messages = [*ask()["messages"], first,
                    {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"],
                     "content": "sunny"}]
        answer = self.server.post(CHAT, self.ask(messages=messages))
        self.assertEqual(message_of(answer),
                         {"role": "assistant", "content": "It is sunny in Oslo."})
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "stop")

    def test_without_tools_the_model_is_not_told_of_them(self):
        for fields in ({"tools": None}, {"tools": []}, {"tool_choice": "none"}):
            answer = self.server.post(CHAT, self.ask(**fields))
            self.assertEqual(message_of(answer), {"role": "assistant", "content": "Hello there."})

    def test_a_call_that_is_cut_off_is_text(self):
        n = len(THOUGHTS) + 6
        answer = self.server.post(CHAT, self.ask(max_tokens=n))
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "length")
        message = message_of(answer)
        self.assertNotIn("tool_calls", message)
        self.assertEqual(message["content"],
                         "I look. <tool_call>\n" + '{"name": "get_weather", "arguments": {"city": ')

    def test_the_prompt_is_the_templates(self):
        messages = [{"role": "user", "content": "Hi </s>"},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "a", "type": "function", "function": {
                            "name": "get_weather", "arguments": '{"z": 1, "a": 2}'}}]},
                    {"role": "tool", "tool_call_id": "a", "content": "x"}]
        answer = self.server.post("/apply-template", {"messages": messages, "tools": [WEATHER]})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json, {"prompt": (
            f"<s>{json.dumps(WEATHER)}\nuser: Hi </s>\nassistant: "
            '<tool_call>{"name": "get_weather", "arguments": {"z": 1, "a": 2}}</tool_call>\n'
            "tool: x\n<|told|>")})

    def test_an_answer_that_is_begun_goes_on(self):
        messages = [*ask()["messages"], {"role": "assistant", "content": "It was <|told|>"}]
        prompt = self.server.post("/apply-template", {"messages": messages}).json["prompt"]
        self.assertTrue(prompt.endswith("\nassistant: It was <|told|>"), prompt)
        # What a message says is no control token: the reply is what any other text gets.
        self.assertEqual(message_of(self.server.post(CHAT, ask(messages=messages)))["content"],
                         message_of(self.server.post(CHAT, self.ask(
                             messages=[*ask()["messages"], {"role": "assistant", "content": "It"}],
                             tools=None)))["content"])
        finished = self.server.post("/apply-template", {"messages": messages,
                                                        "add_generation_prompt": True})
        self.assertTrue(finished.json["prompt"].endswith("It was <|told|>\n<|ask|>"))

    def test_beside_a_format_a_reply_is_that_or_a_call(self):
        schema = {"type": "object", "properties": {"n": {"const": 1}}, "required": ["n"]}
        format = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        # What the model was taught is neither; the grammar lets it call, or write that.
        cut, held = (message_of(self.server.post(CHAT, self.ask(
            tools=[tool], response_format=format))) for tool in (WEATHER, STRICT))
        begun = '{"name": "get_weather", "arguments": {'
        self.assertTrue(cut["content"].startswith("<tool_call>\n" + begun), cut)
        self.assertEqual(held["tool_calls"][0]["function"]["name"], "get_weather")

    def test_what_cannot_be_had_is_named(self):
        for fields, param in (
                ({"tool_choice": "required", "response_format": {"type": "json_object"}},
                 "tool_choice"),
                ({"tool_choice": "required", "ignore_eos": True}, "ignore_eos"),
                ({"tool_choice": "required", "tools": [CITY | {"function": {
                    "name": "f", "parameters": {"type": "object", "not": {}}}}]}, "tools"),
                ({"tools": [STRICT], "grammar": 'root ::= "a"'}, "tools"),
                ({"tools": [STRICT], "ignore_eos": True}, "ignore_eos"),
                ({"tools": [{"type": "function", "function": {
                    "name": "f", "strict": True, "parameters": {"type": "object", "not": {}}}}]},
                 "tools"),
                ({"tools": [{"type": "retrieval"}]}, "tools[0].type")):
            answer = self.server.post(CHAT, self.ask(**fields))
            self.assertEqual((answer.status, answer.error["param"]), (400, param))


class Held(ToolsCase):
    """The model would think and look first: tool_choice has it call at once."""

    def check_held(self, message, name, arguments):
        call, = message["tool_calls"]
        self.assertEqual(call["function"]["name"], name)
        self.assertEqual(json.loads(call["function"]["arguments"]), arguments)
        self.assertFalse(message.get("content"))
        self.assertFalse(message.get("reasoning_content"))

    def test_required_or_named_is_a_call_that_keeps_to_the_schema(self):
        other = {"type": "function", "function": {
            "name": "other", "strict": True, "parameters": {"type": "object", "properties": {
                "n": {"const": 7}}, "required": ["n"], "additionalProperties": False}}}
        named = {"type": "function", "function": {"name": "other"}}
        for tools, choice, name, arguments in (
                ([CITY], "required", "get_city", {"city": "Oslo"}),
                ([CITY, other], named, "other", {"n": 7})):
            for fields in ({}, {"speculation": False}, {"temperature": 1, "seed": 3}):
                asked = self.ask(tools=tools, tool_choice=choice, max_tokens=200, **fields)
                answer = self.server.post(CHAT, asked)
                self.check_held(message_of(answer), name, arguments)
                self.assertEqual(answer.json["choices"][0]["finish_reason"], "tool_calls")
                message, reason = assembled(self.server.stream(CHAT, asked).events())
                self.check_held(message, name, arguments)
                self.assertEqual(reason, "tool_calls")


class Strict(ToolsCase):
    """The model decides whether it calls; a call is held to its schema from where it begins."""

    def test_thoughts_and_text_are_its_own_and_the_arguments_by_the_schema(self):
        free = message_of(self.server.post(CHAT, self.ask()))
        for fields in ({}, {"speculation": False}, {"temperature": 1, "seed": 3}):
            asked = self.ask(tools=[STRICT], max_tokens=200, parallel_tool_calls=False, **fields)
            answer = self.server.post(CHAT, asked)
            message = message_of(answer)
            for name in ("content", "reasoning_content"):
                self.assertEqual(message[name], free[name])
            call, = message["tool_calls"]
            self.assertEqual(call["function"]["name"], "get_weather")
            self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Oslo"})
            streamed, reason = assembled(self.server.stream(CHAT, asked).events())
            self.assertEqual(reason, "tool_calls")
            self.assertEqual(streamed["content"], free["content"])
            self.assertEqual(streamed["tool_calls"][0]["function"], call["function"])

    def test_a_reply_without_a_call_is_what_it_is_without_strict(self):
        messages = [*ask()["messages"], {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather",
                                                         "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "a", "content": "x"}]
        for fields in ({}, {"speculation": False}):
            texts = [self.server.post(CHAT, self.ask(messages=messages, tools=tools, **fields))
                     for tools in ([WEATHER], [STRICT])]
            self.assertEqual(message_of(texts[0]), message_of(texts[1]))
        # The result has come: this one is text alone.
        self.assertEqual(message_of(self.server.post(CHAT, self.ask(
            messages=messages, tools=[STRICT])))["content"], "It is sunny in Oslo.")

    def test_arguments_that_are_held_come_as_they_are_written(self):
        for _ in range(10):  # what is written while the server's thread waits its turn is one part
            events = self.server.stream(CHAT, self.ask(tools=[STRICT], speculation=False,
                                                       parallel_tool_calls=False)).events()
            parts = [call for event in events
                     for call in event["choices"][0]["delta"].get("tool_calls", [])]
            self.assertEqual(parts[0]["function"]["name"], "get_weather")
            for part in parts[1:]:
                self.assertEqual(set(part), {"index", "function"})
                self.assertEqual(set(part["function"]), {"arguments"})
            if len(parts) > 3:
                return
        self.fail(parts)

    def test_one_that_is_cut_off_keeps_what_came(self):
        fields = {"tools": [STRICT], "speculation": False, "parallel_tool_calls": False}
        whole = message_of(self.server.post(CHAT, self.ask(**fields, max_tokens=200)))
        arguments = whole["tool_calls"][0]["function"]["arguments"]
        n = len(THOUGHTS) + 6
        answer = self.server.post(CHAT, self.ask(**fields, max_tokens=n))
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "length")
        call, = message_of(answer)["tool_calls"]
        self.assertTrue(arguments.startswith(call["function"]["arguments"]))
        self.assertLess(len(call["function"]["arguments"]), len(arguments))


class Raw(ToolsCase):
    FLAGS = ("--reasoning-format", "none")

    def test_thoughts_stay_in_the_text(self):
        message = message_of(self.server.post(CHAT, self.ask()))
        self.assertNotIn("reasoning_content", message)
        self.assertEqual(len(message["tool_calls"]), 1)
        # As it was: control tokens are not shown.
        self.assertEqual(message["content"], "\nHm. They ask for the weather.\n\n\nI look. ")


class Formats(FolderCase):
    """How models of other families write the same call."""

    def check(self, sign, pieces, arguments, call_id=r"^[A-Za-z0-9]{9}$"):
        model = make_scripted_model(self.folder, TEMPLATE + "{# " + sign + " #}",
                                    {"<|call|>": ["I look. ", *pieces], "<|told|>": REPLY})
        server = Server(model=model)
        self.addCleanup(server.end)
        for tool, choice, found in ((WEATHER, "auto", arguments), (STRICT, "auto", None),
                                    (STRICT, "required", None)):
            asked = ask(tools=[tool], tool_choice=choice, max_tokens=250,
                        parallel_tool_calls=False)
            message = message_of(server.post(CHAT, asked))
            self.assertEqual(message["content"] or "", "" if choice == "required" else "I look. ")
            call, = message["tool_calls"]
            self.assertEqual(call["function"]["name"], "get_weather")
            self.assertEqual(json.loads(call["function"]["arguments"]), found or {"city": "Oslo"})
            self.assertRegex(call["id"], call_id)
            streamed, reason = assembled(server.stream(CHAT, asked).events())
            self.assertEqual(streamed["tool_calls"][0]["function"], call["function"])
            self.assertEqual(reason, "tool_calls")

    def test_glm(self):
        self.check("<arg_key>", [
            ("<tool_call>",), "get_weather\n<arg_key>city</arg_key>\n<arg_value>",
            "Oslo</arg_value>\n", "<arg_key>n</arg_key>\n<arg_value>[1, 2]</arg_value>\n",
            ("</tool_call>",)], json.loads(ARGUMENTS))

    def test_kimi(self):
        self.check("<|tool_calls_section_begin|>", [
            ("<|tool_calls_section_begin|>",), ("<|tool_call_begin|>",),
            "functions.get_weather:0", ("<|tool_call_argument_begin|>",), ARGUMENTS,
            ("<|tool_call_end|>",), ("<|tool_calls_section_end|>",)], json.loads(ARGUMENTS),
            r"^functions\.get_weather:[0-9]+$")

    def test_command_r(self):
        self.check("<|START_ACTION|>", [
            ("<|START_ACTION|>",), '[\n    {"tool_call_id": "0", "tool_name": "get_weather", ',
            '"parameters": ', ARGUMENTS, "}\n]", ("<|END_ACTION|>",)], json.loads(ARGUMENTS))

    def test_command_r_plus(self):
        self.check('Action: "tool_name"', [
            "Action: ", "```json", "\n[\n    {\n", '        "tool_name": "get_weather",\n',
            '        "parameters": ', ARGUMENTS, "\n    }\n]", "\n```"], json.loads(ARGUMENTS))

    def test_a_mark_with_a_token_in_it_that_has_no_text(self):
        self.check("", ["<tool", ("<|hidden|>",), "_call>", "\n{\"name\": ", "\"get_weather\", ",
                        "\"arguments\": ", ARGUMENTS, "}\n", "</tool_call>"],
                   json.loads(ARGUMENTS))


class Files(FolderCase):
    def test_a_template_from_a_file(self):
        model = make_scripted_model(self.folder, TEMPLATE, SCRIPTS)
        with open(self.path("own.jinja"), "w", encoding="utf-8") as file:
            file.write("{% for m in messages %}{{ m.content }}{% endfor %}<|told|>")
        flags = ("-m", model, "--temp", "0", "-n", "9", "--chat-template-file",
                 self.path("own.jinja"))
        result = specbound("run", *flags, "-p", "Hi")
        self.assertEqual(result.stdout.strip(), b"It is sunny in Oslo.", result.stderr)
        server = Server("--chat-template-file", self.path("own.jinja"), model=model)
        self.addCleanup(server.end)
        self.assertEqual(server.post(CHAT, ask()).text, "It is sunny in Oslo.")
        refused = server.post(CHAT, ask(tools=[WEATHER]))
        self.assertEqual(refused.status, 400)
        self.assertIn("has no place for", refused.error["message"])
        self.assertNotIn(self.folder, refused.error["message"])  # where that lies is no client's

    def test_files_that_are_none(self):
        with open(self.path("broken.jinja"), "w", encoding="utf-8") as file:
            file.write("{% if %}")
        for command in ("run", "chat", "serve"):
            flags = {"serve": ("--port", "0"), "run": ("-p", "x")}.get(command, ())
            for path, said in ((self.path("broken.jinja"), b"is no Jinja"),
                               (self.path("none.jinja"), b"none.jinja")):
                result = specbound(command, "-m", DEMO, *flags, "--chat-template-file", path)
                self.assertEqual(result.returncode, 1, (command, result.stderr))
                self.assertIn(said, result.stderr)
        result = specbound("run", "-m", DEMO, "-p", "x", "--chat-template", "chatml",
                           "--chat-template-file", self.path("broken.jinja"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(b"--chat-template-file", result.stderr)


class Streams(ToolsCase):
    def test_the_deltas_have_the_form_that_clients_read(self):
        events = self.server.stream(CHAT, self.ask()).events()
        deltas = [event["choices"][0]["delta"] for event in events]
        self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
        calls = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
        first, second = calls
        self.assertEqual({**first[0], "id": None},
                         {"index": 0, "id": None, "type": "function",
                          "function": {"name": "get_weather", "arguments": ""}})
        self.assertEqual(second, [{"index": 0, "function": {"arguments": ARGUMENTS}}])
        self.assertEqual(deltas[-1], {})


if __name__ == "__main__":
    unittest.main()
