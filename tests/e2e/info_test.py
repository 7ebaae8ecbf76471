#!/usr/bin/env python3
"""specbound info, from the outside: what it says of models, vocabularies and other files."""
import json
import os
import unittest

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

    def test_vocabularies_say_why_they_cannot_run(self):
        spm = info_json(os.path.join(VOCABULARIES, "ggml-vocab-llama-spm.gguf"))
        self.assertEqual((spm["runs"], spm["vocabulary_only"], spm["text"]), (False, True, True))
        bpe = info_json(os.path.join(VOCABULARIES, "ggml-vocab-gpt-2.gguf"))
        self.assertEqual((bpe["runs"], bpe["text"]), (False, False))
        self.assertIn("byte-level BPE", bpe["text_reason"])

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
