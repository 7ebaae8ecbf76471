#!/usr/bin/env python3
"""Does a quantized model say with us what it says with llama.cpp? Run by quant_vs_llamacpp.sh.

For each quantization and architecture a small random model. llama.cpp continues a prompt greedily,
token by token; our engine reads the same tokens, and its choice behind each is compared. Up to the
first other choice that is our greedy text too: there the texts part. Both engines round their
activations, each in its own way, so where the two best logits lie closer together than that, either
may come first: `gap` is the distance of the two candidates in an engine's own logits, `noise` the
root mean square of the difference between the engines' logits at that position, both in standard
deviations of the logits. How far each is from the model's weights as such is measured too: against
our engine on the file's weights as F16, where activations are not rounded to INT8.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import bench
from llamacpp_bench import Llama, prompt_ids

HERE = pathlib.Path(__file__).parent
QUANTIZATIONS = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
                 "q4_k_m"]
ARCHITECTURES = ["qwen2", "qwen3", "gemma", "gemma2", "phi3", "smollm3"]
# llama with every quantization, the other architectures with these.
SHORT_LIST = ["q8_0", "q4_0", "q4_k", "q6_k"]
# gemma2's window is shorter than the text; smollm3's fourth layer has no rope.
SHAPE = dict(layers=4, dim=512, ffn=1280, heads=8, kv_heads=2, vocab=2000, context=512, window=48)
PROMPT = 32


def make_model(folder, architecture, quantization):
    path = pathlib.Path(folder) / f"{architecture}-{quantization}.gguf"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
    subprocess.run([sys.executable, "-B", HERE / "make_random_model.py", path, "--architecture",
                    architecture, "--type", quantization, *flags], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def llamacpp_text(path, gen):
    """Its ids, prompt first, and its logits behind each but the last (positions, vocab)."""
    llama = Llama(str(path), 1, PROMPT + gen)
    ids, logits = prompt_ids(PROMPT, llama.vocab_size), []
    for pos in range(PROMPT + gen - 1):
        llama.decode([ids[pos]])
        logits.append(llama.logits().copy())
        if pos + 1 == len(ids):
            ids.append(int(logits[-1].argmax()))
    return ids, np.array(logits)


def our_logits(a, path, ids):
    done = subprocess.run([a.bench_logits, "-m", path, "-t", "1"], capture_output=True,
                          input=" ".join(map(str, ids)).encode())
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr.decode().strip()}")
    return np.frombuffer(done.stdout, np.float32).reshape(len(ids), -1)


def f16_logits(a, path, ids):
    """Those of the file's weights as F16, with activations as they are."""
    plain = path.with_suffix(".f16.gguf")
    subprocess.run([a.specbound, "quantize", path, plain, "F16"], check=True, capture_output=True)
    logits = our_logits(a, plain, ids)
    plain.unlink()
    return logits


def rms(x):
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def compare(a, folder, architecture, quantization):
    path = make_model(folder, architecture, quantization)
    ids, theirs = llamacpp_text(path, a.gen)
    ours = our_logits(a, path, ids[:-1])
    exact = f16_logits(a, path, ids[:-1])
    path.unlink()

    places = []
    for pos in range(PROMPT - 1, len(ids) - 1):
        our_token, their_token = int(ours[pos].argmax()), int(theirs[pos].argmax())
        if our_token == their_token:
            continue
        unit = float(theirs[pos].std())
        places.append(dict(
            reply_token=pos - PROMPT + 1, ours=our_token, llamacpp=their_token,
            f16=int(exact[pos].argmax()),
            gap_ours=round(float(ours[pos][our_token] - ours[pos][their_token]) / unit, 5),
            gap_llamacpp=round(float(theirs[pos][their_token] - theirs[pos][our_token]) / unit, 5),
            noise=round(rms(ours[pos] - theirs[pos]) / unit, 5)))
    unit = rms(theirs - theirs.mean(axis=1, keepdims=True))
    entry = dict(
        architecture=architecture, quantization=quantization, tokens=a.gen,
        same_greedy_tokens=places[0]["reply_token"] if places else a.gen,
        other_choices=len(places),
        noise=round(rms(ours - theirs) / unit, 5),
        ours_to_f16=round(rms(ours - exact) / unit, 5),
        llamacpp_to_f16=round(rms(theirs - exact) / unit, 5),
        # Of all places, not only of the first: how near a tie the widest apart was.
        widest_gap=max((min(p["gap_ours"], p["gap_llamacpp"]) for p in places), default=0),
        places=places)
    print(f"{architecture:8} {quantization:7} {entry['same_greedy_tokens']:4} of {a.gen} tokens, "
          f"{len(places):2} other choices, widest gap {entry['widest_gap']:.4f}, noise "
          f"{entry['noise']:.4f} (to F16: ours {entry['ours_to_f16']:.4f}, llama.cpp "
          f"{entry['llamacpp_to_f16']:.4f})", flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-logits", required=True, help="our program that writes logits")
    parser.add_argument("--specbound", required=True, help="our program that quantizes")
    parser.add_argument("--gen", type=int, default=128, help="greedy tokens of a model")
    parser.add_argument("--output", type=pathlib.Path,
                        default=bench.RESULTS / "quant_vs_llamacpp.json")
    a = parser.parse_args()

    machine = bench.hardware()
    pairs = [("llama", q) for q in QUANTIZATIONS]
    pairs += [(architecture, q) for architecture in ARCHITECTURES for q in SHORT_LIST]
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(a, folder, *pair) for pair in pairs]
    info = bench.run_json([sys.executable, HERE / "llamacpp_bench.py", "--info"])
    bench.write_report(a.output, "quant_vs_llamacpp",
                       ["tests/bench/quant_vs_llamacpp.sh", "--gen", a.gen], machine,
                       llamacpp=info["backend"], settings=dict(**SHAPE, prompt=PROMPT, gen=a.gen),
                       results=results)


if __name__ == "__main__":
    main()
