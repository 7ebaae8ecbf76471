"""GGUF files as Python values: read, changed, written again. Needs nothing but Python."""
import struct

STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
F32, F16, Q4_0, Q8_0, Q4_K, I32, BF16 = 0, 1, 2, 8, 12, 26, 30
BLOCKS = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34),
          Q4_K: (256, 144), I32: (1, 4)}  # elements, bytes


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def numbers(self, pattern):
        values = struct.unpack_from("<" + pattern, self.data, self.at)
        self.at += struct.calcsize("<" + pattern)
        return values

    def string(self):
        size, = self.numbers("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def value(self, kind):
        """A number, bytes, or for an array the kind of its elements and a list of them."""
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.numbers(NUMBERS[kind])[0]
        element, count = self.numbers("IQ")
        if element in NUMBERS:
            return element, list(self.numbers(f"{count}{NUMBERS[element]}"))
        return element, [self.value(element) for _ in range(count)]


class Tensor:
    def __init__(self, shape, kind, data):
        self.shape, self.kind, self.data = shape, kind, data  # shape from the fastest axis on


class GgufFile:
    """`entries` maps names to (kind, value), `tensors` names to Tensor, in the file's order."""

    def __init__(self, path):
        with open(path, "rb") as file:
            reader = Reader(file.read())
        magic, self.version, n_tensors, n_entries = reader.numbers("4sIQQ")
        if magic != b"GGUF":
            raise ValueError(f"{path}: expected a GGUF file, found {magic!r}")
        self.entries, self.tensors, places = {}, {}, {}
        for _ in range(n_entries):
            name, (kind,) = reader.string().decode(), reader.numbers("I")
            self.entries[name] = kind, reader.value(kind)
        for _ in range(n_tensors):
            name, (axes,) = reader.string().decode(), reader.numbers("I")
            shape = reader.numbers(f"{axes}Q")
            places[name] = shape, *reader.numbers("IQ")
        start = reader.at + -reader.at % self.alignment()
        for name, (shape, kind, offset) in places.items():
            elements, size = BLOCKS[kind][0], BLOCKS[kind][1]
            for axis in shape:
                size *= axis
            at = start + offset
            self.tensors[name] = Tensor(shape, kind, reader.data[at:at + size // elements])

    def alignment(self):
        return self.entries.get("general.alignment", (4, 32))[1]

    def put(self, name, value):
        """Another value of the kind that is there."""
        kind, old = self.entries[name]
        self.entries[name] = kind, (old[0], value) if kind == ARRAY else value

    def bytes(self):
        align = self.alignment()
        head = [struct.pack("<4sIQQ", b"GGUF", self.version, len(self.tensors),
                            len(self.entries))]
        for name, (kind, value) in self.entries.items():
            head += [text(name.encode()), struct.pack("<I", kind), packed(kind, value)]
        body, size = [], 0
        for name, tensor in self.tensors.items():
            axes = len(tensor.shape)
            head += [text(name.encode()), struct.pack(f"<I{axes}QIQ", axes, *tensor.shape,
                                                      tensor.kind, size)]
            body += [tensor.data, bytes(-len(tensor.data) % align)]
            size += len(tensor.data) + -len(tensor.data) % align
        head = b"".join(head)
        return b"".join([head, bytes(-len(head) % align), *body])


def text(data):
    return struct.pack("<Q", len(data)) + data


def packed(kind, value):
    if kind == STRING:
        return text(value)
    if kind != ARRAY:
        return struct.pack("<" + NUMBERS[kind], value)
    element, values = value
    head = struct.pack("<IQ", element, len(values))
    if element in NUMBERS:
        return head + struct.pack(f"<{len(values)}{NUMBERS[element]}", *values)
    return head + b"".join(packed(element, one) for one in values)


def dequantized(data):
    """Q8_0 blocks (a half scale, 32 signed bytes) as numbers."""
    return [scale * q for scale, *quants in struct.iter_unpack("<e32b", data) for q in quants]


def as_f16(model):
    """Its matrices as F16, each weight rounded once."""
    for tensor in model.tensors.values():
        if tensor.kind == Q8_0:
            values = dequantized(tensor.data)
        elif tensor.kind == F32 and len(tensor.shape) > 1:
            values = struct.unpack(f"<{len(tensor.data) // 4}f", tensor.data)
        else:
            continue
        tensor.kind, tensor.data = F16, struct.pack(f"<{len(values)}e", *values)
    return model
