#!/usr/bin/env python3
"""The scripts that draw the benches' tables and figures, from numbers made up so that a hand can
follow them, and from the recorded results."""
import argparse
import json
import pathlib
import random
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as ElementTree

from specbound_process import BINARY, DEMO

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(SCRIPTS))
import bench  # noqa: E402
import bench_tables  # noqa: E402
import plots  # noqa: E402
import skip_layers  # noqa: E402
import spec_bench_real  # noqa: E402
import spec_bench_sweep  # noqa: E402


def score(speedup, rate=2.0):
    return dict(questions=1, compression_rate=rate, speedup=speedup,
                speedup_interval_95=[0.8, 2.0], token_exact_speedup=1.14, decode_speedup=1.19,
                decode_speedup_interval_95=[0.75, 2.67])


def result(name, math, overall, speedups=(0.8, 2.0)):
    served = dict(ttft_seconds=0.4, tpot_seconds=0.1, tokens_per_second=10.0,
                  end_to_end_seconds=1.5)
    return dict(name=name, tasks={"math": score(math)}, overall=score(overall, 5.71), plain=served,
                drafted={**served, "tokens_per_second": 17.0}, speedups=list(speedups))


class Tables(unittest.TestCase):
    def test_quantiles_and_the_papers_five_buckets(self):
        values = [1, 2, 3, 4, 6]
        self.assertEqual([bench_tables.quantile(values, q) for q in (0, 0.25, 0.5, 0.875, 1)],
                         [1, 2, 3, 5, 6])
        self.assertEqual(bench_tables.quantile([], 0.5), 0)
        found = bench_tables.buckets(values)
        self.assertEqual(found, [[i, i + 1, 1] for i in range(1, 6)])
        self.assertEqual(sum(n for _, _, n in bench_tables.buckets([1.5] * 3)), 3)
        self.assertEqual(bench_tables.buckets([]), [])

    def test_the_papers_tables(self):
        one = dict(strategies=[dict(name="as asked for", results=[result("specbound", 2, 1.7)])])
        text = bench_tables.tables(one)
        for part in ("multi-turn", " 2.00   2.00x", "5.71   1.70x", "[0.800, 2.000]", "1.14x",
                     "1.19x", "     -", "TTFT, ms", "TPOT, ms", "10.00", "17.00", "1.70x",
                     "min 0.80", "median 1.40", "max 2.00",
                     "slower than plain decoding: 1 (50.00 %)",
                     " 1.76x -  2.00x      1   50.00 %"):
            self.assertIn(part, text)
        more = dict(strategies=one["strategies"] + [dict(name="T 1.0",
                                                         results=[result("specbound", 2, 1.5)])])
        text = bench_tables.tables(more)
        for part in ("Table 2: SD of specbound", "as asked for", "T 1.0", "1.50x"):
            self.assertIn(part, text)

    def test_who_is_faster_than_the_first_is_said_by_task(self):
        results = [result("specbound", 1.5, 1.4), result("ngram", 1.6, 1.3),
                   result("hybrid", 1.7, 1.4)]
        self.assertEqual(bench_tables.faster_than_first(results),
                         ["faster than specbound (1.50x) on math: ngram 1.60x, hybrid 1.70x"])
        self.assertEqual(bench_tables.faster_than_first([results[2], results[0]]),
                         ["nothing is faster than hybrid on any task"])
        self.assertEqual(bench_tables.faster_than_first(results[:1]), [])

    def test_recorded_results(self):
        recorded = json.loads((SCRIPTS / "results" / "spec_bench.json").read_text())
        text = bench_tables.tables(recorded)
        self.assertEqual(text.count("Table 1"), len(recorded["results"]))
        # What the recorded quantiles say.
        told = recorded["results"][0]["compared"]["strategies"][0]["results"][0]
        for q, value in told["speedup_quantiles"].items():
            self.assertAlmostEqual(bench_tables.quantile(told["speedups"], float(q)), value,
                                   places=3)
        self.assertEqual([n for _, _, n in bench_tables.buckets(told["speedups"])],
                         [bucket["questions"] for bucket in told["speedup_buckets"]])
        with self.assertRaises(ValueError):
            bench_tables.tables({"results": {}})


