#!/usr/bin/env python3
"""Idle learning in the window, from the outside: asked once, begun and ended by buttons, stopped
within 50 ms of a key and while a reply runs, gone on with by the next window, forgotten by its
command. What of it needs no screen is in tests/gui/learning_test.cpp."""
import glob
import os
import statistics
import time
import unittest

import gui_window
from endless_model import CONTEXT, make_endless_model
from gui_window import Window, home_environment, screen
from idle_learning_test import STOPPED, children, is_gone, stat_of, ticks
from serve_client import wait_until
from specbound_process import FolderCase, demo_without_heads, specbound

SETTINGS = ("--temp", "0", "-t", "1", "-n", "24", "--size", "1280x800", "--theme", "dark",
            "--scale", "1")
LONG = 6000  # tokens of a reply that takes some seconds
SOON = ("--idle-seconds", "0.3", "--idle-minutes")

setUpModule = screen


class Learning(FolderCase):
    def setUp(self):
        super().setUp()
        self.model = demo_without_heads(self.folder)

    def open(self, *flags, minutes="5", **options):
        window = Window(screen(), self.folder, "-m", self.model, *SETTINGS, *SOON, minutes, *flags,
                        **options)
        self.addCleanup(window.close)
        window.wait_value("model.state", "ready")
        return window

    def ask(self, window, message="Hello."):
        replies = float(window.value("chat.replies"))
        window.click("chat.input")
        window.type(message)
        window.key("Return")
        window.wait(lambda ui: float(ui["values"]["chat.replies"]) == replies + 1
                    and ui["values"]["chat.busy"] == "no", "end of the reply")
        return window.value(f"chat.text.{int(2 * replies) + 1}")

    @staticmethod
    def learner(window):
        return wait_until(lambda: next(iter(children(window.process.pid)), None),
                          "a process that learns")

    def kept(self, name):
        return glob.glob(os.path.join(self.folder, "data/specbound/learning", "*", name))

    def answer(self):
        with open(os.path.join(self.folder, "data/specbound/learning/answer"),
                  encoding="ascii") as file:
            return file.read().strip()

    def test_it_asks_once_and_the_button_begins_it(self):
        window = self.open()
        self.assertFalse(window.has("learning.offer"))
        self.ask(window)
        window.rect("learning.offer")
        window.click("learning.offer.yes")
        learner = self.learner(window)
        self.assertFalse(window.has("learning.offer"))
        window.click("tab.controls")
        window.wait_value("learning.state", "on")
        window.wait(lambda ui: "learning.share" in ui["values"], "the progress")
        window.rect("learning.progress")
        self.assertEqual(window.quit(), 0, window.stderr())
        wait_until(lambda: is_gone(learner), "its end")
        # The next window goes on, unasked.
        window = self.open()
        learner = self.learner(window)
        window.click("tab.controls")
        window.click("learning.stop")
        window.wait_value("learning.state", "off")
        wait_until(lambda: is_gone(learner), "its end")
        self.assertEqual(window.quit(), 0, window.stderr())
        # And the one after it does not learn, nor ask.
        window = self.open()
        self.ask(window)
        window.click("tab.controls")
        window.wait_value("learning.state", "off")
        self.assertFalse(window.has("learning.offer"))
        self.assertEqual(children(window.process.pid), [])
        forgotten = specbound("forget", environment=home_environment(self.folder))
        self.assertEqual(forgotten.returncode, 0, forgotten.stderr)
        self.assertEqual(self.kept("texts.bin"), [])

    def test_a_key_stops_it_within_50_ms(self):
        window = self.open("--idle-learning", "on")
        learner = self.learner(window)
        window.click("chat.input")
        latencies = []
        for _ in range(5):
            wait_until(lambda: stat_of(learner)[0] in "RS", "the learner at work")
            window.screen.xdotool("key", "x")
            begin = time.monotonic()
            wait_until(lambda: stat_of(learner)[0] == STOPPED, "a stopped learner")
            latencies.append(time.monotonic() - begin)
        self.assertLess(statistics.median(latencies), 0.05, latencies)
        self.assertEqual(window.quit(), 0, window.stderr())

    def test_it_sleeps_during_a_reply_whose_text_is_the_same(self):
        self.model = make_endless_model(self.folder)
        os.unlink(self.model.replace(".gguf", ".heads.gguf"))
        flags = ("-n", str(LONG), "-c", str(CONTEXT))
        window = self.open("--idle-learning", "on", *flags)
        learner = self.learner(window)
        window.click("chat.input")
        window.type("Hello.")
        wait_until(lambda: stat_of(learner)[0] in "RS", "the learner at work")
        window.key("Return")
        window.wait(lambda ui: float(ui["values"].get("map.columns", 0)) > 40, "the reply")
        time.sleep(0.6)  # which is longer without a key than what it takes for idle
        state, spent = stat_of(learner)[0], ticks(learner)
        time.sleep(0.2)
        self.assertEqual((stat_of(learner)[0], ticks(learner)), (STOPPED, spent))
        self.assertEqual(state, STOPPED)
        self.assertEqual(window.value("chat.busy"), "yes")
        window.wait_value("chat.busy", "no")
        wait_until(lambda: stat_of(learner)[0] in "RS", "the learner at work again")
        expected = specbound("run", "-m", self.model, "-p", "Hello.", "--temp", "0", "-t", "1",
                             *flags, "--speculator", "none")
        shown = window.value("chat.text.1")  # of a long one the beginning
        self.assertGreater(len(shown), 100)
        self.assertTrue(expected.stdout.decode().startswith(shown), shown)
        self.assertEqual(window.quit(), 0, window.stderr())
        [path] = self.kept("conversations.jsonl")
        with open(path, encoding="utf-8") as file:
            self.assertIn("Hello.", file.read())

    def test_a_round_ends_whatever_came_of_it(self):
        window = self.open("--idle-learning", "on", minutes="0.1")
        window.click("tab.controls")
        wait_until(lambda: self.kept("rounds.json"), "a round", 200)
        gained = bool(self.kept("heads.gguf"))
        ui = window.wait(lambda ui: "1 round done" in ui["values"]["learning.status"]
                         and ("learning.gained" in ui["values"]) == gained, "its end")
        self.assertEqual(ui["values"]["learning.state"], "on")
        if gained:  # by the clock; tests/gui/learning_test.cpp has both ends each time
            self.assertIn("x plain decoding", ui["values"]["learning.gained"])
            self.assertEqual(ui["values"]["controls.speculation"], "on")
        self.assertEqual(window.quit(), 0, window.stderr())


if __name__ == "__main__":
    if why_not := gui_window.missing():
        print("SKIP the desktop app's window:", why_not)
    unittest.main()
