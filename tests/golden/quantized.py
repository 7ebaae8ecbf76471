"""Quantized matrices for make_golden.py and reference.py: blocks of the types that the `gguf`
package cannot encode, and what the INT8 formula (src/numerics/int8_formula.h) takes of each type.

needs: pip install gguf numpy
"""

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType

# Cases whose matrices are random blocks: {end of a tensor's name: type}, "" for all others.
RANDOM_BLOCKS = {
    "Q4_K": {"": Type.Q4_K},
    "CONVERTED": {"attn_q": Type.Q4_1, "attn_k": Type.Q5_0, "attn_v": Type.Q5_1,
                  "attn_output": Type.Q2_K, "ffn_gate": Type.Q3_K, "ffn_up": Type.Q5_K,
                  "ffn_down": Type.Q6_K, "token_embd": Type.Q5_K, "": Type.Q6_K},
}
# All others are converted to Q8_0.
RUN_AS_THEY_ARE = (Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.Q6_K, Type.Q5_0, Type.Q5_1,
                   Type.Q5_K)
# Where in a block the half scale is; of those with mins also where that is and what times the scale
# makes the mean of random blocks 0.
SCALES = {Type.Q4_1: (0, 2, -7.5), Type.Q5_0: (0,), Type.Q5_1: (0, 2, -15.5),
          Type.Q2_K: (80, 82, 1.5), Type.Q3_K: (108,), Type.Q4_K: (0, 2, 7.5),
          Type.Q5_K: (0, 2, 15.5), Type.Q6_K: (208,)}


def type_of(case_type, name):
    """The type of matrix `name` in a case."""
    if case_type not in RANDOM_BLOCKS:
        return Type[case_type]
    types = RANDOM_BLOCKS[case_type]
    return types.get(name.removesuffix(".weight").split(".")[-1], types[""])


def put_scales(blocks, kind, scales):
    place, *minimum = SCALES[kind]
    halves = {place: scales}
    if minimum:
        halves[minimum[0]] = scales * minimum[1]
    for place, values in halves.items():
        blocks[:, place:place + 2] = values.astype(np.float16).view(np.uint8).reshape(-1, 2)


def random_blocks(kind, shape, deviation, rng):
    """A matrix of random bits (n_out, bytes of a row), its values of about this deviation."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // elements, size), dtype=np.uint8)
    scales = rng.uniform(0.5, 1.5, len(blocks))
    put_scales(blocks, kind, scales)
    scales *= deviation / gguf.quants.dequantize(blocks, kind).std()
    put_scales(blocks, kind, scales)
    return blocks.reshape(shape[0], -1)


def int8_form(data, kind):
    """(ints, scales, mins) with ints (n_out, n_in/32, 32), value = scale * int - min in each block.
    RUN_AS_THEY_ARE as they are stored, all others as the Q8_0 of their values."""
    if kind == Type.Q6_K:  # the scales of each 16 are integers: value = d * (scale * q)
        blocks = np.array(data).view(np.uint8).reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
        scales = np.repeat(blocks[:, 208:].copy().view(np.float16).astype(np.float64), 8, axis=1)
        ones = blocks.copy()
        ones[:, 208:] = np.array([1], dtype=np.float16).view(np.uint8)
        ints = gguf.quants.dequantize(ones, kind)
        return (ints.reshape(len(data), -1, 32).astype(np.float64), scales.reshape(len(data), -1),
                np.zeros((len(data), scales.size // len(data))))
    if kind not in RUN_AS_THEY_ARE:
        data, kind = gguf.quants.quantize(gguf.quants.dequantize(data, kind), Type.Q8_0), Type.Q8_0
    n_out, size = len(data), gguf.GGML_QUANT_SIZES[kind][1]
    blocks = np.array(data).view(np.uint8).reshape(-1, size)
    halves = blocks[:, :4].copy().view(np.float16).astype(np.float64)  # (blocks, 2)
    if kind == Type.Q8_0:
        ints = blocks[:, 2:].view(np.int8)
        scales, mins = halves[:, 0], np.zeros(len(blocks))
    elif kind == Type.Q4_0:
        nibbles = blocks[:, 2:]
        ints = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.int8) - 8
        scales, mins = halves[:, 0], np.zeros(len(blocks))
    elif kind == Type.Q4_1:
        nibbles = blocks[:, 4:]
        ints = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.int8)
        scales, mins = halves[:, 0], -halves[:, 1]
    elif kind in (Type.Q5_0, Type.Q5_1):
        at = 2 if kind == Type.Q5_0 else 4
        nibbles, high = blocks[:, at + 4:], blocks[:, at:at + 4]
        ints = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.int8)
        ints = ints + 16 * np.unpackbits(high, axis=1, bitorder="little").astype(np.int8)
        scales, mins = halves[:, 0], np.zeros(len(blocks))
        if kind == Type.Q5_0:
            ints = ints - 16
        else:
            mins = -halves[:, 1]
    elif kind == Type.Q5_K:
        packed = gguf.quants.Q4_K.get_scale_min(blocks[:, 4:16])
        scales, mins = (halves[:, [i]] * packed[i] for i in (0, 1))
        nibbles = blocks[:, 48:].reshape(-1, 4, 1, 32)
        ints = np.concatenate([nibbles & 15, nibbles >> 4], axis=2).reshape(-1, 8, 32)
        fifths = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[None, :, None] & 1
        ints = ints + 16 * fifths
    else:
        packed = gguf.quants.Q4_K.get_scale_min(blocks[:, 4:16])  # each (blocks, 8)
        scales, mins = (halves[:, [i]] * packed[i] for i in (0, 1))
        nibbles = blocks[:, 16:].reshape(-1, 4, 1, 32)
        ints = np.concatenate([nibbles & 15, nibbles >> 4], axis=2)
    return (ints.reshape(n_out, -1, 32).astype(np.float64), scales.reshape(n_out, -1),
            mins.reshape(n_out, -1))
