#!/usr/bin/env python3
"""--speculator ngram, from the outside: the same text, drafts where the text repeats itself."""
import json
import os
import tempfile
import unittest

from specbound_process import DEMO, specbound

ECHO = "again and again and again and again and again and again and"


def run(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stats.json")
        result = specbound("run", "-m", DEMO, *arguments, "--stats-json", path)
        assert result.returncode == 0, result.stderr
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)


class Ngram(unittest.TestCase):
    def test_the_text_is_the_plain_one(self):
        drafted = 0
        for prompt in (ECHO, "I need a table for two tonight.", ""):
            for sampling in (("--temp", "0"), ("--temp", "0.7", "-s", "2"),
                             ("--temp", "1", "-s", "3", "--repeat-penalty", "1.3")):
                ask = ("-p", prompt, "-n", "64", "--ignore-eos", *sampling)
                plain, _ = run(*ask, "--spec", "off")
                for flags in ((), ("--controller", "off"),
                              ("--controller", "off", "--ngram-max", "1"),
                              ("--controller", "off", "--w-max", "16")):
                    result, stats = run(*ask, "--speculator", "ngram", *flags)
                    self.assertEqual(result.stdout, plain.stdout, (ask, flags))
                    self.assertIs(stats["speculation_active"], True)
                    self.assertLessEqual(set(stats["exit_layers"]), {"0"})
                    self.assertIn(stats["mean_exit_layer"], (None, 0))
                    drafted += stats["drafted_tokens"]
        self.assertGreater(drafted, 100)

    def test_bits(self):
        result = specbound("verify", "-m", DEMO, "-t", "1", "--speculator", "ngram", "--bits", "-n",
                           "24", "--temps", "0,0.7", "--seeds", "1", "-p", ECHO, "-p", "x",
                           "--ignore-eos")
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        self.assertIn(b"drafted by prompt lookup", result.stderr)
        self.assertNotIn(b"nothing was drafted", result.stderr)

    def test_it_says_what_it_is_and_refuses_what_it_is_not(self):
        result, _ = run("-p", "x", "-n", "1", "--speculator", "ngram", "--ngram-max", "5")
        self.assertIn(b"speculation on: ngram, prompt lookup of up to 5 tokens, up to 8 rows",
                      result.stderr)
        for flags, says in ((("--ngram-max", "0"), b"from 1 to 16"),
                            (("--w-max", "17"), b"--w-max"),
                            (("--spec", "on", "--w-max", "1"), b"leaves no row to draft")):
            result = specbound("run", "-m", DEMO, "-p", "x", "--speculator", "ngram", *flags)
            self.assertEqual(result.returncode, 2)
            self.assertIn(says, result.stderr)

    def test_in_a_conversation(self):
        talk = b"Hello!\n/regen\nHello!\n/clear\nHello!\n/stats\n"
        plain = specbound("chat", "-m", DEMO, "-s", "4", "-n", "24", "--spec", "off", stdin=talk)
        ngram = specbound("chat", "-m", DEMO, "-s", "4", "-n", "24", "--speculator", "ngram",
                          stdin=talk)
        self.assertEqual(ngram.returncode, 0, ngram.stderr)
        self.assertEqual(ngram.stdout, plain.stdout)
        self.assertIn(b"speculation on", ngram.stderr)


if __name__ == "__main__":
    unittest.main()
