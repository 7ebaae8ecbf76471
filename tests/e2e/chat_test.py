#!/usr/bin/env python3
"""specbound chat, from the outside: scripted conversations through pipes, and one on a terminal."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest

from scripted_model import make_scripted_model
from specbound_process import (BINARY, DEMO, LENS, STORIES, TIMEOUT, FolderCase, specbound,
                               start)

PROMPT = b"\x1b[?2004h"  # the line editor is ready for pasted text


def chat(script, *flags):
    if isinstance(script, str):
        script = script.encode()
    return specbound("chat", "-m", DEMO, *flags, stdin=script)


def figures(result):
    """The line of figures after each reply."""
    return [line for line in result.stderr.splitlines() if re.match(rb"\[\d", line)]


class Scripted(unittest.TestCase):
    def test_replies_go_to_stdout_and_the_rest_to_stderr(self):
        result = chat("I need a taxi.\nTo the airport.\n", "-s", "3", "-n", "24")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(figures(result)), 2)
        self.assertNotIn(b"tok/s", result.stdout)
        self.assertNotIn(b"> ", result.stdout + result.stderr)  # no prompt without a terminal
        self.assertNotIn(b"\x1b", result.stderr)
        self.assertTrue(result.stdout.endswith(b"\n"))
        self.assertFalse(result.stdout.startswith(b" "))

    def test_the_model_needs_no_flag_and_a_chat_no_command(self):
        script, flags = b"I need a taxi.\n", ("-s", "3", "-n", "8")
        want = specbound("chat", "-m", DEMO, *flags, stdin=script).stdout
        self.assertNotEqual(want, b"")
        for words in (("chat", DEMO), ("-m", DEMO), (f"--model={DEMO}",)):
            result = specbound(*words, *flags, stdin=script)
            self.assertEqual((result.returncode, result.stdout), (0, want), result.stderr)
        elsewhere = {"SPECBOUND_MODEL": "/absent.gguf"}
        named = specbound("chat", DEMO, *flags, stdin=script, environment=elsewhere)
        self.assertEqual(named.stdout, want)
        for words, says in ((("chat", DEMO, "-m", DEMO), b"-m and MODEL both name a model"),
                            (("chat", "hello"), b'expected a model, a GGUF file or a name, found '
                                                b'"hello"'),
                            (("--frobnicate",), b"specbound chat: unknown option --frobnicate")):
            result = specbound(*words)
            self.assertEqual((result.returncode, result.stdout), (2, b""), words)
            self.assertIn(says, result.stderr)

    def test_a_conversation_is_reproducible_across_processes(self):
        script = "I want to book a flight.\n/regen\nTo Oslo, please.\n/regen\n/regen\n"
        one, two = (chat(script, "-s", "11", "--temp", "1", "-n", "32") for _ in range(2))
        self.assertEqual(one.stdout, two.stdout)
        self.assertEqual(len(figures(one)), 5)

    def test_regen_changes_the_text_at_temperature_1_and_not_at_0(self):
        message = "Tell me about a film.\n"
        flags = ("-s", "11", "--temp", "1", "-n", "32", "--top-k", "0", "--top-p", "1",
                 "--min-p", "0")
        first = chat(message, *flags).stdout
        both = chat(message + "/regen\n", *flags).stdout
        self.assertTrue(both.startswith(first))
        self.assertNotEqual(both[len(first):], first)
        greedy = chat(message + "/regen\n", "--temp", "0", "-n", "32")
        once = chat(message, "--temp", "0", "-n", "32").stdout
        self.assertEqual(greedy.stdout, once * 2)
        self.assertIn(b"(0 new)", figures(greedy)[1])  # the same prompt is still in the cache

    def test_clear_forgets(self):
        flags = ("--temp", "0", "-n", "24")
        alone = chat("Find me some music.\n", *flags).stdout
        other = chat("I want to check my bank balance.\n", *flags).stdout
        result = chat("I want to check my bank balance.\n/clear\nFind me some music.\n", *flags)
        self.assertEqual(result.stdout, other + alone)

    def test_one_message_equals_run(self):
        flags = ("--temp", "0", "-n", "24")
        self.assertEqual(chat("Find me some music.\n", *flags).stdout,
                         specbound("run", "-m", DEMO, "-p", "Find me some music.", *flags).stdout)

    def test_commands(self):
        result = chat("/help\n/stats\n/regen\n/nonsense here\n   \n\n/exit\nnever read\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, b"")
        for text in (b"/clear ", b"/spec on|off ", b"/show-exits ", b"0 replies, 0 tokens",
                     b"nothing to answer again", b"unknown command /nonsense"):
            self.assertIn(text, result.stderr)
        self.assertEqual(figures(result), [])

    def test_commands_by_their_other_names(self):
        result = chat("/?\n/set temperature 0\n/set n-predict 3\n/set stop\n/set stop a b\nHello\n"
                      "/show\n/bye\nnever read\n", "--ignore-eos", "--sys", "Be brief.")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(figures(result)[0], rb"^\[3 tokens, .*stop: length")
        shown = result.stderr.decode()
        for line in ("/exit, /quit, /bye", "temp 0\n", "n-predict 3\n", "stop (none)\n",
                     'stop "a b"\n', "backend: CPU", "chat template: ", "system prompt: Be brief.",
                     "temp             0\n", "n-predict        3\n"):
            self.assertIn(line, shown)
        self.assertEqual(len(re.findall(r"(?m)^model: .*context 768 of 768\)$", shown)), 1)

    def test_quiet_leaves_the_answers_of_commands(self):
        flags = ("-s", "1", "-n", "4")
        result = chat("Hello\n/set top-k\n/nonsense\n/regen\n", *flags, "--quiet")
        self.assertEqual(result.stdout, chat("Hello\n/regen\n", *flags).stdout)
        self.assertEqual(result.stderr, b"top-k 40\nunknown command /nonsense; /help lists them, "
                                        b"//... sends a message\n")

    def test_a_stop_that_is_set_ends_replies(self):
        whole = chat("Find me some music.\n", "--temp", "0", "-n", "24").stdout.rstrip(b"\n")
        word = whole.split()[3]
        cut = chat(b"/set stop " + word + b"\nFind me some music.\n", "--temp", "0", "-n", "24")
        self.assertEqual(cut.stdout, whole[:whole.index(word)] + b"\n")
        self.assertIn(b"stop: stop", figures(cut)[0])

    def test_commands_without_arguments_say_so(self):
        commands = (b"/exit", b"/quit", b"/bye", b"/help", b"/?", b"/clear", b"/regen", b"/show",
                    b"/show-exits", b"/stats")
        result = chat(b"".join(command + b" now\n" for command in commands))
        self.assertEqual((result.returncode, result.stdout), (0, b""))
        for command in commands:
            self.assertIn(command + b" takes nothing after it", result.stderr)
        self.assertNotIn(b"unknown command", result.stderr)

    def test_commands_through_a_pipe(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            result = chat('Hello.\n/edit Find me\n/edit\n"""\na\nb\n"""\n/sys Be brief.\n/sys\n'
                          f"/save {path}\n/clear\n/load {path}\n/save {path}\n/set temp\n/lens 2\n"
                          "/load\n", "-n", "4", "-s", "1")
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
            other = os.path.join(folder, "other.json")
            hostile = {"version": 1, "messages": [{"role": "user", "text": "unanswered"}]}
            with open(other, "w", encoding="utf-8") as file:
                json.dump(hostile, file)
            unanswered = chat(f"/load {other}\n/regen\n/save {other}\n", "-n", "4")
        self.assertEqual((result.returncode, len(figures(result))), (0, 3), result.stderr)
        self.assertEqual([m["text"] for m in saved["messages"][::2]], ["Find me", "a\nb"])
        self.assertEqual((saved["system"], saved["title"]), ("Be brief.", "Find me"))
        for says in (b"/edit TEXT sends TEXT", b"system prompt: Be brief.", b"loaded 4 messages",
                     b"temp 0.8", b"2 tokens: ", b"/load needs FILE after it"):
            self.assertIn(says, result.stderr)
        for says in (b"the last one has no reply: left out", b"nothing to answer again yet",
                     b"nothing to save yet"):
            self.assertIn(says, unanswered.stderr)

    def test_a_message_may_begin_with_a_slash(self):
        result = chat("//etc is a folder\n", "-n", "4", "-s", "1")
        self.assertEqual(len(figures(result)), 1)

    def test_the_last_line_needs_no_end(self):
        self.assertEqual(len(figures(chat("Hello", "-n", "4"))), 1)
        self.assertEqual(figures(chat("")), [])

    def test_a_message_of_many_lines_that_has_no_end_is_no_reply(self):
        result = chat('"""\nabc')
        self.assertEqual((result.returncode, result.stdout), (1, b""), result.stderr)
        self.assertIn(b'not ended by """: not sent', result.stderr)

    def test_any_bytes_are_messages(self):
        result = chat(b"\xff\xfe\xfd\na\0b\n\xe2\x82\n" + b"</s>\n", "-n", "4", "-s", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(figures(result)), 4)
        result.stdout.decode("utf-8")

    def test_a_full_context_drops_the_oldest_turns_and_keeps_the_system_prompt(self):
        script = "".join(f"I need a table for {n} people at a restaurant.\n" for n in range(2, 9))
        result = chat(script, "-c", "128", "-s", "2", "-n", "24", "--sys", "Be polite.")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(figures(result)), 7)
        notice = rb"^context full: dropped the oldest \d+ turns?, kept the system prompt$"
        dropped = re.findall(notice, result.stderr, re.MULTILINE)
        self.assertGreater(len(dropped), 0, result.stderr)
        for prompt in re.findall(rb"prompt (\d+)", b"\n".join(figures(result))):
            self.assertLessEqual(int(prompt), 128 - 24)

    def test_a_message_larger_than_the_context_is_refused_and_the_talk_goes_on(self):
        flags = ("--temp", "0", "-n", "24")
        want = chat("Hello.\nFind me some music.\n", *flags)
        result = chat(b"Hello.\n" + b"word " * 200000 + b"\nFind me some music.\n", *flags)
        self.assertEqual(result.returncode, 1, result.stderr)  # a script had not all its replies
        self.assertRegex(result.stderr, rb"this message needs \d{6} tokens.*context holds 768")
        self.assertEqual(result.stdout, want.stdout)

    def test_speculation_may_be_switched_at_any_turn_and_the_text_stays(self):
        talk = ("I want to book a flight.\n", "/regen\n", "To Oslo, please.\n", "/regen\n",
                "Thanks, goodbye!\n", "/clear\n", "Find me some music.\n")
        switched = "/spec on\n{}{}/spec off\n{}/spec on\n{}{}/spec off\n{}/spec on\n{}"
        drafter = (*LENS, "--tau", "0.2", "--w-max", "6")
        for sampling in (("--temp", "0"), ("--temp", "1", "-s", "8"), ("--temp", "1.3", "-s", "9")):
            plain = chat("".join(talk), *sampling, "-n", "32", "--spec", "off")
            always = chat("".join(talk), *sampling, "-n", "32", "--spec", "on", *drafter)
            mixed = chat(switched.format(*talk), *sampling, "-n", "32", "--spec", "off", *drafter)
            self.assertEqual(always.stdout, plain.stdout)
            self.assertEqual(mixed.stdout, plain.stdout)
            states = [line.rsplit(b" ", 1)[1] for line in figures(mixed)]
            self.assertEqual(states, [b"on]", b"on]", b"off]", b"on]", b"on]", b"on]"])
            self.assertNotIn(b"speculation on", plain.stderr)
            self.assertNotIn(b"speculation off", always.stderr)

    def test_spec_says_the_state_and_refuses_what_it_cannot_do(self):
        def states(script, *flags):
            result = chat(script, *flags)
            self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr)
            return re.findall(r"(?m)^speculation .*$", result.stderr.decode())

        none = "speculation off: --spec off"
        on = ("speculation on: specbound with the logit lens, up to 8 rows, checks at layers 1-10 "
              "of 16, alpha 0.2, tau 0.55")
        off = "speculation off: /spec off"
        self.assertEqual(states("/spec\n/spec on\n/spec\n /spec  off \n/spec\t\n/spec on\n",
                                "--spec", "off", "--speculator", "specbound", "--head", "lens"),
                         [none, none, on, on, off, off, on])
        width = "speculation off: --w-max 1 leaves no row to draft"
        self.assertEqual(states("/spec on\n/spec off\n", "--w-max", "1"),
                         [width] * 3)
        result = chat("/spec maybe\n/spec on off\n/special\n")
        self.assertIn(b"/spec maybe: expected on or off", result.stderr)
        self.assertIn(b"/spec on off: expected on or off", result.stderr)
        self.assertIn(b"unknown command /special", result.stderr)
        self.assertEqual(result.stderr.count(b"speculation "), 1)

    def test_show_exits_needs_a_terminal(self):
        result = chat("/show-exits\n/show-exits\nHello\n", "-n", "4", "-s", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(b"tokens are", result.stderr)
        refusal = b"no exit colours: stdout is no terminal"
        self.assertEqual(result.stderr.count(refusal), 2, result.stderr)
        self.assertNotIn(b"\x1b", result.stdout + result.stderr)

    def test_totals_count_drafts(self):
        result = chat("/stats\nHello.\n/spec on\n/stats\n/regen\n/stats\n", "-n", "40", "-s", "1",
                      "--spec", "off", *LENS, "--tau", "0.2", "--ignore-eos")
        totals = re.findall(r"(?m)^\d repl.*$", result.stderr.decode())
        self.assertEqual(len(totals), 3)
        self.assertTrue(totals[0].endswith("| speculation off"), totals[0])
        self.assertNotIn("drafted", totals[1])
        self.assertTrue(totals[1].endswith("| speculation on"), totals[1])
        found = re.search(r"\| speculative: (\d+) rounds, drafted (\d+), accepted (\d+), "
                          r"CR ([\d.]+) \|", totals[2])
        self.assertIsNotNone(found, totals[2])
        rounds, drafted, accepted = (int(found[i]) for i in (1, 2, 3))
        self.assertEqual(rounds + accepted, 40)  # the plain reply is not among them
        self.assertGreater(drafted, accepted)
        self.assertEqual(found[4], f"{40 / rounds:.2f}")

    def test_totals_follow_clear(self):
        result = chat("Hello.\n/stats\n/clear\n/stats\n", "-n", "4", "-s", "1", "--ignore-eos")
        totals = re.findall(rb"^(1 reply, 4 tokens,.*)$", result.stderr, re.MULTILINE)
        self.assertEqual(len(totals), 2, result.stderr)
        self.assertRegex(totals[0], rb"context [1-9]\d* of 768")
        self.assertIn(b"context 0 of 768", totals[1])

    def test_figures_that_cannot_be_written_do_not_end_the_talk(self):
        result = chat("Hello.\nHello again.\n", "-n", "4", "-s", "1", "--stats-json", "/dev/full")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(figures(result)), 2)
        self.assertEqual(result.stderr.count(b"warning: /dev/full: cannot write"), 2)

    def test_stats_json_holds_the_last_reply(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stats.json")
            result = chat("Hello.\n/regen\n", "-n", "6", "-s", "4", "--stats-json", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, encoding="utf-8") as file:
                stats = json.load(file)
        self.assertEqual((stats["reply"], stats["seed"]), (1, 4))

    def test_a_model_without_a_template_is_refused_with_a_way_out(self):
        result = specbound("chat", "-m", STORIES, stdin=b"Hi\n")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)  # before anything is loaded
        self.assertIn(b"run with --raw completes text", result.stderr)  # chat has no --raw

    def test_wrong_usage(self):
        self.assertEqual(chat("", "--temp", "x").returncode, 2)
        self.assertEqual(chat("", "-p", "x").returncode, 2)


