#!/usr/bin/env python3
"""Speculation on every architecture and 4-bit weights: the bits of verify, the lens, trained heads;
on the CPU and on the GPU engine, which the SIMT executor runs. The models are the random ones of
tests/golden."""
import json
import os
import unittest

from specbound_process import DEMO, ROOT, FolderCase, specbound

SIMT = os.environ.get("SPECBOUND_SIMT_BINARY")
MODELS = ("qwen3moe", "gemma", "gemma2", "gemma3", "phi3", "smollm3", "ernie4_5", "mistral_window",
          "llama_yarn", "llama_gqa_q4_0")
# Words of the models' vocabularies, and letters, which are tokens too.
TEXT = " ".join(f"ab w{7 + i * i % 31} a w{11 + i % 7}" for i in range(400))
PROMPT = ("--raw", "-p", "a w9 ab")
ASK = (*PROMPT, "--ignore-eos")


def golden(name):
    return os.path.join(ROOT, "tests/golden", name + ".gguf")


class Architectures(FolderCase):
    def run_all(self, check, models=MODELS):
        for name in models:
            with self.subTest(name):
                check(name, golden(name))

    def finished(self, *arguments, **options):
        result = specbound(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def verified(self, name, model, **options):
        path = self.path(name + ".json")
        self.finished("verify", "-m", model, *ASK, "-n", "24", "--bits", "--speculator", "forced",
                      "--temps", "0,0.8", "--seeds", "1", "--w-max", "4", "-t", "1", "--json", path,
                      **options)
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.assertTrue(data["identical"])
        self.assertEqual(data["tokens"], 48)
        self.assertGreater(data["compression_rate"], 1.1)

    def test_verify_compares_every_bit(self):
        self.run_all(self.verified)

    def test_verify_on_the_demo_model_in_q4_k(self):
        model = self.path("q4_k.gguf")
        self.finished("quantize", DEMO, model, "q4_k")
        self.verified("q4_k", model)

    @unittest.skipUnless(SIMT, "SKIP: no SIMT executor in this build")
    def test_verify_on_the_gpu_engine(self):
        # The engine's own tests run all of them; here one of each of its differences.
        self.run_all(lambda name, model: self.verified(name, model, binary=SIMT),
                     ("qwen3moe_q8_0", "gemma2", "gemma3", "phi3", "llama_gqa_q4_0"))

    def test_the_lens_ends_in_the_greedy_reply(self):
        def check(name, model):
            text = self.finished("run", "-m", model, *PROMPT, "-n", "8", "--temp", "0").stdout
            path = self.path(name + ".lens.json")
            self.finished("lens", "-m", model, *PROMPT, "-n", "8", "--json", path)
            with open(path, encoding="utf-8") as file:
                tokens = [token["text"] for token in json.load(file)["tokens"]]
            self.assertEqual("".join(tokens).strip(), text.decode().strip())
        self.run_all(check)

    def test_trained_heads_draft_and_change_no_byte(self):
        with open(self.path("text.txt"), "w", encoding="utf-8") as file:
            file.write(TEXT)

        def check(name, model):
            heads = self.path(name + ".heads.gguf")
            self.finished("train-heads", "-m", model, "-o", heads, "--data", self.path("text.txt"),
                          "--epochs", "2", "--layers", "0-1", "--shortlist", "32", "--no-tune")
            ask = ("run", "-m", model, *ASK, "-n", "24", "--temp", "0.7", "-s", "3")
            plain = self.finished(*ask, "--spec", "off").stdout
            stats = self.path("stats.json")
            for kind in ("chained", "folded"):
                result = self.finished(*ask, "--heads", heads, "--head", kind, "--tau", "0",
                                       "--w-max", "4", "--controller", "off", "--stats-json", stats)
                self.assertEqual(result.stdout, plain)
                with open(stats, encoding="utf-8") as file:
                    self.assertGreater(json.load(file)["drafted_tokens"], 10)
        self.run_all(check)


if __name__ == "__main__":
    unittest.main()
