#!/usr/bin/env python3
"""Drafts of other kinds than gpu_test's on a GPU, which is the SIMT executor: the bits of plain
decoding, by heads that were learnt on the CPU in a moment and by drafters that need none."""
import json
import os
import subprocess
import unittest

from gguf_file import GgufFile, as_f16
from gpu_test import SIMT, Case, at, gpu, make_models, tearDownModule, write  # noqa: F401
from run_test import built_for_speed
from specbound_process import DEMO, STORIES, specbound

TEXT = "red blue red green red blue red green red"


def setUpModule():
    if SIMT is None:
        raise unittest.SkipTest("no specbound_simt: SPECBOUND_SIMT_BINARY names it")
    make_models()
    write("text.txt", (TEXT + ". ").encode() * 40)


class Drafters(unittest.TestCase):
    def verify(self, *drafter):
        result = gpu("verify", "--bits", "-m", at("two.gguf"), "--ignore-eos", "--raw", "-p", TEXT,
                     "-n", "6" if built_for_speed() else "3", "--temps", "0", "--seeds", "1",
                     "--json", at("found.json"), *drafter)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(at("found.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertTrue(found["identical"])
        self.assertTrue(found["backend"].startswith("CUDA ("))
        self.assertGreater(found["drafted_tokens"], 0, drafter)

    def test_heads(self):
        for kinds, layers, drafters in (
                ("layer", (), (("--head", "layer"),)),
                ("medusa,hydra", (), (("--speculator", "medusa"), ("--speculator", "hydra"))),
                ("eagle", (), (("--speculator", "eagle"),)),
                ("kangaroo", ("--layers", "1"), (("--speculator", "kangaroo", "--tau", "0"),))):
            heads = at(f"{kinds}.gguf")
            trained = specbound("train-heads", "-m", at("two.gguf"), "--data", at("text.txt"),
                                "--kinds", kinds, *layers, "--epochs", "2", "--shortlist", "64",
                                "--no-tune", "-c", "128", "--max-tokens", "300", "-o", heads)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            for drafter in drafters:
                self.verify("--heads", heads, *drafter)

    def test_those_that_need_no_heads(self):
        store = at("text.datastore")
        built = specbound("datastore", "build", "-m", at("two.gguf"), "--data", at("text.txt"),
                          "-o", store)
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertTrue(os.path.exists(store))
        for drafter in (("lookahead",), ("lookahead", "--lookahead", "5,3,3"),
                        ("rest", "--datastore", store), ("draft-verify", "--tau", "0"),
                        ("ngram",)):
            self.verify("--speculator", *drafter)


class DraftModel(Case):
    """It runs where the model has come to run, and as far as the GPU can."""
    ASK = ("run", "-m", DEMO, "-p", "Hi", "-n", "1", "--temp", "0", "--controller", "off")

    def bytes_of(self, model):
        parts = json.loads(gpu("info", model, "--json").stdout)["gpu"]["bytes"]
        return parts["total"] - parts["exit_heads"], parts["kv_cache"]

    def test_beside_a_model_that_does_not_fit(self):
        memory = self.bytes_of(DEMO)[0] // 4
        alone = self.ran(gpu(*self.ASK, MEMORY=memory), b"\nbackend: CPU (")
        result = self.ran(gpu(*self.ASK, "-md", DEMO, MEMORY=memory), b"\nbackend: CPU (")
        self.assertIn(b"\ndraft backend: CPU (", result.stderr)
        self.assertEqual(result.stdout, alone.stdout)

    def test_of_which_no_layer_fits_beside_some_of_the_model(self):
        write("f16.gguf", as_f16(GgufFile(DEMO)).bytes())
        least, most = 0, self.bytes_of(DEMO)[0]  # of the memory that one layer of the model takes
        while most - least > 1:
            middle = (least + most) // 2
            plan = json.loads(gpu("info", DEMO, "--json", MEMORY=middle).stdout)["gpu"]
            least, most = (least, middle) if plan["layers"] > 0 else (middle, most)
        result = self.ran(gpu(*self.ASK, "-md", at("f16.gguf"), MEMORY=most), b" 1 of 16 layers) +")
        self.assertIn(b"\ndraft backend: CPU (", result.stderr)
        self.assertRegex(result.stderr, rb"\ndraft the model does not fit on the GPU .*every layer")

    def test_that_the_kernels_cannot_run(self):
        result = self.ran(gpu("run", "--raw", "-m", STORIES, "-md", at("odd.gguf"), "-p", "", "-n",
                              "2", "--temp", "0", "--controller", "off"), b"\nbackend: CUDA (")
        self.assertIn(b"\ndraft backend: CPU (", result.stderr)
        self.assertIn(b"\ndraft the GPU kernels cannot run this model: its rows", result.stderr)

    def test_conversations_leave_its_place(self):
        model, kv = self.bytes_of(DEMO)
        told = b""
        with subprocess.Popen(
                [SIMT, "serve", "-m", DEMO, "-md", DEMO, "--port", "0", "--controller", "off"],
                stderr=subprocess.PIPE,
                env={**os.environ, "SPECBOUND_SIMT_MEMORY": str(2 * model + 6 * kv)}) as server:
            for line in server.stderr:
                told += line
                if line.startswith(b"listening on"):
                    server.terminate()
        if b"this build has no server" in told:
            self.skipTest("this build has no server")
        self.assertIn(b"draft backend: CUDA (", told)
        self.assertIn(b"conversations: 4 of 8 go on where they were: memory has no room for more",
                      told)


if __name__ == "__main__":
    unittest.main()
