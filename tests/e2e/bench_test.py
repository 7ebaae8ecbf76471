#!/usr/bin/env python3
"""bench, from the outside: figures of tiny random models on the CPU and, where there is one, on the
program whose GPU is the SIMT executor; replays of traces and of published figures; llama-bench's
tests of models, and speculation against plain decoding; what it refuses.
"""
import csv
import io
import json
import os
import pathlib
import signal
import sys
import time
import unittest

import specbound_process
from run_test import built_for_speed
from specbound_process import DEMO, LENS, STORIES, TIMEOUT, FolderCase, specbound, start

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import bench_tables  # noqa: E402

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
        result = specbound("bench", *SMALL, *arguments, "--json", out)
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
            if not gpu:  # the executor's is no bandwidth
                self.assertLess(c["decode"]["share_of_read_bandwidth"], 1.1)
        tables = bench_tables.tables(found)
        for words in ("verify(M)", "a drafted row at context", "\nchained "):
            self.assertIn(words, tables)
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
        self.assertNotIn("drafted row", bench_tables.tables(found))
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
        trace = self.record("--controller", "off", "--speculator", "specbound")
        _, found = self.bench(*CPU, "-p", "4", "--replay", trace)
        self.assertEqual(found["settings"]["head"], "chained")
        self.assertEqual(found["replay"]["groups"][0]["check_layers"][0], 0)
        self.check_refused(*SMALL, *CPU, "--replay", trace, "--head", "folded",
                           says=("before layer 1", "chained"))

    def test_a_trace_of_trees(self):
        trace = self.record("--controller", "off", "--w-max", "8", "--head", "lens")
        self.check_refused(*SMALL, *CPU, "--replay", trace, status=1,
                           says=(trace, "line ", "found auto"))

    def test_hostile_traces(self):
        trace = self.record(*LENS, "--check-layers", "4,8", "--tau", "0.3")
        with open(trace, "rb") as file:
            whole = file.read()
        for name, content, says in (
                ("empty", b"", "found none"),
                ("cut", whole[:len(whole) // 2] + b"\n", "a JSON object"),
                ("other", b'{"a": 1}\n', "is this a trace?"),
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
                (("--replay-grid", "--head", "lens"), ("--head", "folded, chained or full")),
                (("--head", "folded"), ("--head", "replay")),
                (("--replay", "x", "--replay-grid"), ("leave out",)),
                (("--shape", "1x64x96x4x2x96", "--replay-grid"), ("2 layers",)),
                (("--json", "-"), ("expected a file",)),
                (("-o", "bench.json"), ("md, csv, json or jsonl", "--json"))):
            self.check_refused(*arguments, says=says)

    def test_figures_go_where_they_can_be_written(self):
        self.check_refused(*SMALL, *CPU, "--json", self.path("no/such.json"),
                           says=("such.json",), status=1)

    def test_without_a_gpu_it_says_why_and_what_to_do(self):
        result = specbound("bench", "--shape", "1b", "-c", "0", "-n", "1", "-r", "1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"no GPU to measure: ", result.stderr)
        self.assertIn(b"--device cpu", result.stderr)


class Models(FolderCase):
    """-m: llama-bench's tests."""

    TESTS = ("bench", "-m", STORIES, *CPU, "-p", "8,20", "-n", "4", "-r", "2")
    NAMES = ["pp8", "pp20", "tg4"]

    def run_bench(self, *arguments, status=0):
        result = specbound(*arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout.decode()

    def test_a_table_as_llama_bench_prints_it(self):
        text = self.run_bench(*self.TESTS, "-d", "0,16")
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")]
                for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(rows[0][:7],
                         ["model", "size", "params", "backend", "threads", "test", "t/s"])
        self.assertEqual([row[5] for row in rows[2:]],
                         self.NAMES + [name + " @ d16" for name in self.NAMES])
        for row in rows[2:]:
            self.assertEqual((row[0], row[3], row[4]), ("llama 5L F32", "CPU", "1"))
            self.assertRegex(row[1], r"^\d+\.\d\d MiB$")
            self.assertRegex(row[2], r"^0\.\d\d M$")
            self.assertRegex(row[6], r"^\d+\.\d\d ± \d+\.\d\d$")
            self.assertEqual(bool(row[7]), row[5].startswith("tg"))  # GB/s
        self.assertRegex(text, r"read bandwidth \d+\.\d GB/s")

    def check_records(self, records):
        self.assertEqual([r["test"] for r in records], self.NAMES)
        for record, tokens in zip(records, (8, 20, 4)):
            self.assertEqual(int(record["n_prompt"]) + int(record["n_gen"]), tokens)
            self.assertEqual(record["model_filename"], STORIES)
            self.assertGreater(float(record["avg_ts"]), 0)
            samples = record["samples_ns"]
            samples = json.loads(samples) if isinstance(samples, str) else samples
            self.assertEqual(len(samples), 2)  # the one that warmed up is not among them
            self.assertAlmostEqual(float(record["avg_ns"]), sum(samples) / 2, delta=1)
            self.assertAlmostEqual(float(record["stddev_ns"]), abs(samples[0] - samples[1]) / 2**.5,
                                   delta=1)

    def test_every_format_holds_the_same_records(self):
        text = self.run_bench(*self.TESTS, "-o", "csv")
        self.check_records(list(csv.DictReader(io.StringIO(text))))
        text = self.run_bench(*self.TESTS, "-o", "jsonl")
        self.check_records([json.loads(line) for line in text.splitlines()])
        out = self.path("bench.json")
        text = self.run_bench(*self.TESTS, "-o", "json", "--json", out)
        with open(out) as file:
            self.assertEqual(file.read(), text)
        found = json.loads(text)
        self.assertEqual(found["command"][0], "bench")
        self.assertIn("specbound", found)
        [model] = found["models"]
        self.assertEqual(model["hardware"].keys(), {"device", "cores"})
        self.assertGreater(model["read_bandwidth"]["median"], 0)
        self.check_records(model["results"])
        decoding = model["results"][2]
        self.assertAlmostEqual(decoding["share_of_read_bandwidth"],
                               decoding["bytes_per_second"] / model["read_bandwidth"]["median"])

    def test_more_than_one_model(self):
        text = self.run_bench("bench", "-m", STORIES, "-m", DEMO, *CPU, "-p", "0", "-n", "2",
                              "-r", "1", "-o", "jsonl")
        records = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([(r["model_filename"], r["test"]) for r in records],
                         [(STORIES, "tg2"), (DEMO, "tg2")])

    def test_a_model_has_a_place(self):
        text = self.run_bench("bench", STORIES, *CPU, "-p", "0", "-n", "2", "-r", "1", "-o",
                              "jsonl")
        self.assertEqual(json.loads(text)["model_filename"], STORIES)

    def test_ctrl_c_gives_the_tests_that_are_done(self):
        out = self.path("bench.json")
        for wait in (3, 10, 30):  # until the first one is
            with start("bench", STORIES, *CPU, "-p", "0", "-n", "1,65536", "-r", "1", "--json",
                       out) as process:
                time.sleep(wait)
                process.send_signal(signal.SIGINT)
                shown, said = (text.decode() for text in process.communicate(timeout=TIMEOUT))
                self.assertEqual(process.returncode, 1)
            if "interrupted after 1 of 2 tests" in said:
                break
            self.assertIn("interrupted", said)
            self.assertEqual(shown, "")
        self.assertRegex(shown, r"\| +tg1 ")
        self.assertNotIn("tg65536", shown)
        with open(out) as file:
            found = json.load(file)
        self.assertIs(found["complete"], False)
        self.assertEqual([r["test"] for r in found["models"][0]["results"]], ["tg1"])

    def test_a_stdout_that_takes_nothing_leaves_the_file(self):
        out = self.path("bench.json")
        for more in (("-p", "0", "-n", "2"), ("--compare", "spec", "-n", "2", "--raw")):
            with open("/dev/full", "wb") as full:
                result = specbound("bench", "-m", STORIES, *CPU, "-r", "1", *more, "--json", out,
                                   stdout=full)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"stdout: cannot write", result.stderr)
            with open(out) as file:
                self.assertEqual(len(json.load(file)["models"]), 1)
            os.remove(out)

    def test_what_the_environment_names_is_not_measured(self):
        model = {"SPECBOUND_MODEL": STORIES}
        small = specbound("bench", *SMALLER, *CPU, "-c", "0", "-n", "1", "-r", "1",
                          environment=model)
        self.assertEqual((small.returncode, small.stderr.count(b"SPECBOUND_MODEL")), (0, 0))
        # A shape of billions of weights is not waited for.
        refused = specbound("bench", "--json", self.path("none/bench.json"), environment=model)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"SPECBOUND_MODEL is not read", refused.stderr)

    def test_a_model_that_is_not_there_costs_no_measurement(self):
        for mode in ((), ("--compare", "spec")):
            result = specbound("bench", *mode, "-m", STORIES, "-m", self.path("none.gguf"), *CPU)
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            self.assertIn(b"none.gguf", result.stderr)
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)

    def test_what_cannot_be_measured(self):
        for arguments, status, says in (
                (("-m", self.path("none.gguf")), 1, "none.gguf"),
                (("-m", STORIES, *CPU, "-c", "10", "-p", "20"), 2, "need a context of"),
                (("-m", STORIES, "--tau", "0.5"), 2, "--compare spec"),
                (("-m", STORIES, "-p", "0", "-n", "0"), 2, "no test"),
                (("--tau", "0.5"), 2, "--compare spec"),
                (("-m", STORIES, "--shape", "1b"), 2, "leave out -m"),
                (("-m", ""), 2, "empty")):
            result = specbound("bench", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, b""), result.stderr)
            self.assertIn(says.encode(), result.stderr)
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)


