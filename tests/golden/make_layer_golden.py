#!/usr/bin/env python3
"""Losses and gradients of small random draft layers, by PyTorch's autograd in FP64.

Written from the formulas of src/model/exit_heads.h and EAGLE-3's training-time test (arXiv
2503.01840), position by position and chain by chain: nothing of it is laid out as the trainer has
it. layer_learning.f32 holds, for each of KINDS: the loss, then the gradients of what it has of W,
q, k, v, o, gate, up, down, its norms and the bias. What they are of comes from the same generator
on both sides: `values(n, size, seed)` here, layer_values() in tests/unit/layer_reference.h.

needs: pip install torch numpy
usage: make_layer_golden.py [directory]
"""

import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
DIM, HEADS, KV_HEADS, SIZE, INNER, WORDS = 16, 4, 2, 6, 12, 20
PASSAGES, STEPS, EPSILON, SHARPEN, THETA, ROTATED = (9, 6), 3, 1e-2, 1.5, 100.0, 4
LEARNT = [0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1]
SIZES = (2.5, 1.5, 4)  # of states: eagle, eagle3, kangaroo
KINDS = ("layer", "eagle", "eagle3", "kangaroo")
MASK = (1 << 64) - 1


def values(n, size, seed):
    """splitmix64, even in -size..size."""
    out = []
    for i in range(1, n + 1):
        z = (seed + i * 0x9e3779b97f4a7c15) & MASK
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
        z ^= z >> 31
        out.append(np.float32(size) * np.float32(float(z >> 40) * 2.0**-23 - 1))
    return torch.tensor(np.array(out, np.float64))


def matrix(rows, columns, size, seed):
    return values(rows * columns, size, seed).reshape(rows, columns)


def rms(x, epsilon=EPSILON):
    return x / (x.pow(2).mean() + epsilon).sqrt()


def rotated(heads, position, n):
    """The first n numbers of each head, pairs side by side."""
    rows = []
    for head in heads:
        numbers = list(head)
        for i in range(0, n, 2):
            angle = torch.tensor(position * THETA ** (-i / n), dtype=torch.float64)
            a, b = head[i], head[i + 1]
            numbers[i] = a * angle.cos() - b * angle.sin()
            numbers[i + 1] = a * angle.sin() + b * angle.cos()
        rows.append(torch.stack(numbers))
    return torch.stack(rows)


