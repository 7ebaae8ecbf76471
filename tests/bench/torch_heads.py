#!/usr/bin/env python3
"""The losses of bench_train.cpp in plain PyTorch, as one would write them: autograd, float32,
AdamW.

One chained head at layer 0 (three steps on its own state) and folded heads at layers 2, 4 and 8
learn from the same batches by KL to the final distribution on the shortlist. Prints one JSON
object.
"""

import argparse
import json
import math
import time

import torch
import torch.nn.functional as F

DIM, VOCAB, REPLY, UNROLL, FOLDED = 256, 4096, 64, 3, 3


class Chained(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.map = torch.nn.Linear(2 * DIM, DIM, bias=False)
        self.inner = torch.nn.Linear(2 * DIM, inner, bias=False)
        self.outer = torch.nn.Linear(inner, DIM, bias=False)
        torch.nn.init.zeros_(self.outer.weight)

    def forward(self, x, state):
        u = torch.cat([x, state], dim=-1)
        return self.map(u) + self.outer(F.silu(self.inner(u)))


def divergence(y, words, goal):
    return F.kl_div(F.log_softmax(y @ words.T, dim=-1), goal, reduction="none").sum(-1)


def main():
    parser = argparse.ArgumentParser(description="Heads in PyTorch, timed.")
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--shortlist", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("-t", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.t)
    torch.manual_seed(0)

    def noise(*shape):
        return (torch.rand(*shape) * 2 - 1) * 1.7

    x, y = noise(1 + FOLDED, a.rows, DIM), noise(a.rows, DIM)
    words = noise(VOCAB, DIM)[:a.shortlist].contiguous()
    chained = Chained(DIM)
    folded = torch.nn.ModuleList(torch.nn.Linear(DIM, DIM, bias=False) for _ in range(FOLDED))
    parameters = [*chained.parameters(), *folded.parameters()]
    adam = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, betas=(0.9, 0.98))
    order = torch.randperm(a.rows)
    steps = math.ceil(a.rows / a.batch)
    head_rows, start, losses = 0, time.perf_counter(), []
    for step in range(steps):
        rows = order[step * a.batch:(step + 1) * a.batch]
        with torch.no_grad():
            goal = F.softmax(y[rows] @ words.T, dim=-1)
        loss = torch.zeros(())
        for head, hidden in zip(folded, x[1:]):
            loss = loss + divergence(head(hidden[rows]), words, goal).mean()
            head_rows += len(rows)
        # Those rows of a reply that have a state before them, and then those that go on.
        at = rows[rows % REPLY != 0]
        state, parts = y[at - 1], []
        for ahead in range(UNROLL):
            now = at + ahead
            with torch.no_grad():
                goal = F.softmax(y[now] @ words.T, dim=-1)
            state = chained(x[0][now], state)
            parts.append(divergence(state, words, goal))
            head_rows += len(now)
            stays = ((now + 1) % REPLY != 0) & (now + 1 < a.rows)
            at, state = at[stays], state[stays]
        loss = loss + torch.cat(parts).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 5)
        adam.step()
        losses.append(loss.item() / (1 + FOLDED))
    seconds = time.perf_counter() - start
    print(json.dumps(dict(tokens_x_layers_per_second=head_rows / seconds,
                          arithmetic=f"PyTorch {torch.__version__}", loss=losses[-1])))


if __name__ == "__main__":
    main()
