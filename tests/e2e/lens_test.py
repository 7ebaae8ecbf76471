#!/usr/bin/env python3
"""specbound lens, from the outside: the table, the picture, the figures, widths, colours."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import tempfile
import termios
import unittest
import xml.etree.ElementTree as ElementTree

from specbound_process import BINARY, DEMO, STORIES, TIMEOUT, specbound, start

PROMPT = "I need a table for two tonight."
ASK = ("lens", "-m", DEMO, "-p", PROMPT)
STORY = ("lens", "--raw", "-m", STORIES, "-p", "Once upon a time")
SVG = "{http://www.w3.org/2000/svg}"
MARKS = {" ": None, "!": "wrong", "[": "right", ".": "after"}
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def table_and_files(*arguments, environment=None):
    """stdout as text, the JSON object and the SVG's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        svg, figures = os.path.join(folder, "a.svg"), os.path.join(folder, "a.json")
        result = specbound(*arguments, "--svg", svg, "--json", figures,
                           environment={"COLUMNS": "120", **(environment or {})})
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        with open(svg, "rb") as file, open(figures, encoding="utf-8") as figures_file:
            return result.stdout.decode(), json.load(figures_file), file.read()


def parsed(text):
    """The table of a text as {(token, layer): (shown, percent, mark)}, from its fixed columns."""
    cells = {}
    for block in text.split("\n\n")[:-1]:
        head, *rows = block.split("\n")
        starts = [m.start() - 2 for m in re.finditer(r"(?<=  )\d+", head)]
        tokens = [int(n) for n in head[10:].split()]
        widths = [b - a for a, b in zip(starts, starts[1:])]
        for row in rows[:-1]:
            layer = int(row[:3])
            for i, (token, at) in enumerate(zip(tokens, starts)):
                end = at + widths[i] if i < len(widths) else len(row)
                shown, percent = row[at + 2:end].rstrip("]! ").rsplit(None, 1)
                cells[token, layer] = (shown.rstrip(), int(percent), MARKS[row[at + 1]])
    return cells


