#!/usr/bin/env python3
"""Speculation in specbound run, from the outside: the text it must not change, the figures it
explains itself with, its flags. How chat switches it is in chat_test.py."""
import json
import os
import re
import tempfile
import unittest

from specbound_process import DEMO, DEMO_HEADS, LENS, STORIES, specbound

# Drafters of every temper: the default; one that drafts after one layer, whatever comes; deep and
# wide without bounds; two rows; few checks.
DRAFTERS = (
    (),
    ("--tau", "0"),
    ("--no-depth-bound", "--no-width-bound", "--tau", "0.3", "--no-anneal"),
    ("--w-max", "2", "--tau", "0.2", "--anneal-learned"),
    ("--w-max", "5", "--tau", "0.1", "--check-layers", "2,4", "--alpha", "1"),
)
SAMPLING = (
    ("--temp", "0"),
    ("--temp", "0.7", "-s", "1"),
    ("--temp", "1", "-s", "12345678901234567890", "--top-k", "0", "--top-p", "1", "--min-p", "0"),
    ("--temp", "1.5", "-s", "3", "--repeat-penalty", "1.3"),
)


def run(*arguments, stats=False):
    """The text of a reply that came to its end, and its figures."""
    if not stats:
        result = specbound("run", *arguments)
        assert result.returncode == 0, result.stderr
        return result
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stats.json")
        result = run(*arguments, "--stats-json", path)
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)


class SameText(unittest.TestCase):
    def check(self, *ask):
        """Every drafter writes what plain decoding writes. What was drafted and accepted."""
        drafted = accepted = 0
        for sampling in SAMPLING:
            plain = run(*ask, *sampling, "--spec", "off")
            for drafter in DRAFTERS:
                result, stats = run(*ask, *sampling, "--spec", "on", *LENS, *drafter, stats=True)
                self.assertEqual(result.stdout, plain.stdout, (ask, sampling, drafter))
                self.assertIs(stats["speculation_active"], True)
                drafted += stats["drafted_tokens"]
                accepted += stats["accepted_tokens"]
        return drafted, accepted

    def test_a_chat_model_writes_the_same(self):
        drafted = accepted = 0
        for prompt in ("I need a table for two tonight.", "Find me a flight to Oslo.", ""):
            more = self.check("-m", DEMO, "-p", prompt, "-n", "40", "--ignore-eos")
            drafted, accepted = drafted + more[0], accepted + more[1]
        self.check("-m", DEMO, "-p", "Thanks, goodbye!", "-n", "60")  # up to its end token
        # Drafts both right and wrong, else nothing was shown.
        self.assertGreater(accepted, 100)
        self.assertGreater(drafted, accepted + 100)
        print(f"drafted {drafted}, accepted {accepted}: the text of plain decoding")

    def test_a_raw_story_writes_the_same(self):
        drafted, accepted = self.check("-m", STORIES, "--raw", "-p", "Once upon a time", "-n", "60")
        self.assertGreater(accepted, 20)
        self.assertGreater(drafted, accepted + 20)

    def test_at_the_end_of_the_context_and_of_the_budget(self):
        ask = ("-m", STORIES, "--raw", "-p", "Lily", "--temp", "0.8", "-s", "4", "--ignore-eos")
        greedy = ("--spec", "on", *LENS, "--tau", "0.1", "--w-max", "16")
        for limit in (("-c", "9"), ("-c", "16"), ("-c", "31"), ("-n", "0"), ("-n", "1"),
                      ("-n", "2"), ("-n", "3"), ("-n", "17")):
            plain = run(*ask, *limit, stats=True)
            drafted = run(*ask, *limit, *greedy, stats=True)
            self.assertEqual(drafted[0].stdout, plain[0].stdout, limit)
            for key in ("stop_reason", "generated_tokens", "prompt_tokens"):
                self.assertEqual(drafted[1][key], plain[1][key], (limit, key))

    def test_a_stop_string_stops_where_plain_decoding_stops(self):
        ask = ("-m", DEMO, "-p", "I need a table for two tonight.", "-s", "5", "-n", "64",
               "--ignore-eos", "--temp", "0.7", "--stop", "?", "--stop", " please")
        plain = run(*ask, "--spec", "off", stats=True)
        self.assertEqual(plain[1]["stop_reason"], "stop")
        for drafter in DRAFTERS:
            result, stats = run(*ask, "--spec", "on", *LENS, *drafter, stats=True)
            self.assertEqual(result.stdout, plain[0].stdout, drafter)
            self.assertEqual(stats["stop_reason"], "stop")
            self.assertEqual(stats["generated_tokens"], plain[1]["generated_tokens"])


