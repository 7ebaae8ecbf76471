"""Predictors of whether a draft layer's guess is right, learnt from places (acceptance_places.py),
and how well they tell: for acceptance.py. Needs PyTorch and NumPy.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from acceptance_places import SCALARS, STEPS
from draft_rounds import RIGHT, UNKNOWN

HISTORY = 4        # places before, one by one; and of so many more the mean:
LONG_HISTORY = 16
FIRST_RIGHT = 0.6  # where there is none
WIDTH, BLOCKS = 112, 2  # of the acceptance head
EPOCHS, BATCH, RATE, DECAY = 4, 512, 5e-4, 0.1
STATE_DROPOUT, DROPOUT = 0.5, 0.2  # with less, more than one epoch makes it worse
VALIDATED = 10     # a text of so many says which epoch is kept


def logit(p):
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.log(p / (1 - p))


def history(places):
    """(N, HISTORY + 1): whether the first guess at the places before was right, which is known
    where a round began there; of the last few, and the mean of more."""
    n = len(places.text)
    out = np.full((n, HISTORY + 1), FIRST_RIGHT, np.float32)
    first = (places.right[:, 0] == RIGHT).astype(np.float32)
    begins = np.flatnonzero(np.r_[True, places.text[1:] != places.text[:-1]])
    for begin, end in zip(begins, [*begins[1:], n]):
        sums = np.r_[0, np.cumsum(first[begin:end])]
        for back in range(1, HISTORY + 1):
            out[begin + back:end, back - 1] = first[begin:max(begin, end - back)]
        i = np.arange(1, end - begin)
        low = np.maximum(0, i - LONG_HISTORY)
        out[begin + 1:end, HISTORY] = (sums[i] - sums[low]) / (i - low)
    return out


def features(places):
    """(N, STEPS, F): what speaks of a guess beside the layer's state."""
    s = {name: places.scalars[:, :, i] for i, name in enumerate(SCALARS)}
    per_guess = [s["p"], logit(s["p"]), logit(s["annealed"]), s["entropy"], s["margin"],
                 np.log1p(s["margin"]), s["drawn_margin"], np.log1p(s["drawn_margin"]),
                 logit(s["drawn_p"]), s["noise"]]
    n = len(places.text)
    step = np.broadcast_to(np.eye(STEPS, dtype=np.float32)[None], (n, STEPS, STEPS))
    past = np.broadcast_to(history(places)[:, None], (n, STEPS, HISTORY + 1))
    sampled = np.broadcast_to(places.sampled[:, None, None], (n, STEPS, 1))
    return np.concatenate([np.stack(per_guess, -1), step, past, sampled], -1).astype(np.float32)


def known(places):
    """(N, STEPS): guesses behind right ones alone."""
    return places.right != UNKNOWN


def fit_logistic(x, right, ridge=1.0):
    """Weights of x (n, f) and a bias behind them, by Newton's method."""
    x = np.concatenate([x, np.ones((len(x), 1))], 1).astype(np.float64)
    w, pull = np.zeros(x.shape[1]), np.r_[np.full(x.shape[1] - 1, ridge), 0]
    for _ in range(40):
        p = 1 / (1 + np.exp(-x @ w))
        h = (x * (p * (1 - p))[:, None]).T @ x + np.diag(pull + 1e-9)
        move = np.linalg.solve(h, x.T @ (right - p) - pull * w)
        w += move
        if np.abs(move).max() < 1e-8:
            break
    return w


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))


class Logistic:
    """Over all that is known but the state, scaled to one size."""

    def __init__(self, places):
        x, which = features(places), known(places)
        self.mean, self.size = x[which].mean(0), x[which].std(0) + 1e-6
        self.w = fit_logistic((x[which] - self.mean) / self.size, places.right[which] == RIGHT)

    def chances(self, places):
        return sigmoid(((features(places) - self.mean) / self.size) @ self.w[:-1] + self.w[-1])


class MarginByStep:
    """A logistic of the margin, for each step its own."""
    AT = SCALARS.index("drawn_margin")

    def __init__(self, places):
        self.w = []
        for j in range(STEPS):
            which = known(places)[:, j]
            self.w.append(fit_logistic(places.scalars[which, j, self.AT][:, None],
                                       places.right[which, j] == RIGHT))

    def chances(self, places):
        a, b = np.array(self.w).T
        return sigmoid(places.scalars[:, :, self.AT] * a + b)


class Residual(torch.nn.Module):
    """The acceptance head: the state and what else is known through a few residual layers."""

    def __init__(self, n_state, n_more):
        super().__init__()
        self.n_state = n_state
        self.first = torch.nn.Linear(n_state + n_more, WIDTH)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS))
        self.last = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        state = F.dropout(x[:, :self.n_state], STATE_DROPOUT, self.training)
        x = F.silu(self.first(torch.cat([state, x[:, self.n_state:]], -1)))
        x = F.dropout(x, DROPOUT, self.training)
        for block in self.blocks:
            x = x + F.silu(block(x))
        return self.last(x)[:, 0]


