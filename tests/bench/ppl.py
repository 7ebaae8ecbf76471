#!/usr/bin/env python3
"""Is what we compute as good as what others compute? Run by ppl.sh.

Two measures, each by `specbound ppl --through both` and by llama.cpp on the same GGUF file:
  dialogues   tests/data/dialogue-valid, each dialogue a text of its own in the model's template,
              scored from its second token on and cut to the context
  windows     the same dialogues as one plain text, by llama-perplexity's definition: windows of 512
              tokens (--window), BOS in place of the first, scored from the middle on
llama.cpp's side is its library: it tokenizes and computes logits; the formula, in FP64, is here.
Were tokens not the same, the number of them would show it: that ends the run. Of windows each token
is compared.
"""

import argparse
import ctypes
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np

import bench
from llamacpp_bench import Llama

DIALOGUES = bench.ROOT / "tests" / "data" / "dialogue-valid" / "dialogue-valid.jsonl"
ROLES = {"user": "USER", "assistant": "ASSISTANT", "system": "SYSTEM"}


class Scorer(Llama):
    """llama.cpp, with logits for every token of a batch."""

    def __init__(self, path, threads, n_ctx):
        super().__init__(str(path), threads, n_ctx)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def tokens(self, text, special):
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), not special,
                                     special)
        if n < 0:
            sys.exit(f"llama_tokenize: {n}")
        return list(ids[:n])

    def nll(self, ids, first):
        """-log p of ids[first:], in nats, from an empty context."""
        self.clear()
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = 1
        if llama_cpp.llama_decode(self.context, batch) != 0:
            sys.exit("llama_decode failed")
        shape = (len(ids), self.vocab_size)
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self.context), shape)
        return np.array([self.surprise(logits[i - 1], ids[i]) for i in range(first, len(ids))])

    @staticmethod
    def surprise(logits, token):
        z = logits.astype(np.float64) - logits.max()
        return math.log(np.exp(z).sum()) - z[token]


def rendered(messages):
    """As the demo model's template has it, up to the last reply."""
    last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
    text = "<s>"
    for m in messages[:last + 1]:
        user = m["role"] != "assistant"
        text += f"USER: {m['content']}" if user else f" ASSISTANT: {m['content']}</s>"
    return text