def in_terminal(*arguments, columns, environment=None):
    """What the program writes to a terminal of that many columns."""
    child, terminal = pty.fork()
    if child == 0:
        try:
            os.read(0, 1)  # until the terminal has its size
            for name in ("COLUMNS", "NO_COLOR"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm-256color", **(environment or {})})
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.execv(BINARY, [BINARY, *arguments])
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.write(terminal, b"\n")
    written = b""
    try:
        while chunk := os.read(terminal, 65536):
            written += chunk
    except OSError:  # how Linux tells that the other side is gone
        pass
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, written.replace(b"\r\n", b"\n").removeprefix(b"\n")


class Table(unittest.TestCase):
    def test_the_text_is_the_greedy_reply(self):
        _, figures, _ = table_and_files(*ASK, "-n", "24")
        self.assertEqual(figures["stop_reason"], "end")
        text = "".join(t["text"] for t in figures["tokens"][:-1])  # the end token is the last
        reply = specbound("run", "-m", DEMO, "-p", PROMPT, "--temp", "0", "-n", "24")
        self.assertEqual(reply.stdout.decode(), text.lstrip(" ") + "\n")

        _, figures, _ = table_and_files(*STORY, "-n", "40")
        self.assertEqual(figures["stop_reason"], "length")
        text = "".join(t["text"] for t in figures["tokens"])
        story = specbound("run", "--raw", "-m", STORIES, "-p", "Once upon a time", "--temp", "0",
                          "-n", "40")
        self.assertEqual(story.stdout.decode(), text + "\n")

    def test_threads_and_kernels_show_the_same_table(self):
        tables = {specbound(*ASK, *flags, environment={"COLUMNS": "120"}).stdout
                  for flags in ((), ("-t", "1"), ("-t", "2"), ("--isa", "portable"))}
        self.assertEqual(len(tables), 1)
        self.assertIn(b"layer same  1 ", tables.pop())

    def test_the_table_the_picture_and_the_figures_say_the_same(self):
        for ask in (ASK, (*ASK, "--tau", "0.3", "--alpha", "0.6", "--check-layers", "2,4-9"),
                    (*STORY, "-n", "40", "--d-max", "3")):
            text, figures, svg = table_and_files(*ask)
            n_layers, tokens = figures["n_layers"], figures["tokens"]
            cells = parsed(text)
            self.assertEqual(set(cells), {(t, layer) for t in range(1, len(tokens) + 1)
                                          for layer in range(1, n_layers + 1)})
            for (t, layer), (shown, percent, mark) in cells.items():
                cell = tokens[t - 1]["layers"][layer - 1]
                self.assertEqual(mark, cell["mark"], (t, layer))
                self.assertLessEqual(abs(percent - 100 * cell["confidence"]), 1.001)
                plain = cell["text"].replace(" ", "\u2423").replace("\n", "\\n")
                self.assertTrue(shown == plain or shown[-1] == "~" and plain.startswith(shown[:-1]))
            counts = {mark: sum(c["mark"] == mark for t in tokens for c in t["layers"])
                      for mark in ("wrong", "right", "after")}
            self.assertGreater(counts["right"], 0)
            root = ElementTree.fromstring(svg)
            groups = [g.get("class").split() for g in root.iter(SVG + "g")
                      if g.find(SVG + "title") is not None]
            self.assertEqual(len(groups), len(cells))
            for kind, mark in (("x", "wrong"), ("r", "right"), ("a", "after")):
                self.assertEqual(sum(kind in g for g in groups), counts[mark], mark)

    def test_the_marks_follow_from_the_figures(self):
        _, figures, _ = table_and_files(*ASK, "--tau", "0.4", "--d-max", "9")
        self.assertEqual(figures["check_layers"], list(range(1, 10)))
        exits = {"right": 0, "wrong": 0, "nowhere": 0}
        for token in figures["tokens"]:
            confident = [(i + 1, c["id"] == token["id"]) for i, c in enumerate(token["layers"][:9])
                         if c["confidence"] >= figures["tau"]]
            layer, right = confident[0] if confident else (None, None)
            self.assertEqual((token["exit_layer"], token["exit_right"]), (layer, right))
            exits["nowhere" if right is None else "right" if right else "wrong"] += 1
            self.assertEqual(token["layers"][-1]["id"], token["id"])
        self.assertEqual(figures["exits"], exits)
        self.assertEqual(figures["agreement"][-1], 1)

    def test_no_annealing_raises_no_temperature(self):
        _, annealed, _ = table_and_files(*ASK, "-n", "4", "--alpha", "2")
        _, plain, _ = table_and_files(*ASK, "-n", "4", "--no-anneal")
        for a, b in zip(annealed["tokens"], plain["tokens"]):
            self.assertLess(a["layers"][0]["confidence"], b["layers"][0]["confidence"])
            self.assertEqual(a["layers"][-1], b["layers"][-1])

    def test_settings_are_written_as_typed(self):
        figures = table_and_files(*ASK, "-n", "1", "--alpha", "0.2", "--tau", "0.1234567")[1]
        self.assertEqual((figures["alpha"], figures["tau"]), (0.2, 0.1234567))

    def test_the_picture_stands_alone(self):
        _, _, svg = table_and_files(*STORY, "-n", "64")
        for word in (b"href", b"url(", b"@import", b"<script", b"<image"):
            self.assertNotIn(word, svg)
        self.assertEqual(ElementTree.fromstring(svg).tag, SVG + "svg")


class Terminal(unittest.TestCase):
    def test_blocks_fit_the_width(self):
        for columns in ("30", "60", "80", "200"):
            lines = specbound(*ASK, environment={"COLUMNS": columns}).stdout.decode().split("\n")
            rows = [line for line in lines if line[9:10] == "%"]
            self.assertLessEqual(max(map(len, rows)), int(columns))
            self.assertGreater(max(map(len, rows)), min(int(columns), 120) - 15)

    def test_without_a_terminal_120_columns_and_no_colour(self):
        result = specbound(*STORY, "-n", "32", environment={"COLUMNS": ""})
        self.assertNotIn(b"\x1b", result.stdout)
        rows = [line for line in result.stdout.decode().split("\n") if line[9:10] == "%"]
        self.assertIn(max(map(len, rows)), range(100, 121))

    def test_a_terminal_gets_colours_in_its_width(self):
        ask = (*STORY, "-n", "32")
        status, shown = in_terminal(*ask, columns=66)
        self.assertEqual(status, 0)
        self.assertIn(b"\x1b[48;5;", shown)
        bare = COLOUR.sub(b"", shown)
        plain = specbound(*ask, environment={"COLUMNS": "66"}).stdout
        for one, other in zip(bare.split(b"\n"), plain.split(b"\n")):
            if not other.startswith(b"A cell:"):
                self.assertEqual(one.rstrip(), other)
        self.assertEqual(bare.count(b"\n"), plain.count(b"\n"))
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            status, shown = in_terminal(*ask, columns=66, environment=environment)
            self.assertEqual((status, shown), (0, plain), environment)


class Errors(unittest.TestCase):
    def check_refused(self, *arguments, status=2, says):
        result = specbound("lens", *arguments)
        self.assertEqual(result.returncode, status, (arguments, result.stderr))
        self.assertEqual(result.stdout, b"")
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        self.assertIn(says, result.stderr)

    def test_refusals_are_one_line_and_come_before_the_work(self):
        ask = ASK[1:]
        self.check_refused(*ask, "-n", "0", says=b"from 1 to 256")
        self.check_refused(*ask, "-n", "257", says=b"from 1 to 256")
        self.check_refused(*ask, "--tau", "2", says=b"--tau")
        self.check_refused(*ask, "--check-layers", "3,99", says=b"--check-layers")
        self.check_refused(*ask, "--w-max", "4", says=b"--w-max")
        self.check_refused(*ask, "--svg", "-", says=b"--svg: expected a file")
        self.check_refused(*ask, "--svg", "a", "--json", "./a", says=b"two outputs")
        self.check_refused(*ask, "--raw", "--sys", "Be brief.", says=b"--sys")
        self.check_refused(*ask, "--svg", "", says=b"--svg: expected the name of a file")
        self.check_refused(*ask, "--svg", "/", says=b"/: cannot write", status=1)
        self.check_refused(*ask, "--json", "/no/such/folder/a.json", says=b"cannot write", status=1)
        self.check_refused("-m", DEMO, "-f", os.devnull, says=b"expected a prompt")
        self.check_refused(*ask, "-c", "8", says=b"the context holds 8", status=1)

    def test_no_check_layer_left_is_told(self):
        result = specbound(*ASK, "-n", "2", "--check-layers", "12", "--d-max", "10")
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"no exits to mark: no check layer is left", result.stderr)

    def test_a_full_context_ends_the_table(self):
        n_prompt = table_and_files(*STORY, "-n", "1")[1]["prompt_tokens"]
        result = specbound(*STORY, "-c", str(n_prompt + 2))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"3 tokens: ", result.stdout)
        self.assertIn(b"context of %d tokens is full" % (n_prompt + 2), result.stderr)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            result = specbound(*STORY, stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"stdout: cannot write", result.stderr)
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as closed:
            result = specbound(*STORY, stdout=closed)
        self.assertEqual(result.returncode, 1)
        self.assertNotIn(b"cannot write", result.stderr)

    def test_ctrl_c_stops_it(self):
        with start("lens", "--raw", "-m", DEMO, "-c", "16000", "-f", "-") as process:
            process.stdin.write(b"a table for two " * 3000)
            process.stdin.close()
            while b"backend:" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(TIMEOUT), 1)
            self.assertIn(b"interrupted while reading the prompt", process.stderr.read())
            self.assertEqual(process.stdout.read(), b"")


if __name__ == "__main__":
    unittest.main()
