#!/usr/bin/env python3
"""Microseconds of what decoding on a GPU is made of, and how far they are from the targets:
bandwidth and gaps of the machine, then every kernel at the 1B, 7B and 13B shapes for 1..16 rows.

`packaging/gpu_session.sh --stage bench` runs it on a machine with a GPU. Writes gpu_kernels.json
into $OUT, or into tests/bench/results/.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

import bench

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True, help="the bench program gpu_kernels")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=480,
                        help="no further process is started that would end after these")
    parser.add_argument("--samples", type=int, default=10, help="of each figure in a process")
    parser.add_argument("--shape", choices=["1b", "7b", "13b"], help="default: all")
    parser.add_argument("--only", default="", help="kernels whose name has this")
    parser.add_argument("--commit", help="of the program, when it was built elsewhere")
    a = parser.parse_args()

    machine, start, outputs = bench.hardware(), time.monotonic(), []
    command = [a.program, "--samples", a.samples]
    command += ["--only", a.only] if a.only else []
    command += ["--shape", a.shape] if a.shape else []
    while len(outputs) < a.processes:
        elapsed = time.monotonic() - start
        if outputs and elapsed * (len(outputs) + 1) / len(outputs) > a.seconds:
            print(f"{len(outputs)} of {a.processes} processes: time is over", file=sys.stderr)
            break
        outputs.append(bench.run_json(command))
    joined = join(outputs)
    targets = against_targets(joined["kernels"])
    print_tables(joined["machine"], joined["kernels"], targets)
    folder = pathlib.Path(os.environ["OUT"]) if os.environ.get("OUT") else bench.RESULTS
    for k in joined["kernels"]:
        k["rows"] = {key: [row[key] for row in k["rows"]] for key in ("m", "us", "min", "max")}
    shown = ["gpu_kernels", *command[1:]]  # wherever it lies
    bench.write_report(folder / "gpu_kernels.json", "gpu_kernels", shown, machine, a.commit,
                       settings=dict(processes=len(outputs), samples=a.samples,
                                     statistic="median over processes of the median in each"),
                       gpu=joined["device"], basics=joined["machine"], targets=targets,
                       results=joined["kernels"])


if __name__ == "__main__":
    main()
