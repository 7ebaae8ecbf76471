#!/usr/bin/env python3
"""One definition, many views: --help, man page, completion and docs/commands.md know the same
flags, and each command explains itself."""
import os
import re
import shutil
import subprocess
import sys
import unittest

import flags_table
from specbound_process import BINARY, FolderCase, specbound

COMMANDS = flags_table.definitions()
NAMES = [command["name"] for command in COMMANDS]
WITH_FLAGS = [command for command in COMMANDS if command["options"]]  # that this build has
if len(WITH_FLAGS) < len(COMMANDS):
    print("SKIP flags of commands that this build leaves out:",
          *(c["name"] for c in COMMANDS if not c["options"]), flush=True)


def flags(command):
    return {name for option in command["options"] for name in option["names"]}


def output(*arguments):
    result = specbound(*arguments)
    if result.returncode != 0 or result.stderr:
        raise AssertionError((arguments, result.returncode, result.stderr))
    return result.stdout.decode()


def flags_of_help(text):
    """The names at the left of the lists of options."""
    found = set()
    for head in re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE):
        found |= {word.rstrip(",") for word in head.split() if word.startswith("-")}
    return found


def flags_of_man(text):
    """The names in the bold heads of the lists of options."""
    found = set()
    for head in re.findall(r"^\.TP\n(\\fB\\-.*)$", text, re.MULTILINE):
        found |= set(re.findall(r"\\fB(\S+?)\\fR", head.replace("\\-", "-")))
    return found


