#!/usr/bin/env python3
"""`plant.py SOURCE OUTPUT TEXT REPLACEMENT` copies a source file with one fault in it.

TEXT must be there exactly once: code that has moved is planted anew, never quietly left whole.
"""
import os
import sys


def main():
    source, output, text, replacement = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        code = file.read()
    if code.count(text) != 1 or text == replacement:
        sys.exit(f"{source}: expected the text below exactly once, found it {code.count(text)} "
                 f"times; plant the fault of tests/faults/CMakeLists.txt anew\n{text}")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    with open(output, "w", encoding="utf-8") as file:
        file.write(code.replace(text, replacement))


main()
