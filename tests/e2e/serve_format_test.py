#!/usr/bin/env python3
"""specbound serve: response_format of OpenAI, grammar and json_schema of llama.cpp: replies are
what they ask for, streamed or whole, with speculation and without; errors name field and
keyword."""
import json
import unittest

from serve_client import CHAT, COMPLETIONS, ServerCase, ask, prompt

# Not in the order of the alphabet.
SCHEMA = {
    "type": "object",
    "properties": {"place": {"enum": ["Oslo", "Rome"]},
                   "nights": {"type": "integer", "minimum": 1, "maximum": 9},
                   "hotel": {"type": "boolean"}},
    "required": ["place", "nights", "hotel"],
    "additionalProperties": False,
}
NAMED = {"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": SCHEMA}}
LONG = "I want to book a flight to Oslo, and a hotel for three nights."


def held(**fields):
    return ask(LONG, **{"max_tokens": 100, "temperature": 1, "seed": 5, **fields})


class Formats(ServerCase):
    def reply(self, **fields):
        answer = self.server.post(CHAT, held(**fields))
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "stop")
        return answer.text

    def test_a_schema_with_keys_in_its_order(self):
        for fields in ({"response_format": NAMED}, {"json_schema": SCHEMA},
                       {"response_format": {"type": "json_object", "schema": SCHEMA}}):
            texts = set()
            for seed in range(3):
                text = self.reply(seed=seed, **fields)
                value = json.loads(text)
                self.assertEqual(list(value), ["place", "nights", "hotel"])
                self.assertIn(value["place"], ("Oslo", "Rome"))
                self.assertTrue(1 <= value["nights"] <= 9 and isinstance(value["hotel"], bool))
                self.assertEqual(self.reply(seed=seed, speculation=False, **fields), text)
                texts.add(text)

    def test_streamed_it_is_the_same(self):
        body = held(response_format=NAMED)
        whole = self.server.post(CHAT, body).text
        self.assertEqual(self.server.stream(CHAT, body).text(), whole)

    def test_any_object(self):
        answer = self.server.post(CHAT, held(response_format={"type": "json_object"},
                                             max_tokens=300, temperature=0.7))
        self.assertTrue(answer.text.startswith("{"), answer.text)
        if answer.json["choices"][0]["finish_reason"] == "stop":
            self.assertIsInstance(json.loads(answer.text), dict)

    def test_a_grammar_of_chats_and_of_completions(self):
        grammar = 'root ::= "yes" | "no"'
        self.assertIn(self.reply(grammar=grammar), ("yes", "no"))
        answer = self.server.post(COMPLETIONS, prompt("Oslo?", grammar=grammar, max_tokens=9))
        self.assertIn(answer.json["choices"][0]["text"].strip(), ("yes", "no"))

    def test_nothing_is_held_where_nothing_is_asked(self):
        plain = self.server.post(CHAT, ask(LONG)).text
        for fields in ({"response_format": {"type": "text"}}, {"response_format": None},
                       {"grammar": ""}):
            self.assertEqual(self.server.post(CHAT, ask(LONG, **fields)).text, plain, fields)
        self.reply(response_format=NAMED)
        self.assertEqual(self.server.post(CHAT, ask(LONG)).text, plain)

    def test_errors_name_field_and_keyword(self):
        def schema(inner):
            return {"type": "json_schema", "json_schema": {"name": "x", "schema": inner}}

        for fields, words in (
                ({"response_format": schema({"properties": {"a": {"multipleOf": 2}}})},
                 ("response_format", "#/properties/a", "multipleOf")),
                ({"response_format": schema([])}, ("response_format.json_schema.schema",)),
                ({"response_format": {"type": "json_schema"}}, ("response_format.json_schema",)),
                ({"response_format": {"type": "json_schema", "json_schema": {}}},
                 ("response_format.json_schema.schema",)),
                ({"response_format": {"type": "xml"}}, ("response_format.type", "xml")),
                ({"response_format": "json"}, ("response_format",)),
                ({"response_format": {}}, ("response_format.type",)),
                ({"grammar": {}}, ("grammar", "a string")),
                ({"json_schema": {"not": {}}}, ("json_schema", "not")),
                ({"json_schema": {"$ref": "#"}}, ("json_schema", "left recursion")),
                ({"grammar": "root ::= root"}, ("grammar", "left recursion")),
                ({"grammar": "x"}, ("grammar", "line 1")),
                ({"grammar": 1}, ("grammar",)),
                ({"grammar": 'root ::= "a"', "json_schema": SCHEMA}, ("grammar", "json_schema")),
                ({"grammar": 'root ::= "a"', "ignore_eos": True}, ("ignore_eos",))):
            answer = self.server.post(CHAT, held(**fields))
            self.assertEqual(answer.status, 400, (fields, answer.body))
            self.assertEqual(answer.error["type"], "invalid_request_error")
            self.assertTrue(answer.error["param"])
            for word in words:
                self.assertIn(word, answer.error["message"], fields)

    def test_a_grammar_that_cannot_be_followed_is_no_failure_of_the_engine(self):
        ways = 'root ::= ("a"? "b"?){1000}'
        for path, body in ((CHAT, held(grammar=ways)), (COMPLETIONS, prompt(grammar=ways)),
                           (CHAT, held(grammar=ways, stream=True))):
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertEqual((answer.error["type"], answer.error["param"], answer.error["code"]),
                             ("invalid_request_error", "grammar", "unsupported_value"))
            self.assertIn("grammar: expected text that can be read", answer.error["message"])
        # Behind the first text it is an event.
        late = 'root ::= "Oslo, and then " ("a"? "b"?){1000}'
        *_, last = self.server.stream(CHAT, held(grammar=late))
        self.assertEqual((last["error"]["type"], last["error"]["param"]),
                         ("invalid_request_error", "grammar"))


if __name__ == "__main__":
    unittest.main()
