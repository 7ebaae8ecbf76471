#!/usr/bin/env python3
"""One measurement of llama.cpp: the counterpart of bench_decode, same flags, same JSON.

    llamacpp_bench.py -m FILE -t THREADS [--prompt 512] [--gen 128] [--repeats 7]

In one process: load (memory-mapped, flash attention and repacking as llama.cpp decides), then the
prompt and greedy decoding behind it, once to warm up and `repeats` times measured. Only
llama_decode is on the clock, neither Python nor sampling: the rates are llama.cpp's best.

needs: pip install llama-cpp-python numpy    (built with GGML_NATIVE=on)
"""

import argparse
import ctypes
import json
import statistics
import time

import llama_cpp
import numpy as np


def prompt_ids(count, vocab_size):
    """The ids that bench_decode uses too."""
    return [(i * 7919 + 13) % vocab_size for i in range(count)]


class Llama:
    def __init__(self, path, threads, n_ctx):
        self.silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load this model")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"{path}: llama.cpp makes no context of {n_ctx} positions")
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)
        self.batch = llama_cpp.llama_batch_init(n_ctx, 0, 1)
        self.pos = 0

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        self.pos = 0

    def decode(self, ids, logits_of=1):
        """Seconds of one pass over `ids`, logits for the last so many."""
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, self.pos + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = i >= len(ids) - logits_of
        start = time.perf_counter()
        status = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_synchronize(self.context)
        seconds = time.perf_counter() - start
        if status != 0:
            raise SystemExit(f"llama_decode failed with {status}")
        self.pos += len(ids)
        return seconds

    def keep(self, pos):
        """Positions from `pos` on are forgotten."""
        llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self.context), 0, pos, -1)
        self.pos = pos

    def logits(self, back=1):
        """Of the last position or one before it, in llama.cpp's memory until the next pass."""
        logits = llama_cpp.llama_get_logits_ith(self.context, -back)
        return np.ctypeslib.as_array(logits, (self.vocab_size,))


def measure(llama, ids, gen):
    """Tokens per second of the prompt and of `gen` greedy tokens behind it."""
    llama.clear()
    prefill, decode = llama.decode(ids), 0.0
    for _ in range(gen):
        decode += llama.decode([int(llama.logits().argmax())])
    return len(ids) / prefill, gen / decode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", dest="model", metavar="FILE")
    parser.add_argument("-t", dest="threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--gen", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--info", action="store_true", help="say how it was built, measure nothing")
    a = parser.parse_args()

    info = dict(backend=f"llama-cpp-python {llama_cpp.__version__}",
                system_info=llama_cpp.llama_print_system_info().decode().strip(" |"))
    if a.info:
        print(json.dumps(info))
        return
    if not a.model:
        parser.error("-m FILE is needed")

    llama = Llama(a.model, a.threads, a.prompt + a.gen + 1)
    ids = prompt_ids(a.prompt, llama.vocab_size)
    samples = [measure(llama, ids, a.gen) for _ in range(1 + a.repeats)][1:]
    prefill, decode = [list(rates) for rates in zip(*samples)]
    print(json.dumps(dict(
        **info, prompt=a.prompt, gen=a.gen, prefill_tok_s=statistics.median(prefill),
        decode_tok_s=statistics.median(decode), prefill_samples=prefill, decode_samples=decode)))


if __name__ == "__main__":
    main()
