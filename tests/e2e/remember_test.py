#!/usr/bin/env python3
"""--remember, from the outside: chat keeps its replies to draft from them later, for its user
alone; not with --no-history; `specbound forget` deletes them. No text changes by any of it."""
import fcntl
import glob
import os
import pty
import re
import signal
import stat
import termios
import time
import unittest

from processes import ticks
from serve_client import CHAT, Server, ask, wait_until
from specbound_process import BINARY, DEMO, FolderCase, demo_without_heads, specbound, start

TALK = b"I need a table for two tonight.\nThanks, goodbye!\n"


F_SETPIPE_SZ = 1031  # which the module of older versions of Python does not name


def waiting_in(pipe):
    """Bytes."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")


def at_rest(pid):
    before = ticks(pid)
    time.sleep(0.5)
    return ticks(pid) == before


class RememberCase(FolderCase):
    def setUp(self):
        super().setUp()
        self.model = demo_without_heads(self.folder)  # lookups alone draft
        self.environment = {"XDG_STATE_HOME": self.path("state")}

    def chat(self, *flags, script=TALK, status=0, model=None):
        result = specbound("chat", "-m", model or self.model, "--temp", "0", "-n", "32",
                           "--ignore-eos", *flags, stdin=script, environment=self.environment)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def kept(self):
        return glob.glob(self.path("state/specbound/replies-*"))

    def forget(self):
        return specbound("forget", environment=self.environment)

    def start(self, *flags):
        process = start("chat", "-m", self.model, "--temp", "0", "--ignore-eos", *flags,
                        env={**os.environ, **self.environment})
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process):
        process.kill()
        process.communicate()

    def told(self, result):
        """Lines about the file."""
        return [line for line in result.stderr.splitlines() if b"replies-" in line]


class Kept(RememberCase):
    def test_a_chat_keeps_its_replies_for_its_owner_alone(self):
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        result = self.chat()
        [path] = self.kept()
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(self.told(result), [])
        size = os.path.getsize(path)
        self.assertGreater(size, 2 * 32 * 4)  # tokens of two replies
        self.chat()
        self.assertGreater(os.path.getsize(path), size + 2 * 32 * 4)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(self.kept(), [path])  # nothing half written is left

    def test_no_typed_word_is_in_it(self):
        """Replies are; what was typed is the history's."""
        word = "Reykjavik"
        self.chat("-n", "4", script=f"{word}\n".encode())
        [path] = self.kept()
        ids = specbound("tokenize", "-m", self.model, "--no-bos", "-p", " " + word).stdout.split()
        with open(path, "rb") as file:
            tokens = file.read().split(b"\n", 1)[1]
        typed = b"".join(int(i).to_bytes(4, "little") for i in ids)
        self.assertGreater(len(ids), 1)
        self.assertNotIn(typed, tokens)

    def test_who_wants_none_leaves_none(self):
        for flags in (("--no-history",), ("--remember", "off"), ("--speculator", "specbound"),
                      ("--speculator", "ngram"), ("--preset", "paper")):
            self.chat(*flags)
            self.assertEqual(self.kept(), [], flags)
        for command in (("run", "-p", "Hello"), ("run", "-p", "Hello", "--remember", "on")):
            result = specbound(*command, "-m", self.model, "-n", "8", environment=self.environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.kept(), [], command)

    def test_no_history_neither_reads_nor_changes_what_is_there(self):
        self.chat()
        [path] = self.kept()
        with open(path, "rb") as file:
            before = file.read()
        self.chat("--no-history")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)
        with open(path, "wb") as file:
            file.write(b"damaged")
        self.assertEqual(self.told(self.chat("--no-history")), [])

    def test_each_model_has_a_file_of_its_own(self):
        self.chat()
        self.chat(model=DEMO)  # the same model, with heads
        self.assertEqual(len(self.kept()), 1)

    def test_the_text_is_the_plain_one_whatever_is_remembered(self):
        plain = self.chat("--no-history", "--spec", "off").stdout
        rounds = []
        for flags in ((), (), ("--remember", "off")):
            result = self.chat("--controller", "off", *flags, script=TALK + b"/stats\n")
            self.assertEqual(result.stdout, plain)
            rounds.append(int(re.search(rb"speculative: (\d+) rounds", result.stderr)[1]))
        # The same replies, from the conversation before: now they are drafted.
        self.assertLess(rounds[1], rounds[0] // 2)
        self.assertLess(rounds[1], rounds[2] // 2)

    def test_other_prompts_are_looked_up_within_one_chat(self):
        script = b"I need a table for two tonight.\n/clear\nI need a table for two tonight.\n"
        plain = self.chat("--spec", "off", script=script).stdout
        for flags, more in ((("--remember", "on"), True), (("--remember", "off"), False)):
            result = self.chat("--no-history", "--controller", "off", *flags, script=script)
            self.assertEqual(result.stdout, plain)
            rates = [float(r) for r in re.findall(rb"(?m)^\[.*? CR ([\d.]+)", result.stderr)]
            self.assertEqual(len(rates), 2, result.stderr)
            self.assertEqual(rates[1] > rates[0] + 0.5, more, (flags, rates))

    def test_set_says_whether_it_remembers(self):
        for model in (self.model, DEMO):
            for flags, says in (((), b"remember on"), (("--remember", "off"), b"remember off")):
                result = self.chat(*flags, script=b"/set remember\n/set\n", model=model)
                self.assertIn(says, result.stderr.splitlines())


class Together(RememberCase):
    """Chats of one model that are open at the same time, and `forget` beside them."""

    def open_chat(self, line=b""):
        process = self.start("-n", "16")
        process.stdin.write(line or b"/stats\n")
        process.stdin.flush()
        told = b""
        while b"stop: " not in told and b"replies, " not in told:
            told = process.stderr.readline()
            self.assertNotEqual(told, b"")
        return process

    def close_chat(self, process):
        _, told = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, told)

    def tokens(self):
        [path] = self.kept()
        return (os.path.getsize(path) - len(b"specbound replies 1\n")) // 4

    def test_each_adds_its_replies(self):
        first, second = (self.open_chat(line) for line in TALK.splitlines(True))
        self.close_chat(first)
        one = self.tokens()
        self.assertGreaterEqual(one, 16)
        self.close_chat(second)
        self.assertGreaterEqual(self.tokens(), one + 16)

    def test_what_was_forgotten_meanwhile_stays_so(self):
        self.chat()
        before = self.tokens()
        silent, spoken = self.open_chat(), self.open_chat(TALK.splitlines(True)[0])
        self.assertIn(b"forgotten: ", self.forget().stdout)
        self.close_chat(silent)
        self.assertEqual(self.kept(), [])
        self.close_chat(spoken)
        self.assertLess(self.tokens(), before)  # its own alone


class Ended(RememberCase):
    """By a signal: what was written until then is kept, and the status is the signal's."""

    def begun(self, *flags, until=b"stop: "):
        process = self.start("-c", "30000", *flags)
        process.stdin.write(TALK.splitlines(True)[0])
        process.stdin.flush()
        while until not in process.stderr.readline():
            self.assertIsNone(process.poll())
        return process

    def end(self, process, number):
        process.send_signal(number)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -number)
        self.assertEqual(len(self.kept()), 1)
        os.remove(self.kept()[0])

    def test_between_replies(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.end(self.begun("-n", "8"), number)

    def test_in_a_reply(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = self.begun("-n", "-1", until=b"speculation")
            process.stdout.read(20)
            self.end(process, number)

    def test_on_a_terminal_that_closes(self):
        for n_predict, until in (("8", b"stop: "), ("-1", b"\n")):  # at the prompt, in a reply
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(BINARY, [BINARY, "chat", "-m", self.model, "--ignore-eos", "-c", "30000",
                                   "-n", n_predict],
                          {**os.environ, **self.environment, "TERM": "xterm"})
            self.read_until(terminal, b"\x1b[?2004h")  # the line editor is there
            os.write(terminal, b"Hello\n")
            self.read_until(terminal, b"Hello")
            self.read_until(terminal, until)
            self.read_until(terminal, b"\x1b[?2004h" if until != b"\n" else b" ")
            os.close(terminal)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            self.assertEqual(status, -signal.SIGHUP)
            os.remove(*self.kept())

    @staticmethod
    def read_until(terminal, text):
        seen = b""
        while text not in seen:
            seen += os.read(terminal, 1)

    def test_another_one_ends_it_where_it_stands(self):
        process = self.begun("-n", "-1", until=b"speculation")
        fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        wait_until(lambda: waiting_in(process.stdout) > 3900 and at_rest(process.pid),
                   "a reply that nobody reads")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.7)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(5), -signal.SIGTERM)


