#!/usr/bin/env python3
"""--speculator auto, what drafts where nobody says: lookups in one tree, with the model's exit
heads or without any. The text is the plain one, traces of trees are whole, and what rows cost is
measured once and kept."""
import glob
import json
import os
import unittest

from specbound_process import DEMO, FolderCase, demo_without_heads, specbound

ECHO = "again and again and again and again and"
COLOURS = "red blue red green red blue red green red"
PROMPTS = ("I need a table for two tonight.", ECHO, COLOURS, "")
SAMPLING = (("--temp", "0"), ("--temp", "0.8", "-s", "7"))
SMALL = ("--shape", "6x64x96x4x2x96", "--shortlist", "48", "-r", "1", "--device", "cpu", "-t", "1")


class AutoCase(FolderCase):
    def setUp(self):
        super().setUp()
        self.models = {"heads": DEMO, "no heads": demo_without_heads(self.folder)}

    def run_it(self, *arguments, **options):
        """The reply and its figures."""
        path = self.path("stats.json")
        result = specbound("run", *arguments, "--stats-json", path, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)

    def traced(self, *arguments):
        """The lines of a reply's trace."""
        path = self.path("trace.jsonl")
        result = specbound("run", *arguments, "--trace", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class SameText(AutoCase):
    def test_the_text_is_the_plain_one(self):
        for name, model in self.models.items():
            drafted = accepted = 0
            for prompt in PROMPTS:
                for sampling in SAMPLING:
                    ask = ("-m", model, "-p", prompt, "-n", "48", "--ignore-eos", *sampling)
                    plain, _ = self.run_it(*ask, "--spec", "off")
                    for flags in ((), ("--controller", "off"),
                                  ("--controller", "off", "--w-max", "16"),
                                  ("--controller", "off", "--w-max", "2")):
                        result, stats = self.run_it(*ask, *flags)
                        self.assertEqual(result.stdout, plain.stdout, (name, ask, flags))
                        self.assertIs(stats["speculation_active"], True)
                        drafted += stats["drafted_tokens"]
                        accepted += stats["accepted_tokens"]
            # Drafts both right and wrong, else nothing was shown.
            self.assertGreater(accepted, 100, name)
            self.assertGreater(drafted, accepted + 100, name)
            print(f"{name}: drafted {drafted}, accepted {accepted}: the text of plain decoding")

    def test_bits(self):
        for name, model in self.models.items():
            for flags in ((), ("--w-max", "16")):
                path = self.path("verify.json")
                result = specbound("verify", "-m", model, "-t", "1", "--bits", "-n", "24",
                                   "--temps", "0,0.8", "--seeds", "1", "-p", ECHO, "-p", COLOURS,
                                   "--ignore-eos", *flags, "--json", path)
                self.assertEqual(result.returncode, 0, (name, result.stdout, result.stderr))
                with open(path, encoding="utf-8") as file:
                    found = json.load(file)
                self.assertEqual((found["speculator"], found["identical"]), ("auto", True))
                self.assertGreater(found["drafted_tokens"], 20, name)

    def test_it_ends_where_plain_decoding_ends(self):
        for name, model in self.models.items():
            ask = ("-m", model, "-p", ECHO, "--temp", "0.8", "-s", "4", "--ignore-eos")
            for limit in (("-c", "24"), ("-c", "31"), ("-n", "0"), ("-n", "1"), ("-n", "2"),
                          ("-n", "17"), ("-n", "60", "--stop", " an"), ("-n", "60", "--stop", "?")):
                plain = self.run_it(*ask, *limit, "--spec", "off")
                drafted = self.run_it(*ask, *limit, "--controller", "off", "--w-max", "16")
                self.assertEqual(drafted[0].stdout, plain[0].stdout, (name, limit))
                for key in ("stop_reason", "generated_tokens", "prompt_tokens"):
                    self.assertEqual(drafted[1][key], plain[1][key], (name, limit, key))

    def test_the_papers_preset_is_exits_alone(self):
        lines = self.traced("-m", DEMO, "-p", ECHO, "-n", "32", "--ignore-eos", "--preset", "paper")
        self.assertEqual(lines[1]["speculator"], "specbound")
        self.assertNotIn("parent", lines[-2]["slots"][0])


class Trees(AutoCase):
    def check_tree(self, line):
        """A round whose slots have parents; how many rows its longest path has."""
        slots, depths, children = line["slots"], [], set()
        for slot, row in enumerate(slots):
            if slot == 0:
                self.assertEqual((row["parent"], row["drafted_at"]), (None, None))
                depths.append(0)
                continue
            parent = row["parent"]
            self.assertTrue(0 <= parent < slot, line)
            self.assertIn(row["drafted_at"], range(0, 17))
            self.assertLessEqual(row["drafted_at"], slots[parent]["exit_layer"])
            self.assertNotIn((parent, row["token"]), children)  # no token twice behind one row
            children.add((parent, row["token"]))
            depths.append(depths[parent] + 1)
        # What has a child was left for it, at the deepest of the layers that children came from.
        for slot, row in enumerate(slots):
            at = [child["drafted_at"] for child in slots if child["parent"] == slot]
            self.assertEqual(row["exit_layer"], max(at, default=None))
        return max(depths) + 1

    def test_traces_tell_which_row_follows_which(self):
        for model in self.models.values():
            trees = chains = 0
            for prompt in PROMPTS[1:3]:
                for sampling in SAMPLING:
                    lines = self.traced("-m", model, "-p", prompt, "-n", "48", "--ignore-eos",
                                        *sampling, "--controller", "off", "--w-max", "16")
                    self.assertEqual(lines[1]["speculator"], "auto")
                    more = self.check_reply(lines)
                    trees, chains = trees + more[0], chains + more[1]
            self.assertGreater(trees, 8)
            self.assertGreater(chains, 0)

    def check_reply(self, lines):
        """Its trees and chains. What was accepted is a path: each token but the first of a round
        stands in a row behind the row before."""
        trees = chains = drafted = accepted = 0
        tokens = []
        for line in lines[2:-1]:
            if line["type"] == "token":
                tokens.append(line)
                continue
            slots = line["slots"]
            self.assertEqual((len(slots), len(tokens)), (line["rows"], line["emitted"]))
            self.assertEqual(tokens[0]["slot"], 0)
            tree = "parent" in slots[0]
            self.assertEqual(tree, all("parent" in row for row in slots))
            if tree:
                trees += 1
                self.assertLessEqual(len(tokens), self.check_tree(line))
                self.assertTrue(any(row["parent"] != slot - 1 for slot, row in enumerate(slots)
                                    if slot > 0), line)  # a chain says nothing of parents
            else:
                chains += 1
            for before, token in zip(tokens, tokens[1:]):
                self.assertTrue(before["accepted"])
                slot = token["slot"]
                self.assertEqual(slots[slot]["token"], before["token"])
                parent = slots[slot]["parent"] if tree else slot - 1
                self.assertEqual(parent, before["slot"])
            for token in tokens:
                held = [row["token"] for slot, row in enumerate(slots) if slot > 0 and
                        (row["parent"] if tree else slot - 1) == token["slot"]]
                self.assertEqual(token["accepted"], token["token"] in held)
                self.assertEqual(token["draft"] is None, not held)
                if held:
                    self.assertIn(token["draft"], held)
            drafted += len(slots) - 1
            accepted += sum(token["accepted"] for token in tokens)
            tokens = []
        self.assertEqual((drafted, accepted),
                         (lines[-1]["drafted_tokens"], lines[-1]["accepted_tokens"]))
        return trees, chains

    def test_bench_replays_no_trees_and_says_so(self):
        for model in self.models.values():
            lines = self.traced("-m", model, "-p", COLOURS, "-n", "48", "--temp", "0",
                                "--ignore-eos", "--controller", "off", "--w-max", "16")
            self.assertTrue(any("parent" in line["slots"][0] for line in lines
                                if line["type"] == "round"))
            result = specbound("bench", *SMALL, "--replay", self.path("trace.jsonl"))
            self.assertEqual((result.returncode, result.stdout), (1, b""), result.stderr)
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertRegex(result.stderr, rb"trace\.jsonl: line \d+: expected ")


class Costs(AutoCase):
    """What rows cost here, in a cache of this test's own."""

    def setUp(self):
        super().setUp()
        self.environment = {"XDG_CACHE_HOME": self.path("cache")}

    def start(self, *flags, model="no heads"):
        """What stderr says; the figures that lie in the cache."""
        result = specbound("run", "-m", self.models[model], "-p", ECHO, "-n", "4", "--temp", "0",
                           *flags, environment=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.text = result.stdout
        found = glob.glob(self.path("cache/specbound/costs-*.json"))
        return result.stderr, found

    def test_they_are_measured_once_and_kept(self):
        said, [path] = self.start()
        with open(path, "rb") as file:
            first = file.read()
        found = json.loads(first)
        self.assertEqual(found["version"], 1)
        for name in ("start", "position"):
            self.assertEqual(len(found[name]), 16)
            self.assertEqual(found[name], sorted(found[name]))  # more rows never cost less
        self.assertGreater(found["start"][0], 0)
        self.assertNotIn(b"costs", said)
        for model in ("no heads", "heads"):  # heads change nothing of what rows cost
            said, again = self.start(model=model)
            self.assertEqual(again, [path])
            with open(path, "rb") as file:
                self.assertEqual(file.read(), first)

    def test_rounds_correct_them_for_the_next_start(self):
        _, [path] = self.start()
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        wrong = {**found, "start": [x * (1 if i < 4 else 50) for i, x in enumerate(found["start"])],
                 "position": [0] * 16}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(wrong, file)
        self.start()  # too short to tell
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), wrong)
        said, [path] = self.start("-n", "200", "--ignore-eos")
        self.assertNotIn(b"costs", said)
        with open(path, encoding="utf-8") as file:
            learned = json.load(file)
        self.assertNotEqual(learned["start"], wrong["start"])
        self.assertEqual(learned["start"], sorted(learned["start"]))
        self.assertEqual(learned["context"], wrong["context"])

    def test_nobody_who_needs_none_measures(self):
        for flags in (("--spec", "off"), ("--speculator", "ngram"), ("--speculator", "specbound"),
                      ("--controller", "off")):
            self.assertEqual(self.start(*flags)[1], [], flags)

    def test_what_is_damaged_is_told_in_one_line_and_measured_again(self):
        _, [path] = self.start()
        text = self.text
        with open(path, "rb") as file:
            good = file.read()
        found = json.loads(good)
        flat = {**found, "start": [0] * 16}
        for damaged in (b"", b"x", b"[]", good[:len(good) // 2], b"[" * 100000, bytes(range(256)),
                        good + b" " * (1 << 20), json.dumps({**found, "start": [1]}).encode(),
                        json.dumps({**found, "position": "x"}).encode(),
                        json.dumps({**found, "start": [-1] + found["start"][1:]}).encode(),
                        json.dumps(flat).encode(),
                        json.dumps({**found, "start": found["start"][::-1]}).encode(),
                        json.dumps({**found, "position": [1] + [0] * 15}).encode()):
            with open(path, "wb") as file:
                file.write(damaged)
            said, again = self.start()
            lines = [line for line in said.splitlines() if b"no use as costs" in line]
            self.assertEqual(len(lines), 1, (damaged[:60], said))
            self.assertTrue(lines[0].startswith(path.encode()), lines)
            self.assertTrue(lines[0].endswith(b"measuring again"), lines)
            self.assertEqual((again, self.text), ([path], text))
            with open(path, encoding="utf-8") as file:
                self.assertGreater(json.load(file)["start"][0], 0)
            self.assertNotIn(b"costs", self.start()[0])

    def test_of_another_version_or_model_they_are_measured_without_a_word(self):
        _, [path] = self.start()
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        for other in ({"version": 2}, {"model_fingerprint": "0123456789abcdef"}):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**found, **other}, file)
            said, [path] = self.start()
            self.assertNotIn(b"costs", said)
            with open(path, encoding="utf-8") as file:
                again = json.load(file)
            for key in other:
                self.assertEqual(again[key], found[key])

    def test_a_cache_that_cannot_be_written_is_told_and_the_text_stays(self):
        self.start()
        text = self.text
        with open(self.path("file"), "wb"):
            pass
        self.environment = {"XDG_CACHE_HOME": os.path.join(self.path("file"), "cache")}
        said, _ = self.start()
        self.assertIn(b"what rows cost is measured at each start", said)
        self.assertEqual(self.text, text)


if __name__ == "__main__":
    unittest.main()
