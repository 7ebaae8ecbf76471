"""The paper's Figures 3 and 4 on a real model: what tests/bench/figures_real.sh runs.

spec_bench_sweep.py measures: every question is answered plainly and by each setting in turn, in one
process, and a text that is not plain decoding's fails it.
"""

import argparse
import pathlib
import tempfile

import bench
import spec_bench_sweep


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specbound", required=True)
    parser.add_argument("--figures", type=pathlib.Path, required=True,
                        help="folder for the SVGs and answers")
    parser.add_argument("--heads", required=True)
    parser.add_argument("--learnt")
    parser.add_argument("--model", default="smollm2-135m-instruct-q4_1")
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--output", type=pathlib.Path,
                        default=bench.RESULTS / "figures_real.json")
    flags = parser.parse_args()
    machine, revision = bench.hardware(), bench.commit()
    model = bench.fetched(flags.model)
    with tempfile.TemporaryDirectory() as folder:
        told = spec_bench_sweep.sweep(
            flags.specbound,
            ["-m", bench.link_alone(model, folder), "-f", bench.SPEC_BENCH, "--limit",
             flags.questions, "-n", flags.n, "-c", "4096", "-t", flags.threads, "--fresh",
             "--speculator", "specbound", "--preset", "paper", "--head", "full", "--heads",
             flags.heads], flags.figures)
    print(spec_bench_sweep.sweep_table(told["sweep"]), end="")
    command = ["tests/bench/figures_real.sh", "--heads", pathlib.Path(flags.heads).name, "--model",
               flags.model, "--questions", flags.questions, "--threads", flags.threads, "-n",
               flags.n, *(["--learnt", flags.learnt] if flags.learnt else [])]
    bench.write_report(flags.output, "figures_real", command, machine, revision,
                       settings=dict(n_predict=flags.n, learnt=flags.learnt),
                       results=[dict(**bench.model_entry(model), threads=flags.threads,
                                     questions=told["questions"], turns=told["turns"],
                                     identical=told["identical"], **told["sweep"])])


if __name__ == "__main__":
    main()
