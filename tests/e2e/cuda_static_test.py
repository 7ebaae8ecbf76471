#!/usr/bin/env python3
"""How tests/bench/cuda_static.py reads code, counts, and predicts: from listings made up so that a
hand can follow them, and from what is recorded."""
import json
import os
import pathlib
import re
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

# A row normed: as the compiler unrolls loops, one for most and one for the rest.
COPY, SUM = ["LDG.E.128 R4, [R2]", "STS.128 [R3], R4"], ["LDS R4, [R3]", "FFMA R0, R4, R4, R0"]
QUANTIZE = ["LDG.E.128 R4, [R2]", *["SHFL.BFLY PT, R8, R8, 0x1, 0x1f"] * 3, "STG.E [R2], R8"]
NORM = ["S2R R0, SR_TID.X", "LDG.E.128 R4, [R2]", ".L_x_0:", *COPY * 4, "@P0 BRA `(.L_x_0)",
        ".L_x_1:", *COPY, "@P0 BRA `(.L_x_1)", ".L_x_2:", *SUM * 8, "@P0 BRA `(.L_x_2)", ".L_x_3:",
        *SUM, "@P0 BRA `(.L_x_3)", "MUFU.SQRT R0, R0", ".L_x_4:", *QUANTIZE, "@P0 BRA `(.L_x_4)",
        ".L_x_5:", "STG.E [R2], RZ", "@P0 BRA `(.L_x_5)", "EXIT"]


class Launches(unittest.TestCase):
    def test_every_kernel_that_decodes_has_one(self):
        kernels = pathlib.Path(__file__).resolve().parents[2] / "kernels"
        read = [source for source in sorted(kernels.glob("*.cu"))
                if source.stem not in cuda_static.NOT_DECODING
                and not source.stem.startswith("prefill_")]
        names = [name for source in read for name in
                 re.findall(r"__global__[^;{]*?\b(\w+_kernel)\s*\(", source.read_text())]
        self.assertGreater(len(names), 20)
        self.assertEqual([name for name in names if name not in cuda_layer.LAUNCHES], [])


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

    def test_the_loops_of_a_norm(self):
        """Of a row of 4,096: as many pieces as threads and lanes leave to each; what is in none of
        them counts as straight code."""
        # Four copies a thread, 128 squares a lane of one warp, two of four quantized in the loop.
        copied, summed, quantized = 8 * 9, 16 * 17, 8 * 2 * 6
        for kernel, arch, loops in (
                ("norm_quantize_kernel", 89, copied + summed + quantized),
                ("norm_quantize_kernel", 90, copied + summed),  # all four ahead
                # Twice the threads with two copies each, by the short loop, and nothing left.
                ("gate_up_normed_kernel", 89, 16 * 2 * 3 + summed)):
            function, = sass.parse(listing(kernel, *NORM)).values()
            counted = cuda_static.read_kernel(function, arch)
            self.assertEqual(sum(counted["norm_loops"].values()), loops, (kernel, arch))
            self.assertEqual(counted["straight"], {"control": 2, "convert": 1, "global": 2,
                                                   "move": 1})
        lost = [line for line in NORM if "FFMA" not in line]
        function, = sass.parse(listing("project_normed_kernel", *lost)).values()
        with self.assertRaisesRegex(ValueError, "found no loop that has to sum 128 of a row"):
            cuda_static.read_kernel(function, 90)

    def test_the_loop_that_joins_chunks(self):
        part = ["LDG.E R4, [R2]", "LDS R5, [R3]", "FFMA R6, R4, R5, R6", "FFMA R7, R4, R5, R7"]
        function, = sass.parse(listing("combine_chunks_kernel", "S2R R0, SR_TID.X", ".L_x_0:",
                                       *part * 16, "@P0 BRA `(.L_x_0)", "EXIT")).values()
        counted = cuda_static.read_kernel(function, 90)
        self.assertEqual(counted["join"], {"chunks": 16, "mix": {
            "control": 1, "float": 32, "global": 16, "shared": 16}})
        self.assertEqual(counted["straight"], {"control": 1, "move": 1})

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
        def blocks(*layer, **how):
            return [launch.blocks for launch in cuda_layer.layer(*layer, **how)]

        self.assertEqual(blocks("q4_k", 1, 512), [384, 9 * 32, 128, 344, 128])
        self.assertEqual(blocks("q4_k", 1, 4000), [384, 63 * 32, 32, 128, 344, 128])
        apart = [1, 384, 9 * 32, 32, 128, 1, 344, 128]
        self.assertEqual(blocks("q4_k", 1, 512, apart=True), apart)
        self.assertEqual(len(blocks("q8_0", 2, 0)), len(apart))
        self.assertEqual(len(blocks("f16", 1, 0)), 9)
        self.assertEqual(len(blocks("f16", 16, 0)), 10)


    def test_what_every_warp_runs_is_not_shared_out_among_forms(self):
        of_form = dict(mix={"tensor": 2})
        kernels = {
            "norm_quantize_kernel": dict(straight={"float": 100, "move": 7}, products={},
                                         norm_loops={"shared": 30}),
            "project_normed_kernel<false>": dict(
                straight={"float": 500, "move": 5}, norm_loops={"shared": 40},
                products={"q4_0 x1": of_form, "q8_0 x1": of_form})}
        normed = cuda_layer.Launch("project_normed_kernel<false>", 3, 0, products=10, norms=3)
        self.assertEqual(cuda_layer.work(normed, kernels, "q4_0", 1), {
            "float": 24 * (100 + 400 / 2), "move": 24 * 7, "shared": 3 * 40, "tensor": 20})
        alone = cuda_layer.Launch("norm_quantize_kernel", 2, 0, norms=2)
        self.assertEqual(cuda_layer.work(alone, kernels, "q4_0", 1),
                         {"float": 16 * 100, "move": 16 * 7, "shared": 2 * 30})

    def test_blocks_that_join_chunks(self):
        kernel = "attend_chunks_kernel<false, false, KvF16>"
        join = {"chunks": 8, "mix": {"float": 16}}
        kernels = {kernel: dict(straight={"move": 1}, products={}, join=join, attention=dict(
            score_mix={"float": 4}, stage_mix={"global": 0.5}))}
        kernels["norm_quantize_kernel"] = kernels[kernel]
        launch = cuda_layer.Launch(kernel, 18, 0, scores=100, keys=50, joins=2, chunks=9)
        # Of two blocks each of eight warps runs the loop twice.
        self.assertEqual(cuda_layer.work(launch, kernels, "q4_0", 1),
                         {"move": 18 * 8, "float": 400 + 2 * 8 * 2 * 16, "global": 25})

    def test_what_norms_and_joins(self):
        def counts(*layer, **how):
            return [(launch.norms, launch.joins, launch.chunks)
                    for launch in cuda_layer.layer(*layer, **how)
                    if launch.norms or launch.joins]

        self.assertEqual(counts("q8_0", 1, 512), [(384, 0, 0), (0, 32, 9), (344, 0, 0)])
        self.assertEqual(counts("q8_0", 1, 4000), [(384, 0, 0), (0, 32, 63), (344, 0, 0)])
        self.assertEqual(counts("q8_0", 8, 512), [(8, 0, 0), (0, 256, 9), (8, 0, 0)])


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