class Tree(unittest.TestCase):
    def test_without_siblings_it_is_a_chain(self):
        """A trace names a slot's parent where it is not the slot before."""
        ask = ("-m", STORIES, "--raw", "-p", "The cat saw a dog. The cat saw a bird. The cat saw a",
               "-n", "40", "--temp", "0", "--speculator", "auto", "--controller", "off")
        told = []
        with tempfile.TemporaryDirectory() as folder:
            for more, words in (((), b"a tree of lookups"), (("--no-siblings",), b"a chain of")):
                path = os.path.join(folder, "trace.jsonl")
                self.assertIn(words, run(*ask, *more, "--trace", path).stderr)
                with open(path, encoding="utf-8") as file:
                    told.append('"parent"' in file.read())
        self.assertEqual(told, [True, False])


class Figures(unittest.TestCase):
    ASK = ("-m", DEMO, "-p", "Tell me about a film.", "-s", "5", "--ignore-eos")

    def test_the_figures_of_a_speculative_reply_agree_with_each_other(self):
        result, stats = run(*self.ask(96), "--spec", "on", *LENS, "--tau", "0.3", stats=True)
        self.assertIs(stats["speculation_active"], True)
        self.assertLessEqual(stats["accepted_tokens"], stats["drafted_tokens"])
        self.assertGreater(stats["accepted_tokens"], 0)
        # A round gives its accepted drafts and one token more.
        self.assertEqual(stats["generated_tokens"], stats["rounds"] + stats["accepted_tokens"])
        self.assertEqual(stats["compression_rate"], stats["generated_tokens"] / stats["rounds"])
        layers = {int(layer): n for layer, n in stats["exit_layers"].items()}
        self.assertEqual(sum(layers.values()), stats["accepted_tokens"])
        self.assertLessEqual(set(layers), set(range(1, 11)))
        mean = sum(layer * n for layer, n in layers.items()) / sum(layers.values())
        self.assertAlmostEqual(stats["mean_exit_layer"], mean)
        self.assertGreaterEqual(stats["plain_rounds"], 3)
        phases = stats["phase_seconds"]
        self.assertEqual(list(phases), ["draft", "check", "verify", "logits", "sample"])
        for phase, seconds in phases.items():
            self.assertGreater(seconds, 0, phase)
        self.assertLessEqual(sum(phases.values()), stats["decode_seconds"])
        line = result.stderr.splitlines()[-1].decode()
        self.assertRegex(line, r"^96 tokens, [\d.]+ tok/s, plain [\d.]+ \(\d+ rounds?\), "
                               r"speedup [\d.]+x, CR [\d.]+, mean exit layer [\d.]+, first after "
                               r"[\d.]+ ms \| prompt \d+.* \| stop: length \| seed 5 \| "
                               r"speculation on$")

    def test_a_reply_too_short_for_a_plain_round_is_compared_with_nothing(self):
        result, stats = run(*self.ask(1), "--spec", "on", *LENS, stats=True)
        self.assertEqual((stats["plain_tokens_per_second"], stats["speedup"]), (None, None))
        self.assertEqual(stats["plain_rounds"], 0)
        self.assertIn(b", plain not measured yet, ", result.stderr)

    def test_few_plain_rounds_are_shown_but_give_no_speedup(self):
        # With one draft at most a round these are 9 to 18 rounds: 8 is a plain one, perhaps 16.
        _, stats = run(*self.ask(18), "--spec", "on", *LENS, "--w-max", "2", stats=True)
        self.assertIn(stats["plain_rounds"], (1, 2))
        self.assertGreater(stats["plain_tokens_per_second"], 0)
        self.assertIsNone(stats["speedup"])

    def test_a_plain_reply_drafts_nothing(self):
        for flags in (("--spec", "off"), ("--speculator", "none"), ("--w-max", "1"),
                      ("--head", "lens", "--check-layers", "12", "--d-max", "8")):
            result, stats = run(*self.ask(8), *flags, stats=True)
            self.assertIs(stats["speculation_active"], False, flags)
            self.assertEqual((stats["drafted_tokens"], stats["rounds"]), (0, 8))
            self.assertEqual(stats["plain_rounds"], 7)  # the first comes cold from the prefill
            self.assertGreater(stats["plain_tokens_per_second"], 0)
            self.assertIsNone(stats["speedup"])
            self.assertEqual(stats["exit_layers"], {})
            self.assertTrue(result.stderr.endswith(b"| speculation off\n"), result.stderr)

    def ask(self, n):
        return (*self.ASK, "-n", str(n))


