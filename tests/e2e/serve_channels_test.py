#!/usr/bin/env python3
"""specbound serve under gpt-oss's own template, with a model that writes messages in channels:
thoughts, text and calls come apart, calls are held, and what came goes back into the prompt."""
import json
import os
import unittest

from scripted_model import make_scripted_model
from serve_client import CHAT, Server, ask
from serve_tools_test import ARGUMENTS, WEATHER, assembled, message_of
from serve_tools_test import STRICT as UNTOLD
from specbound_process import ROOT, FolderCase

TEMPLATE = os.path.join(ROOT, "tests/data/chat-templates/openai-gpt-oss-120b.jinja")
# No piece comes twice, so some heads are plain text: to who reads the reply that is the same.
THOUGHTS = [("<|channel|>",), "analysis", ("<|message|>",), "They ask ", "for it.", ("<|end|>",),
            ("<|start|>",), "assistant"]
CALL = ["<|channel|>comm", "entary to=functions", ".get_weather ", ("<|constrain|>",),
        "json<|message|>", ARGUMENTS[:9], ARGUMENTS[9:], ("<|call|>",)]
FINAL = ["<|channel|>final", "<|message|>It is ", "sunny ", "in Oslo.", ("<|return|>",)]
# The template has no tools without a description.
STRICT = {"type": "function", "function": {**UNTOLD["function"], "description": "Weather."}}


class Channels(FolderCase):
    def served(self, pieces, *flags):
        with open(TEMPLATE, encoding="utf-8") as file:
            model = make_scripted_model(self.folder, file.read(), {"<|first|>": pieces})
        server = Server(*flags, model=model)
        self.addCleanup(server.end)
        return server

    def both(self, server, **fields):
        """A reply's message and reason, the same whole and streamed."""
        answer = server.post(CHAT, ask(max_tokens=200, **fields))
        message, reason = message_of(answer), answer.json["choices"][0]["finish_reason"]
        streamed, why = assembled(server.stream(CHAT, ask(max_tokens=200, **fields)).events())
        self.assertEqual(why, reason)
        for name in ("content", "reasoning_content"):
            self.assertEqual(streamed[name], message.get(name) or "")
        self.assertEqual([call["function"] for call in streamed["tool_calls"]],
                         [call["function"] for call in message.get("tool_calls", [])])
        return message, reason

    def test_thoughts_and_text_with_tools_and_without(self):
        server = self.served(THOUGHTS + FINAL)
        for fields in ({}, {"tools": [WEATHER]}, {"tools": [STRICT]}, {"speculation": False}):
            message, reason = self.both(server, **fields)
            self.assertEqual(message, {"role": "assistant", "content": "It is sunny in Oslo.",
                                       "reasoning_content": "They ask for it."})
            self.assertEqual(reason, "stop")
        cut = message_of(server.post(CHAT, ask(max_tokens=2)))
        self.assertFalse(cut["content"])

    def test_calls_free_strict_and_required(self):
        server = self.served(THOUGHTS + CALL)
        for tool, choice, arguments in ((WEATHER, "auto", json.loads(ARGUMENTS)),
                                        (STRICT, "auto", {"city": "Oslo"}),
                                        (STRICT, "required", {"city": "Oslo"})):
            for more in ({}, {"speculation": False}, {"temperature": 1, "seed": 3}):
                message, reason = self.both(server, tools=[tool], tool_choice=choice,
                                            parallel_tool_calls=False, **more)
                self.assertEqual(reason, "tool_calls")
                call, = message["tool_calls"]
                self.assertEqual(call["function"]["name"], "get_weather")
                self.assertEqual(json.loads(call["function"]["arguments"]), arguments)
                self.assertFalse(message["content"])
                self.assertEqual(message.get("reasoning_content"),
                                 None if choice == "required" else "They ask for it.")
        # Without tools what looks like a call is text.
        self.assertEqual(self.both(server)[0]["content"],
                         "<|start|>assistant" + "".join(
                             piece if isinstance(piece, str) else piece[0] for piece in CALL[:-1]))

    def test_marks_in_texts_are_text(self):
        server = self.served(THOUGHTS + ["<|channel|>final", "<|message|>The mark <|e",
                                         "nd|> ends it.", ("<|return|>",)])
        self.assertEqual(self.both(server, tools=[WEATHER])[0], {
            "role": "assistant", "content": "The mark <|end|> ends it.",
            "reasoning_content": "They ask for it."})

    def test_a_mark_alone_is_text(self):
        server = self.served([("<|channel|>",), " begins a head."])
        self.assertEqual(self.both(server)[0]["content"], "<|channel|> begins a head.")

    def test_thoughts_that_stay_in_the_text(self):
        server = self.served(THOUGHTS + CALL, "--reasoning-format", "none")
        message, _ = self.both(server, tools=[WEATHER])
        self.assertEqual(message["content"],
                         "<|channel|>analysis<|message|>They ask for it.<|end|>")
        self.assertEqual(len(message["tool_calls"]), 1)

    def test_calls_results_and_thoughts_go_back_as_the_template_has_them(self):
        server = self.served(THOUGHTS + FINAL)
        called = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather",
                                                         "arguments": ARGUMENTS}}]}
        result = {"role": "tool", "tool_call_id": "a", "content": "sunny"}

        def prompt(*messages):
            answer = server.post("/apply-template", {"messages": [*ask()["messages"], *messages],
                                                     "tools": [WEATHER]})
            self.assertEqual(answer.status, 200, answer.body)
            return answer.json["prompt"]

        whole = prompt(called, result)
        self.assertTrue(whole.endswith(
            "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant "
            "to=functions.get_weather<|channel|>commentary json<|message|>" + ARGUMENTS +
            "<|call|><|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>"
            '"sunny"<|end|><|start|>assistant'), whole)
        self.assertIn("<|message|>Hm.\n\nI look.<|end|>", prompt(called | {"content": "I look."},
                                                                result))
        self.assertEqual(message_of(server.post(CHAT, ask(
            messages=[*ask()["messages"], called, result], tools=[WEATHER])))["content"],
            "It is sunny in Oslo.")

    def test_a_message_that_is_begun_goes_on(self):
        server = self.served([
            "rainy. ", ("<|end|>",), ("<|start|>",), "assistant", ("<|channel|>",), "comm",
            *CALL[1:4], "json", ("<|message|>",), *CALL[5:]])
        begun = [*ask()["messages"], {"role": "assistant", "content": "It was"}]
        message, _ = self.both(server, messages=begun, tools=[STRICT], parallel_tool_calls=False)
        self.assertEqual(message["content"], "rainy. ")
        self.assertEqual(json.loads(message["tool_calls"][0]["function"]["arguments"]),
                         {"city": "Oslo"})


if __name__ == "__main__":
    unittest.main()
