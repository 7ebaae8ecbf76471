#!/usr/bin/env python3
"""The desktop app from the outside, on a virtual screen: what a person does from the first start to
closing the window, what is seen (pixels of known places), and what survives when things go wrong.
What needs no screen is in tests/gui."""

# What was promised, and the tests that assert it (a part of their names; tests/gui, tests/unit and
# this folder). desktop_files_test sees to it that they are there.
#
# Chat
#   streams, Enter sends     chat_view_test "a message typed and sent with Enter"
#   stop                     chat_view_test "stop stops", worker_thread_test "stop ends a reply"
#   regenerate, edit, copy   chat_view_test "regenerate, edit and send again, copy"
#   system prompt            chat_view_test "the system prompt is edited"
#   several, in a side list  side_views_test "side list:", app_state_test "several conversations"
#   JSON in the data home    conversation_store_test "the folder is the data home"
#   written atomically       conversation_store_test "killed while it saves"
#   a crash costs one reply  gui_test "test_kill_during_a_reply_loses_that_reply_only"
#   load, export             app_state_test "stored conversations", side_views_test "export: writes"
#   a model dropped, picked  gui_test "test_a_model_dropped", gui_test "test_a_model_picked"
#   loading with progress    app_state_test "a model comes with progress"
#   by name, with progress   gui_models_test "is_downloaded_with_progress"
#   cancelled, gone on with  gui_models_test "test_a_download_is_cancelled"
#   recent ones, what fits   model_choices_test "whether they fit", "was used of late"
#   errors in the window     gui_test "test_a_model_that_cannot_be_loaded"
#   Markdown, code           markdown_view_test "marks are not drawn",
#                            gui_replies_test "as_its_markdown_means_it"
#   raw on a switch          gui_replies_test "the_switch_shows_them"
#   hostile Markdown         markdown_view_test "cost no frame"
#   word wrap                text_layout_test "words, blanks that hang"
#   copyable text            chat_view_test "text is selected by dragging"
#   across messages          chat_view_test "from one message into others", "Ctrl+A selects",
#                            gui_replies_test "test_a_drag_from_a_message"
#   UTF-8                    text_layout_test "half a character waits"
#   fonts                    font_files_test "the best known body", font_atlas_test "none at all"
#   scale                    main_view_test "at every size and scale"
#   dark and light           gui_test "test_light_and_dark", live_panel_test "on both themes"
# Live panel
#   30 layers and more       live_panel_test "30 layers", gui_test "test_80_layers_fit_the_map"
#   columns, rows, colours   live_panel_test "cells have the colours", gui_test "check_map"
#   exits, kinds of tokens   layer_map_test "marked in the cell that decided it"
#   hover                    live_panel_test "the pointer finds out what happened"
#   scrolls with the text    live_panel_test "the newest token is in view"
#   from the chat and back   gui_test "test_a_token_clicked_in_the_chat", chat_view_test "the map's"
#   guesses while it rests   worker_thread_test "come when nothing else is to be done"
#   they change no reply     session_changes_test "leaves the cache to the bit"
#   exits by layer           plots_test "exits by layer"
#   threshold, annealed      plots_test "the threshold and the temperature"
#   rates, speedup, CR       plots_test "rates over time", trace_model_test "the plain rate comes"
#   acceptance by place      plots_test "acceptance by place"
#   time bar                 plots_test "phases share the time out"
#   all of them are drawn    live_panel_test "every plot is there"
#   from what --trace tells  trace_reader_test "what decoding told comes back"
#   replay, pause, step      replay_player_test "round by round", gui_test "test_replay_of_a_trace"
# Controls
#   each of them             controls_view_test "sampling, seed", settings_form_test "are toggles"
#   at the next round        worker_thread_test "settings change at the next round"
# Make it faster
#   off says why, a button   learning_test "what is off says why"
#   progress, what it gained learning_test "how far it is", gui_learning_test "test_a_round_ends"
#   asked once, remembered   gui_learning_test "test_it_asks_once"
#   pauses within 50 ms      gui_learning_test "test_a_key_stops_it",
#                            gui_learning_test "test_it_sleeps_during_a_reply"
#   not from what was before learning_test "what was said before it began"
# Comparison
#   side by side, the end    comparison_view_test "both sides, the times",
#                            gui_test "test_the_comparison"
#   identical                worker_thread_test "a comparison is the same reply twice"
# Engine and window
#   never blocks             gui_test "test_the_window_lives_while_decoding"
#   frame times              gui_test "test_help_and_frame_times", frame_times_test "quantiles"
#   no part is left stale    gui_test "test_parts_that_are_drawn_anew", damage_test "damage:"
#   60 fps, engine's loss    tests/bench/gui_frames.sh and gui_engine.sh fail above their bounds
#   at rest                  gui_test "test_at_rest_it_does_nothing"
#   understood in a minute   help_view_test "five sentences and a picture"
# Around it
#   starts without X11       commands_test "test_with_nothing_but_what_must_be_there"
#   no DISPLAY: one line     gui_test "test_without_a_display"
#   640x480, 2560x1440       gui_test "test_from_640x480_to_2560x1440"
#   speculation toggled      gui_test "test_speculation_switched_off_and_on_again"
#   menu entry               desktop_files_test "test_the_entry_starts"
#   icon                     desktop_files_test "test_the_icon"
#   pictures of the docs     desktop_files_test "test_the_docs_show"
#   model apart from views   tests/lint.py (GUI_MAY_INCLUDE)
#   no assertion, no leak    gui_test "def quit" in the asan-ubsan build
#   500 turns, flat memory   soak_test "500 turns with the worker"

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import gui_window
from endless_model import CONTEXT, make_endless_model
from gui_window import Window, eventually, home_environment, screen
from specbound_process import (BINARY, DEMO, TIMEOUT, FolderCase, demo_without_heads,
                               specbound)

