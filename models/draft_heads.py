"""The heads that draft, as PyTorch modules: a decoder layer and a chained head.

Both guess the token behind position i from the token there and the state s of the position before:
norm(h_L) of the model where it has gone through all layers, else the head's own y. E is the model's
embedding, tied to its head; logits are E_s y over a shortlist.

    layer    u = W [rms(E token); rms(s)]
             u += o attention(rms(u)); u += down (silu(gate rms(u)) * (up rms(u)))
             y = rms(u) * wn
    chained  u = [rms(E token); s]; y = A u + Dm silu(C u)

The layer attends to all positions before, with the model's heads and rotation; what it keeps of
a position that the model has gone through comes from the model's state.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from llama_torch import Q8_0, Gguf, rope, stopwatch, to_floats, to_q8_0

STEPS = 4      # of a chain, in learning and where it is measured
SHARPEN = 1.5  # of the model's logits that are learnt
FADE = 0.8     # weight of a step in the loss, of the step before


class Chained(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        dim = model.dim
        half = F.pad(torch.eye(dim) * 0.5, (dim, 0))
        self.model = [model]  # in a list: no part of this module
        self.A = torch.nn.Parameter(half + torch.randn(dim, 2 * dim) * 0.01)
        self.C = torch.nn.Parameter(torch.randn(dim, 2 * dim) * 0.02)
        self.Dm = torch.nn.Parameter(torch.zeros(dim, dim))

    def start(self):
        pass

    def forward(self, x, state, step):
        a, c, d = (w.to(x.dtype) for w in (self.A, self.C, self.Dm))
        u = torch.cat([x, state], -1)
        return u @ a.T + F.silu(u @ c.T) @ d.T

    def tensors(self):
        return dict(map=self.A, inner=self.C, outer=self.Dm)

    def take(self, w):
        """The inverse of tensors()."""
        return dict(A=w["map"], C=w["inner"], Dm=w["outer"])


class Layer(torch.nn.Module):
    INNER = 1152

    def __init__(self, model):
        super().__init__()
        dim = model.dim
        self.model = [model]

        def noise(n_out, n_in, scale=0.02):
            return torch.randn(n_out, n_in) * scale

        start = torch.cat([torch.eye(dim) * 0.2, torch.eye(dim) * 0.8], 1)
        self.W = torch.nn.Parameter(start + noise(dim, 2 * dim, 0.01))
        self.qkv = torch.nn.Parameter(noise(sum(model.split), dim))
        self.o = torch.nn.Parameter(torch.zeros(dim, dim))
        self.gu = torch.nn.Parameter(noise(2 * self.INNER, dim))
        self.down = torch.nn.Parameter(torch.zeros(dim, self.INNER))
        self.wn = torch.nn.Parameter(model.norm.cpu().clone())
        self.start()

    def start(self):
        self.keys, self.values = [], []  # of each step

    def forward(self, x, state, step):
        m = self.model[0]
        b, t, dim = x.shape

        def times(weights, u):
            return m.rms(u).to(x.dtype) @ weights.to(x.dtype).T

        u = (torch.cat([x, m.rms(state).to(x.dtype)], -1) @ self.W.to(x.dtype).T).float()
        q, k, v = times(self.qkv, u).split(m.split, -1)
        cos, sin = m.cos[:t, None], m.sin[:t, None]
        q = rope(q.reshape(b, t, m.heads, m.size), cos, sin).transpose(1, 2)
        q = q.reshape(b, m.kv, m.group, t, m.size)
        k = rope(k.reshape(b, t, m.kv, m.size), cos, sin).transpose(1, 2)[:, :, None]
        v = v.reshape(b, t, m.kv, m.size).transpose(1, 2)[:, :, None]
        self.keys.append(k)
        self.values.append(v)
        # A chain that is at position i in this step sees the model's states up to i - step, and
        # behind them what it kept itself: of step n, at i - (step - n).
        i, scale = torch.arange(t, device=x.device), m.size ** -0.5
        hidden = i[None, :] > i[:, None] - step
        z = [(q @ self.keys[0].transpose(-1, -2) * scale).float().masked_fill(hidden, -1e30)]
        own = []
        for n in range(1, step + 1):
            kn, vn = (torch.roll(a, step - n, dims=3) for a in (self.keys[n], self.values[n]))
            z.append((q * kn).sum(-1, keepdim=True).float() * scale)
            own.append(vn)
        p = torch.cat(z, -1).softmax(-1).to(x.dtype)
        o = p[..., :t] @ self.values[0]
        for n, vn in enumerate(own):
            o = o + p[..., t + n:t + n + 1] * vn
        o = o.reshape(b, m.heads, t, m.size).transpose(1, 2).reshape(b, t, dim)
        u = u + (o @ self.o.to(x.dtype).T).float()
        gate, up = times(self.gu, u).chunk(2, -1)
        u = u + ((F.silu(gate) * up) @ self.down.to(x.dtype).T).float()
        return (m.rms(u) * self.wn).to(x.dtype)

    def tensors(self):
        q, k, v = self.qkv.split(self.model[0].split)
        gate, up = self.gu.chunk(2)
        return dict(map=self.W, q=q, k=k, v=v, o=self.o, gate=gate, up=up, down=self.down,
                    norm=self.wn)

    def take(self, w):
        return dict(W=w["map"], qkv=torch.cat([w["q"], w["k"], w["v"]]), o=w["o"],
                    gu=torch.cat([w["gate"], w["up"]]), down=w["down"], wn=w["norm"])


HEADS = dict(layer=Layer, chained=Chained)


def stored(kind, path):
    """name -> weights, of a heads file."""
    out = {}
    for name, (shape, type_of, data) in Gguf(path).tensors.items():
        head, _, rest = name.removeprefix("exit.0.").partition(".")
        if head == kind:
            w = torch.from_numpy(np.array(to_floats(type_of, data), np.float32).reshape(shape))
            out[rest.removesuffix(".weight")] = w
    if not out:
        raise SystemExit(f"{path}: expected a head of kind {kind}, found none")
    return out


def load(kind, model, path):
    """From what learn() has left, or a heads file."""
    head = HEADS[kind](model)
    head.load_state_dict(head.take(stored(kind, path)) if str(path).endswith(".gguf") else
                         {name: w.float() for name, w in torch.load(path).items()})
    return head.to(model.device)


def round_as_stored(head):
    """To what the file's Q8_0 says; vectors stay as they are."""
    with torch.no_grad():
        for w in head.parameters():
            if w.dim() == 2:
                data = np.frombuffer(to_q8_0(w.cpu().numpy()), np.uint8)
                w.copy_(torch.from_numpy(to_floats(Q8_0, data).reshape(w.shape)))


