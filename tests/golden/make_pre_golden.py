#!/usr/bin/env python3
"""Cuts and encodes difficult texts with HF tokenizers, for each family of byte-level BPE.

usage: make_pre_golden.py > pre_golden.json    (needs tokenizers)

tokens, merges: a small vocabulary, trained over words that nothing has cut, so that its merges
cross the places where the families cut and every one of these shows in the ids. Its last token
comes of no merges. families: for each name of tokenizer.ggml.pre the sizes of the words in bytes
and the ids, text by text. The pre_tokenizers are those of the tokenizer.json of the models named;
"default" is llama.cpp's.
"""
import json
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
              "use_regex": False}
GPT2 = dict(BYTE_LEVEL, use_regex=True)


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


END = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
CJK = split("[一-龥ࠀ-一가-퟿]+")
BLOOM = split(r" ?[^(\s|[.,!?…。，、।۔،])]+")
CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ"
    "ὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥ"
    "ῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
    "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")

FAMILIES = {
    # openai-community/gpt2, mosaicml/mpt-7b
    "gpt-2": [GPT2],
    # meta-llama/Meta-Llama-3-8B
    "llama-bpe": [split(rf"{ENGLISH}|{BEFORE}\p{{L}}+|\p{{N}}{{1,3}}|{END}"), BYTE_LEVEL],
    "dbrx": [split(rf"{ENGLISH}|{BEFORE}\p{{L}}+|\p{{N}}{{1,3}}|{END}"), BYTE_LEVEL],
    "minicpm5": [split(r"\p{N}{1,3}"), split(rf"{ENGLISH}|{BEFORE}\p{{L}}+|\p{{N}}+|{END}"),
                 BYTE_LEVEL],
    # Qwen/Qwen2.5
    "qwen2": [split(rf"{ENGLISH}|{BEFORE}\p{{L}}+|\p{{N}}|{END}"), BYTE_LEVEL],
    "qwen35": [split(rf"{ENGLISH}|{BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}|"
                     r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTE_LEVEL],
    "seed-coder": [split(rf"{ENGLISH}|{BEFORE}\p{{L}}+|\p{{N}}{{1}}|"
                         r" ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTE_LEVEL],
    "bailingmoe": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|"
                         r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), BYTE_LEVEL],
    # mistralai/Mistral-Nemo-Base-2407
    "tekken": [split(rf"{BEFORE}{UPPER}*{LOWER}+|{BEFORE}{UPPER}+{LOWER}*|\p{{N}}|"
                     r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTE_LEVEL],
    # meta-llama/Llama-4-Scout-17B-16E
    "gpt-4o": [split(rf"{BEFORE}{UPPER}*{LOWER}+{ENGLISH}?|{BEFORE}{UPPER}+{LOWER}*{ENGLISH}?|"
                     r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
               BYTE_LEVEL],
    # deepseek-ai/deepseek-llm-7b-base, deepseek-coder-6.7b-base, DeepSeek-V3
    "deepseek-llm": [split("[\r\n]"), split(rf"\s?[{CASED}]+"),
                     split("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"), CJK,
                     digits(True), BYTE_LEVEL],
    "deepseek-coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), CJK,
                       digits(True), BYTE_LEVEL],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
                    split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
                          "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
                          "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), BYTE_LEVEL],
    # tiiuae/falcon-7b
    "falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2, digits(False),
               split("[0-9][0-9][0-9]")],
    # bigcode/starcoder, smallcloudai/Refact, CohereForAI/c4ai-command-r-v01, SmolLM
    "starcoder": [digits(True), GPT2],
    # bigscience/bloom, LumiOpen/Viking-7B
    "bloom": [BLOOM, BYTE_LEVEL],
    "viking": [BLOOM, digits(True), BYTE_LEVEL],
    "default": [split(r"[\p{P}\$\+<=>\^~\|]+"),
                split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
                split(r"\p{N}+"), split("[0-9][0-9][0-9]"), BYTE_LEVEL],
}
IGNORE_MERGES = {"llama-bpe", "tekken", "minicpm5"}
ODD_TOKEN = "\u0120qoph"  # " qoph", which no merges make

TEXTS = [
    "", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\r", " \n", "\n ", " \t \n\n  x", "a", " a", "a ",
    "Hello world", "Hello, world!!  How's it going?", "I'm you're he'll SHE'LL we'VE they'd Don'T",
    "don't 't's 'S'M x's've '", "it\u2019s we\u2019ll", "donT'\u017F '\u017F I'\u212A",
    "1 12 123 1234 12345 123456 1234567", " 1 22 333 4444", "3.14159e-10, 1,000,000.00$",
    "x1y22z333", "\u0663\u0664\u0665 \u0967\u0968 \u00BD\u00B2\u00B3 \u216B\u2460 1\u00BD3456",
    "\uFF11\uFF12\uFF13\uFF14 \uFF21\uFF22\uFF43", "007 0x7F 1st 2nd",
    "   leading and trailing   ", "two  three   four    spaces", "tab\tand\t\ttabs\t x",
    "line\nline\n\nline\n\n\nline\r\nline\r\n\r\n", "end of line \n next", "end  \n\n  next  \n",
    "    if (a == b) {\n        return a->b[0] += 1;  // #1!\n    }\n",
    "def f(x):\n\treturn {'a': [1, 2], \"b\": None}\n",
    "snake_case camelCase PascalCase HTTPServer",
    "a.b.c/d\\e@f.com https://example.org/path?q=1&r=2#x", "!!!???...---===>>><<<",
    "$x = `ls` | ^y~",
    "\u6211\u60F3\u5728apple\u5DE5\u4F5C1314151\u5929\uFF5E",
    "\u3053\u3093\u306B\u3061\u306F\u30AB\u30BF\u30AB\u30CA\u6F22\u5B57",
    "\uD55C\uAD6D\uC5B4 \uD14D\uC2A4\uD2B8",
    "\u4E2D\u6587\uFF0C\u3002\u3001\u201C\u5F15\u53F7\u201D\u2026",
    "\u041D\u0435\u0449\u043E \u043D\u0430 \u0411\u044A\u043B\u0433\u0430\u0440\u0441\u043A\u0438",
    "\u0395\u03BB\u03BB\u03B7\u03BD\u03B9\u03BA\u03AC \u1FBE\u2126\u212A\u212B \u1F7D\u1FD3",
    "\u0645\u0631\u062D\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060C "
    "\u06F1\u06F2\u06F3\u06D4",
    "\u05E9\u05DC\u05D5\u05DD \u202Eabc\u202C",
    "\u0928\u092E\u0938\u094D\u0924\u0947 \u0926\u0941\u0928\u093F\u092F\u093E\u0964",
    "\u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35\u0E0A\u0E32\u0E27\u0E42\u0E25\u0E01",
    "\u1780\u17B6\u1793\u17CB\u178F\u17C2\u1796\u17B7\u179F\u17C1\u179F",
    "\u10D0\u10D1\u10D2 \u1C90\u1C91 \u13A0\u13F8 \uA78C\uA792 \uAB30\uAB70",
    "e\u0301 a\u0308\u0323 \u0301x n\u0303\u0303 \u0301\u0301",
    "\u00E9\u00C9\u00DF\u01C5 \u00AA\u00BA \u01BB\u01C0 \u02B0x",
    "A\u01C5b ABCdef ABC'S ABC's \u01C5\u01C5 \u4E2DA \u4E2Da",
    "\U0001F600\U0001F600 \U0001F469\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466 "
    "\U0001F1E9\U0001F1EA \U0001F44D\U0001F3FD \u2764\uFE0F",
    "\U0001D400\U0001D7CE\U00010400\U00010428 \U0001E900\U0001E943",
    "\U000E0041\U000F0000 \U0010FFFF \uE000 \uFFFD",
    "\u0000\u0001\u0002 \u001B[0m\u007F\u0080\u0084", "a\u0085b\u0085\u0085 c",
    "a\u00A0b \u00A0\u00A0c",
    "a\u2028b\u2029\u2029 c", "a\u180Eb \u180E\u180E c", "a\u200Bb\u2060\uFEFFc \u200B",
    "a\u3000b\u2003\u2003c\u1680 d\u202F",
    "x\u000By\u000C\u000Cz\u001C\u001D\u001E\u001Fw", "mixed \u00A0\n\u0085\n \u2028x",
    "soft\u00ADhyphen\u00AD \u00AD",
    "qoph qoph, Qoph  qoph", "\u00F5\u00F7\u00C1 \u0120 \u010A \u0142",
    "[brackets] (parens) {braces} <tags/> </s>",
    "#hashtag @user *bold* _it_ ~~no~~ `code`", "a|b||c^d^^e", "....   ....\n....",
    "-\n--\n\n---\n/\n//\n",
    "x" * 40, " " * 33 + "x", "\n" * 9 + " x", "ab" * 30 + " 9" * 9, "\t" * 5 + " " * 5 + "\n" * 5,
    "   \u00E9", "   1", "   \u4E2D  \u4E2D ", "  \U0001F600  ", " \u0301", "1 \u0661 2",
    "\u4E2D1\u4E2D 22",
]
POOL = list("aAbZ  \n\n\r\t'stm019.,!-_$(/|<") + [
    "'ll", "'RE", "  ", "\r\n", "\u00A0", "\u0085", "\u2028", "\u3000", "\u4E2D", "\u3042",
    "\uD55C",
    "\u0416\u0436", "\u0301", "\u0663", "\u00BD", "\u00B2", "\U0001F600", "\u200D", "\u01C5",
    "\u00AA",
    "\u0964", "\u2026", "\uFF01", "\uFF11", "\u0000", "\u00E9", "\u1FBE", "\u0E2A", "\u0E31"]


def main():
    draw = random.Random(8)
    texts = TEXTS + ["".join(draw.choices(POOL, k=24)) for _ in range(40)]
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained.train_from_iterator(texts * 2, trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=8,
        special_tokens=["<|endoftext|>"], show_progress=False))
    model = json.loads(trained.to_str())["model"]
    vocab = dict(model["vocab"])
    vocab[ODD_TOKEN] = len(vocab)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]

    families = {}
    for name, steps in FAMILIES.items():
        spec = json.loads(Tokenizer(models.BPE(
            vocab=vocab, merges=merges, ignore_merges=name in IGNORE_MERGES)).to_str())
        spec["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
        tokenizer = Tokenizer.from_str(json.dumps(spec))
        tokenizer.decoder = decoders.ByteLevel()
        words, ids = [], []
        for text in texts:
            # Each byte is one character by then.
            pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
            words.append([len(piece) for piece, _ in pieces])
            assert sum(words[-1]) == len(text.encode()), (name, text)
            ids.append(tokenizer.encode(text, add_special_tokens=False).ids)
            assert tokenizer.decode(ids[-1], skip_special_tokens=False) == text
        families[name] = {"words": words, "ids": ids}

    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    json.dump({"tokens": tokens, "merges": [" ".join(m) for m in merges], "texts": texts,
               "families": families}, sys.stdout, separators=(",", ":"))
    print()


main()
