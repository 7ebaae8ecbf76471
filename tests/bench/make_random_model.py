#!/usr/bin/env python3
"""Writes a random model as GGUF, for measurements: shapes are real, text is not.

    make_random_model.py OUTPUT [--architecture llama] [--type q8_0] [--layers 24] [--dim 1024]
        [--ffn 2816] [--heads 16] [--kv-heads 4] [--vocab 32000] [--context 4096] [--window 4096]
        [--seed 1] [--alike]

By default a Llama model of 322 MB of weights a token (24 layers, dim 1024, 4 K/V heads, embedding
tied to the head). A type is that of all matrices; q4_k_m is llama.cpp's mix of Q4_K and Q6_K. Norms
of other architectures than llama are random too, and biases. With --alike matrices of one shape and
type are the same: a large file is made as fast as it is written, and is read like any other. The
same arguments give the same file.
Needs nothing but Python.
"""

import argparse
import collections
import math
import os
import random
import struct

GGUF_U32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_I32 = 4, 6, 7, 8, 9, 5
F32 = 0
ALIGNMENT = 32
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
NO_MINUS_128 = bytes.maketrans(b"\x80", b"\x81")  # quantizers never write -128
TWO_ALIKE = bytes((byte & 15) * 17 for byte in range(256))  # a nibble below and above

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "smollm3")

# Blocks are random but for their scales: `d` and `min` are the places of FP16 numbers in a block.
# Values spread around 0: `min` is `offset` times d, and `alike` has every part's min equal its
# scale; where there is no min, d is negative in every other block or so. `spread`: the standard
# deviation of values where d is 1.
Type = collections.namedtuple("Type", "number block size spread d min offset alike",
                              defaults=(None, 0, None))


def six_bits_alike(at):
    """Scales and mins of 6 bits, as Q4_K and Q5_K pack them into 12 bytes."""
    def repair(data, size):
        for i in range(4):
            data[at + 4 + i::size] = data[at + i::size]
            data[at + 8 + i::size] = data[at + 8 + i::size].translate(TWO_ALIKE)
    return repair


def nibbles_alike(data, size):
    for i in range(16):
        data[i::size] = data[i::size].translate(TWO_ALIKE)


TYPES = {
    "q8_0": Type(8, 32, 34, 73.9, 0),
    "q4_0": Type(2, 32, 18, 4.64, 0),
    "q4_1": Type(3, 32, 20, 4.61, 0, 2, -7.5),
    "q5_0": Type(6, 32, 22, 9.25, 0),
    "q5_1": Type(7, 32, 24, 9.23, 0, 2, -15.5),
    "q2_k": Type(10, 256, 84, 9.85, 80, 82, 1.5, nibbles_alike),
    "q3_k": Type(11, 256, 110, 43.4, 108),
    "q4_k": Type(12, 256, 144, 169, 0, 2, 7.5, six_bits_alike(4)),
    "q5_k": Type(13, 256, 176, 338, 0, 2, 15.5, six_bits_alike(4)),
    "q6_k": Type(14, 256, 210, 1366, 208),
}
# llama.cpp's numbers of what a file holds, of mixes where there is none of a type alone.
FILE_TYPES = {"q8_0": 7, "q4_0": 2, "q4_1": 3, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 12,
              "q4_k": 15, "q4_k_m": 15, "q5_k": 17, "q6_k": 18}


