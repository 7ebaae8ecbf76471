#!/usr/bin/env python3
"""specbound chat on a terminal: the line editor and the commands, driven in tmux."""
import json
import os
import re
import shlex
import stat
import sys
import unittest

from specbound_process import BINARY, DEMO, LENS, FolderCase
from tmux_screen import TMUX, Screen

CHAT = ("chat", "-m", DEMO, "-s", "1", "-n", "8")


class ReplCase(FolderCase):
    def chat(self, *flags, **options):
        screen = Screen(self.folder, *CHAT, *flags, **options)
        self.addCleanup(screen.close)
        screen.wait_prompt()
        return screen

    def answered(self, screen, line):
        """Sends a line and waits for the figures of its reply and the next prompt."""
        before = self.replies(screen)
        screen.send(line)
        screen.wait(lambda lines: self.count(lines) > before and lines[-1] == ">", "a reply")

    @staticmethod
    def count(lines):
        return sum(bool(re.match(r"\[\d+ tokens?,", line)) for line in lines)

    def replies(self, screen):
        return self.count(screen.lines())

    def saved(self, screen, name="saved.json"):
        """The messages of the conversation, by /save."""
        screen.send(f"/save {name}")
        screen.wait_for(f"messages to {name}")
        screen.wait_prompt()
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)["messages"]


class Editing(ReplCase):
    def test_wide_combining_and_joined_characters(self):
        screen = self.chat()
        screen.type("Hé 日本 e\u0301x \u2764\u0301 \U0001f469\u200d\U0001f4bb\U0001f600 y")
        screen.wait(lambda lines: lines[-1].endswith("y"), "the line")
        screen.wait_column(2 + len("Hé ") + 4 + len(" ex h ") + 4 + len(" y"))
        screen.keys("Left", "Left", "BSpace")  # the last emoji
        screen.wait(lambda lines: "\U0001f600" not in lines[-1], "one emoji less")
        screen.keys("Left", "Left", "Left", "Left", "BSpace")  # the letter with its accent: x
        screen.wait(lambda lines: "x" not in lines[-1], "no x")
        screen.keys("BSpace")  # one step for letter and accent
        screen.keys("Home")
        screen.type("日")
        screen.wait(lambda lines: lines[-1].startswith("> 日H"), "what was typed in front")
        screen.wait_column(4)
        screen.keys("End")
        self.answered(screen, "!")
        self.assertEqual(self.saved(screen)[0]["text"],
                         "日Hé 日本  \u2764\u0301 \U0001f469\u200d\U0001f4bb y!")

    def test_resize_while_typing(self):
        screen = self.chat(columns=100, rows=30)
        screen.type("a" * 68 + " 日本語")
        screen.wait(lambda lines: lines[-1].endswith("語"), "the line")
        screen.resize(40, 30)
        screen.wait(lambda lines: lines[-2:] == ["> " + "a" * 38, "a" * 30 + " 日本語"],
                    "two rows")
        screen.type("b")
        screen.wait_last("a" * 30 + " 日本語b")
        screen.keys("Home")
        screen.type("c")
        screen.wait(lambda lines: lines[-2] == "> c" + "a" * 37, "the first row")
        screen.resize(90, 30)
        screen.wait_last("> c" + "a" * 68 + " 日本語b")
        screen.keys("End")
        self.answered(screen, "d")
        self.assertEqual(self.saved(screen)[0]["text"], "c" + "a" * 68 + " 日本語bd")

    def test_tab_completes_commands_settings_and_paths(self):
        os.mkdir(self.path("folder"))
        for name in ("one.json", "other.json", "wörter 日本.json"):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("{}")
        screen = self.chat()
        screen.type("/reg")
        screen.keys("Tab")
        screen.wait_last("> /regen")
        screen.keys("C-u")
        screen.type("/set top")
        screen.keys("Tab", "Tab")  # all that they have in common, then what there is
        screen.wait(lambda lines: lines[-2:] == ["top-k  top-p", "> /set top-"], "two settings")
        screen.type("k 3")
        screen.keys("Enter")
        screen.wait(lambda lines: "top-k 3" in lines, "the new value")
        screen.wait_prompt()
        screen.type("/set preset")
        screen.keys("Tab")
        screen.type("pa")
        screen.keys("Tab")
        screen.wait_last("> /set preset paper")
        screen.keys("C-u")
        screen.type("/load o")
        screen.keys("Tab", "Tab")
        screen.wait(lambda lines: lines[-2:] == ["one.json    other.json", "> /load o"],
                    "two files")
        screen.keys("BSpace")
        screen.type("w")
        screen.keys("Tab")
        screen.wait_last("> /load wörter 日本.json")
        screen.keys("C-u")
        screen.type("/save fo")
        screen.keys("Tab")
        screen.wait_last("> /save folder/")

    def test_history_outlives_the_program(self):
        first = self.chat()
        self.answered(first, "Hello 日本")
        first.send("/stats")
        first.wait_for("1 reply")
        first.wait_prompt()
        path = self.path("state/specbound/history")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, "ab") as file:
            file.write(b"\xff\xfe\0 broken\n\n")
        second = self.chat()  # beside the first
        second.keys("Up", "Up", "Up")
        second.wait_last("> Hello 日本")
        second.keys("C-c")
        second.wait_prompt()
        self.answered(second, "From the second")
        self.answered(first, "From the first")
        with open(path, "rb") as file:
            self.assertEqual(file.read().splitlines()[-2:], [b"From the second", b"From the first"])
        second.keys("C-r")
        second.type("ello")
        second.wait(lambda lines: lines[-2:] == ["> Hello 日本", "bck:ello"], "the line found")

    def test_no_history_keeps_nothing(self):
        screen = self.chat("--no-history")
        self.answered(screen, "secret")
        screen.keys("Up")  # but within the run
        screen.wait_last("> secret")
        self.assertFalse(os.path.exists(self.path("state")))