MESSAGE = "I need a table for two tonight."
SETTINGS = ("--temp", "0", "-t", "1", "--size", "1280x800", "--theme", "dark", "--scale", "1")
# Of gui/view/theme.cpp, dark.
BACKGROUND, ACCEPTED, REJECTED, VERIFIED = ((0x14, 0x17, 0x1c), (0x5f, 0xd3, 0x8d),
                                            (0xff, 0x7b, 0x72), (0xa3, 0xad, 0xbb))
SCROLLED = ("plots.", "chat.message.", "chat.token.")  # may reach below the edge
LIGHT_BACKGROUND = (0xff, 0xff, 0xff)

setUpModule = screen


class WindowCase(FolderCase):
    def open(self, *arguments, model=DEMO, **options):
        model_flags = ("-m", model) if model else ()
        window = Window(screen(), self.folder, *model_flags, *SETTINGS, *arguments, **options)
        self.addCleanup(window.close)
        return window

    def ready(self, *arguments, **options):
        window = self.open(*arguments, **options)
        window.wait_value("model.state", "ready")
        return window

    def ask(self, window, message=MESSAGE):
        replies = float(window.value("chat.replies"))
        window.click("chat.input")
        window.type(message)
        window.key("Return")
        return window.wait(lambda ui: float(ui["values"]["chat.replies"]) == replies + 1
                           and ui["values"]["chat.busy"] == "no", "end of the reply")

    def stored(self):
        """The conversations on disk, and whatever else lies beside them."""
        folder = os.path.join(self.folder, "data/specbound/conversations")
        found = sorted(glob.glob(os.path.join(folder, "*.json")))
        others = set(os.listdir(folder)) - {os.path.basename(f) for f in found}
        conversations = []
        for path in found:
            with open(path, encoding="utf-8") as file:
                conversations.append(json.load(file))
        return conversations, others

    def quit(self, window):
        """Sanitizers look for leaks at the very end."""
        self.assertEqual(window.quit(), 0, window.stderr())
        self.assertNotIn("Sanitizer", window.stderr())


