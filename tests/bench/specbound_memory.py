#!/usr/bin/env python3
"""What the bundled model's drafts would give a model whose weights lie in memory: a REPLAY.

A random model cannot draft, so which drafts left where and which were right is what
specbound_cpu.sh's heads did alone on the bundled model, round by round; layers, checks and
verification are real.

Run by specbound_memory.sh, which builds what is needed.
"""

import argparse
import json
import statistics
import tempfile

import bench
import specbound_cpu

PROMPT, TOKENS = 128, 96


def job(program, work):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(work, file)
        file.flush()
        return bench.run_json([program, file.name])


def record(a, temperature):
    """The rounds of exit heads alone on the bundled model, and that setting."""
    output = job(a.bench_dialogues, dict(
        model=a.models[1], threads=max(a.threads), dialogues=str(specbound_cpu.DIALOGUES),
        count=a.count, n_predict=128, min_tokens=16, temperature=temperature, repeats=1,
        settings=[dict(name="heads", flags=["--speculator", "specbound"])], outline="heads"))
    rounds = [r for reply in output["replies"] for r in reply["settings"]["heads"]["outline"]]
    return rounds, output["drafting"]["heads"]


def measure(a, threads, temperature, rounds, drafting):
    output = job(a.bench_replay, dict(
        model=a.models[0], threads=threads, kind=drafting["kind"], n_layers=drafting["n_layers"],
        check_layers=drafting["check_layers"], shortlist=drafting["shortlist"],
        w_max=drafting["w_max"], rounds=rounds, prompt=PROMPT, tokens=TOKENS, repeats=a.repeats))
    ratios = [p / s for p, s in zip(output["plain_seconds"], output["seconds"])]
    entry = dict(
        **bench.model_entry(a.models[0]),
        label="replay of the bundled model's rounds, decoded greedily",
        threads=threads, rounds_of_temperature=temperature, backend=output["backend"],
        drafting=drafting,
        speedup=bench.summary(ratios),
        plain_tok_s=round(TOKENS / statistics.median(output["plain_seconds"]), 2),
        compression_rate=round(output["decoded"] / output["rounds"], 4),
        acceptance=round(output["accepted"] / max(1, output["drafted"]), 4),
        mean_exit_layer=output["mean_exit_layer"],
        time_split={phase: round(ns / sum(output["nanoseconds"]), 4)
                    for phase, ns in zip(specbound_cpu.PHASES, output["nanoseconds"])})
    print(f"{entry['model']}, {threads} threads, temperature {temperature} (replay): "
          f"{entry['speedup']['median']:.3f}x, CR {entry['compression_rate']:.2f}", flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-dialogues", required=True, help="our bench program")
    parser.add_argument("--bench-replay", required=True, help="our bench program")
    parser.add_argument("--count", type=int, default=40, help="dialogues")
    bench.add_shared_flags(parser, repeats=5)
    a = parser.parse_args()
    a.processes = 1

    machine = bench.hardware()
    results = []
    for temperature in specbound_cpu.TEMPERATURES:
        rounds, drafting = record(a, temperature)
        results += [measure(a, threads, temperature, rounds, drafting) for threads in a.threads]
    bench.write_results("specbound_memory", a, dict(prompt=PROMPT, tokens=TOKENS), results, machine,
                        more_flags=["--count", a.count])


if __name__ == "__main__":
    main()
