#!/usr/bin/env python3
"""Whether the tree can be configured wherever it lies: below folders that are called like its own,
and under names with blanks and with what regular expressions mean something by."""
import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from specbound_process import ROOT, FolderCase

FLAGS = ["-G", "Ninja", "-D", "SPECBOUND_TESTS=OFF", "-D", "SPECBOUND_CUDA=OFF", "-D",
         "SPECBOUND_GUI=OFF", "-D", "SPECBOUND_UNITY=OFF"]


class CheckoutPath(FolderCase):
    def test_every_source_is_in_its_library(self):
        tree = pathlib.Path(self.path("src/tools/c++ (new)/src/capi/spec bound"))
        for folder in ("src", "packaging"):
            shutil.copytree(os.path.join(ROOT, folder), tree / folder)
        shutil.copy(os.path.join(ROOT, "CMakeLists.txt"), tree)
        build = tree / "build"
        done = subprocess.run(["cmake", "-S", tree, "-B", build, *FLAGS], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)

        compiled = collections.defaultdict(set)  # source -> the libraries that have it
        for entry in json.loads((build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            library = re.search(r"CMakeFiles/(\w+)\.dir/", words[words.index("-o") + 1])[1]
            compiled[str(pathlib.Path(entry["file"]).relative_to(tree))].add(library)
        for source, library in (
                ("src/decode/round.cpp", "core"), ("src/engine/cpu/rope.cpp", "core"),
                ("src/library/heads_path.cpp", "runtime"), ("src/train/gemm_avx2.cpp", "training"),
                ("src/repl/set_command.cpp", "tools"), ("src/cli/info.cpp", "cli"),
                ("src/cli/main.cpp", "main")):
            self.assertEqual(compiled[source], {f"specbound_{library}"}, source)
        self.assertNotIn("src/runtime/gpu_cuda.cpp", compiled)
        self.assertEqual({s: t for s, t in compiled.items() if len(t) != 1}, {})

        linked = subprocess.run(["ninja", "-C", build, "-t", "commands", "specbound_shared"],
                                check=True, capture_output=True, text=True).stdout
        script = [word for word in shlex.split(linked) if "version-script" in word]
        self.assertEqual(script, [f"-Wl,--version-script={tree}/src/capi/exports.map"])


if __name__ == "__main__":
    unittest.main()