class FirstSteps(WindowCase):
    def test_start_type_and_read_the_reply(self):
        """Chat, the live panel and the file of the conversation, from one message."""
        window = self.ready("--controller", "off")  # drafts, whatever that costs
        ui = self.ask(window)
        expected = specbound("run", "-m", DEMO, "-p", MESSAGE, "--temp", "0", "-t", "1")
        text = expected.stdout.decode().rstrip("\n")
        self.assertEqual(ui["values"]["chat.text.1"], text)
        self.assertIn("tok/s", ui["values"]["chat.figures.1"])
        (conversation,), others = self.stored()
        self.assertEqual([m["text"] for m in conversation["messages"]], [MESSAGE, text])
        self.assertFalse(others)
        self.check_map(window)
        self.quit(window)

    def check_map(self, window):
        """Each token's column says by its colour how the token came about."""
        ui = window.wait(lambda ui: "map.cells" in ui["names"], "the layer map")
        picture = window.picture()
        left, _, right, _ = ui["names"]["map.cells"]
        middles = [((x0 + x1) / 2, y1 - 1.5) for name, (x0, _, x1, y1) in ui["names"].items()
                   if name.startswith("map.text.")]
        kinds = {picture.pixel(x, y) for x, y in middles if left < x < right}
        self.assertTrue(kinds <= {ACCEPTED, REJECTED, VERIFIED}, kinds)
        self.assertIn(ACCEPTED, kinds)  # the demo's heads are often right
        self.assertGreater(len(kinds), 1)
        cells = [name for name in ui["names"] if name.startswith("map.cell.")]
        self.assertGreaterEqual(len(cells), 16)
        fills = {picture.pixel(x0 + 2, y0 + 2)
                 for x0, y0, *_ in (ui["names"][name] for name in cells)}
        self.assertGreater(len(fills), 1)  # layers are not equally sure
        self.assertNotIn(BACKGROUND, fills)

    def test_a_token_clicked_in_the_chat_finds_its_column_and_back(self):
        window = self.ready()
        self.ask(window)
        window.click("chat.token.1.1")
        window.wait_value("selected", "1.1")
        self.assertTrue(window.has("map.text.1"))  # the map scrolled there
        window.click("map.text.2")
        window.wait_value("selected", "1.2")

    def test_parts_that_are_drawn_anew_add_up_to_the_whole(self):
        """On a software renderer: to the byte what a whole frame shows."""
        window = self.ready()
        before = window.ui()
        self.ask(window)
        after = window.ui()
        frames = after["frames"]["count"] - before["frames"]["count"]
        wholes = int(after["values"]["frames.whole"]) - int(before["values"]["frames.whole"])
        self.assertLess(wholes, frames / 2)
        self.check_parts(window)
        window.click("chat.token.1.3")
        window.click("tab.controls")
        self.check_parts(window)
        window.click("tab.live")
        window.key("F1")
        window.rect("help.window")
        self.check_parts(window)
        window.key("F1")
        window.resize(1100, 700)
        self.check_parts(window)
        window.click("menu.view")
        self.check_parts(window)
        self.quit(window)

    def check_parts(self, window):
        parts = self.at_rest(window)
        wholes = int(window.value("frames.whole"))
        screen().xdotool("windowunmap", "--sync", window.id)
        screen().xdotool("windowmap", "--sync", window.id)
        window.focus()
        window.wait(lambda ui: int(ui["values"]["frames.whole"]) > wholes, "a whole frame")
        whole = self.at_rest(window)
        self.assertTrue(parts == whole, "the picture is another")

    def at_rest(self, window):
        """The rows of its picture, which does not change any more."""
        def still():
            before = window.picture().rows
            busy = gui_window.cpu_share(window.process.pid, 0.3) > 0.05
            now = window.picture().rows
            return now if now == before and not busy else None
        return gui_window.eventually(still, "a picture at rest")

    def test_keys_between_two_frames_have_the_modifiers_that_they_were_pressed_with(self):
        window = self.ready()
        window.click("chat.input")
        window.type("three words here")
        window.wait_value("chat.input", "three words here")
        window.act("key", "--delay", 0, "ctrl+a", "x")
        window.wait_value("chat.input", "x")

    def test_speculation_switched_off_and_on_again(self):
        window = self.ready()
        window.click("tab.controls")
        window.click("controls.speculation")
        window.wait_value("controls.speculation", "off")
        first = self.ask(window)["values"]["chat.text.1"]
        window.click("controls.speculation")
        window.wait_value("controls.speculation", "on")
        window.drag("controls.tau", 0.5, 0.95)
        ui = window.wait(lambda ui: float(ui["values"]["controls.tau"]) > 0.8, "a higher tau")
        self.assertEqual(ui["values"]["controls.changed"], "yes")
        window.click("controls.preset.paper")
        window.wait_value("controls.preset", "paper")
        window.wait(lambda ui: abs(float(ui["values"]["controls.tau"]) - 0.55) < 1e-6, "tau 0.55")
        window.click("chat.regenerate")
        ui = window.wait(lambda ui: ui["values"]["chat.busy"] == "no"
                         and " reply 1" in ui["values"].get("chat.figures.1", ""), "another reply")
        self.assertEqual(ui["values"]["chat.text.1"], first)
        self.quit(window)

    def test_the_comparison(self):
        window = self.ready()
        window.click("tab.compare")
        window.click("compare.start")
        ui = window.wait(lambda ui: "compare.identical" in ui["values"], "the comparison's end")
        self.assertEqual(ui["values"]["compare.identical"], "yes")
        self.assertGreater(float(ui["values"]["compare.ratio"]), 0)
        self.assertEqual(ui["values"]["compare.plain.tokens"],
                         ui["values"]["compare.speculative.tokens"])
        picture = window.picture()
        for side, color in (("plain", VERIFIED), ("speculative", ACCEPTED)):
            x0, y0, x1, y1 = ui["names"][f"compare.{side}.bar"]
            self.assertEqual(picture.pixel((x0 + x1) / 2, (y0 + y1) / 2), color)
        self.assertEqual(ui["values"]["chat.replies"], "0")  # the conversation stays as it was
        self.quit(window)


