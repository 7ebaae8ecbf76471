#!/usr/bin/env python3
"""Makes SmolLM2-135M-Instruct's heads file: a draft layer, a chained head, a text the model wrote.

    make_smollm2_heads.py prompts   --dialogues FILE... --prose FILE... [--questions FILE]
    make_smollm2_heads.py write     --seconds 250     replies to the prompts; on a GPU
    make_smollm2_heads.py learn     --head layer --seconds 112     and --head chained; on a GPU
    make_smollm2_heads.py calibrate                   margins, on prompts that nothing learnt
    make_smollm2_heads.py pack      --base FILE -o OUT

Each stage reads and writes files of the folder --work, so that they can run apart, on different
machines. --questions are for measuring alone: no prompt of them is written to or learnt from
otherwise. --base: any heads file of the same model, as `specbound train-heads --kinds text` makes
one: what says which model it is comes from there. Needs PyTorch, NumPy and tokenizers.
"""

import argparse
import collections
import json
import lzma
import random
import re
import sys
from pathlib import Path
from typing import NamedTuple

try:
    import numpy as np
    import torch

    import draft_heads
    from draft_heads import STEPS, load, measure
    from llama_torch import (ARRAY, F32, I32, Q8_0, STRING, Gguf, Llama, stopwatch, to_q8_0,
                             write_gguf)
except ModuleNotFoundError as e:
    sys.exit(f"expected PyTorch, NumPy and tokenizers (pip install torch numpy tokenizers): {e}")

CACHE = Path.home() / ".cache/specbound/models"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
BEGIN, END = 1, 2                 # <|im_start|>, <|im_end|>
SPECIAL = [0, 1, 2]               # end a reply: in front of the shortlist
LONGEST, REPLY, SHORT = 960, 256, 128  # tokens of a prompt, a reply, one to measure on
TEMPERATURE = 0.7                 # of prompts with an even number; the others' replies are greedy
LEARNT_WORDS, SHORTLIST, CALIBRATED_AT = 16384, 8192, 4096
CHECKED = 1024  # beside which the engine looks at the words of the context
SIZES = (1024, 2048, 4096, 8192)  # of the shortlist, where heads are measured
CALIBRATED = 3                    # steps of a chain whose margins count
MOST_TEXT = 1 << 20

# What is asked of passages of prose: how many prompts, the length of a passage, the questions.
SUMMARY = ["Summarize: {}"] * 3 + [
    "{}\n\nSummarize the text above.", "{}\nTL;DR", "Give a short summary of this text:\n{}",
    "What are the main points of the following passage?\n\n{}"]
ABOUT_TEXT = [
    "What is the passage mainly about?", "Who is mentioned in the text, and what do they do?",
    "What happens in the passage?", "Describe what the text says in your own words?",
    "What can be learned from this text?", "List the most important facts in the passages above.",
    "Why does this matter?", "Which places and people appear in the text?",
    "How does the author explain the matter?"]
ABOUT_NAME = ["Who is {}?", "What does the text say about {}?", "Tell me about {}.",
              "What role does {} play?"]
TRANSLATE = ["Translate English to German: "] * 3 + ["Translate English to French: ",
                                                     "Translate English to Spanish: "]
REWRITE = ["Continue this story: ", "Rewrite the following text in simpler words: ",
           "Correct the grammar of this text, if needed: ", "Write a poem about this: ",
           "Turn this into a list of bullet points: ", "Write a letter that begins so: "]
TASKS = {"math_reasoning", "qa", "rag", "summarization", "translation"}  # the rest is mt_bench


class Text(NamedTuple):
    number: int  # of the prompt
    kind: str
    prompt: np.ndarray
    reply: np.ndarray


