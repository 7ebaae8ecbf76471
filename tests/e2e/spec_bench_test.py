#!/usr/bin/env python3
"""specbound spec-bench, from the outside: answer files as Spec-Bench's own scripts read them, the
printed tables against its formula, options, resuming, refusals."""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

import specbound_process
from specbound_process import DEMO, LENS, STORIES, FolderCase, specbound, start

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(SCRIPTS))
import bench_tables  # noqa: E402

QUESTIONS = [
    {"question_id": 81, "category": "writing", "turns": ["Once upon a time", "And then?"],
     "reference": ["unused"]},
    {"question_id": 161, "category": "translation", "turns": ["Lily saw a big dog."]},
    {"question_id": 241, "category": "summarization", "turns": ["Tim had a red ball. " * 60]},
    {"question_id": 321, "category": "qa", "turns": ["Who has a ball?"]},
    {"question_id": 401, "category": "math_reasoning", "turns": ["one two three one two"]},
    {"question_id": 481, "category": "rag", "turns": ["The cat sat. The cat sat. The cat"]},
]
# The tiny model knows no chats; any template does.
MODEL = ("-m", STORIES, "--chat-template", "vicuna", "-t", "1", "-c", "256")
TASKS = {"writing": "multi-turn", "math_reasoning": "math"}


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def speed_py(answers, baseline):
    """Speed-up and mean accepted tokens as evaluation/speed.py of Spec-Bench computes them, with
    the baseline's tokens as they were counted, not from its text."""
    def rates(lines):
        return [sum(line["choices"][0]["new_tokens"]) / sum(line["choices"][0]["wall_time"])
                for line in lines]

    accepted = [n for line in answers for n in line["choices"][0]["accept_lengths"]]
    return (statistics.mean(rates(answers)) / statistics.mean(rates(baseline)),
            statistics.mean(accepted))