class Damaged(RememberCase):
    def test_it_is_told_in_one_line_and_the_talk_goes_on(self):
        text = self.chat().stdout
        [path] = self.kept()
        with open(path, "rb") as file:
            good = file.read()
        magic = good.split(b"\n")[0] + b"\n"
        for damaged in (b"", b"specbound", bytes(range(256)), good[:-1], magic[:-1] + b"2\n",
                        magic + b"\xff\xff\xff\x7f", magic + b"\xfe\xff\xff\xff",
                        magic + bytes(4 << 20)):
            with open(path, "wb") as file:
                file.write(damaged)
            result = self.chat()
            told = self.told(result)
            self.assertEqual(len(told), 1, (damaged[:30], result.stderr))
            self.assertTrue(told[0].startswith(path.encode()), told)
            self.assertEqual(result.stdout, text)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertEqual(self.told(self.chat()), [])  # it was written anew

    def test_a_folder_that_cannot_be_written_is_told(self):
        text = self.chat().stdout
        with open(self.path("file"), "wb"):
            pass
        self.environment = {"XDG_STATE_HOME": self.path("file/state")}
        result = specbound("chat", "-m", self.model, "--temp", "0", "-n", "32", "--ignore-eos",
                           stdin=TALK, environment=self.environment)
        self.assertEqual(result.stdout, text)
        self.assertEqual(len(self.told(result)), 1, result.stderr)

    def test_what_is_no_file_is_told_and_nothing_waits_for_it(self):
        self.chat()
        [path] = self.kept()
        os.remove(path)
        os.mkfifo(path)
        result = specbound("chat", "-m", self.model, "-n", "4", stdin=b"Hello\n",
                           environment=self.environment)  # ends
        self.assertIn(b"not a regular file", b"\n".join(self.told(result)))


