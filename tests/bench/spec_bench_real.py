"""Spec-Bench on real models: what tests/bench/spec_bench_real.sh runs.

Each question is answered plainly and by each drafter in turn, in one process (`specbound
spec-bench`), and every text must be plain decoding's. A question's speedup is its tokens a second
of wall time, prefill and decoding, over plain decoding's.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import bench

MODELS = {"smollm2-135m-instruct-q4_1": 480, "qwen2.5-coder-1.5b-instruct-q4_k_m": 120}
REMEMBER = "remember: --speculator auto --remember on"
DRAFTERS = ["auto", "ngram", "remember"]


def ask(flags, model, threads, temperature, file, limit, repeats):
    """The report of one run over questions of a file, and {drafter: {question: answer}}."""
    beside = ["--setting", REMEMBER] if "remember" in flags.drafters else []
    for heads in flags.heads:
        name = pathlib.Path(heads).name.split(".")[0]
        beside += ["--setting", f'{name}: --speculator auto --heads "{heads}"']
    if flags.draft_model:
        second = bench.fetched(flags.draft_model)
        beside += ["--setting", f'with-draft: --speculator auto --model-draft "{second}"',
                   "--setting", f'draft-alone: --speculator draft --model-draft "{second}"']
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        report, answers = folder / "report.json", folder / "answers"
        alone = bench.link_alone(model, folder)
        found = bench.spec_bench(
            [flags.specbound, "spec-bench", "-m", alone, "-f", file, "--limit", str(limit),
             "-n", str(flags.n), "-c", str(flags.ctx), "-t", str(threads),
             "--temp", str(temperature), "--seed", "1", "--repeats", str(repeats),
             "--compare", ",".join(d for d in flags.drafters if d != "remember"), *beside,
             "--fresh", "--out", answers], report)
        return found, {
            path.stem: {answer["question_id"]: answer["choices"][0]
                        for answer in map(json.loads, path.read_text().splitlines())}
            for path in answers.glob("*.jsonl")}


def speedups(answers, name):
    """{question: tokens a second of wall time over plain decoding's}"""
    def rate(choice):
        return sum(choice["new_tokens"]) / sum(choice["wall_time"])
    return {q: rate(choice) / rate(answers["plain"][q]) for q, choice in answers[name].items()}


def short_replies(answers, name):
    """Of replies under 32 tokens: how many, and their speedup together."""
    times = [(answers["plain"][q]["wall_time"][turn], choice["wall_time"][turn])
             for q, choice in answers[name].items()
             for turn, tokens in enumerate(choice["new_tokens"]) if tokens < 32]
    plain, drafted = (sum(side) for side in zip(*times)) if times else (0, 0)
    return dict(replies=len(times), speedup=round(plain / drafted, 3) if times else None)


def recheck(flags, model, threads, temperature, answers):
    """Of each drafter how many questions lose more than 2 %, and how many of these do again where
    all of them are written several times and the fastest counts. Noise hides losses as often as it
    makes some; this tells those that are none."""
    lost = {name: {q for q, s in speedups(answers, name).items() if s < 0.98}
            for name in answers if name != "plain"}
    every = set().union(*lost.values())
    if not every:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "questions.jsonl"
        lines = pathlib.Path(flags.file).read_text().splitlines(keepends=True)
        file.write_text("".join(q for q in lines if json.loads(q)["question_id"] in every))
        _, again = ask(flags, model, threads, temperature, file, len(every), flags.recheck)
    return {name: dict(lost=len(ids),
                       lost_again=sum(speedups(again, name)[q] < 0.98 for q in ids))
            for name, ids in lost.items()}


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
                right=[round(x, 4) for x in result["right"]],
                drafted=round(result["drafts_a_round"], 3), drafting=round(result["drafting"], 4),
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
    parser.add_argument("--recheck", type=int, default=0, metavar="N",
                        help="ask the questions that lose more than 2 %% again, N times each")
    parser.add_argument("--file", default=bench.SPEC_BENCH, type=pathlib.Path,
                        help="other questions, in Spec-Bench's form")
    parser.add_argument("--ctx", type=int, default=4096, help="tokens of context")
    parser.add_argument("--draft-model", metavar="NAME",
                        help="a model that models/fetch.py knows, in the tree and alone")
    parser.add_argument("--heads", metavar="FILE", nargs="+", default=[],
                        help="heads files to draft with too, each a row of that name")
    parser.add_argument("--output", default=bench.RESULTS / "spec_bench_real.json")
    flags = parser.parse_args()
    if "remember" in flags.drafters and max(flags.repeats, flags.recheck) > 1:
        parser.error("remember answers a question but once: leave it out of --drafters, or "
                     "--repeats and --recheck")
    machine, revision = bench.hardware(), bench.commit()
    results, identical = [], True
    for name in flags.models:
        model = bench.fetched(name)
        for threads in flags.threads:
            for temperature in flags.temperatures:
                limit = flags.questions or MODELS.get(name, 120)
                report, answers = ask(flags, model, threads, temperature, flags.file, limit,
                                       flags.repeats)
                identical = identical and report["identical"]
                found = [entry(r) for r in report["strategies"][0]["results"]]
                told = (recheck(flags, model, threads, temperature, answers) if flags.recheck
                        else {})
                for f in found:
                    f["questions"].update(told.get(f["drafter"], {}))
                    f["short_replies"] = short_replies(answers, f["drafter"])
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
               *(["--recheck", flags.recheck] if flags.recheck else []),
               *(["--drafters", *flags.drafters] if flags.drafters != DRAFTERS else []),
               *(["--file", flags.file.name] if flags.file != bench.SPEC_BENCH else []),
               *(["--draft-model", flags.draft_model] if flags.draft_model else []),
               *(["--heads", *(pathlib.Path(file).name for file in flags.heads)]
                 if flags.heads else [])]
    bench.write_report(pathlib.Path(flags.output), "spec_bench_real", command, machine,
                       revision, settings=dict(n_predict=flags.n, repeats=flags.repeats,
                                               recheck=flags.recheck), results=results)
    sys.exit(0 if identical else 1)


if __name__ == "__main__":
    main()