class Sweep(unittest.TestCase):
    SETTING = dict(tau=0.35, alpha=0.2, d_max=8, w_max=5, head_layers=[4, 8, 12])

    def test_one_setting_moves_at_a_time(self):
        points = spec_bench_sweep.sweep_points(self.SETTING)
        names = " ".join(name for _, _, name, _ in points) + " "
        for part in ("tau-0.3 tau-0.35 tau-0.4 ", "alpha-0 alpha-0.1 alpha-0.2 alpha-0.4",
                     "d_max-4 d_max-8 d_max-12 ", "w_max-4 w_max-5 w_max-6 ",
                     "setting no-annealing anneal-learned no-depth-bound no-width-bound "):
            self.assertIn(part, names)
        self.assertEqual(names.count("alpha-0.2 "), 1)  # the setting's is one of the list
        for parameter, _, _, flags in points:
            self.assertTrue(flags.endswith("--controller off"))
            self.assertEqual("--check-layers all" in flags,
                             parameter == "d_max" or "--no-depth-bound" in flags)
        # A head before any layer is looked at whatever the bound, which is a layer.
        for layers in ([0, 4], [0, 1, 4]):
            self.assertEqual(spec_bench_sweep.depths(layers), [1, 4])
        self.assertEqual(len(spec_bench_sweep.depths(list(range(1, 33)))), 8)
        with self.assertRaises(SystemExit):
            spec_bench_sweep.sweep_points({**self.SETTING, "head_layers": []})

    def test_figures(self):
        points = spec_bench_sweep.sweep_points(self.SETTING)
        results = [dict(name=name, overall=score(1 + 0.01 * i))
                   for i, (_, _, name, _) in enumerate(points)]
        figures = spec_bench_sweep.sweep_figures(points, results)
        self.assertEqual(len(figures["figure_3"]["d_max"]), 3)
        self.assertEqual(figures["figure_3"]["tau"][0]["value"], 0.1)
        self.assertEqual(len(figures["figure_4"]), 5)
        table = spec_bench_sweep.sweep_table(figures)
        self.assertIn("tau 0.35", table)
        self.assertIn("no width bound", table)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            spec_bench_sweep.write_svgs(figures, folder)
            files = sorted(path.name for path in folder.iterdir())
            self.assertEqual(files, ["figure3-alpha.svg", "figure3-d_max.svg", "figure3-tau.svg",
                                     "figure3-w_max.svg", "figure4.svg"])
            for path in folder.iterdir():
                self.assertNotIn("nan", path.read_text())
                ElementTree.parse(path)
            # SD and CR of three depths; a bar each.
            self.assertEqual((folder / "figure3-d_max.svg").read_text().count("<circle"), 2 * 3)
            self.assertEqual((folder / "figure4.svg").read_text().count("<rect"), 5)


class SkippedLayers(unittest.TestCase):
    def test_ranges_are_spelled_as_the_flag_has_them(self):
        self.assertEqual(skip_layers.spelled({9, 3, 4, 5, 7}), "3-5,7,9")
        self.assertEqual(skip_layers.spelled(set()), "")

    def test_tokens_for_the_time_of_one(self):
        # 3 tokens for a pass of 1.1 and two drafts through 6 of 8 layers.
        self.assertAlmostEqual(skip_layers.value(3, 2, {3, 5}, 8, 1.1), 3 / 2.6)

    def test_sets_are_measured_by_the_program(self):
        flags = argparse.Namespace(specbound=BINARY, model=DEMO, questions=1, n=4, rows=4)
        (tokens, drafts), = skip_layers.rounds_of(flags, [frozenset({3, 5})])
        self.assertGreaterEqual(tokens, 1)
        self.assertGreaterEqual(drafts, 0)

    def test_the_search_finds_a_set_that_is_best(self):
        best = {2, 3, 6, 7, 8}
        seen = []

        def evaluate(candidates):
            seen.extend(candidates)
            for layers in candidates:
                self.assertLessEqual(layers, set(range(2, 12)))
            return [-len(best ^ layers) for layers in candidates]

        found, score = skip_layers.search(evaluate, 12, 30, 8, random.Random(1),
                                          lambda *said: None)
        self.assertEqual((set(found), score), (best, 0))
        self.assertEqual(len(seen), len(set(seen)))  # none is asked about twice


