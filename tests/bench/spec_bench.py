#!/usr/bin/env python3
"""Spec-Bench's questions on the bundled model; the controller against fixed settings.

Run by spec_bench.sh, which builds what is needed. All replies are greedy. The grid of fixed
settings stands below, named before anything was measured; the best of it is taken afterwards, on
the very texts it is compared on, which favours the grid. A ratio is the best fixed setting's decode
seconds over the controller's, all replies together; the interval is a bootstrap over replies. Fails
where a ratio is below GRID_LIMIT, or below PLAIN_LIMIT times plain decoding where drafting has
nothing to go by.
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
N_PREDICT = 64
GRID_LIMIT, PLAIN_LIMIT = 0.99, 0.98
GRID = {f"w{w}-tau{tau}": ["--spec", "on", "--controller", "off", "--w-max", str(w), "--tau",
                           str(tau)]
        for w in (2, 3, 4, 6, 8) for tau in (0.2, 0.3, 0.5, 0.7)}
CONTROLLER = "specbound"


def against_grid(seconds):
    """{setting: decode seconds of each reply} -> the controller against the best fixed setting."""
    totals = {name: sum(values) for name, values in seconds.items()}
    best = min(GRID, key=totals.get)
    pairs = list(zip(seconds[best], seconds[CONTROLLER]))
    return dict(best_fixed=best, replies=len(pairs),
                controller_over_best_fixed=round(totals[best] / totals[CONTROLLER], 4),
                interval_95=specbound_worst.interval(pairs, random.Random(7)),
                speedups={name: round(totals["plain"] / total, 4)
                          for name, total in totals.items() if name != "plain"})


def dialogues(a, threads):
    job = dict(model=a.models[0], threads=threads, dialogues=str(DIALOGUES), count=a.count,
               n_predict=N_PREDICT, min_tokens=4, temperature=0.0, repeats=a.repeats,
               settings=[dict(name=CONTROLLER, flags=[])] +
               [dict(name=name, flags=flags) for name, flags in GRID.items()])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        output = bench.run_json([a.bench_dialogues, file.name])
    median = statistics.median
    seconds = {name: [median(reply["settings"][name]["seconds"]) for reply in output["replies"]]
               for name in (CONTROLLER, *GRID)}
    seconds["plain"] = [median(reply["settings"][CONTROLLER]["plain_seconds"])
                        for reply in output["replies"]]
    return dict(texts="dialogues", threads=threads, **against_grid(seconds))


def spec_bench(a, threads, *flags):
    """Runs the questions; what --json says, and the folder of answers' decode seconds."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "result.json")
        command = [a.specbound, "spec-bench", "-m", a.models[0], "-f", QUESTIONS, "-n", N_PREDICT,
                   "-t", threads, "--out", folder, "--json", result, *flags]
        if a.questions:
            command += ["--limit", a.questions]
        done = subprocess.run([str(word) for word in command])
        if done.returncode != 0:
            sys.exit(f"spec-bench: exit {done.returncode}")
        seconds = {path.stem: [wall - prefill for line in path.read_text().splitlines()
                               for choice in [json.loads(line)["choices"][0]]
                               for wall, prefill in zip(choice["wall_time"],
                                                        choice["prefill_time"])]
                   for path in pathlib.Path(folder).glob("*.jsonl")}
        return json.loads(result.read_text()), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specbound", required=True, help="our program")
    parser.add_argument("--bench-dialogues", required=True, help="our bench program")
    parser.add_argument("--full-heads", required=True, help="heads for the paper's setting")
    parser.add_argument("--questions", type=int, default=0, help="default: all 480")
    parser.add_argument("--count", type=int, default=40, help="dialogues")
    bench.add_shared_flags(parser, repeats=3)
    a = parser.parse_args()
    a.processes = 1

    machine = bench.hardware()
    results = []
    for threads in a.threads:
        compared, _ = spec_bench(a, threads, "--compare", "all", "--setting",
                                 f"paper-heads: --preset paper --heads {a.full_heads}")
        results.append(dict(threads=threads, compared=compared))
        grid = [word for name, flags in GRID.items()
                for word in ("--setting", f"{name}: {' '.join(flags)}")]
        _, seconds = spec_bench(a, threads, *grid)
        controlled = [dict(texts="questions", threads=threads, **against_grid(seconds)),
                      dialogues(a, threads)]
        worst = [specbound_worst.measure(a, kind, threads, 0.0)
                 for kind in ("random bytes", "repeated tokens", "code", "other languages")]
        results[-1].update(controller=controlled, worst=worst)
        for entry in controlled:
            print(f"{entry['texts']:10} {threads} threads: {entry['controller_over_best_fixed']}x "
                  f"{entry['interval_95']} of {entry['best_fixed']}", flush=True)
    settings = dict(n_predict=N_PREDICT, questions=a.questions or "all", dialogues=a.count,
                    grid=GRID, grid_limit=GRID_LIMIT, plain_limit=PLAIN_LIMIT)
    bench.write_results("spec_bench", a, settings, results, machine)
    short = [entry for result in results for entry in result["controller"]
             if entry["controller_over_best_fixed"] < GRID_LIMIT]
    slow = [entry for result in results for entry in result["worst"]
            if entry["ratio"] < PLAIN_LIMIT]
    if short or slow:
        sys.exit(f"{len(short)} below {GRID_LIMIT} times the best fixed setting, {len(slow)} below "
                 f"{PLAIN_LIMIT} times plain decoding")


if __name__ == "__main__":
    main()
