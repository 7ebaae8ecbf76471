#!/usr/bin/env python3
"""K/V of 8 bits (--kv int8), from the outside: the same text whatever drafts, threads and kernels,
half of the memory, and where it does not run."""
import json
import os
import unittest

from specbound_process import DEMO, STORIES, FolderCase, specbound

ASK = ("run", "-m", DEMO, "-p", "I need a table for two tonight.", "-n", "60", "-s", "5",
       "--ignore-eos")


class KvInt8(FolderCase):
    def text(self, *more, **options):
        result = specbound(*ASK, "--kv", "int8", *more, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_text_does_not_depend_on_drafts_threads_or_kernels(self):
        for temp in ("0", "0.8"):
            plain = self.text("--temp", temp, "--spec", "off", "-t", "1")
            self.assertGreater(len(plain), 60)
            for more in (("--spec", "on"), ("-t", "2"), ("-t", "3"), ("--isa", "portable"),
                         ("--speculator", "lookahead"), ("--head", "lens", "--tau", "0.2"),
                         ("-md", DEMO)):
                self.assertEqual(self.text("--temp", temp, *more), plain, (temp, more))

    def test_verify_finds_no_difference_in_any_bit(self):
        for more in (("--raw", "-m", STORIES, "-p", "Once upon a time", "--w-max", "16"),
                     ("-m", DEMO, "-p", "Play some jazz.")):
            path = self.path("result.json")
            result = specbound("verify", *more, "--kv", "int8", "--bits", "-n", "70", "--temps",
                               "0,1", "--seeds", "1", "--speculator", "forced", "--ignore-eos",
                               "--json", path)
            self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            self.assertTrue(data["identical"])
            self.assertGreater(data["kv_compared"], 500)
            self.assertGreater(data["compression_rate"], 1.5)

    def test_it_takes_17_thirty_seconds_and_says_so(self):
        config = json.loads(specbound("info", "-m", DEMO, "--json").stdout)["config"]
        self.assertEqual(config["kv_cache_int8_bytes_per_token"] * 32,
                         config["kv_cache_bytes_per_token"] * 17)
        self.assertIn(b" with --kv int8", specbound("info", "-m", DEMO).stdout)
        half, whole = (specbound(*ASK, "-c", "640", "-n", "1", "--kv", kv).stderr.decode()
                       for kv in ("int8", "fp16"))
        size = 640 * config["kv_cache_bytes_per_token"] / 1e6
        self.assertIn("K/V int8), ", half)
        self.assertIn(f"K/V {size * 17 / 32:.1f} MB", half)
        self.assertNotIn("K/V int8", whole)
        self.assertIn(f"K/V {size:.1f} MB", whole)

    def test_fp16_is_the_default(self):
        self.assertEqual(specbound(*ASK, "--kv", "fp16").stdout, specbound(*ASK).stdout)

    def test_it_is_a_setting(self):
        config = self.path("config")
        with open(config, "w", encoding="utf-8") as file:
            file.write("kv = int8\n")
        result = specbound(*ASK, "--config", config)
        self.assertIn(b"K/V int8", result.stderr)
        self.assertEqual(result.stdout, self.text())
        self.assertIn(b"K/V int8", specbound(*ASK, environment={"SPECBOUND_KV": "int8"}).stderr)

    def test_perplexity_is_near_that_of_fp16(self):
        figures = {}
        for kv in ("fp16", "int8"):
            path = self.path(kv)
            result = specbound("ppl", "-m", STORIES, "-f", os.path.join(
                os.path.dirname(STORIES), "stories260K.md"), "--kv", kv, "--through", "both",
                "--json", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            self.assertEqual(data["differing"], 0)  # prefill's bits are decoding's
            figures[kv] = data["results"][0]["perplexity"]
        self.assertNotEqual(figures["int8"], figures["fp16"])
        self.assertLess(abs(figures["int8"] / figures["fp16"] - 1), 0.02)

    def test_what_is_refused(self):
        for value in ("", "int4", "FP16", "f16", "q8_0", "int8 ", "8"):
            result = specbound(*ASK, "--kv", value)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"--kv: expected fp16 or int8, found", result.stderr)
        result = specbound("bench", "--shape", "1b", "--kv", "int8")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--kv", result.stderr)


if __name__ == "__main__":
    unittest.main()
