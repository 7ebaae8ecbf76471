#!/usr/bin/env python3
"""Makes template_ids_golden.json: conversations that Jinja2 renders by the template of
tests/data/tokenizer/ggml-vocab-phi-3.gguf, and the ids that the `tokenizers` library has for the
whole text, set up as the tokenizer.json of Phi-3 sets it up; further texts that start with a
special token or hold one, the same with Metaspace whose prepend_scheme is "first".

    python make_template_ids_golden.py

needs: pip install tokenizers gguf jinja2
"""

import json
import pathlib

import gguf
import jinja2
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE.parent / "data/tokenizer/ggml-vocab-phi-3.gguf"
SPACE = "\u2581"
KEEPS_SPACE = ("<unk>", "<s>", "<|endoftext|>")  # behind it: rstrip is false in tokenizer.json
CONTROL, UNKNOWN, USER_DEFINED = 3, 2, 4

TALKS = [
    ["Hello"],
    ["  Hello\n"],
    ["Hello", "Hi! How can I help?", "Tell me a joke."],
    ["1 + 1 =", "2", "\nAnd  2 + 2?\n", " 4", ""],
    ["def f(x):\n    return x < 3 and x > 1  # <b>|end|</b>", "```\nx\n```"],
    ["Grüße, 你好 \U0001F600", "👍🏽 ok"],
]
TEXTS = ["Hello", " Hello", "<s>Hello", "<s> Hello", "Hello<|endoftext|>world", "a <s> b<s>c",
         "<s><|endoftext|> x y"]


def vocabulary():
    reader = gguf.GGUFReader(FILE)
    field = reader.fields
    texts = [bytes(field["tokenizer.ggml.tokens"].parts[i]).decode()
             for i in field["tokenizer.ggml.tokens"].data]
    scores = [float(field["tokenizer.ggml.scores"].parts[i][0])
              for i in field["tokenizer.ggml.scores"].data]
    types = [int(field["tokenizer.ggml.token_type"].parts[i][0])
             for i in field["tokenizer.ggml.token_type"].data]
    template = bytes(field["tokenizer.chat_template"].parts[-1]).decode()
    return texts, scores, types, template


def bpe(texts, scores, types):
    """Merges as transformers makes them of a SentencePiece model: all ways to put a token
    together, by its score and then by the ids of the parts."""
    ids = {text: i for i, text in enumerate(texts)}
    merges = []
    for text, i in ids.items():
        if types[i] in (CONTROL, UNKNOWN, USER_DEFINED):
            continue
        local = [(text[:n], text[n:]) for n in range(1, len(text))
                 if text[:n] in ids and text[n:] in ids]
        merges += [(pair, scores[i])
                   for pair in sorted(local, key=lambda p: (ids[p[0]], ids[p[1]]))]
    merges = [pair for pair, _ in sorted(merges, key=lambda m: m[1], reverse=True)]
    return models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def main():
    texts, scores, types, source = vocabulary()
    phi3 = tokenizers.Tokenizer(bpe(texts, scores, types))
    first = tokenizers.Tokenizer(phi3.model)
    phi3.normalizer = normalizers.Sequence(
        [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    first.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
    for text, kind in zip(texts, types):
        if kind in (CONTROL, UNKNOWN, USER_DEFINED):
            strips = text not in KEEPS_SPACE
            phi3.add_special_tokens(
                [tokenizers.AddedToken(text, rstrip=strips, normalized=False)])
            first.add_special_tokens([tokenizers.AddedToken(text, normalized=False)])
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(source)

    golden = {"phi3": [], "first": []}
    for talk in TALKS:
        messages = [{"role": ("user", "assistant")[i % 2], "content": content}
                    for i, content in enumerate(talk)]
        text = template.render(messages=messages, bos_token="<s>", eos_token="<|endoftext|>")
        golden["phi3"].append({"messages": messages, "text": text,
                               "ids": phi3.encode(text, add_special_tokens=False).ids})
    for text in TEXTS:
        golden["first"].append({"text": text,
                                "ids": first.encode(text, add_special_tokens=False).ids})
    lines = [f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
             for key, rows in golden.items()]
    (HERE / "template_ids_golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
