#!/usr/bin/env python3
"""Models in several files, named and cut as llama-gguf-split does it: the same model to every
command, and one clear line where a file is missing or not the first."""
import json
import os
import shutil
import unittest

from gguf_file import GgufFile
from specbound_process import DEMO, LENS, STORIES, FolderCase, specbound

U16, I32 = 2, 5


def cut(path, to, count, first_without_tensors=False):
    """Writes the files; returns their paths."""
    whole = GgufFile(path)
    names = list(whole.tensors)
    holders = count - first_without_tensors
    paths = []
    for no in range(count):
        part = GgufFile(path)
        place = no - first_without_tensors
        mine = [n for i, n in enumerate(names) if i * holders // len(names) == place]
        part.tensors = {name: whole.tensors[name] for name in mine}
        if no > 0:
            part.entries = {}
        part.entries["split.no"] = U16, no
        part.entries["split.count"] = U16, count
        part.entries["split.tensors.count"] = I32, len(names)
        paths.append(f"{to}-{no + 1:05}-of-{count:05}.gguf")
        with open(paths[-1], "wb") as file:
            file.write(part.bytes())
    return paths


class Split(FolderCase):
    def check(self, *arguments):
        result = specbound(*arguments)
        self.assertEqual((result.returncode, b"error" in result.stderr), (0, False), result.stderr)
        return result.stdout

    def refuse(self, path, *says):
        for command in (("info", path), ("run", "-m", path, "-p", "a", "--raw"),
                        ("tokenize", "-m", path, "-p", "a")):
            result = specbound(*command)
            self.assertEqual((result.returncode, result.stdout), (1, b""), command)
            text = result.stderr.decode()
            self.assertEqual(text.count("\n"), 1, text)
            for part in says:
                self.assertIn(part, text)

    def test_every_command_takes_the_first_file_for_the_model(self):
        for count, bare in ((2, False), (3, True)):
            first, *_ = cut(STORIES, self.path(f"stories{count}"), count, bare)
            ask = ("--raw", "-p", "Once upon a time", "-n", "24", "--temp", "0.8", "--seed", "3")
            for name, *rest in (("run", *ask), ("run", *ask, *LENS),
                                ("tokenize", "-p", "Once upon a time")):
                self.assertEqual(self.check(name, "-m", first, *rest),
                                 self.check(name, "-m", STORIES, *rest))
            self.check("verify", "--raw", "-m", first, "-p", "Once", "-n", "8", "--seeds", "1",
                       "--temps", "0", "--bits", "-t", "1")

    def test_heads_lie_beside_the_first_file(self):
        first, *_ = cut(DEMO, self.path("demo"), 2)
        shutil.copy(os.path.splitext(DEMO)[0] + ".heads.gguf",
                    self.path("demo-00001-of-00002.heads.gguf"))
        ask = ("-p", "I need a table for two tonight.", "-n", "16", "--temp", "0",
               "--controller", "off")
        stats = self.path("stats.json")
        self.assertEqual(self.check("run", "-m", first, *ask, "--stats-json", stats),
                         self.check("run", "-m", DEMO, *ask))
        with open(stats, encoding="utf-8") as file:
            self.assertGreater(json.load(file)["drafted_tokens"], 0)

    def test_quantize_makes_one_file_of_them(self):
        first, second = cut(STORIES, self.path("stories"), 2)
        one, other = self.path("one.gguf"), self.path("other.gguf")
        self.check("quantize", first, one, "Q8_0")
        self.check("quantize", STORIES, other, "Q8_0")
        with open(one, "rb") as a, open(other, "rb") as b:
            self.assertEqual(a.read(), b.read())
        result = specbound("quantize", second, self.path("none.gguf"), "Q8_0")
        self.assertEqual(result.returncode, 1)
        self.assertIn("open " + first, result.stderr.decode())
        self.assertFalse(os.path.exists(self.path("none.gguf")))

    def test_info_tells_of_the_files_and_of_the_whole(self):
        paths = cut(STORIES, self.path("stories"), 3)
        found = json.loads(self.check("info", paths[0], "--json"))
        whole = json.loads(self.check("info", STORIES, "--json"))
        self.assertEqual([part["file"] for part in found["files"]], paths)
        self.assertEqual([part["bytes"] for part in found["files"]],
                         [os.path.getsize(path) for path in paths])
        self.assertEqual(sum(part["tensors"] for part in found["files"]),
                         whole["totals"]["tensors"])
        self.assertEqual(found["totals"], whole["totals"])
        self.assertEqual(found["config"], whole["config"])
        self.assertTrue(found["runs"])
        self.assertNotIn("files", whole)
        self.assertIn("in 3 files", self.check("info", paths[0]).decode())

    def test_a_file_that_is_missing_or_not_the_first(self):
        paths = cut(STORIES, self.path("stories"), 3)
        self.refuse(paths[1], paths[1], "number 2", "open " + paths[0])
        os.rename(paths[2], self.path("away"))
        self.refuse(paths[0], paths[2], "file 3 of 3", "No such file")
        with open(paths[2], "wb") as file:  # cut short
            with open(self.path("away"), "rb") as all_of_it:
                file.write(all_of_it.read()[:-100])
        self.refuse(paths[0], paths[2], "cut short", "file 3 of 3")

    def test_a_tensor_in_two_files(self):
        paths = cut(STORIES, self.path("stories"), 2)
        second = GgufFile(paths[1])
        twice = next(iter(GgufFile(paths[0]).tensors.items()))
        second.tensors[twice[0]] = twice[1]
        with open(paths[1], "wb") as file:
            file.write(second.bytes())
        self.refuse(paths[0], paths[1], f"'{twice[0]}'", "earlier")


if __name__ == "__main__":
    unittest.main()