class Messages(ReplCase):
    def test_a_paste_of_several_lines_is_one_message(self):
        screen = self.chat()
        screen.type("Look: ")
        screen.paste("one\n\ttwo 日本\nthree\n")
        screen.wait_last("> Look: [paste 1: 3 lines]")
        self.answered(screen, " end")
        self.assertEqual(self.saved(screen)[0]["text"], "Look: one\n\ttwo 日本\nthree end")
        self.assertEqual(self.replies(screen), 1)
        screen.keys("Up", "Up")  # small enough to be edited as it is
        screen.wait(lambda lines: lines[-3:] == ["> Look: one", "        two 日本", "three end"],
                    "three lines")
        screen.keys("C-c")
        screen.wait_prompt()
        screen.paste("a single line")
        screen.wait_last("> a single line")

    def test_lines_pasted_while_a_reply_runs_are_one_message(self):
        screen = self.chat("-c", "30000", "-n", "800", "--ignore-eos")
        screen.send("Hello")
        screen.wait(lambda lines: len(lines) > 8, "a reply under way")
        screen.paste("one\ntwo 日本\nthree\n")  # not marked: nobody asked for it
        screen.wait_last("> [paste 1: 3 lines]")
        self.assertEqual(self.replies(screen), 1)
        self.answered(screen, " end")
        messages = self.saved(screen)
        self.assertEqual([m["text"] for m in messages[::2]], ["Hello", "one\ntwo 日本\nthree end"])

    def test_a_line_typed_while_a_reply_runs_is_sent(self):
        screen = self.chat("-c", "30000", "-n", "800", "--ignore-eos")
        screen.send("Hello")
        screen.wait(lambda lines: len(lines) > 8, "a reply under way")
        screen.send("/stats")
        screen.wait_for("1 reply, 800 tokens")
        screen.wait_prompt()

    def test_a_large_paste_takes_no_time(self):
        screen = self.chat()
        screen.paste("word " * 200_000 + "\nend")
        screen.wait_last("> [paste 1: 2 lines]")
        screen.keys("Enter")
        screen.wait_for("this message needs")
        screen.wait_prompt()
        self.answered(screen, "Hello")

    def test_quotes_hold_a_message_of_many_lines(self):
        screen = self.chat()
        screen.send('"""/help is')
        screen.wait_last("...")
        screen.send("")
        screen.wait(lambda lines: lines[-2:] == ["...", "..."], "the second line")
        self.answered(screen, 'no command"""')
        self.assertEqual(self.saved(screen)[0]["text"], "/help is\n\nno command")
        screen.send('"""')
        screen.wait_last("...")
        screen.keys("C-c")
        screen.wait_prompt()
        self.assertEqual(len(self.saved(screen, "again.json")), 2)

    def test_ctrl_c_stops_a_reply_and_clears_the_line(self):
        screen = self.chat("-c", "30000", "-n", "-1", "--ignore-eos")
        screen.send("Hello")
        screen.wait(lambda lines: len(lines) > 20, "a reply under way")
        screen.keys("C-c")
        screen.wait_for("stop: aborted")
        screen.wait_prompt()
        screen.type("never sent")
        screen.wait_last("> never sent")
        screen.keys("C-c")
        screen.wait_prompt()
        self.assertNotIn("Ctrl-C again", "".join(screen.lines()))
        screen.keys("C-c")
        screen.wait(lambda lines: lines[-3:] == ["Ctrl-C again, Ctrl-D or /exit leaves", "", ">"],
                    "how to leave")
        screen.keys("C-c")
        screen.wait_last("left with 0")

    def test_ctrl_d_deletes_and_leaves(self):
        screen = self.chat()
        screen.type("ab")
        screen.keys("Left", "C-d")
        screen.wait_last("> a")
        screen.keys("BSpace", "C-d")
        screen.wait_last("left with 0")


