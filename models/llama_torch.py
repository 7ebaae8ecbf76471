"""GGUF files read and written, and a Llama model of one in plain PyTorch.

What make_smollm2_heads.py needs of a model: its final states over whole texts, and many replies at
once. Embedding tied to the head, tensors in F32, F16, Q4_1 or Q8_0.
"""

import struct
import time

import numpy as np
import torch
import torch.nn.functional as F

F32, F16, Q4_1, Q8_0, I32 = 0, 1, 3, 8, 26
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_1: (32, 20), Q8_0: (32, 34), I32: (1, 4)}  # values, bytes
STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
ALIGNMENT = 32
BLOCK = 32


def aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class Gguf:
    """A file's keys: name -> (type, value), of an array (ARRAY, (type, values)). Its tensors:
    name -> (shape with rows first, type, bytes)."""

    def __init__(self, path):
        self.data, self.at = np.memmap(path, np.uint8, "r"), 8
        if bytes(self.data[:4]) != b"GGUF":
            raise SystemExit(f"{path}: expected a GGUF file")
        n_tensors, n_keys = self.number("Q"), self.number("Q")
        self.keys = {}
        for _ in range(n_keys):
            name, kind = self.string(), self.number("I")
            self.keys[name] = (kind, self.value(kind))
        places = []
        for _ in range(n_tensors):
            name = self.string()
            shape = [self.number("Q") for _ in range(self.number("I"))][::-1]
            places.append((name, shape, self.number("I"), self.number("Q")))
        self.tensors, base = {}, aligned(self.at)
        for name, shape, kind, offset in places:
            if kind not in BLOCKS:
                raise SystemExit(f"{path}: {name}: a type that this script does not read: {kind}")
            values, size = BLOCKS[kind]
            end = base + offset + int(np.prod(shape)) // values * size
            self.tensors[name] = (shape, kind, self.data[base + offset:end])

    def number(self, code):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at]).decode("utf-8", "replace")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            of, n = self.number("I"), self.number("Q")
            return of, [self.value(of) for _ in range(n)]
        return self.number(NUMBERS[kind])

    def get(self, name):
        kind, value = self.keys[name]
        return value[1] if kind == ARRAY else value


def write_gguf(path, keys, tensors):
    """Both as Gguf has them; whatever a tensor's bytes are is written as it is."""
    def string(text):
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def encoded(kind, value):
        if kind == STRING:
            return string(value)
        if kind == ARRAY:
            of, values = value
            return struct.pack("<IQ", of, len(values)) + b"".join(encoded(of, v) for v in values)
        return struct.pack("<" + NUMBERS[kind], value)

    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for name, (kind, value) in keys.items():
        head += string(name) + struct.pack("<I", kind) + encoded(kind, value)
    offset = 0
    for name, (shape, kind, data) in tensors.items():
        head += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind,
                                           offset)
        offset += aligned(len(data))
    with open(path, "wb") as out:
        out.write(head.ljust(aligned(len(head)), b"\0"))
        for _, _, data in tensors.values():
            out.write(bytes(data).ljust(aligned(len(data)), b"\0"))


def to_q8_0(values):
    """The bytes of a float array, whole blocks a row."""
    x = np.asarray(values, np.float32).reshape(-1, BLOCK)
    d = (np.abs(x).max(1, keepdims=True) / 127).astype(np.float16)
    scale = np.where(d == 0, 1, d).astype(np.float32)
    q = np.clip(np.rint(x / scale), -127, 127).astype(np.int8)
    return np.concatenate([d.view(np.uint8), q.view(np.uint8)], 1).tobytes()


def to_floats(kind, data):
    data = np.asarray(data)
    if kind == F32:
        return data.view(np.float32)
    if kind == F16:
        return data.view(np.float16).astype(np.float32)
    rows = data.reshape(-1, BLOCKS[kind][1])

    def half(at):
        return rows[:, at:at + 2].copy().view(np.float16).astype(np.float32)

    if kind == Q8_0:
        return rows[:, 2:].copy().view(np.int8) * half(0)
    if kind == Q4_1:
        return np.concatenate([rows[:, 4:] & 15, rows[:, 4:] >> 4], 1) * half(0) + half(2)
    raise SystemExit(f"no matrix has type {kind}")