class Compared(FolderCase):
    """--compare spec."""

    BOTH = ("bench", "--compare", "spec", *CPU, "-r", "2")

    def compare(self, *arguments, status=0):
        """The process and the JSON."""
        out = self.path("compared.json")
        result = specbound(*self.BOTH, *arguments, "--json", out)
        self.assertEqual(result.returncode, status, result.stderr)
        with open(out) as file:
            return result, json.load(file, parse_constant=self.fail)

    def prompts(self):
        path = self.path("prompts.jsonl")
        with open(path, "w") as file:
            file.write('{"prompt": "I need a table for two tonight.", "name": "a|b, \\"c\\""}\n'
                       '{"prompt": "again and again and again"}\n')
        return ("--prompts", path)

    def check_side(self, side, tokens):
        for rate in ("prefill_tokens_per_second", "decode_tokens_per_second", "tokens_per_second",
                     "ttft_seconds", "tpot_seconds", "total_seconds", "bytes_per_second"):
            self.assertGreater(side[rate], 0, rate)
        self.assertAlmostEqual(side["decode_tokens_per_second"], tokens / side["decode_seconds"])
        self.assertGreater(side["total_seconds"], side["decode_seconds"])
        self.assertEqual(set(side["phase_seconds"]),
                         {"draft", "check", "verify", "logits", "sample"})

    def check_record(self, record):
        tokens = record["tokens"]
        self.assertTrue(record["identical"])
        for name in ("speedup", "decode_speedup"):
            ratio = record[name]
            self.assertLessEqual(ratio["low"], ratio["high"])
            self.assertGreater(ratio["ratio"], 0)
        plain, drafted = record["plain"], record["speculative"]
        self.check_side(plain, tokens)
        self.check_side(drafted, tokens)
        # Drafting reads less for its tokens than the bytes that plain decoding reads.
        self.assertGreater(plain["share_of_read_bandwidth"], 0)
        self.assertIsNone(drafted["share_of_read_bandwidth"])
        self.assertEqual(plain["phase_seconds"]["check"], 0)
        self.assertEqual(len(drafted["acceptance_by_position"]),
                         len(drafted["drafted_by_position"]))
        self.assertEqual(sum(drafted["drafted_by_position"]), drafted["drafted_tokens"])
        for share, n in zip(drafted["acceptance_by_position"], drafted["drafted_by_position"]):
            self.assertTrue(n == 0 or 0 <= share <= 1)

    def test_the_bundled_model_with_its_heads(self):
        result, found = self.compare("-m", DEMO, *self.prompts(), "-n", "24", *LENS[2:])
        self.assertTrue(found["identical"])
        [model] = found["models"]
        self.assertEqual([p["prompt"] for p in model["prompts"]], ['a|b, "c"', "prompt 2"])
        for record in [*model["prompts"], model["overall"]]:
            self.check_record(record)
            self.assertGreater(record["speculative"]["drafted_tokens"], 0)
            self.assertGreater(record["speculative"]["compression_rate"], 1)
        overall = model["overall"]
        self.assertEqual(overall["prompts"], 2)
        self.assertEqual(overall["tokens"], sum(p["tokens"] for p in model["prompts"]))
        self.assertAlmostEqual(
            overall["speedup"]["ratio"],
            overall["plain"]["total_seconds"] / overall["speculative"]["total_seconds"])
        text = result.stdout.decode()
        for words in ("| a\\|b, ", "| prompt 2 ", "| all (95 %)", "slower than plain",
                      "identical: yes (2 prompts, each side 2 times)"):
            self.assertIn(words, text)
        tables = bench_tables.tables(found)
        for words in ("TTFT, ms", "TPOT, ms", "accepted by position: 1: ",
                      "time, speculative: draft "):
            self.assertIn(words, tables)

    def test_drafts_by_the_lens_of_a_model_without_heads_sampled(self):
        _, found = self.compare("-m", STORIES, "--raw", *self.prompts(), "-n", "12", "--temp",
                                "0.8", "--seed", "5", "--ignore-eos", *LENS)
        self.assertEqual(found["settings"]["seed"], 5)
        for record in found["models"][0]["prompts"]:
            self.check_record(record)
            self.assertEqual((record["tokens"], record["stop_reason"]), (12, "length"))

    def test_the_built_in_prompts_in_every_format(self):
        few = ("-m", STORIES, "--raw", "-n", "2", "-r", "1", *LENS)
        text = specbound(*self.BOTH, *few, "-o", "csv").stdout.decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        lines = specbound(*self.BOTH, *few, "-o", "jsonl").stdout.decode().splitlines()
        records = [json.loads(line) for line in lines]
        whole = json.loads(specbound(*self.BOTH, *few, "-o", "json").stdout)
        names = [p["prompt"] for p in whole["models"][0]["prompts"]]
        for name in ("booking", "prose", "code", "list", "chinese", "random bytes"):
            self.assertIn(name, names)
        self.assertEqual([r["prompt"] for r in rows], names + [""])
        self.assertEqual([r["prompt"] for r in records], names + [None])
        self.assertEqual([r["scope"] for r in records], ["prompt"] * len(names) + ["overall"])
        for row, record in zip(rows, records):
            self.assertEqual(row["tokens"], str(record["tokens"]))
            self.assertGreater(float(row["plain.tpot_seconds"] or 0) +
                               float(row["speculative.total_seconds"]), 0)

    def test_usage(self):
        lines = self.path("bad.jsonl")
        with open(lines, "w") as file:
            file.write('{"prompt": "x"}\n{"text": "y"}\n')
        for arguments, status, says in (
                (("--compare", "plain"), 2, "expected spec"),
                (("--compare", "spec", "-p", "8"), 2, "--prompts"),
                (("--compare", "spec", "-n", "1,2"), 2, "one number"),
                (("--compare", "spec", "--spec", "off"), 2, "plain side"),
                (("--compare", "spec", "-m", DEMO, "--speculator", "none"), 2, "--speculator none"),
                (("--compare", "spec", "--replay-grid"), 2, "leave out"),
                (("--compare", "spec", "--remember", "on"), 2, "own reply"),
                (("--compare", "spec", "--prompts", lines), 1, "prompt 2"),
                (("--compare", "spec", "--prompts", self.path("none")), 1, "none"),
                (("--compare", "spec", "-m", STORIES), 1, "--raw")):
            result = specbound("bench", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, b""),
                             (arguments, result.stderr))
            self.assertIn(says.encode(), result.stderr)


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
