#!/usr/bin/env python3
"""Replies in the window, from the outside: Markdown as it is meant while it comes, code that is
copied, the switch to what was written, and a machine without the parser's library. What needs no
screen is in tests/gui/markdown_view_test.cpp."""
import os
import tempfile
import unittest

import gui_window
from gui_window import Window, eventually, screen
from scripted_model import make_scripted_model
from specbound_process import FolderCase, specbound

SETTINGS = ("--temp", "0", "-t", "1", "--size", "1280x800", "--theme", "dark", "--scale", "1")
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}<|say|>"
CODE = ["def zqf(zqx):\n", "    return **zqx**\n\n", "zqprint(zqf(2))\n"]
PIECES = ["# Zqheading\n\n", "Some *zqslanted* and ", "**zqbold** words.\n\n", "- zqone\n",
          "- zqtwo\n\n", "|zqa|zqb|\n", "|---|---|\n", "|zq1|zq2|\n\n", "```zqpython\n",
          *CODE, "```\n", "\nA [zqlink](http://x.org/zq)."]

setUpModule = screen


class Replies(FolderCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = make_scripted_model(folder.name, TEMPLATE, {"<|say|>": PIECES})

    def ask(self, **options):
        window = Window(screen(), self.folder, "-m", self.model, *SETTINGS, **options)
        self.addCleanup(window.close)
        window.wait_value("model.state", "ready")
        window.click("chat.input")
        window.type("Go")
        window.key("Return")
        window.wait(lambda ui: ui["values"]["chat.replies"] == "1"
                    and ui["values"]["chat.busy"] == "no", "end of the reply")
        return window

    def rendered(self):
        window = self.ask()
        if window.value("chat.rendered.1") == "no":
            self.skipTest("SKIP: no md4c in this build or on this machine")
        return window

    def written(self):
        said = specbound("run", "-m", self.model, "-p", "Go", "--temp", "0")
        return said.stdout.decode()

    def test_a_reply_is_shown_as_its_markdown_means_it(self):
        window = self.rendered()
        names = window.ui()["names"]
        for kind in ("heading", "table", "code"):
            self.assertTrue([n for n in names if n.startswith(f"chat.text.1.{kind}.")], names)
        ((name, language),) = [(n, v) for n, v in window.ui()["values"].items()
                               if n.startswith("chat.text.1.language.")]
        self.assertEqual(language, "zqpython")
        # What is written is what is kept and copied whole, whatever is shown.
        self.assertEqual(window.value("chat.text.1").rstrip(), self.written().rstrip())
        window.click(name.replace("language", "copy"))
        self.assertEqual(self.pasted(window), "".join(CODE).rstrip("\n"))
        self.assertEqual(window.quit(), 0, window.stderr())

    def pasted(self, window):
        """The clipboard, by way of the box that messages are written in."""
        window.click("chat.input")
        window.key("ctrl+a")
        window.key("ctrl+v")
        return eventually(lambda: window.value("chat.input"), "the clipboard's text")

    def test_marks_are_no_letters_and_the_switch_shows_them(self):
        window = self.rendered()
        rendered = window.rect("chat.token.1.0")
        window.click("chat.raw.1")
        window.wait_value("chat.rendered.1", "no")
        self.assertNotEqual(window.rect("chat.token.1.0"), rendered)
        self.assertFalse([n for n in window.ui()["names"] if ".code." in n])
        window.click("chat.raw.1")
        window.wait_value("chat.rendered.1", "yes")
        window.click("menu.view")
        window.click("menu.raw")
        window.wait_value("chat.rendered.1", "no")
        self.assertEqual(window.quit(), 0, window.stderr())

    def test_a_conversation_is_selected_and_copied_as_it_is_seen(self):
        window = self.rendered()
        window.click("chat.token.1.0")
        window.key("ctrl+a")
        window.key("ctrl+c")
        text = self.pasted(window)
        self.assertTrue(text.startswith("Go\n\nZqheading\n\nSome zqslanted and zqbold words.\n"),
                        text)
        self.assertIn("\u2022 zqone\n\u2022 zqtwo\n", text)
        self.assertIn("zqlink (http://x.org/zq)", text)
        self.assertNotIn("```", text)

    def test_a_drag_from_a_message_into_the_next_selects_both(self):
        window = self.rendered()
        question = window.rect("chat.message.0")
        x0, y0, x1, y1 = window.rect("chat.token.1.0")
        # From behind the heading to above the question's letters.
        window.move((x1 + 40, (y0 + y1) / 2))
        window.act("mousedown", 1)
        window.move((x0 + 20, y0 - 20))
        window.move((x0 + 20, question[1] + 2))
        window.act("mouseup", 1)
        window.key("ctrl+c")
        self.assertEqual(self.pasted(window), "Go\n\nZqheading")
        self.assertEqual(window.quit(), 0, window.stderr())

    def test_without_the_library_replies_are_shown_as_they_were_written(self):
        with open(self.path("libmd4c.so.0"), "wb"):
            pass
        window = self.ask(environment={"LD_LIBRARY_PATH": self.folder})
        self.assertEqual(window.value("chat.rendered.1"), "no")
        self.assertFalse(window.has("chat.raw.1"))
        self.assertFalse([n for n in window.ui()["names"] if ".code." in n])
        self.assertEqual(window.quit(), 0, window.stderr())


if __name__ == "__main__":
    if why_not := gui_window.missing():
        print("SKIP the desktop app's window:", why_not)
    unittest.main()
