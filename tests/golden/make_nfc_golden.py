#!/usr/bin/env python3
"""Makes nfc_golden.json, texts and what the `tokenizers` library composes them to (NFC); with
--tables FILE instead the tables of src/text/nfc_tables.cpp, from the Unicode data of Python.

    python make_nfc_golden.py [--tables FILE]

needs: pip install tokenizers (not for --tables)
"""

import argparse
import json
import pathlib
import random
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # by arithmetic

HEAD = '''\
// Unicode {version}: how characters decompose, and the classes by which marks are ordered. Made by
// tests/golden/make_nfc_golden.py --tables; not to be edited.
#include "text/nfc.h"

namespace specbound {{

// clang-format off
namespace {{
'''
TAIL = '''
}  // namespace
// clang-format on

std::span<const Decomposition> composites() {
  return kComposites;
}

std::span<const Decomposition> decomposed_for_good() {
  return kDecomposedForGood;
}

std::span<const MarkClass> mark_classes() {
  return kMarkClasses;
}

}  // namespace specbound
'''


def rows(items):
    """Items in lines of up to 100 columns."""
    line, lines = " ", []
    for item in items:
        if len(line) + len(item) > 99:
            lines.append(line)
            line = " "
        line += (" " if line == " " else "") + item
    return "\n".join(lines + [line])


def table(kind, name, items):
    return f"\nconstexpr {kind} {name}[] = {{\n{rows(items)}\n}};\n"


def tables():
    kept, gone, classes = [], [], []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or code in HANGUL:
            continue
        text = unicodedata.decomposition(chr(code))
        if text and not text.startswith("<"):
            composes = unicodedata.normalize("NFC", chr(code)) == chr(code)
            parts = ",".join(f"0x{int(part, 16):X}" for part in text.split())
            (kept if composes else gone).append(f"{{0x{code:X},{parts}}},")
        mark = unicodedata.combining(chr(code))
        if mark and classes and classes[-1][1] == code - 1 and classes[-1][2] == mark:
            classes[-1][1] = code
        elif mark:
            classes.append([code, code, mark])
    return (HEAD.format(version=unicodedata.unidata_version)
            + table("Decomposition", "kComposites", kept)
            + table("Decomposition", "kDecomposedForGood", gone)
            + table("MarkClass", "kMarkClasses",
                    (f"{{0x{a:X},0x{b:X},{c}}}," for a, b, c in classes)) + TAIL)


def golden():
    from tokenizers import normalizers
    nfc = normalizers.NFC()
    rng = random.Random(20261127)
    known = [c for c in range(0x80, 0x30000) if not 0xD800 <= c < 0xE000
             and unicodedata.category(chr(c)) != "Cn"]
    special = [c for c in known if unicodedata.decomposition(chr(c))[:1].isalnum()]
    marks = [c for c in known if unicodedata.combining(chr(c))]
    jamo = list(range(0x1100, 0x1113)) + list(range(0x1161, 0x1176)) + list(range(0x11A7, 0x11C3))
    texts = ["plain", "Cafe\u0301", "A\u030A\u0323", "\u212B\u2126", "\u1100\u1161\u11A8",
             "\uAC00\u11A8", "\u0344", "\uFB1D", "q\u0307\u0323", "\u0301", "a\u0300\u0316\u0301",
             "Ã©".encode("latin-1").decode("utf-8"), "\u1112\u1161\u11ABgul"]
    pools = ([ord("a"), ord("E"), ord(" "), ord("o")], special, marks, jamo, known)
    for _ in range(600):
        texts.append("".join(chr(rng.choice(rng.choice(pools))) for _ in range(rng.randint(1, 9))))
        texts.append(unicodedata.normalize("NFD", texts[-1]))
    # The library's Unicode is older: what it does not know yet is left out.
    pairs = [[text, nfc.normalize_str(text)] for text in texts + [chr(c) for c in special]]
    return [pair for pair in pairs if unicodedata.normalize("NFC", pair[0]) == pair[1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if options.tables:
        options.tables.write_text(tables())
        return
    path = pathlib.Path(__file__).resolve().parent / "nfc_golden.json"
    path.write_text("[\n" + ",\n".join(json.dumps(pair) for pair in golden()) + "\n]\n")


if __name__ == "__main__":
    main()
