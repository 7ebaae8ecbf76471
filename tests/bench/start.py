#!/usr/bin/env python3
"""From the start of the process to the first byte of the reply, page cache warm: the first time
that a model is run, later with weights that are repacked, and with those that an earlier start
kept, by turns. The first time the costs of rows are measured too.

Run by start.sh, which builds what is needed.
"""

import argparse
import os
import subprocess
import tempfile
import time

import bench

COMMAND = ["run", "--raw", "-p", "I need a table for two tonight.", "-n", "8", "--temp", "0"]
WAYS = {"first": "auto", "repacked": "off", "kept": "on"}  # --keep-repacked


def first_byte_seconds(program, model, threads, keep, cache):
    start = time.perf_counter()
    process = subprocess.Popen([program, *COMMAND, "-m", model, "-t", str(threads),
                                "--keep-repacked", keep],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL,
                               env={**os.environ, "XDG_CACHE_HOME": cache})
    first = process.stdout.read(1)
    seconds = time.perf_counter() - start
    process.communicate()
    if not first or process.returncode != 0:
        raise SystemExit(f"no reply from {program} with {model}: exit {process.returncode}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True, help="our specbound binary")
    bench.add_shared_flags(parser, repeats=1)
    a = parser.parse_args()

    machine = bench.hardware()
    results = []
    for model in a.models:
        for threads in a.threads:
            samples = {way: [] for way in WAYS}
            with tempfile.TemporaryDirectory() as cache:
                for turn in range(a.processes + 1):
                    for way, keep in WAYS.items():
                        with tempfile.TemporaryDirectory() as empty:
                            seconds = first_byte_seconds(a.program, model, threads, keep,
                                                         empty if way == "first" else cache)
                        if turn > 0:  # the first warms the page cache, and keeps the weights
                            samples[way].append(seconds)
            entry = dict(**bench.model_entry(model), threads=threads, first_token_seconds={
                way: bench.summary(seconds) for way, seconds in samples.items()})
            times = ", ".join(f"{way} {figures['median'] * 1e3:.1f} ms"
                              for way, figures in entry["first_token_seconds"].items())
            print(f"{entry['model']}, {threads} threads: first token after {times}", flush=True)
            results.append(entry)
    bench.write_results("start", a, dict(arguments=COMMAND), results, machine)


if __name__ == "__main__":
    main()