class TheSameFlags(unittest.TestCase):
    maxDiff = None

    def test_the_definition_is_that_of_the_program(self):
        """Each flag is one that the command takes, and each has words that explain it."""
        self.assertIn("run", NAMES)
        for command in WITH_FLAGS:
            self.assertIn("--help", flags(command))
            for option in command["options"]:
                self.assertTrue(option["description"], (command["name"], option["names"]))
                self.assertTrue(option["names"] or option["place"], command["name"])
        run = next(c for c in COMMANDS if c["name"] == "run")
        self.assertLessEqual({"-m", "--model", "-ngl", "--temp", "--temperature", "-sys",
                              "--config", "--speculator"}, flags(run))

    def test_help(self):
        for command in WITH_FLAGS:
            text = output(command["name"], "--help")
            self.assertEqual(flags_of_help(text), flags(command), command["name"])
            self.assertEqual(output("help", command["name"]), text)

    def test_man_page(self):
        whole = output("man")
        sections = re.split(r"^\.S[SH] ", whole, flags=re.MULTILINE)
        titled = {section.split("\n")[0].replace("\\-", "-"): section for section in sections}
        for command in WITH_FLAGS:
            section = titled["specbound " + command["name"]]
            self.assertEqual(flags_of_man(section), flags(command), command["name"])
            alone = output("man", command["name"])
            self.assertEqual(flags_of_man(alone), flags(command), command["name"])

    def test_docs(self):
        want = flags_table.table(COMMANDS).splitlines()
        found = flags_table.in_docs().splitlines()
        if len(WITH_FLAGS) == len(COMMANDS):
            self.assertEqual(found, want, "tests/e2e/flags_table.py writes it")
            return
        # A command that is left out here may be why its groups are shared.
        for command, line in zip(NAMES, want[2:]):
            if any(c["name"] == command for c in WITH_FLAGS):
                self.assertIn(f"| `{command}` |", "\n".join(found))

    def test_the_table_has_every_flag(self):
        """What the table's rows stand for, put together again."""
        rows = dict(re.findall(r"^\| ([`*][^|]*?) \| (.*) \|$", flags_table.in_docs(),
                               re.MULTILINE))
        for command in WITH_FLAGS:
            row = rows[f"`{command['name']}`"]
            for title in re.findall(r"\*[^*]+\*", row):
                row += " " + rows[title]
            found = {word for code in re.findall(r"`([^`]*)`", row) for word in code.split()
                     if re.fullmatch(r"--?[a-z][a-z-]*", word)}
            self.assertEqual(found, flags(command) - {"-h", "--help"}, command["name"])

    def test_bash(self):
        script = output("completion", "bash") + "\n".join(
            f'COMP_WORDS=(specbound {c["name"]} -) COMP_CWORD=2; _specbound; '
            f'printf "%s " {c["name"]} "${{COMPREPLY[@]}}"; echo' for c in WITH_FLAGS)
        self.check_lists(subprocess.run(["bash", "--norc", "-c", script], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout)

    @unittest.skipUnless(shutil.which("zsh"), "SKIP completion in zsh: it is not installed")
    def test_zsh(self):
        # _arguments is zsh's own; what it is handed begins with "(exclusions)" or "*".
        script = """compdef() { : }
            _arguments() { local a; for a in "$@"; do a=${a#\\*}; a=${a#\\(*\\)}; a=${a%%\\[*}
                [[ $a == -* ]] && print -rn -- "${a%[+=]} "; done; print }
        """ + output("completion", "zsh") + "\n".join(
            f'words=(specbound {name} -) CURRENT=3; print -n "{name} "; _specbound'
            for name in (c["name"] for c in WITH_FLAGS))
        self.check_lists(subprocess.run(["zsh", "-f", "-c", script], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout)

    @unittest.skipUnless(shutil.which("fish"), "SKIP completion in fish: it is not installed")
    def test_fish(self):
        script = output("completion", "fish") + "\n".join(
            f'echo {name} (complete -C "specbound {name} -" | string replace -r "\\t.*" "")'
            for name in (c["name"] for c in WITH_FLAGS))
        self.check_lists(subprocess.run(["fish", "--no-config", "-c", script], check=True,
                                        text=True, stdout=subprocess.PIPE).stdout)

    def check_lists(self, printed):
        """`printed`: a line for each command, its name and the flags that are offered."""
        lists = [line.split() for line in printed.splitlines()]
        self.assertEqual([words[0] for words in lists], [c["name"] for c in WITH_FLAGS])
        for words, command in zip(lists, WITH_FLAGS):
            self.assertEqual(set(words[1:]), flags(command), command["name"])


class Explained(unittest.TestCase):
    def test_every_command_has_examples(self):
        for command in WITH_FLAGS:
            name = command["name"]
            self.assertIn("\nExamples:\n  ", "\n" + command["footer"], name)
            examples = command["footer"].split("Examples:\n")[1]
            self.assertRegex(examples, rf"specbound {name}\b", name)

    def test_every_value_that_may_be_left_out_says_what_it_is_then(self):
        # A value without a default: what the flag does is done only where it is given.
        nothing = re.compile(r"default|may be (given|repeated)|write |\bread ")
        for command in WITH_FLAGS:
            for option in command["options"]:
                if not option["settable"] or option["takes"] == "nothing" or option["place"]:
                    continue
                self.assertRegex(option["description"], nothing, (command["name"], option["names"]))

    def test_help_fits_a_terminal(self):
        for command in WITH_FLAGS:
            for line in output("help", command["name"]).splitlines():
                # Examples and lists of words are laid out by hand.
                if not line.startswith("  ") or line.startswith("   "):
                    self.assertLessEqual(len(line), 80, line)

    def test_paragraphs_are_wrapped_once(self):
        """Line ends in a paragraph of the definition would be wrapped once more as it is shown."""
        for command in WITH_FLAGS:
            for text in (command["about"], command["footer"]):
                paragraphs = text.replace("Examples:\n", "")
                self.assertNotRegex(paragraphs, r"(?m)^\S.*\n\S", command["name"])

    def test_the_overview_names_every_command(self):
        text = output("help")
        self.assertEqual(text, output("--help"))
        for command in COMMANDS:
            self.assertIn(f"\n  {command['name']:<12} {command['summary']}\n", text)
        self.assertIn("SPECBOUND_TOP_K", output("help", "--settings"))


class Meant(unittest.TestCase):
    def refusal(self, *arguments):
        result = specbound(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, b""), arguments)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        return result.stderr.decode()

    def test_options(self):
        for typed, meant in (("--temp-", "--temp"), ("--tmep", "--temp"), ("--top_k", "--top-k"),
                             ("--modle=x", "--model"),
                             ("--speculater", "--speculator"),
                             ("--repeat-last", "--repeat-last-n")):
            said = self.refusal("run", typed)
            self.assertIn(f"unknown option {typed.split('=')[0]}; did you mean {meant}?", said)
            self.assertIn("specbound run --help lists the options", said)
        self.assertNotIn("did you mean", self.refusal("run", "--frobnicate"))
        self.assertIn("unexpected argument stray;", self.refusal("info", "m.gguf", "stray"))

    def test_commands(self):
        for typed, meant in (("chta", "chat"), ("train", "train-heads"), ("tokenise", "tokenize")):
            said = self.refusal(typed)
            self.assertIn(f"unknown command '{typed}'; did you mean {meant}?", said)
            self.assertIn(f"did you mean {meant}?", self.refusal("help", typed))
            self.assertIn(f"did you mean {meant}?", self.refusal("man", typed))
        self.assertNotIn("did you mean", self.refusal("frobnicate"))


class ManPage(FolderCase):
    def pages(self):
        yield "specbound.1", output("man")
        yield "specbound-run.1", output("man", "run")

    def written(self):
        for name, text in self.pages():
            path = self.path(name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            yield path

    def test_it_is_the_same_every_time(self):
        self.assertEqual(output("man"), output("man"))
        self.assertTrue(output("man").endswith("\n"))

    @unittest.skipUnless(shutil.which("man"), "SKIP the man page as man(1) reads it: no man")
    def test_man_reads_it_without_warnings(self):
        for path in self.written():
            result = subprocess.run(
                ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path], text=True,
                env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANROFFSEQ": ""},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            # Images without documentation have a man that says so and nothing else.
            self.assertTrue(result.stdout.startswith("x T utf8"), result.stdout[:200])

    @unittest.skipUnless(shutil.which("mandoc"), "SKIP the man page as mandoc reads it: no mandoc")
    def test_mandoc_finds_nothing_wrong(self):
        for path in self.written():
            result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], text=True,
                                    stdout=subprocess.PIPE)
            # The page holds no date: the same program gives the same page.
            complaints = [line for line in result.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(complaints, [])

    def test_without_a_model_or_a_home(self):
        environment = {"HOME": "", "SPECBOUND_MODEL": "/absent.gguf", "SPECBOUND_CONFIG": "/absent"}
        for arguments in (("man",), ("completion", "bash"), ("help",), ("help", "--json")):
            result = subprocess.run([BINARY, *arguments], env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
            self.assertEqual(result.stdout.decode(), output(*arguments))


if __name__ == "__main__":
    sys.exit(unittest.main())
