#!/usr/bin/env python3
"""What `--kv int8` costs and gives beside FP16. Run by kv.sh, which builds what is needed.

  perplexity  `specbound ppl` of tests/data/dialogue-valid as one plain text, in windows as
              llama-perplexity defines them, as long as the context: later tokens see many keys
  decode      `specbound bench`: tokens a second of plain decoding behind so many positions, the two
              in processes that take turns
  memory      bytes of K and V a token, by `specbound info`
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench

DIALOGUES = bench.ROOT / "tests" / "data" / "dialogue-valid" / "dialogue-valid.jsonl"
ROLES = {"user": "USER", "assistant": "ASSISTANT", "system": "SYSTEM"}
TYPES = ("fp16", "int8")
GEN = 32


def output_of(arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def chunks(a):
    return ["--chunks", a.chunks] if a.chunks else []


def perplexity(a, model, context, text, folder):
    out = pathlib.Path(folder, "ppl.json")
    result = {}
    for kv in TYPES:
        output_of([a.program, "ppl", "-m", model, "-f", text, "-c", context, "-t", a.threads,
                   *chunks(a), "--device", "cpu", "--kv", kv, "--json", out])
        data = json.loads(out.read_text())
        result["scored"] = data["scored"]
        result[kv] = dict(perplexity=round(data["results"][0]["perplexity"], 5),
                          error=round(data["results"][0]["perplexity_error"], 5))
    result["int8_over_fp16"] = round(
        result["int8"]["perplexity"] / result["fp16"]["perplexity"] - 1, 7)
    return result


def decode(a, model, depths):
    rates = {(kv, depth): [] for kv in TYPES for depth in depths}
    backends = {}
    for turn in range(a.processes):
        for kv in TYPES if turn % 2 == 0 else reversed(TYPES):
            report = json.loads(output_of(
                [a.program, "bench", "-m", model, "-t", a.threads, "-p", 0, "-n", GEN, "-d",
                 ",".join(map(str, depths)), "-r", a.repeats, "--device", "cpu", "--kv", kv, "-o",
                 "json"]))
            for test in report["models"][0]["results"]:
                rates[kv, test["n_depth"]].append(statistics.median(test["samples_ts"]))
                backends[kv] = test["device"]
    results = []
    for depth in depths:
        pairs = zip(rates["int8", depth], rates["fp16", depth])
        results.append(dict(
            depth=depth, int8_over_fp16=round(statistics.median(i / f for i, f in pairs), 4),
            **{kv: bench.summary(rates[kv, depth]) for kv in TYPES}))
    return dict(devices=backends, tokens=GEN, at=results)


def measure(a, model, text, folder):
    config = json.loads(output_of([a.program, "info", "-m", model, "--json"]))["config"]
    context = min(config["max_seq_len"], 2048)
    depths = [d for d in (0, 512, 2048, 4000) if d + GEN < config["max_seq_len"]]
    entry = dict(**bench.model_entry(model), kv_bytes_per_token=dict(
        fp16=config["kv_cache_bytes_per_token"], int8=config["kv_cache_int8_bytes_per_token"]),
        perplexity=dict(window=context, **perplexity(a, model, context, text, folder)),
        decode=decode(a, model, depths))
    ppl = entry["perplexity"]
    print(f"{entry['model']}: perplexity {ppl['fp16']['perplexity']} / {ppl['int8']['perplexity']} "
          f"({100 * ppl['int8_over_fp16']:+.3f} %); decode, int8 over fp16: " + ", ".join(
              f"behind {d['depth']} {d['int8_over_fp16']:.2f} ({d['fp16']['median']:.0f} to "
              f"{d['int8']['median']:.0f} tok/s)" for d in entry["decode"]["at"]), flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True, help="our program")
    parser.add_argument("--demo", type=pathlib.Path, required=True, help="the demo model")
    parser.add_argument("--processes", type=int, default=5, help="of each type")
    parser.add_argument("--repeats", type=int, default=3, help="measured runs in a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=0, help="windows (default 0: all)")
    parser.add_argument("--output", type=pathlib.Path, default=bench.RESULTS / "kv.json")
    parser.add_argument("models", nargs="*", default=["smollm2-135m-instruct-q4_1"])
    a = parser.parse_args()

    machine = bench.hardware()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "dialogues.txt")
        dialogues = [json.loads(line) for line in DIALOGUES.read_text().splitlines()]
        text.write_text("".join(f"{ROLES[m['role']]}: {m['content']}\n"
                                for d in dialogues for m in d))
        results = [measure(a, model, text, folder)
                   for model in (a.demo, *map(bench.fetched, a.models))]
    bench.write_report(a.output, "kv",
                       ["tests/bench/kv.sh", "--processes", a.processes, "--repeats", a.repeats,
                        "--threads", a.threads, *chunks(a), *a.models], machine,
                       settings=dict(threads=a.threads, processes=a.processes, repeats=a.repeats,
                                     statistic="median over processes of the median in each"),
                       results=results)


if __name__ == "__main__":
    main()
