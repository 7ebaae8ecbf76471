#!/usr/bin/env python3
"""Microseconds of what decoding on a GPU is made of, and how far they are from the targets:
bandwidth and gaps of the machine, then every kernel at the 1B, 7B and 13B shapes for 1..16 rows.

`packaging/gpu_session.sh --stage bench` runs it on a machine with a GPU. Writes gpu_kernels.json
into $OUT, or into tests/bench/results/, anew after each process, of which every one measures one
shape.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

import bench

SHAPES = ("7b", "1b", "13b")
# The issue's, for the 7B shape.
LAYER_BESIDE_READING_US = 12
VERIFY = {8: 1.06, 16: 1.15}
EXTREMES = {"min": min, "max": max}


def join(outputs, statistic=statistics.median):
    """The programs' outputs as one: of each figure the median, of `min` the least, of `max` the
    most."""
    first = outputs[0]
    if isinstance(first, dict):
        return {key: join([o[key] for o in outputs], EXTREMES.get(key, statistics.median))
                for key in first}
    if isinstance(first, list):
        return [join(list(parts)) for parts in zip(*outputs)]
    if isinstance(first, float):
        return float(f"{statistic(outputs):.5g}")
    return first


def time_of(kernel, m):
    return next(row["us"] for row in kernel["rows"] if row["m"] == m)


def against_targets(kernels):
    """[{shape, dtype, what, value, target, met}] for each shape and type of weights."""
    found = []
    for shape in dict.fromkeys(k["shape"] for k in kernels):
        for dtype in ("i8", "f16"):
            ours = [k for k in kernels if k["shape"] == shape and k["kernel"].startswith(dtype)]
            target_of = lambda value: value if shape == "7b" else None
            for layer in (k for k in ours if k["kind"] == "layer"):
                found.append(dict(shape=shape, dtype=dtype,
                                  what=f"{layer['kernel']}: us beside reading",
                                  value=round(time_of(layer, 1) - layer["read_us"], 2),
                                  target=target_of(LAYER_BESIDE_READING_US)))
            matmuls = [k for k in ours if k["kind"] == "matmul" and "lm_head" not in k["kernel"]]
            if not matmuls:
                continue
            one = sum(time_of(k, 1) for k in matmuls)
            reading = sum(k["read_us"] for k in matmuls)
            found.append(dict(shape=shape, dtype=dtype, what="matmuls of a layer / reading",
                              value=round(one / reading, 3), target=None))
            for m, most in VERIFY.items():
                ratio = sum(time_of(k, m) for k in matmuls) / one
                found.append(dict(shape=shape, dtype=dtype, what=f"verify({m}) / decode(1)",
                                  value=round(ratio, 3), target=target_of(most)))
    for entry in found:
        if entry["target"] is not None:
            entry["met"] = entry["value"] <= entry["target"]
    return found


def print_tables(machine, kernels, targets):
    print(f"read {machine['read']['gb_s']:.0f} GB/s, copy {machine['copy']['gb_s']:.0f} GB/s; "
          f"a kernel in a graph {machine['launch']['one_block']['graph']['us']:.2f} us, "
          f"on a stream {machine['launch']['one_block']['stream']['us']:.2f} us; "
          f"an IF node {machine['if_node']['skipped']['beside_kernels_us']:.2f} us skipped, "
          f"{machine['if_node']['taken']['beside_kernels_us']:.2f} us taken; "
          f"a host decision {machine['host_decision']['us']:.2f} us\n")
    print(f"{'':4} {'kernel':28} {'reading':>9} {'1 row':>9} {'/reading':>9} {'8 rows':>7} "
          f"{'16 rows':>7}")
    for k in kernels:
        first = k["rows"][0]["us"]
        line = f"{k['shape']:4} {k['kernel']:28} {k['read_us']:9.2f} {first:9.2f} "
        line += f"{first / k['read_us']:9.2f}" if k["read_us"] > 0 else f"{'':9}"
        if len(k["rows"]) >= 16:
            line += f" {time_of(k, 8) / first:6.2f}x {time_of(k, 16) / first:6.2f}x"
        if "operations" in k:
            line += f"  512 rows, {k['operations'] / first / 1e6:.0f} TOP/s"
        print(line)
    print()
    for t in targets:
        verdict = "" if t["target"] is None else (
            f"  (target {t['target']}: {'met' if t['met'] else 'MISSED'})")
        print(f"{t['shape']:4} {t['dtype']:4} {t['what']:40} {t['value']:8}{verdict}")


def summed_up(outputs):
    """What the machine and the kernels take, and against_targets(), of {shape: [output]}."""
    basics = join([output["machine"] for shape in outputs.values() for output in shape])
    kernels = [k for shape in outputs.values() for k in join([o["kernels"] for o in shape])]
    return basics, kernels, against_targets(kernels)


def write(command, machine, flags, gpu, outputs, basics, kernels, targets):
    results = [{**k, "rows": {key: [row[key] for row in k["rows"]]
                              for key in ("m", "us", "min", "max")}} for k in kernels]
    bench.write_report(
        bench.results_folder() / "gpu_kernels.json", "gpu_kernels", command, machine, flags.commit,
        settings=dict(processes={shape: len(done) for shape, done in outputs.items()},
                      samples=flags.samples,
                      statistic="median over processes of the median in each"),
        gpu=gpu, basics=basics, targets=targets, results=results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True, help="the bench program gpu_kernels")
    parser.add_argument("--processes", type=int, default=3, help="of each shape")
    parser.add_argument("--seconds", type=float, default=480, help="what it may take in all")
    parser.add_argument("--samples", type=int, default=10, help="of each figure in a process")
    parser.add_argument("--shape", choices=SHAPES, help="default: all, 7b first")
    parser.add_argument("--only", default="", help="kernels whose name has this")
    parser.add_argument("--commit", help="of the program, when it was built elsewhere")
    a = parser.parse_args()

    machine, start, outputs = bench.hardware(), time.monotonic(), {}
    options = ["--samples", a.samples, *(["--only", a.only] if a.only else [])]
    turns = [shape for _ in range(a.processes) for shape in ([a.shape] if a.shape else SHAPES)]
    for done, shape in enumerate(turns):
        left = a.seconds - (time.monotonic() - start)
        try:
            found = bench.run_json([a.program, *options, "--shape", shape], max(0, left))
        except subprocess.TimeoutExpired:
            print(f"{done} of {len(turns)} processes: time is over", file=sys.stderr)
            break
        outputs.setdefault(shape, []).append(found)
        basics, kernels, targets = summed_up(outputs)
        write(["gpu_kernels", *options], machine, a, found["device"], outputs, basics, kernels,
              targets)
    if outputs:
        print_tables(basics, kernels, targets)
    else:
        print(f"SKIP gpu_kernels: no process was done within {a.seconds:.0f} s")


if __name__ == "__main__":
    main()