class Sizes(WindowCase):
    def test_from_640x480_to_2560x1440(self):
        """Nothing lies outside, and every panel is there, as a tab or beside the others."""
        window = self.ready()
        self.ask(window)
        for width, height in ((640, 480), (2560, 1440), (1280, 800)):
            window.resize(width, height)
            ui = window.ui()
            for name, (x0, y0, x1, y1) in ui["names"].items():
                place = (name, width, height, x0, y0, x1, y1)
                self.assertTrue(x0 >= -1 and x1 <= width + 1, place)
                if not name.startswith(SCROLLED):
                    self.assertTrue(y0 >= -1 and y1 <= height + 1, place)
            picture = window.picture()
            self.assertEqual((picture.width, picture.height), (width, height))
            shades = picture.colors((0, 0, width, height))
            self.assertGreater(len(shades), 20)
            self.assertLess(max(shades.values()), 0.97 * width * height)
        for tab in ("tab.controls", "tab.compare", "tab.live"):
            window.click(tab)
        self.quit(window)

    def test_light_and_dark(self):
        window = self.ready("--theme", "light")
        self.assertIn(LIGHT_BACKGROUND, self.commonest(window))
        window.click("menu.view")
        window.click("menu.dark")
        window.wait_value("window.theme", "dark")
        eventually(lambda: BACKGROUND in self.commonest(window), "a dark window")

    def commonest(self, window):
        counts = window.picture().colors((0, 0, 1280, 800))
        return sorted(counts, key=counts.get)[-2:]

    def test_help_and_frame_times(self):
        window = self.ready()
        window.key("F1")
        window.rect("help.window")
        window.key("F12")
        window.wait_value("overlay.open", "yes")
        window.rect("overlay")
        self.assertGreater(float(window.value("overlay.p99")), 0)


