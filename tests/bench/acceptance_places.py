"""What a draft layer guesses at every place of texts that its model wrote: six guesses one behind
another, each on those before, and what may tell whether they are right. acceptance.py compares
predictors by it. Needs PyTorch and NumPy; texts are what `specbound train-heads --texts` keeps.
"""

import struct
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from draft_rounds import UNKNOWN

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))
import draft_heads  # noqa: E402
from llama_torch import Gguf, Llama  # noqa: E402

STEPS = 6
CHECKED = 20  # two texts of so many are compared with what the engine wrote
WORDS = 1024  # of the shortlist that are looked at; of the context all words are

# What train-heads' sampler does at a temperature: decode/sampler.h.
TEMPERATURE, TOP_K, TOP_P, MIN_P = 0.7, 40, 0.95, 0.05
MAGIC = b"SBTEXT2\n"
HEADER, RECORD = 16, struct.Struct("<4I")

# Of a guess: what the predictors read beside the layer's state.
SCALARS = ("p", "annealed", "entropy", "margin", "drawn_margin", "drawn_p", "noise")


class Text(NamedTuple):
    number: int        # of the reply: odd ones are sampled
    tokens: np.ndarray
    n_prompt: int


class Places(NamedTuple):
    """Of places one behind the other, text by text."""
    text: np.ndarray      # (N) index of the text
    prompt: np.ndarray    # (N) a number of the prompt, the same in every file
    at: np.ndarray        # (N) position of the root
    left: np.ndarray      # (N) tokens of the text behind it
    right: np.ndarray     # (N, STEPS) as in draft_rounds
    scalars: np.ndarray   # (N, STEPS, len(SCALARS))
    state: np.ndarray     # (N, STEPS, dim), float16: of the layer
    sampled: np.ndarray   # (N)

    def take(self, which):
        return Places(*(a[which] for a in self))


def read_texts(path):
    """Of a file that train-heads keeps; left out are greedy replies to a prompt that was there, and
    what is too long for llama_torch."""
    data = Path(path).read_bytes()
    if data[:len(MAGIC)] != MAGIC:
        raise SystemExit(f"{path}: expected texts that train-heads --texts keeps, found another "
                         "file")
    out, at, known = [], HEADER, set()
    for number in range(len(data)):
        if at + RECORD.size > len(data):
            break
        _, _, n_prompt, n = RECORD.unpack_from(data, at)
        at += RECORD.size
        if at + 4 * n + 8 > len(data):
            break
        tokens = np.frombuffer(data, np.int32, n, at).astype(np.int64)
        at += 4 * n + 8
        key = (number % 2, tokens[:n_prompt].tobytes())
        if (number % 2 == 0 and key in known) or n > Llama.MOST:
            continue
        known.add(key)
        out.append(Text(number, tokens, n_prompt))
    return out


