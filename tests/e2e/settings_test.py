#!/usr/bin/env python3
"""Settings from the environment and the file, from the outside: what they do to a reply, what is
said of them, and that nothing hostile in them gets far."""
import json
import os
import unittest

from specbound_process import DEMO, FolderCase, specbound

ASK = ("run", "-m", DEMO, "-p", "I need a taxi.", "-n", "8", "--seed", "3")


class SettingsCase(FolderCase):
    """$XDG_CONFIG_HOME is a folder of the test's own, and so is the home."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("config/specbound"))
        self.file = self.path("config/specbound/config")
        self.environment = {"HOME": self.folder, "XDG_CONFIG_HOME": self.path("config")}

    def write(self, text):
        with open(self.file, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def run_it(self, *arguments, **variables):
        return specbound(*arguments, environment={**self.environment, **variables})

    def refused(self, *arguments, status=2, **variables):
        result = self.run_it(*arguments, **variables)
        self.assertEqual((result.returncode, result.stdout), (status, b""), result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        return result.stderr.decode()


class Taken(SettingsCase):
    def reply_line(self, *arguments, **variables):
        """The trace's line with the settings of a reply, and stderr."""
        trace = self.path("trace.jsonl")
        result = self.run_it(*ASK, "--trace", trace, *arguments, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return next(line for line in lines if line["type"] == "reply"), result.stderr.decode()

    def test_each_source_wins_over_the_next(self):
        self.write("temp = 0.1\ntop-k = 11\nmin-p = 0.01\n[run]\ntemp = 0.2\ntop-k = 12\n"
                   "[chat]\nmin-p = 0.5\n")
        reply, said = self.reply_line("--temp", "0.4", SPECBOUND_TEMP="0.3", SPECBOUND_TOP_P="0.9")
        self.assertAlmostEqual(reply["temperature"], 0.4, 5)
        self.assertAlmostEqual(reply["top_p"], 0.9, 5)
        self.assertEqual(reply["top_k"], 12)
        self.assertAlmostEqual(reply["min_p"], 0.01, 5)
        self.assertIn("settings from ~/config/specbound/config: top-k, min-p\n", said)
        self.assertIn("settings from the environment: top-p\n", said)
        reply, said = self.reply_line("--no-config")
        self.assertEqual(reply["top_k"], 40)
        self.assertNotIn("settings from", said)

    def test_the_text_is_that_of_the_same_flags(self):
        flags = self.run_it(*ASK, "--temp", "1.5", "--top-k", "0", "--no-config").stdout
        self.write("temp = 1.5\ntop-k = 0\n")
        self.assertEqual(self.run_it(*ASK).stdout, flags)
        self.write("")
        self.assertEqual(self.run_it(*ASK, SPECBOUND_TEMP="1.5", SPECBOUND_TOP_K="0").stdout, flags)
        self.assertNotEqual(self.run_it(*ASK).stdout, flags)

    def test_penalties_of_what_a_reply_has(self):
        ask = ("run", "-m", DEMO, "-p", "I need a taxi.", "-n", "40", "--temp", "0", "--ignore-eos")
        plain = self.run_it(*ask).stdout
        for name in ("presence-penalty", "frequency-penalty"):
            flag = self.run_it(*ask, "--" + name, "2").stdout
            self.assertNotEqual(flag, plain)
            self.write(f"{name} = 2\n")
            self.assertEqual(self.run_it(*ask).stdout, flag)
            self.assertEqual(self.run_it(*ask, "--spec", "off").stdout, flag)
            self.write("")
            chat = specbound("chat", "-m", DEMO, environment=self.environment,
                             stdin=f"/set {name} 2\n/set {name}\n/set {name} 2.5\n".encode())
            said = (chat.stdout + chat.stderr).decode()
            self.assertIn(f"{name} 2\n", said)
            self.assertIn(f"--{name}: expected -2 to 2, found 2.5", said)

    def test_a_preset_on_the_command_line_is_what_it_says(self):
        """The paper's tau is 0.55, whatever tau the file has."""
        self.write("tau = 0.9\nw-max = 2\n")
        lens = ("--head", "lens", "--controller", "off")
        said = self.reply_line(*lens, "--preset", "paper")[1]
        self.assertIn("up to 8 rows", said)
        self.assertIn("tau 0.55", said)
        self.assertNotIn("settings from", said)
        said = self.reply_line(*lens)[1]
        self.assertIn("up to 2 rows", said)
        self.assertIn("tau 0.9", said)
        self.assertIn("tau 0.7", self.reply_line(*lens, "--preset", "paper", "--tau", "0.7")[1])

    def test_a_drafter_of_the_file_leaves_verify_alone(self):
        """verify's --speculator is its own, so what the file says of a draft model is too."""
        self.write("speculator = draft\nmodel-draft = /absent.gguf\naccept = rejection\n"
                   "siblings = 3\n")
        ask = ("verify", "-m", DEMO, "-p", "a", "-n", "2", "--temps", "0", "--seeds", "1")
        for more in ((), ("--speculator", "ngram")):
            result = self.run_it(*ask, *more)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn(b"settings from", result.stderr)
        result = self.run_it(*ASK)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"/absent.gguf", result.stderr)

    def test_the_model(self):
        self.write(f"model = {DEMO}\n")
        self.assertEqual(self.run_it("tokenize", "-p", "a").returncode, 0)
        said = self.refused("tokenize", "-p", "a", "--no-config", "-m", "/absent.gguf", status=1)
        self.assertIn("/absent.gguf", said)
        result = self.run_it("tokenize", "-p", "a", SPECBOUND_MODEL="/absent.gguf")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"/absent.gguf", result.stderr)
        self.write("model = ~/m.gguf\n")
        self.assertIn(self.path("m.gguf").encode(), self.run_it("tokenize", "-p", "a").stderr)

    def test_a_chat(self):
        self.write("[chat]\nn-predict = 4\nseed = 5\n")
        result = specbound("chat", "-m", DEMO, stdin=b"Hello!\n", environment=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"settings from ~/config/specbound/config: n-predict, seed", result.stderr)

    def test_doctor_tells_which_file(self):
        found = json.loads(self.run_it("doctor", "--json").stdout)
        self.assertIsNone(found["settings_file"])
        self.write("temp = 1\n")
        result = self.run_it("doctor", "--json")
        self.assertEqual(json.loads(result.stdout)["settings_file"], self.file)
        self.assertEqual(result.stderr, b"")  # it has no use for a temperature


