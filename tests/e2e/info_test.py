#!/usr/bin/env python3
"""specbound info, from the outside: what it says of models, vocabularies and other files."""
import json
import os
import tempfile
import unittest

from gguf_file import GgufFile
from heads_file import demo_fingerprint, heads_bytes
from specbound_process import DEMO, ROOT, STORIES, specbound

VOCABULARIES = os.path.join(ROOT, "tests/data/tokenizer")


def info_json(path, *flags):
    result = specbound("info", path, "--json", *flags)
    assert (result.returncode, result.stderr) == (0, b""), result
    return json.loads(result.stdout)


class Info(unittest.TestCase):
    def test_a_model_that_runs(self):
        found = info_json(DEMO, "--tensors")
        self.assertTrue(found["runs"])
        self.assertIsNone(found["reason"])
        self.assertTrue(found["text"])
        self.assertEqual(found["bytes"], os.path.getsize(DEMO))
        config = found["config"]
        self.assertEqual([config[key] for key in ("n_layers", "dim", "ffn_dim", "n_heads",
                                                  "n_kv_heads", "head_dim", "vocab_size")],
                         [16, 256, 704, 4, 2, 64, 4096])
        self.assertEqual(found["totals"]["parameters"], 12853504)  # as the model card says
        self.assertEqual(len(found["tensors"]), 146)

    def test_people_read_the_same(self):
        text = specbound("info", STORIES).stdout.decode()
        for part in ("runs here   yes", "text        yes", "layers      5", "F32 "):
            self.assertIn(part, text)
        self.assertEqual(specbound("info", "-m", STORIES).stdout.decode(), text)

    def test_what_becomes_int8_and_what_stays(self):
        golden = os.path.join(ROOT, "tests/golden")
        path = os.path.join(golden, "llama_converted.gguf")
        found = info_json(path)
        self.assertTrue(found["runs"])
        self.assertEqual(set(found["by_type"]), {"F32", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K",
                                                 "Q5_K", "Q6_K"})
        # 131,072 weights of 49,664 bytes; in blocks of 32, of 34 bytes each, 139,264.
        says = "Q2_K and Q3_K run as INT8: 0.0 MB become 0.1 MB, repacked at load"
        self.assertEqual(found["conversion"], says)
        self.assertIn(f"conversion  {says}\n", specbound("info", path).stdout.decode())
        for name in ("llama_q4_k", "llama_gqa_q4_0", "llama_gqa_q8_0", "llama_gqa_f16"):
            found = info_json(os.path.join(golden, name + ".gguf"))
            self.assertEqual((found["runs"], found["conversion"]), (True, None))

    def test_what_only_some_architectures_compute(self):
        for name, *parts in (
                ("gemma2", "window      20 positions in every other layer",
                 "soft caps   scores 5, logits 2", "ffn         gelu", "embedding   times 5.65"),
                ("gemma3", "window      20 positions in every layer but each 6th",
                 "linear scaling 4; in windowed layers theta 3000"),
                ("llama_yarn", "theta 10000, interleaved, yarn scaling 4"),
                ("mistral_window", "window      20 positions in every layer"),
                ("phi3_long_rope", "12 of 16 numbers, long factors past 32"),
                ("smollm3", "interleaved, but not in every 4th layer"),
                ("llama_rope_llama3_tied", "interleaved, llama3 scaling", "head tied")):
            text = specbound("info", os.path.join(ROOT, f"tests/golden/{name}.gguf")).stdout
            for part in parts:
                self.assertIn(part, text.decode(), name)
        plain = specbound("info", STORIES).stdout.decode()
        for part in ("window", "soft caps", "gelu", "times", "factors", "but not", "conversion"):
            self.assertNotIn(part, plain)

    def test_vocabularies_say_why_they_cannot_run(self):
        spm = info_json(os.path.join(VOCABULARIES, "ggml-vocab-llama-spm.gguf"))
        self.assertEqual((spm["runs"], spm["vocabulary_only"], spm["text"]), (False, True, True))
        bpe = info_json(os.path.join(VOCABULARIES, "ggml-vocab-gpt-2.gguf"))
        self.assertEqual((bpe["runs"], bpe["vocabulary_only"], bpe["text"]), (False, True, True))

    def test_special_ids_beyond_the_vocabulary(self):
        model = GgufFile(DEMO)
        model.put("tokenizer.ggml.eos_token_id", 40000)
        note = "tokenizer.ggml.eos_token_id is 40000, but the vocabulary has 4096 tokens"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gguf")
            with open(path, "wb") as file:
                file.write(model.bytes())
            found = info_json(path)
            self.assertTrue(found["text"])
            self.assertIn(note, found["text_notes"][0])
            self.assertIn(note, specbound("info", path).stdout.decode())
            for command in (["run", "-n", "4"], ["tokenize"]):
                result = specbound(*command, "-m", path, "-p", "Hi")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(note, result.stderr.decode())

    def test_heads_files(self):
        fingerprint = demo_fingerprint()
        with tempfile.TemporaryDirectory() as folder:
            def put(name, data):
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(data)
                return path

            data = heads_bytes(fingerprint, layers=(0, 2))
            found = info_json(put("good.gguf", data))["exit_heads"]
            self.assertIsNone(found["reason"])
            self.assertEqual(found["base"]["fingerprint"], fingerprint)
            self.assertEqual([(h["kind"], h["layer"]) for h in found["heads"]],
                             [("chained", 0), ("chained", 2)])
            text = specbound("info", os.path.join(folder, "good.gguf")).stdout
            self.assertIn(b"  heads       chained at 0, 2\n", text)

            # Whole as a container, but not what it says it is.
            bad = info_json(put("bad.gguf", heads_bytes(fingerprint, shortlist_size=7)))
            self.assertIn("shortlist", bad["exit_heads"]["reason"])

            for size in (20, len(data) // 2, len(data) - 1):
                cut = specbound("info", put("cut.gguf", data[:size]))
                self.assertEqual((cut.returncode, cut.stdout), (1, b""), size)
                self.assertEqual(cut.stderr.count(b"\n"), 1)

            # Beside a model: its own, another's, half a file.
            model = os.path.join(folder, "model.gguf")
            os.symlink(DEMO, model)
            for content, says in ((data, None), (heads_bytes("0" * 16), "fingerprint"),
                                  (data[:-1], "cut short")):
                beside = put("model.heads.gguf", content)
                found = info_json(model)["exit_heads"]
                self.assertEqual(found["file"], beside)
                if says is None:
                    self.assertIsNone(found["reason"])
                else:
                    self.assertIn(says, found["reason"])
                    self.assertIn(b"exit heads  cannot be used: ",
                                  specbound("info", model).stdout)

    def test_other_files_are_one_clear_error(self):
        cases = {os.path.join(ROOT, "README.md"): b"not a GGUF file", ROOT: b"directory",
                 os.path.join(ROOT, "no such file"): b"No such file", "/dev/null": b"expected"}
        for path, says in cases.items():
            result = specbound("info", path)
            self.assertEqual((result.returncode, result.stdout), (1, b""), path)
            self.assertEqual(result.stderr.count(b"\n"), 1)
            self.assertIn(says, result.stderr)
        self.assertEqual(specbound("info").returncode, 2)


if __name__ == "__main__":
    unittest.main()