def type_of(name, a):
    """The type of a matrix."""
    if a.type != "q4_k_m":
        return TYPES[a.type]
    if name.startswith("token_embd"):  # the head, too
        return TYPES["q6_k"]
    layer, eighth = int(name.split(".")[1]), a.layers // 8
    more = layer < eighth or layer >= 7 * a.layers // 8 or (layer - eighth) % 3 == 2
    return TYPES["q6_k" if more and ("attn_v" in name or "ffn_down" in name) else "q4_k"]


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
    named = lambda name: name.replace("llama.", a.architecture + ".", 1)
    number = lambda name, value: key(named(name), GGUF_U32, struct.pack("<I", value))
    real = lambda name, value: key(named(name), GGUF_F32, struct.pack("<f", value))
    text = lambda name, value: key(name, GGUF_STRING, string(value))
    flag = lambda name, value: key(name, GGUF_BOOL, struct.pack("<?", value))
    tokens, scores, kinds = vocabulary(a.vocab)
    more = []
    if a.architecture in ("qwen3", "gemma", "gemma2"):
        more = [number("llama.attention.key_length", a.dim // a.heads),
                number("llama.attention.value_length", a.dim // a.heads)]
    if a.architecture == "gemma2":
        more += [number("llama.attention.sliding_window", a.window),
                 real("llama.attn_logit_softcapping", 50.0),
                 real("llama.final_logit_softcapping", 30.0)]
    return more + [
        text("general.architecture", a.architecture),
        text("general.name", f"random {a.layers} layers dim {a.dim}"),
        number("general.file_type", FILE_TYPES[a.type]),
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
    head_dim = a.dim // a.heads
    kv_dim = head_dim * a.kv_heads
    yield "token_embd.weight", (a.dim, a.vocab)
    yield "output_norm.weight", (a.dim,)
    for layer in range(a.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", (a.dim,)
        if a.architecture == "phi3":
            yield block + "attn_qkv.weight", (a.dim, a.dim + 2 * kv_dim)
        else:
            yield block + "attn_q.weight", (a.dim, a.dim)
            yield block + "attn_k.weight", (a.dim, kv_dim)
            yield block + "attn_v.weight", (a.dim, kv_dim)
        if a.architecture == "qwen2":
            yield block + "attn_q.bias", (a.dim,)
            yield block + "attn_k.bias", (kv_dim,)
            yield block + "attn_v.bias", (kv_dim,)
        if a.architecture == "qwen3":
            yield block + "attn_q_norm.weight", (head_dim,)
            yield block + "attn_k_norm.weight", (head_dim,)
        yield block + "attn_output.weight", (a.dim, a.dim)
        yield block + "ffn_norm.weight", (a.dim,)
        if a.architecture == "gemma2":
            yield block + "post_attention_norm.weight", (a.dim,)
            yield block + "post_ffw_norm.weight", (a.dim,)
        if a.architecture == "phi3":
            yield block + "ffn_up.weight", (a.dim, 2 * a.ffn)
        else:
            yield block + "ffn_gate.weight", (a.dim, a.ffn)
            yield block + "ffn_up.weight", (a.dim, a.ffn)
        yield block + "ffn_down.weight", (a.ffn, a.dim)


def vector(name, size, a, rng):
    if a.architecture == "llama":
        return [1.0] * size
    middle = 0.0 if name.endswith(".bias") else 1.0
    return [rng.uniform(middle - 0.2, middle + 0.2) for _ in range(size)]


def tensor_bytes(kind, shape):
    return 4 * shape[0] if kind is None else math.prod(shape) // kind.block * kind.size


def tensor_data(name, shape, a, rng):
    if len(shape) == 1:
        return struct.pack(f"<{shape[0]}f", *vector(name, shape[0], a, rng))
    kind = type_of(name, a)
    data = bytearray(rng.randbytes(tensor_bytes(kind, shape)))
    if kind is TYPES["q8_0"]:
        data = data.translate(NO_MINUS_128)
    n_blocks = len(data) // kind.size
    if kind.alike:
        kind.alike(data, kind.size)
    d = 1 / (kind.spread * math.sqrt(shape[0]))  # rows keep their variance
    for at, value in ((kind.d, d), (kind.min, kind.offset * d)):
        if at is not None:
            half = struct.pack("<e", value)
            data[at::kind.size] = half[:1] * n_blocks
            data[at + 1::kind.size] = half[1:] * n_blocks
    if kind.min is None and kind is not TYPES["q8_0"]:
        signed = bytes(data[kind.d + 1] ^ (byte & 0x80) for byte in range(256))
        data[kind.d + 1::kind.size] = rng.randbytes(n_blocks).translate(signed)
    return bytes(data)


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_model(a):
    keys, infos, offset = metadata(a), [], 0
    for name, shape in tensors(a):
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        kind = None if len(shape) == 1 else type_of(name, a)
        infos.append(string(name) + dims + struct.pack("<IQ", kind.number if kind else F32, offset))
        size = tensor_bytes(kind, shape)
        offset += size + len(padding(size))
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys + infos)

    rng, known = random.Random(a.seed), {}
    os.makedirs(os.path.dirname(a.output) or ".", exist_ok=True)
    partial = a.output + ".partial"
    with open(partial, "wb") as file:
        file.write(header + padding(len(header)))
        for name, shape in tensors(a):
            form = (shape, type_of(name, a)) if a.alike and len(shape) > 1 else name
            data = known.get(form) or tensor_data(name, shape, a, rng)
            if a.alike:
                known[form] = data
            file.write(data + padding(len(data)))
    os.replace(partial, a.output)
    print(f"{a.output}: {os.path.getsize(a.output) / 1e6:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--type", choices=[*TYPES, "q4_k_m"], default="q8_0")
    for name, default in dict(layers=24, dim=1024, ffn=2816, heads=16, kv_heads=4, vocab=32000,
                              context=4096, window=4096, seed=1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--alike", action="store_true", help="matrices of one shape are the same")
    a = parser.parse_args()
    block = type_of("blk.0.attn_q", a).block
    if a.dim % block or a.ffn % block or a.dim % a.heads or a.heads % a.kv_heads:
        parser.error(f"dim and ffn are multiples of {block}, heads divide dim, K/V heads heads")
    write_model(a)


if __name__ == "__main__":
    main()
