#!/usr/bin/env python3
"""Writes a GGUF file of Q8_0 or F32 weights again with its matrices as F16: the same model in
another element type.

    make_f16_model.py INPUT OUTPUT

Each weight (of Q8_0: the product of scale and integer) is rounded once to half. Needs nothing but
Python.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from gguf_file import GgufFile, as_f16  # noqa: E402

MOSTLY_F16 = 1  # general.file_type


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model = as_f16(GgufFile(sys.argv[1]))
    if "general.file_type" in model.entries:
        model.put("general.file_type", MOSTLY_F16)
    converted = model.bytes()
    partial = sys.argv[2] + ".partial"
    with open(partial, "wb") as file:
        file.write(converted)
    os.replace(partial, sys.argv[2])
    print(f"{sys.argv[2]}: {len(converted) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
