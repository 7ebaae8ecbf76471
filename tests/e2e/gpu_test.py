#!/usr/bin/env python3
"""The program on a GPU, from the outside. The GPU is the SIMT executor: specbound_simt is the whole
program with the kernels' own source run by the CPU (tests/simt/gpu_simt.cpp says what its
environment can make of it). What a user meets must be what the CPU gives: the same texts, traces,
errors and limits; and a GPU that cannot be had must be told in one line."""
import json
import os
import re
import tempfile
import unittest

from gguf_file import GgufFile, as_f16
from run_test import built_for_speed, published_story
from specbound_process import DEMO, STORIES, specbound

SIMT = os.environ.get("SPECBOUND_SIMT_BINARY")
LAYERS = 2  # of the demo model, which has 16
FOLDER = tempfile.TemporaryDirectory()
WHOLE = built_for_speed()  # otherwise the executor is slow: fewer tokens, which may reach less
RAW = ("run", "--raw", "-m", STORIES, "-t", "1")
# INT8 prefill differs from the CPU's by its attention: a prompt of one token needs none.
ONE_TOKEN = ("--raw", "-p", "")


def setUpModule():
    if SIMT is None:
        raise unittest.SkipTest("no specbound_simt: SPECBOUND_SIMT_BINARY names it")
    make_models()


def tearDownModule():
    FOLDER.cleanup()


def at(name):
    return os.path.join(FOLDER.name, name)


def write(name, data):
    with open(at(name), "wb") as file:
        file.write(data)


def make_models():
    """The first layers of the demo model, with heads that were trained for it; stories260K in F16;
    and one with rows that are no multiple of four."""
    cut = GgufFile(DEMO)
    cut.put("llama.block_count", LAYERS)
    cut.tensors = {name: tensor for name, tensor in cut.tensors.items()
                   if not name.startswith("blk.") or int(name.split(".")[1]) < LAYERS}
    write("two.gguf", cut.bytes())
    write("two.heads.gguf", cut_heads(at("two.gguf")))
    write("stories-f16.gguf", as_f16(GgufFile(STORIES)).bytes())
    write("odd.gguf", narrow(GgufFile(STORIES)).bytes())


def cut_heads(model):
    """The bundled chained head on the embedding and the text as they are; the folded head of layer
    4 where layer 1 ends."""
    info = json.loads(specbound("info", model, "--json").stdout)
    heads = GgufFile(DEMO.replace(".gguf", ".heads.gguf"))
    heads.put("specbound.base.n_layers", LAYERS)
    heads.put("specbound.base.fingerprint", info["exit_heads"]["model_fingerprint"].encode())
    layers = heads.entries["specbound.head_layers"][1][1]
    kept = [layers.index(0), layers.index(4)]
    for name in ("head_kinds", "margin_scale", "margin_offset", "temperature"):
        if f"specbound.{name}" not in heads.entries:
            continue  # learnt temperatures
        values = heads.entries[f"specbound.{name}"][1][1]
        heads.put(f"specbound.{name}", [values[i] for i in kept])
    heads.put("specbound.head_layers", [0, 1])
    tensors = {}
    for name, tensor in heads.tensors.items():
        if name.startswith(("exit.8.", "exit.12.")):
            continue
        tensors[name.replace("exit.4.", "exit.1.")] = tensor
    heads.tensors = tensors
    return heads.bytes()


def narrow(model, dim=62):
    """The same with rows of `dim` values in place of 64: nonsense, but it runs."""
    model.put("llama.embedding_length", dim)
    for key in ("key_length", "value_length"):
        model.entries[f"llama.attention.{key}"] = model.entries["llama.block_count"][0], 8
    for name, tensor in model.tensors.items():
        row, *rows = tensor.shape
        if "attn_output" in name or "ffn_down" in name:  # (n_in, dim)
            tensor.shape, tensor.data = (row, dim), tensor.data[:4 * row * dim]
        else:
            tensor.shape = dim, *rows
            tensor.data = b"".join(tensor.data[at:at + 4 * dim]
                                   for at in range(0, len(tensor.data), 4 * row))
    return model


