#!/usr/bin/env python3
"""Drafts of other kinds than gpu_test's on a GPU, which is the SIMT executor: the bits of plain
decoding, by heads that were learnt on the CPU in a moment and by drafters that need none."""
import json
import os
import unittest

from gpu_test import SIMT, at, gpu, make_models, tearDownModule, write  # noqa: F401
from run_test import built_for_speed
from specbound_process import specbound

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


if __name__ == "__main__":
    unittest.main()