def philox(counter, key):
    """One block of Philox4x32-10 for each counter (N, 4): numerics/noise.h."""
    c = [counter[:, i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(key & 0xffffffff), np.uint64(key >> 32)]
    low = np.uint64(0xffffffff)
    for _ in range(10):
        a, b = np.uint64(0xd2511f53) * c[0], np.uint64(0xcd9e8d57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & low, (a >> np.uint64(32)) ^ c[3] ^ k[1],
             a & low]
        k = [(k[0] + np.uint64(0x9e3779b9)) & low, (k[1] + np.uint64(0xbb67ae85)) & low]
    return np.stack(c, 1)


def gumbel(seed, reply, positions, ids):
    """The noise of tokens (N, n) at positions (N)."""
    n, k = ids.shape
    counter = np.zeros((n * k, 4), np.uint64)
    counter[:, 0], counter[:, 1] = reply, np.repeat(positions, k)
    counter[:, 2] = ids.reshape(-1) // 4
    words = philox(counter, seed)[np.arange(n * k), ids.reshape(-1) % 4]
    v = (words.astype(np.float64) + 0.5) * 2.0 ** -32
    return -np.log(-np.log1p(-v)).reshape(n, k)


def drawn(z, ids, noise_of):
    """Tokens drawn from logits z (N, n) of the tokens `ids`, as the sampler draws them, with the
    margin over the second, their share and their noise."""
    top = z.topk(min(TOP_K, z.shape[1]))
    p = top.values.softmax(-1)
    kept = (p.cumsum(-1) - p < TOP_P) & (p >= MIN_P * p[:, :1])
    names = ids[top.indices]
    noise = torch.from_numpy(noise_of(names.numpy())).float()
    score = (top.values / TEMPERATURE + noise).masked_fill(~kept, -1e9)
    best = score.topk(2)
    first = best.indices[:, :1]
    share = (top.values / TEMPERATURE).masked_fill(~kept, -1e9).softmax(-1).gather(1, first)
    margin = (best.values[:, 0] - best.values[:, 1]).clamp(max=40)
    return (names.gather(1, first)[:, 0], margin, share[:, 0], noise.gather(1, first)[:, 0])


class Reader:
    def __init__(self, model, heads):
        file = Gguf(heads)
        self.model = Llama(model, "cpu")
        self.half()
        self.layer = draft_heads.load("layer", self.model, heads)
        if self.layer.wn.shape[0] != self.model.dim:
            raise SystemExit(f"{heads}: not of {model}")
        kind = file.get("specbound.head_kinds").index("layer")
        self.scale = file.get("specbound.margin_scale")[kind]
        self.offset = file.get("specbound.margin_offset")[kind]
        self.alpha = file.get("specbound.alpha")
        words = file.tensors["exit.shortlist"][2].view(np.int32)[:WORDS]
        self.words = torch.from_numpy(words.astype(np.int64))
        self.parameters = sum(w.numel() for w in self.layer.parameters())

    def half(self):
        """bfloat16, in which the layer was trained too: twice as fast."""
        m = self.model
        self.rows = m.embedding  # logits are compared: in full
        m.floats = torch.bfloat16
        m.embedding = m.embedding.to(m.floats)
        for w in m.layers:
            for name in ("qkv", "out", "gate_up", "down"):
                w[name] = w[name].to(m.floats)

    def near(self, text):
        """The tokens that may be guessed in a text, and from which position on."""
        first = {int(w): -1 for w in self.words}
        for i, t in enumerate(text.tokens):
            first.setdefault(int(t), i)
        ids = sorted(first)
        return torch.tensor(ids), torch.tensor([first[i] for i in ids])

    @torch.no_grad()
    def places(self, text, seed):
        """Of one text: (at, left, right, scalars, state), and of how many tokens the model says
        here what the engine wrote, or None."""
        tokens = torch.from_numpy(text.tokens)
        total, begin, sampled = len(tokens), text.n_prompt, bool(text.number % 2)
        roots = torch.arange(begin, total - 1)
        n = len(roots)
        m, layer = self.model, self.layer
        y = m.states(tokens[None])

        def noise_at(positions):
            return lambda ids: gumbel(seed, text.number, positions.numpy() + 1, ids)

        agrees = None
        if text.number % CHECKED < 2:
            z = y[0, begin:total - 1].float() @ self.rows.T
            said = (drawn(z, torch.arange(z.shape[1]), noise_at(roots))[0] if sampled
                    else z.argmax(-1))
            agrees = int((said == tokens[begin + 1:]).sum())

        ids, since = self.near(text)
        rows = self.rows[ids]
        right = np.full((n, STEPS), UNKNOWN, np.int8)
        scalars = np.zeros((n, STEPS, len(SCALARS)), np.float32)
        states = np.zeros((n, STEPS, m.dim), np.float16)
        # As draft_heads.unroll(), but each chain goes on with its own guesses.
        alive = torch.ones(n, dtype=torch.bool)
        now, state = tokens[None].clone(), torch.nn.functional.pad(y[:, :-1], (0, 0, 1, 0))
        layer.start()
        for j in range(STEPS):
            out = layer(m.rms(m.embedding[now]).to(m.floats), state, j)
            here = n - j  # chains that end within the text
            if here <= 0:
                break
            at = roots[:here] + j
            o = out[0, at]
            z = (o.float() @ rows.T).masked_fill(since[None] > roots[:here, None], -1e9)
            two = z.topk(2)
            p = z.softmax(-1)
            entropy = -(p * p.clamp(min=1e-12).log()).sum(-1)
            margin = (two.values[:, 0] - two.values[:, 1]).clamp(max=40)
            peak, annealed = p.max(-1).values, (z / (1 + self.alpha)).softmax(-1).max(-1).values
            if sampled:
                guess, drawn_margin, share, noise = drawn(z, ids, noise_at(at))
            else:
                guess = ids[two.indices[:, 0]]
                drawn_margin, share, noise = margin, peak, torch.zeros(here)
            hit = guess == tokens[at + 1]
            right[:here, j] = np.where(alive[:here], hit, UNKNOWN)
            alive[:here] &= hit
            scalars[:here, j] = torch.stack(
                [peak, annealed, entropy, margin, drawn_margin, share, noise], -1).numpy()
            states[:here, j] = o.float().numpy().astype(np.float16)
            following = torch.zeros_like(now)
            following[0, at + 1] = guess
            now, state = following, torch.nn.functional.pad(out[:, :-1], (0, 0, 1, 0))
        left = (total - 1 - roots).numpy()
        return roots.numpy(), left, right, scalars, states, agrees


def read_places(reader, texts, seed, first=0, report=print):
    """Places of texts, which are numbered from `first` on, and of how many tokens the model says
    here what the engine wrote: (agreed, of so many)."""
    parts, agreed, of = [], 0, 0
    for i, text in enumerate(texts):
        at, left, right, scalars, state, agrees = reader.places(text, seed)
        n = len(at)
        parts.append(Places(np.full(n, first + i),
                            np.full(n, zlib.crc32(text.tokens[:text.n_prompt].tobytes())), at,
                            left, right, scalars, state, np.full(n, bool(text.number % 2))))
        if agrees is not None:
            agreed, of = agreed + agrees, of + n
        if i % 20 == 19:
            report(f"{i + 1} of {len(texts)} texts, {agreed} of {of} tokens as the engine wrote "
                   "them")
    return Places(*(np.concatenate(a) for a in zip(*parts))), (agreed, of)
