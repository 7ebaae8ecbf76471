#!/usr/bin/env python3
"""How tests/bench/cuda_static.py reads code, counts, and predicts: from listings made up so that a
hand can follow them, and from what is recorded."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(SCRIPTS))
import cuda_layer  # noqa: E402
import cuda_static  # noqa: E402
import sass  # noqa: E402

RECORDED = json.loads((SCRIPTS / "results" / "cuda_static.json").read_text())


def listing(name, *lines):
    """A function of these instructions and labels, 16 bytes each, as nvdisasm prints it."""
    text, at = [f'\t.section\t.text.{name},"ax",@progbits', f"{name}:", f".text.{name}:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{at:04x}*/                   {line} ;")
            at += 16
    return "\n".join(text) + "\n"


# Two blocks of Q4_K, one panel of rows: values and d2 of two tiles in 64 bits, scales in 32.
Q4_K = ["LDG.E.64.CONSTANT R2, desc[UR4][R8.64]", "LDG.E.CONSTANT R4, desc[UR4][R8.64+0x20]",
        "LDG.E.64.CONSTANT R6, desc[UR4][R10.64]"] * 4 + [
    "LDG.E.64 R20, desc[UR4][R12.64]", "IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4"] * 6


class Listings(unittest.TestCase):
    def test_instructions(self):
        found, = sass.parse(listing("f", "@!P0 LDG.E.128.CONSTANT R4, [R2]", "NOP",
                                    "@UP1 UIADD3 UR4, UR4, 0x1, URZ", "STS.U16 [R3], R4")).values()
        self.assertEqual([(i.at, i.name, i.bits) for i in found.instructions],
                         [(0, "LDG", 128), (16, "NOP", 32), (32, "UIADD3", 32), (48, "STS", 16)])
        self.assertEqual(found.code_bytes, 64)
        self.assertEqual(sass.counts(found.useful()), {"global": 1, "shared": 1, "uniform": 1})

    def test_functions_are_apart(self):
        found = sass.parse("header\n" + listing("a", "EXIT") + listing("b", "NOP", "EXIT"))
        self.assertEqual({name: f.code_bytes for name, f in found.items()}, {"a": 16, "b": 32})

    def test_innermost_loops(self):
        found, = sass.parse(listing(
            "f", ".L_x_0:", "FADD R1, R1, R2", ".L_x_1:", "FFMA R1, R1, R2, R3", "FMUL R1, R1, R2",
            "@P0 BRA `(.L_x_1)", "@P1 BRA `(.L_x_0)", "@P2 BRA `(.L_x_2)", "NOP", ".L_x_2:", "EXIT",
            ".L_x_3:", "BRA `(.L_x_3)")).values()
        self.assertEqual([[i.name for i in loop] for loop in found.innermost_loops()],
                         [["FFMA", "FMUL", "BRA"]])
        self.assertNotIn("NOP", [i.name for i in found.useful()])
        self.assertEqual(len(found.useful()), 7)

    def test_the_form_of_a_loop(self):
        function, = sass.parse(listing("f", ".L_x_0:", *Q4_K, "@P0 BRA `(.L_x_0)")).values()
        found = cuda_static.read_product_loop(function.innermost_loops()[0], 89)
        self.assertEqual(found.keys(), {"q4_k x1"})
        self.assertEqual((found["q4_k x1"]["blocks"], found["q4_k x1"]["instructions"]), (2, 12.5))
        self.assertEqual(found["q4_k x1"]["mix"], {"control": 0.5, "global": 9, "tensor": 3})

    def test_smaller_products_of_turing(self):
        """A product is four of them, and a sum, which needs half of its numbers, two."""
        lines = ["LDG.E.64.CONSTANT.SYS R2, [R8]", "LDG.E.CONSTANT.SYS R4, [R8]",
                 "LDG.E.CONSTANT.SYS R4, [R8]"] * 2 + ["IMMA.8816.S8.S8 R4, R8, R12, R4"] * 20
        function, = sass.parse(listing("f", ".L_x_0:", *lines, "@P0 BRA `(.L_x_0)")).values()
        found = cuda_static.read_product_loop(function.innermost_loops()[0], 75)
        self.assertEqual({form: loop["blocks"] for form, loop in found.items()}, {"q4_1 x2": 1})

    def test_no_form_is_an_error(self):
        function, = sass.parse(listing("f", ".L_x_0:", *Q4_K[:-1], "@P0 BRA `(.L_x_0)")).values()
        with self.assertRaisesRegex(ValueError, "5 IMMA"):
            cuda_static.read_product_loop(function.innermost_loops()[0], 89)

    @unittest.skipIf(os.path.exists("/usr/local/cuda/bin/nvdisasm"), "the toolkit has nvdisasm")
    def test_without_a_disassembler_one_message_says_what_to_do(self):
        for python in ("/nowhere/python", shutil.which("false")):
            done = subprocess.run(
                [sys.executable, "-B", "-c", "import sass; sass.find_disassembler()"], cwd=SCRIPTS,
                capture_output=True, text=True, env={"PATH": "/nowhere", "SASS_PYTHON": python})
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("pip install nvidia-cuda-nvdisasm", done.stderr)


class Prediction(unittest.TestCase):
    def test_resident_blocks_by_each_limit(self):
        for arch, registers, threads, shared, blocks in (
                (90, 32, 256, 0, 8), (90, 128, 256, 0, 2), (90, 32, 256, 45312, 5),
                (86, 32, 32, 0, 16), (75, 32, 1024, 0, 1), (89, 121, 256, 18432, 2)):
            self.assertEqual(cuda_layer.resident_blocks(arch, registers, threads, shared), blocks)

    def test_the_busiest_lanes_decide(self):
        self.assertEqual(cuda_layer.issue_clocks({"integer": 4, "float": 4}, 64), 2)
        self.assertEqual(cuda_layer.issue_clocks({"integer": 8, "float": 4}, 64), 4)
        self.assertEqual(cuda_layer.issue_clocks({"integer": 8, "float": 4}, 128), 3)
        self.assertEqual(cuda_layer.issue_clocks({"convert": 8}, 64), 16)

    def test_a_layers_bytes_are_those_that_the_bench_counts(self):
        run = json.loads((SCRIPTS / "results" / "gpu_kernels.json").read_text())
        counted = {k["kernel"]: k["bytes"] for k in run["results"]
                   if k["shape"] == "7b" and k["kind"] == "layer"}
        for weights, name in (("q8_0", "i8"), ("f16", "f16")):
            for pos in (512, 4000):
                bytes_of = sum(launch.bytes for launch in cuda_layer.layer(weights, 1, pos))
                self.assertAlmostEqual(bytes_of / counted[f"{name} layer at {pos}"], 1, 3)

    def test_launches_of_a_layer(self):
        self.assertEqual(len(cuda_layer.layer("q8_0", 1, 0)), 8)
        self.assertEqual(len(cuda_layer.layer("f16", 16, 0)), 10)
        blocks = [launch.blocks for launch in cuda_layer.layer("q4_k", 1, 512)]
        self.assertEqual(blocks, [1, 384, 9 * 32, 32, 128, 1, 344, 128])


class Recorded(unittest.TestCase):
    def test_every_kernel_has_all_architectures_and_no_spills(self):
        n = len(RECORDED["architectures"])
        for row in RECORDED["after"]:
            for key in ("registers", "spill_bytes", "code_bytes", "instructions"):
                self.assertEqual(len(row[key]), n, row["kernel"])
            self.assertEqual(set(row["spill_bytes"]), {0}, row["kernel"])

    def test_predictions_are_what_the_formula_gives(self):
        for p in RECORDED["predicted"]:
            if "kernels" not in p:
                continue
            self.assertEqual(len(p["kernels"]), p["launches"])
            gap = p["gaps_us"] / p["launches"]
            for k in p["kernels"]:
                self.assertAlmostEqual(k["us"], max(k["memory_us"], k["issue_us"]) + gap, 1)

    def test_it_is_held_against_what_was_measured(self):
        held = {(h["what"], h["weights"], h["pos"], h["rows"]): h
                for h in RECORDED["held_against_h200"]}
        self.assertEqual(held["layer", "q8_0", 512, 1]["measured_us"], 84.56)
        for h in held.values():
            off = 100 * (h["predicted_us"] / h["measured_us"] - 1)
            self.assertAlmostEqual(h["off_percent"], off, delta=0.2)


if __name__ == "__main__":
    unittest.main()