class Refused(SettingsCase):
    def test_places_are_named(self):
        self.write("# first\ntemp = hot\n")
        self.assertEqual(self.refused("run", "-p", "a"),
                         "specbound run: ~/config/specbound/config:2: temp: expected a number, "
                         "found \"hot\"\n")
        self.assertEqual(self.refused("run", "-p", "a", SPECBOUND_TEMP="x"),
                         "specbound run: SPECBOUND_TEMP: expected a number, found \"x\"\n")
        self.write("tepm = 1\n")
        self.assertIn("config:1: tepm: no command has such a setting; did you mean temp?",
                      self.refused("tokenize", "-p", "a"))
        self.write("[run]\nprompt = a\n")
        self.assertIn(":2: prompt: is read from the command line only", self.refused("run"))

    def test_files_that_are_none(self):
        ask = ("tokenize", "-m", DEMO, "-p", "a")
        self.assertEqual(self.run_it(*ask).returncode, 0)  # none is fine
        self.assertIn("absent", self.refused(*ask, "--config", self.path("absent"), status=1))
        os.mkdir(self.file)
        self.assertIn("not a regular file", self.refused(*ask, status=1))
        os.rmdir(self.file)
        os.mkfifo(self.file)
        self.assertIn("not a regular file", self.refused(*ask, status=1))
        os.remove(self.file)
        os.symlink(self.file, self.file)
        self.assertIn("cannot open", self.refused(*ask, status=1))
        os.remove(self.file)
        for content, says in ((b"a\0b = 1\n", ":1: expected text, found a NUL byte"),
                              (b"temp = \xff\n", ":1: expected UTF-8"),
                              (b"\x1b[31m = 1\n", ":1: "),
                              (b"x" * (1 << 20), ":1: expected NAME = VALUE"),
                              (b"x=" * (1 << 19), ":1: x: no command has such a setting"),
                              (b"[\n" * 1000, ":1: expected [COMMAND]"),
                              (bytes(range(256)) * 64, ":1: ")):
            self.write(content)
            said = self.refused(*ask)
            self.assertIn(says, said)
            self.assertLess(len(said), 400)
            self.assertNotIn("\x1b", said)
        with open(self.file, "wb") as file:
            file.truncate(1 << 40)
        self.assertIn("expected at most 1 MiB", self.refused(*ask, status=1))

    @unittest.skipIf(os.geteuid() == 0, "SKIP a settings file that cannot be read: root reads all")
    def test_a_file_that_cannot_be_read(self):
        self.write("temp = 1\n")
        os.chmod(self.file, 0)
        self.assertIn("Permission denied",
                      self.refused("tokenize", "-m", DEMO, "-p", "a", status=1))

    def test_help_comes_whatever_the_file_says(self):
        self.write("nonsense\n")
        for arguments in (("run", "--help"), ("help", "run"), ("man",), ("completion", "zsh"),
                          ("--help",), ("--version",)):
            result = self.run_it(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)

    def test_variables_of_others_are_let_be(self):
        result = self.run_it("tokenize", "-m", DEMO, "-p", "a", SPECBOUND_CASE="1",
                             SPECBOUND_SHARED="x", SPECBOUND_="y", SPECBOUND_TEMP="hot",
                             SPECBOUND_PROMPT="b")
        self.assertEqual((result.returncode, result.stderr), (0, b""))  # has no --temp


if __name__ == "__main__":
    unittest.main()