def batches(texts, tokens, shuffle=False):
    """Lists of texts of about one length, at most so many tokens each."""
    out, now = [], []
    for text in sorted(texts, key=lambda t: len(t.prompt) + len(t.reply)):
        if now and (len(text.prompt) + len(text.reply)) * (len(now) + 1) > tokens:
            out.append(now)
            now = []
        now.append(text)
    out.append(now)
    if shuffle:
        np.random.default_rng(0).shuffle(out)
    return out


def fill(batch, device):
    """Tokens (B, T), and where a reply's tokens are guessed: at position t the one at t + 1."""
    longest = max(len(t.prompt) + len(t.reply) for t in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)
    guessed = torch.zeros(len(batch), longest, dtype=torch.bool)
    for row, mask, t in zip(tokens, guessed, batch):
        n, end = len(t.prompt), len(t.prompt) + len(t.reply)
        row[:n], row[n:end] = torch.from_numpy(t.prompt), torch.from_numpy(t.reply)
        mask[n - 1:end - 1] = True
    return tokens.to(device), guessed.to(device)


def later(a, by=1):
    """What stood `by` positions before."""
    return F.pad(a[:, :a.shape[1] - by], (by, 0)) if by else a


def unroll(head, tokens, y, each):
    """All chains at once: in step j position i has its token and the state of i - 1, the model's in
    step 0, the head's own of step j - 1 after. each(j, y of the head)."""
    model = head.model[0]
    x = model.rms(model.embedding[tokens]).to(model.floats)
    state = F.pad(y[:, :-1], (0, 0, 1, 0))
    head.start()
    for j in range(STEPS):
        out = head(x, state, j)
        each(j, out)
        state = F.pad(out[:, :-1], (0, 0, 1, 0))


