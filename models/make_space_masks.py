#!/usr/bin/env python3
"""Learns mask tokens for SPACE (arXiv 2402.11809): vectors that a frozen model guesses behind.

    make_space_masks.py learn --model MODEL.gguf --base HEADS.gguf -o OUT.heads.gguf --minutes 20
    make_space_masks.py measure --model MODEL.gguf --base HEADS.gguf --masks OUT.heads.gguf

The paper trains the whole model to fill in mask tokens. Here not one of its weights moves: k
embeddings are learnt, which follow a text's row one behind the other, so that what the model says
behind the i-th is its guess of the token i places behind the next one. They learn the divergence
from the model's own distribution there, on text that it wrote (exit.text of --base, a heads file of
the same model; replies with an even number are measured on alone). Needs PyTorch and NumPy.
"""

import argparse
import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F

    from llama_torch import ARRAY, F32, STRING, Gguf, Llama, rope, stopwatch, to_floats, write_gguf
except ModuleNotFoundError as e:
    sys.exit(f"expected PyTorch and NumPy (pip install torch numpy): {e}")

LONGEST, SHORTEST = 128, 24  # tokens of a text that are learnt from
TEXTS = 2                    # at once
PLACES = 12                  # rows of each that masks stand behind, in a step
STEPS = 6                    # of the same texts, at other places
RATE = 0.04                  # AdamW's, of the embeddings' root mean square
MASKS, MOST = "exit.masks.weight", 15  # rows of a round behind its root
BASE_KEYS = ("general.", "specbound.base.")


def replies(path):
    """Those of a heads file's text, as arrays."""
    tensors = Gguf(path).tensors
    if "exit.text" not in tensors:
        sys.exit(f"{path}: expected a text that the model wrote (exit.text), found none")
    tokens = np.array(tensors["exit.text"][2]).view(np.int32)
    parts = np.split(tokens, np.flatnonzero(tokens < 0))
    return [part for part in (p[p >= 0][:LONGEST] for p in parts) if len(part) >= SHORTEST]


class Texts:
    """Some of `texts` (arrays of tokens), with what the model keeps and says of their rows."""

    @torch.no_grad()
    def __init__(self, model, texts, rng):
        chosen = [texts[i] for i in rng.integers(0, len(texts), TEXTS)]
        self.model, self.sizes, self.rng = model, [len(text) for text in chosen], rng
        self.length = max(self.sizes)
        tokens = np.stack([np.pad(text, (0, self.length - len(text))) for text in chosen])
        self.cache = torch.zeros(len(model.layers), 2, TEXTS, model.kv, self.length, model.size,
                                 device=model.device, dtype=model.floats)
        self.states = model.states(torch.from_numpy(tokens).long().to(model.device), self.cache)

    def places(self, k):  # (texts, PLACES), each with k tokens and one more behind it
        some = [self.rng.integers(0, size - k, PLACES) for size in self.sizes]
        return torch.from_numpy(np.stack(some)).to(self.model.device)


