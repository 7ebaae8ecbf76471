#!/usr/bin/env python3
"""Speculation against plain decoding, bit for bit, over a grid of settings.

A cell is a model, a temperature, a filter, a penalty, a w_max, a speculator, a thread count and a
set of kernels, over the built-in prompts of `specbound verify`. At one thread with the best kernels
the Q8_0 and the F32 model see every combination. The slower F16 model sees every temperature,
filter, penalty and speculator, and every w_max, taking turns, and so do the other two at two
threads and with AVX-VNNI and AVX2. Portable kernels are 20 times slower: half of that with F32,
every temperature and speculator with Q8_0, one temperature with F16.

Run by exactness_grid.sh, which builds what is needed.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

import bench

TEMPERATURES = ["0", "0.3", "0.7", "1", "1.5"]
OFF = ["--top-k", "0", "--top-p", "1", "--min-p", "0"]
FILTERS = {"none": OFF, "top-k 40": [*OFF, "--top-k", "40"],
           "top-p 0.9": [*OFF, "--top-p", "0.9"], "min-p 0.05": [*OFF, "--min-p", "0.05"]}
PENALTIES = ["1", "1.3"]
WIDTHS = list(range(2, 17))
# The lens is asked to draft more than it would, so that its drafts are accepted and rejected often.
SPECULATORS = {"forced": ["--speculator", "forced"],
               "specbound": ["--speculator", "specbound", "--tau", "0.2"]}
N_TOKENS = 64
KERNELS = {"avx512": "AVX-512 VNNI", "avxvnni": "AVX-VNNI", "avx2": "AVX2", "portable": "portable"}
OTHERS = ("avxvnni", "avx2")  # where they are not the best

# One process: a cell for each of its temperatures.
Process = collections.namedtuple(
    "Process", "model isa threads speculator filter penalty w_max seed temperatures")


def arrays(kernels):
    """Every process of the grid; `kernels`: what this CPU has, best first."""
    choices = list(itertools.product(SPECULATORS, FILTERS, PENALTIES))
    processes = []

    def add(model, isa, threads, choice, w_max, temperatures=TEMPERATURES):
        seed = 1 + len(processes)  # other noise and other exits everywhere
        processes.append(Process(model, isa, threads, *choice, w_max, seed, tuple(temperatures)))

    def taking_turns(model, isa, threads, chosen, **how):
        start = len(processes)  # 15 widths over 16 choices, beginning elsewhere each time
        for i, choice in enumerate(chosen):
            add(model, isa, threads, choice, WIDTHS[(start + i) % len(WIDTHS)], **how)

    for model in ("demo Q8_0", "stories260K F32"):
        for choice, w_max in itertools.product(choices, WIDTHS):
            add(model, "auto", 1, choice, w_max)
    taking_turns("demo F16", "auto", 1, choices)
    for model in ("demo Q8_0", "stories260K F32", "demo F16"):
        taking_turns(model, "auto", 2, choices)
        for isa in OTHERS:
            if isa in kernels[1:]:
                taking_turns(model, isa, 1, choices)
    if "portable" in kernels[1:]:
        half = [c for i, c in enumerate(choices) if (i + i // 2) % 2 == 0]  # either penalty
        taking_turns("stories260K F32", "portable", 1, half)
        two = [choices[3], choices[-2]]  # either speculator
        taking_turns("demo Q8_0", "portable", 1, two)
        taking_turns("demo F16", "portable", 1, two, temperatures=["0.7"])
    # F16 is slow: it stays with the best kernels at one thread, and a little of the portable ones.
    return [p for p in processes if p.model != "demo F16" or
            (p.threads == 1 and p.isa not in OTHERS)]


def quick(processes):
    """One process of each model, speculator, kernels and thread count."""
    first = {}
    for p in processes:
        first.setdefault((p.model, p.speculator, p.isa, p.threads),
                         p._replace(temperatures=("0", "1"), w_max=8))
    return list(first.values())


def arguments(process, models, a):
    model = models[process.model]
    return ["verify", "-m", model, *(["--raw"] if "stories" in process.model else []),
            *a.prompts, "--bits", "--ignore-eos", "-n", str(a.tokens),
            "--temps", ",".join(process.temperatures), "--seeds", f"{process.seed},",
            "--isa", process.isa, "-t", str(process.threads),
            *SPECULATORS[process.speculator], *FILTERS[process.filter],
            "--repeat-penalty", process.penalty, "--w-max", str(process.w_max)]


def run_process(process, models, a):
    """What `verify` wrote, cut down to sums, and how it was called if something differs."""
    command = arguments(process, models, a)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        start = time.monotonic()
        done = subprocess.run([a.program, *command, "--json", path], capture_output=True, text=True)
        seconds = time.monotonic() - start
        if not os.path.exists(path):
            sys.exit(f"{shlex.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    if done.returncode != (0 if result["identical"] else 1):
        sys.exit(f"{shlex.join(command)}: exit {done.returncode} with identical: "
                 f"{result['identical']}")
    sums = {key: result[key] for key in ("replies", "tokens", "rounds", "drafted_tokens",
                                         "accepted_tokens", "rows_compared", "kv_compared",
                                         "rows_in_passes_of")}
    cells = len({reply["temperature"] for reply in result["results"]})
    return dict(**sums, cells=cells, prompts=len(result["prompts"]), seconds=round(seconds, 2),
                backend=result["backend"],
                difference=result["difference"] and dict(command=shlex.join(command),
                                                         **result["difference"]))


class Kept:
    """Results by command line, program and models, in a file that grows by a line each."""

    def __init__(self, path, contents, fresh):
        self.path = path
        self.identity = hashlib.sha256(
            b"".join(hashlib.sha256(pathlib.Path(f).read_bytes()).digest() for f in contents))
        self.results = {}
        if fresh:
            path.unlink(missing_ok=True)
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    key, result = json.loads(line)
                except ValueError:  # the line that an interruption cut
                    continue
                self.results[key] = result

    def key(self, command):
        identity = self.identity.copy()
        identity.update(shlex.join(command).encode())
        return identity.hexdigest()

    def add(self, command, result):
        self.results[self.key(command)] = result
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([self.key(command), result]) + "\n")


def run_all(processes, kept, models, a):
    """Processes of one thread `a.jobs` at a time, the others alone. {process: result}."""
    results, total = {}, len(processes)

    def finish(process, result):
        results[process] = result
        if result["difference"]:
            print(f"\nDIFFERENT: {json.dumps(result['difference'])}", flush=True)
        if sys.stderr.isatty() or len(results) % 50 == 0:
            print(f"\r{len(results)}/{total} processes", end="", file=sys.stderr, flush=True)

    to_do = []  # the slow ones first, so that no one waits for them at the end
    for process in sorted(processes, key=lambda p: p.isa != "portable"):
        known = kept.results.get(kept.key(arguments(process, models, a)))
        finish(process, known) if known else to_do.append(process)
    for alone in (False, True):
        with concurrent.futures.ThreadPoolExecutor(1 if alone else a.jobs) as pool:
            futures = {pool.submit(run_process, p, models, a): p for p in to_do
                       if (p.threads > 1) == alone}
            try:
                for future in concurrent.futures.as_completed(futures):
                    process = futures[future]
                    kept.add(arguments(process, models, a), future.result())
                    finish(process, future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    print(file=sys.stderr)
    return results


def sums(results):
    total = collections.Counter()
    for result in results:
        total.update({key: value for key, value in result.items() if isinstance(value, int)})
    total.pop("prompts")
    total["cr"] = total["tokens"] / total["rounds"]
    names = ("cells", "replies", "tokens", "rounds", "drafted_tokens", "accepted_tokens",
             "rows_compared", "kv_compared")
    return dict(**{name: total[name] for name in names}, mean_cr=round(total["cr"], 3))


def grouped(results, *fields):
    groups = collections.defaultdict(list)
    for process, result in results.items():
        groups[tuple(getattr(process, field) for field in fields)].append(result)
    return [dict(zip(fields, key), **sums(group),
                 seconds_per_cell=round(sum(r["seconds"] for r in group) /
                                        sum(r["cells"] for r in group), 3))
            for key, group in groups.items()]


def report(results, a, kernels):
    differences = [r["difference"] for r in results.values() if r["difference"]]
    rows = collections.Counter()
    for result in results.values():
        rows.update(result["rows_in_passes_of"])
    prompts = {result["prompts"] for result in results.values()}
    by_speculator = grouped(results, "speculator")
    return dict(
        settings=dict(prompts=sorted(prompts), tokens_per_reply=a.tokens,
                      temperatures=TEMPERATURES, filters=list(FILTERS), penalties=PENALTIES,
                      w_max=[WIDTHS[0], WIDTHS[-1]], speculators=SPECULATORS,
                      kernels=kernels, threads=[1, 2]),
        differences=len(differences), **sums(results.values()),
        rows_in_passes_of=dict(rows),
        by_speculator=by_speculator,
        by_variant=grouped(results, "model", "isa", "threads", "speculator"),
        by_w_max=grouped(results, "speculator", "w_max"),
        first_differences=differences[:20])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--program", "--build", "--demo", "--f16", "--stories"):
        parser.add_argument(name, required=True)
    parser.add_argument("--quick", action="store_true", help="few cells, short: to try the script")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--output", help="default: tests/bench/results/exactness_grid.json")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    a = parser.parse_args()
    a.tokens = 16 if a.quick else N_TOKENS
    a.prompts = ["-p", "I need a table for two.", "-p", "1, 2, 3,"] if a.quick else []

    machine = bench.hardware()
    doctor = json.loads(subprocess.run([a.program, "doctor", "--json"], check=True,
                                       capture_output=True).stdout)
    supported = doctor["cpu"]["kernels_supported"]
    kernels = [isa for isa, name in KERNELS.items() if name in supported]
    for isa in KERNELS.keys() - set(kernels):
        print(f"SKIP {isa}: this CPU lacks it")
    models = {"demo Q8_0": a.demo, "demo F16": a.f16, "stories260K F32": a.stories}
    processes = quick(arrays(kernels)) if a.quick else arrays(kernels)
    kept = Kept(pathlib.Path(a.build) / "exactness_grid.jsonl", [a.program, *models.values()],
                a.fresh)
    results = run_all(processes, kept, models, a)

    summary = report(results, a, kernels)
    for entry in summary["by_variant"]:
        print(f"{entry['model']:16} {entry['isa']:9} {entry['threads']} thread(s) "
              f"{entry['speculator']:9} {entry['cells']:5} cells, CR {entry['mean_cr']:.2f}, "
              f"{entry['seconds_per_cell']:.2f} s a cell")
    print(f"{summary['cells']} cells, {summary['tokens']} tokens, {summary['rows_compared']} rows "
          f"and {summary['kv_compared']} K/V compared: {summary['differences']} differences")
    output = a.output or (None if a.quick else bench.RESULTS / "exactness_grid.json")
    if output:
        command = ["tests/bench/exactness_grid.sh", *(["--quick"] if a.quick else []), "--jobs",
                   a.jobs]
        bench.write_report(pathlib.Path(output), "exactness_grid", command, machine, **summary)
    # A grid that compared nothing worth comparing proves nothing.
    forced = next(e for e in summary["by_speculator"] if e["speculator"] == "forced")
    unseen = [n for n in range(1, 17) if not summary["rows_in_passes_of"].get(str(n))]
    if forced["mean_cr"] < 2 or (unseen and not a.quick):
        sys.exit(f"too weak: forced CR {forced['mean_cr']}, no pass of {unseen} rows")
    return 1 if summary["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
