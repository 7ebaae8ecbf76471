#!/usr/bin/env python3
"""specbound tune and theory, from the outside: what they find, keep and say; exit codes; JSON.

The heads are the bundled model's where there are some; without them what needs heads is skipped."""
import json
import os
import signal
import tempfile
import time
import unittest

from specbound_process import DEMO, STORIES, specbound, start

HEADS = DEMO[:-len(".gguf")] + ".heads.gguf"
QUICK = ("-m", DEMO, "--heads", HEADS, "-t", "1", "--tokens", "300", "--replies", "4")
needs_heads = unittest.skipUnless(os.path.exists(HEADS), "SKIP: the bundled model has no heads")


class Cache(unittest.TestCase):
    """Each test has a cache folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {"XDG_CACHE_HOME": os.path.join(folder.name, "cache")}

    def run_json(self, *arguments):
        path = os.path.join(self.folder, "out.json")
        result = specbound(*arguments, "--json", path, environment=self.environment)
        self.said = result.stderr.decode()
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path, encoding="utf-8") as file:
            return result.stdout.decode(), json.load(file)

    def kept(self, what):
        """The one file of that kind; None: there is none."""
        files = [f for f in self.cached() if os.path.basename(f).startswith(what + "-")]
        if not files:
            return None
        self.assertEqual(len(files), 1)
        with open(files[0], encoding="utf-8") as file:
            return json.load(file)

    def check_odds(self, odds):
        """They are kept exactly where they are better."""
        self.assertGreater(odds["candidates"], 0)
        self.assertEqual(odds["better"], odds["held_out_log_loss"] < odds["shipped_log_loss"])
        kept = self.kept("odds")
        self.assertEqual(kept is not None, odds["better"])
        if kept:
            self.assertEqual(kept["held_out_loss"], odds["held_out_log_loss"])

    def cached(self):
        folder = os.path.join(self.environment["XDG_CACHE_HOME"], "specbound")
        if not os.path.isdir(folder):
            return []
        return [os.path.join(folder, name) for name in os.listdir(folder)]


@needs_heads
class Tune(Cache):
    def test_finds_keeps_and_measures_a_winner(self):
        text, data = self.run_json("tune", *QUICK)
        for part in ("costs: a plain token", "best trades", "winner: ", "measured on 4 replies",
                     "kept in "):
            self.assertIn(part, text)
        self.assertGreater(data["settings_replayed"], 500)
        self.assertGreaterEqual(data["tokens"], 200)
        winner = data["winner"]
        self.assertGreaterEqual(winner["predicted_speedup"], 1)
        self.assertEqual(winner["predicted_speedup"],
                         max([1] + [p["predicted_speedup"] for p in data["by_kind"]]))
        rates = [p["compression_rate"] for p in data["pareto"]]
        speeds = [p["predicted_speedup"] for p in data["pareto"]]
        self.assertEqual(rates, sorted(rates))
        self.assertEqual(speeds, sorted(speeds, reverse=True))
        # Replay makes the very rounds of the loop where the winner's alpha was recorded (unit
        # tests). The clock chooses the winner; between two alphas confidence is interpolated, and
        # a check near tau may go the other way.
        measured = data["measured"]
        self.assertGreater(measured["rounds"], 4)
        self.assertLessEqual(abs(measured["rounds"] - measured["predicted_rounds"]), 2)
        costs = data["costs"]
        self.assertEqual(costs["n_layers"], 16)
        for name in ("layer", "logits", "verify"):
            self.assertEqual(len(costs[name]), 16)
            self.assertGreater(min(costs[name]), 0)

        kept = self.kept("tuned")
        self.assertEqual(kept["settings"]["check_layers"], winner["check_layers"])
        self.assertEqual(kept["settings"]["w_max"], data["stored_w_max"])
        self.check_odds(data["odds"])

    def test_dry_run_keeps_nothing(self):
        text, data = self.run_json("tune", *QUICK, "--dry-run", "--temps", "0", "--replies", "0")
        self.assertNotIn("kept in", text)
        self.assertIsNone(data["measured"])
        self.assertEqual(self.cached(), [])

    def test_texts_from_a_file(self):
        path = os.path.join(self.folder, "chat.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for n in range(8):
                file.write(json.dumps([{"role": "user", "content": f"A table for {n}, please."},
                                       {"role": "assistant", "content": "For what time?"},
                                       {"role": "user", "content": "At 7 pm."},
                                       {"role": "assistant", "content": "It is booked."}]) + "\n")
            file.write("not JSON\n")
        _, data = self.run_json("tune", *QUICK, "--data", path, "--temps", "0", "--replies", "2")
        self.assertEqual(data["measured"]["replies"], 2)
        self.assertIn("data: skipped 1 of 9 lines; the first: ", self.said)

    def test_ctrl_c_ends_it_in_one_line(self):
        process = start("tune", "-m", DEMO, "--heads", HEADS, "-t", "1", "--tokens", "1000000",
                        env={**os.environ, **self.environment})
        process.stdin.close()
        line = b""
        while b"backend:" not in line:
            line = process.stderr.readline()
            self.assertTrue(line, "it ended before the backend was there")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().decode()
        self.assertEqual(process.wait(30), 1)
        process.stdout.close()
        process.stderr.close()
        self.assertRegex(rest, r"\Aspecbound tune: interrupted[^\n]*\n\Z")
        self.assertEqual(self.cached(), [])


class Odds(Cache):
    def test_a_model_without_heads_has_its_odds_fitted(self):
        text, data = self.run_json("tune", "-m", STORIES, "-t", "1", "--tokens", "1500")
        self.assertRegex(text, "odds of [0-9]+ candidates: log loss")
        self.assertNotIn("winner", text)
        self.assertNotIn("winner", data)
        self.check_odds(data["odds"])
        self.assertIsNone(self.kept("tuned"))
        # What is kept is read without a word.
        result = specbound("run", "-m", STORIES, "--raw", "-p", "Once", "-n", "4", "-t", "1",
                           environment=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(b"odds", result.stderr)


@needs_heads
class Theory(Cache):
    def test_ceilings_and_the_setting_in_use(self):
        text, data = self.run_json("theory", "-m", DEMO, "--heads", HEADS, "-t", "1", "--replies",
                                   "4", "--shipped")
        for part in ("ceilings", "formula, means", "cost model, the very rounds", "measured"):
            self.assertIn(part, text)
        for row in data["ceilings"]:
            speeds = [c["speedup"] for c in row["ceilings"]]
            self.assertEqual(speeds, sorted(speeds))  # more drafts right, more speed
            self.assertGreaterEqual(speeds[0], 1)
        setting = data["setting"]
        self.assertEqual(setting["replies"], 4)
        self.assertGreater(setting["measured"]["speedup"], 0)
        self.assertTrue(0 <= setting["acceptance"] <= 1)
        self.check_overlap(text, data["overlap"])
        found = {(d["drafter"], d["layer"], d["step"]) for d in data["overlap"]["drafters"]}
        heads = {("chained", 0, 1), ("folded", 4, None), ("folded", 8, None), ("folded", 12, None)}
        self.assertTrue(heads < found, found)
        self.assertEqual({drafter for drafter, _, _ in found}, {"chained", "folded"})
        self.assertIn("draft-verify", [d["drafter"] for d in data["overlap"]["not_measured"]])
        for part in ("chained at 0", "folded at 12", "lookups", "not measured: lookahead"):
            self.assertIn(part, text)

    def check_overlap(self, text, overlap):
        """No draft is right more often than the distributions share, but for chance."""
        self.assertIn("1 - TV", text)
        self.assertEqual({d["temperature"] for d in overlap["drafters"]},
                         {d["temperature"] for d in overlap["lookups"]})
        for d in overlap["drafters"]:
            self.assertTrue(1 <= d["tokens"] <= overlap["places"], d)
            for share in ("greedy", "drawn", "overlap", "overlap_at_temperature_1"):
                self.assertTrue(0 <= d[share] <= 1 + 1e-9, d)
            self.assertLessEqual(d["drawn"], d["overlap"] + 2 / d["tokens"] ** 0.5)
            if d["temperature"] == 0:
                self.assertEqual(d["drawn"], d["overlap"])
        for lookups in overlap["lookups"]:
            self.assertTrue(lookups["right"] <= lookups["found"] <= lookups["tokens"])
        self.assertIn("lookahead", [d["drafter"] for d in overlap["not_measured"]])

    def test_a_drafter_that_is_the_model_shares_all_with_it(self):
        text, data = self.run_json("theory", "-m", STORIES, "-md", STORIES, "-t", "1", "--replies",
                                   "2", "--temps", "0.7")
        self.assertIsNone(data["setting"])
        self.check_overlap(text, data["overlap"])
        by_name = {d["drafter"]: d for d in data["overlap"]["drafters"]}
        self.assertGreater(by_name["draft"]["tokens"], 50)
        for share in ("greedy", "drawn", "overlap", "overlap_at_temperature_1"):
            self.assertAlmostEqual(by_name["draft"][share], 1)
        # Without heads the logit lens says what layers have.
        self.assertEqual([d["layer"] for d in data["overlap"]["drafters"]
                          if d["drafter"] == "lens"], [1, 2, 3, 4])
        self.assertIn("draft-verify", by_name)
        self.assertLess(by_name["lens"]["overlap"], 1)


class Refusals(Cache):
    def refused(self, status, pattern, *arguments):
        result = specbound(*arguments, environment=self.environment)
        error = result.stderr.decode()
        self.assertEqual(result.returncode, status, error)
        self.assertRegex(error.splitlines()[-1], pattern)
        self.assertEqual(result.stdout, b"")

    def test_kinds_of_a_model_without_heads(self):
        self.refused(1, r"no exit heads for this model; specbound train-heads -m ", "tune", "-m",
                     STORIES, "--kind", "folded")

    def test_theory_of_a_model_without_heads_gives_the_ceilings(self):
        text, data = self.run_json("theory", "-m", STORIES, "-t", "1", "--replies", "0")
        self.assertIn("ceilings", text)
        self.assertIsNone(data["setting"])
        self.assertIsNone(data["offload"])  # no layers on a GPU
        self.assertIsNone(data["overlap"])
        self.assertNotIn("1 - TV", text)
        self.assertEqual(data["costs"]["n_layers"], 5)

    def test_usage(self):
        self.refused(2, r"--temps: expected", "tune", "--temps", "warm")
        for command in ("tune", "theory"):
            self.refused(2, r"--temps: temperature: expected 0 to 100, found 900", command,
                         "--temps", "0,900")
        self.refused(2, r"--kind: expected full, folded or chained", "tune", "--kind", "wide")
        self.refused(2, r"--tokens", "tune", "--tokens", "1")
        self.refused(2, r"--data", "tune", "--data", "")
        mine = os.path.join(self.folder, "chat.jsonl")
        with open(mine, "w", encoding="utf-8") as file:
            file.write("{}\n")
        for command in ("tune", "theory"):
            self.refused(2, "would be written over what is read", command, "--data", mine,
                         "--json", mine)
        with open(mine, encoding="utf-8") as file:
            self.assertEqual(file.read(), "{}\n")
        self.refused(1, r"/nowhere/at/all", "tune", "-m", DEMO, "--heads",
                     "/nowhere/at/all")
        self.refused(1, r"/nowhere/at", "theory", "--json", "/nowhere/at/all.json")
        self.refused(2, r"-md .*needs the vocabulary of .*vocab_size: expected 512, found 4096",
                     "theory", "-m", STORIES, "-md", DEMO)


if __name__ == "__main__":
    unittest.main()
