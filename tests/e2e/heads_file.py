"""Heads files written from nothing but the format: random weights, of any scale, for a model whose
fingerprint the program itself tells."""
import os
import random
import re
import struct
import tempfile

from specbound_process import DEMO, specbound

I32, Q8_0, F16, F32 = 26, 8, 1, 0
# What tests need to know of the bundled model.
DEMO_SHAPE = dict(architecture="llama", n_layers=16, dim=256, vocab_size=4096)


NONE_OF = {int: (5,), float: (6,), str: (8,)}  # lists without entries


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A key with its value: int (u32), float, str, a list of i32, f32 or str, or NONE_OF these."""
    def typed(one, in_list=False):
        if isinstance(one, str):
            return 8, text(one)
        if isinstance(one, float):
            return 6, struct.pack("<f", one)
        return (5, struct.pack("<i", one)) if in_list else (4, struct.pack("<I", one))

    if isinstance(value, tuple):
        return text(key) + struct.pack("<IIQ", 9, *value, 0)
    if not isinstance(value, list):
        kind, data = typed(value)
        return text(key) + struct.pack("<I", kind) + data
    items = [typed(one, True) for one in value]
    return (text(key) + struct.pack("<IIQ", 9, items[0][0], len(items)) +
            b"".join(data for _, data in items))


def gguf(entries, tensors):
    """The file; tensors are (name, type, shape from the fastest dimension on, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(entry(key, value) for key, value in entries.items())
    data = b""
    for name, kind, shape, content in tensors:
        data += b"\0" * (-len(data) % 32)
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", size) for size in shape)
        head += struct.pack("<IQ", kind, len(data))
        data += content
    return head + b"\0" * (-len(head) % 32) + data


def q8_0(rng, n_out, n_in, scale):
    """Random blocks; `scale` is the value of one step."""
    step = struct.pack("<e", scale)
    return b"".join(step + rng.randbytes(32) for _ in range(n_out * n_in // 32))


def f16(rng, n_out, n_in, scale):
    return b"".join(struct.pack("<e", scale * (2 * rng.random() - 1)) for _ in range(n_out * n_in))


def heads_bytes(fingerprint, kind="chained", layers=(0,), shortlist=256, scale=0.002, seed=1,
                model=None, inner=32, **settings):
    """A file of random heads of one kind; `settings` replace keys, named without specbound."""
    model = model or DEMO_SHAPE
    rng, dim = random.Random(seed), model["dim"]
    entries = {"general.architecture": "specbound-heads"}
    for key, value in model.items():
        entries[f"specbound.base.{key}"] = value
    tensors = []
    entries.update({
        "specbound.base.fingerprint": fingerprint,
        "specbound.head_layers": list(layers), "specbound.head_kinds": [kind] * len(layers),
        "specbound.margin_scale": [1.0] * len(layers),
        "specbound.margin_offset": [0.0] * len(layers), "specbound.kind": kind,
        "specbound.check_layers": list(layers), "specbound.shortlist_size": shortlist,
        "specbound.alpha": 0.2, "specbound.tau": 0.5, "specbound.d_max": 10, "specbound.w_max": 8})
    entries.update({f"specbound.{key}": value for key, value in settings.items()})
    if kind != "full":
        ids = rng.sample(range(model["vocab_size"]), shortlist)
        tensors.append(("exit.shortlist", I32, [shortlist], struct.pack(f"<{shortlist}i", *ids)))
    else:
        entries["specbound.shortlist_size"] = 0

    def add(name, n_out, n_in, encode=q8_0, number=Q8_0):
        tensors.append((name, number, [n_in, n_out], encode(rng, n_out, n_in, scale)))

    for layer in layers:
        if kind == "full":
            add(f"exit.{layer}.full.weight", dim, dim, f16, F16)
        elif kind == "folded":
            add(f"exit.{layer}.folded.weight", shortlist, dim)
        else:
            add(f"exit.{layer}.chained.map.weight", dim, 2 * dim)
            if inner:
                add(f"exit.{layer}.chained.inner.weight", inner, 2 * dim)
                add(f"exit.{layer}.chained.outer.weight", dim, inner)
    return gguf(entries, tensors)


def masks_bytes(fingerprint, rows=0, token=None, count=0, seed=1):
    """A file of mask tokens alone: random rows of the size of embeddings, or `count` of a token."""
    rng, dim = random.Random(seed), DEMO_SHAPE["dim"]
    entries = {"general.architecture": "specbound-heads", "specbound.base.fingerprint": fingerprint}
    entries.update({f"specbound.base.{key}": value for key, value in DEMO_SHAPE.items()})
    entries.update({"specbound.head_layers": NONE_OF[int], "specbound.head_kinds": NONE_OF[str],
                    "specbound.margin_scale": NONE_OF[float],
                    "specbound.margin_offset": NONE_OF[float]})
    if not rows:
        entries.update({"specbound.mask.token": token, "specbound.mask.count": count})
        return gguf(entries, [])
    values = [0.1 * rng.gauss(0, 1) for _ in range(rows * dim)]
    return gguf(entries, [("exit.masks.weight", F32, [dim, rows],
                           struct.pack(f"<{rows * dim}f", *values))])


def demo_fingerprint():
    """Of the bundled model, out of the refusal of a file that is made for none."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "none.heads.gguf")
        with open(path, "wb") as file:
            file.write(heads_bytes("0" * 16, inner=0, shortlist=16))
        result = specbound("run", "-m", DEMO, "-p", "x", "--heads", path)
    found = re.search(rb"expected fingerprint ([0-9a-f]{16}), found 0{16}", result.stderr)
    assert found, result.stderr
    return found[1].decode()