class AcceptanceHead:
    """Learnt by cross-entropy in which right and wrong guesses weigh the same altogether, the
    paper's equation 10; chances(undone=True) takes the weights out of its odds again. `alone`: the
    state and nothing else, as the paper has it."""

    def __init__(self, places, alone=False, seed=0, report=print):
        torch.manual_seed(seed)
        self.alone = alone
        which = known(places)
        x = features(places)
        self.mean, self.size = x[which].mean(0), x[which].std(0) + 1e-6
        some = places.state[which][::7].astype(np.float32)
        self.state_mean, self.state_size = some.mean(0), some.std(0) + 1e-6
        row, step = np.nonzero(which)
        held = places.text[row] % VALIDATED == 0
        if held.all() or not held.any():
            raise SystemExit(f"expected {2 * VALIDATED} texts or more to learn from, found "
                             f"{len(np.unique(places.text))}")
        right = torch.from_numpy((places.right[row, step] == RIGHT).astype(np.float32))
        share = float(right[~held].mean())
        self.shift = math.log((1 - share) / share)  # of log-odds, by the weights
        weight = torch.where(right > 0, 0.5 / share, 0.5 / (1 - share))
        self.net = Residual(places.state.shape[2], x.shape[2] * (not alone))
        self.parameters = sum(w.numel() for w in self.net.parameters())
        adam = torch.optim.AdamW(self.net.parameters(), lr=RATE, weight_decay=DECAY)
        learnt, best = np.flatnonzero(~held), None
        total, done = EPOCHS * -(-len(learnt) // BATCH), 0
        for epoch in range(EPOCHS):
            self.net.train()
            np.random.default_rng(epoch).shuffle(learnt)
            for i in range(0, len(learnt), BATCH):
                at = learnt[i:i + BATCH]
                for group in adam.param_groups:
                    group["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * done / total))
                z = self.net(self.inputs(places, x, row[at], step[at]))
                loss = F.binary_cross_entropy_with_logits(z, right[at], weight[at])
                adam.zero_grad(set_to_none=True)
                loss.backward()
                adam.step()
                done += 1
            at = np.flatnonzero(held)
            z = self.logits(places, x, row[at], step[at])
            loss = float(F.binary_cross_entropy_with_logits(z, right[at], weight[at]))
            report(f"acceptance head{', state alone' * alone}: epoch {epoch + 1}, loss where "
                   f"nothing was learnt {loss:.4f}")
            if best is None or loss < best[0]:
                best = loss, {k: w.clone() for k, w in self.net.state_dict().items()}
        self.net.load_state_dict(best[1])
        self.net.eval()

    def inputs(self, places, x, row, step):
        state = (places.state[row, step].astype(np.float32) - self.state_mean) / self.state_size
        parts = [state] if self.alone else [state, (x[row, step] - self.mean) / self.size]
        return torch.from_numpy(np.concatenate(parts, -1))

    @torch.no_grad()
    def logits(self, places, x, row, step, at_once=16384):
        self.net.eval()
        return torch.cat([self.net(self.inputs(places, x, row[i:i + at_once], step[i:i + at_once]))
                          for i in range(0, len(row), at_once)])

    def chances(self, places, undone=True):
        row, step = np.nonzero(np.ones(places.right.shape, bool))
        z = self.logits(places, features(places), row, step).numpy().astype(np.float64)
        return sigmoid(z - self.shift * undone).reshape(places.right.shape)


def auc(chances, right):
    """Area under the ROC curve: how often a right guess is held for likelier than a wrong one."""
    order = np.argsort(chances, kind="stable")
    values = chances[order]
    _, start, counts = np.unique(values, return_index=True, return_counts=True)
    ranks = np.repeat(start + (counts + 1) / 2, counts)
    n = right.sum()
    if n in (0, len(right)):
        return float("nan")
    return float((ranks[right[order]].sum() - n * (n + 1) / 2) / (n * (len(right) - n)))


def calibration_error(chances, right, bins=15):
    """The mean distance of chance and share that were right, over bins of the same width."""
    at = np.minimum((chances * bins).astype(int), bins - 1)
    gaps = np.bincount(at, chances - right, bins)
    return float(np.abs(gaps).sum() / len(right))


def told(chances, places):
    """How well chances tell, by step and together."""
    out = {}
    for name, steps in [("all", slice(None)), *((str(j + 1), [j]) for j in range(STEPS))]:
        which = known(places)[:, steps]
        c, right = chances[:, steps][which], places.right[:, steps][which] == RIGHT
        out[name] = dict(guesses=len(c), right=round(float(right.mean()), 4),
                         auc=round(auc(c, right), 4),
                         brier=round(float(((c - right) ** 2).mean()), 4),
                         ece=round(calibration_error(c, right), 4))
    return out