def ours(a, model, path, *flags):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "ppl.json")
        done = subprocess.run([a.specbound, "ppl", "-m", model, "-f", path, "--through", "both",
                               "--device", "cpu", "-t", str(a.threads), "--json", out, *flags],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{model}: {done.stderr.strip()}")
        return json.loads(out.read_text())


def theirs(scorer, runs):
    """runs: (ids, first)."""
    nll = np.concatenate([scorer.nll(ids, first) for ids, first in runs])
    return nll, [len(ids) for ids, _ in runs]


def entry(model, measure, data, nll, lengths):
    runs = data["texts" if measure == "dialogues" else "windows"]
    if [run["tokens"] for run in runs] != lengths:
        sys.exit(f"{model}, {measure}: llama.cpp and we do not read the same tokens")
    if data["scored"] != len(nll):
        sys.exit(f"{model}, {measure}: we scored {data['scored']} tokens, expected {len(nll)}")
    llamacpp = math.exp(nll.mean())
    result = dict(bench.model_entry(model), measure=measure, scored=len(nll),
                  tokens_that_differ_between_paths=data["differing"],
                  llamacpp=dict(perplexity=round(llamacpp, 6),
                                error=round(llamacpp * float(nll.std()) / (len(nll) - 1) ** 0.5,
                                            6)))
    for path in data["results"]:
        result[path["through"]] = dict(perplexity=round(path["perplexity"], 6),
                                       error=round(path["perplexity_error"], 6),
                                       over_llamacpp=round(path["perplexity"] / llamacpp - 1, 7))
    print(f"{result['model']:28} {measure:9} decode {result['decode']['perplexity']:.4f}, prefill "
          f"{result['prefill']['perplexity']:.4f}, llama.cpp {llamacpp:.4f}: "
          f"{100 * result['decode']['over_llamacpp']:+.4f} %", flush=True)
    return result


def measure_dialogues(a, model, dialogues, folder):
    lines = folder / "dialogues.jsonl"
    lines.write_text("".join(json.dumps(d) + "\n" for d in dialogues))
    data = ours(a, model, lines)
    n_ctx = data["context"]
    scorer = Scorer(model, a.threads, n_ctx)
    texts = [scorer.tokens(rendered(d), special=True)[:n_ctx] for d in dialogues]
    return entry(model, "dialogues", data, *theirs(scorer, [(ids, 1) for ids in texts]))


def measure_windows(a, model, dialogues, folder):
    plain = folder / "dialogues.txt"
    plain.write_text("".join(f"{ROLES[m['role']]}: {m['content']}\n" for d in dialogues for m in d))
    data = ours(a, model, plain, "-c", str(a.window))
    scorer = Scorer(model, a.threads, a.window)
    ids = scorer.tokens(plain.read_text(), special=False)
    cut = subprocess.run([a.specbound, "tokenize", "-m", model, "-f", plain],  # drops the last end
                         capture_output=True, text=True, check=True)
    text = plain.read_text().removesuffix("\n")
    if [int(i) for i in cut.stdout.split()] != scorer.tokens(text, special=False):
        sys.exit(f"{model}: llama.cpp and we do not cut the text into the same tokens")
    bos = llama_cpp.llama_vocab_bos(scorer.vocab)
    runs = [([bos, *ids[at + 1:at + a.window]], a.window // 2 + 1)
            for at in range(0, len(ids) - a.window + 1, a.window)]
    return entry(model, "windows", data, *theirs(scorer, runs))


def measure(a, model, dialogues, folder):
    return [measure_dialogues(a, model, dialogues, folder),
            measure_windows(a, model, dialogues, folder)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specbound", required=True, help="our program")
    parser.add_argument("--f16", type=pathlib.Path, help="the F16 file of the same weights")
    parser.add_argument("--texts", type=int, default=377, help="dialogues (default: all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--window", type=int, default=512, help="tokens of a window")
    parser.add_argument("--only-windows", type=pathlib.Path, metavar="MODEL",
                        help="another model than the demo model, which knows no such dialogues")
    parser.add_argument("--output", type=pathlib.Path, default=bench.RESULTS / "ppl.json")
    parser.add_argument("model", type=pathlib.Path, help="the demo model, Q8_0")
    a = parser.parse_args()

    machine = bench.hardware()
    dialogues = [json.loads(line) for line in DIALOGUES.read_text().splitlines()[:a.texts]]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        if a.only_windows:
            results.append(measure_windows(a, a.only_windows, dialogues, pathlib.Path(folder)))
        for model in () if a.only_windows else (a.model, *([a.f16] if a.f16 else [])):
            results += measure(a, model, dialogues, pathlib.Path(folder))
    settings = dict(texts=len(dialogues), window=a.window, threads=a.threads, device="cpu")
    command = ["tests/bench/ppl.sh", "--texts", len(dialogues), "--threads", a.threads]
    if a.only_windows:
        command += ["--window", a.window, "--only-windows", a.only_windows.name]
    quantization = None
    if a.f16 and not a.only_windows:
        command = ["env", f"F16_MODEL={a.f16.name}", *command]
        quantization = {
            q8["measure"]: round(q8["decode"]["perplexity"] / f16["decode"]["perplexity"] - 1, 7)
            for q8, f16 in zip(results[:2], results[2:])}
        print("Q8_0 over F16, through the decode kernels: " + ", ".join(
            f"{name} {100 * share:+.4f} %" for name, share in quantization.items()))
    info = bench.run_json([sys.executable, bench.ROOT / "tests" / "bench" / "llamacpp_bench.py",
                           "--info"])
    bench.write_report(a.output, "ppl", command, machine, llamacpp=info["backend"],
                       settings=settings, q8_0_over_f16=quantization, results=results)


if __name__ == "__main__":
    main()
