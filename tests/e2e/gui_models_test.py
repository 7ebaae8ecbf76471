#!/usr/bin/env python3
"""Models by name in the window, from the outside, against a local server that behaves as the hub
does: downloaded with progress, cancelled and gone on with, opened again from the list of recent
ones without a network, refused in the window."""
import os
import unittest

import gui_window
from gui_window import Window, home_environment, screen
from pull_test import HubCase, has_libcurl
from specbound_process import DEMO

SETTINGS = ("--temp", "0", "-t", "1", "-n", "8", "--size", "1280x800", "--theme", "dark",
            "--scale", "1")

NAME, FILE = "hf:own/demo", "demo-Q8_0.gguf"

setUpModule = screen


@unittest.skipUnless(has_libcurl(), "SKIP models by name: libcurl is not installed")
class Models(HubCase):
    def setUp(self):
        super().setUp()
        with open(DEMO, "rb") as file:
            self.demo = file.read()
        self.hub.files["own/demo"] = {FILE: self.demo}

    def open(self, *flags, **more):
        own = home_environment(self.folder)
        environment = {**self.environment, "XDG_CACHE_HOME": own["XDG_CACHE_HOME"], **more}
        window = Window(screen(), self.folder, *SETTINGS, *flags, environment=environment)
        self.addCleanup(window.close)
        return window

    def choose(self, window, name):
        window.key("ctrl+m")
        window.rect("models.name")
        window.type(name)
        window.key("Return")

    def row(self, window, name):
        """The row of the dialog that has this name, once it is there."""
        def number(ui):
            for key, value in ui["values"].items():
                if key.startswith("models.row.") and value == name:
                    return key
            return None
        return number(window.wait(number, "a row for " + name))

    def test_a_model_is_downloaded_with_progress_and_then_recent(self):
        self.hub.piece = (1000000, 0.15)
        window = self.open("-m", DEMO)
        window.wait_value("model.state", "ready")
        self.choose(window, NAME)
        window.rect("chat.load.bar")
        window.wait(lambda ui: "downloading" in ui["values"].get("model.label", ""), "its progress")
        window.wait(lambda ui: 0.2 < float(ui["values"].get("model.share", 0)) < 0.9, "a share")
        window.wait(lambda ui: ui["values"]["model.state"] == "ready"
                    and ui["values"]["model.path"].endswith(FILE), "the model")
        self.same(window.value("model.path"), self.demo)
        window.click("chat.input")
        window.type("Hello.")
        window.key("Return")
        window.wait(lambda ui: ui["values"]["chat.replies"] == "1"
                    and ui["values"]["chat.busy"] == "no", "a reply")
        self.assertEqual(window.quit(), 0, window.stderr())
        # The next window has it in its list, and needs no network.
        asked = len(self.hub.asked)
        window = self.open("-m", DEMO, HF_ENDPOINT="http://127.0.0.1:9")
        window.wait_value("model.state", "ready")
        window.click("menu.file")
        window.click("menu.models")
        window.click(self.row(window, NAME))
        window.click("models.open")
        window.wait(lambda ui: ui["values"]["model.state"] == "ready"
                    and ui["values"]["model.path"].endswith(FILE), "the model")
        self.assertEqual(len(self.hub.asked), asked)
        self.assertEqual(window.quit(), 0, window.stderr())

    def test_a_download_is_cancelled_and_goes_on(self):
        self.hub.piece = (500000, 0.2)
        window = self.open("-m", DEMO)
        window.wait_value("model.state", "ready")
        self.choose(window, NAME)
        window.wait(lambda ui: float(ui["values"].get("model.share", 0)) > 0.1, "a share")
        window.click("chat.load.cancel")
        window.wait_value("model.state", "failed")
        window.rect("chat.load.error")
        [part] = [name for name in self.left() if name.endswith(".part")]
        self.assertGreater(os.path.getsize(os.path.join(self.models, part)), 0)
        self.hub.piece = None
        window.click("chat.models")
        window.rect("models.name")
        window.type(NAME)
        window.key("Return")
        window.wait_value("model.state", "ready")
        self.assertRegex(self.hub.headers("cdn")[-1]["range"], r"bytes=[1-9]\d*-")
        self.same(window.value("model.path"), self.demo)

    def test_what_the_hub_or_the_name_refuses_is_told(self):
        window = self.open("-m", DEMO)
        window.wait_value("model.state", "ready")
        self.choose(window, "hf:nothing")
        window.wait(lambda ui: "OWNER/REPO" in ui["values"].get("models.problem", ""), "the reason")
        self.assertEqual(window.value("model.state"), "ready")
        window.key("ctrl+a")
        window.type("hf:own/absent")
        window.key("Return")
        window.wait_value("model.state", "failed")
        self.assertIn("no such repository", window.value("model.error"))
        window.rect("chat.load.error")
        # And what is there is opened all the same.
        window.click("chat.models")
        window.click(self.row(window, DEMO))
        window.click("models.open")
        window.wait_value("model.state", "ready")
        self.assertEqual(window.quit(), 0, window.stderr())


if __name__ == "__main__":
    if why_not := gui_window.missing():
        print("SKIP the desktop app's window:", why_not)
    unittest.main()
