#!/usr/bin/env python3
"""Our CPU engine against llama.cpp: same file, same threads, same ids, alternating processes.

Run by cpu_vs_llamacpp.sh, which builds what is needed. A ratio above 1 means that we are faster.
"""

import argparse
import pathlib
import sys

import bench

THEIRS = pathlib.Path(__file__).with_name("llamacpp_bench.py")

# Decoding is measured near the start of the context and behind a long prompt, where attention
# counts; the prompt rate is that of the long prompt. Ours reads all but the last prompt token (the
# pending root goes through with the first reply token), theirs reads all and makes the last row's
# logits: one part in 512.
SETTINGS = {"short": dict(prompt=16, gen=128), "long": dict(prompt=512, gen=64)}


def check_llamacpp_uses_this_cpu(system_info, flags):
    """A llama.cpp built for a lesser CPU would be an easy opponent."""
    wanted = {"avx2": "AVX2 = 1", "avx512f": "AVX512 = 1", "avx512_vnni": "AVX512_VNNI = 1"}
    for flag, feature in wanted.items():
        if flag in flags and feature not in system_info:
            sys.exit(f"this CPU has {flag}, but llama.cpp was built without it ({system_info}): "
                     "build llama-cpp-python with CMAKE_ARGS=-DGGML_NATIVE=on")


def compare(model, threads, a):
    entry = dict(**bench.model_entry(model), threads=threads)
    for name, setting in SETTINGS.items():
        flags = ["-m", model, "-t", threads, "--prompt", setting["prompt"], "--gen", setting["gen"],
                 "--repeats", a.repeats]
        outputs = bench.take_turns({"ours": [a.bench_decode, *flags],
                                    "llamacpp": [a.llamacpp_python, THEIRS, *flags]}, a.processes)
        entry["backend"] = outputs["ours"][0]["backend"]
        entry["llamacpp"] = outputs["llamacpp"][0]["backend"]
        entry["llamacpp_system_info"] = outputs["llamacpp"][0]["system_info"]
        for rate in ("decode_tok_s", "prefill_tok_s"):
            if name == "short" and rate == "prefill_tok_s":
                continue
            rates = {who: bench.summary([o[rate] for o in outputs[who]]) for who in outputs}
            ratio = round(rates["ours"]["median"] / rates["llamacpp"]["median"], 3)
            key = rate if rate == "prefill_tok_s" else f"{rate}_{name}"
            entry[key] = dict(**setting, **rates, ratio=ratio)
            ours, other = rates["ours"], rates["llamacpp"]
            print(f"{entry['model']:32} {threads} thr  {key:20} "
                  f"ours {ours['median']:8.1f} [{ours['min']:.1f}, {ours['max']:.1f}]  "
                  f"llama.cpp {other['median']:8.1f} [{other['min']:.1f}, {other['max']:.1f}]  "
                  f"ratio {ratio:.2f}", flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--name", default="cpu_vs_llamacpp", help="of the results")
    parser.add_argument("--bench-decode", required=True, help="our bench program")
    parser.add_argument("--llamacpp-python", required=True, help="Python with llama-cpp-python")
    bench.add_shared_flags(parser, repeats=3)
    a = parser.parse_args()

    machine = bench.hardware()
    info = bench.run_json([a.llamacpp_python, THEIRS, "--info"])
    check_llamacpp_uses_this_cpu(info["system_info"], machine["flags"])
    results = [compare(model, threads, a) for model in a.models for threads in a.threads]
    bench.write_results(a.name, a, SETTINGS, results, machine, script="cpu_vs_llamacpp")


if __name__ == "__main__":
    main()