class RealModels(unittest.TestCase):
    """spec_bench_real.py over a program that writes made-up answers."""

    def setUp(self):
        self.asked, self.status = [], 0
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.questions = self.folder / "question.jsonl"
        self.questions.write_text("".join(json.dumps(dict(question_id=i)) + "\n"
                                          for i in range(4)))
        self.flags = argparse.Namespace(
            specbound="specbound", drafters=["auto"], heads=[self.folder / "a.heads.gguf"],
            draft_model=None, n=8, ctx=64, file=self.questions, recheck=3)
        self.model = self.folder / "m.gguf"
        self.model.write_bytes(b"")

    def run_program(self, command, **_):
        words = [str(word) for word in command]
        value = {flag: words[words.index(flag) + 1] for flag in
                 ("-f", "--limit", "--repeats", "--compare", "--setting", "--out", "--json")}
        ids = [json.loads(line)["question_id"]
               for line in pathlib.Path(value["-f"]).read_text().splitlines()]
        self.asked.append((ids, value))
        pathlib.Path(value["--json"]).write_text("{}")
        out = pathlib.Path(value["--out"])
        out.mkdir()
        # Question 1 loses by auto once, 2 whenever it is asked; both heads gain.
        slower = {1: 2.0 if value["--repeats"] == "1" else 0.5, 2: 2.0}
        for name in ("plain", "auto", "a"):
            seconds = [slower.get(i, 0.5) if name == "auto" else 0.5 if name == "a" else 1
                       for i in ids]
            (out / f"{name}.jsonl").write_text("".join(json.dumps(dict(
                question_id=i, choices=[dict(new_tokens=[8, 40], wall_time=[s, s])])) + "\n"
                for i, s in zip(ids, seconds)))
        return argparse.Namespace(returncode=self.status)

    def test_a_text_that_differs_is_reported_and_no_report_is_an_end(self):
        for self.status in (0, 1):
            with unittest.mock.patch("bench.subprocess.run", self.run_program):
                _, answers = spec_bench_real.ask(self.flags, self.model, 2, 0, self.questions, 4, 1)
            self.assertEqual(len(answers["auto"]), 4)
        self.status = 2
        with (unittest.mock.patch("bench.subprocess.run", self.run_program),
              self.assertRaises(SystemExit)):
            spec_bench_real.ask(self.flags, self.model, 2, 0, self.questions, 4, 1)

    def test_what_loses_is_asked_again(self):
        with unittest.mock.patch("bench.subprocess.run", self.run_program):
            _, answers = spec_bench_real.ask(self.flags, self.model, 2, 0, self.questions, 4, 1)
            again = spec_bench_real.recheck(self.flags, self.model, 2, 0, answers)
        self.assertEqual([ids for ids, _ in self.asked], [[0, 1, 2, 3], [1, 2]])
        for _, value in self.asked:
            self.assertEqual(value["--setting"],
                             f'a: --speculator auto --heads "{self.flags.heads[0]}"')
        self.assertEqual([value["--repeats"] for _, value in self.asked], ["1", "3"])
        self.assertEqual(again, {"auto": dict(lost=2, lost_again=1),
                                 "a": dict(lost=0, lost_again=0)})
        self.assertEqual(spec_bench_real.speedups(answers, "auto"), {0: 2, 1: 0.5, 2: 0.5, 3: 2})
        self.assertEqual(spec_bench_real.short_replies(answers, "auto"),
                         dict(replies=4, speedup=0.8))


class Revision(unittest.TestCase):
    def test_without_git_there_is_none(self):
        with (tempfile.TemporaryDirectory() as empty,
              unittest.mock.patch.dict("os.environ", PATH=empty)):
            self.assertEqual(bench.commit(), "none")


class Plots(unittest.TestCase):
    def test_bars_carry_their_names_whatever_is_in_them(self):
        svg = plots.bar_plot("<speed>", [("a & b", 1.25), ("zero", 0)])
        for part in ("&lt;speed&gt;", "a &amp; b", ">1.25</text>", ">zero</text>"):
            self.assertIn(part, svg)
        self.assertEqual(svg.count("<rect"), 2)
        for few in (plots.bar_plot("empty", []), plots.line_plot("x", "y", {"a": []}),
                    plots.line_plot("x", "y", {"a": [(1, 2)]})):
            self.assertNotIn("nan", few)
            ElementTree.fromstring(few)


if __name__ == "__main__":
    unittest.main(verbosity=2)
