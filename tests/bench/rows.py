#!/usr/bin/env python3
"""What a pass over M = 1..16 rows costs against one row: what verifying M drafted tokens costs. And
what an exit check costs, in units of a layer, one by a draft layer beside a layer and a shortlist.

Run by rows.sh, which builds what is needed.
"""

import argparse
import statistics

import bench

PROMPT = 64  # positions before the rows


def measure(model, threads, a):
    flags = ["-m", model, "-t", threads, "--prompt", PROMPT, "--repeats", a.repeats]
    turns = bench.take_turns({"rows": [a.bench_rows, *flags],
                              "checks": [a.bench_rows, *flags, "--checks"]}, a.processes)
    outputs = turns["rows"]
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
    entry.update(summarize_checks(turns["checks"]))
    return entry


def summarize_checks(outputs):
    """Checks by kind and shortlist, and what a call of run_layers costs beside its layers."""
    layer = bench.summary([o["layer_seconds"] for o in outputs])
    print(f"  a layer takes {layer['median'] * 1e6:.2f} us; checks in layers:")
    entries = []
    for i, check in enumerate(outputs[0]["checks"]):
        costs = [o["checks"][i]["layers"] for o in outputs]
        entries.append(dict(kind=check["kind"], shortlist=check["shortlist"],
                            layers=round(statistics.median(costs), 3),
                            layers_min=round(min(costs), 3), layers_max=round(max(costs), 3),
                            seconds=bench.summary([o["checks"][i]["seconds"] for o in outputs])))
        print(f"    {check['kind']} {check['shortlist']}: {entries[-1]['layers']:.2f}", flush=True)
    drafts = []
    for i, check in enumerate(outputs[0]["draft_layer"]):
        parts = [o["draft_layer"][i]["of_layer_and_shortlist"] for o in outputs]
        drafts.append(dict(shortlist=check["shortlist"],
                           of_layer_and_shortlist=round(statistics.median(parts), 3),
                           least=round(min(parts), 3), most=round(max(parts), 3),
                           seconds=bench.summary([o["draft_layer"][i]["seconds"]
                                                  for o in outputs])))
        print(f"    draft layer {check['shortlist']}: "
              f"{drafts[-1]['of_layer_and_shortlist']:.2f} of a layer and the shortlist",
              flush=True)
    return dict(layer_seconds=layer, checks=entries, draft_layer=drafts,
                call_seconds=bench.summary([o["call_seconds"] for o in outputs]))


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