class Interrupts(unittest.TestCase):
    LONG = ("chat", "-m", DEMO, "-c", "30000", "--ignore-eos", "-s", "1")

    def test_ctrl_c_stops_the_reply_then_leaves(self):
        process = start(*self.LONG)
        process.stdin.write(b"Hello\n")
        process.stdin.flush()
        self.assertNotEqual(process.stdout.read(20), b"")
        process.send_signal(signal.SIGINT)
        errors = b""
        while b"stop: aborted" not in errors:
            line = process.stderr.readline()
            self.assertNotEqual(line, b"", errors)
            errors += line
        process.stdin.write(b"/stats\n")  # still there
        process.stdin.flush()
        self.assertRegex(process.stderr.readline(), rb"^1 reply, \d+ tokens")
        process.send_signal(signal.SIGINT)  # idle now
        self.assertEqual(process.wait(60), 0)
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()

    def test_ctrl_c_in_a_speculative_reply_leaves_nothing_behind(self):
        message = b"Tell me about a film.\n"
        drafter = ("--spec", "on", *LENS, "--tau", "0.2")
        once = specbound(*self.LONG, "-n", "200", stdin=message).stdout
        twice = specbound(*self.LONG, "-n", "200", stdin=message + b"/regen\n").stdout
        process = start(*self.LONG, *drafter)
        for line, want in ((message, once), (b"/regen\n", twice[len(once):])):
            self.assertGreater(len(want), 400)
            process.stdin.write(line)
            process.stdin.flush()
            self.assertEqual(process.stdout.read(400), want[:400])
            process.send_signal(signal.SIGINT)
            self.assertIn(b"speculation on]", self.talk(process, b"", b"stop: aborted"))
            while select.select([process.stdout], [], [], 0)[0]:  # the rest of the reply
                self.assertNotEqual(process.stdout.read1(), b"")
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        self.assertEqual(process.wait(60), 0)

    def talk(self, process, message, until):
        """Sends a line; what stderr says up to and with the line that holds `until`."""
        process.stdin.write(message)
        process.stdin.flush()
        errors = b""
        while until not in errors:
            line = process.stderr.readline()
            self.assertNotEqual(line, b"", errors)
            errors += line
        return errors

    def test_ctrl_c_while_a_prompt_is_read_takes_the_message_back(self):
        flags = ("chat", "-m", DEMO, "-c", "60000", "--temp", "0", "-n", "8")
        want = specbound(*flags, stdin=b"Hello.\nFind me some music.\n/regen\n")
        process = start(*flags)
        self.talk(process, b"Hello.\n", b"stop:")
        process.stdin.write(b"word " * 25000 + b"\n")  # seconds of prefill
        process.stdin.flush()
        while fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)) != bytes(4):
            time.sleep(0.01)  # not all of the line has been taken
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stopped = self.talk(process, b"", b"\n")
        self.assertEqual(stopped,
                         b"stopped before the reply began: the message is forgotten\n")
        asked = self.talk(process, b"Find me some music.\n", b"stop:")
        again = self.talk(process, b"/regen\n", b"stop:")
        process.stdin.close()
        text = process.stdout.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(60), 1)  # one message has no reply
        self.assertEqual(text, want.stdout)  # no blank line, and nothing of it in later prompts
        prompts = [re.search(rb"prompt \d+", line)[0] for line in (asked, again)]
        self.assertEqual(prompts, [re.search(rb"prompt \d+", line)[0]
                                   for line in figures(want)[1:]])

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            result = specbound("chat", "-m", DEMO, "-n", "5", stdin=b"Hi\nnever read\n",
                               stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(figures(result)), 1)
        self.assertEqual(result.stderr.splitlines()[-1],
                         b"specbound chat: stdout: cannot write: No space left on device")

    def test_closed_descriptors(self):
        silent = subprocess.run(["sh", "-c", '"$0" chat -m "$1" <&-', BINARY, DEMO],
                                capture_output=True, timeout=TIMEOUT)
        self.assertEqual((silent.returncode, silent.stdout), (0, b""), silent.stderr)
        deaf = subprocess.run(["sh", "-c", 'echo Hi | "$0" chat -m "$1" -n 4 >&-', BINARY, DEMO],
                              capture_output=True, timeout=TIMEOUT)
        self.assertEqual(deaf.returncode, 1)
        self.assertIn(b"specbound chat: stdout: cannot write: Bad file descriptor", deaf.stderr)
        mute = subprocess.run(["sh", "-c", 'echo Hi | "$0" chat -m "$1" -n 4 2>&-', BINARY, DEMO],
                              capture_output=True, timeout=TIMEOUT)
        self.assertEqual(mute.returncode, 0)
        self.assertNotEqual(mute.stdout, b"")