class Agreement:
    """How often a head's guess is the model's token, of chains that were right before."""

    def __init__(self, sizes):
        self.sizes = sizes      # of the shortlist's prefixes
        self.seen, self.right = {}, {}  # [kind of text] (prefix, step)
        self.margins = []       # (prefix, step, margins, whether right)

    def add(self, kind, prefix, step, seen, right):
        for counts, n in ((self.seen, seen), (self.right, right)):
            counts.setdefault(kind, np.zeros((len(self.sizes), STEPS)))[prefix, step] += n

    def of(self, kind=None, prefix=-1):
        seen, right = (sum(c.values()) if kind is None else c[kind]
                       for c in (self.seen, self.right))
        return [round(float(s), 4) for s in right[prefix] / np.maximum(1, seen[prefix])]


@torch.no_grad()
def measure(heads, texts, words, sizes, tokens=16384):
    """An Agreement for each head, by prefixes of the shortlist `words`."""
    model = heads[0].model[0]
    words = torch.as_tensor(np.asarray(words, np.int64), device=model.device)
    rows, found = model.embedding[words], [Agreement(sizes) for _ in heads]
    for batch in batches(texts, tokens):
        text, guessed = fill(batch, model.device)
        kinds = np.array([t.kind for t in batch])
        y = model.states(text)
        best = torch.full_like(text, -1)
        best[guessed] = model.logits(y[guessed]).argmax(-1)
        for head, agreement in zip(heads, found):
            ok = [guessed.clone() for _ in sizes]

            def each(j, out):
                valid = guessed & later(guessed, j)
                z = (out[valid] @ rows.T).float()
                for n, size in enumerate(sizes):
                    top = z[:, :size].topk(2)
                    hit = torch.zeros_like(guessed)
                    hit[valid] = words[top.indices[:, 0]] == best[valid]
                    now = (later(ok[n]) if j else ok[n]) & valid
                    ok[n] = now & hit
                    margin = (top.values[:, 0] - top.values[:, 1])[now[valid]]
                    agreement.margins.append((n, j, margin.cpu().numpy(), hit[now].cpu().numpy()))
                    seen, right = now.sum(1).cpu().numpy(), ok[n].sum(1).cpu().numpy()
                    for kind in set(kinds):
                        agreement.add(kind, n, j, seen[kinds == kind].sum(),
                                      right[kinds == kind].sum())

            unroll(head, text, y, each)
    return found


def learn(head, texts, words, seconds, epochs, rate, tokens=16384):
    """AdamW on the divergence from the model's sharpened distribution over `words`, all steps of
    all chains at once, until time or epochs are over. Returns what was done."""
    model = head.model[0]
    rows = model.embedding[torch.as_tensor(np.sort(words).astype(np.int64), device=model.device)]
    adam = torch.optim.AdamW(head.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.02,
                             fused=model.device == "cuda")
    parts = batches(texts, tokens, shuffle=True)
    # The model's states are the same each time round: on a GPU there is room for all of them.
    order, known = list(range(len(parts))), {}
    passed, done, epoch, seen = stopwatch(), 0, 0, 0
    while True:
        part, gone = done % len(parts), max(done / (epochs * len(parts)), passed() / seconds)
        if gone >= 1:
            break
        if done and part == 0:
            epoch += 1
            np.random.default_rng(epoch).shuffle(order)
        for group in adam.param_groups:
            group["lr"] = rate * min(1, (done + 1) / 50) * (
                0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * gone)))
        text, guessed = fill(parts[order[part]], model.device)
        y = known.get(order[part])
        if y is None:
            with torch.no_grad():
                y = model.states(text)
            if model.device == "cuda":
                known[order[part]] = y
        losses = []

        def each(j, out):
            at = guessed & later(guessed, j)
            if not at.any():
                return
            with torch.no_grad():
                goal = ((y[at] @ rows.T).float() * SHARPEN).softmax(-1)
            told = (out[at] @ rows.T).float().log_softmax(-1)
            losses.append(-(goal * told).sum(-1).mean() * FADE ** j)

        unroll(head, text, y, each)
        adam.zero_grad(set_to_none=True)
        loss = sum(losses)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        adam.step()
        done, seen = done + 1, seen + int(guessed.sum())
        if done % 100 == 1:
            print(f"{passed():6.1f} s  step {done}, epoch {epoch + 1}: loss {loss.item():.3f}")
    return dict(steps=done, epochs=round(done / len(parts), 2), tokens_seen=seen,
                seconds=round(passed(), 1))
