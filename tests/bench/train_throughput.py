#!/usr/bin/env python3
"""Training of exit heads: ours with OpenBLAS, ours with our own kernels, plain PyTorch, in turns.
And the hidden states that it learns from: rows of several texts in passes of up to 512, and 16 rows
of one text in each, as a backend has them that shows no more between layers.

Rows times heads a second; a step of a chained head counts as one. Hidden states: tokens of texts a
second, a third of each being prompt. Run by train_throughput.sh, which builds what is needed.
"""

import argparse
import pathlib

import bench

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-train", required=True, help="our bench program")
    parser.add_argument("--python", required=True, help="a Python that has torch")
    parser.add_argument("--processes", type=int, default=5, help="of each program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--shortlist", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--models", nargs="+", metavar="NAME",
                        default=["smollm2-135m-instruct-q4_1"],
                        help="whose hidden states are made, as models/fetch.py knows them")
    parser.add_argument("--lengths", type=int, nargs="+", default=[60, 800], help="of their texts")
    parser.add_argument("--seconds", type=int, default=8, help="of each of their runs")
    parser.add_argument("--output", type=pathlib.Path,
                        default=bench.RESULTS / "train_throughput.json")
    a = parser.parse_args()

    machine = bench.hardware()
    shape = ["--rows", a.rows, "--shortlist", a.shortlist, "--batch", a.batch]
    flags = [*shape, "-t", a.threads]
    outputs = bench.take_turns({
        "ours": [a.bench_train, *flags],
        "ours, own kernels": [a.bench_train, *flags, "--own"],
        "PyTorch": [a.python, HERE / "torch_heads.py", *flags],
    }, a.processes)
    results = []
    for name, runs in outputs.items():
        rate = bench.summary([run["tokens_x_layers_per_second"] for run in runs])
        results.append(dict(program=name, arithmetic=runs[0]["arithmetic"],
                            tokens_x_layers_per_second=rate))
        print(f"{name} ({runs[0]['arithmetic']}): {rate['median']:.0f} tokens x layers a second")
    for name in a.models:
        model = bench.fetched(name)
        for length in a.lengths:
            run = [a.bench_train, "--features", model, "--length", length, "--seconds", a.seconds,
                   "-t", a.threads]
            outputs = bench.take_turns({"chunks of several texts": run,
                                        "slots of one text": [*run, "--slots"]}, a.processes)
            for program, runs in outputs.items():
                rate = bench.summary([run["tokens_per_second"] for run in runs])
                results.append(dict(program=f"hidden states, {program}",
                                    **bench.model_entry(model), text_tokens=length,
                                    tokens_per_second=rate))
                print(f"hidden states of {model.name}, texts of {length}, {program}: "
                      f"{rate['median']:.0f} tokens a second")
    command = ["tests/bench/train_throughput.sh", "--processes", a.processes, *shape, "--threads",
               a.threads, "--models", *a.models, "--lengths", *a.lengths, "--seconds", a.seconds]
    bench.write_report(
        a.output, "train_throughput", command, machine,
        settings=dict(rows=a.rows, shortlist=a.shortlist, batch=a.batch, threads=a.threads, dim=256,
                      heads="chained at 0 (three steps), folded at 2, 4, 8",
                      hidden_states="at layers 0 and the last", processes=a.processes,
                      statistic="median over processes"),
        results=results)


if __name__ == "__main__":
    main()
