#!/usr/bin/env python3
"""Spec-Bench's questions on the bundled model; the controller against fixed settings.

Run by spec_bench.sh, which builds what is needed. All replies are greedy. First every drafter in
one table, by `specbound spec-bench`. Then the controller against the grid of fixed settings below,
named before anything was measured: decode seconds of every reply to the questions (of a second turn
behind plain decoding's answer to the first) and to held-out dialogues. The best of the grid is
chosen on every other text and compared on the rest, and the other way about, so that its luck does
not count; `in_hindsight` is the ratio to what was best on all of them. Intervals are bootstraps
over texts, with the setting as chosen. All texts are one run, the questions first. `both` is the
questions and the first 40 dialogues as one set, which one fixed setting has to serve. Fails where
an interval begins below GRID_LIMIT, of that set or of one alone.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import bench
import specbound_worst

DATA = bench.ROOT / "tests" / "data"
QUESTIONS = DATA / "spec-bench" / "question.jsonl"
DIALOGUES = DATA / "dialogue-valid" / "dialogue-valid.jsonl"
N_DIALOGUES = 40
N_PREDICT = 64
GRID_LIMIT = 0.99
GRID = {f"w{w}-tau{tau}": ["--speculator", "specbound", "--spec", "on", "--w-max", str(w), "--tau",
                           str(tau)]
        for w in (2, 3, 4, 6, 8) for tau in (0.2, 0.3, 0.5, 0.7)}
CONTROLLER = "controller"


def against_grid(texts):
    """[{setting: decode seconds of a text}] -> the controller against the best of GRID."""
    def best(of):
        return min(GRID, key=lambda name: sum(text[name] for text in of))

    halves = texts[0::2], texts[1::2]
    chosen = [best(halves[1]), best(halves[0])]
    pairs = [(text[name], text[CONTROLLER]) for half, name in zip(halves, chosen) for text in half]
    total = {name: sum(text[name] for text in texts) for name in texts[0]}
    return dict(chosen=chosen, controller_over_best_fixed=round(
                    sum(fixed for fixed, _ in pairs) / total[CONTROLLER], 4),
                interval_95=specbound_worst.interval(pairs, random.Random(7)),
                in_hindsight=dict(best_fixed=best(texts),
                                  ratio=round(total[best(texts)] / total[CONTROLLER], 4)),
                speedups={name: round(total["plain"] / seconds, 4)
                          for name, seconds in total.items() if name != "plain"})


def decode_seconds(a, path, count, threads):
    """{place: {setting: decode seconds}} of the first `count` dialogues in `path`."""
    job = dict(model=a.models[0], threads=threads, dialogues=str(path), count=count,
               n_predict=N_PREDICT, min_tokens=1, temperature=0.0, repeats=a.repeats,
               settings=[dict(name=CONTROLLER, flags=["--speculator", "auto"])] +
               [dict(name=name, flags=flags) for name, flags in GRID.items()])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        output = bench.run_json([a.bench_dialogues, file.name])
    median = statistics.median
    texts = {}
    for reply in output["replies"]:
        text = texts.setdefault(reply["dialogue"], {})
        text["plain"] = text.get("plain", 0) + median(reply["plain_seconds"])
        for name, run in reply["settings"].items():
            text[name] = text.get(name, 0) + median(run["seconds"])
    return texts


def against_fixed(kind, texts, threads):
    entry = dict(texts=kind, threads=threads, count=len(texts), **against_grid(texts))
    print(f"{len(texts)} {kind}, {threads} threads: {entry['controller_over_best_fixed']}x "
          f"{entry['interval_95']} of {' and '.join(entry['chosen'])}, in hindsight "
          f"{entry['in_hindsight']['ratio']}x of {entry['in_hindsight']['best_fixed']}; over "
          f"plain {entry['speedups'][CONTROLLER]}x", flush=True)
    return entry


def ask(a, threads, limit, folder, flags):
    """`spec-bench` of `limit` questions, 0 for all, its answers in `folder`: what --json says."""
    result = folder / "result.json"
    command = [a.specbound, "spec-bench", "-m", a.models[0], "-f", QUESTIONS, "-n", N_PREDICT,
               "-t", threads, "--out", folder, "--json", result, *flags]
    if limit:
        command += ["--limit", limit]
    done = subprocess.run([str(word) for word in command])
    if done.returncode != 0:
        sys.exit(f"spec-bench: exit {done.returncode}")
    return kept(result.read_text())


def kept(told):
    """What --json says as results hold it: figures of five digits, paths from the repository."""
    return json.loads(bench.relative(told),
                      parse_float=lambda digits: float(f"{float(digits):.5g}"))


def as_dialogues(answers):
    """Spec-Bench's questions with plain decoding's answers, as bench_dialogues reads them."""
    asked = {question["question_id"]: question["turns"]
             for question in map(json.loads, QUESTIONS.read_text().splitlines())}
    for answer in map(json.loads, answers.read_text().splitlines()):
        turns = zip(asked[answer["question_id"]], answer["choices"][0]["turns"])
        yield [dict(role=role, content=text) for question, reply in turns
               for role, text in (("user", question), ("assistant", reply))]


def measure(a, threads):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compared = ask(a, threads, a.questions, folder,
                       ["--compare", "all", "--setting",
                        f"paper-heads: --preset paper --heads {a.full_heads}"])
        asked = [json.dumps(dialogue) for dialogue in as_dialogues(folder / "plain.jsonl")]
        path = folder / "texts"
        path.write_text("\n".join([*asked, *DIALOGUES.read_text().splitlines()[:a.count], ""]))
        texts = decode_seconds(a, path, len(asked) + a.count, threads)
    questions = [text for place, text in texts.items() if place < len(asked)]
    dialogues = [text for place, text in texts.items() if place >= len(asked)]
    first = dialogues[:N_DIALOGUES]
    sets = [("both", questions + first), ("questions", questions), ("dialogues", first)]
    if len(dialogues) > len(first):
        sets.append(("dialogues", dialogues))
    return dict(threads=threads, compared=compared,
                controller=[against_fixed(kind, texts, threads) for kind, texts in sets])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specbound", required=True, help="our program")
    parser.add_argument("--bench-dialogues", required=True, help="our bench program")
    parser.add_argument("--full-heads", required=True, help="heads for the paper's setting")
    parser.add_argument("--questions", type=int, default=0, help="default: all 480")
    parser.add_argument("--count", type=int, default=120,
                        help="dialogues; the first 40 are an entry of their own")
    bench.add_shared_flags(parser, repeats=4)
    a = parser.parse_args()
    a.processes = 1

    machine = bench.hardware()
    results = [measure(a, threads) for threads in a.threads]
    settings = dict(n_predict=N_PREDICT, questions=a.questions or "all", dialogues=a.count,
                    grid=GRID, grid_limit=GRID_LIMIT)
    own_flags = ["--questions", a.questions, "--count", a.count]
    bench.write_results("spec_bench", a, settings, results, machine, more_flags=own_flags)
    behind = [entry for result in results for entry in result["controller"]
              if entry["interval_95"][0] < GRID_LIMIT]
    if behind:
        sys.exit(f"{len(behind)} may be below {GRID_LIMIT} times the best fixed setting")


if __name__ == "__main__":
    main()
