"""Spec-Bench on real models: what tests/bench/spec_bench_real.sh runs.

Each question is answered plainly and by each drafter in turn, in one process (`specbound
spec-bench`), and every text must be plain decoding's. A question's speedup is its tokens a second
of wall time, prefill and decoding, over plain decoding's.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench

MODELS = {"smollm2-135m-instruct-q4_1": 480, "qwen2.5-coder-1.5b-instruct-q4_k_m": 120}
REMEMBER = "remember: --speculator auto --remember on"
DRAFTERS = ["auto", "ngram", "remember"]


def run(specbound, model, questions, threads, temperature, flags):
    beside = ["--setting", REMEMBER] if "remember" in flags.drafters else []
    for file in flags.heads:
        name = pathlib.Path(file).name.split(".")[0]
        beside += ["--setting", f"{name}: --speculator auto --heads {file}"]
    if flags.draft_model:
        second = bench.fetched(flags.draft_model)
        beside += ["--setting", f"with-draft: --speculator auto --model-draft {second}",
                   "--setting", f"draft-alone: --speculator draft --model-draft {second}"]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        alone = bench.link_alone(model, folder)
        subprocess.run(
            [specbound, "spec-bench", "-m", alone, "-f", flags.file, "--limit", str(questions),
             "-n", str(flags.n), "-c", str(flags.ctx), "-t", str(threads),
             "--temp", str(temperature), "--seed", "1", "--repeats", str(flags.repeats),
             "--compare", ",".join(d for d in flags.drafters if d != "remember"), *beside,
             "--fresh", "--out", pathlib.Path(folder) / "answers", "--json", report],
            check=True, stdout=sys.stderr)
        return json.loads(report.read_text())


def losses(speedups):
    """Of the questions: the 5th percentile, and how many lose more than 2 %."""
    ordered = sorted(speedups)
    return dict(p05=round(ordered[len(ordered) // 20], 3), least=round(ordered[0], 3),
                median=round(statistics.median(ordered), 3),
                share_below_098=round(sum(s < 0.98 for s in ordered) / len(ordered), 4))


def entry(result):
    figures = result["overall"]
    return dict(drafter=result["name"], compression_rate=round(figures["compression_rate"], 3),
                decode_speedup=round(figures["decode_speedup"], 3),
                decode_interval=[round(x, 3) for x in figures["decode_speedup_interval_95"]],
                speedup=round(figures["speedup"], 3),
                interval=[round(x, 3) for x in figures["speedup_interval_95"]],
                questions=losses(result["speedups"]),
                tasks={task: dict(decode_speedup=round(f["decode_speedup"], 3),
                                  speedup=round(f["speedup"], 3))
                       for task, f in result["tasks"].items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specbound", required=True)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--questions", type=int, help="of each model (default: 480, or 120)")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0, 0.7])
    parser.add_argument("--drafters", nargs="+", default=DRAFTERS,
                        help="of spec-bench's --compare, or remember (default: %(default)s)")
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=1,
                        help="of each reply, the fastest counts (not with remember)")
    parser.add_argument("--file", default=bench.SPEC_BENCH, type=pathlib.Path,
                        help="other questions, in Spec-Bench's form")
    parser.add_argument("--ctx", type=int, default=4096, help="tokens of context")
    parser.add_argument("--draft-model", metavar="NAME",
                        help="a model that models/fetch.py knows, in the tree and alone")
    parser.add_argument("--heads", metavar="FILE", nargs="+", default=[],
                        help="heads files to draft with too, each a row of that name")
    parser.add_argument("--output", default=bench.RESULTS / "spec_bench_real.json")
    flags = parser.parse_args()
    machine, revision = bench.hardware(), bench.commit()
    results, identical = [], True
    for name in flags.models:
        model = bench.fetched(name)
        for threads in flags.threads:
            for temperature in flags.temperatures:
                count = flags.questions or MODELS.get(name, 120)
                report = run(flags.specbound, model, count, threads, temperature, flags)
                identical = identical and report["identical"]
                found = [entry(r) for r in report["strategies"][0]["results"]]
                results.append(dict(**bench.model_entry(model), threads=threads,
                                    temperature=temperature, questions=report["questions"],
                                    turns=report["turns"], identical=report["identical"],
                                    drafters=found))
                for f in found:
                    print(f"{name} t{threads} T{temperature:g} {f['drafter']:9}: decoding "
                          f"{f['decode_speedup']:.2f}x, in all {f['speedup']:.2f}x, CR "
                          f"{f['compression_rate']:.2f}, 5 % of questions below "
                          f"{f['questions']['p05']:.2f}x, {f['questions']['share_below_098']:.1%} "
                          f"below 0.98x")
    command = ["tests/bench/spec_bench_real.sh", "--models", *flags.models, "--threads",
               *flags.threads, "--temperatures", *flags.temperatures, "-n", flags.n,
               *(["--questions", flags.questions] if flags.questions else []),
               *(["--repeats", flags.repeats] if flags.repeats > 1 else []),
               *(["--drafters", *flags.drafters] if flags.drafters != DRAFTERS else []),
               *(["--file", flags.file.name] if flags.file != bench.SPEC_BENCH else []),
               *(["--draft-model", flags.draft_model] if flags.draft_model else []),
               *(["--heads", *(pathlib.Path(file).name for file in flags.heads)]
                 if flags.heads else [])]
    bench.write_report(pathlib.Path(flags.output), "spec_bench_real", command, machine,
                       revision, settings=dict(n_predict=flags.n, repeats=flags.repeats),
                       results=results)
    sys.exit(0 if identical else 1)


if __name__ == "__main__":
    main()