class Layer:
    """Of a kind, whose parameters are in the trainer's order."""

    def __init__(self, kind):
        kv, side = KV_HEADS * SIZE, 2 * DIM if kind == "eagle3" else DIM
        shapes = dict(map=(DIM, 3 * DIM if kind == "eagle3" else 2 * DIM),
                      q=(HEADS * SIZE, side), k=(kv, side), v=(kv, side), o=(DIM, HEADS * SIZE),
                      gate=(INNER, DIM), up=(INNER, DIM), down=(DIM, INNER), norm=(1, DIM),
                      ffn_norm=(1, DIM), attn_norm=(1, DIM), embedding_norm=(1, DIM),
                      bias=(1, DIM))
        lacks = dict(layer=("ffn_norm", "attn_norm", "embedding_norm", "bias"),
                     eagle=("norm", "attn_norm", "embedding_norm"), eagle3=("bias",),
                     kangaroo=("map", "gate", "up", "down", "ffn_norm", "embedding_norm", "bias"))
        self.kind = kind
        self.rotated = SIZE if kind in ("eagle3", "kangaroo") else ROTATED
        self.steps = 1 if kind == "kangaroo" else STEPS
        # Eps of norms of what was divided by a state's size.
        self.epsilon = EPSILON / SIZES[0]**2 if kind in ("eagle", "kangaroo") else EPSILON
        names = [name for name in shapes if name not in lacks[kind]]
        self.w = {name: matrix(*shapes[name], 0.5, 100 + n).requires_grad_()
                  for n, name in enumerate(names)}

    def entering(self, x, state, own):
        """u at a position whose state before it is this, one that the layer itself left if own."""
        w = self.w
        if self.kind == "eagle3":
            parts = [part / size for part, size in zip(state.split(DIM), SIZES)]
            return state if own else w["map"] @ torch.cat(parts)
        if self.kind == "layer":
            return w["map"] @ torch.cat([x, rms(state)])
        if self.kind == "eagle":
            return w["map"] @ torch.cat([x, state / SIZES[0]]) + w["bias"][0]
        return state / SIZES[0]

    def enter(self, x, state, position, own=False):
        """u, q, k, v of it."""
        w, u = self.w, self.entering(x, state, own)
        a = u if self.kind == "eagle" else rms(u, self.epsilon)
        if "attn_norm" in w:
            a = a * w["attn_norm"][0]
        if "embedding_norm" in w:
            a = torch.cat([x * w["embedding_norm"][0], a])
        q, k, v = ((w[n] @ a).reshape(-1, SIZE) for n in "qkv")
        return u, rotated(q, position, self.rotated), rotated(k, position, self.rotated), v

    def leave(self, u, q, seen):
        """y of a position that sees these K and V, and the state that the next step has."""
        w = self.w
        heads = []
        for h in range(HEADS):
            kv = h // (HEADS // KV_HEADS)
            scores = torch.stack([q[h] @ k[kv] for k, _ in seen]) * SIZE ** -0.5
            heads.append(scores.softmax(0) @ torch.stack([v[kv] for _, v in seen]))
        u = u + w["o"] @ torch.cat(heads)
        if "gate" in w:
            f = rms(u, self.epsilon)
            if "ffn_norm" in w:
                f = f * w["ffn_norm"][0]
            u = u + w["down"] @ (torch.nn.functional.silu(w["gate"] @ f) * (w["up"] @ f))
        if self.kind == "eagle":
            return u * SIZES[0], u * SIZES[0]
        y = rms(u, self.epsilon) * w["norm"][0]
        return y, u if self.kind == "eagle3" else y


def loss_of(layer, x, state, y, words):
    losses, first = [], 0
    for n in PASSAGES:
        rows = range(first, first + n)
        true = [layer.enter(x[r], state[r], r - first) for r in rows]
        kept = [(k, v) for _, _, k, v in true]

        def learn(said, r):
            goal = (words @ y[r] * SHARPEN).log_softmax(0)
            told = (words @ said).log_softmax(0)
            losses.append((goal.exp() * (goal - told)).sum())

        for start in range(n):
            u, q, _, _ = true[start]
            (said, left), own = layer.leave(u, q, kept[:start + 1]), []
            if not LEARNT[first + start]:
                continue
            learn(said, first + start)
            for position in range(start + 1, min(n, start + layer.steps)):
                r = first + position
                if not LEARNT[r]:
                    break
                u, q, k, v = layer.enter(x[r], left, position, own=True)
                own.append((k, v))
                said, left = layer.leave(u, q, kept[:start + 1] + own)
                learn(said, r)
        first += n
    return torch.stack(losses).mean()


def main():
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    n = sum(PASSAGES)
    x, y = matrix(n, DIM, 1.5, 1), matrix(n, DIM, 2, 3)
    words = matrix(WORDS, DIM, 0.8, 4)
    out = []
    for kind in KINDS:
        layer = Layer(kind)
        state = matrix(n, 3 * DIM if kind == "eagle3" else DIM, 2, 2)
        loss = loss_of(layer, x, state, y, words)
        loss.backward()
        out += [loss.detach().reshape(1)] + [w.grad.reshape(-1) for w in layer.w.values()]
    data = torch.cat(out).numpy().astype(np.float32)
    (directory / "layer_learning.f32").write_bytes(data.tobytes())
    print(f"{len(data)} numbers")


if __name__ == "__main__":
    main()
