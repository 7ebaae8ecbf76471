#!/usr/bin/env python3
"""specbound ppl, from the outside: the perplexity that golden logits give (Hugging Face
transformers', tests/golden/make_golden.py), what is scored of which file, JSON, errors, Ctrl-C."""
import json
import lzma
import math
import os
import re
import signal
import struct
import time
import unittest

from gguf_file import GgufFile
from specbound_process import DEMO, ROOT, STORIES, FolderCase, TIMEOUT, specbound, start

GOLDEN = os.path.join(ROOT, "tests/golden")
DIALOGUES = os.path.join(ROOT, "tests/data/dialogue-valid/dialogue-valid.jsonl")
SPECBOUND_GPU = os.environ.get("SPECBOUND_SIMT_BINARY")
STORY = "Once upon a time, there was a little girl named Lily. She loved to play outside. " * 12
LINE = re.compile(r"^(prefill|decode) +perplexity ([\d.]+) \+- ([\d.]+)  ([\d.]+) \+- ([\d.]+) "
                  r"nats a token  [\d.]+ tok/s$", re.M)


def golden_case(name):
    """ids, and the log-softmax of the logits behind each (positions, vocabulary)."""
    with open(os.path.join(GOLDEN, "golden.json")) as file:
        case = next(c for c in json.load(file)["cases"] if c["name"] == name)
    with open(os.path.join(GOLDEN, name + ".hf.f32"), "rb") as file:
        logits = [z for z, in struct.iter_unpack("<f", file.read())]
    size = case["vocab_size"]
    rows = [logits[i:i + size] for i in range(0, len(logits), size)]
    return case["ids"], [[z - math.log(sum(map(math.exp, row))) for z in row] for row in rows]


def character(token):
    return chr(0x4E00 + token)


def with_characters(name):
    """The golden model with a character for each token, so that a text can be any ids."""
    model = GgufFile(os.path.join(GOLDEN, name + ".gguf"))
    element, tokens = model.entries["tokenizer.ggml.tokens"][1]
    tokens = tokens[:3] + [character(i).encode() for i in range(3, len(tokens))]
    model.put("tokenizer.ggml.tokens", tokens)
    model.entries["tokenizer.ggml.add_space_prefix"] = 7, False
    model.entries["tokenizer.ggml.add_bos_token"] = 7, False
    return model


class PplCase(FolderCase):
    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def measured(self, *arguments, **options):
        """stdout, and the JSON."""
        path = self.path("ppl.json")
        result = specbound("ppl", "-t", "1", *arguments, "--json", path, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path) as file:
            return result.stdout.decode(), json.load(file)


class Golden(PplCase):
    """Against an implementation that is not ours."""

    def test_a_whole_text_and_a_window_through_both_paths(self):
        ids, log_p = golden_case("llama_gqa")
        model = self.write("golden.gguf", with_characters("llama_gqa").bytes())
        text = self.write("text.txt", "".join(map(character, ids)))
        # Windows after the first have another context than the golden logits.
        for flags, scored in ((("--whole",), range(1, len(ids))),
                              (("-c", "64", "--chunks", "1"), range(33, 64)),
                              (("-c", "65", "--chunks", "1"), range(33, 65)),
                              (("-c", "64", "--stride", "20", "--chunks", "1"), range(44, 64))):
            nll = [-log_p[i - 1][ids[i]] for i in scored]
            mean = sum(nll) / len(nll)
            error = math.sqrt((sum(x * x for x in nll) / len(nll) - mean ** 2) / (len(nll) - 1))
            _, data = self.measured("-m", model, "-f", text, *flags, "--through", "both")
            self.assertEqual(data["scored"], len(nll), flags)
            self.assertEqual(data["differing"], 0)
            self.assertEqual([r["through"] for r in data["results"]], ["prefill", "decode"])
            for result in data["results"]:
                self.assertAlmostEqual(result["nll"] / mean, 1, delta=1e-5)
                self.assertAlmostEqual(result["perplexity"] / math.exp(mean), 1, delta=1e-4)
                self.assertAlmostEqual(result["nll_error"] / error, 1, delta=1e-4)
                self.assertAlmostEqual(result["perplexity_error"] / (error * math.exp(mean)), 1,
                                       delta=1e-4)


