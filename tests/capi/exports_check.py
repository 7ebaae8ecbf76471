#!/usr/bin/env python3
"""What others see of the library: every function of specbound.h and nothing else. And whether
docs/c-api.md shows the example as it is.

    exports_check.py LIBRARY
"""
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def main():
    header = read("src/capi/specbound.h")
    declared = set(re.findall(r"^SB_API [^;(]*?(\w+)\(", header, re.MULTILINE))
    listed = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], check=True,
                            stdout=subprocess.PIPE).stdout.decode().splitlines()
    exported = {line.split()[-1] for line in listed}
    for what, names in (("declared, not exported", declared - exported),
                        ("exported, not declared", exported - declared)):
        for name in sorted(names):
            print(f"{what}: {name}")
    print(f"{len(declared)} functions declared, {len(exported)} symbols exported")
    shown = f"```c\n{read('src/capi/example.c')}```" in read("docs/c-api.md")
    if not shown:
        print("docs/c-api.md: expected src/capi/example.c as it is")
    return 0 if shown and declared and declared == exported else 1


sys.exit(main())
