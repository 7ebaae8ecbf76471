#!/usr/bin/env python3
"""Writes a random Llama model as Q8_0 GGUF, for speed measurements: shapes are real, text is not.

    make_random_model.py OUTPUT [--layers 24] [--dim 1024] [--ffn 2816] [--heads 16] [--kv-heads 4]
                                [--vocab 32000] [--context 4096] [--seed 1]

By default 322 MB of weights a token (24 layers, dim 1024, 4 K/V heads, embedding tied to the head).
The same arguments give the same file. Needs nothing but Python.
"""

import argparse
import math
import os
import random
import struct

GGUF_U32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_I32 = 4, 6, 7, 8, 9, 5
F32, Q8_0 = 0, 8
ALIGNMENT = 32
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
NO_MINUS_128 = bytes.maketrans(b"\x80", b"\x81")  # quantizers never write -128


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, payload):
    return string(name) + struct.pack("<I", kind) + payload


def array(name, kind, count, payload):
    return key(name, GGUF_ARRAY, struct.pack("<IQ", kind, count) + payload)


def vocabulary(size):
    """A SentencePiece vocabulary that loaders take: specials, 256 bytes, meaningless words."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    tokens += [f"\u2581w{i}" for i in range(len(tokens), size)]
    kinds += [NORMAL] * (size - len(kinds))
    return tokens[:size], [-float(i) for i in range(size)], kinds[:size]


def metadata(a):
    number = lambda name, value: key(name, GGUF_U32, struct.pack("<I", value))
    real = lambda name, value: key(name, GGUF_F32, struct.pack("<f", value))
    text = lambda name, value: key(name, GGUF_STRING, string(value))
    flag = lambda name, value: key(name, GGUF_BOOL, struct.pack("<?", value))
    tokens, scores, kinds = vocabulary(a.vocab)
    return [
        text("general.architecture", "llama"),
        text("general.name", f"random {a.layers} layers dim {a.dim}"),
        number("general.file_type", 7),
        number("general.quantization_version", 2),
        number("llama.context_length", a.context),
        number("llama.embedding_length", a.dim),
        number("llama.block_count", a.layers),
        number("llama.feed_forward_length", a.ffn),
        number("llama.attention.head_count", a.heads),
        number("llama.attention.head_count_kv", a.kv_heads),
        real("llama.attention.layer_norm_rms_epsilon", 1e-5),
        real("llama.rope.freq_base", 10000.0),
        number("llama.rope.dimension_count", a.dim // a.heads),
        number("llama.vocab_size", a.vocab),
        text("tokenizer.ggml.model", "llama"),
        text("tokenizer.ggml.pre", "default"),
        array("tokenizer.ggml.tokens", GGUF_STRING, a.vocab, b"".join(map(string, tokens))),
        array("tokenizer.ggml.scores", GGUF_F32, a.vocab, struct.pack(f"<{a.vocab}f", *scores)),
        array("tokenizer.ggml.token_type", GGUF_I32, a.vocab, struct.pack(f"<{a.vocab}i", *kinds)),
        number("tokenizer.ggml.bos_token_id", 1),
        number("tokenizer.ggml.eos_token_id", 2),
        number("tokenizer.ggml.unknown_token_id", 0),
        flag("tokenizer.ggml.add_bos_token", True),
        flag("tokenizer.ggml.add_eos_token", False),
    ]


def tensors(a):
    """(name, shape), fastest dimension first."""
    kv_dim = a.dim // a.heads * a.kv_heads
    yield "token_embd.weight", (a.dim, a.vocab)
    yield "output_norm.weight", (a.dim,)
    for layer in range(a.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", (a.dim,)
        yield block + "attn_q.weight", (a.dim, a.dim)
        yield block + "attn_k.weight", (a.dim, kv_dim)
        yield block + "attn_v.weight", (a.dim, kv_dim)
        yield block + "attn_output.weight", (a.dim, a.dim)
        yield block + "ffn_norm.weight", (a.dim,)
        yield block + "ffn_gate.weight", (a.dim, a.ffn)
        yield block + "ffn_up.weight", (a.dim, a.ffn)
        yield block + "ffn_down.weight", (a.ffn, a.dim)


def tensor_bytes(shape):
    return 4 * shape[0] if len(shape) == 1 else math.prod(shape) // 32 * 34


def tensor_data(shape, rng):
    if len(shape) == 1:
        return struct.pack(f"<{shape[0]}f", *[1.0] * shape[0])
    data = bytearray(rng.randbytes(tensor_bytes(shape)).translate(NO_MINUS_128))
    # Uniform bytes have a standard deviation of 73.9: with this scale rows keep their variance.
    scale = struct.pack("<e", 1 / (73.9 * math.sqrt(shape[0])))
    n_blocks = len(data) // 34
    data[0::34] = scale[:1] * n_blocks
    data[1::34] = scale[1:] * n_blocks
    return bytes(data)


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_model(a):
    keys, infos, offset = metadata(a), [], 0
    for name, shape in tensors(a):
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        kind = F32 if len(shape) == 1 else Q8_0
        infos.append(string(name) + dims + struct.pack("<IQ", kind, offset))
        size = tensor_bytes(shape)
        offset += size + len(padding(size))
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys + infos)

    rng = random.Random(a.seed)
    os.makedirs(os.path.dirname(a.output) or ".", exist_ok=True)
    partial = a.output + ".partial"
    with open(partial, "wb") as file:
        file.write(header + padding(len(header)))
        for _, shape in tensors(a):
            data = tensor_data(shape, rng)
            file.write(data + padding(len(data)))
    os.replace(partial, a.output)
    print(f"{a.output}: {os.path.getsize(a.output) / 1e6:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output")
    for name, default in dict(layers=24, dim=1024, ffn=2816, heads=16, kv_heads=4, vocab=32000,
                              context=4096, seed=1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    a = parser.parse_args()
    if a.dim % 32 or a.ffn % 32 or a.dim % a.heads or a.heads % a.kv_heads:
        parser.error("dim and ffn are multiples of 32, heads divide dim, K/V heads heads")
    write_model(a)


if __name__ == "__main__":
    main()