def gpu(*arguments, stdin=b"", **environment):
    names = {f"SPECBOUND_SIMT_{key}": str(value) for key, value in environment.items()}
    return specbound(*arguments, stdin=stdin, binary=SIMT, environment=names)


def with_file(flag, run, *arguments):
    """The finished process and the JSON lines that it wrote to the file of `flag`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out")
        result = run(*arguments, flag, path)
        if result.returncode != 0:
            return result, None
        with open(path, encoding="utf-8") as file:
            data = file.read()
    return result, [json.loads(line) for line in data.splitlines()] if flag == "--trace" else \
        json.loads(data)


def untimed(value):
    """Without what takes time or names the backend."""
    if isinstance(value, list):
        return [untimed(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: untimed(one) for key, one in value.items()
            if key not in ("ns", "backend", "phase_seconds", "speedup") and
            not key.endswith(("_seconds", "_per_second"))}


class Case(unittest.TestCase):
    def ran(self, result, on=b"backend: CUDA ("):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(on, result.stderr)
        return result

    def refused(self, result, status, *says):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, b"")
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        for text in says:
            self.assertIn(text, result.stderr)


class Text(Case):
    def test_stories260k_whole_in_fp16(self):
        # The file is F32: on the GPU its weights are rounded to FP16, on the CPU they come so.
        ask = ("--raw", "--temp", "0", "-p", "", "-n", "256" if WHOLE else "16")
        want = specbound("run", "-m", at("stories-f16.gguf"), *ask).stdout
        self.assertTrue(published_story().startswith(want[:-1]))  # rounding keeps it
        self.assertTrue(not WHOLE or want == published_story() + b"\n")
        got = self.ran(gpu("run", "-m", STORIES, *ask))
        self.assertEqual(got.stdout, want)
        self.assertIn(b"weights fp16", got.stderr)
        self.assertRegex(got.stderr, rb"loaded in \d+ ms, uploaded \d+\.\d MB at \d+\.\d GB/s")

    def test_prompts_that_take_prefill(self):
        ask = ("--raw", "--temp", "0", "-n", "12", "-p", "Once upon a time there was a little dog")
        want = specbound("run", "-m", at("stories-f16.gguf"), *ask).stdout
        self.assertEqual(self.ran(gpu("run", "-m", STORIES, *ask)).stdout, want)

    def test_prompts_read_by_cublas(self):
        library = os.path.join(os.path.dirname(SIMT), "fake_cublas")  # on the executor
        ask = ("run", "-m", STORIES, "--raw", "--temp", "0", "-n", "6", "-p", "Once upon a time")
        result = self.ran(specbound(*ask, "--prefill", "cublas", binary=SIMT,
                                    environment={"LD_LIBRARY_PATH": library}))
        self.assertEqual(result.stdout, gpu(*ask).stdout)
        self.assertIn(b"\n--prefill cublas: the bits of a prompt are those of", result.stderr)

    def test_the_flags_of_the_cpu_do_no_harm(self):
        ask = ("--raw", "-m", STORIES, "--temp", "0", "-p", "", "-n", "4", "-ngl", "all")
        for flags in (("-t", "200"), ("--isa", "portable"), ("--no-repack",)):
            result = self.ran(gpu("run", *ask, *flags))
            self.assertEqual(result.stdout, b"Once upon a time\n")
            self.assertNotIn(b"warning", result.stderr)

    def test_a_chat_that_switches_speculation(self):
        lines = b"/spec off\nHi\n/spec on\n/regen\n/stats\n"
        ask = ("chat", "-m", at("two.gguf"), "-n", "4", "--temp", "0", "--spec", "on",
               "--controller", "off")
        result = self.ran(gpu(*ask, stdin=lines))
        one, two = result.stdout.splitlines()
        self.assertEqual(one, two)
        self.assertIn(b"speculation on: auto with ", result.stderr)
        self.assertIn(b"2 replies", result.stderr)


class SameBits(Case):
    def verify(self, *arguments, model="two.gguf", least_drafted=WHOLE):
        result, found = with_file("--json", gpu, "verify", "--bits", "-m", at(model),
                                  "--ignore-eos", *arguments)
        self.ran(result)
        self.assertTrue(found["identical"])
        self.assertTrue(found["backend"].startswith("CUDA ("))
        self.assertGreaterEqual(found["drafted_tokens"], least_drafted)
        return found

    def test_rows_1_to_16_with_forced_drafts(self):
        missing = set(range(1, 17))
        for exits in ("0.85", "0.95"):  # few rows, many rows
            found = self.verify("--speculator", "forced", "--forced-exit", exits, "--w-max", "16",
                                "--forced-right", "0.5", "--raw", "-p", "I", "-n",
                                "36" if WHOLE else "3", "--temps", "0,1", "--seeds", "1")
            self.assertIn("weights int8", found["backend"])
            missing -= {n for n in missing if found["rows_in_passes_of"][str(n)] > 0}
        self.assertTrue(not missing or not WHOLE, missing)

    def test_fp16(self):
        for model, flags in (("stories-f16.gguf", ("-n", "20" if WHOLE else "3")),
                             ("two.gguf", ("-n", "4" if WHOLE else "2", "--dtype", "fp16"))):
            found = self.verify("--speculator", "forced", "--w-max", "16", "--raw", "-p", "I",
                                "--temps", "0", "--seeds", "1", *flags, model=model)
            self.assertIn("weights fp16", found["backend"])

    def test_heads_of_every_kind(self):
        for drafter in (("--head", "lens", "--tau", "0.01"), ("--head", "chained", "--tau", "0.1"),
                        ("--head", "folded", "--tau", "0.05"),
                        ("--preset", "shipped", "--tau", "0.1"), ("--speculator", "ngram"),
                        ("--speculator", "specbound", "--head", "lens", "--tau", "0.01")):
            for temperature in ("0", "0.8")[:2 if WHOLE else 1]:
                self.verify(*drafter, "--w-max", "8", "--raw", "-p", "I", "-n",
                            "8" if WHOLE else "2", "--temps", temperature, "--seeds", "1",
                            least_drafted=temperature == "0" and WHOLE)


    def test_trees(self):
        words = "red blue red green red blue red green red"
        for drafter in ((), ("--head", "lens", "--tau", "0.3")):
            for temperature in ("0", "0.8")[:2 if WHOLE else 1]:
                self.verify(*drafter, "--w-max", "16", "--raw", "-p", words, "-n",
                            "8" if WHOLE else "2", "--temps", temperature, "--seeds", "1")


class SameEvents(Case):
    """INT8 weights give the CPU's bits: whatever is recorded is the same to the last digit. But
    chained heads say tokens of the text on the CPU that their list lacks: there the text is."""

    def check(self, *arguments):
        says_more = "chained" in arguments
        texts, traces, stats = [], [], []
        for run in (gpu, specbound):
            result, trace = with_file("--trace", run, "run", "-m", at("two.gguf"), "-s", "3",
                                      "--stats-json", at("stats"), *arguments)
            self.ran(result, b"backend: CUDA (" if run is gpu else b"backend: CPU (")
            texts.append(result.stdout)
            traces.append(untimed(trace))
            with open(at("stats"), encoding="utf-8") as file:
                stats.append(untimed(json.load(file)))
        self.assertEqual(*texts)
        if not says_more:
            self.assertEqual(*traces)
            self.assertEqual(*stats)
        return stats[0]

    def test_plain_and_drafted(self):
        for sampling in (("--temp", "0"), ("--temp", "0.9", "--repeat-penalty", "1.2")):
            for drafter in (("--spec", "off"), ("--head", "lens", "--tau", "0.01"),
                            ("--head", "chained", "--tau", "0.1", "--w-max", "4"),
                            ("--head", "folded", "--tau", "0.05", "--check-layers", "1"),
                            ("--speculator", "specbound", "--head", "lens", "--tau", "0.01")):
                stats = self.check(*ONE_TOKEN, *sampling, *drafter, "-n", "10" if WHOLE else "3",
                                   "--controller", "off", "--ignore-eos")
                self.assertTrue(not WHOLE or
                                (stats["drafted_tokens"] > 0) == ("off" not in drafter))

    def test_unfiltered_sampling_and_stop_strings(self):
        everything = ("--temp", "1.2", "--top-k", "0", "--top-p", "1", "--min-p", "0")
        text = self.ran(gpu("run", "-m", at("two.gguf"), *ONE_TOKEN, *everything, "-s", "3", "-n",
                            "10")).stdout.decode()
        self.check(*ONE_TOKEN, *everything, "-n", "10", "--stop", text[6:9], "--controller", "off",
                   "--head", "folded")

    def test_the_end_of_the_context(self):
        stats = self.check(*ONE_TOKEN, "--temp", "0", "-c", "12", "--ignore-eos", "--controller",
                           "off", "--head", "folded", "--tau", "0.05", "--w-max", "16")
        self.assertEqual(stats["stop_reason"], "context")

    def test_the_lens_shows_the_same_layers(self):
        ask = ("lens", "-m", at("two.gguf"), *ONE_TOKEN, "-n", "4")
        (on_gpu, one), (on_cpu, two) = (with_file("--json", run, *ask) for run in (gpu, specbound))
        self.assertEqual(one, two)
        self.assertEqual(on_gpu.stdout, on_cpu.stdout)


class FirstLayers(Case):
    """Some layers on the GPU, the rest on the CPU: the CPU's text, trace and figures, prompts and
    chained heads included."""
    PROMPT = ("-p", "red blue red green red blue")
    DRAFTERS = (("--spec", "off"), ("--head", "lens", "--tau", "0.01"),
                ("--head", "chained", "--tau", "0.1", "--w-max", "4"),
                ("--head", "folded", "--tau", "0.05"), ("--speculator", "ngram"),
                ("--speculator", "draft-verify", "--tau", "0"), ())

    def test_the_cpus_text_trace_and_figures(self):
        for i, drafter in enumerate(self.DRAFTERS):
            ask = ("run", "-m", at("two.gguf"), "-s", "3", "--temp", "0.8" if i % 2 else "0", "-n",
                   "10" if WHOLE else "3", "--controller", "off", "--ignore-eos", *self.PROMPT,
                   *drafter, "--stats-json", at("stats"))
            found = {}
            for layers in ("0", "1", "2"):
                result, trace = with_file("--trace", gpu, *ask, "-ngl", layers)
                on = f"CUDA (SIMT executor, sm_75, weights int8, {layers} of 2 layers) + CPU ("
                self.ran(result, b"backend: " + (b"CPU (" if layers == "0" else on.encode()))
                with open(at("stats"), encoding="utf-8") as file:
                    stats = json.load(file)
                self.assertEqual(stats["backend"].startswith("CUDA ("), layers != "0")
                found[layers] = (result.stdout, untimed(trace), untimed(stats))
            self.assertEqual(found["1"], found["0"], drafter)
            self.assertEqual(found["2"], found["0"], drafter)

    def test_verify(self):
        for drafter in ((), ("--head", "lens", "--tau", "0.3"),
                        ("--speculator", "forced", "--w-max", "16")):
            result, found = with_file(
                "--json", gpu, "verify", "--bits", "-m", at("two.gguf"), "--ignore-eos", "-ngl",
                "1", "--raw", *self.PROMPT, "-n", "8" if WHOLE else "2", "--temps", "0", "--seeds",
                "1", *drafter)
            self.ran(result)
            self.assertTrue(found["identical"])
            self.assertIn("1 of 2 layers) + CPU (", found["backend"])

    def test_k_and_v_of_8_bits(self):
        ask = ("run", "-m", at("two.gguf"), "-s", "3", "--temp", "0.8", "-n",
               "10" if WHOLE else "4", "--controller", "off", "--ignore-eos", *self.PROMPT)
        fp16 = gpu(*ask, "-ngl", "0")
        found = {}
        for layers in ("0", "1", "2", "all"):
            result, trace = with_file("--trace", gpu, *ask, "--kv", "int8", "-ngl", layers)
            self.ran(result, b"backend: CUDA (" if layers != "0" else b"backend: CPU (")
            self.assertIn(b", K/V int8)", result.stderr)
            found[layers] = (result.stdout, untimed(trace))
        for layers in ("1", "2"):
            self.assertEqual(found[layers], found["0"], layers)
        # Whole models read prompts with these bits too; the CPU's heads guess more tokens.
        self.assertEqual(found["all"][0], found["0"][0])
        self.assertNotIn(b"K/V int8", fp16.stderr)
        result, verified = with_file(
            "--json", gpu, "verify", "--bits", "-m", at("two.gguf"), "--ignore-eos", "--kv", "int8",
            "--raw", *self.PROMPT, "-n", "8" if WHOLE else "2", "--temps", "0", "--seeds", "1")
        self.ran(result)
        self.assertTrue(verified["identical"])
        self.assertIn("K/V int8", verified["backend"])

    def test_theory_prices_the_two_apart(self):
        result, told = with_file("--json", gpu, "theory", "-m", at("two.gguf"), "--replies", "0",
                                 "-c", "64", "-ngl", "1")
        self.assertIn(b"layers on the GPU", result.stdout)
        whole, half = told["offload"]
        self.assertEqual((whole["gpu_layers"], half["gpu_layers"]), (2, 1))
        self.assertLess(whole["plain_tokens_per_second"], half["plain_tokens_per_second"])
        for row in (whole, half):
            speedups = [cell["speedup"] for cell in row["ceilings"]]
            self.assertEqual(speedups, sorted(speedups))
        found = told["costs"]
        self.assertEqual((found["n_layers"], found["first_layers"]), (2, 1))
        self.assertEqual(len(found["first_layer"]), len(found["layer"]))
        self.assertGreater(found["first_layer"][0], found["layer"][0])  # the executor is slow
        self.assertGreater(found["plain_token"], found["first_layer"][0])

    def test_hostile_numbers(self):
        for layers in ("-1", "-99999999999999999999", "1.5", "x", "", "1x", "0x1"):
            self.refused(gpu(*RAW, "-p", "x", "-ngl", layers), 2, b"-ngl: expected")
        self.refused(gpu(*RAW, "-p", "x", "-ngl", "3", "--prefill", "cublas"), 2,
                     b"--prefill cublas: for a whole model on the GPU only, found -ngl 3 of 5")
        for layers in ("99", "99999999999999999", "all"):  # as llama.cpp understands it
            result = gpu("run", "-m", at("two.gguf"), *ONE_TOKEN, "-n", "1", "-ngl", layers)
            self.assertNotIn(b"+ CPU", self.ran(result).stderr)

    def test_bench_names_both(self):
        result = gpu("bench", "-m", at("two.gguf"), "-p", "4", "-n", "2", "-r", "1", "-ngl", "1",
                     "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b'"CUDA+CPU"', result.stdout)


class Costs(Case):
    def test_theory_measures_what_is_there(self):
        found = with_file("--json", gpu, "theory", "-m", STORIES, "--replies", "0", "-c", "64")[1]
        costs = found["costs"]
        self.assertGreater(costs["plain_token"], 5 * costs["layer"][0])
        self.assertTrue(all(cost > 0 for cost in costs["layer"]))


class SameErrors(Case):
    def test_limits_and_wrong_usage(self):
        for ask, status in (
                ((*RAW, "-p", "Once upon a time there was", "-c", "4"), 1),
                ((*RAW, "-p", "x", "--head", "chained"), 2),
                ((*RAW, "-p", "x", "--device", "gpu"), 2),
                ((*RAW, "-p", "x", "--dtype", "q4"), 2),
                ((*RAW, "-p", "x", "--device", "cpu", "-ngl", "3"), 2),
                ((*RAW, "-p", "x", "--device", "cuda", "-ngl", "0"), 2),
                ((*RAW, "-p", "x", "--device", "cpu", "-ngl", "all"), 2),
                ((*RAW, "-p", "x", "--device", "cpu", "--dtype", "fp16"), 2),
                (("run", "-m", "/no/such.gguf", "-p", "x"), 1),
                (("run", "-m", STORIES, "-p", "x"), 1),
                (("verify", "-m", STORIES, "--raw", "-p", "x", "-c", "1"), 1)):
            on_gpu, on_cpu = gpu(*ask), specbound(*ask)
            self.refused(on_gpu, status)
            self.assertEqual(on_gpu.stderr, on_cpu.stderr)

    def test_the_cpu_of_this_program_is_the_cpu(self):
        def told(result):
            return re.sub(rb"[\d.]+ (ms|tok/s|GB/s)|(plain|speedup) [\d.]+", b"", result.stderr)

        ask = (*RAW, "-p", "Once", "-n", "20", "-s", "1", "--controller", "off")
        for cpu in (("--device", "cpu"), ("-ngl", "0")):
            one, two = (self.ran(run(*ask, *cpu), b"backend: CPU (") for run in (gpu, specbound))
            self.assertEqual((one.stdout, told(one)), (two.stdout, told(two)))


class NoGpu(Case):
    """Asked for by name a GPU is had, or an error says why not; else a line says why not."""
    ASK = (*RAW, "-p", "", "-n", "2", "--temp", "0")
    STATES = {"no-driver": b"no NVIDIA driver", "old-driver": b"driver 550", "no-gpu": b"no GPU"}

    def test_nothing_is_silent(self):
        for state, why in self.STATES.items():
            result = self.ran(gpu(*self.ASK, STATE=state), b"backend: CPU (")
            lines = [line for line in result.stderr.splitlines() if why in line]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertIn(b"every layer runs on the CPU", lines[0])
            asked = self.ran(gpu(*self.ASK, "-ngl", "all", STATE=state), b"backend: CPU (")
            self.assertRegex(asked.stderr, rb"\n-ngl all: .*" + why)
            asked = self.ran(gpu(*self.ASK, "-ngl", "2", STATE=state), b"backend: CPU (")
            self.assertRegex(asked.stderr, rb"\n-ngl 2: .*" + why)
            for quiet in (("--device", "cpu"), ("-ngl", "0")):
                self.assertNotIn(why, gpu(*self.ASK, *quiet, STATE=state).stderr)

    def test_asked_for_by_name(self):
        for state, why in self.STATES.items():
            for device in ("cuda", "cuda:0"):
                self.refused(gpu(*self.ASK, "--device", device, STATE=state), 1,
                             f"--device {device}: ".encode(), why, b"leave out --device")
        self.refused(gpu(*self.ASK, "--device", "cuda:7"), 2, b"cuda:7: there is no such GPU",
                     b"cuda:0 (")
        for device in ("cuda:0", "cuda:1"):
            self.ran(gpu(*self.ASK, "--device", device, GPUS=2))
        self.refused(gpu(*self.ASK, "--device", "cuda:2", GPUS=2), 2, b"cuda:0 (", b"cuda:1 (")

    def test_a_build_without_a_gpu_backend(self):
        if b"no GPU backend" not in specbound("run", "--help").stdout:
            self.skipTest("this build has one")
        self.assertNotIn(b"GPU", specbound(*self.ASK).stderr)
        for device in ("cuda", "cuda:1"):
            self.refused(specbound(*self.ASK, "--device", device), 2,
                         f"--device {device}: this build has no GPU backend".encode())
        for flags in (("-ngl", "all"), ("--dtype", "fp16"), ("--prefill", "cublas")):
            for draft in ((), ("-md", STORIES)):  # of which nothing was asked
                result = self.ran(specbound(*self.ASK, *flags, *draft), b"backend: CPU (")
                self.assertIn(" ".join(flags).encode() + b": this build has no GPU backend",
                              result.stderr)

    def test_a_model_that_the_kernels_cannot_run(self):
        ask = ("run", "--raw", "-m", at("odd.gguf"), "-p", "", "-n", "2", "--temp", "0")
        result = self.ran(gpu(*ask), b"backend: CPU (")
        self.assertIn(b"the GPU kernels cannot run this model: its rows have 62 values",
                      result.stderr)
        for flags in (("--device", "cuda"), ("-ngl", "all")):
            self.refused(gpu(*ask, *flags), 1, b"cannot run this model", b"--device cpu")
        info = gpu("info", at("odd.gguf"))
        self.assertRegex(info.stdout, rb"GPU +no: .*its rows have 62 values")


class Memory(Case):
    ASK = ("run", "-m", DEMO, "-p", "Hi", "-n", "1", "--temp", "0")

    def test_too_large_is_an_error_with_the_numbers(self):
        needed = json.loads(gpu("info", DEMO, "--json").stdout)["gpu"]["bytes"]["total"]
        for flags in (("--device", "cuda"), ("-ngl", "all"), ("-ngl", "1")):
            self.refused(gpu(*self.ASK, *flags, MEMORY=needed // 4), 1, b"not enough memory", b"MB",
                         b"no context (-c N) is small enough", b"--device cpu")
        cpu = self.ran(gpu(*self.ASK, MEMORY=needed // 4), b"backend: CPU (")
        self.assertRegex(cpu.stderr, rb"\nthe model does not fit on the GPU \(needs [\d.]+ MB, "
                                     rb"found .* free\): every layer on the CPU\n")
        self.ran(gpu(*self.ASK, "--device", "cpu", MEMORY=needed // 4), b"backend: CPU (")
        self.ran(gpu(*self.ASK, MEMORY=needed))
        self.refused(gpu(*self.ASK, "--prefill", "cublas", MEMORY=needed), 1, b"not enough memory")

    def test_what_does_not_fit_is_split(self):
        info = json.loads(gpu("info", DEMO, "--json").stdout)["gpu"]
        self.assertEqual(info["layers"], 17)  # and the output
        memory = info["bytes"]["total"] - info["bytes"]["workspace"] - 8000000
        found = json.loads(gpu("info", DEMO, "--json", MEMORY=memory).stdout)["gpu"]
        most = found["layers"]
        self.assertTrue(2 < most < 16, most)
        self.assertIn(f"; -ngl {most} of 16 layers fits", found["reason"])
        doctor = gpu("doctor", "-m", DEMO, MEMORY=memory).stdout
        self.assertIn(f"-ngl {most}: so many of its 16 layers fit".encode(), doctor)
        whole = gpu("doctor", "-m", DEMO).stdout
        self.assertIn(b"-ngl all: it fits whole", whole)
        self.refused(gpu(*self.ASK, "-ngl", "all", MEMORY=memory), 1, b"not enough memory",
                     f"--device cpu or -ngl {most} or --kv int8 (".encode())
        self.refused(gpu(*self.ASK, "-ngl", str(most + 1), MEMORY=memory), 1,
                     f"{most + 1} layers' weights".encode(), f"or -ngl {most} ".encode())
        split = f"{most} of 16 layers) + CPU (".encode()
        for flags in ((), ("--device", "cuda")):
            result = self.ran(gpu(*self.ASK, *flags, MEMORY=memory), split)
            self.assertIn(f"free): -ngl {most} of 16 layers run there, the rest on the CPU\n"
                          .encode(), result.stderr)
            self.assertRegex(result.stderr, rb", uploaded .* GB/s, repacked .* GB/s\n")
        self.assertEqual(result.stdout, gpu(*self.ASK, "-ngl", "0").stdout)

    def test_the_context_that_it_names_fits(self):
        memory = json.loads(gpu("info", DEMO, "--json").stdout)["gpu"]["bytes"]["total"]
        plain = ("--spec", "off", "-ngl", "all")
        result = gpu(*self.ASK, *plain, "-c", "20000", MEMORY=memory)
        self.assertIn(b"K/V for -c 20000", result.stderr)
        fits = int(re.search(rb"-c (\d+) is the largest context that fits", result.stderr)[1])
        self.assertGreaterEqual(fits, 768)  # heads, which are not used, left their place
        over = gpu(*self.ASK, *plain, "-c", str(fits + 64), MEMORY=memory)
        self.assertIn(b"-c %d is the largest context that fits" % fits, over.stderr)
        self.assertEqual((result.returncode, over.returncode), (1, 1))
        # With them it is too long.
        drafting = gpu(*self.ASK, "-ngl", "all", "-c", str(fits), MEMORY=memory)
        self.assertEqual(drafting.returncode, 1)
        self.assertIn(b"exit heads", drafting.stderr)
        self.assertNotIn(b"exit heads", over.stderr)
        self.ran(gpu(*self.ASK, *plain, "-c", str(fits), MEMORY=memory))

    def test_info_plans_it(self):
        found = json.loads(gpu("info", at("two.gguf"), "--json").stdout)["gpu"]
        self.assertTrue(found["runs"])
        self.assertEqual(found["context"], 768)
        self.assertEqual(found["bytes"]["total"],
                         sum(size for name, size in found["bytes"].items() if name != "total"))
        self.assertGreater(found["bytes"]["exit_heads"], 0)
        self.assertEqual(found["largest_context"], found["largest_context_kv_int8"])
        self.assertRegex(gpu("info", at("two.gguf")).stdout, rb"\nGPU +yes: .* MB at a context of ")
        almost = found["bytes"]["total"] - 1
        less = json.loads(gpu("info", at("two.gguf"), "--json", MEMORY=almost).stdout)["gpu"]
        self.assertEqual((less["largest_context"], less["largest_context_kv_int8"]), (704, 768))
        self.assertIn("; -c 768 with --kv int8", less["reason"])
        doctor = gpu("doctor", "-m", DEMO, "--json", MEMORY=100000).stdout  # the L2 has 16 kB
        examined, = json.loads(doctor)["gpu"]["gpus"]
        self.assertEqual((examined["read_bytes_per_second"], examined["failure"],
                          examined["bundled_model_context"]), (None, None, 0))
        small = json.loads(gpu("info", at("two.gguf"), "--json", MEMORY=1000000).stdout)["gpu"]
        self.assertEqual((small["runs"], small["reason"]), (False, "too large at any context"))
        self.assertIsNone(json.loads(gpu("info", DEMO, "--json", STATE="no-gpu").stdout)["gpu"])


class Failures(Case):
    ASK = ("run", "-m", "two.gguf", *ONE_TOKEN, "-n", "4", "--temp", "0")

    def test_one_line_and_no_more(self):
        ask = [at(word) if word == "two.gguf" else word for word in self.ASK]
        for failure, first, last in (("REFUSE", 1, 20), ("FAIL_LAUNCH", 1, 5),
                                     ("FAIL_KERNEL", 1, 60), ("LOSE", 1, 60)):
            for n in (first, last):
                result = gpu(*ask, **{failure: n})
                self.assertEqual(result.returncode, 1, (failure, n, result.stderr))
                told = [line for line in result.stderr.splitlines()
                        if line.startswith(b"specbound run: ")]
                self.assertEqual(len(told), 1, result.stderr)
                self.assertNotIn(b"unexpected", told[0])

    def test_while_loading_it_says_how_to_do_without(self):
        ask = [at(word) if word == "two.gguf" else word for word in self.ASK]
        self.refused(gpu(*ask, LOSE=2), 1, b"--device cpu does without the GPU")


if __name__ == "__main__":
    if SIMT is None:
        print("SKIP the program on the SIMT executor: SPECBOUND_SIMT_BINARY names none")
    unittest.main()
