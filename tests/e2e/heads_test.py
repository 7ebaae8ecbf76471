#!/usr/bin/env python3
"""Heads files of every temper, from the outside: refused in one line, or merely slow; never a
changed byte."""
import json
import os
import tempfile
import unittest

from heads_file import demo_fingerprint, heads_bytes, masks_bytes
from specbound_process import DEMO, STORIES, specbound

ASK = ("-p", "Find me a flight to Oslo.", "-n", "32", "--ignore-eos")
SAMPLING = (("--temp", "0"), ("--temp", "0.7", "-s", "3"))
EXITS = ("--speculator", "specbound")  # heads alone
# Random weights; sure of everything; of nothing; weights as large and as small as the format has.
TEMPERS = (dict(), dict(tau=0.0), dict(tau=1.0), dict(scale=60000.0, tau=0.0),
           dict(scale=0.0, tau=0.0))
KINDS = (dict(kind="chained", layers=(0,)), dict(kind="chained", layers=(0, 1, 4), inner=0),
         dict(kind="folded", layers=(1, 6)), dict(kind="full", layers=(2,)))


class Heads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fingerprint = demo_fingerprint()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def write(self, data, name="test.heads.gguf"):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run_with(self, path, *flags):
        stats_path = os.path.join(self.folder.name, "stats.json")
        result = specbound("run", "-m", DEMO, *ASK, "--heads", path, "--controller", "off", *flags,
                           "--stats-json", stats_path)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(stats_path, encoding="utf-8") as file:
            return result, json.load(file)

    def test_whatever_the_heads_say_the_text_is_the_plain_one(self):
        plain = {sampling: specbound("run", "-m", DEMO, *ASK, *sampling, "--spec", "off").stdout
                 for sampling in SAMPLING}
        drafted = accepted = 0
        for kind in KINDS:
            for temper in TEMPERS:
                path = self.write(heads_bytes(self.fingerprint, **{**kind, **temper}))
                for sampling in SAMPLING if temper in TEMPERS[:2] else SAMPLING[:1]:
                    rules = [EXITS]
                    if temper in TEMPERS[:2]:  # the second rule is a tree with lookups
                        rules += [(*EXITS, "--confidence", "margin"), ()]
                    for rule in rules:
                        result, stats = self.run_with(path, *sampling, *rule)
                        self.assertEqual(result.stdout, plain[sampling], (kind, temper, sampling))
                        self.assertIs(stats["speculation_active"], True)
                        drafted += stats["drafted_tokens"]
                        accepted += stats["accepted_tokens"]
        self.assertGreater(drafted, 1000)
        print(f"random heads drafted {drafted}, {accepted} of them right: the text of plain "
              "decoding")

    def test_bits(self):
        for kind in KINDS:
            path = self.write(heads_bytes(self.fingerprint, **kind, tau=0.0))
            for speculator in ("specbound", "auto"):
                result = specbound("verify", "-m", DEMO, "-t", "1", "--bits", "--heads", path, "-n",
                                   "12", "--temps", "0,0.7", "--seeds", "1", "--ignore-eos", "-p",
                                   "Play some jazz.", "--speculator", speculator)
                self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
                self.assertIn(b"identical", result.stdout)
                self.assertIn(kind["kind"].encode() + b" heads", result.stderr)
                self.assertNotIn(b"nothing was drafted", result.stderr)

    def test_mask_tokens(self):
        plain = specbound("run", "-m", DEMO, *ASK, "--temp", "0", "--spec", "off").stdout
        for masks in (dict(rows=3), dict(rows=1), dict(token=7, count=2)):
            path = self.write(masks_bytes(self.fingerprint, **masks), "masks.heads.gguf")
            result, stats = self.run_with(path, "--temp", "0", "--speculator", "space")
            self.assertEqual(result.stdout, plain)
            self.assertGreater(stats["drafted_tokens"], 10)
            self.assertIn(b"speculation on: space, ", result.stderr)
            result = specbound("verify", "-m", DEMO, "-t", "1", "--bits", "--heads", path, "-n",
                               "12", "--temps", "0,0.7", "--seeds", "1", "--ignore-eos", "-p",
                               "Play some jazz.", "--speculator", "space")
            self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
            self.assertIn(b"identical", result.stdout)
            n = masks.get("rows") or masks["count"]
            self.assertIn(f"{n} mask tokens".encode(), specbound("info", path).stdout)
            self.assertEqual(json.loads(specbound("info", path, "--json").stdout)["exit_heads"]
                             ["masks"], n)
            # Others have no use for them.
            result, _ = self.run_with(path, "--temp", "0")
            self.assertEqual(result.stdout, plain)
            self.assertIn(b"speculation on: auto, a tree of lookups, ", result.stderr)
        for flags, says in ((("--w-max", "3"), b"--w-max: expected the 4 rows"),
                            (("--heads", self.write(heads_bytes(self.fingerprint))),
                             b"expected mask tokens in")):
            result = specbound("run", "-m", DEMO, *ASK, "--heads", path, "--speculator", "space",
                               *flags)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            self.assertIn(says, result.stderr)

    def test_never_sure_means_one_row_a_round(self):
        path = self.write(heads_bytes(self.fingerprint, tau=1.0))
        _, stats = self.run_with(path, "--temp", "0", *EXITS)
        self.assertEqual((stats["drafted_tokens"], stats["rounds"]), (0, 32))

    def test_heads_that_are_never_right_are_asked_and_change_nothing(self):
        path = self.write(heads_bytes(self.fingerprint, tau=0.0))
        stats_path = os.path.join(self.folder.name, "stats.json")
        run = ("run", "-m", DEMO, *ASK[:2], "-n", "200", "--ignore-eos", "--temp", "0")
        result = specbound(*run, "--heads", path, "--stats-json", stats_path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, specbound(*run, "--spec", "off").stdout)
        with open(stats_path, encoding="utf-8") as file:
            stats = json.load(file)
        self.assertIs(stats["speculation_active"], True)
        self.assertIs(stats["controller"]["active"], True)
        # When that ends is up to this machine's clock; tree_speculator_test holds it to costs.
        self.assertGreater(stats["controller"]["drafts_asked_per_round"], 0)

    def test_the_file_beside_the_model_is_found(self):
        model = os.path.join(self.folder.name, "some.gguf")
        os.symlink(DEMO, model)
        path = self.write(heads_bytes(self.fingerprint), "some.heads.gguf")
        result = specbound("run", "-m", model, "-p", "x", "-n", "4")
        self.assertIn(b"speculation on: auto with chained heads of " + path.encode(), result.stderr)
        with open(path, "r+b") as file:
            file.truncate(1000)
        result = specbound("run", "-m", model, "-p", "x", "-n", "4")
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"--spec off", result.stderr)
        result = specbound("run", "-m", model, "-p", "x", "-n", "4", "--spec", "off")
        self.assertEqual(result.returncode, 0, result.stderr)

    def check_refused(self, path, says, model=DEMO):
        raw = ("--raw",) if model == STORIES else ()
        for command in (("run", "-p", "x", "-n", "4", *raw), ("verify", "-p", "x", *raw)):
            result = specbound(*command, "-m", model, "--heads", path)
            self.assertEqual((result.returncode, result.stdout), (1, b""), (path, result.stderr))
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertIn(path.encode(), result.stderr)
            self.assertIn(says, result.stderr)

    def test_what_is_no_heads_file_for_this_model_is_refused_in_one_line(self):
        good = heads_bytes(self.fingerprint)
        self.check_refused(self.write(good), b"made for another model", model=STORIES)
        self.check_refused(self.write(heads_bytes("0123456789abcdef")),
                           b"expected fingerprint " + self.fingerprint.encode())
        for size in (0, 3, 24, 100, 1000, len(good) // 2, len(good) - 1):
            self.check_refused(self.write(good[:size]), b"")
        self.check_refused(self.write(heads_bytes(self.fingerprint, scale=float("nan"))),
                           b"expected finite values")
        self.check_refused(self.write(heads_bytes(self.fingerprint, tau=float("nan"))),
                           b"specbound.tau")
        self.check_refused(self.write(heads_bytes(self.fingerprint, check_layers=[3])),
                           b"specbound.check_layers")
        self.check_refused(self.write(heads_bytes(self.fingerprint, margin_scale=[float("inf")])),
                           b"specbound.margin_scale")
        self.check_refused(self.write(heads_bytes(self.fingerprint, kind="hybrid")),
                           b"found key 'specbound.kind' = 'hybrid' of a draft table")
        self.check_refused(self.write(heads_bytes(self.fingerprint, table_tau=0.8)),
                           b"found key 'specbound.table_tau' of a draft table")
        self.check_refused(DEMO, b"")
        self.check_refused(os.path.join(self.folder.name, "none"), b"")


if __name__ == "__main__":
    unittest.main()