class Steering(FolderCase):
    def test_a_reply_does_not_steer_a_terminal_and_comes_as_it_is_through_a_pipe(self):
        said = ["see", "\x1b]52;c;QQ==\x07", "\r", "\x9b2J", "\u65e5"]
        model = make_scripted_model(self.folder, "<|say|>", {"<|say|>": said})
        terminal, stdout = pty.openpty()
        for end in (subprocess.PIPE, stdout):
            result = specbound("chat", "-m", model, "-n", "16", "--temp", "0", stdin=b"Go\n",
                               stdout=end)
            self.assertEqual(result.returncode, 0, result.stderr)
            if end == subprocess.PIPE:
                self.assertEqual(result.stdout.decode(), "".join(said) + "\n")
        os.close(stdout)
        shown = os.read(terminal, 4096).decode()
        os.close(terminal)
        self.assertEqual(shown.strip(), r"see\x1b]52;c;QQ==\x07\xc2\x9b2J" + said[-1])


class Terminal(unittest.TestCase):
    def setUp(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BINARY, [BINARY, "chat", "-m", DEMO, "-n", "8", "-s", "1", "--no-history"],
                      {**os.environ, "TERM": "xterm"})
        self.seen = b""

    def tearDown(self):
        os.close(self.fd)

    def read_until(self, text):
        deadline = time.monotonic() + 60
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], deadline - time.monotonic())
            self.assertTrue(ready, self.seen)
            try:
                data = os.read(self.fd, 4096)
            except OSError:  # the other side is gone
                data = b""
            self.assertNotEqual(data, b"", self.seen)
            self.seen += data
        self.seen = self.seen.split(text, 1)[1]

    def exit_status(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            try:
                if select.select([self.fd], [], [], 0.1)[0]:
                    os.read(self.fd, 4096)
            except OSError:
                time.sleep(0.01)
        self.fail("still running")

    def test_prompts_replies_and_ctrl_c(self):
        self.read_until(b"/help lists the commands")
        self.read_until(PROMPT)
        os.write(self.fd, b"Hello\n")
        self.read_until(b"| speculation ")  # on or off, or paused on a busy machine
        self.read_until(PROMPT)
        os.write(self.fd, b"\x03")  # Ctrl-C
        self.read_until(b"Ctrl-C again, Ctrl-D or /exit leaves")
        self.read_until(PROMPT)
        os.write(self.fd, b"\x03")
        self.assertEqual(self.exit_status(), 0)

    def test_a_window_that_changes_while_a_paste_comes(self):
        self.read_until(PROMPT)
        # By its echo the editor has waited once: in the first wait of a thread TSan makes
        # what it keeps signals in, and loses one that comes meanwhile.
        os.write(self.fd, b"z")
        self.read_until(b"z")
        os.write(self.fd, b"\x1b[200~one\ntw")
        os.kill(self.pid, signal.SIGWINCH)
        self.read_until(PROMPT)  # drawn anew
        os.write(self.fd, b"o\x1b[201~")
        self.read_until(b"[paste 1: 2 lines]")
        os.write(self.fd, b"\n")
        self.read_until(b"| speculation ")
        self.read_until(PROMPT)
        os.write(self.fd, b"\x04")
        self.assertEqual(self.exit_status(), 0)

    def test_show_exits_is_toggled(self):
        self.read_until(PROMPT)
        for says in (b"tokens are coloured by the layer their drafts left at",
                     b"tokens are no longer coloured"):
            os.write(self.fd, b"/show-exits\n")
            self.read_until(says)
            self.read_until(PROMPT)
        os.write(self.fd, b"\x04")
        self.assertEqual(self.exit_status(), 0)

    def test_ctrl_d_leaves(self):
        self.read_until(PROMPT)
        os.write(self.fd, b"\x04")
        self.assertEqual(self.exit_status(), 0)


if __name__ == "__main__":
    unittest.main()
