#!/usr/bin/env python3
"""specbound quantize, from the outside: files of each type that open and run, what is refused, and
that nothing is left of work that did not end."""
import json
import os
import signal
import struct
import time
import unittest

from gguf_file import BF16, F16, F32, I32, Q4_0, Q4_K, Q8_0, GgufFile, Tensor
from specbound_process import DEMO, ROOT, STORIES, FolderCase, specbound, start
from heads_file import demo_fingerprint, heads_bytes

TYPES = {"F16": F16, "BF16": BF16, "Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_K": Q4_K}
FILE_TYPES = {"F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_K": 14}
PROMPT = ("-p", "I need a table for two tonight.", "-n", "12", "--temp", "0")


class Quantize(FolderCase):
    def quantize(self, source, name, kind, *flags):
        """The file that is made, and the summary."""
        out = self.path(name)
        result = specbound("quantize", source, out, kind, "--json", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out, json.loads(result.stdout)

    def refused(self, *arguments, says, status=1):
        before = sorted(os.listdir(self.folder))
        result = specbound("quantize", *arguments)
        self.assertEqual((result.returncode, result.stdout), (status, b""), result.stderr)
        self.assertIn(says, result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return result

    def test_each_type_opens_and_runs(self):
        source = GgufFile(DEMO)
        for name, number in TYPES.items():
            with self.subTest(name):
                out, summary = self.quantize(DEMO, name + ".gguf", name.lower())
                self.assertEqual(summary["bytes_after"], os.path.getsize(out))
                self.assertEqual(summary["type"], name)
                self.assertLess(summary["relative_error"], 0.11)
                made = GgufFile(out)
                self.assertEqual(made.entries["general.file_type"], (4, FILE_TYPES[name]))
                for key, value in source.entries.items():
                    if key not in ("general.file_type", "general.quantization_version"):
                        self.assertEqual(made.entries[key], value, key)
                self.assertEqual(list(made.tensors), list(source.tensors))
                for key, tensor in made.tensors.items():
                    head = key in ("token_embd.weight", "output.weight")
                    expected = number
                    if len(tensor.shape) == 1:
                        expected = F32
                    elif head and name.startswith("Q4"):
                        expected = Q8_0
                    elif number == Q4_K and tensor.shape[0] % 256 != 0:
                        expected = Q4_0  # of 704
                    self.assertEqual(tensor.kind, expected, key)
                    if tensor.kind == source.tensors[key].kind:
                        self.assertEqual(tensor.data, source.tensors[key].data, key)
                info = json.loads(specbound("info", out, "--json").stdout)
                self.assertTrue(info["runs"], info["reason"])
                run = specbound("run", "-m", out, *PROMPT)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertGreater(len(run.stdout), 1)
                if name == "Q8_0":  # nothing was to be done
                    self.assertEqual(run.stdout, specbound("run", "-m", DEMO, *PROMPT).stdout)

    def test_floats_are_rounded_once(self):
        """F32 to F16 as Python rounds them."""
        out, summary = self.quantize(STORIES, "half.gguf", "F16")
        source, made = GgufFile(STORIES), GgufFile(out)
        for key, tensor in made.tensors.items():
            if len(tensor.shape) == 1:
                self.assertEqual(tensor.data, source.tensors[key].data)
                continue
            values = struct.unpack(f"<{len(tensor.data) // 2}f", source.tensors[key].data)
            self.assertEqual(tensor.data, struct.pack(f"<{len(values)}e", *values), key)
        self.assertLess(summary["bytes_after"], 0.6 * summary["bytes_before"])

    def test_threads_and_the_head(self):
        one, _ = self.quantize(DEMO, "one.gguf", "Q4_0", "-t", "1")
        four, _ = self.quantize(DEMO, "four.gguf", "Q4_0", "-t", "4")
        with open(one, "rb") as a, open(four, "rb") as b:
            self.assertEqual(a.read(), b.read())
        small, summary = self.quantize(DEMO, "small.gguf", "Q4_0", "--head", "q4_0")
        self.assertEqual(summary["tensors"], {"F32": 33, "Q4_0": 113})
        self.assertLess(os.path.getsize(small), os.path.getsize(one))

    def test_people_read_what_was_done(self):
        result = specbound("quantize", DEMO, self.path("out.gguf"), "Q4_K")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, rb"out\.gguf: 13\.\d MB become \d\.\d MB; tensors: ")
        self.assertRegex(result.stdout, rb"rounded away: \d")
        self.assertIn(b"16 matrices of rows that cannot be cut", result.stderr)
        self.assertIn(b"quantized before, as Q8_0", result.stderr)

    def test_usage(self):
        out = self.path("out.gguf")
        for arguments in ((), (DEMO,), (DEMO, out)):
            self.refused(*arguments, says=b"expected a model", status=2)
        self.refused(DEMO, out, "Q6_K", says=b"expected F16, BF16, Q8_0, Q4_0 or Q4_K", status=2)
        self.refused(DEMO, out, "Q8_0", "--head", "x", says=b"--head x: expected", status=2)
        self.refused(DEMO, "-", "Q8_0", says=b"found -", status=2)
        self.refused(DEMO, "", "Q8_0", says=b"found an empty one", status=2)

    def test_outputs_that_are_not_written(self):
        model = self.path("model.gguf")
        with open(DEMO, "rb") as source, open(model, "wb") as copy:
            copy.write(source.read())
        os.link(model, self.path("link.gguf"))
        os.symlink(model, self.path("symlink.gguf"))
        for name in ("model.gguf", "link.gguf", "symlink.gguf"):
            self.refused(model, self.path(name), "Q4_0", status=2,
                         says=b"would be written over what is read")
        self.refused(STORIES, model, "Q4_0", says=b"not written over")
        notes = self.write("notes.txt", b"mine")
        self.refused(STORIES, notes, "Q4_0", says=b"not made here and is not written over")
        with open(notes, "rb") as file:
            self.assertEqual(file.read(), b"mine")
        self.refused(model, self.folder, "Q4_0", says=b"directory")
        self.refused(model, self.path("none/out.gguf"), "Q4_0", says=b"none")
        self.refused(model, "/dev/null", "Q4_0", says=b"a device or a pipe")
        os.mkfifo(self.path("pipe"))
        self.refused(model, self.path("pipe"), "Q4_0", says=b"a device or a pipe")
        with open(self.path("said"), "wb") as said:  # a file, which is no device
            result = specbound("quantize", model, "/dev/stdout", "Q4_0", stdout=said)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"a device or a pipe", result.stderr)
        self.assertEqual(os.path.getsize(self.path("said")), 0)
        with open(DEMO, "rb") as source, open(model, "rb") as copy:
            self.assertEqual(copy.read(), source.read())

    def test_a_symbolic_link_stays_one(self):
        os.mkdir(self.path("big"))
        for name, to in (("link", "big/there"), ("dangling", self.path("big/none"))):
            os.symlink(to, self.path(name))
        with open(self.path("big/there"), "wb") as file:
            pass  # an empty file is nobody's
        for name, to in (("link", "big/there"), ("dangling", "big/none")):
            self.quantize(DEMO, name, "q4_0")
            self.assertTrue(os.path.islink(self.path(name)))
            self.assertFalse(os.path.islink(self.path(to)))
            GgufFile(self.path(to))

    def write(self, name, data):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_files_that_are_no_models(self):
        out = self.path("out.gguf")
        vocabulary = os.path.join(ROOT, "tests/data/tokenizer/ggml-vocab-llama-spm.gguf")
        self.refused(vocabulary, out, "Q8_0", says=b"only a vocabulary")
        heads = self.write("x.heads.gguf", heads_bytes(demo_fingerprint(), layers=(0, 2)))
        self.refused(heads, out, "Q8_0", says=b"exit heads")
        self.refused(os.path.join(ROOT, "README.md"), out, "Q8_0", says=b"not a GGUF file")
        self.refused(self.path("missing"), out, "Q8_0", says=b"No such file")
        with open(STORIES, "rb") as file:
            whole = file.read()
        for size in (3, 100, len(whole) // 2, len(whole) - 1):
            self.refused(self.write("cut.gguf", whole[:size]), out, "Q8_0", says=b"cut.gguf")

    def test_weights_that_would_be_lost(self):
        out, model = self.path("out.gguf"), GgufFile(STORIES)
        matrix, norm = model.tensors["blk.0.attn_q.weight"], model.tensors["output_norm.weight"]
        clean = matrix.data, norm.data
        for value, kinds, says in ((float("nan"), TYPES, b"expected finite weights"),
                                   (float("inf"), TYPES, b"expected finite weights"),
                                   (1e30, ("F16", "Q8_0", "Q4_0"), b"too large for it")):
            matrix.data = struct.pack("<f", value) + clean[0][4:]
            source = self.write("bad.gguf", model.bytes())
            for kind in kinds:
                result = self.refused(source, out, kind, says=says)
                self.assertIn(b"'blk.0.attn_q.weight'", result.stderr)
        self.assertEqual(specbound("quantize", source, out, "BF16").returncode, 0)  # holds 1e30
        os.unlink(out)
        matrix.data, norm.data = clean[0], struct.pack("<f", float("-inf")) + clean[1][4:]
        self.refused(self.write("norm.gguf", model.bytes()), out, "Q8_0", says=b"output_norm")

    def test_tensors_of_other_types(self):
        """Integers pass as they are where they are no matrices; matrices of them cannot."""
        out, model = self.path("out.gguf"), GgufFile(STORIES)
        model.tensors["table"] = Tensor((3, 2), I32, struct.pack("<6i", *range(6)))
        source = self.write("table.gguf", model.bytes())
        self.assertEqual(specbound("quantize", source, out, "Q8_0").returncode, 0)
        self.assertEqual(GgufFile(out).tensors["table"].data, struct.pack("<6i", *range(6)))
        os.unlink(out)
        model.tensors["table.weight"] = model.tensors.pop("table")
        self.refused(self.write("table.gguf", model.bytes()), out, "Q8_0", says=b"found I32")

    def test_an_interrupted_run_leaves_nothing(self):
        model = GgufFile(STORIES)
        values = struct.pack("<1024f", *(i / 1024 for i in range(1024)))
        # 64 MB, of which the first piece is far from the last.
        model.tensors["long.weight"] = Tensor((1024, 16384), F32, values * 16384)
        source = self.write("long.gguf", model.bytes())
        before = sorted(os.listdir(self.folder))
        process = start("quantize", source, self.path("out.gguf"), "Q4_K", "-t", "1")
        deadline = time.monotonic() + 60
        while sorted(os.listdir(self.folder)) == before and time.monotonic() < deadline:
            self.assertIsNone(process.poll(), "over before it could be interrupted")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
        self.assertEqual((process.returncode, stdout), (1, b""))
        self.assertIn(b"interrupted: no file was written", stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    unittest.main()
