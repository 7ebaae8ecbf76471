#!/usr/bin/env python3
"""What the desktop app costs its engine: the same replies by a bare session and by the engine
thread while the window's work is done sixty times a second beside it. Fails above LIMIT.

Run by gui_engine.sh, which builds what is needed.
"""

import argparse
import sys

import bench

LIMIT = 1.05
MODES = ("plain", "speculative")


def measure(model, threads, a):
    program = [a.bench_gui_engine, "-m", model, "-t", threads, "--repeats", a.repeats]
    outputs = bench.take_turns({"engine": program}, a.processes)["engine"]
    results = []
    for mode in MODES:
        runs = [output[mode] for output in outputs]
        keys = ("bare_tokens_per_second", "window_tokens_per_second", "telling_share",
                "ratio")
        figures = {key: bench.summary([run[key] for run in runs]) for key in keys}
        results.append(dict(**bench.model_entry(model), threads=threads, decoding=mode,
                            backend=runs[0]["backend"], tokens=runs[0]["tokens"], **figures))
        print(f"{results[-1]['model']}, {threads} thread(s), {mode}: bare "
              f"{figures['bare_tokens_per_second']['median']:.0f} tok/s, beside the window "
              f"{100 * (figures['ratio']['median'] - 1):+.2f} % time", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-gui-engine", required=True, help="our bench program")
    bench.add_shared_flags(parser, repeats=200)
    parser.set_defaults(threads=[1])
    a = parser.parse_args()

    machine = bench.hardware()
    results = [r for model in a.models for threads in a.threads
               for r in measure(model, threads, a)]
    bench.write_results("gui_engine", a, dict(limit=LIMIT, frames_per_second=60), results, machine)
    if any(result["ratio"]["median"] > LIMIT for result in results):
        sys.exit(f"the window slows the engine down to more than {LIMIT} times its time")


if __name__ == "__main__":
    main()