class LongReplies(WindowCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = make_endless_model(folder.name)

    def begin(self, window, message=MESSAGE):
        window.click("chat.input")
        window.type(message)
        window.key("Return")
        window.wait(lambda ui: ui["values"]["chat.busy"] == "yes"
                    and float(ui["values"].get("map.columns", 0)) > 40, "a reply under way")

    def test_the_window_lives_while_decoding_and_stop_ends_the_reply(self):
        window = self.ready("-c", str(CONTEXT), model=self.model)
        self.begin(window)
        before = window.ui()["frames"]["count"]
        window.wait(lambda ui: ui["values"]["chat.busy"] == "yes"
                    and ui["frames"]["count"] >= before + 5, "frames of the reply")
        window.click("tab.controls")  # and it listens
        window.click("controls.speculation")
        window.wait_value("controls.speculation", "off")
        self.assertEqual(window.value("chat.busy"), "yes")
        window.click("chat.stop")
        window.wait_value("chat.busy", "no")
        (conversation,), _ = self.stored()
        self.assertEqual(len(conversation["messages"]), 2)
        self.quit(window)

    def test_kill_during_a_reply_loses_that_reply_only(self):
        window = self.ready(model=self.model)
        self.begin(window)
        window.click("chat.stop")
        window.wait_value("chat.busy", "no")
        (conversation,), _ = self.stored()
        text = conversation["messages"][1]["text"]
        shown = window.value("chat.text.1")  # of a long one the beginning
        self.assertTrue(shown and text.startswith(shown))
        self.begin(window, "And another one.")
        window.process.send_signal(signal.SIGKILL)
        window.process.wait()
        (conversation,), _ = self.stored()
        self.assertEqual([m["text"] for m in conversation["messages"]][:3],
                         [MESSAGE, text, "And another one."][:len(conversation["messages"])])
        self.assertGreaterEqual(len(conversation["messages"]), 2)
        self.assertLessEqual(len(conversation["messages"]), 3)

        again = self.ready()
        self.assertEqual(again.value("chat.conversations"), "2")  # it, and a new one
        again.click("sidebar.row.1")
        again.wait(lambda ui: ui["values"].get("chat.text.1") == shown, "the reply before")
        self.quit(again)
        _, others = self.stored()
        self.assertFalse(others)  # nothing half written is left

    def test_quitting_during_a_reply(self):
        window = self.ready(model=self.model)
        self.begin(window)
        self.quit(window)


class Files(WindowCase):
    def test_replay_of_a_trace(self):
        trace = self.path("trace.jsonl")
        specbound("run", "-m", DEMO, "-p", MESSAGE, "--temp", "0", "--trace", trace)
        self.check_replay(trace)

    def test_replay_of_trees(self):
        trace = self.path("trees.jsonl")
        words = "red blue red green red blue red green red"
        specbound("run", "-m", demo_without_heads(self.folder), "-p", words, "-n", "48", "--temp",
                  "0", "--ignore-eos", "--controller", "off", "--trace", trace)
        with open(trace, encoding="utf-8") as file:
            self.assertIn('"parent":', file.read())
        self.check_replay(trace)

    def test_80_layers_fit_the_map(self):
        """As a trace tells of them: rows that share layers, all in view, under their legend."""
        trace = self.path("deep.jsonl")
        specbound("run", "-m", DEMO, "-p", MESSAGE, "--temp", "0", "--trace", trace)
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(lines[0]["type"], "header")
        lines[0]["n_layers"] = 80
        with open(trace, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        window = self.open("--replay", trace, model=None)
        window.wait(lambda ui: "replay.rounds" in ui["values"], "the replay")
        window.click("replay.round")
        for width, height in ((1280, 800), (2560, 1440)):
            window.resize(width, height)
            ui = window.wait(lambda ui: "map.legend" in ui["names"], "the map's legend")
            self.assertEqual(ui["values"]["map.layers"], "80")
            group = int(ui["values"]["map.group"])
            self.assertGreaterEqual(float(ui["values"]["map.cell_height"]), 12)
            rows = {int(name.split(".")[3]) for name in ui["names"] if name.startswith("map.cell.")}
            self.assertEqual(rows - {0}, set(range(1, 81, group)))
            self.assertLess(ui["names"]["map.legend"][3], ui["names"]["map.grip"][3])
        self.quit(window)

    def check_replay(self, trace):
        """Played to its end, and a round back and forth."""
        window = self.open("--replay", trace, model=None)
        ui = window.wait(lambda ui: "replay.rounds" in ui["values"], "the replay")
        rounds = int(ui["values"]["replay.rounds"])
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(rounds, sum(line["type"] == "round" for line in lines))
        window.click("replay.play")
        window.wait_value("replay.round", str(rounds))
        window.wait_value("replay.playing", "no")
        self.assertEqual(int(window.value("map.columns")),
                         sum(line["type"] == "token" for line in lines))
        window.click("replay.round_back")
        window.wait_value("replay.round", str(rounds - 1))
        window.click("replay.round")
        window.wait_value("replay.round", str(rounds))
        self.quit(window)

    def test_a_file_that_is_no_trace_is_an_error_in_the_window(self):
        bad = self.path("bad.jsonl")
        with open(bad, "wb") as file:
            file.write(b'{"type": "header", "version": 1\xff\n')
        window = self.open("--replay", bad, model=None)
        window.wait(lambda ui: "bad.jsonl" in ui["values"].get("error", ""), "an error")

    def test_a_pipe_in_place_of_a_trace_is_an_error_in_the_window(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)  # nobody writes into it: reading would wait for good
        window = self.open("--replay", pipe, model=None)
        window.wait(lambda ui: "pipe: not a regular file" in ui["values"].get("error", ""),
                    "an error")
        self.quit(window)

    def test_a_model_that_cannot_be_loaded_is_an_error_in_the_window(self):
        bad = self.path("bad.gguf")
        with open(bad, "wb") as file:
            file.write(b"GGUF" + b"\xff" * 100)
        window = self.open(model=bad)
        ui = window.wait_value("model.state", "failed")
        self.assertIn("bad.gguf", ui["values"]["model.error"])
        self.assertEqual(window.stderr(), "")
        window.drop(DEMO)  # and it goes on
        window.wait_value("model.state", "ready")
        self.quit(window)

    def test_a_model_dropped_on_the_window_is_loaded(self):
        model = self.path("a model, renamed é.gguf")
        shutil.copy(DEMO, model)
        window = self.open(model=None)
        self.assertTrue(window.drop(model))
        ui = window.wait(lambda ui: ui["values"]["model.state"] == "ready"
                         and ui["values"]["model.path"] == model, "the dropped model")
        self.assertEqual(ui["values"]["chat.busy"], "no")

    def test_a_model_picked_from_the_list(self):
        models = self.path("models")
        os.mkdir(models)
        shutil.copy(DEMO, os.path.join(models, "picked.gguf"))
        window = self.open(model=None)
        window.key("ctrl+o")
        window.click("files.path")
        window.key("ctrl+a")
        window.type(models)
        window.key("Return")
        window.wait_value("files.row.0", "picked.gguf")
        window.click("files.row.0")
        window.click("files.open")
        ui = window.wait_value("model.state", "ready")
        self.assertEqual(os.path.basename(ui["values"]["model.path"]), "picked.gguf")


class Surroundings(WindowCase):
    def test_without_a_display(self):
        environment = {k: v for k, v in os.environ.items() if k not in gui_window.NO_DISPLAY}
        environment.update(home_environment(self.folder))
        said = subprocess.run([BINARY, "gui", "-m", DEMO], env=environment, timeout=TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((said.returncode, said.stdout), (1, b""))
        lines = said.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("DISPLAY", lines[0])
        self.assertIn("specbound chat", lines[0])

    def test_with_a_broken_library_of_windows(self):
        with open(self.path("libglfw.so.3"), "wb"):
            pass
        said = subprocess.run([BINARY, "gui", "-m", DEMO], timeout=TIMEOUT,
                              env={**os.environ, **home_environment(self.folder),
                                   "DISPLAY": ":0", "LD_LIBRARY_PATH": self.folder},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((said.returncode, said.stdout), (1, b""))
        lines = said.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("libglfw.so.3", lines[0])
        self.assertIn("specbound chat", lines[0])

    @unittest.skipUnless(shutil.which("readelf"), "SKIP: no readelf")
    def test_starting_needs_no_library_of_a_window(self):
        needed = subprocess.run(["readelf", "-d", BINARY], stdout=subprocess.PIPE,
                                check=True).stdout.decode()
        for library in ("libX11", "libglfw", "libGL", "libimgui"):
            self.assertNotIn(library, needed)

    def test_at_rest_it_does_nothing(self):
        window = self.ready()
        self.ask(window)
        window.move((640, 700))
        time.sleep(1.5)  # guesses of the layers are computed, the caret may blink
        shares = []
        while not shares or (shares[-1] >= 0.01 and len(shares) < 20):
            shares.append(gui_window.cpu_share(window.process.pid, 3))
        self.assertLess(shares[-1], 0.01, shares)


if __name__ == "__main__":
    if why_not := gui_window.missing():
        print("SKIP the desktop app's window:", why_not)
    unittest.main()