def masked(texts, masks):
    """Logits (texts, places, k, vocabulary) behind k mask rows behind some places of Texts, and the
    model's own of the tokens that they stand for."""
    model, b, t, k, g = texts.model, TEXTS, texts.length, len(masks), PLACES
    places = texts.places(k)
    with torch.no_grad():
        ahead = places[:, :, None] + torch.arange(1, k + 1, device=model.device)
        own = model.logits(texts.states[torch.arange(b)[:, None, None], ahead])
    at = ahead.reshape(b, g * k)  # position of each row
    cos, sin = model.cos[at][:, :, None], model.sin[at][:, :, None]
    unseen = torch.arange(t, device=model.device) > places[:, :, None]             # (b, g, t)
    later = torch.ones(k, k, dtype=torch.bool, device=model.device).triu(1)
    x = masks.float().repeat(g, 1)[None].expand(b, g * k, model.dim)
    for n, w in enumerate(model.layers):
        def attend(q, k_rows, v_rows, n=n):
            def heads(a, count, rotated):
                a = a.view(b, g * k, count, model.size)
                a = rope(a, cos, sin) if rotated else a
                a = a.transpose(1, 2).repeat_interleave(model.heads // count, 1)
                return a.reshape(b, model.heads, g, k, model.size)
            q = heads(q, model.heads, True)
            mine, values = heads(k_rows, model.kv, True), heads(v_rows, model.kv, False)
            text_k, text_v = (a.repeat_interleave(model.group, 1)[:, :, None]
                              for a in texts.cache[n])
            z = (q @ text_k.transpose(-1, -2)).masked_fill(unseen[:, None, :, None], -1e30)
            own_z = (q @ mine.transpose(-1, -2)).masked_fill(later, -1e30)
            p = (torch.cat([z, own_z], -1).float() * model.size ** -0.5).softmax(-1)
            p = p.to(model.floats)
            o = p[..., :t] @ text_v + p[..., t:] @ values
            return o.reshape(b, model.heads, g * k, model.size).transpose(1, 2).reshape(
                b, g * k, model.dim)
        x = model._block(x, w, attend)
    said = model.logits((model.rms(x) * model.norm).to(model.floats))
    return said.view(b, g, k, -1), own


@torch.no_grad()
def measure(model, texts, masks, rng, rounds):
    """Shares of guesses that are what the model says there: of each place, and of all up to it."""
    right = []
    for _ in range(rounds):
        said, own = masked(Texts(model, texts, rng), masks)
        right.append((said.argmax(-1) == own.argmax(-1)).flatten(0, 1))
    right = torch.cat(right).float()
    return right.mean(0).tolist(), right.cumprod(-1).mean(0).tolist(), len(right)


def learn(flags, model, texts, rng):
    words = torch.from_numpy(np.concatenate(texts)).long()
    size = model.embedding.float().pow(2).mean().sqrt()
    start = model.embedding.float()[words].mean(0)
    masks = torch.nn.Parameter((start + 0.1 * size * torch.randn(flags.k, model.dim)).detach())
    adam = torch.optim.AdamW([masks], lr=1.0, betas=(0.9, 0.98), weight_decay=0)
    clock, step, mean = stopwatch(), 0, None
    while (done := clock() / (60 * flags.minutes)) < 1:
        adam.param_groups[0]["lr"] = float(RATE * size) * min(1, (step + 1) / 10) * (1 - done)
        if step % STEPS == 0:
            some = Texts(model, texts, rng)
        said, own = masked(some, masks)
        target = own.float().softmax(-1)
        loss = F.kl_div(said.float().log_softmax(-1), target, reduction="none").sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        step += 1
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 10 == 0:
            print(f"{step} steps, {clock():.0f} s: divergence {mean:.3f}", flush=True)
    return masks.detach()


def write(path, base, masks):
    keys = {name: value for name, value in Gguf(base).keys.items() if name.startswith(BASE_KEYS)}
    for name, of in (("head_layers", 5), ("head_kinds", STRING), ("margin_scale", 6),
                     ("margin_offset", 6)):
        keys["specbound." + name] = (ARRAY, (of, []))
    data = masks.cpu().numpy().astype(np.float32)
    write_gguf(path, keys, {MASKS: (list(data.shape), F32, data.tobytes())})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["learn", "measure"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--masks", help="a file of them, for measure")
    parser.add_argument("-o", "--out", help="the file that learn writes")
    parser.add_argument("-k", type=int, default=3, help="how many (default 3: rounds of 16 rows)")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=32, help="of 24 places, to measure on")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    flags = parser.parse_args()
    if not 1 <= flags.k <= MOST:
        parser.error(f"-k: expected 1 to {MOST}, found {flags.k}")
    if flags.threads:
        torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    model, all_texts = Llama(flags.model, flags.device), replies(flags.base)
    rng = np.random.default_rng(flags.seed)
    if flags.stage == "learn":
        if not flags.out:
            parser.error("learn: expected -o FILE")
        masks = learn(flags, model, all_texts[1::2], rng)
        write(flags.out, flags.base, masks)
    elif flags.masks:
        found = Gguf(flags.masks).tensors
        if MASKS not in found:
            sys.exit(f"{flags.masks}: expected mask tokens ({MASKS}), found none")
        shape, kind, data = found[MASKS]
        masks = torch.from_numpy(np.array(to_floats(kind, data)).reshape(shape)).to(flags.device)
    else:
        parser.error("measure: expected --masks FILE")
    each, up_to, n = measure(model, all_texts[::2], masks, rng, flags.rounds)
    print(f"right behind {n} rows of replies that nothing learnt from, by place:",
          ", ".join(f"{share:.1%}" for share in each) + "; all up to it:",
          ", ".join(f"{share:.1%}" for share in up_to))


if __name__ == "__main__":
    main()
