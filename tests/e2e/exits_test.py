#!/usr/bin/env python3
"""--show-exits on a terminal: colours around whole characters, and the same text between them."""
import json
import os
import pty
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from specbound_process import BINARY, DEMO, LENS, STORIES, FolderCase, specbound

SVG = "{http://www.w3.org/2000/svg}"

STORY = ("run", "--raw", "-m", STORIES, "-p", "", "--temp", "0", "-n", "60", *LENS)
COLOUR = re.compile(rb"\x1b\[38;5;(\d+)m([^\x1b]+)\x1b\[39m")


def on_terminal(*arguments, errors=subprocess.PIPE, environment=None, status=0):
    """stdout of a run whose stdout is a terminal, and its stderr. Line ends are as written."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
    if "NO_COLOR" not in (environment or {}):
        env.pop("NO_COLOR", None)
    process = subprocess.Popen([BINARY, *arguments], stdin=subprocess.DEVNULL, stdout=slave,
                               stderr=slave if errors is None else errors, env=env)
    os.close(slave)
    out = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # how a terminal says that the other side is gone
            break
        if not data:
            break
        out += data
    os.close(master)
    err = process.stderr.read() if process.stderr else b""
    if process.stderr:
        process.stderr.close()
    assert process.wait(120) == status, err
    return out.replace(b"\r\n", b"\n"), err


def without_colours(data):
    return COLOUR.sub(rb"\2", data)


class Exits(unittest.TestCase):
    def test_the_text_between_the_colours_is_the_text(self):
        want = specbound(*STORY).stdout
        out, err = on_terminal(*STORY, "--show-exits")
        self.assertEqual(without_colours(out), want)
        stretches = COLOUR.findall(out)
        self.assertGreater(len(stretches), 0)
        for _, text in stretches:
            text.decode("utf-8")  # no colour begins or ends in a character
        self.assertRegex(err, rb"(?m)^exit layer, from green to red:( \d+)+; uncoloured: the last")

    def test_colours_are_those_of_the_traced_exits(self):
        with tempfile.NamedTemporaryFile() as file:
            out, _ = on_terminal(*STORY, "--show-exits", "--trace", file.name)
            lines = [json.loads(line) for line in file]
        tokens = [line for line in lines if line["type"] == "token"]
        exits = {t["exit_layer"] for t in tokens if t["accepted"]}
        self.assertEqual(len(exits), len({colour for colour, _ in COLOUR.findall(out)}))
        coloured = b"".join(text for _, text in COLOUR.findall(out))
        self.assertEqual(coloured.decode(), "".join(t["text"] for t in tokens if t["accepted"]))

    def test_held_back_text_keeps_its_colour(self):
        plain, _ = on_terminal(*STORY, "--show-exits")
        text = without_colours(plain)[:-1]
        # Every word is the beginning of a stop string that never comes.
        strings = sorted({word + b"\x01" for word in text.split()}, key=len)[-16:]
        held, _ = on_terminal(*STORY, "--show-exits", *[f for s in strings
                                                        for f in ("--stop", s)])
        self.assertEqual(self.painted(held), self.painted(plain))
        cut, _ = on_terminal(*STORY, "--show-exits", "--stop", text[30:36])
        at = text.find(text[30:36])
        self.assertEqual(self.painted(cut), self.painted(plain)[:at] + [(0, 10)])

    @staticmethod
    def painted(data):
        """Each byte with its colour."""
        out, at = [], 0
        for found in COLOUR.finditer(data):
            out += [(0, byte) for byte in data[at:found.start()]]
            out += [(int(found[1]), byte) for byte in found[2]]
            at = found.end()
        return out + [(0, byte) for byte in data[at:]]

    def test_the_legend_is_coloured_where_stderr_is_a_terminal(self):
        out, _ = on_terminal(*STORY, "--show-exits", errors=None)
        self.assertRegex(out, rb"(?m)^exit layer:( \x1b\[38;5;\d+m\d+\x1b\[39m)+; uncoloured: ")

    def test_without_drafts_there_is_nothing_to_colour(self):
        ask = ("run", "-m", DEMO, "-p", "Hello", "-n", "8", "--spec", "off", "-s", "1")
        out, err = on_terminal(*ask, "--show-exits")
        self.assertEqual(out, specbound(*ask).stdout)
        self.assertIn(b"exit layer: no token came from a draft", err)


class Record(FolderCase):
    """--record, a film of the reply for a browser."""

    def test_a_film_has_a_column_for_each_token_and_the_text(self):
        film, stats = self.path("reply.svg"), self.path("stats.json")
        trace = self.path("trace.jsonl")
        result = specbound(*STORY, "--record", film, "--stats-json", stats, "--trace", trace)
        self.assertEqual(result.stdout, specbound(*STORY).stdout)
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        tokens = [line for line in lines if line["type"] == "token"]
        rounds = [line for line in lines if line["type"] == "round"]
        root = ElementTree.parse(film).getroot()
        title = root.find(f"{SVG}text[@class='h']").text
        self.assertIn(f"{len(tokens)} tokens in {len(rounds)} passes", title)
        views = root.findall(f"{SVG}svg")
        kinds = [rect.get("class") or "right" for group in views[0].find(f"{SVG}g")
                 if group.get("visibility") is None for rect in group.findall(f"{SVG}rect")]
        right = sum(token["accepted"] for token in tokens)
        self.assertEqual((kinds.count("right"), kinds.count("all")), (right, len(tokens) - right))
        text = "".join(element.text for element in views[1].iter(f"{SVG}text"))
        shown = specbound(*STORY).stdout.decode()
        self.assertEqual(text.split(), shown.split())

    def test_it_is_asked_for_before_the_work_and_spoils_no_other_file(self):
        missing = specbound(*STORY, "--record", self.path("no/such/folder.svg"))
        self.assertEqual((missing.returncode, missing.stdout), (1, b""))
        one = self.path("one")
        same = specbound(*STORY, "--record", one, "--trace", one)
        self.assertEqual((same.returncode, same.stdout), (2, b""))


class NoColours(unittest.TestCase):
    def test_into_a_pipe_go_the_same_bytes_and_one_line_says_why(self):
        plain, asked = specbound(*STORY), specbound(*STORY, "--show-exits")
        self.assertEqual(asked.stdout, plain.stdout)
        self.assertEqual(asked.stderr.count(b"no exit colours: stdout is no terminal\n"), 1)
        self.assertEqual(asked.stderr.count(b"\n"), plain.stderr.count(b"\n") + 1)

    def test_no_color_and_dumb_terminals_are_heard(self):
        want = specbound(*STORY).stdout
        for environment, says in (({"NO_COLOR": "1"}, b"no exit colours: NO_COLOR is set"),
                                  ({"TERM": "dumb"}, b"no exit colours: TERM is dumb")):
            out, err = on_terminal(*STORY, "--show-exits", environment=environment)
            self.assertEqual(out, want)
            self.assertIn(says, err)
        out, _ = on_terminal(*STORY, "--show-exits", environment={"NO_COLOR": ""})
        self.assertNotEqual(out, want)


if __name__ == "__main__":
    unittest.main()
