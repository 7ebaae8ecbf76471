#!/usr/bin/env python3
"""Spec-Bench's questions by way of picking tokens and by setting.

Run by spec_bench_settings.sh, which builds what is needed. `specbound spec-bench` does the work:
every question is answered plainly and by each setting, turn about, and a text that is not plain
decoding's fails it. SD is Spec-Bench's speedup, prefill included, its 95 % interval a bootstrap
over questions.
"""

import argparse
import json
import pathlib
import tempfile

import bench
import spec_bench
import spec_bench_sweep


def by_sampling(a, threads):
    with tempfile.TemporaryDirectory() as folder:
        told = spec_bench.ask(a, threads, a.questions, pathlib.Path(folder), ["--sampling-table"])
    rows = []
    for strategy in told["strategies"]:
        [result] = strategy.pop("results")
        rows.append(dict(**strategy, overall=result["overall"]))
    return dict(threads=threads, questions=told["questions"], turns=told["turns"],
                identical=told["identical"], strategies=rows)


def by_setting(a, threads, heads, flags):
    folder = pathlib.Path(a.figures) / f"{heads}-{threads}t"
    asked = ["-m", a.models[0], "-f", spec_bench.QUESTIONS, "-n", spec_bench.N_PREDICT,
             "-t", threads, "--limit", a.sweep_questions, "--fresh", *flags]
    told = spec_bench.kept(json.dumps(spec_bench_sweep.sweep(a.specbound, asked, folder)))
    return dict(threads=threads, heads=heads, questions=told["questions"], turns=told["turns"],
                identical=told["identical"], **told["sweep"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specbound", required=True, help="our program")
    parser.add_argument("--full-heads", required=True, help="heads at every layer")
    parser.add_argument("--figures", required=True, help="folder for the SVGs and answers")
    parser.add_argument("--questions", type=int, default=480, help="by way of picking tokens")
    parser.add_argument("--sweep-questions", type=int, default=80, help="by setting")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output", type=pathlib.Path,
                        default=bench.RESULTS / "spec_bench_settings.json")
    parser.add_argument("models", nargs=1, help="the demo model")
    a = parser.parse_args()

    machine = bench.hardware()
    sampling = [by_sampling(a, threads) for threads in a.threads]
    sweeps = [by_setting(a, threads, heads, flags) for threads in a.threads for heads, flags in
              (("bundled", []), ("full", ["--preset", "paper", "--heads", a.full_heads]))]
    command = ["tests/bench/spec_bench_settings.sh", "--questions", a.questions,
               "--sweep-questions", a.sweep_questions, "--threads", *a.threads]
    bench.write_report(a.output, "spec_bench_settings", command, machine,
                       settings=dict(model=pathlib.Path(a.models[0]).name,
                                     n_predict=spec_bench.N_PREDICT),
                       results=dict(sampling=sampling, sweeps=sweeps))


if __name__ == "__main__":
    main()
