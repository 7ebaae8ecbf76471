#!/usr/bin/env python3
"""What the decode loop costs with speculation off, against a bare loop over the same backend. Fails
above LIMIT.

Run by loop.sh, which builds what is needed.
"""

import argparse
import statistics
import sys

import bench

PROMPT, GEN = 64, 128
LIMIT = 1.01


def measure(model, threads, a):
    flags = ["-m", model, "-t", threads, "--prompt", PROMPT, "--gen", GEN, "--repeats", a.repeats]
    outputs = bench.take_turns({"loop": [a.bench_loop, *flags]}, a.processes)["loop"]
    entry = dict(**bench.model_entry(model), threads=threads, backend=outputs[0]["backend"],
                 bare_seconds=bench.summary([o["bare_seconds"] for o in outputs]),
                 loop_seconds=bench.summary([o["loop_seconds"] for o in outputs]),
                 ratio=bench.summary([o["ratio"] for o in outputs]))
    print(f"{entry['model']}, {threads} threads: bare "
          f"{statistics.median(o['bare_seconds'] for o in outputs) * 1e6:.1f} us a token, loop "
          f"{100 * (entry['ratio']['median'] - 1):+.2f} %", flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-loop", required=True, help="our bench program")
    bench.add_shared_flags(parser, repeats=15)
    a = parser.parse_args()

    machine = bench.hardware()
    results = [measure(model, threads, a) for model in a.models for threads in a.threads]
    bench.write_results("loop", a, dict(prompt=PROMPT, gen=GEN, limit=LIMIT), results, machine)
    if any(result["ratio"]["median"] > LIMIT for result in results):
        sys.exit(f"the loop costs more than {LIMIT} times a bare one")


if __name__ == "__main__":
    main()