class SpecBench(FolderCase):
    def setUp(self):
        super().setUp()
        self.questions = self.path("question.jsonl")
        self.write_questions(QUESTIONS)
        self.out = self.path("answers")

    def write_questions(self, questions):
        with open(self.questions, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(question) + "\n" for question in questions)

    def bench(self, *arguments, n=12):
        json_path = self.path("result.json")
        result = specbound("spec-bench", *MODEL, "-f", self.questions, "-n", str(n), "--json",
                           json_path, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(json_path, encoding="utf-8") as file:
            return result.stdout.decode(), json.load(file)

    def answers(self, name):
        return read_lines(os.path.join(self.out, name + ".jsonl"))

    def test_answers_and_tables(self):
        text, data = self.bench(*LENS, "--tau", "0.1", "--out", self.out)
        plain, drafted = self.answers("plain"), self.answers("specbound")
        ids = [question["question_id"] for question in QUESTIONS]
        for lines, model_id in ((plain, "plain"), (drafted, "specbound")):
            self.assertEqual([line["question_id"] for line in lines], ids)
            self.assertEqual(len({line["answer_id"] for line in lines}), len(lines))
            for line, question in zip(lines, QUESTIONS):
                self.assertEqual(line["category"], question["category"])
                self.assertEqual(line["model_id"], "stories260K-" + model_id)
                self.assertGreater(line["tstamp"], 1.6e9)
                self.assertEqual(len(line["choices"]), 1)
                choice = line["choices"][0]
                self.assertEqual(choice["index"], 0)
                for key in ("turns", "decoding_steps", "new_tokens", "wall_time"):
                    self.assertEqual(len(choice[key]), len(question["turns"]), key)
                self.assertEqual(len(choice["accept_lengths"]), sum(choice["decoding_steps"]))
                self.assertEqual(sum(choice["accept_lengths"]), sum(choice["new_tokens"]))
                self.assertLessEqual(max(choice["new_tokens"]), 12)
        # The same texts and tokens on both sides, counted the same way; plain steps give one each.
        for a, b in zip(plain, drafted):
            a, b = a["choices"][0], b["choices"][0]
            self.assertEqual(a["turns"], b["turns"])
            self.assertEqual(a["new_tokens"], b["new_tokens"])
            self.assertEqual(set(a["accept_lengths"]), {1})
        self.assertGreater(max(max(b["choices"][0]["accept_lengths"]) for b in drafted), 1)

        # The printed figures are those that Spec-Bench's script makes of the files.
        speedup, rate = speed_py(drafted, plain)
        [result] = data["strategies"][0]["results"]
        self.assertAlmostEqual(result["overall"]["speedup"], speedup, places=9)
        self.assertAlmostEqual(result["overall"]["compression_rate"], rate, places=9)
        self.assertRegex(text, rf"\| specbound .* {rate:.2f} \| +{speedup:.2f}x \| ")
        tables = bench_tables.tables(data)
        self.assertRegex(tables, rf"specbound .* {rate:.2f}   {speedup:.2f}x  \[")
        for question in QUESTIONS:
            category = question["category"]
            own = [[line for line in lines if line["category"] == category]
                   for lines in (drafted, plain)]
            task = result["tasks"][TASKS.get(category, category)]
            self.assertAlmostEqual(task["speedup"], speed_py(*own)[0], places=9)
        for part in ("Table 1", "Table 3", "TTFT", "Table 5", "median", "speed.py"):
            self.assertIn(part, tables)
        for part in ("multi-turn", "speed.py", "every text is identical"):
            self.assertIn(part, text)
        self.assertTrue(data["identical"])
        self.assertEqual((data["questions"], data["turns"]), (6, 7))
        # The long question lost its middle, which is counted and said.
        cut = plain[2]["choices"][0]
        self.assertEqual(cut["prompt_tokens"][0], data["n_ctx"] - 12)
        self.assertEqual(data["cut_tokens"], sum(sum(line["choices"][0]["cut_tokens"])
                                                 for line in plain))
        self.assertEqual(data["cut_prompts"], 1)
        self.assertIn(f"{cut['cut_tokens'][0]} tokens were cut out of their middle", text)

    def test_the_second_turn_knows_the_first(self):
        self.write_questions(QUESTIONS[:1])
        self.bench(*LENS, "--out", self.out)
        [line] = self.answers("plain")
        first, second = line["choices"][0]["prompt_tokens"]
        self.assertGreater(second, first + line["choices"][0]["new_tokens"][0])

    def test_resumes(self):
        arguments = (*LENS, "--out", self.out)
        self.bench(*arguments, "--limit", "3")
        before = self.answers("specbound")
        self.assertEqual(len(before), 3)
        path = os.path.join(self.out, "specbound.jsonl")
        with open(path, "rb+") as file:  # killed in the middle of a line
            file.truncate(os.path.getsize(path) - 20)
        self.bench(*arguments)
        after = {line["question_id"]: line for line in self.answers("specbound")}
        self.assertEqual(len(after), 6)
        for line in before[:2]:
            self.assertEqual(after[line["question_id"]], line)
        self.assertNotEqual(after[before[2]["question_id"]]["tstamp"], before[2]["tstamp"])
        # What is all there is only shown again.
        files = [self.answers(name) for name in ("plain", "specbound")]
        self.bench(*arguments)
        self.assertEqual([self.answers(name) for name in ("plain", "specbound")], files)
        # Other settings do not mix; --fresh begins anew.
        other = ("spec-bench", *MODEL, "-f", self.questions, "-n", "13", *arguments)
        result = specbound(*other)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr.decode().splitlines()[-1],
                         r"plain\.jsonl, line 1: .*up to 13 tokens.*up to 12 tokens.*--fresh")
        self.assertEqual([self.answers(name) for name in ("plain", "specbound")], files)
        self.assertEqual(specbound(*other, "--fresh").returncode, 0)
        result = specbound(*other, "--remember", "on")  # whatever else is the same
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertNotEqual(self.answers("plain"), files[0])

    def test_the_fastest_of_repeats_counts(self):
        _, data = self.bench(*LENS, "--tau", "0.1", "--out", self.out, "--repeats", "3")
        self.assertEqual(data["repeats"], 3)
        self.assertTrue(data["identical"])
        lines = self.answers("specbound")
        self.assertEqual([len(line["choices"][0]["turns"]) for line in lines],
                         [len(question["turns"]) for question in QUESTIONS])
        self.assertTrue(all("the fastest of 3" in line["settings"] for line in lines))
        # Other settings: nothing that one reply each gave stands for it, or the other way round.
        refused = specbound("spec-bench", *MODEL, "-f", self.questions, "-n", "12", *LENS, "--tau",
                            "0.1", "--out", self.out)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"the fastest of 3", refused.stderr)

    def test_a_stdout_that_takes_nothing_leaves_the_file(self):
        path = self.path("figures.json")
        with open("/dev/full", "wb") as full:
            result = specbound("spec-bench", *MODEL, *LENS, "-f", self.questions, "-n", "4",
                               "--limit", "1", "--json", path, stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"stdout: cannot write", result.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["strategies"]), 1)

    def test_an_interrupt_keeps_what_is_done(self):
        many = [{"question_id": n, "category": "qa", "turns": [f"Story {n}"]} for n in range(2000)]
        self.write_questions(many)
        arguments = ("spec-bench", *MODEL, *LENS, "-f", self.questions, "-n", "16", "--out",
                     self.out)
        process = start(*arguments)
        process.stdin.close()
        path = os.path.join(self.out, "specbound.jsonl")
        while not (os.path.exists(path) and os.path.getsize(path) > 1000):
            self.assertIsNone(process.poll(), "it ended before it was interrupted")
        process.send_signal(signal.SIGINT)
        error = process.stderr.read().decode().splitlines()[-1]
        self.assertEqual(process.wait(30), 1)
        process.stdout.close()
        process.stderr.close()
        self.assertRegex(error, r"^specbound spec-bench: interrupted: \d+ of 2000 questions are "
                                r"answered, the same command goes on from there$")
        kept = self.answers("specbound")
        self.assertGreater(len(kept), 0)
        with open(path, "rb") as file:
            self.assertTrue(file.read().endswith(b"\n"))
        self.write_questions(many[:len(kept)])
        specbound(*arguments)
        self.assertEqual(self.answers("specbound")[:len(kept) - 1], kept[:-1])

    def test_compare(self):
        text, data = self.bench(*LENS, "--compare", "specbound,ngram,plain", "--setting",
                                "eager: --tau 0.05 --w-max 4", "--out", self.out, "--limit", "3")
        names = [r["name"] for r in data["strategies"][0]["results"]]
        self.assertEqual(names, ["specbound", "ngram", "eager"])
        self.assertEqual(sorted(os.listdir(self.out)),
                         ["eager.jsonl", "ngram.jsonl", "plain.jsonl", "specbound.jsonl"])
        self.assertEqual(set(data["parameters"]), set(names))
        self.assertEqual(data["parameters"]["eager"]["w_max"], 4)
        self.assertRegex(bench_tables.tables(data),
                         r"(?m)^(faster than specbound \(|nothing is faster than specbound)")
        self.assertLessEqual(max(max(line["choices"][0]["accept_lengths"])
                                 for line in self.answers("eager")), 4)
        self.assertEqual(set(data["drafters"]), set(names))

    def test_compare_all_runs_every_drafter_that_it_can(self):
        text, data = self.bench(*LENS, "--compare", "all", "--limit", "1", n=6)
        names = [r["name"] for r in data["strategies"][0]["results"]]
        for name in ("auto", "specbound", "paper", "ngram", "layerskip", "adadecode",
                     "draft-verify", "lookahead"):
            self.assertIn(name, names)
        self.assertNotIn("draft", names)  # which needs a model
        self.assertIn("every text is identical", text)
        result = specbound("spec-bench", *MODEL, "-f", self.questions, "--compare", "draft")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--model-draft", result.stderr.decode().splitlines()[-1])

    def test_texts_by_rejection_are_said_to_be_others(self):
        drafting = ("--speculator", "draft", "-md", STORIES, "--accept", "rejection", "--tau", "0",
                    "--controller", "off", "--limit", "2")
        text, data = self.bench(*drafting, "--temp", "1")
        self.assertFalse(data["identical"])
        self.assertGreater(data["texts_by_other_rules"], 0)
        self.assertEqual(data["strategies"][0]["results"][0]["differing"], [])
        self.assertIn("texts are others: --accept took drafts by another rule", text)
        self.assertIn("every other text is identical", text)
        text, data = self.bench(*drafting)  # greedy
        self.assertTrue(data["identical"])
        self.assertIn("every text is identical", text)

    def test_sampling_table(self):
        text, data = self.bench(*LENS, "--sampling-table", "--limit", "2", "--out", self.out)
        self.assertEqual([s["name"] for s in data["strategies"]],
                         ["greedy", "T 0.3", "T 1.0", "top-p 0.9"])
        self.assertEqual([(s["temperature"], s["top_p"]) for s in data["strategies"]],
                         [(0, 1), (0.3, 1), (1, 1), (1, 0.9)])
        self.assertEqual(len(os.listdir(self.out)), 8)
        alone = self.bench(*LENS, "--limit", "2", "--out", self.path("alone"))[1]
        self.assertEqual(data["turns"], alone["turns"])
        for part in ("greedy", "T 0.3", "T 1.0", "top-p 0.9"):
            self.assertIn(part, text)
            self.assertIn(part, bench_tables.tables(data))
        self.assertIn("Table 2", bench_tables.tables(data))
        texts = [self.answers(name)[0]["choices"][0]["turns"]
                 for name in ("plain", "t1.0-plain", "t1.0-specbound")]
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(texts[1], texts[2])

    def sweep(self, *flags, status=0):
        """The table and the JSON of the script that moves one setting at a time."""
        path = self.path("sweep.json")
        done = subprocess.run(
            [sys.executable, "-B", SCRIPTS / "spec_bench_sweep.py", "--specbound",
             specbound_process.BINARY, "--out", self.out, "--json", path, "--", "-f",
             self.questions, "--limit", "1", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        self.assertEqual(done.returncode, status, done.stderr)
        if status != 0:
            return done.stderr.decode(), None
        with open(path, encoding="utf-8") as file:
            return done.stdout.decode(), json.load(file)

    def test_sweep(self):
        text, data = self.sweep(*MODEL, "-n", "6", "--head", "lens")
        sweep = data["sweep"]
        self.assertEqual(list(sweep["figure_3"]), ["tau", "alpha", "d_max", "w_max"])
        self.assertEqual([p["value"] for p in sweep["figure_3"]["d_max"]], [1, 2, 3, 4])
        self.assertEqual([b["variant"] for b in sweep["figure_4"]],
                         ["all", "no annealing", "annealing learned", "no depth bound",
                          "no width bound"])
        self.assertIn("Figures 3 and 4", text)
        for name in ("figure3-tau", "figure3-alpha", "figure3-d_max", "figure3-w_max", "figure4"):
            root = ElementTree.parse(os.path.join(self.out, name + ".svg")).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(len(self.answers("tau-0.5")), 1)
        rates = [p["compression_rate"] for p in sweep["figure_3"]["w_max"]]
        self.assertGreaterEqual(rates[-1], rates[0])  # wider never gives fewer tokens a round
        # Each moves one thing.
        moved = data["parameters"]
        self.assertEqual(moved["tau-0.5"], {**moved["setting"], "tau": 0.5})
        self.assertEqual(moved["w_max-4"], {**moved["setting"], "w_max": 4})

    def test_sweep_of_a_head_before_any_layer(self):  # what the bundled heads draft by
        text, data = self.sweep("-m", DEMO, "-n", "4", "-t", "1")
        self.assertIn("\nd_max 1 ", text)
        self.assertTrue(data["identical"])

    def test_sweep_needs_settings_that_move(self):
        error, _ = self.sweep(*MODEL, "-n", "4", "--speculator", "ngram", status=1)
        self.assertIn("exit heads, whose settings can move", error)

    def refused(self, status, pattern, *arguments):
        result = specbound("spec-bench", *MODEL, *arguments)
        error = result.stderr.decode()
        self.assertEqual(result.returncode, status, error)
        self.assertRegex(error.splitlines()[-1], pattern)
        self.assertEqual(result.stdout, b"")

    def test_what_remembers_is_not_repeated(self):
        for flags in (["--remember", "on"], ["--setting", "own: --speculator auto --remember on"]):
            result = specbound("spec-bench", *MODEL, "-f", self.questions, "--repeats", "2", *flags)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"--repeats: a drafter with --remember on", result.stderr)
            result = specbound("spec-bench", *MODEL, "-f", self.questions, "--sampling-table",
                               *flags)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"--sampling-table: a drafter with --remember on", result.stderr)

    def test_refusals(self):
        asked = ("-f", self.questions)
        self.refused(2, r"expected -f FILE")
        self.refused(1, r"no-such", "-f", self.path("no-such.jsonl"))
        self.refused(2, r"--compare: expected all, or a list of .*\"fast\"", *asked, "--compare",
                     "fast")
        self.refused(2, r"--setting x: ", *asked, "--setting", "x: --tua 1")
        self.refused(1, r"no-such\.gguf", *asked, "--setting", "x: -md no-such.gguf")
        self.refused(2, r"--fresh: needs --out", *asked, "--fresh")
        self.refused(2, r"--spec off", *asked, "--spec", "off")
        self.refused(2, r"--speculator none", *asked, "--speculator", "none")
        self.refused(2, r"--limit", *asked, "--limit", "0")
        with open(self.questions, "a", encoding="utf-8") as file:
            file.write("{\"question_id\": 7, \"category\": \"poetry\", \"turns\": [\"x\"]}\n")
        self.refused(1, r"question\.jsonl, line 7: expected a \"category\"", *asked)


if __name__ == "__main__":
    unittest.main(verbosity=2)
