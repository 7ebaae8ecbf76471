#!/usr/bin/env python3
"""What replies side by side give: tokens a second of 1 to 16 of them.

Run by side_by_side.sh, which builds what is needed.
"""

import argparse
import pathlib
import statistics

import bench

MODELS = ["smollm2-135m-instruct-q4_1", "qwen2.5-coder-1.5b-instruct-q4_k_m"]
PROMPT, GEN = 64, 64


def measure(name, threads, a):
    model = bench.fetched(name)
    outputs = [bench.run_json([a.program, "-m", model, "-t", threads, "--prompt", PROMPT,
                               "--gen", GEN, "--repeats", a.repeats])
               for _ in range(a.processes)]
    entry = dict(**bench.model_entry(model), threads=threads, backend=outputs[0]["backend"],
                 replies=[])
    for i, n in enumerate(outputs[0]["replies"]):
        rates = [o["tokens_per_second"][i] for o in outputs]
        ratios = [o["tokens_per_second"][i] / o["tokens_per_second"][0] for o in outputs]
        entry["replies"].append(dict(
            replies=n, of_one=round(statistics.median(ratios), 3),
            of_one_min=round(min(ratios), 3), of_one_max=round(max(ratios), 3),
            tokens_per_second=bench.summary(rates)))
    print(f"{entry['model']}, {threads} threads: " + ", ".join(
        f"{r['replies']}: {r['tokens_per_second']['median']:.0f} tok/s ({r['of_one']:.2f}x)"
        for r in entry["replies"]), flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True, help="our bench program")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--processes", type=int, default=3, help="of each model and setting")
    parser.add_argument("--repeats", type=int, default=3, help="measured runs in a process")
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--output", default=bench.RESULTS / "side_by_side.json")
    a = parser.parse_args()

    machine = bench.hardware()
    results = [measure(name, threads, a) for name in a.models for threads in a.threads]
    bench.write_report(pathlib.Path(a.output), "side_by_side",
                       ["tests/bench/side_by_side.sh", "--models", *a.models, "--processes",
                        a.processes, "--repeats", a.repeats, "--threads", *a.threads],
                       machine, settings=dict(prompt=PROMPT, gen=GEN), results=results)


if __name__ == "__main__":
    main()
