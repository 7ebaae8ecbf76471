#!/usr/bin/env python3
"""From the start of the process to the first byte of the reply, page cache warm.

Run by start.sh, which builds what is needed.
"""

import argparse
import subprocess
import time

import bench

COMMAND = ["run", "--raw", "-p", "I need a table for two tonight.", "-n", "8", "--temp", "0"]


def first_byte_seconds(program, model, threads):
    start = time.perf_counter()
    process = subprocess.Popen([program, *COMMAND, "-m", model, "-t", str(threads)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
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
            first_byte_seconds(a.program, model, threads)  # warms the page cache
            samples = [first_byte_seconds(a.program, model, threads) for _ in range(a.processes)]
            entry = dict(**bench.model_entry(model), threads=threads,
                         first_token_seconds=bench.summary(samples))
            print(f"{entry['model']}, {threads} threads: first token after "
                  f"{entry['first_token_seconds']['median'] * 1e3:.1f} ms", flush=True)
            results.append(entry)
    bench.write_results("start", a, dict(arguments=COMMAND), results, machine)


if __name__ == "__main__":
    main()