class Flags(unittest.TestCase):
    def state(self, *flags, model=("-m", DEMO)):
        result = run(*model, "-p", "x", "-n", "1", *flags)
        lines = re.findall(rb"(?m)^speculation .*$", result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0].decode()

    def test_one_line_says_whether_it_is_active_and_why(self):
        stories = ("--raw", "-m", STORIES)
        exits = ("--speculator", "specbound")
        self.assertEqual(self.state(model=stories),
                         "speculation on: auto, a tree of lookups, up to 16 rows (controller)")
        self.assertEqual(self.state("--controller", "off", "--w-max", "5", model=stories),
                         "speculation on: auto, a tree of lookups, up to 5 rows")
        self.assertEqual(self.state(*exits, model=stories),
                         "speculation off: no exit heads beside the model: specbound train-heads "
                         f"-m {STORIES} makes them")
        self.assertEqual(self.state("--spec", "off"), "speculation off: --spec off")
        shipped = self.state()
        self.assertRegex(shipped, rf"^speculation on: auto with \w+ heads of {DEMO_HEADS}, up to ")
        self.assertTrue(shipped.endswith(", as shipped, lookups (controller)"), shipped)
        alone = self.state(*exits)
        self.assertRegex(alone, rf"^speculation on: specbound with \w+ heads of {DEMO_HEADS}, up ")
        self.assertTrue(alone.endswith(", as shipped"), alone)
        self.assertEqual(self.state("--controller", "off"), alone.replace(
            "on: specbound", "on: auto") + ", lookups beside and behind")
        on = ("speculation on: specbound with the logit lens, up to 8 rows, checks at layers "
              "1-10 of 16, alpha 0.2, tau 0.55")
        self.assertEqual(self.state(*exits, "--spec", "on", "--head", "lens"), on)
        self.assertEqual(self.state("--head", "lens", "--tau", "0.55"), on.replace(
            "on: specbound", "on: auto") + ", lookups beside and behind")
        self.assertEqual(self.state("--head", "lens"),
                         "speculation on: auto with the logit lens, up to 16 rows, checks at "
                         "layers 1-10 of 16, lookups (controller)")
        self.assertEqual(self.state("--spec", "on", *LENS), on)
        self.assertEqual(self.state("--head", "lens", "--preset", "paper"), on)
        self.assertEqual(self.state(*exits, "--spec", "on", model=stories),
                         on.replace("1-10 of 16", "1-4 of 5"))
        self.assertIn("up to 4 rows", self.state("--head", "lens", "--preset", "paper",
                                                 "--w-max", "4"))
        self.assertIn("(no full heads for the paper's setting)",
                      self.state("--spec", "on", "--preset", "paper", model=stories))
        self.assertIn("no exit heads beside the model", self.state("--preset", "paper",
                                                                   model=stories))

    def test_wrong_settings_are_one_line_and_status_2(self):
        for flags, says in ((("--w-max", "17"), b"--w-max: expected 1 to 16, found 17"),
                            (("--tau", "nan"), b"--tau: expected a number, found"),
                            (("--spec", "maybe"), b"--spec: expected on or off"),
                            (("--speculator", "magic"), b"expected none, auto, specbound, "),
                            (("--speculator", "forced"), b"only in specbound verify"),
                            (("--preset", "quick"), b"--preset: expected tuned, shipped or paper"),
                            (("--check-layers", "1,,2"), b"a part is empty"),
                            (("--head", "lens", "--check-layers", "1-99999999999"),
                             b"the model has 16"),
                            (("--head", "lens", "--check-layers", "16"),
                             b"expected layers from 1 to 15"),
                            (("--spec", "on", "--speculator", "none"), b"--speculator none"),
                            (("--spec", "on", "--w-max", "1"), b"leaves no row to draft")):
            for command in (("run", "-p", "x"), ("chat",)):
                result = specbound(*command, "-m", DEMO, *flags)
                self.assertEqual((result.returncode, result.stdout), (2, b""), flags)
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
                self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main()
