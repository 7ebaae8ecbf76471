#!/usr/bin/env python3
"""Our GPU engine against llama.cpp's: same card, same files, alternating processes.

    gpu_vs_llamacpp.py --program specbound --llama-bench llama-bench [--types q8_0 ...]
        [--models FILE...] [--processes N] [--repetitions N]

Both programs bench themselves with the same flags: a prompt of 512, and 128 tokens from the start
of the context, where llama.cpp needs no flash attention. --types: 7B models of random weights,
made in a temporary folder. Writes gpu_vs_llamacpp.json into $OUT, or into
tests/bench/results/, anew after each model. Leave the GPU alone while it runs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import bench

SHAPE = ["--layers", 32, "--dim", 4096, "--ffn", 11008, "--heads", 32, "--kv-heads", 32, "--alike"]
TESTS = ["-p", 512, "-n", 128]
NAMES = {"pp512": "prompt_tok_s", "tg128": "decode_tok_s"}


def ours(model, a):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "bench.json"
        command = [a.program, "bench", "-m", model, "--device", "cuda", *TESTS, "-r", a.repetitions,
                   "--json", out]
        run(command)
        found, = json.loads(out.read_text())["models"]
    return found["backend"], {r["test"]: r["avg_ts"] for r in found["results"]}


def theirs(model, a):
    # -fa 0: a build without its flash attention has no other way, and it decides little here.
    command = [a.llama_bench, "-m", model, "-ngl", 99, "-fa", "off", *TESTS, "-r", a.repetitions,
               "-o", "json"]
    found = json.loads(run(command))
    names = {f"pp{r['n_prompt']}" if r["n_prompt"] else f"tg{r['n_gen']}": r["avg_ts"]
             for r in found}
    return f"llama.cpp {found[0]['build_commit']}, {found[0]['backends']}", names


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def compare(model, a):
    samples, who = {}, {"ours": ours, "llamacpp": theirs}
    entry = bench.model_entry(model)
    for turn in range(a.processes):
        for name in list(who) if turn % 2 == 0 else reversed(who):
            entry[name], rates = who[name](model, a)
            for test, rate in rates.items():
                samples.setdefault(test, {}).setdefault(name, []).append(rate)
    for test, rates in samples.items():
        found = {name: bench.summary(r) for name, r in rates.items()}
        ratio = round(found["ours"]["median"] / found["llamacpp"]["median"], 3)
        entry[NAMES[test]] = dict(**found, ratio=ratio)
        print(f"{entry['model']:40} {test}: ours {found['ours']['median']:9.1f}  "
              f"llama.cpp {found['llamacpp']['median']:9.1f}  ratio {ratio:.2f}", flush=True)
    return entry


def made(kind, folder):
    path = pathlib.Path(folder) / f"7b-{kind}.gguf"
    maker = bench.ROOT / "tests" / "bench" / "make_random_model.py"
    run([sys.executable, maker, path, "--type", kind, *SHAPE])
    return path


def write(machine, a, results):
    bench.write_report(
        bench.results_folder() / "gpu_vs_llamacpp.json", "gpu_vs_llamacpp",
        ["tests/bench/gpu_vs_llamacpp.py"],
        machine, a.commit,
        settings=dict(tests=TESTS, processes=a.processes, repetitions=a.repetitions,
                      statistic="median over processes of the mean in each",
                      note="7b-*: random weights, matrices of one shape alike; llama.cpp built for "
                           "this card without its flash attention kernels"),
        results=results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True, help="specbound, with the GPU engine")
    parser.add_argument("--llama-bench", required=True, help="llama.cpp's, built with CUDA")
    parser.add_argument("--types", nargs="*", default=[], help="of 7B models of random weights")
    parser.add_argument("--models", nargs="*", default=[], type=pathlib.Path)
    parser.add_argument("--folder", help="for models that are made, as /dev/shm")
    parser.add_argument("--processes", type=int, default=3, help="of each program and model")
    parser.add_argument("--repetitions", type=int, default=5, help="in each process")
    parser.add_argument("--commit", help="of the program, when it was built elsewhere")
    a = parser.parse_args()
    machine, results = bench.hardware(), []
    for kind in [*a.models, *a.types]:
        with tempfile.TemporaryDirectory(dir=a.folder) as folder:
            try:
                results.append(compare(kind if kind in a.models else made(kind, folder), a))
            except RuntimeError as error:  # the other models are still worth having
                print(error, file=sys.stderr)
                results.append(dict(model=str(kind), error=str(error)))
        write(machine, a, results)
    if not any("error" not in r for r in results):
        sys.exit("nothing could be measured")


if __name__ == "__main__":
    main()
