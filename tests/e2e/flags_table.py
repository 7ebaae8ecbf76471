#!/usr/bin/env python3
"""The table of commands and flags in docs/commands.md, made from `specbound help --json`. Run by
itself it writes the table; cli_definition_test.py checks that it is the one that stands there.

A group of flags that several commands have alike is listed once, by its name."""
import json
import os
import re

from specbound_process import ROOT, specbound

PAGE = os.path.join(ROOT, "docs/commands.md")
MARKERS = re.compile(r"(<!-- flags: begin[^\n]*-->\n\n).*?(\n<!-- flags: end -->)", re.DOTALL)


def definitions():
    """The commands of this build, as the program knows them."""
    result = specbound("help", "--json")
    if result.returncode != 0:
        raise AssertionError(result.stderr.decode())
    return json.loads(result.stdout)["commands"]


def spelled(option):
    """`-m --model FILE.gguf`, or FILE for what has a place only."""
    words = [*option["names"], option["type"]] if option["names"] else [option["place"]]
    return "`" + " ".join(word for word in words if word).replace("|", "\\|") + "`"


def grouped(command):
    """{group: its flags, spelled}, without what every command has."""
    groups = {}
    for option in command["options"]:
        if "--help" not in option["names"]:
            groups.setdefault(option["group"], []).append(spelled(option))
    return groups


def rows(commands):
    """(title, flags) of each row: the groups that commands share, then the commands."""
    having = {}
    for command in commands:
        for name, flags in grouped(command).items():
            having.setdefault((name, tuple(flags)), []).append(command["name"])
    names = {}
    for (name, flags), commands_with in having.items():
        if len(commands_with) > 1 and name != "Options" and len(flags) > 1:
            names.setdefault(name, []).append(flags)
    titles = {}  # (group, flags) -> what the row is called
    for name, variants in names.items():
        short = name.split(",")[0].lower()
        for number, flags in enumerate(variants):
            titles[name, flags] = f"*{short}*" if number == 0 else f"*{short} {number + 1}*"
    shared = [(title, list(flags)) for (_, flags), title in titles.items()]
    own = []
    for command in commands:
        row = []
        for name, flags in grouped(command).items():
            title = titles.get((name, tuple(flags)))
            row += [title] if title else flags
        own.append((f"`{command['name']}`", row))
    return shared, own


def table(commands):
    shared, own = rows(commands)
    lines = ["| | flags |", "|---|---|"]
    lines += [f"| {title} | {' '.join(flags)} |" for title, flags in own + shared]
    return "\n".join(lines) + "\n"


def in_docs():
    """The table that stands in docs/commands.md."""
    with open(PAGE, encoding="utf-8") as file:
        found = MARKERS.search(file.read())
    if not found:
        raise AssertionError("docs/commands.md has no <!-- flags: begin --> .. <!-- flags: end -->")
    return found.group(0)[len(found.group(1)):-len(found.group(2))]


def main():
    commands = definitions()
    without = [c["name"] for c in commands if not c["options"]]
    if without:
        raise SystemExit(f"this build leaves out {', '.join(without)}: the table would, too")
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(MARKERS.sub(lambda m: m.group(1) + table(commands) + m.group(2), text))


if __name__ == "__main__":
    main()
