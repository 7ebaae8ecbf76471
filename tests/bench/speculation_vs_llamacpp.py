"""Real models, plain and with speculation, against llama.cpp: what speculation_vs_llamacpp.sh runs.

Each question goes to every way of decoding, ours and llama.cpp's in turn, the first to go changing
from question to question. A figure is the sum of tokens over the sum of seconds; of ours all that a
reply takes behind the prompt is on the clock, of llama.cpp's its passes alone.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import bench
from cpu_vs_llamacpp import check_llamacpp_uses_this_cpu

HERE = pathlib.Path(__file__).parent
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
CONTEXT = 4096


def prompts(path, count):
    """Every task's share of `count`, as ChatML, which all models of fetch.py have."""
    questions = [json.loads(line) for line in path.open()]
    step = max(len(questions) // count, 1)
    return [CHATML.format(q["turns"][0]) for q in questions[step // 2::step][:count]]


class Ours:
    def __init__(self, specbound, model, flags):
        self.command = [specbound, "run", "-m", model, "-t", str(flags.threads), "-n", str(flags.n),
                        "-c", str(CONTEXT), "--temp", "0", "--raw", "--parse-special"]
        self.folder = tempfile.TemporaryDirectory()

    def reply(self, way, prompt):
        stats = pathlib.Path(self.folder.name) / "stats.json"
        text = subprocess.run([*self.command, "-p", prompt, "--stats-json", stats, *way],
                              check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout
        found = json.loads(stats.read_text())
        # A pass gave the end token too, which theirs counts.
        ended = found["stop_reason"] == "end"
        return dict(text=text, tokens=found["generated_tokens"] + ended,
                    decode=found["decode_seconds"],
                    prompt=found["prefilled_tokens"], prefill=found["prefill_seconds"])


class Theirs:
    def __init__(self, python, specbound, model, draft, flags):
        self.tokenize = [specbound, "tokenize", "-m", model, "--special", "-p"]
        self.program = subprocess.Popen(
            [python, HERE / "llamacpp_speculation.py", "-m", model, "-t", str(flags.threads), "-n",
             str(flags.n), "-c", str(CONTEXT), *(["--draft", draft] if draft else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def reply(self, way, prompt):
        ids = subprocess.run([*self.tokenize, prompt], check=True, capture_output=True, text=True)
        ids = [int(i) for i in ids.stdout.split()]
        self.program.stdin.write(json.dumps(dict(way=way, ids=ids)) + "\n")
        self.program.stdin.flush()
        found = json.loads(self.program.stdout.readline())
        # The first token comes with the prompt, as ours does not: passes give the others.
        return dict(text=found["ids"], tokens=len(found["ids"]) - 1, decode=found["decode"],
                    prompt=len(ids), prefill=found["prefill"])

    def end(self):
        self.program.stdin.close()
        self.program.wait()


def measure(name, flags):
    model = bench.fetched(name)
    draft = bench.fetched(flags.draft_model) if flags.draft_model else None
    with tempfile.TemporaryDirectory() as folder:
        alone = bench.link_alone(model, folder)
        ours = Ours(flags.specbound, alone, flags)
        theirs = Theirs(flags.llamacpp_python, flags.specbound, alone, draft, flags)
        ways = {"SpecBound, plain": (ours, ["--spec", "off"]),
                "SpecBound, auto": (ours, ["--speculator", "auto"])}
        if flags.heads:
            ways["SpecBound, auto with heads"] = (ours, ["--heads", flags.heads])
        if draft:
            ways["SpecBound, auto with draft model"] = (ours, ["--model-draft", draft])
        for way in ("plain", "lookup-2", "lookup-10", *(["draft"] if draft else [])):
            ways[f"llama.cpp, {way}"] = (theirs, way)
        replies = {way: [] for way in ways}
        for i, prompt in enumerate(prompts(flags.file, flags.questions)):
            for way in (ways if i % 2 == 0 else reversed(ways)):
                engine, arguments = ways[way]
                replies[way].append(engine.reply(arguments, prompt))
        theirs.end()
    return dict(**bench.model_entry(model), threads=flags.threads,
                questions=len(replies["SpecBound, plain"]), ways=figures(replies))


def figures(replies):
    def rate(found, count, seconds):
        return sum(r[count] for r in found) / sum(r[seconds] for r in found)

    base = rate(replies["llama.cpp, plain"], "tokens", "decode")
    result = {}
    for way, found in replies.items():
        plain = replies[way.split(",")[0] + ", plain"]
        decode = rate(found, "tokens", "decode")
        own = rate(plain, "tokens", "decode")
        per_question = [r["tokens"] / r["decode"] / (p["tokens"] / p["decode"])
                        for r, p in zip(found, plain) if r["tokens"] > 0 and p["tokens"] > 0]
        same = sum(r["text"] == p["text"] for r, p in zip(found, plain))
        result[way] = dict(
            decode_tok_s=round(decode, 1), over_llamacpp_plain=round(decode / base, 3),
            over_own_plain=round(decode / own, 3),
            lost_questions=round(sum(s < 0.98 for s in per_question) / len(per_question), 3),
            prefill_tok_s=round(rate(found, "prompt", "prefill"), 1),
            texts_as_plain=f"{same} of {len(found)}")
        print(f"{way:34} {decode:7.1f} tok/s, {decode / base:.2f}x llama.cpp, {decode / own:.2f}x "
              f"its own plain, prompt {result[way]['prefill_tok_s']:7.1f} tok/s, "
              f"{same} of {len(found)} texts as plain", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specbound", required=True)
    parser.add_argument("--llamacpp-python", required=True)
    parser.add_argument("--models", nargs="+", default=["smollm2-135m-instruct-q4_1"])
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--file", default=bench.SPEC_BENCH, type=pathlib.Path,
                        help="other questions, in Spec-Bench's form")
    parser.add_argument("--draft-model", metavar="NAME", help="that models/fetch.py knows")
    parser.add_argument("--heads", metavar="FILE", help="a heads file to draft with too")
    parser.add_argument("--output", default=bench.RESULTS / "speculation_vs_llamacpp.json")
    flags = parser.parse_args()
    machine = bench.hardware()
    info = bench.run_json([flags.llamacpp_python, HERE / "llamacpp_bench.py", "--info"])
    check_llamacpp_uses_this_cpu(info["system_info"], machine["flags"])
    results = [measure(name, flags) for name in flags.models]
    command = ["tests/bench/speculation_vs_llamacpp.sh", "--models", *flags.models, "--questions",
               flags.questions, "--threads", flags.threads, "-n", flags.n,
               *(["--file", flags.file.name] if flags.file != bench.SPEC_BENCH else []),
               *(["--draft-model", flags.draft_model] if flags.draft_model else []),
               *(["--heads", pathlib.Path(flags.heads).name] if flags.heads else [])]
    bench.write_report(pathlib.Path(flags.output), "speculation_vs_llamacpp", command, machine,
                       settings=dict(n_predict=flags.n, llamacpp=info["backend"],
                                     llamacpp_system_info=info["system_info"]), results=results)


if __name__ == "__main__":
    main()
