#!/usr/bin/env python3
"""What the desktop shows of the app before it starts: its entry in the menu, its icon, and the
pictures of the docs. And whether the app's list of promises names tests that are there."""
import pathlib
import re
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from specbound_process import ROOT, FolderCase

DESKTOP = pathlib.Path(ROOT) / "packaging/desktop"


def png_size(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82"), path
    return struct.unpack(">II", data[16:24])


class DesktopFiles(FolderCase):
    def test_the_icon_is_drawn_in_every_size(self):
        subprocess.run([sys.executable, "-B", DESKTOP / "icon.py", self.folder], check=True)
        folder = pathlib.Path(self.folder)
        pictures = sorted(folder.glob("*/apps/specbound.png"))
        self.assertEqual(len(pictures), 4)
        for picture in pictures:
            width, height = map(int, picture.parts[-3].split("x"))
            self.assertEqual(png_size(picture), (width, height))
        root = xml.etree.ElementTree.parse(folder / "scalable/apps/specbound.svg").getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertGreater(len(root), 10)

    def test_the_entry_starts_the_app_with_that_icon(self):
        lines = (DESKTOP / "specbound.desktop").read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines[0], "[Desktop Entry]")
        entry = dict(line.split("=", 1) for line in lines[1:])
        self.assertEqual((entry["Type"], entry["Icon"], entry["Terminal"]),
                         ("Application", "specbound", "false"))
        self.assertEqual(entry["Exec"].split(), ["specbound", "gui", "%f"])

    def test_the_docs_show_the_pictures_that_the_script_takes(self):
        shown = {}
        for page in ("README.md", "docs/gui.md"):
            text = pathlib.Path(ROOT, page).read_text(encoding="utf-8")
            found = re.findall(r"!\[.+\]\((.*gui/screenshots/(\w+)\.png)\)", text)
            self.assertTrue(found, page)
            shown.update((name, pathlib.Path(ROOT, page).parent / path) for path, name in found)
        self.assertEqual(len(shown), 2)
        script = (DESKTOP / "screenshots.py").read_text(encoding="utf-8")
        for name, path in shown.items():
            self.assertEqual(png_size(path), (1280, 800))
            self.assertIn(f'"{name}"', script)


class Promises(unittest.TestCase):
    def test_each_names_tests_that_are_there(self):
        tests = pathlib.Path(ROOT, "tests")
        files = {path.stem: path.read_text(encoding="utf-8")
                 for folder in ("unit", "gui", "e2e") for path in (tests / folder).glob("*_test.*")}
        above, code = files["gui_test"].split("\nimport ", 1)
        files["gui_test"] = code  # its list would name itself
        promises = re.findall(r"^#   .+$", above, re.MULTILINE)
        self.assertGreater(len(promises), 50)
        for promise in promises:
            named = re.findall(r'(\w+_test) "(.+?)"', promise)
            self.assertTrue(named or "tests/" in promise, promise)
            for file, name in named:
                self.assertIn(name, files[file], promise)


if __name__ == "__main__":
    unittest.main()