class Figures(PplCase):
    def test_both_paths_print_and_store_the_same(self):
        story = self.write("story.txt", STORY)
        text, data = self.measured("-m", STORIES, "-f", story, "-c", "96", "--through", "both")
        lines = LINE.findall(text)
        self.assertEqual([line[0] for line in lines], ["prefill", "decode"])
        self.assertEqual(lines[0][1:], lines[1][1:])
        self.assertIn("the same bits for every token through both", text)
        self.assertIn("windows of 96 tokens, end to end, each begun with BOS; scored: those from "
                      "number 49 on", text)
        self.assertEqual(data["window"], 96)
        self.assertTrue(data["complete"])
        self.assertEqual(len(data["windows"]), 3)
        for window in data["windows"]:
            self.assertEqual((window["tokens"], window["scored"]), (96, 47))
            self.assertEqual(window["nll_sum_prefill"], window["nll_sum_decode"])
        self.assertEqual(data["scored"], 47 * len(data["windows"]))
        total = sum(w["nll_sum_decode"] for w in data["windows"])
        self.assertAlmostEqual(data["results"][0]["nll"], total / data["scored"], places=9)
        self.assertAlmostEqual(data["results"][0]["perplexity"], math.exp(total / data["scored"]),
                               places=6)
        self.assertEqual(float(lines[0][1]), round(data["results"][0]["perplexity"], 4))

        # Fewer windows are the first of them, through one path alone as well, from stdin too.
        for through in ("prefill", "decode"):
            _, few = self.measured("-m", STORIES, "-c", "96", "--chunks", "2", "--through", through,
                                   "-f", "-", stdin=STORY.encode())
            self.assertEqual([w["nll_sum_" + through] for w in few["windows"]],
                             [w["nll_sum_decode"] for w in data["windows"][:2]])
            self.assertIsNone(few["differing"])

    def test_dialogues_one_by_one(self):
        with open(DIALOGUES, "rb") as file:
            lines = file.read().splitlines()[:3]
        path = self.write("three.jsonl", b"\n".join(lines + [b"{"]))
        text, data = self.measured("-m", DEMO, "-f", path)
        self.assertIn("3 texts, ", text)
        self.assertEqual((len(data["texts"]), data["skipped_lines"], data["window"]), (3, 1, None))
        self.assertEqual(data["scored"], sum(t["tokens"] - 1 for t in data["texts"]))
        # What was held out of training; a random model has 4096.
        self.assertLess(data["results"][0]["perplexity"], 10)
        alone = self.write("one.jsonl.xz", lzma.compress(lines[1]))
        self.assertEqual(self.measured("-m", DEMO, "-f", alone)[1]["texts"], data["texts"][1:2])
        cut = self.measured("-m", DEMO, "-f", path, "-c", "40", "--chunks", "2")[1]
        self.assertEqual((cut["cut"], cut["scored"]), (2, 78))

    @unittest.skipUnless(SPECBOUND_GPU, "SKIP a GPU's perplexity: no specbound_simt")
    def test_a_gpu_agrees(self):
        flags = ("-m", STORIES, "-f", self.write("story.txt", STORY), "-c", "40", "--chunks", "1",
                 "--through", "both")
        cpu = self.measured(*flags, "--device", "cpu")[1]["results"]
        gpu = self.measured(*flags, "--device", "cuda", binary=SPECBOUND_GPU)[1]["results"]
        for mine, other in zip(gpu, cpu):  # F32 there, FP16 here
            self.assertNotEqual(mine["nll"], other["nll"])
            self.assertAlmostEqual(mine["nll"], other["nll"], delta=1e-3)


class Errors(PplCase):
    def refused(self, status, says, *arguments, stdin=b""):
        result = specbound("ppl", "-m", STORIES, *arguments, stdin=stdin)
        self.assertEqual(result.returncode, status, (arguments, result.stderr))
        self.assertEqual(result.stdout, b"")
        self.assertIn(says, result.stderr.decode().splitlines()[-1])
        self.assertTrue(result.stderr.decode().splitlines()[-1].startswith("specbound ppl: "))

    def test_texts_that_cannot_be_scored(self):
        self.refused(1, "expected a text of at least two tokens, found none", "-f", os.devnull,
                     "--whole")
        self.refused(1, "expected at least 512 tokens, one window, found ", stdin=b"a fox")
        self.refused(1, "cannot open", "-f", self.path("none.txt"))
        self.refused(1, "cannot read", "-f", self.folder)
        self.refused(1, "expected JSON lines", "-f", self.write("a.jsonl", b"\xff\n[3]\n"))
        self.refused(1, "no tokenizer.chat_template", "-f", self.write(
            "b.jsonl", '[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]'))

    def test_flags_that_make_no_sense(self):
        story = ("-f", self.write("story.txt", STORY))
        self.refused(2, "--through: expected prefill, decode or both", *story, "--through", "cpu")
        self.refused(2, "--chunks: expected a whole number from 1", *story, "--chunks", "0")
        self.refused(2, "--stride: expected less than the window of 64", *story, "-c", "64",
                     "--stride", "64")
        self.refused(2, "--stride is for windows", *story, "--whole", "--stride", "8")
        self.refused(2, "-c: expected a context of at least 3 tokens", *story, "-c", "2")
        self.refused(2, "--json: expected a file", *story, "--json", "-")
        self.refused(1, "cannot write", *story, "--json", "/no/such/folder/a.json")

    def test_a_model_whose_logits_are_no_numbers(self):
        model = GgufFile(STORIES)
        norm = model.tensors["output_norm.weight"]
        norm.data = struct.pack("<f", math.nan) + norm.data[4:]
        broken = self.write("broken.gguf", model.bytes())
        for through in ("prefill", "decode"):
            result = specbound("ppl", "-m", broken, "-c", "32", "--through", through,
                               stdin=STORY.encode())
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            self.assertIn(b"window 1, token 17: expected a probability, found logits that are no "
                          b"finite numbers", result.stderr)

    def interrupted(self, wait, path):
        """(stdout, stderr) of a measurement that Ctrl-C ends so long after it began."""
        with start("ppl", "-m", DEMO, "-t", "1", "-c", "64", "--json", path) as process:
            process.stdin.write(STORY.encode() * 600)
            process.stdin.close()
            while b"backend:" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            said, shown = process.stderr.read().decode(), process.stdout.read().decode()
            self.assertEqual(process.wait(TIMEOUT), 1)
        return shown, said

    def test_ctrl_c_gives_what_is_there(self):
        path = self.path("ppl.json")
        for wait in (0, 1, 5, 20):  # until a window was scored
            shown, said = self.interrupted(wait, path)
            if "interrupted before the first window was scored" not in said:
                break
            self.assertEqual(shown, "")
        done, of = map(int, re.search(r"interrupted after (\d+) of (\d+) windows", said).groups())
        self.assertLess(done, of)
        self.assertIn(f"{done} window", shown)
        with open(path) as file:
            data = json.load(file)
        self.assertEqual((data["complete"], len(data["windows"])), (False, done))


if __name__ == "__main__":
    unittest.main()
