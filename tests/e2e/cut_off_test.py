#!/usr/bin/env python3
"""What a download that was cut off leaves in the cache: list shows it, rm deletes it."""
import json
import os
import unittest

from pull_test import FILE, NAME, HubCase, has_libcurl
from specbound_process import STORIES
from split_test import cut


@unittest.skipUnless(has_libcurl(), "SKIP models by name: libcurl is not installed")
class CutOff(HubCase):
    def cut_off(self, name, n_bytes):
        self.hub.cut = [n_bytes, 0, 0, 0, 0]
        self.refuse("pull", name, says=("are kept",))
        self.hub.cut = []

    def listed(self):
        return [(m["name"], m["bytes"], m["whole"])
                for m in json.loads(self.run_it("list", "--json").stdout)]

    def test_it_is_seen_and_goes(self):
        self.cut_off(NAME, 300000)
        self.assertEqual(self.listed(), [(NAME + ":Q4_K_M", 300000, False)])
        [_, line] = self.run_it("list").stdout.decode().splitlines()
        self.assertRegex(line, NAME + ":Q4_K_M +0.3 MB  Q4_K_M .* not whole: pull goes on, rm ")
        self.refuse("rm", NAME + ":Q8_0", "--yes", status=2, says=("specbound list",))
        for name in (NAME, NAME + ":q4_k_m", NAME + ":" + FILE):
            removed = self.run_it("rm", name, "--yes")
            self.assertEqual(removed.stdout, f"removed {NAME}:Q4_K_M, 0.3 MB\n".encode(),
                             removed.stderr)
            self.assertEqual(os.listdir(self.models), [])
            self.cut_off(NAME, 300000)
        self.same(self.pull())
        self.assertEqual(self.listed(), [(NAME + ":Q4_K_M", len(self.stories), True)])

    def test_what_is_whole_stays(self):
        self.hub.files["own/stories"]["b/stories-Q8_0.gguf"] = self.stories
        whole = self.pull()
        self.cut_off(NAME + ":Q8_0", 200000)
        self.assertEqual(self.listed(), [(NAME + ":Q4_K_M", len(self.stories), True),
                                         (NAME + ":Q8_0", 200000, False)])
        removed = self.run_it("rm", NAME + ":Q8_0", "--yes")
        self.assertEqual(removed.stdout, f"removed {NAME}:Q8_0, 0.2 MB\n".encode(), removed.stderr)
        self.assertEqual(self.left(), ["own/stories/" + FILE])
        self.same(whole)
        self.assertEqual(self.listed(), [(NAME + ":Q4_K_M", len(self.stories), True)])

    def test_a_split_model_goes_with_the_parts_that_came(self):
        self.hub.files["own/stories"] = {}
        for path in cut(STORIES, self.path("s-Q4_K_M"), 3):
            with open(path, "rb") as file:
                self.hub.files["own/stories"][os.path.basename(path)] = file.read()
        first = len(self.hub.files["own/stories"]["s-Q4_K_M-00001-of-00003.gguf"])
        for came in (100, 0):
            self.hub.cut = [1 << 30, came, 0, 0, 0, 0]
            self.refuse("pull", NAME, says=())
            self.hub.cut = []
            self.assertEqual(self.listed(), [(NAME + ":Q4_K_M", first + came, False)])
            self.run_it("rm", NAME, "--yes")
            self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