def rope(x, cos, sin):
    """Pairs side by side; cos and sin have half as many values."""
    a, b = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class Llama:
    MOST = 1280  # positions of a text

    def __init__(self, path, device):
        file = Gguf(path)
        if file.get("general.architecture") != "llama" or "output.weight" in file.tensors:
            raise SystemExit(f"{path}: expected a llama model with its embedding tied to its head")
        self.device = device
        self.floats = torch.bfloat16 if device == "cuda" else torch.float32

        def key(name):
            return file.get("llama." + name)

        def tensor(name):
            shape, kind, data = file.tensors[name + ".weight"]
            return torch.from_numpy(np.array(to_floats(kind, data)).reshape(shape)).to(device)

        self.dim, self.heads = key("embedding_length"), key("attention.head_count")
        self.kv, self.size = key("attention.head_count_kv"), self.dim // self.heads
        self.group = self.heads // self.kv
        self.split = [self.dim, self.kv * self.size, self.kv * self.size]
        self.epsilon = key("attention.layer_norm_rms_epsilon")
        self.embedding = tensor("token_embd").to(self.floats)
        self.vocabulary = self.embedding.shape[0]
        self.norm = tensor("output_norm")
        self.layers = []
        for n in range(key("block_count")):
            def of(*names, n=n):
                return torch.cat([tensor(f"blk.{n}.{name}") for name in names])
            self.layers.append(dict(
                attention_norm=of("attn_norm"), qkv=of("attn_q", "attn_k", "attn_v"),
                out=of("attn_output"), ffn_norm=of("ffn_norm"), gate_up=of("ffn_gate", "ffn_up"),
                down=of("ffn_down")))
            for name in ("qkv", "out", "gate_up", "down"):
                self.layers[-1][name] = self.layers[-1][name].to(self.floats)
        angles = torch.arange(self.MOST)[:, None].float() * key("rope.freq_base") ** (
            -torch.arange(0, self.size, 2).float() / self.size)[None]
        self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)

    def rms(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)

    def logits(self, y):
        return y @ self.embedding.T

    def _block(self, x, w, attend):
        h = (self.rms(x) * w["attention_norm"]).to(self.floats)
        x = x + (attend(*(h @ w["qkv"].T).split(self.split, -1)) @ w["out"].T).float()
        h = (self.rms(x) * w["ffn_norm"]).to(self.floats)
        gate, up = (h @ w["gate_up"].T).chunk(2, -1)
        return x + ((F.silu(gate) * up) @ w["down"].T).float()

    def states(self, tokens, cache=None):
        """norm(h_L) of texts (B, T); keys and values go to `cache` where there is one."""
        b, t = tokens.shape
        x, cos, sin = self.embedding[tokens].float(), self.cos[:t, None], self.sin[:t, None]
        for n, w in enumerate(self.layers):
            def attend(q, k, v, n=n):
                q = rope(q.view(b, t, self.heads, self.size), cos, sin).transpose(1, 2)
                k = rope(k.view(b, t, self.kv, self.size), cos, sin).transpose(1, 2)
                v = v.view(b, t, self.kv, self.size).transpose(1, 2)
                if cache is not None:
                    cache[n, 0, :, :, :t], cache[n, 1, :, :, :t] = k, v
                k, v = (a.repeat_interleave(self.group, 1) for a in (k, v))
                o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return o.transpose(1, 2).reshape(b, t, self.dim)
            x = self._block(x, w, attend)
        return (self.rms(x) * self.norm).to(self.floats)

    def _step(self, tokens, at, cache):
        """Logits of one more token a text, at the positions `at`."""
        b = len(tokens)
        x, cos, sin = self.embedding[tokens].float(), self.cos[at][:, None], self.sin[at][:, None]
        later = (torch.arange(cache.shape[4], device=at.device) > at[:, None])[:, None, None]
        place = (torch.arange(b, device=at.device)[:, None],
                 torch.arange(self.kv, device=at.device)[None], at[:, None])
        for n, w in enumerate(self.layers):
            def attend(q, k, v, n=n):
                q = rope(q.view(b, self.heads, self.size), cos, sin)
                q = q.view(b, self.kv, self.group, self.size)
                cache[n, 0].index_put_(place, rope(k.view(b, self.kv, self.size), cos, sin))
                cache[n, 1].index_put_(place, v.view(b, self.kv, self.size))
                z = (q @ cache[n, 0].transpose(-1, -2)).float() * self.size ** -0.5
                p = z.masked_fill(later, -1e30).softmax(-1).to(self.floats)
                return (p @ cache[n, 1]).reshape(b, self.dim)
            x = self._block(x, w, attend)
        return self.logits((self.rms(x) * self.norm).to(self.floats))

    @torch.no_grad()
    def write(self, prompts, temperatures, limit, end):
        """A reply to each prompt, together, each with its `end` or cut at `limit` tokens."""
        b, device = len(prompts), self.device
        sizes = torch.tensor([len(p) for p in prompts], device=device)
        longest = int(sizes.max())
        cache = torch.zeros(len(self.layers), 2, b, self.kv, longest + limit, self.size,
                            device=device, dtype=self.floats)
        tokens = torch.zeros(b, longest, dtype=torch.long)
        for row, prompt in zip(tokens, prompts):
            row[:len(prompt)] = torch.from_numpy(prompt)
        last = []
        for i in range(0, b, 64):  # so many at once, as attention over a prompt takes room
            part = slice(i, min(i + 64, b))
            y = self.states(tokens[part].to(device), cache[:, :, part])
            last.append(y[torch.arange(len(y), device=device), sizes[part] - 1])
        heat = torch.tensor(temperatures, device=device, dtype=torch.float32)[:, None]

        def pick(z):
            z = z.float()
            gumbel = -torch.log(-torch.log(torch.rand_like(z).clamp_(1e-9, 1 - 1e-7)))
            return torch.where(heat > 0, z / heat.clamp(min=0.01) + gumbel, z).argmax(-1)

        token, at = pick(self.logits(torch.cat(last))), sizes.clone()
        written = torch.zeros(limit, b, dtype=torch.long, device=device)
        count = torch.zeros(1, dtype=torch.long, device=device)

        def one():  # in place: a graph repeats it
            written.index_copy_(0, count, token[None])
            following = pick(self._step(token, at, cache))
            count.add_(1)
            at.add_(1).clamp_(max=longest + limit - 1)
            token.copy_(following)

        graph, n = None, 0
        while n < limit:
            if graph is None and n == 3 and device == "cuda":  # what runs first allocates
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    one()
            graph.replay() if graph else one()
            n += 1
            if n % 32 == 0 and bool((written[:n] == end).any(0).all()):
                break
        replies = []
        for row in written[:n].T.cpu().numpy():
            ends = np.flatnonzero(row == end)
            replies.append(row[:ends[0] + 1] if len(ends) else row)
        return replies


def stopwatch():
    begin = time.monotonic()
    return lambda: time.monotonic() - begin
