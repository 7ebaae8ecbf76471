#!/usr/bin/env python3
"""`specbound datastore build` and what drafts from it, from the outside."""
import json
import os
import re
import struct
import tempfile
import unittest

from specbound_process import DEMO, specbound

ECHO = "again and again and again and again and again and again and"


class Datastore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = self.path("a.datastore")

    def path(self, name, data=None):
        path = os.path.join(self.folder, name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def build(self, *data, out=None):
        files = [word for path in data for word in ("--data", path)]
        return specbound("datastore", "build", "-m", DEMO, *files, "-o", out or self.out)

    def run_demo(self, *flags):
        stats = self.path("stats.json")
        result = specbound("run", "-m", DEMO, "-t", "1", "-n", "48", "--ignore-eos", *flags,
                           "--stats-json", stats)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(stats, encoding="utf-8") as file:
            return result, json.load(file)

    def refused(self, result, says, status):
        self.assertEqual(result.returncode, status, (says, result.stderr))
        self.assertEqual(result.stdout, b"")
        self.assertIn(says, result.stderr.splitlines()[-1])
        self.assertFalse(os.path.exists(self.out))
        self.assertEqual([name for name in os.listdir(self.folder) if ".tmp-" in name], [])

    def test_the_text_is_the_plain_one_and_what_was_written_before_is_found(self):
        for sampling in (("--temp", "0"), ("--temp", "0.7", "-s", "2")):
            plain, _ = self.run_demo("-p", ECHO, *sampling, "--spec", "off")
            self.path("before.txt", ECHO.encode() + plain.stdout)
            result = self.build(self.path("before.txt"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout.decode(),
                             re.escape(self.out) + r": \d+ tokens, 0\.0 MB, in \d+\.\d s\n$")
            self.assertIn(b"data: 0 dialogues, 1 pieces of plain text", result.stderr)
            for flags in (("rest",), ("rest", "--w-max", "3"), ("auto", "--controller", "off")):
                result, stats = self.run_demo("-p", ECHO, *sampling, "--speculator", *flags,
                                              "--datastore", self.out)
                self.assertEqual(result.stdout, plain.stdout, (flags, sampling))
                self.assertGreater(stats["accepted_tokens"], 10)
                self.assertIn(self.out.encode(), result.stderr)

    def test_what_texts_it_takes(self):
        talk = {"messages": [{"role": "user", "content": "Hello!"},
                             {"role": "assistant", "content": "Good day to you."}]}
        lines = self.path("a.jsonl", (json.dumps(talk) + "\nno line\n" +
                                      json.dumps({"text": "plain text"}) + "\n").encode())
        result = self.build(lines, self.path("b.txt", b"more of it"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"data: 1 dialogues, 2 pieces of plain text", result.stderr)
        self.assertIn(b"data: skipped 1 of 3 lines", result.stderr)
        with open(self.out, "rb") as file:
            data = file.read()
        magic, version, _, _, n_tokens, n_places, _ = struct.unpack_from("<8sIIQQQQ", data)
        self.assertEqual((magic, version), (b"SBSTORE\n", 1))
        self.assertEqual(len(data), 48 + 4 * (n_tokens + n_places))
        self.assertEqual(n_tokens - n_places, 3)  # an end behind each text
        before = data
        self.assertEqual(self.build(lines, self.path("b.txt")).returncode, 0)
        with open(self.out, "rb") as file:
            self.assertEqual(file.read(), before)  # the same texts, the same file

    def test_what_build_refuses(self):
        text = self.path("a.txt", b"some text")
        for arguments, says, status in (
                ((), b"expected texts and the file to write", 2),
                (("build",), b"expected texts and the file to write", 2),
                (("build", "--data", text), b"expected texts and the file to write", 2),
                (("burn", "--data", text, "-o", self.out), b"ACTION: expected build", 2),
                (("build", "--data", "", "-o", self.out), b"an empty one", 2),
                (("build", "--data", self.path("none"), "-o", self.out), b"none", 1),
                (("build", "--data", self.path("b.txt", b" \n"), "-o", self.out),
                 b"found nothing", 1),
                (("build", "--data", text, "-o", self.path("none/x")), b"none/x", 1),
                (("build", "--data", text, "-o", self.folder), b"directory", 1),
                (("build", "--data", text, "-o", self.out, "-m", text), b"a.txt", 1)):
            self.refused(specbound("datastore", *arguments), says, status)

    def test_what_drafters_refuse(self):
        self.assertEqual(self.build(self.path("a.txt", b"some text")).returncode, 0)
        with open(self.out, "rb") as file:
            good = file.read()
        os.remove(self.out)

        def changed(at, value):
            return good[:at] + struct.pack("<I", value) + good[at + 4:]

        for data, says in ((b"", b"an empty one"), (good[:47], b"a file of 47 bytes"),
                           (good[:-1], b"cut short or damaged"), (good + b"\0", b"cut short"),
                           (changed(0, 5), b"found something else"),
                           (changed(8, 7), b"found version 7"),
                           (changed(12, 3), b"found one of 3"),
                           (changed(16, 3), b"found one of as many other ones"),
                           (changed(28, 1), b"no more places than them"),
                           (changed(48, 1 << 30), b"expected tokens below"),
                           (changed(len(good) - 4, 1 << 30), b"expected places below"),
                           (changed(48, 3), b"checksum")):
            path = self.path("bad.datastore", data)
            for drafter in ("rest", "auto"):
                result = specbound("run", "-m", DEMO, "-p", "x", "-n", "1", "--speculator", drafter,
                                   "--datastore", path)
                status = 2 if b"found one of" in says else 1
                self.refused(result, says, status)
                self.assertIn(b"bad.datastore", result.stderr)
        for flags, says, status in (
                (("rest",), b"--speculator rest: needs --datastore FILE", 2),
                (("ngram", "--datastore", "x"), b"--datastore: needs --speculator auto or rest", 2),
                (("auto", "--preset", "paper", "--datastore", "x"), b"leave one of them out", 2),
                (("rest", "--datastore", ""), b"an empty one", 2),
                (("rest", "--datastore", self.path("none")), b"cannot open", 1)):
            result = specbound("run", "-m", DEMO, "-p", "x", "-n", "1", "--speculator", *flags)
            self.refused(result, says, status)

    def test_in_a_chat_and_with_verify(self):
        self.assertEqual(self.build(self.path("a.txt", ECHO.encode() * 3)).returncode, 0)
        talk = b"/set datastore\nHello!\n/regen\n"
        plain = specbound("chat", "-m", DEMO, "-s", "4", "-n", "16", "--spec", "off",
                          stdin=b"Hello!\n/regen\n")
        chat = specbound("chat", "-m", DEMO, "-s", "4", "-n", "16", "--speculator", "rest",
                         "--datastore", self.out, stdin=talk)
        self.assertEqual(chat.returncode, 0, chat.stderr)
        self.assertEqual(chat.stdout, plain.stdout)
        self.assertIn(b"datastore " + self.out.encode(), chat.stderr)
        result = specbound("verify", "-m", DEMO, "-t", "1", "--speculator", "rest", "--datastore",
                           self.out, "--bits", "-n", "16", "--temps", "0,0.7", "--seeds", "1",
                           "-p", ECHO, "--raw", "--ignore-eos")
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        self.assertNotIn(b"nothing was drafted", result.stderr)
        self.assertIn(b"identical", result.stdout)


if __name__ == "__main__":
    unittest.main()
