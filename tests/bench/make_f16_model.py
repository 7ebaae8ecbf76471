#!/usr/bin/env python3
"""Writes a Q8_0 GGUF file again with its matrices as F16: the same model in another element type.

    make_f16_model.py INPUT OUTPUT

Each weight is the product of scale and integer, rounded once to half. Needs nothing but Python.
"""

import math
import os
import struct
import sys

U32, STRING, ARRAY = 4, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
F32, F16, Q8_0 = 0, 1, 8
MOSTLY_F16 = 1  # general.file_type


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, pattern):
        values = struct.unpack_from("<" + pattern, self.data, self.at)
        self.at += struct.calcsize("<" + pattern)
        return values[0]

    def string(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.take("I"), self.take("Q")
            if element in SIZES:
                self.at += SIZES[element] * count
            else:
                for _ in range(count):
                    self.skip(element)
        else:
            self.at += SIZES[kind]


def dequantized(data):
    """Q8_0 blocks (a half scale, 32 signed bytes) as halves."""
    out = bytearray()
    for scale, *quants in struct.iter_unpack("<e32b", data):
        out += struct.pack("<32e", *[scale * q for q in quants])
    return bytes(out)


def tensor_size(kind, elements):
    sizes = {F32: 4 * elements, F16: 2 * elements, Q8_0: elements // 32 * 34}
    if kind not in sizes:
        sys.exit(f"expected tensors of F32, F16 or Q8_0, found type {kind}")
    return sizes[kind]


def convert(data):
    reader = Reader(data)
    if data[:4] != b"GGUF":
        sys.exit("expected a GGUF file")
    reader.at = 8
    n_tensors, n_keys = reader.take("Q"), reader.take("Q")
    header, alignment = bytearray(data), 32
    for _ in range(n_keys):
        name, kind = reader.string(), reader.take("I")
        if kind == U32 and name == b"general.file_type":
            struct.pack_into("<I", header, reader.at, MOSTLY_F16)
        elif kind == U32 and name == b"general.alignment":
            alignment = struct.unpack_from("<I", data, reader.at)[0]
        reader.skip(kind)
    out = header[:reader.at]

    tensors = []
    for _ in range(n_tensors):
        name = reader.string()
        shape = [reader.take("Q") for _ in range(reader.take("I"))]
        tensors.append((name, shape, reader.take("I"), reader.take("Q")))
    start = reader.at + -reader.at % alignment
    infos, payload = bytearray(), bytearray()
    for name, shape, kind, offset in tensors:
        size = tensor_size(kind, math.prod(shape))
        values = data[start + offset:start + offset + size]
        if kind == Q8_0:
            kind, values = F16, dequantized(values)
        infos += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}QIQ", *shape, kind, len(payload))
        payload += values + bytes(-len(values) % alignment)
    out += infos
    return out + bytes(-len(out) % alignment) + payload


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        converted = convert(file.read())
    partial = sys.argv[2] + ".partial"
    with open(partial, "wb") as file:
        file.write(converted)
    os.replace(partial, sys.argv[2])
    print(f"{sys.argv[2]}: {len(converted) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
