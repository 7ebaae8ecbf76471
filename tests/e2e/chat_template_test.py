#!/usr/bin/env python3
"""Chat templates from the outside: --chat-template, templates of files, and what is said when there
is none or one that cannot be rendered."""
import os
import sys
import unittest

from gguf_file import STRING, GgufFile
from specbound_process import DEMO, ROOT, STORIES, FolderCase, specbound

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
sys.dont_write_bytecode = True
from classic_templates import CLASSICS  # noqa: E402

NAMES = (b"vicuna, chatml, qwen2, qwen2.5, qwen3, ", b"llama2, llama3, llama3.1", b"gemma", b"phi3",
         b"zephyr", b"deepseek", b"smollm3", b"mistral-v7")
FLAGS = ("-p", "Find me some music.", "--temp", "0", "-n", "12")
COMMANDS = ("run", "chat", "lens", "verify", "train-heads", "tune", "theory", "ppl")


def run(model, *flags):
    return specbound("run", "-m", model, *FLAGS, *flags)


def notes(result):
    return [line for line in result.stderr.splitlines() if line.startswith(b"chat template")]


class ChatTemplates(FolderCase):
    def model_with(self, template, base=DEMO):
        model = GgufFile(base)
        model.entries["tokenizer.chat_template"] = STRING, template.encode()
        path = self.path("model.gguf")
        with open(path, "wb") as file:
            file.write(model.bytes())
        return path

    def test_help_lists_the_names(self):
        for command in COMMANDS:
            result = specbound(command, "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            text = b" ".join(result.stdout.split())
            self.assertIn(b"--chat-template", text, command)
            for name in NAMES:
                self.assertIn(name, text, command)

    def test_an_unknown_name_is_a_usage_error_that_lists_the_names(self):
        for command in COMMANDS:
            result = specbound(command, "--chat-template", "Vicuna\n")
            self.assertEqual(result.returncode, 2, command)
            self.assertEqual(result.stdout, b"")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            for text in (b"--chat-template", b"expected one of vicuna, chatml", b"granite",
                         b"Vicuna\\x0a"):
                self.assertIn(text, result.stderr)
        result = run(DEMO, "--chat-template", "")
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_raw_and_a_template_contradict_each_other(self):
        result = run(DEMO, "--raw", "--chat-template", "vicuna")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--raw", result.stderr)

    def test_a_name_replaces_what_the_file_says(self):
        own = run(DEMO)
        self.assertEqual(own.returncode, 0, own.stderr)
        self.assertEqual(notes(own), [])
        named = run(DEMO, "--chat-template", "vicuna")
        self.assertEqual(named.stdout, own.stdout)
        other = run(DEMO, "--chat-template", "llama2")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertNotEqual(other.stdout, own.stdout)
        self.assertEqual(notes(other), [])

    def test_a_template_in_the_file_is_the_same_as_its_name(self):
        named = run(DEMO, "--chat-template", "llama2")
        result = run(self.model_with(CLASSICS["Llama 2"][0]))
        self.assertEqual(notes(result), [])
        self.assertEqual(result.stdout, named.stdout)

    def test_a_template_that_has_no_name_is_rendered(self):
        template = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}Reply:"
        result = run(self.model_with(template))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(notes(result), [])
        raw = specbound("run", "-m", DEMO, "--raw", "-p", "<user> Find me some music.\nReply:",
                        "--temp", "0", "-n", "12")
        self.assertEqual(raw.returncode, 0, raw.stderr)
        self.assertEqual(result.stdout, raw.stdout)

    def test_a_template_that_cannot_be_rendered_falls_back_to_chatml_and_says_so(self):
        named = run(DEMO, "--chat-template", "chatml")
        self.assertEqual(named.returncode, 0, named.stderr)
        self.assertEqual(len(notes(named)), 1)
        self.assertIn(b"<|im_start|>, <|im_end|> are no tokens", notes(named)[0])
        for template in ("{{ raise_exception('never \x1b[31m') }}", "{{ messages[0].role }}",
                         "{% broken \x1b[31m", "{% for i in range(99999) %}" * 3):
            result = run(self.model_with(template))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, named.stdout)
            self.assertEqual(len(notes(result)), 2, result.stderr)
            self.assertIn(b"ChatML is used instead", notes(result)[0])
            self.assertIn(b"--chat-template NAME", notes(result)[0])
            self.assertNotIn(b"\x1b", result.stderr)

    def test_a_file_without_a_template_needs_a_name(self):
        result = run(STORIES)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"no tokenizer.chat_template", result.stderr)
        self.assertIn(b"--chat-template NAME", result.stderr)
        result = run(STORIES, "--chat-template", "deepseek")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(notes(result), [])

    def test_chat_takes_it_too_and_says_a_thing_once(self):
        model = self.model_with("no template at all")
        result = specbound("chat", "-m", model, "--temp", "0", "-n", "4",
                           stdin=b"Hi.\n/regen\nWhat?\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(notes(result)), 2)
        result = specbound("verify", "-m", model, "-p", "One", "-p", "Two", "--temps", "0",
                           "--seeds", "1", "-n", "4", "--head", "lens")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(notes(result)), 2)


if __name__ == "__main__":
    unittest.main()
