#!/usr/bin/env python3
"""Replies that a grammar or a JSON schema holds, from the command line: what is written is what the
schema allows, by another's judgement; speculation changes no byte of it; errors name what is
wrong."""
import json
import re
import unittest

from specbound_process import DEMO, STORIES, FolderCase, specbound

try:
    from jsonschema import Draft202012Validator as Validator
except ImportError:  # before 4.0 it knew no such draft
    Validator = None
    print("SKIP validation by jsonschema: no package of it from 4.0 on", flush=True)

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "mood": {"enum": ["happy", "sad", None]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,8}$"},
                 "maxItems": 3},
    },
    "required": ["name", "age", "mood", "tags"],
    "additionalProperties": False,
}
ASK = "Describe a person who wants a table for two."


class Held(FolderCase):
    def write(self, name, text):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def run_held(self, *flags, model=DEMO, raw=(), status=0):
        result = specbound("run", "-m", model, "-p", ASK, "-n", "200", *raw, *flags)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def check(self, text, schema):
        value = json.loads(text)
        if Validator:
            Validator(schema).validate(value)
        return value

    def test_what_is_written_is_what_the_schema_allows(self):
        schema = self.write("person.json", PERSON)
        texts = set()
        for seed in range(6):
            result = self.run_held("--json-schema", schema, "--temp", "1", "--seed", str(seed))
            self.assertIn(b"stop: end", result.stderr)
            self.check(result.stdout, PERSON)
            texts.add(result.stdout)
        self.assertGreater(len(texts), 1)

    def test_the_text_is_that_of_plain_decoding(self):
        schema = self.write("person.json", PERSON)
        for temperature in ("0", "1", "1.6"):
            flags = ("--json-schema", schema, "--temp", temperature, "--seed", "3")
            plain = self.run_held(*flags, "--spec", "off").stdout
            for drafter in ((), ("--speculator", "ngram"), ("--speculator", "draft-verify"),
                            ("--head", "lens", "--controller", "off")):
                self.assertEqual(self.run_held(*flags, *drafter).stdout, plain, drafter)

    def test_verify_compares_held_replies_bit_by_bit(self):
        schema = self.write("person.json", PERSON)
        for drafter in ("auto", "ngram"):
            result = specbound("verify", "-m", DEMO, "-p", ASK, "-n", "60", "--bits", "--seeds",
                               "1", "--json-schema", schema, "--speculator", drafter)
            self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_grammar(self):
        grammar = self.write("g.gbnf", 'root ::= "Yes" | "No, " [a-z ]{3,20} "." # so\n')
        for seed in range(4):
            text = self.run_held("--grammar", grammar, "--temp", "1.5", "--seed", str(seed)).stdout
            self.assertRegex(text.decode(), r"\A(Yes|No, [a-z ]{3,20}\.)\n\Z")

    def test_a_sentencepiece_vocabulary(self):
        schema = self.write("s.json", {"type": "array", "items": {"type": "integer", "minimum": 10,
                                                                  "maximum": 99},
                                       "minItems": 2, "maxItems": 4})
        for spec in ("on", "off"):
            text = self.run_held("--json-schema", schema, "--temp", "1", "--seed", "1", "--spec",
                                 spec, model=STORIES, raw=("--raw",)).stdout
            value = json.loads(text)
            self.assertTrue(2 <= len(value) <= 4 and all(10 <= n <= 99 for n in value), value)

    def test_a_reply_of_which_only_the_end_is_left(self):
        grammar = self.write("g.gbnf", 'root ::= "A" "B"?\n')
        text = self.run_held("--grammar", grammar, "--temp", "0").stdout
        self.assertIn(text, (b"A\n", b"AB\n"))
        empty = self.write("empty.gbnf", 'root ::= ""\n')
        self.assertEqual(self.run_held("--grammar", empty).stdout, b"\n")

    def test_a_chat_that_is_held_and_let_go(self):
        grammar = self.write("g.gbnf", 'root ::= [0-9]{3}\n')
        schema = self.write("s.json", {"const": True})
        lines = [f"/set grammar {grammar}", "Hello", "/set grammar", "/set json-schema ~/s.json",
                 "Hello", "/set grammar", "/set json-schema -", "/set json-schema", "Hello",
                 "/set grammar nowhere.gbnf", "/set grammar"]
        result = specbound("chat", "-m", DEMO, "-n", "30", "--seed", "1", "--no-history",
                           stdin="\n".join(lines).encode(), environment={"HOME": self.folder})
        self.assertEqual(result.returncode, 0, result.stderr)
        replies = result.stdout.decode().split("\n")
        self.assertRegex(replies[0], r"\A[0-9]{3}\Z")
        self.assertEqual(replies[1], "true")
        self.assertNotEqual(replies[2], "true")
        said = [line for line in result.stderr.decode().split("\n")
                if re.match("grammar |json-schema |nowhere", line)]
        self.assertEqual(said[0], f"grammar {grammar}")
        self.assertEqual(said[1:4],
                         [f"grammar {grammar}", f"json-schema {schema}", "grammar (none)"])
        self.assertIn("nowhere.gbnf", said[-2])
        self.assertEqual(said[-1], "grammar (none)")

    def test_a_reply_that_becomes_too_ambiguous_ends_its_line(self):
        others = "".join(f'{name} ::= "a" s "{name}"\n' for name in "xyz")
        grammar = self.write("g.gbnf", f'root ::= "begin" s\ns ::= x | y | z | "{64 * "a"}!"\n'
                             + others)
        lines = [f"/set grammar {grammar}", "Hello", "/set grammar -", "Hello"]
        result = specbound("chat", "-m", DEMO, "-n", "70", "--temp", "0", "--no-history",
                           stdin="\n".join(lines).encode())
        self.assertIn(b"ambiguous", result.stderr)
        broken, reply = result.stdout.decode().split("\n", 1)
        self.assertRegex(broken, r"\Abegina+\Z")
        self.assertTrue(reply.strip())

    def test_errors_name_file_and_place(self):
        bad = self.write("bad.gbnf", 'root ::= "a"\nx ::= x "b"\n')
        worse = self.write("worse.gbnf", 'root ::= "a\n')
        not_followed = self.write("s.json", {"properties": {"n": {"multipleOf": 3}}})
        for flags, words in (
                (("--grammar", bad), ("bad.gbnf", '"x"', "left recursion")),
                (("--grammar", worse), ("worse.gbnf", "line 1")),
                (("--json-schema", not_followed), ("s.json", "#/properties/n", "multipleOf")),
                (("--json-schema", bad), ("bad.gbnf", "JSON")),
                (("--grammar", self.path("none")), ("none",)),
                (("--grammar", bad, "--json-schema", not_followed), ("--grammar", "--json-schema")),
                (("--grammar", bad, "--ignore-eos"), ("--ignore-eos",))):
            result = specbound("run", "-m", DEMO, "-p", ASK, *flags)
            self.assertIn(result.returncode, (1, 2), flags)
            self.assertEqual(result.stdout, b"")
            for word in words:
                self.assertIn(word, result.stderr.decode(), flags)


if __name__ == "__main__":
    unittest.main()
