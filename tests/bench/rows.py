#!/usr/bin/env python3
"""What a pass over M = 1..16 rows costs against one row: what verifying M drafted tokens costs.

Run by rows.sh, which builds what is needed.
"""

import argparse
import statistics

import bench

PROMPT = 64  # positions before the rows


def measure(model, threads, a):
    flags = ["-m", model, "-t", threads, "--prompt", PROMPT, "--repeats", a.repeats]
    outputs = bench.take_turns({"rows": [a.bench_rows, *flags]}, a.processes)["rows"]
    n_rows = len(outputs[0]["seconds"])
    entry = dict(**bench.model_entry(model), threads=threads, backend=outputs[0]["backend"],
                 rows=[])
    for m in range(1, n_rows + 1):
        # The ratio within a process is steadier than a ratio of medians: both passes met the same
        # memory placement.
        ratios = [o["seconds"][m - 1] / o["seconds"][0] for o in outputs]
        entry["rows"].append(dict(
            m=m, ratio=round(statistics.median(ratios), 3), ratio_min=round(min(ratios), 3),
            ratio_max=round(max(ratios), 3),
            seconds=bench.summary([o["seconds"][m - 1] for o in outputs])))
    print(f"{entry['model']}, {threads} threads: t(1) = "
          f"{entry['rows'][0]['seconds']['median'] * 1e3:.3f} ms; t(M)/t(1):")
    print("  " + "  ".join(f"{row['m']}: {row['ratio']:.2f}" for row in entry["rows"]), flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-rows", required=True, help="our bench program")
    bench.add_shared_flags(parser, repeats=7)
    a = parser.parse_args()

    machine = bench.hardware()
    results = [measure(model, threads, a) for model in a.models for threads in a.threads]
    bench.write_results("rows", a, dict(prompt=PROMPT), results, machine)


if __name__ == "__main__":
    main()
