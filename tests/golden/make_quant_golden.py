#!/usr/bin/env python3
"""Makes tests/golden/quant/: blocks of every element type, by the `gguf` package.

    python make_quant_golden.py [output directory]

blocks.bin holds bytes, blocks.json says which. `dequantize`: for each type some blocks as stored at
`stored` and the FP32 values that gguf.quants.dequantize makes of them at `values`. Most are random
bytes with finite scales; the rest are edges: all bits zero, all ones, scales that are the largest
half, negative, subnormal, infinite, NaN. `quantize`: FP32 values, and the bytes that
gguf.quants.quantize makes of them.

needs: pip install gguf numpy
"""

import argparse
import json
import pathlib

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
# Where the halves of a block are: scale, and min where there is one.
HALVES = {Type.F16: [0], Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0],
          Type.Q5_1: [0, 2], Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2],
          Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.F32: [], Type.BF16: [], Type.IQ4_NL: [0]}
EDGE_HALVES = [0x0000, 0x8000, 0x7bff, 0xfbff, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x7e00]
RANDOM_BLOCKS = 12


def put_halves(block, places, bits):
    for place, half in zip(places, bits):
        block[place:place + 2] = np.frombuffer(np.uint16(half).tobytes(), np.uint8)


def stored_blocks(kind, rng):
    """(blocks, bytes of one)"""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    places = HALVES[kind]
    blocks = []
    for _ in range(RANDOM_BLOCKS):
        block = rng.integers(0, 256, size, dtype=np.uint8)
        put_halves(block, places, np.float16(rng.normal(0, 0.05, len(places))).view(np.uint16))
        blocks.append(block)
    one = int(np.float16(1).view(np.uint16))
    for fill in (0x00, 0xff):
        block = np.full(size, fill, np.uint8)
        put_halves(block, places, [one] * len(places))
        blocks.append(block)
    for half in EDGE_HALVES if places else []:
        block = rng.integers(0, 256, size, dtype=np.uint8)
        put_halves(block, places, [half, one])
        blocks.append(block)
        if len(places) == 2:
            block = block.copy()
            put_halves(block, places, [one, half])
            blocks.append(block)
    return np.stack(blocks)


def quantized_values(rng):
    """Rows of 256 values as weights have them, and edges."""
    values = rng.normal(0, 1, (12, 256)) * 10.0 ** rng.uniform(-3, 1, (12, 1))
    edges = np.zeros((6, 256))
    edges[1] = 1
    edges[2] = -0.75
    edges[3, ::7] = np.linspace(-3, 5, 37)
    edges[4] = np.abs(values[0])
    edges[5] = np.tile(np.arange(32) - 16, 8)  # ties in size, of both signs
    return np.concatenate([values, edges]).astype(np.float32)


class Blob:
    def __init__(self):
        self.bytes = b""

    def add(self, array):
        at = len(self.bytes)
        self.bytes += np.ascontiguousarray(array).tobytes()
        return at


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent / "quant")
    directory = parser.parse_args().directory
    blob, decoded, encoded = Blob(), [], []
    for kind in HALVES:
        stored = stored_blocks(kind, np.random.default_rng(202700 + int(kind)))
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(stored, kind).astype(np.float32)
        decoded.append(dict(type=kind.name, number=int(kind), n_values=values.size,
                            stored=blob.add(stored), stored_bytes=stored.size,
                            values=blob.add(values)))
    values = quantized_values(np.random.default_rng(202699))
    place = blob.add(values)
    for kind in (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0):
        stored = np.ascontiguousarray(gguf.quants.quantize(values, kind)).view(np.uint8)
        encoded.append(dict(type=kind.name, number=int(kind), n_values=values.size, values=place,
                            stored=blob.add(stored), stored_bytes=stored.size))
    directory.mkdir(exist_ok=True)
    (directory / "blocks.bin").write_bytes(blob.bytes)
    lines = [",\n".join(f"  {json.dumps(entry)}" for entry in part) for part in (decoded, encoded)]
    text = '{"dequantize": [\n' + lines[0] + '],\n"quantize": [\n' + lines[1] + ']}\n'
    (directory / "blocks.json").write_text(text)
    print(f"{len(blob.bytes)} bytes, gguf {getattr(gguf, '__version__', '')}")


main()
