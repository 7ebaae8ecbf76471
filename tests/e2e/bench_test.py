#!/usr/bin/env python3
"""bench, from the outside: figures of tiny random models on the CPU and, where there is one, on the
program whose GPU is the SIMT executor; replays of traces and of published figures; what it refuses.
"""
import json
import os
import unittest

import specbound_process
from run_test import built_for_speed
from specbound_process import DEMO, LENS, FolderCase, specbound

SMALL = ("--shape", "6x64x96x4x2x96", "--shortlist", "48", "-r", "1")
SMALLER = ("--shape", "3x64x96x4x2x96")
CPU = ("--device", "cpu", "-t", "1")
REPLAY = ("--rounds", "6", "-p", "4")
SIMT = os.environ.get("SPECBOUND_SIMT_BINARY")
WHOLE = built_for_speed()  # otherwise the executor is slow: less of the same


class BenchCase(FolderCase):
    def bench(self, *arguments):
        """The text and the JSON."""
        out = self.path("bench.json")
        result = specbound("bench", *SMALL, *arguments, "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(out) as file:
            return result.stdout.decode(), json.load(file, parse_constant=self.fail)

    def check_refused(self, *arguments, says, status=2):
        result = specbound("bench", *arguments)
        self.assertEqual(result.returncode, status, (arguments, result.stderr))
        self.assertEqual(result.stdout, b"")
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        for word in says:
            self.assertIn(word.encode(), result.stderr)

    def check_spread(self, spread):
        self.assertLess(0, spread["min"])
        self.assertLessEqual(spread["min"], spread["median"])
        self.assertLessEqual(spread["median"], spread["max"])

    def check_figures(self, text, found, contexts, gpu):
        self.check_spread(found["read_bandwidth"])
        self.assertEqual([c["context"] for c in found["contexts"]], contexts)
        for c in found["contexts"]:
            self.check_spread(c["decode"]["tokens_per_second"])
            self.check_spread(c["decode"]["bytes_per_second"])
            self.assertAlmostEqual(
                c["decode"]["share_of_read_bandwidth"],
                c["decode"]["bytes_per_second"]["median"] / found["read_bandwidth"]["median"])
            self.assertEqual([v["rows"] for v in c["verify"]], list(range(1, 17)))
            self.assertAlmostEqual(c["verify"][0]["relative"]["median"], 1)
            rows = [(1, [1]), (2, [2]), (2, [1, 2]), (4, [4]), (4, [2, 4])]
            self.assertEqual([(r["exit_layer"], r["check_layers"]) for r in c["drafted_rows"]],
                             [row for row in rows if row[0] < found["model"]["n_layers"]])
            for row in c["drafted_rows"]:
                self.check_spread(row["seconds"])
                self.assertAlmostEqual(row["layers_seconds"],
                                       row["exit_layer"] * c["layer"]["seconds"]["median"])
            self.assertIn(f"\ncontext {c['context']} ", text)
        self.assertEqual([(c["kind"], c["tokens"]) for c in found["checks"]],
                         [("folded", 96), ("chained", 48), ("full", 96)])
        if gpu:
            for figure in ("host_seconds", "graph_seconds", "layer_seconds"):
                self.check_spread(found["launches"][figure])
        else:
            self.assertIsNone(found["launches"])


class Cpu(BenchCase):
    def test_figures_of_both_types_of_weights(self):
        for dtype, bytes_a_weight in (("int8", 34 / 32), ("fp16", 2)):
            text, found = self.bench(*CPU, "--dtype", dtype, "-c", "20", "-n", "4")
            self.assertIn(f"random weights, {dtype}", text)
            self.assertEqual(found["model"]["dtype"], dtype)
            self.assertEqual(found["model"]["n_layers"], 6)
            self.check_figures(text, found, [0, 20], gpu=False)
            layer = found["contexts"][0]["layer"]
            weights = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96
            self.assertAlmostEqual(layer["bytes"], weights * bytes_a_weight + 2 * 4 * 64 + 128)

    def test_a_context_of_nothing_alone(self):
        _, found = self.bench(*CPU, "-c", "0", "-n", "1")
        self.check_figures("\ncontext 0 ", found, [0], gpu=False)

    def test_one_layer_has_nowhere_to_draft(self):
        _, found = self.bench(*CPU, "--shape", "1x64x96x4x2x96", "-c", "0", "-n", "2")
        self.assertEqual(found["contexts"][0]["drafted_rows"], [])
        self.assertEqual(found["checks"], [])

    def test_replay_from_figures_is_labelled_and_comes_out_as_asked(self):
        text, found = self.bench(*CPU, *REPLAY, "--replay-cr", "3.5", "--replay-exit", "3",
                                 "--checks", "2")
        replay = found["replay"]
        for label in (text, replay["label"]):
            self.assertIn("REPLAY, a prediction", label)
        self.assertNotIn("contexts", found)
        [group] = replay["groups"]
        [cell] = group["cells"]
        self.assertEqual(group["check_layers"], [2, 4])
        self.assertEqual((group["checks"], group["mean_exit"], group["rows"]), (2, 3, 8))
        self.assertAlmostEqual(cell["compression_rate"], 3.5, delta=0.2)
        self.assertAlmostEqual(cell["mean_exit_layer"], 3, delta=0.1)
        self.check_spread(cell["predicted_speedup"])
        self.check_spread(group["plain_tokens_per_second"])
        self.check_spread(group["break_even_compression_rate"])
        self.assertGreater(group["plain_share_of_read_bandwidth"], 0)

    def test_the_grid_has_the_papers_rates_and_every_combination(self):
        text, found = self.bench(*CPU, *REPLAY, "--replay-grid", "--replay-exit", "2,4",
                                 "--checks", "1,3", "--rounds", "2")
        groups = found["replay"]["groups"]
        self.assertEqual([(g["checks"], g["mean_exit"]) for g in groups],
                         [(1, 2), (1, 4), (3, 2), (3, 4)])
        for group in groups:
            self.assertEqual(
                [(c["task"], c["asked_compression_rate"]) for c in group["cells"]],
                [("Math", 3.78), ("Multi.", 3.05), ("QA", 4.23), ("RAG", 5.48), ("Sum.", 3.97),
                 ("Trans.", 6.41)])
        self.assertIn("Trans.", text)

    def test_every_kind_of_head_replays(self):
        for head in ("folded", "chained", "full"):
            _, found = self.bench(*CPU, *REPLAY, "--replay-cr", "2", "--head", head)
            self.assertEqual(found["settings"]["head"], head)

    def record(self, *arguments):
        trace = self.path("trace.jsonl")
        result = specbound("run", "-m", DEMO, "-p", "Hello there", "-n", "40", "--temp", "0",
                           "--trace", trace, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return trace

    def test_replay_of_a_trace(self):
        trace = self.record(*LENS, "--check-layers", "4,8", "--tau", "0.3", "--w-max", "5")
        with open(trace) as file:
            rounds = [line for line in map(json.loads, file)
                      if line["type"] == "round" and line["draft_end"] != "plain"]
        self.assertGreater(len(rounds), 2)
        _, found = self.bench(*CPU, "-p", "4", "--replay", trace)
        [group] = found["replay"]["groups"]
        [cell] = group["cells"]
        self.assertEqual(found["replay"]["trace"], trace)
        self.assertEqual(group["check_layers"], [2, 3])  # of 6 layers, from 4 and 8 of 16
        self.assertEqual((group["rows"], cell["rounds"]), (5, len(rounds)))
        tokens = sum(r["emitted"] for r in rounds)
        self.assertAlmostEqual(cell["compression_rate"], tokens / len(rounds), delta=0.02)

    def test_a_trace_of_the_shipped_heads(self):
        trace = self.record("--no-switch")
        _, found = self.bench(*CPU, "-p", "4", "--replay", trace)
        self.assertEqual(found["settings"]["head"], "chained")
        self.assertEqual(found["replay"]["groups"][0]["check_layers"][0], 0)
        self.check_refused(*SMALL, *CPU, "--replay", trace, "--head", "folded",
                           says=("before layer 1", "chained"))

    def test_hostile_traces(self):
        trace = self.record(*LENS, "--check-layers", "4,8", "--tau", "0.3")
        with open(trace, "rb") as file:
            whole = file.read()
        for name, content, says in (
                ("empty", b"", "found none"),
                ("cut", whole[:len(whole) // 2] + b"\n", "a JSON object"),
                ("other", b'{"a": 1}\n', "--trace"),
                ("binary", bytes(range(256)) * 20, "line 1"),
                ("deep", b"[" * 1000000, "line 1"),
                ("layers", whole.replace(b'"n_layers":16', b'"n_layers":99999999999999999999'),
                 "n_layers"),
                ("exits", whole.replace(b'"exit_layer":4', b'"exit_layer":15'), "layer 15"),
                ("negative", whole.replace(b'"w_max":', b'"w_max":-'), "w_max")):
            path = self.path(name)
            with open(path, "wb") as file:
                file.write(content)
            self.check_refused(*SMALL, *CPU, "--replay", path, says=(path, says), status=1)
        self.check_refused(*SMALL, "--replay", self.path("none"), says=("cannot open",), status=1)

    def test_usage(self):
        for arguments, says in (
                (("--shape", "8b"), ("--shape 8b", "13b", "LAYERSx")),
                (("--shape", "2x64x96x4x3x96"), ("K/V heads",)),
                (("--shape", ""), ("--shape", "expected")),
                (("--dtype", "q4"), ("--dtype", "int8 or fp16")),
                (("--device", "gpu"), ("--device", "cuda:N")),
                (("-c", "-1"), ("whole number",)),
                (("-r", "0"), ("whole number",)),
                (("--replay-cr", "9"), ("compression rate", "1 to 8")),
                (("--replay-cr", "3,,4"), ("--replay-cr", "commas")),
                (("--replay-cr", "1e999"), ("--replay-cr",)),
                (("--replay-cr", "3", "--replay-exit", "32"), ("mean exit", "1 to 31")),
                (("--replay-cr", "3", "--checks", "1.5"), ("--checks", "whole")),
                (("--checks", "2"), ("--replay-cr",)),
                (("--replay-grid", "--head", "table"), ("--head", "folded, chained or full")),
                (("--head", "folded"), ("--head", "replay")),
                (("--replay", "x", "--replay-grid"), ("leave out",)),
                (("--shape", "1x64x96x4x2x96", "--replay-grid"), ("2 layers",)),
                (("-o", "-"), ("expected a file",))):
            self.check_refused(*arguments, says=says)

    def test_figures_go_where_they_can_be_written(self):
        self.check_refused(*SMALL, *CPU, "-o", self.path("no/such.json"), says=("such.json",),
                           status=1)

    def test_without_a_gpu_it_says_why_and_what_to_do(self):
        result = specbound("bench", "--shape", "1b", "-c", "0", "-n", "1", "-r", "1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"no GPU to measure: ", result.stderr)
        self.assertIn(b"--device cpu", result.stderr)


@unittest.skipUnless(SIMT, "no specbound_simt: SPECBOUND_SIMT_BINARY names it")
class Executor(BenchCase):
    """Through the GPU engine, on the program whose GPU is the SIMT executor."""

    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, specbound_process, "BINARY", specbound_process.BINARY)
        specbound_process.BINARY = SIMT

    def test_figures(self):
        for dtype in ("int8", "fp16") if WHOLE else ("int8",):
            text, found = self.bench(*SMALLER, "--dtype", dtype, "-c", "8", "-n", "2")
            self.check_figures(text, found, [0, 8], gpu=True)
            self.assertIn("sm", found["hardware"])
            self.assertIn("driver", found["hardware"])

    def test_replay(self):
        for head in ("folded", "chained") if WHOLE else ("folded",):
            _, found = self.bench(*SMALLER, "--device", "cuda:0", "--rounds", "3", "-p", "2",
                                  "--head", head, "--replay-cr", "3", "--replay-exit", "2")
            [group] = found["replay"]["groups"]
            self.check_spread(group["cells"][0]["predicted_speedup"])

    def test_no_gpu_is_told_in_the_words_of_the_survey(self):
        for state, says in (("no-driver", "driver"), ("old-driver", "driver"), ("no-gpu", "GPU")):
            result = specbound("bench", environment={"SPECBOUND_SIMT_STATE": state})
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            self.assertEqual(result.stderr.count(b"\n"), 1)
            self.assertIn(says.encode(), result.stderr)

    def test_what_does_not_fit_is_told_before_anything_is_taken(self):
        self.check_refused("--shape", "13b", says=("GB",), status=1)
        self.check_refused("--device", "cuda:7", says=("7",))


if __name__ == "__main__":
    unittest.main()
