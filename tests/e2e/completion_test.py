#!/usr/bin/env python3
"""specbound completion, by the shells themselves: what is offered where. bash and zsh are also
typed at on a terminal; there `specbound` is a function that prints its arguments."""
import os
import pty
import select
import shutil
import subprocess
import time
import unittest

from specbound_process import TIMEOUT, FolderCase, specbound

PROMPT = "READY> "
SET_PROMPT = "PS1=READY; PS1+='> '"  # the terminal shows it, too, and that is no prompt
FILES = ("a.gguf", "b c.gguf", "it's.gguf", "notes.txt", "dir/inner.gguf")


def script(shell):
    result = specbound("completion", shell)
    if result.returncode != 0 or result.stderr:
        raise AssertionError(result.stderr)
    return result.stdout.decode()


class ShellCase(FolderCase):
    """A folder with a few files, and the script beside it."""

    shell = None

    def setUp(self):
        super().setUp()
        self.files = self.path("files")
        for name in FILES:
            path = os.path.join(self.files, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8"):
                pass
        self.script = self.path("_specbound")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(script(self.shell))

    def typed(self, keys, *command, rc):
        """What stands on the terminal when `keys` were typed at a shell that ran `rc` first."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.files)
            os.environ.update(TERM="dumb", HOME=self.folder, ZDOTDIR=self.folder)
            os.execvp(command[0], command)
        shown = b""
        try:
            os.write(terminal, rc.encode() + b"\n")
            deadline = time.monotonic() + TIMEOUT
            sent = False
            while b"<end>" not in shown:
                ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
                self.assertTrue(ready, shown)
                try:
                    shown += os.read(terminal, 4096)
                except OSError:
                    break
                if not sent and PROMPT.encode() in shown:
                    sent = True
                    os.write(terminal, keys.encode() + b"\n")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)
        return shown.decode(errors="replace").replace("\r", "")


class Bash(ShellCase):
    shell = "bash"

    def offered(self, *words):
        """COMPREPLY for these words behind `specbound`, the last one being typed."""
        line = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _specbound; ' \
               'printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(
            ["bash", "--norc", "-c", line, "bash", self.script, "specbound", *words],
            cwd=self.files, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        self.assertEqual(result.stderr, "")
        return [word for word in result.stdout.split("\n") if word]

    def test_commands(self):
        self.assertEqual(self.offered("t"), ["train-heads", "tune", "theory", "tokenize"])
        self.assertIn("--version", self.offered("--"))
        self.assertIn("run", self.offered(""))
        self.assertEqual(self.offered("nonsense", "--t"), [])

    def test_options_and_their_values(self):
        self.assertEqual(self.offered("run", "--te"), ["--temp", "--temperature"])
        self.assertEqual(self.offered("run", "-n", "5", "--te"), ["--temp", "--temperature"])
        self.assertEqual(self.offered("run", "--device", ""), ["auto", "cpu", "cuda"])
        self.assertEqual(self.offered("run", "--spec", "=", "o"), ["on", "off"])
        self.assertEqual(self.offered("run", "--spec", "="), ["on", "off"])
        self.assertEqual(self.offered("run", "--temp", ""), [])
        self.assertEqual(self.offered("run", "--temp", "-"), [])
        self.assertIn("--temps", self.offered("verify", ""))
        self.assertEqual(self.offered("chat", "--chat-template", "chat"), ["chatml"])

    def test_arguments(self):
        self.assertEqual(self.offered("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.offered("help", "tr"), ["train-heads"])
        types = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_K"]
        self.assertEqual(self.offered("quantize", "a.gguf", "out.gguf", ""), types)
        self.assertEqual(self.offered("quantize", "-t", "2", "--head", "=", "F16", "a.gguf", "o",
                                      "Q4"), ["Q4_0", "Q4_K"])
        self.assertEqual(self.offered("info", "--tensors", "a"), ["a.gguf"])
        self.assertEqual(self.offered("chat", "a"), ["a.gguf"])

    def test_without_a_command_it_is_a_chat(self):
        self.assertEqual(self.offered("-m", "a"), ["a.gguf"])
        self.assertEqual(self.offered("-m", "a.gguf", "--no-h"), ["--no-history"])

    def test_files(self):
        models = ["a.gguf", "b c.gguf", "dir", "it's.gguf"]
        self.assertEqual(sorted(self.offered("chat", "-m", "")), models)
        self.assertEqual(sorted(self.offered("info", "")), models)
        self.assertEqual(self.offered("chat", "--model", "=", "dir/"), ["dir/inner.gguf"])
        self.assertEqual(self.offered("chat", "-m", "no"), [])  # readline's: see below

    def test_on_a_terminal(self):
        rc = f"specbound() {{ printf '<%s>' \"$@\"; }}; source {self.script}; {SET_PROMPT}"
        for keys, arguments in (
                ("specbound ch\t-m b\t", ["chat", "-m", "b c.gguf"]),
                ("specbound chat -m it\t --dev\tcp\t", ["chat", "-m", "it's.gguf", "--device",
                                                        "cpu"]),
                ("specbound chat --model=a\t", ["chat", "--model=a.gguf"]),
                ("specbound chat -m no\t", ["chat", "-m", "notes.txt"]),
                ("specbound chat -m \"b \t", ["chat", "-m", "b c.gguf"]),
                ("specbound run -f no\t", ["run", "-f", "notes.txt"]),
                ("specbound run -f 'di\tin\t", ["run", "-f", "dir/inner.gguf"]),
                ("specbound train-heads --features-dir d\t", ["train-heads", "--features-dir",
                                                              "dir/"]),
                ("specbound info --mod\tdi\ti\t", ["info", "--model", "dir/inner.gguf"])):
            shown = self.typed(keys + "\necho \\<end\\>\nexit", "bash", "--norc", "--noprofile",
                               "-i", rc=rc)
            self.assertIn("".join(f"<{a}>" for a in arguments), shown)


@unittest.skipUnless(shutil.which("zsh"), "SKIP completion in zsh: it is not installed")
class Zsh(ShellCase):
    shell = "zsh"

    def test_on_a_terminal(self):
        rc = (f"unsetopt prompt_cr prompt_sp; specbound() {{ printf '<%s>' \"$@\" }}; "
              f"fpath=({self.folder} $fpath); autoload -Uz compinit; "
              f"compinit -u -d {self.folder}/dump; {SET_PROMPT}")
        for keys, arguments in (
                ("specbound ch\t-m b\t", ["chat", "-m", "b c.gguf"]),
                ("specbound chat -m it\t--dtype in\t", ["chat", "-m", "it's.gguf", "--dtype",
                                                        "int8"]),
                ("specbound chat -m no\t", ["chat", "-m", "notes.txt"]),
                ("specbound run a\t", ["run", "a.gguf"]),
                ("specbound -m a\t --no-hi\t", ["-m", "a.gguf", "--no-history"]),
                ("specbound chat --speculator ng\t", ["chat", "--speculator", "ngram"]),
                ("specbound run -f no\t", ["run", "-f", "notes.txt"]),
                ("specbound run --no-an\t-n 5 --no-rep\t", ["run", "--no-anneal", "-n", "5",
                                                            "--no-repack"]),
                ("specbound quantize a.gguf o Q8\t", ["quantize", "a.gguf", "o", "Q8_0"]),
                ("specbound help tr\t", ["help", "train-heads"])):
            shown = self.typed(keys + "\necho \\<end\\>\nexit", "zsh", "-f", "-i", rc=rc)
            self.assertIn("".join(f"<{a}>" for a in arguments), shown)

    def test_sourced(self):
        line = 'autoload -Uz compinit; compinit -u -D; source "$1"; print -r -- $_comps[specbound]'
        shown = subprocess.run(["zsh", "-f", "-c", line, "zsh", self.script], text=True, check=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        self.assertEqual(shown, "_specbound\n")


@unittest.skipUnless(shutil.which("fish"), "SKIP completion in fish: it is not installed")
class Fish(ShellCase):
    shell = "fish"

    def offered(self, line):
        result = subprocess.run(
            ["fish", "--no-config", "-c", f"source {self.script}; complete -C {line!r}"],
            cwd=self.files, text=True, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "HOME": self.folder})
        self.assertEqual(result.stderr, "")
        return dict((line.split("\t") + [""])[:2] for line in result.stdout.splitlines())

    def test_commands_and_options_with_what_they_are(self):
        self.assertEqual(list(self.offered("specbound tok")), ["tokenize"])
        self.assertEqual(self.offered("specbound tok")["tokenize"], "text to token ids")
        self.assertIn("0 always takes the likeliest", self.offered("specbound run --te")["--temp"])
        self.assertEqual(list(self.offered("specbound tokenize --te")), [])

    def test_values(self):
        self.assertEqual(sorted(self.offered("specbound run --device ")), ["auto", "cpu", "cuda"])
        self.assertEqual(sorted(self.offered("specbound run --spec=o")),
                         ["--spec=off", "--spec=on"])
        self.assertEqual(sorted(self.offered("specbound completion ")), ["bash", "fish", "zsh"])
        self.assertEqual(list(self.offered("specbound run --temp ")), [])
        self.assertEqual(list(self.offered("specbound -m a.gguf --no-hi")), ["--no-history"])

    def test_files(self):
        offered = list(self.offered("specbound chat -m "))
        self.assertEqual(sorted(offered[:3]), sorted(n for n in FILES[:3]))
        self.assertLess(offered.index("a.gguf"), offered.index("notes.txt"))
        self.assertEqual(list(self.offered("specbound run -f no")), ["notes.txt"])
        self.assertIn("dir/", self.offered("specbound convert "))
        self.assertNotIn("notes.txt", self.offered("specbound convert "))
        self.assertIn("a.gguf", self.offered("specbound info "))


if __name__ == "__main__":
    unittest.main()