class Forget(RememberCase):
    def test_it_deletes_and_says_how_much(self):
        self.chat()
        [path] = self.kept()
        size = os.path.getsize(path)
        other = self.path("state/specbound/history")
        with open(other, "wb") as file:
            file.write(b"typed\n")
        result = self.forget()
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(result.stdout, f"forgotten: {size / 1e3:.1f} kB of replies\n".encode())
        self.assertEqual(self.kept(), [])
        self.assertTrue(os.path.exists(other))  # the history is not its business
        result = self.forget()
        self.assertEqual((result.returncode, result.stdout), (0, b"nothing was kept\n"))

    def test_all_models_are_forgotten(self):
        os.makedirs(self.path("state/specbound"))
        for name, size in (("1111", 3000), ("2222", 5000)):
            with open(self.path(f"state/specbound/replies-{name}"), "wb") as file:
                file.write(bytes(size))
        self.assertEqual(self.forget().stdout, b"forgotten: 8.0 kB of replies\n")
        self.assertEqual(self.kept(), [])

    def test_links_are_forgotten_and_not_what_they_name(self):
        os.makedirs(self.path("state/specbound"))
        kept = self.path("kept")
        with open(kept, "wb") as file:
            file.write(b"precious")
        for name, target in (("1111", kept), ("2222", self.path("nowhere"))):
            os.symlink(target, self.path(f"state/specbound/replies-{name}"))
        result = self.forget()
        self.assertEqual((result.returncode, self.kept()), (0, []), result.stderr)
        found = re.fullmatch(rb"(nothing was kept|forgotten: ([\d.]+) kB of replies)\n",
                             result.stdout)
        self.assertIsNotNone(found, result.stdout)
        self.assertLess(float(found[2] or 0), 1)
        self.assertTrue(os.path.exists(kept))

    def test_usage(self):
        for arguments in (("now",), ("--all",), ("-m", DEMO)):
            result = specbound("forget", *arguments, environment=self.environment)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)


class Serving(FolderCase):
    def test_a_server_remembers_in_memory_and_its_replies_stay(self):
        texts = ("I need a table for two tonight.", "Find me a flight to Oslo.")
        requests = [ask(text, max_tokens=40, temperature=0) for text in texts] * 2
        server = Server("--controller", "off", model=demo_without_heads(self.folder))
        self.addCleanup(server.end)
        answers = [server.post(CHAT, body) for body in requests]
        self.assertEqual([a.text for a in answers[:2]], [a.text for a in answers[2:]])
        drafted = [a.json["timings"]["draft_n_accepted"] for a in answers]
        self.assertGreater(sum(drafted[2:]), sum(drafted[:2]))
        plain = [server.post(CHAT, {**body, "speculation": False}).text for body in requests]
        self.assertEqual([a.text for a in answers], plain)
        state = os.path.join(os.environ["XDG_STATE_HOME"], "specbound")
        self.assertEqual(glob.glob(os.path.join(state, "replies-*")), [])


if __name__ == "__main__":
    unittest.main()