class Chat:
    """SmolLM2's tokens and prompt template."""

    def __init__(self, model):
        from tokenizers import Tokenizer, models, pre_tokenizers
        file = Gguf(model)
        words = {t: i for i, t in enumerate(file.get("tokenizer.ggml.tokens"))}
        merges = [tuple(m.split(" ")) for m in file.get("tokenizer.ggml.merges")]
        self.tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])

    def tokens(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(self, messages):
        out = []
        for message in [dict(role="system", content=SYSTEM), *messages]:
            out += [BEGIN, *self.tokens(f"{message['role']}\n{message['content']}"), END,
                    *self.tokens("\n")]
        return out + [BEGIN, *self.tokens("assistant\n")]

    def question(self, text):
        return self.prompt([dict(role="user", content=text)])


def lines(paths):
    for path in paths:
        with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def passages(documents, rng):
    """A function that takes a passage of about so many characters, whole sentences if it can."""
    def passage(low, high):
        while True:
            text, n = rng.choice(documents), rng.randint(low, high)
            if len(text) < low:
                continue
            at = rng.randrange(0, max(1, len(text) - n))
            text = text[at:at + n]
            first = text.find(". ")
            text = text[first + 2:] if 0 <= first < len(text) // 3 else text
            last = text.rfind(".")
            text = " ".join((text[:last + 1] if last > len(text) // 2 else text).split())
            if len(text) >= low // 2:
                return text
    return passage


def asked_of_prose(documents, rng):
    """(kind, question) of everything that is asked of passages."""
    passage = passages(documents, rng)
    for _ in range(3500):
        text = passage(500, 2400)
        yield "sum", rng.choice(SUMMARY).format(text)
    for _ in range(3000):
        n = rng.randint(1, 4)
        body = "\n".join(passage(300, 2200 // n) for _ in range(n))
        names = re.findall(r"\b[A-Z][a-z]{3,}\b", body)
        if rng.random() < 0.4 or not names:
            question = rng.choice(ABOUT_TEXT)
        else:
            question = rng.choice(ABOUT_NAME).format(rng.choice(names))
        yield "rag", body + "\n" + question
    for _ in range(3000):
        sentences = re.split(r"(?<=[.!?]) ", passage(150, 400))
        sentence = max(sentences[:4], key=len)[:250]
        yield "trans", rng.choice(TRANSLATE) + sentence
    for _ in range(1500):
        text = passage(80, 700)
        yield "write", rng.choice(REWRITE) + text


def make_prompts(a):
    chat, rng = Chat(a.model), random.Random(a.seed)
    talks = [t["messages"] if isinstance(t, dict) else t for t in lines(a.dialogues)]
    single = [t for t in talks if len(t) == 2]
    several = [t for t in talks if len(t) != 2]
    rng.shuffle(several)
    rng.shuffle(single)
    learnt = [("chat1", chat.prompt(t[:1])) for t in single]
    for talk in several[:7000]:
        turn = rng.choice([i for i, m in enumerate(talk) if m["role"] == "user"])
        learnt.append(("chatn", chat.prompt(talk[:turn + 1])))
    documents = [d["text"] for d in lines(a.prose)]
    rng.shuffle(documents)
    learnt += [(kind, chat.question(text)) for kind, text in asked_of_prose(documents, rng)]
    held = []
    for q in lines(a.questions):
        kind = q["category"] if q["category"] in TASKS else "mt_bench"
        held.append((kind, chat.question(q["turns"][0])))
    known = {tuple(p) for _, p in held}
    learnt = [(k, p) for k, p in learnt if len(p) <= LONGEST and tuple(p) not in known]
    rng.shuffle(learnt)
    both = learnt + [(k, p) for k, p in held if len(p) <= LONGEST]
    names = sorted({k for k, _ in both})
    np.savez_compressed(
        a.work / "prompts.npz", flat=np.concatenate([np.array(p, np.uint16) for _, p in both]),
        lens=np.array([len(p) for _, p in both], np.int32), n_train=len(learnt),
        kind=np.array([names.index(k) for k, _ in both], np.uint8), names=np.array(names))
    print(f"{len(learnt)} prompts, {len(both) - len(learnt)} to measure on:",
          dict(collections.Counter(k for k, _ in both)))


def rows_of(flat, lens):
    return [flat[end - n:end].astype(np.int64) for end, n in zip(np.cumsum(lens), lens)]


def read_prompts(a):
    """Texts without replies, and how many of them are to be learnt."""
    with np.load(a.work / "prompts.npz") as file:
        z = dict(file)
    none = np.zeros(0, np.int64)
    return [Text(i, str(z["names"][k]), p, none)
            for i, (k, p) in enumerate(zip(z["kind"], rows_of(z["flat"], z["lens"])))
            ], int(z["n_train"])


def read_replies(a, name="replies.npz"):
    """Texts that were learnt from, and those to measure on."""
    prompts, _ = read_prompts(a)
    with np.load(a.work / name) as file:
        z = dict(file)
    texts = [prompts[i]._replace(reply=r)
             for i, r in zip(z["index"], rows_of(z["flat"], z["lens"]))]
    n = int(z["n_train"])
    return texts[:n], texts[n:]


def save_replies(a, name, learnt, held):
    texts = learnt + held
    np.savez_compressed(
        a.work / name, index=np.array([t.number for t in texts], np.int32), n_train=len(learnt),
        lens=np.array([len(t.reply) for t in texts], np.int32),
        flat=np.concatenate([t.reply for t in texts]).astype(np.uint16))


def replied(model, texts, limit, temperature, together=1024, until=None):
    """The texts with replies, as many as time allows: prompts of about one length together, but of
    every length in turn, so that what is there when time is over is no sample of short ones."""
    out, texts = [], sorted(texts, key=lambda t: len(t.prompt))
    parts = [texts[i:i + together] for i in range(0, len(texts), together)]
    random.Random(0).shuffle(parts)
    for part in parts:
        if until and until():
            break
        replies = model.write([t.prompt for t in part], [temperature(t) for t in part], limit, END)
        out += [t._replace(reply=r) for t, r in zip(part, replies)]
        print(f"{len(out)} of {len(texts)} replies, {sum(len(t.reply) for t in out)} tokens")
    return out


def write_replies(a):
    model = Llama(a.model, a.device)
    prompts, n = read_prompts(a)
    held, passed = replied(model, prompts[n:], SHORT, lambda t: 0.0), stopwatch()
    order, learnt = np.random.default_rng(0).permutation(n).tolist(), {}
    for i in range(0, n, 8192):
        if passed() > a.seconds:
            break
        part = replied(model, [prompts[k] for k in order[i:i + 8192]], REPLY,
                       lambda t: 0.0 if t.number % 2 else TEMPERATURE,
                       until=lambda: passed() > a.seconds)
        learnt.update((t.number, t) for t in part if len(t.reply) > 1)
    save_replies(a, "replies.npz", [learnt[k] for k in order if k in learnt], held)


def by_frequency(texts, vocabulary):
    counts = np.bincount(np.concatenate([t.reply for t in texts]), minlength=vocabulary)
    return np.argsort(-counts, kind="stable")


def learn_head(a):
    model = Llama(a.model, a.device)
    learnt, held = read_replies(a)
    words, some, n = by_frequency(learnt, model.vocabulary)[:LEARNT_WORDS], [], 0
    for text in learnt:
        if a.limit and n >= a.limit:
            break
        some.append(text)
        n += len(text.reply)
    head = (load(a.head, model, a.resume) if a.resume
            else draft_heads.HEADS[a.head](model).to(model.device))
    done = draft_heads.learn(head, some, words, a.seconds, a.epochs, a.rate)
    torch.save({name: w.detach().half().cpu() for name, w in head.state_dict().items()},
               a.work / f"{a.head}.pt")
    result = dict(head=a.head, reply_tokens=n, resumed=bool(a.resume), **done)
    if held:
        agreement = measure([head], held, words, [len(words)])[0]
        result.update(agreement=agreement.of(),
                      by_task={kind: agreement.of(kind) for kind in sorted(agreement.seen)})
    with open(a.work / "learn.jsonl", "a", encoding="utf-8") as log:
        log.write(json.dumps(result) + "\n")
    print(json.dumps(result, indent=1))


def shortlist(texts, vocabulary):
    ids = [int(i) for i in by_frequency(texts, vocabulary) if i not in SPECIAL]
    return np.array((SPECIAL + ids)[:SHORTLIST], np.int32)


def fit_margins(margins, right):
    """(scale, offset) of the chance of being right: logistic regression, by Newton's method."""
    x = np.stack([margins, np.ones_like(margins)], 1).astype(np.float64)
    w = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x, x.T @ (right - p))
        w += step
        if np.abs(step).max() < 1e-9:
            break
    return w.tolist()


def unused(a, learnt):
    """Prompts like those that were learnt from, as many of each kind: a head is surest on the kind
    of which it has learnt most, and what its margins say there would be too much elsewhere."""
    prompts, n = read_prompts(a)
    known, by_kind = {t.prompt.tobytes() for t in learnt}, collections.defaultdict(list)
    for i in np.random.default_rng(1).permutation(n):
        if prompts[i].prompt.tobytes() not in known:
            by_kind[prompts[i].kind].append(prompts[i])
    if not by_kind:
        sys.exit("expected prompts that nothing was learnt from, found none: write fewer replies")
    each = -(-a.prompts // len(by_kind))
    return [t for kind in sorted(by_kind) for t in by_kind[kind][:each]]


def calibrate(a):
    model = Llama(a.model, a.device)
    learnt, _ = read_replies(a)
    if not (a.work / "unseen.npz").exists():
        texts = replied(model, unused(a, learnt), SHORT, lambda t: 0.0)
        save_replies(a, "unseen.npz", [t for t in texts if len(t.reply) > 1], [])
    texts, _ = read_replies(a, "unseen.npz")
    heads = [load(kind, model, a.work / f"{kind}.pt") for kind in draft_heads.HEADS]
    for head in heads:
        draft_heads.round_as_stored(head)
    out, words = {}, shortlist(learnt, model.vocabulary)
    for kind, found in zip(draft_heads.HEADS, measure(heads, texts, words, SIZES, 4096)):
        at = SIZES.index(CALIBRATED_AT)
        pairs = [(m, r) for n, j, m, r in found.margins if n == at and j < CALIBRATED]
        margins, right = (np.concatenate(x) for x in zip(*pairs))
        scale, offset = fit_margins(margins, right)
        p = 1 / (1 + np.exp(-(scale * margins + offset)))
        out[kind] = dict(
            margin_scale=scale, margin_offset=offset, guesses=len(margins),
            right=round(float(right.mean()), 4),
            nats=round(float(-np.log(np.where(right, p, 1 - p)).mean()), 4),
            agreement={str(size): found.of(prefix=n) for n, size in enumerate(SIZES)})
        print(f"{kind}: scale {scale:.4f}, offset {offset:.4f} from {len(margins)} guesses")
        for n, size in enumerate(SIZES):
            print(f"  {size:5} words, right at steps 1 to {STEPS}:", found.of(prefix=n))
    (a.work / "calibration.json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


def looked_up(texts):
    """The replies in one, -1 behind each: greedy ones first, as many as a file holds."""
    out = []
    for text in sorted(texts, key=lambda t: t.number % 2 == 0):
        if len(out) + len(text.reply) + 1 > MOST_TEXT:
            break
        out += [*text.reply.tolist(), -1]
    return np.array(out, np.int32)


def pack(a):
    model = Llama(a.model, "cpu")
    learnt, _ = read_replies(a)
    margins = json.loads((a.work / "calibration.json").read_text(encoding="utf-8"))
    kinds, keys = list(draft_heads.HEADS), Gguf(a.base).keys
    u32, i32, f32 = 4, 5, 6
    keys |= {
        "specbound.head_layers": (ARRAY, (i32, [0] * len(kinds))),
        "specbound.head_kinds": (ARRAY, (STRING, kinds)),
        "specbound.margin_scale": (ARRAY, (f32, [margins[k]["margin_scale"] for k in kinds])),
        "specbound.margin_offset": (ARRAY, (f32, [margins[k]["margin_offset"] for k in kinds])),
        "specbound.kind": (STRING, "layer"),
        "specbound.check_layers": (ARRAY, (i32, [0])),
        "specbound.shortlist_size": (u32, CHECKED),
        "specbound.alpha": (f32, 0.2), "specbound.tau": (f32, 0.25),
        "specbound.d_max": (u32, 10), "specbound.w_max": (u32, 8)}
    words, text = shortlist(learnt, model.vocabulary), looked_up(learnt)
    tensors = {"exit.shortlist": ([len(words)], I32, words.tobytes()),
               "exit.text": ([len(text)], I32, text.tobytes())}
    for kind in kinds:
        for name, w in load(kind, model, a.work / f"{kind}.pt").tensors().items():
            w = w.detach().numpy()
            tensors[f"exit.0.{kind}.{name}.weight"] = (
                (w.shape, Q8_0, to_q8_0(w)) if w.ndim == 2 else
                (w.shape, F32, w.astype(np.float32).tobytes()))
    write_gguf(a.output, keys, tensors)
    print(f"{a.output}: {a.output.stat().st_size / 1e6:.2f} MB, {len(words)} words, "
          f"{len(text)} tokens to look up in, {(text < 0).sum()} replies")


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    stages = parser.add_subparsers(required=True, metavar="STAGE")

    def stage(name, run, about):
        s = stages.add_parser(name, help=about)
        s.set_defaults(run=run)
        s.add_argument("-m", "--model", default=CACHE / "smollm2-135m-instruct-q4_1.gguf")
        s.add_argument("--work", type=Path, default=Path("build/smollm2"))
        s.add_argument("-t", "--threads", type=int, help="of the CPU; default: PyTorch's")
        return s

    s = stage("prompts", make_prompts, "prompts.npz from dialogues and prose")
    s.add_argument("--dialogues", nargs="+", required=True, help="JSON lines: messages; .xz too")
    s.add_argument("--prose", nargs="+", required=True, help="JSON lines: {\"text\": ...}")
    s.add_argument("--questions", nargs="*", default=[], help="Spec-Bench's, to measure on")
    s.add_argument("--seed", type=int, default=1, help="another one takes other passages of prose")
    s = stage("write", write_replies, "replies.npz: what the model replies")
    s.add_argument("--seconds", type=float, default=250)
    s = stage("learn", learn_head, "layer.pt or chained.pt, and a line in learn.jsonl")
    s.add_argument("--head", choices=list(draft_heads.HEADS), default="layer")
    s.add_argument("--seconds", type=float, default=260)
    s.add_argument("--epochs", type=int, default=12, help="at most")
    s.add_argument("--rate", type=float, default=2e-3, help="of learning")
    s.add_argument("--limit", type=int, help="reply tokens to learn from; default: all")
    s.add_argument("--resume", type=Path, help="weights to go on from: a .pt, or a heads file")
    s = stage("calibrate", calibrate, "calibration.json: what a margin says")
    s.add_argument("--prompts", type=int, default=60, help="that nothing was learnt from")
    s = stage("pack", pack, "the heads file")
    s.add_argument("--base", required=True, help="a heads file of the same model")
    s.add_argument("-o", "--output", type=Path, required=True)
    a = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    a.device = "cuda" if torch.cuda.is_available() else "cpu"
    a.work.mkdir(parents=True, exist_ok=True)
    try:
        a.run(a)
    except FileNotFoundError as e:
        sys.exit(f"{e.filename}: expected a file, found none: has the stage before been run?")


if __name__ == "__main__":
    main()
