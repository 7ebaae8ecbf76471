#!/usr/bin/env python3
"""--idle-learning, from the outside: chat and serve learn in another process while nobody works,
which is stopped at once and never outlives them; who is asked, what is kept, what is forgotten."""
import contextlib
import glob
import json
import os
import pty
import re
import select
import signal
import stat
import statistics
import time
import unittest

from processes import STOPPED, children, is_gone, stat_of, ticks
from serve_client import CHAT, Server, ask, wait_until
from specbound_process import (BINARY, DEMO, TIMEOUT, FolderCase, demo_without_heads, specbound,
                               start)
from tmux_screen import TMUX, Screen

HELLO = b"I need a table for two tonight.\n"
IDLE = 5  # SCHED_IDLE
REPLY = ("--temp", "0", "-n", "24", "--ignore-eos")


def arguments_of(pid):
    """Of a program that learns; [] before it runs."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        arguments = file.read().split(b"\0")
    return arguments if b"train-heads" in arguments else []


class LearningCase(FolderCase):
    def setUp(self):
        super().setUp()
        self.model = demo_without_heads(self.folder)
        self.home = self.path("data/specbound/learning")
        os.environ["XDG_DATA_HOME"] = self.path("data")

    def start_chat(self, *flags, minutes="5"):
        process = start("chat", "-m", self.model, *REPLY, "--idle-learning", "on",
                        "--idle-seconds", "0.3", "--idle-minutes", minutes, *flags)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):  # what is still to be written has no reader
                pipe.close()

    @staticmethod
    def learner(process):
        """The process that learns, once it runs."""
        return wait_until(lambda: next(iter(children(process.pid)), None), "a process that learns")

    def chat(self, *flags, script=HELLO):
        result = specbound("chat", "-m", self.model, *REPLY, *flags, stdin=script)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def kept(self, name):
        return glob.glob(os.path.join(self.home, "*", name))

    def forget(self):
        return specbound("forget")


class Process(LearningCase):
    def test_it_has_the_lowest_priority_and_a_group_of_its_own(self):
        learner = self.learner(self.start_chat())
        self.assertEqual(os.getpgid(learner), learner)
        wait_until(lambda: os.sched_getscheduler(learner) == IDLE, "idle scheduling")
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, learner), 19)
        with open(f"/proc/{learner}/oom_score_adj", encoding="ascii") as file:
            self.assertEqual(file.read(), "1000\n")
        [folder] = self.kept("")
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)

    def test_it_keeps_k_and_v_as_the_chat_does(self):
        os.environ["SPECBOUND_KV"] = "int8"
        self.addCleanup(os.environ.pop, "SPECBOUND_KV")
        for flags, kv in (((), b"int8"), (("--kv", "fp16"), b"fp16")):
            process = self.start_chat(*flags)
            learner = self.learner(process)
            arguments = wait_until(lambda: arguments_of(learner), "its arguments")
            self.assertEqual(arguments[arguments.index(b"--kv") + 1], kv)
            self.end(process)
            wait_until(lambda: is_gone(learner), "its end")
            self.assertEqual(self.forget().returncode, 0)

    def test_it_is_stopped_within_50_ms_of_a_message_and_goes_on_afterwards(self):
        process = self.start_chat("-n", "200")
        learner = self.learner(process)
        latencies = []
        for _ in range(5):
            wait_until(lambda: stat_of(learner)[0] in "RS", "the learner at work")
            begin = time.monotonic()
            process.stdin.write(HELLO)
            process.stdin.flush()
            wait_until(lambda: stat_of(learner)[0] == STOPPED, "a stopped learner")
            latencies.append(time.monotonic() - begin)
            before = ticks(learner)
            reply = process.stdout.read(40)  # it comes
            self.assertEqual((stat_of(learner)[0], ticks(learner)), (STOPPED, before))
            while not reply.endswith(b"\n"):
                reply += process.stdout.read(1)
        self.assertLess(statistics.median(latencies), 0.05, latencies)

    def test_it_never_outlives_the_chat(self):
        for end in (signal.SIGKILL, signal.SIGTERM, None):
            process = self.start_chat()
            learner = self.learner(process)
            if end:
                process.send_signal(end)
            else:
                process.stdin.close()
            process.wait(60)
            wait_until(lambda: is_gone(learner), "its end")
            self.end(process)

    def test_two_programs_do_not_learn_for_one_model(self):
        process = self.start_chat()
        self.learner(process)
        result = self.chat("--idle-learning", "on", "--idle-seconds", "0")
        self.assertIn(b"another chat, server or window learns for this model already",
                      result.stderr)

    def test_learn_off_ends_it(self):
        process = self.start_chat()
        learner = self.learner(process)
        process.stdin.write(b"/learn\n/learn off\n/learn\n")
        process.stdin.flush()
        wait_until(lambda: is_gone(learner), "its end")
        _, told = process.communicate(timeout=60)
        self.assertIn(b"idle learning: 0 rounds done, writing and learning", told)
        self.assertIn(b"idle learning is off; what was learnt still drafts", told)


class Rounds(LearningCase):
    def test_a_round_ends_with_heads_or_without_and_the_text_stays(self):
        plain = self.chat("--spec", "off").stdout
        stats = self.path("stats.json")
        process = self.start_chat("--stats-json", stats, minutes="0.1")
        wait_until(lambda: self.kept("rounds.json"), "a round", 200)
        # What a round leaves is put right behind that, in a moment.
        wait_until(lambda: not self.kept("new.heads.gguf"), "the end of new.heads.gguf")
        time.sleep(1)
        process.stdin.write(HELLO)
        process.stdin.close()
        self.assertEqual(process.stdout.read(), plain)
        process.wait(60)
        told = process.stderr.read()
        heads = self.kept("heads.gguf")
        self.assertEqual(bool(heads), b"faster heads draft from now on" in told, told)
        with open(stats, encoding="utf-8") as file:
            drafted = json.load(file)["heads"]
        if not heads:
            self.assertIsNone(drafted)
            return
        self.assertEqual(drafted["file"], heads[0])
        self.assertGreater(drafted["learnt_tokens"], 100)
        self.assertIn(heads[0].encode(), self.chat().stderr)  # the next chat has them too

    def test_a_round_goes_on_after_a_kill(self):
        process = self.start_chat()
        learner = self.learner(process)

        def written():
            paths = self.kept("texts.bin")
            return os.path.getsize(paths[0]) if paths else 0
        wait_until(lambda: written() > 5000, "some text")
        wait_until(lambda: self.kept("training/seconds.txt"), "the time that it took")
        process.kill()
        process.wait(60)
        wait_until(lambda: is_gone(learner), "its end")
        size = written()
        self.learner(self.start_chat())
        wait_until(lambda: written() > size, "more text")
        [log] = self.kept("log")
        with open(log, "rb") as file:
            self.assertIn(b"going on with the training in training", file.read())


class Kept(LearningCase):
    def test_conversations_are_kept_to_learn_from(self):
        script = HELLO + b"And a taxi.\n/clear\n" + HELLO + b"/regen\n"
        self.chat("--idle-learning", "on", script=script)
        [path] = self.kept("conversations.jsonl")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as file:
            talks = [json.loads(line) for line in file if line.strip()]
        self.assertEqual([len(talk["messages"]) for talk in talks], [4, 2])
        self.assertEqual(talks[0]["messages"][2]["text"], "And a taxi.")
        trained = specbound("train-heads", "-m", self.model, "-o", self.path("h.gguf"), "--data",
                            path, "--quick", "--layers", "0", "--shortlist", "64")
        self.assertIn(b"data: 2 dialogues", trained.stderr)

    def test_no_history_keeps_nothing_that_was_said(self):
        self.chat("--idle-learning", "on", "--no-history")
        self.assertEqual(self.kept("conversations.jsonl"), [])

    def test_what_was_said_is_kept_where_a_signal_ends_the_chat(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = self.start_chat()
            process.stdin.write(HELLO)
            process.stdin.flush()
            while b"stop: " not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(number)
            self.assertEqual(process.wait(60), -number)
            self.end(process)
            os.remove(*self.kept("conversations.jsonl"))

    def test_without_consent_nothing_is_kept(self):
        for flags in ((), ("--idle-learning", "ask"), ("--idle-learning", "off")):
            self.chat(*flags)
            self.assertFalse(os.path.exists(self.home), flags)

    def test_what_was_said_before_is_not_kept(self):
        saved = self.path("saved.json")
        self.chat(script=b"I was loaded.\n/save " + saved.encode() + b"\n")
        self.chat(script=b"Before.\n/learn on\nAfter.\n/load " + saved.encode() + b"\nBehind.\n")
        [path] = self.kept("conversations.jsonl")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        talks = [json.loads(line) for line in text.splitlines() if line.strip()]
        self.assertEqual([[m["text"] for m in talk["messages"] if m["role"] == "user"]
                          for talk in talks], [["After."], ["Behind."]])
        for unsaid in ("Before.", "I was loaded."):
            self.assertNotIn(unsaid, text)

    def test_an_answer_holds_for_later_chats(self):
        result = self.chat(script=b"/learn on\n")
        self.assertIn(b"idle learning is on", result.stderr)
        result = self.chat("--idle-learning", "ask", script=b"/learn\n")
        self.assertIn(b"idle learning is off", result.stderr)  # through a pipe nobody is idle

    def test_forget_deletes_all_of_it_but_not_under_a_chat_that_learns(self):
        process = self.start_chat()
        self.learner(process)
        refused = self.forget()
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"/learn off", refused.stderr)
        self.assertIn(b"Stop learning", refused.stderr)
        process.communicate(HELLO, timeout=60)
        self.assertEqual(process.returncode, 0)
        result = self.forget()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, rb"forgotten: \d+\.\d MB of what was learnt while idle")
        self.assertFalse(os.path.exists(self.home))

    def test_what_cannot_learn_says_so(self):
        heads = DEMO.replace(".gguf", ".heads.gguf")
        for flags, why in ((("--speculator", "ngram"), b"other drafts were asked for"),
                           (("--heads", heads), b"was asked for")):
            result = self.chat("--idle-learning", "on", *flags, script=b"/learn on\n/learn maybe\n")
            self.assertEqual(result.stderr.count(why), 2, result.stderr)
            self.assertIn(b"/learn maybe: expected on or off", result.stderr)
        self.assertFalse(os.path.exists(self.home))


@unittest.skipUnless(TMUX, "no tmux")
class Asking(LearningCase):
    def screen(self, model, *flags):
        screen = Screen(self.folder, "chat", "-m", model, "-n", "8", *flags, columns=700)
        self.addCleanup(screen.close)
        screen.wait_prompt()
        return screen

    def replied(self, screen, n):
        screen.send(HELLO.decode().strip())
        figures = lambda lines: sum(bool(re.match(r"\[\d+ tokens?,", line)) for line in lines)
        return "\n".join(screen.wait(lambda lines: figures(lines) == n and lines[-1] == ">",
                                     "a reply"))

    def test_it_is_offered_once_on_a_machine(self):
        screen = self.screen(self.model)
        shown = self.replied(screen, 1)
        self.assertIn("/learn on", shown)
        self.assertEqual(self.replied(screen, 2).count("/learn on"), 1)
        self.assertNotIn("/learn on", self.replied(self.screen(self.model), 1))

    def test_it_is_not_offered_where_heads_draft(self):
        self.assertNotIn("/learn on", self.replied(self.screen(DEMO), 1))

    def test_a_key_stops_it(self):
        screen = self.screen(self.model, "--idle-learning", "on", "--idle-seconds", "0.3",
                             "--idle-minutes", "5")
        shells = map(int, screen.tmux("list-panes", "-F", "#{pane_pid}").split())
        [chat] = [c for shell in shells for c in children(shell)]
        learner = wait_until(lambda: next(iter(children(chat)), None), "a process that learns")
        latencies = []
        for _ in range(5):
            wait_until(lambda: stat_of(learner)[0] in "RS", "the learner at work")
            screen.keys("x")
            begin = time.monotonic()
            wait_until(lambda: stat_of(learner)[0] == STOPPED, "a stopped learner")
            latencies.append(time.monotonic() - begin)
        self.assertLess(statistics.median(latencies), 0.05, latencies)


class Serving(LearningCase):
    def test_a_server_learns_where_a_flag_says_so(self):
        server = Server("--idle-learning", "on", "--idle-seconds", "1", "--idle-minutes", "5",
                        model=self.model)
        self.addCleanup(server.stop)
        learner = self.learner(server.process)
        text = server.post(CHAT, ask()).text
        wait_until(lambda: stat_of(learner)[0] == STOPPED, "a stopped learner")
        wait_until(lambda: stat_of(learner)[0] in "RS", "the learner at work")
        self.assertEqual(server.post(CHAT, ask()).text, text)
        server.stop()
        wait_until(lambda: is_gone(learner), "its end")
        [path] = self.kept("conversations.jsonl")
        with open(path, encoding="utf-8") as file:
            talks = [json.loads(line) for line in file if line.strip()]
        self.assertEqual([talk["messages"][1]["text"] for talk in talks], [text])

    def test_a_server_does_not_learn_by_itself(self):
        server = Server(model=self.model)
        self.addCleanup(server.stop)
        server.post(CHAT, ask())
        self.assertEqual(children(server.process.pid), [])
        self.assertFalse(os.path.exists(self.home))

    def test_a_server_on_a_terminal_offers_it_once(self):
        offers = []
        for _ in range(2):
            pid, terminal = pty.fork()
            if pid == 0:
                try:
                    os.execv(BINARY, [BINARY, "serve", "--port", "0", "-m", self.model])
                finally:
                    os._exit(127)
            said = b""
            try:
                while b"listening on" not in said:
                    self.assertTrue(select.select([terminal], [], [], TIMEOUT)[0], said)
                    said += os.read(terminal, 4096)
                self.assertEqual(children(pid), [])
            finally:
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
                os.close(terminal)
            offers.append(said.count(b"--idle-learning on starts it"))
        self.assertEqual(offers, [1, 0])


if __name__ == "__main__":
    unittest.main()
