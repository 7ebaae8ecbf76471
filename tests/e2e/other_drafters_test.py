#!/usr/bin/env python3
"""The drafters of other papers, from the outside: the same text and bits, and what they refuse."""
import json
import os
import tempfile
import unittest

from specbound_process import DEMO, specbound

ECHO = "again and again and again and again and again and again and"
DRAFTERS = {
    "layerskip": [(), ("--exit-layer", "8"), ("--head", "folded")],
    "adadecode": [(), ("--head", "lens", "--tau", "0.4")],
    "draft-verify": [(), ("--skip-layers", "2,5-6,9", "--tau", "0.2")],
    "lookahead": [(), ("--lookahead", "5,3,3")],
    "auto": [(), ("--w-max", "8"), ("--head", "lens", "--tau", "0.4")],
}


def run(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stats.json")
        trace = os.path.join(folder, "trace.jsonl")
        result = specbound("run", "-m", DEMO, "-t", "1", *arguments, "--stats-json", path,
                           "--trace", trace)
        assert result.returncode == 0, result.stderr
        with open(path, encoding="utf-8") as file:
            stats = json.load(file)
        with open(trace, encoding="utf-8") as file:
            return result, stats, [json.loads(line) for line in file]


class OtherDrafters(unittest.TestCase):
    def test_the_text_is_the_plain_one(self):
        for sampling in (("--temp", "0"), ("--temp", "0.7", "-s", "2")):
            ask = ("-p", ECHO, "-n", "32", "--ignore-eos", *sampling)
            plain, _, _ = run(*ask, "--spec", "off")
            for name, settings in DRAFTERS.items():
                for flags in settings:
                    result, stats, trace = run(*ask, "--speculator", name, "--controller", "off",
                                               *flags)
                    self.assertEqual(result.stdout, plain.stdout, (name, flags, sampling))
                    self.assertIs(stats["speculation_active"], True)
                    self.assertGreater(stats["drafted_tokens"], 0, (name, flags))
                    self.assertIn(f"speculation on: {name}".encode(), result.stderr)
                    begun = [line for line in trace if line["type"] == "reply"]
                    self.assertEqual([line["speculator"] for line in begun], [name])

    def test_traces_tell_which_layers_ran(self):
        ask = ("-p", ECHO, "-n", "16", "--ignore-eos", "--temp", "0", "--controller",
               "off")
        _, _, trace = run(*ask, "--speculator", "layerskip", "--exit-layer", "5")
        rounds = [line for line in trace if line["type"] == "round" and line["rows"] > 1]
        self.assertTrue(rounds)
        for line in rounds:
            self.assertEqual({slot["exit_layer"] for slot in line["slots"][:-1]}, {5})
            drafts = [p for p in line["passes"] if p["phase"] == "draft"]
            self.assertEqual({(p["from"], p["to"], p["rows"]) for p in drafts}, {(1, 5, 1)})
        _, _, trace = run(*ask, "--speculator", "draft-verify", "--skip-layers", "3-8", "--tau",
                          "0")
        rounds = [line for line in trace if line["type"] == "round" and line["rows"] > 1]
        self.assertTrue(rounds)
        for line in rounds:
            drafts = [p for p in line["passes"] if p["phase"] == "draft"]
            self.assertEqual({(p["from"], p["to"], p["rows"]) for p in drafts},
                             {(1, 2, 1), (9, 16, 1)})
            self.assertEqual([(p["from"], p["to"], p["slot"], p["rows"]) for p in line["passes"]
                              if p["phase"] == "verify"], [(1, 16, 0, line["rows"])])

    def test_bits(self):
        for name in DRAFTERS:
            result = specbound("verify", "-m", DEMO, "-t", "1", "--speculator", name, "--bits",
                               "-n", "16", "--temps", "0,0.7", "--seeds", "1", "-p", ECHO,
                               "--ignore-eos")
            self.assertEqual(result.returncode, 0, (name, result.stdout, result.stderr))
            self.assertNotIn(b"nothing was drafted", result.stderr)
            self.assertIn(b"identical", result.stdout)

    def test_what_they_refuse(self):
        for flags, says in (
                (("layerskip", "--exit-layer", "16"), b"--exit-layer: expected a layer from 1 to"),
                (("layerskip", "--exit-layer", "x"), b"--exit-layer: expected a layer from 1 on"),
                (("layerskip", "--check-layers", "2"), b"--exit-layer names"),
                (("layerskip", "--head", "chained"), b"layer 0 alone"),
                (("adadecode", "--head", "folded", "--check-layers", "3"), b"found them at 4,8,12"),
                (("adadecode", "--exit-layer", "3"), b"--exit-layer: needs --speculator layerskip"),
                (("draft-verify", "--skip-layers", "17"), b"--skip-layers: expected layers from 1"),
                (("draft-verify", "--skip-layers", "all"), b"--skip-layers: expected ascending"),
                (("draft-verify", "--w-max", "17"), b"--w-max"),
                (("auto", "--w-max", "17"), b"--w-max"),
                (("lookahead", "--lookahead", "3,4"), b"--lookahead: expected W,N,G, numbers"),
                (("lookahead", "--lookahead", "3,4,2,1"), b"--lookahead: expected W,N,G"),
                (("lookahead", "--lookahead", "3,99999999999999999999,2"), b"W,N,G, numbers"),
                (("lookahead", "--lookahead", "0,4,2"), b"--lookahead: expected W from 1 to 16"),
                (("lookahead", "--lookahead", "3,1,2"), b"--lookahead: expected N from 2 to 16"),
                (("lookahead", "--lookahead", "3,4,3"), b"rows up to 16, found 18"),
                (("lookahead", "--w-max", "8"), b"--w-max: expected the 15 rows of --lookahead"),
                (("ngram", "--lookahead", "3,4,2"), b"--lookahead: needs --speculator lookahead"),
                (("auto", "--ngram-max", "2"), b"--ngram-max: needs --speculator ngram"),
                (("ngram", "--controller", "on"), b"--controller on: needs --speculator auto"),
                (("hybrid",), b"expected none, auto, specbound, ngram, layerskip")):
            result = specbound("run", "-m", DEMO, "-p", "x", "-n", "1", "--speculator", *flags)
            self.assertEqual(result.returncode, 2, (flags, result.stderr))
            self.assertIn(says, result.stderr)
        result = specbound("verify", "-m", DEMO, "--speculator", "forced", "--skip-layers", "2")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--skip-layers: needs --speculator draft-verify", result.stderr)

    def test_what_has_no_effect_is_told(self):
        ask = ("run", "-m", DEMO, "-p", "x", "-n", "1", "--speculator")
        for flags, told in ((("ngram",), False), (("ngram", "--heads", "none.gguf"), True),
                            (("ngram", "--tau", "0.3"), True), (("ngram", "--head", "full"), True),
                            (("draft-verify", "--tau", "0.3"), False),
                            (("draft-verify", "--tau", "0.3", "--d-max", "4"), True),
                            (("lookahead", "--alpha", "0.1"), True)):
            result = specbound(*ask, *flags)
            self.assertEqual(result.returncode, 0, result.stderr)
            line = f"--speculator {flags[0]}: what was said of exit heads and their drafts has no "
            self.assertEqual(line.encode() in result.stderr, told, (flags, result.stderr))

    def test_in_a_conversation(self):
        talk = b"/set skip-layers\n/set exit-layer\n/set tau\nHello!\n/regen\n/stats\n"
        plain = specbound("chat", "-m", DEMO, "-s", "4", "-n", "16", "--spec", "off",
                          stdin=b"Hello!\n/regen\n")
        for name in DRAFTERS:
            chat = specbound("chat", "-m", DEMO, "-s", "4", "-n", "16", "--speculator", name,
                             stdin=talk)
            self.assertEqual(chat.returncode, 0, chat.stderr)
            self.assertEqual(chat.stdout, plain.stdout)
            self.assertIn(f"speculation on: {name}".encode(), chat.stderr)


if __name__ == "__main__":
    unittest.main()
