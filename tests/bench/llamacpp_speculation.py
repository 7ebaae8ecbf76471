#!/usr/bin/env python3
"""Greedy replies of llama.cpp, plain and with its users' ways to speculate, one JSON line each.

    llamacpp_speculation.py -m FILE -t THREADS -n TOKENS -c CONTEXT [--draft FILE]

Reads lines of {"way": WAY, "ids": [...]} and answers each with {"ids": [...], "prefill": seconds,
"decode": seconds, "passes": number}. Only llama_decode is on the clock, of both models, neither
Python nor sampling: the rates are llama.cpp's best. WAY is
  plain       a token a pass,
  lookup-N    llama-cpp-python's LlamaPromptLookupDecoding, which guesses N tokens behind the first
              earlier place of the last two tokens, or of the last one,
  draft       the draft model's greedy tokens, as llama.cpp's speculative-simple takes them by
              default: up to 16, as long as each has a probability of 0.75 or more.

needs: pip install llama-cpp-python numpy    (built with GGML_NATIVE=on)
"""

import argparse
import json
import sys

import llama_cpp
import numpy as np
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
from llamacpp_bench import Llama

MOST_DRAFTED, LEAST_PROBABILITY = 16, 0.75


class Plain:
    def draft(self, ids, most):
        return [], 0.0

    def begin(self, ids):
        """Seconds that it takes to read a prompt."""
        return 0.0


class Lookup(Plain):
    def __init__(self, tokens):
        self.inner = LlamaPromptLookupDecoding(num_pred_tokens=tokens)

    def draft(self, ids, most):
        return [int(i) for i in self.inner(np.array(ids, dtype=np.intc))[:most]], 0.0


class DraftModel(Plain):
    def __init__(self, llama):
        self.llama = llama

    def begin(self, ids):
        self.llama.clear()
        self.read = ids[:-1]
        return self.llama.decode(ids[:-1])

    def draft(self, ids, most):
        same = 0
        while same < min(len(self.read), len(ids) - 1) and self.read[same] == ids[same]:
            same += 1
        self.llama.keep(same)
        drafts, seconds, next_ids = [], 0.0, ids[same:]
        while len(drafts) < min(most, MOST_DRAFTED):
            seconds += self.llama.decode(next_ids)
            z = self.llama.logits()
            token = int(z.argmax())
            if 1 / np.exp(z - z[token]).sum() < LEAST_PROBABILITY:
                break
            drafts.append(token)
            next_ids = [token]
        self.read = (ids + drafts)[:self.llama.pos]
        return drafts, seconds


def reply(llama, way, prompt, count):
    """The pending token goes through with the drafts behind it, as in llama.cpp's examples."""
    llama.clear()
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    prefill, decode, passes = way.begin(prompt) + llama.decode(prompt), 0.0, 0
    ids, end = [*prompt, int(llama.logits().argmax())], len(prompt) + count
    while len(ids) < end and not llama_cpp.llama_vocab_is_eog(vocab, ids[-1]):
        drafts, seconds = way.draft(ids, end - len(ids) - 1)
        rows = [ids[-1], *drafts]
        decode += seconds + llama.decode(rows, logits_of=len(rows))
        passes += 1
        for i in range(len(rows)):
            ids.append(int(llama.logits(back=len(rows) - i).argmax()))
            if i == len(drafts) or drafts[i] != ids[-1]:
                break
            if llama_cpp.llama_vocab_is_eog(vocab, ids[-1]):
                break
        llama.keep(len(ids) - 1)
    return dict(ids=ids[len(prompt):], prefill=prefill, decode=decode, passes=passes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", dest="model", metavar="FILE", required=True)
    parser.add_argument("-t", dest="threads", type=int, required=True)
    parser.add_argument("-n", dest="count", type=int, required=True)
    parser.add_argument("-c", dest="context", type=int, required=True)
    parser.add_argument("--draft", metavar="FILE")
    a = parser.parse_args()
    llama = Llama(a.model, a.threads, a.context)
    ways = {"plain": Plain(), "lookup-2": Lookup(2), "lookup-10": Lookup(10)}
    if a.draft:
        ways["draft"] = DraftModel(Llama(a.draft, a.threads, a.context))
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(reply(llama, ways[asked["way"]], asked["ids"], a.count)), flush=True)


if __name__ == "__main__":
    main()
