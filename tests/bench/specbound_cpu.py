#!/usr/bin/env python3
"""Speculation against plain decoding on reference dialogues; ratios above 1 mean that it is faster.

Run by specbound_cpu.sh, which builds what is needed. Each reply is decoded plainly and then with
every setting, several times; its speedup is the median over times of plain seconds / speculative
seconds, a dialogue's the median over its replies; the headline is the median over dialogues. All
settings write the same tokens as plain decoding, or the program fails.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

import bench

THEIRS = pathlib.Path(__file__).with_name("llamacpp_bench.py")
DIALOGUES = bench.ROOT / "tests" / "data" / "dialogue-valid" / "dialogue-valid.jsonl"
PHASES = ("draft", "check", "verify", "logits", "sample")
TEMPERATURES = (0.0, 0.7)


def settings(full_heads):
    """{name: flags as `specbound run` takes them}; the ablations are the paper's Figure 4."""
    paper = ["--heads", full_heads, "--preset", "paper"]
    alone = {"heads": [], "folded": ["--head", "folded"], "paper": paper,
             "lens": ["--head", "lens"]}
    for ablation in ("no-anneal", "no-depth-bound", "no-width-bound"):
        alone[f"heads, {ablation}"] = [f"--{ablation}"]
        alone[f"paper, {ablation}"] = [*paper, f"--{ablation}"]
    table = {name: ["--speculator", "specbound", "--spec", "on", *flags]
             for name, flags in alone.items()}
    return {"auto": ["--speculator", "auto"], **table, "ngram": ["--speculator", "ngram"]}


def quartiles(values):
    if len(values) < 2:
        return [round(v, 4) for v in values] * 2
    low, _, high = statistics.quantiles(values, n=4)
    return [round(low, 4), round(high, 4)]


def summarize(replies, name):
    """One row of the table: `replies` as bench_dialogues gives them."""
    dialogues = {}
    for reply in replies:
        s = reply["settings"][name]
        ratios = [p / t for p, t in zip(reply["plain_seconds"], s["seconds"])]
        dialogues.setdefault(reply["dialogue"], []).append(statistics.median(ratios))
    medians = [statistics.median(ratios) for ratios in dialogues.values()]
    runs = [reply["settings"][name] for reply in replies]
    total = {key: sum(run[key] for run in runs)
             for key in ("rounds", "decoded", "drafted", "accepted", "checks")}
    layers = max((len(run["accepted_at"]) for run in runs), default=0)
    accepted_at = [sum(run["accepted_at"][l] for run in runs if l < len(run["accepted_at"]))
                   for l in range(layers)]
    ns = [sum(run["nanoseconds"][i] for run in runs) for i in range(len(PHASES))]
    plain = sum(statistics.median(reply["plain_seconds"]) for reply in replies)
    seconds = sum(statistics.median(run["seconds"]) for run in runs)
    accepted = max(1, sum(accepted_at))
    return dict(
        speedup=round(statistics.median(medians), 4), quartiles=quartiles(medians),
        least=round(min(medians), 4), most=round(max(medians), 4),
        speedup_of_total_time=round(plain / seconds, 4),
        plain_tok_s=round(total["decoded"] / plain, 1), tok_s=round(total["decoded"] / seconds, 1),
        compression_rate=round(total["decoded"] / total["rounds"], 4),
        acceptance=round(total["accepted"] / max(1, total["drafted"]), 4),
        mean_exit_layer=round(sum(l * n for l, n in enumerate(accepted_at)) / accepted, 3),
        accepted_at=accepted_at,
        time_split={phase: round(part / sum(ns), 4) for phase, part in zip(PHASES, ns)},
        check_share_of_drafting=round(ns[1] / max(1, ns[0] + ns[1]), 4), **total)


def run(a, threads, temperature, table):
    job = dict(model=a.models[0], threads=threads, dialogues=str(DIALOGUES), count=a.count,
               n_predict=128, min_tokens=16, temperature=temperature, repeats=a.repeats,
               settings=[dict(name=name, flags=flags) for name, flags in table.items()])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        output = bench.run_json([a.bench_dialogues, file.name])
    entry = dict(**bench.model_entry(a.models[0]), threads=threads, temperature=temperature,
                 backend=output["backend"], replies=len(output["replies"]),
                 tokens=sum(reply["tokens"] for reply in output["replies"]), settings={})
    print(f"\n{entry['model']}, {threads} threads, temperature {temperature}: "
          f"{entry['replies']} replies, {entry['tokens']} tokens")
    for name, flags in table.items():
        row = summarize(output["replies"], name)
        entry["settings"][name] = dict(flags=bench.relative(" ".join(flags)),
                                       description=bench.relative(output["settings"][name]), **row)
        print(f"  {name:24} {row['speedup']:.3f}x [{row['quartiles'][0]:.2f}, "
              f"{row['quartiles'][1]:.2f}]  CR {row['compression_rate']:.2f}  accepted "
              f"{row['acceptance']:.2f}  exit {row['mean_exit_layer']:.1f}  checks "
              f"{100 * row['check_share_of_drafting']:.0f} % of drafting", flush=True)
    return entry


def against_llamacpp(a, threads):
    """Plain decoding, ours and theirs, on the same file: processes that take turns."""
    flags = ["-m", a.models[0], "-t", threads, "--prompt", 128, "--gen", 64, "--repeats", 3]
    outputs = bench.take_turns({"ours": [a.bench_decode, *flags],
                                "llamacpp": [a.llamacpp_python, THEIRS, *flags]}, 5)
    rates = {who: bench.summary([o["decode_tok_s"] for o in outputs[who]]) for who in outputs}
    ratio = round(rates["ours"]["median"] / rates["llamacpp"]["median"], 3)
    print(f"\nplain decoding, {threads} threads: ours {rates['ours']['median']:.0f} tok/s, "
          f"llama.cpp {rates['llamacpp']['median']:.0f}: {ratio:.2f}x")
    return dict(threads=threads, against=outputs["llamacpp"][0]["backend"], ratio=ratio, **rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-dialogues", required=True, help="our bench program")
    parser.add_argument("--bench-decode", required=True, help="our bench program, plain")
    parser.add_argument("--full-heads", required=True, help="heads of kind full, for the paper")
    parser.add_argument("--count", type=int, default=40, help="dialogues")
    parser.add_argument("--only", nargs="+", help="settings by name")
    bench.add_shared_flags(parser, repeats=5)
    a = parser.parse_args()
    a.processes = 1
    a.llamacpp_python = os.environ.get("LLAMACPP_PYTHON")

    table = settings(a.full_heads)
    unknown = set(a.only or ()) - set(table)
    if unknown:
        sys.exit(f"--only: expected some of {', '.join(table)}, found {', '.join(unknown)}")
    table = {name: flags for name, flags in table.items() if not a.only or name in a.only}
    machine = bench.hardware()
    results = [run(a, threads, temperature, table)
               for threads in a.threads for temperature in TEMPERATURES]
    if a.llamacpp_python:
        results += [against_llamacpp(a, threads) for threads in a.threads]
    bench.write_results("specbound_cpu", a, dict(dialogues=a.count, n_predict=128, min_tokens=16),
                        results, machine,
                        more_flags=["--count", a.count, *(["--only", *a.only] if a.only else [])])


if __name__ == "__main__":
    main()