class Commands(ReplCase):
    def test_save_load_regen_and_edit(self):
        screen = self.chat("--sys", "Be polite.", "--temp", "1")
        self.answered(screen, "Find me some music.")
        self.answered(screen, "/regen")
        before = self.saved(screen, "talk.json")
        self.assertEqual([m["role"] for m in before], ["user", "assistant"])
        self.assertEqual(before[1]["number"], 1)
        self.assertTrue(before[1]["figures"].startswith("8 tokens"))
        screen.send("/edit")
        screen.wait_last("> Find me some music.")
        screen.keys("BSpace")
        self.answered(screen, " by Bach.")
        edited = self.saved(screen, "edited.json")
        self.assertEqual(edited[0]["text"], "Find me some music by Bach.")
        self.assertEqual((len(edited), edited[1]["number"]), (2, 0))

        screen.send("/load talk.json")
        screen.wait_for("loaded 2 messages from talk.json, with their system prompt")
        screen.wait_prompt()
        self.answered(screen, "/regen")
        self.assertEqual(self.saved(screen, "third.json")[1]["number"], 2)
        with open(self.path("other"), "w", encoding="utf-8") as file:
            file.write("mine")
        with open(self.path("model.gguf"), "w", encoding="utf-8") as file:
            file.write("GGUF")
        for line, says in (("/save other", "other: this is no saved conversation"),
                           ("/save model.gguf", "model.gguf: this is a GGUF file"),
                           ("/load absent.json", "absent.json: cannot open"),
                           ("/load other", "other: no conversation of this program")):
            screen.send(line)
            screen.wait_for(says)
            screen.wait_prompt()
        with open(self.path("other"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_an_edit_that_is_given_up_changes_nothing(self):
        screen = self.chat()
        self.answered(screen, "//slash")
        screen.send("/edit")
        screen.wait_last("> //slash")
        screen.keys("C-c")
        screen.wait_prompt()
        self.answered(screen, "Hello")
        self.assertEqual([m["text"] for m in self.saved(screen)[::2]], ["/slash", "Hello"])

    def test_settings_figures_and_lens(self):
        screen = self.chat("-n", "16", "--ignore-eos", "--spec", "on", *LENS)
        screen.send("/set")
        lines = screen.wait_for("controller       off")
        self.assertIn("temp             0.8", lines)
        self.assertIn("tau              0.55", lines)
        screen.wait_prompt()
        for line, says in (("/set tau 0.01", "tau 0.01"), ("/set temp -1", "--temp: expected"),
                           ("/set seed 9", "seed 9"), ("/set check-layers 4,8", "check-layers 4,8"),
                           ("/set heads x", "--heads cannot change"),
                           ("/set nothing 1", '/set: no setting "nothing"')):
            screen.send(line)
            screen.wait(lambda lines: any(row.startswith(says) for row in lines), repr(says))
            screen.wait_prompt()
        self.answered(screen, "Hello")
        self.assertIn("| seed 9 |", self.saved(screen)[1]["figures"])
        screen.send("/stats")
        lines = screen.wait_for("  place  1  ")
        self.assertTrue(any("  layer  4  " in line for line in lines), lines)
        self.assertIn("drafts that were right, by their place in the round:", lines)
        screen.keys("C-l")
        screen.send("/lens 4")
        lines = screen.wait_for("4 tokens: ")
        self.assertEqual(sum(bool(re.match(r" {,2}\d+\*? +\d+%", line)) for line in lines), 16)
        screen.wait_prompt()
        screen.send("/lens 0")
        screen.wait_for("/lens: expected a number of tokens from 1 to 256")


class Replies(ReplCase):
    def test_lines_break_at_words(self):
        screen = self.chat("-n", "60", "--ignore-eos", "--temp", "0", columns=30)
        self.answered(screen, "I need a table.")
        lines = screen.lines()
        begin = lines.index("> I need a table.") + 1
        end = next(i for i, line in enumerate(lines) if line.startswith("[60 tokens"))
        self.assertGreater(end - begin, 4)
        words = " ".join(lines[begin:end]).split()
        self.assertEqual(words, self.saved(screen)[1]["text"].split())


class Terminals(ReplCase):
    def test_a_dumb_terminal_is_read_plainly(self):
        screen = self.chat(environment={"TERM": "dumb"})
        self.answered(screen, "Hello")
        screen.keys("C-d")
        screen.wait_last("left with 0")

    def test_a_terminal_that_the_system_does_not_know(self):
        screen = self.chat(environment={"TERM": "no-such-terminal"})
        self.answered(screen, "Hello")

    def test_the_prompt_has_a_colour_unless_told_otherwise(self):
        coloured = lambda screen: "\x1b[1m" in screen.tmux("capture-pane", "-p", "-e")
        self.assertTrue(coloured(self.chat()))
        self.assertFalse(coloured(self.chat(environment={"NO_COLOR": "1"})))

    def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was(self):
        screen = self.chat()
        pid = screen.tmux("display-message", "-p", "#{pane_pid}").strip()
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), 15)
        screen.wait_for("left with 143")
        screen.type("echoed")
        screen.wait_last("echoed")

    def test_ctrl_z_gives_the_terminal_to_the_shell_and_back(self):
        screen = Screen(self.folder, shell="HISTFILE= PS1='$ ' exec bash --norc --noprofile -i")
        self.addCleanup(screen.close)
        screen.wait_last("$")
        screen.send(shlex.join((BINARY, *CHAT, "--no-history")))
        screen.wait_prompt()
        screen.type("Hello")
        screen.wait_last("> Hello")
        screen.keys("C-z")
        screen.wait(lambda lines: "Stopped" in "".join(lines) and lines[-1] == "$", "the shell")
        screen.send("fg")
        screen.wait_last("> Hello")
        self.answered(screen, " again")
        screen.wait_for("> Hello again")


if __name__ == "__main__":
    if not TMUX:
        print("SKIP the chat on a terminal: no tmux")
        sys.exit(0)
    unittest.main()
