#!/usr/bin/env python3
"""Losses and gradients of small random draft layers, by PyTorch's autograd in FP64.

Written from the formulas of src/model/exit_heads.h and EAGLE-3's training-time test (arXiv
2503.01840), position by position and chain by chain: nothing of it is laid out as the trainer has
it. layer_learning.f32 holds, for `layer`, then `eagle`: the loss, then the gradients of W, q, k, v,
o, gate, up, down, norm and, of eagle, the bias. What they are of comes from the same generator on
both sides: `values(n, size, seed)` here, random_values() in tests/unit/layer_learning_test.cpp.

needs: pip install torch numpy
usage: make_layer_golden.py [directory]
"""

import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
DIM, HEADS, KV_HEADS, SIZE, INNER, WORDS = 16, 4, 2, 6, 12, 20
PASSAGES, STEPS, EPSILON, SHARPEN, THETA, ROTATED = (9, 6), 3, 1e-5, 1.5, 100.0, 4
LEARNT = [0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1]
STATE_SIZE = 2.5  # of eagle
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


def rotated(heads, position):
    """The first ROTATED numbers of each head, pairs side by side."""
    rows = []
    for head in heads:
        numbers = list(head)
        for i in range(0, ROTATED, 2):
            angle = torch.tensor(position * THETA ** (-i / ROTATED), dtype=torch.float64)
            a, b = head[i], head[i + 1]
            numbers[i] = a * angle.cos() - b * angle.sin()
            numbers[i + 1] = a * angle.sin() + b * angle.cos()
        rows.append(torch.stack(numbers))
    return torch.stack(rows)


class Layer:
    def __init__(self, eagle):
        kv = KV_HEADS * SIZE
        shapes = dict(map=(DIM, 2 * DIM), q=(HEADS * SIZE, DIM), k=(kv, DIM), v=(kv, DIM),
                      o=(DIM, HEADS * SIZE), gate=(INNER, DIM), up=(INNER, DIM),
                      down=(DIM, INNER), norm=(1, DIM))
        if eagle:
            shapes["bias"] = (1, DIM)
        self.eagle = eagle
        self.w = {name: matrix(*shape, 0.5, 100 + n).requires_grad_()
                  for n, (name, shape) in enumerate(shapes.items())}

    def enter(self, x, state, position):
        """u, q, k, v of a position whose state before it is this."""
        w = self.w
        factor = 1 / STATE_SIZE
        s = state * factor if self.eagle else rms(state)
        u = w["map"] @ torch.cat([x, s])
        if self.eagle:
            u = u + w["bias"][0]
        a = u if self.eagle else rms(u)
        q, k, v = ((w[n] @ a).reshape(-1, SIZE) for n in "qkv")
        return u, rotated(q, position), rotated(k, position), v

    def leave(self, u, q, seen):
        """y of a position that sees these K and V."""
        w = self.w
        heads = []
        for h in range(HEADS):
            kv = h // (HEADS // KV_HEADS)
            scores = torch.stack([q[h] @ k[kv] for k, _ in seen]) * SIZE ** -0.5
            heads.append(scores.softmax(0) @ torch.stack([v[kv] for _, v in seen]))
        u = u + w["o"] @ torch.cat(heads)
        epsilon = EPSILON / STATE_SIZE**2 if self.eagle else EPSILON
        f = rms(u, epsilon) * (w["norm"][0] if self.eagle else 1)
        u = u + w["down"] @ (torch.nn.functional.silu(w["gate"] @ f) * (w["up"] @ f))
        return u * STATE_SIZE if self.eagle else rms(u) * w["norm"][0]


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
            said, own = layer.leave(u, q, kept[:start + 1]), []
            if not LEARNT[first + start]:
                continue
            learn(said, first + start)
            for position in range(start + 1, min(n, start + STEPS)):
                r = first + position
                if not LEARNT[r]:
                    break
                u, q, k, v = layer.enter(x[r], said, position)
                own.append((k, v))
                said = layer.leave(u, q, kept[:start + 1] + own)
                learn(said, r)
        first += n
    return torch.stack(losses).mean()


def main():
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    n = sum(PASSAGES)
    x, state, y = (matrix(n, DIM, size, seed) for size, seed in ((1.5, 1), (2, 2), (2, 3)))
    words = matrix(WORDS, DIM, 0.8, 4)
    out = []
    for eagle in (False, True):
        layer = Layer(eagle)
        loss = loss_of(layer, x, state, y, words)
        loss.backward()
        out += [loss.detach().reshape(1)] + [w.grad.reshape(-1) for w in layer.w.values()]
    data = torch.cat(out).numpy().astype(np.float32)
    (directory / "layer_learning.f32").write_bytes(data.tobytes())
    print(f"{len(data)} numbers")


if __name__ == "__main__":
    main()
