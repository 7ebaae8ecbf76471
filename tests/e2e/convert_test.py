#!/usr/bin/env python3
"""specbound convert, from the outside: Hugging Face directories to files that run, and what it says
of directories that cannot be converted. What is in the files is for the unit tests."""
import json
import os
import shutil
import signal
import struct
import time
import unittest

from specbound_process import ROOT, FolderCase, specbound, start

GOLDEN = os.path.join(ROOT, "tests/golden/convert")


class Convert(FolderCase):
    def copy_of(self, name):
        target = self.path(name)
        shutil.copytree(os.path.join(GOLDEN, name), target)
        return target

    def test_every_model_runs(self):
        for name in sorted(os.listdir(GOLDEN)):
            directory = os.path.join(GOLDEN, name)
            if not os.path.isdir(directory):
                continue
            with self.subTest(name):
                out = self.path(name + ".gguf")
                done = specbound("convert", directory, "-o", out, "--type", "q8_0", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                summary = json.loads(done.stdout)
                self.assertEqual(summary["bytes"], os.path.getsize(out))
                self.assertEqual((summary["name"], summary["type"]), (name, "Q8_0"))
                self.assertTrue(summary["chat_template"])
                info = json.loads(specbound("info", out, "--json").stdout)
                self.assertTrue(info["runs"], info["reason"])
                self.assertTrue(info["text"], info["text_reason"])
                self.assertEqual(info["config"]["architecture"], summary["architecture"])
                self.assertEqual(info["totals"]["tensors"], summary["tensors"])
                ran = specbound("run", "-m", out, "-p", "the quick", "-n", "4", "-s", "1",
                                "--ignore-eos", "-t", "1")
                self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_layerskip_checkpoints_draft_by_their_own_output_matrix(self):
        """Those are ordinary ones, which were trained with layers dropped and every layer's exit
        through the one lm_head; here of random weights."""
        model = self.path("layerskip.gguf")
        done = specbound("convert", self.layerskip(), "-o", model)
        self.assertEqual(done.returncode, 0, done.stderr)
        for layer in ("1", "2", "5"):
            same = specbound("verify", "-m", model, "--speculator", "layerskip", "--exit-layer",
                             layer, "--bits", "--raw", "-p", "a", "-n", "24", "--temps", "0,0.8",
                             "--ignore-eos")
            self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        stats = self.path("stats.json")
        run = specbound("run", "-m", model, "--speculator", "layerskip", "--exit-layer", "5",
                        "--raw", "-p", "a", "-n", "24", "--temp", "0", "--ignore-eos",
                        "--controller", "off", "--stats-json", stats)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(b"layerskip with the logit lens, up to 7 rows, check at layer 5 of 6",
                      run.stderr)
        with open(stats, encoding="utf-8") as file:
            done = json.load(file)
        # The sixth layer adds nothing, so what the fifth says is right.
        self.assertGreater(done["drafted_tokens"], 12)
        self.assertEqual(done["accepted_tokens"], done["drafted_tokens"])

    def test_default_name_type_and_words(self):
        done = specbound("convert", os.path.join(GOLDEN, "qwen2"), cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(os.listdir(self.folder), ["qwen2-f16.gguf"])
        self.assertIn(b"qwen2-f16.gguf: qwen2 (qwen2)", done.stdout)
        self.assertIn(b"byte-level BPE, words cut as qwen2; with a chat template", done.stdout)
        named = specbound("convert", os.path.join(GOLDEN, "llama") + "/", "--name", "A b",
                          "-o", self.path("n.gguf"), "--json")
        self.assertEqual(json.loads(named.stdout)["name"], "A b")

    def test_notes_go_to_stderr(self):
        directory = self.copy_of("gemma")
        path = os.path.join(directory, "tokenizer_config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        for token in config["added_tokens_decoder"].values():
            token["rstrip"] = token["content"] == "<start_of_turn>"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        done = specbound("convert", directory, "-o", self.path("x.gguf"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rb"note: .* added tokens swallow or keep white space")

    def test_composing_comes_along_and_the_pre_tokenizer_can_be_named(self):
        directory = self.copy_of("qwen2")
        path = os.path.join(directory, "tokenizer.json")
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["normalizer"] = {"type": "NFC"}
        tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a|b"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        refused = specbound("convert", directory, "-o", self.path("x.gguf"))
        self.assertEqual((refused.returncode, refused.stdout), (1, b""))
        self.assertIn(b"'a|b'", refused.stderr)
        self.assertIn(b"--pre NAME", refused.stderr)
        done = specbound("convert", directory, "-o", self.path("x.gguf"), "--pre", "qwen2")
        self.assertEqual(done.returncode, 0, done.stderr)
        cut, whole = (specbound("tokenize", "-m", self.path("x.gguf"), "-p", text).stdout
                      for text in ("Cafe\u0301", "Caf\u00e9"))
        self.assertEqual(cut, whole)
        unknown = specbound("convert", directory, "-o", self.path("y.gguf"), "--pre", "martian")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn(b"martian", unknown.stderr)

    def test_mistakes_are_one_clear_line_and_no_file(self):
        llama = os.path.join(GOLDEN, "llama")
        out = self.path("out.gguf")
        empty = self.path("empty")
        os.mkdir(empty)
        cases = [
            (("convert",), 2, b"DIR"),
            (("convert", llama, "-o", out, "--type", "Q9"), 2, b"--type Q9"),
            (("convert", llama, "-o", out, "--pre", "qwen2"), 2, b"--pre qwen2"),
            (("convert", empty, "-o", out), 1, b"config.json"),
            (("convert", self.path("no such"), "-o", out), 1, b"nothing"),
            (("convert", os.path.join(llama, "config.json"), "-o", out), 1, b"a file"),
            (("convert", llama, "-o", "/dev/null"), 1, b"/dev/null"),
            (("convert", llama, "-o", os.path.join(self.folder, "no", "x.gguf")), 1, b"no/x.gguf"),
        ]
        for arguments, code, says in cases:
            with self.subTest(arguments):
                result = specbound(*arguments)
                self.assertEqual((result.returncode, result.stdout), (code, b""))
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
                self.assertIn(says, result.stderr)
                self.assertEqual(os.listdir(self.folder), ["empty"])

    def test_a_model_is_not_written_over(self):
        out = self.path("out.gguf")
        directory = os.path.join(GOLDEN, "qwen2")
        self.assertEqual(specbound("convert", directory, "-o", out).returncode, 0)
        with open(out, "rb") as file:
            before = file.read()
        again = specbound("convert", directory, "-o", out, "--type", "Q8_0")
        self.assertEqual(again.returncode, 1)
        self.assertIn(b"out.gguf", again.stderr)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_what_is_converted_is_not_written_over(self):
        directory = self.path("source")
        shutil.copytree(os.path.join(GOLDEN, "qwen2"), directory)
        for name in sorted(os.listdir(directory)):
            with open(os.path.join(directory, name), "rb") as file:
                before = file.read()
            result = specbound("convert", directory, "-o", os.path.join(directory, name))
            self.assertEqual(result.returncode, 1, name)
            self.assertIn(b"is not written over", result.stderr)
            with open(os.path.join(directory, name), "rb") as file:
                self.assertEqual(file.read(), before)

    def test_an_interrupted_conversion_leaves_nothing(self):
        directory = self.big_model()
        target = self.path("target")
        os.mkdir(target)
        with start("convert", directory, "-o", os.path.join(target, "big.gguf"), "--type", "Q4_0",
                   "-t", "1") as process:
            deadline = time.monotonic() + 60
            while not os.listdir(target) and time.monotonic() < deadline:
                time.sleep(0.005)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"interrupted: no file was written", told)
        self.assertEqual(os.listdir(target), [])

    def big_model(self):
        """qwen2 with one layer whose feed-forward part takes a while: zeros in a sparse file."""
        directory = self.copy_of("qwen2")
        ffn = 1 << 20
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config.update(num_hidden_layers=1, intermediate_size=ffn, layer_types=["full_attention"])
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        path = os.path.join(directory, "model.safetensors")
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        at, tensors = 0, {}
        for name, entry in header.items():
            if name == "__metadata__" or ".layers.1." in name:
                continue
            shape = [ffn if "mlp." in name and n == 32 and i == ("down_proj" in name) else n
                     for i, n in enumerate(entry["shape"])]
            size = 2
            for n in shape:
                size *= n
            tensors[name] = dict(dtype="BF16", shape=shape, data_offsets=[at, at + size])
            at += size
        text = json.dumps(tensors).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + at)
        return directory

    def test_published_heads_draft_the_same_text(self):
        golden = os.path.join(ROOT, "tests/golden")
        for kind, name, base in (("medusa", "medusa", "llama_gqa"), ("eagle", "eagle", "llama_gqa"),
                                 ("eagle", "eagle_qkv", "qwen2"),
                                 ("hydra", "hydra", "llama_deep"),
                                 ("hydra", "hydra_tied", "gemma3"),
                                 ("eagle3", "eagle3", "llama_deep"),
                                 ("eagle3", "eagle3_all", "gemma3"),
                                 ("mtp", "mtp", "qwen2"), ("mtp", "mtp_pairs", "llama_gqa"),
                                 ("kangaroo", "kangaroo", "llama_deep"),
                                 ("kangaroo", "kangaroo_halves", "qwen2")):
            with self.subTest(name):
                model, out = os.path.join(golden, base + ".gguf"), self.path(name + ".heads.gguf")
                done = specbound("convert", "--heads", os.path.join(golden, "drafters", name),
                                 "-m", model, "-o", out, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                summary = json.loads(done.stdout)
                self.assertEqual(summary["kind"], kind)
                self.assertEqual(summary["bytes"], os.path.getsize(out))
                info = json.loads(specbound("info", out, "--json").stdout)["exit_heads"]
                self.assertEqual([head["kind"] for head in info["heads"]], [kind])
                layer = info["heads"][0]["layer"]
                self.assertEqual(layer > 0, kind == "kangaroo")
                self.assertIn(f"{kind} at {layer}".encode(), specbound("info", out).stdout)
                for speculator in (kind, "auto"):
                    same = specbound("verify", "-m", model, "--heads", out, "--speculator",
                                     speculator, "--bits", "--raw", "-p", "a", "-n", "24",
                                     "--ignore-eos")
                    self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
                if kind in ("medusa", "hydra"):
                    self.check_medusa_s_own_rules(model, out, kind)
                none = specbound("run", "-m", model, "--speculator", kind, "--raw", "-p", "a")
                self.assertEqual(none.returncode, 2)
                self.assertIn(b"convert --heads", none.stderr)

    def check_medusa_s_own_rules(self, model, heads, kind):
        drafting = ("--heads", heads, "--speculator", kind, "--fixed-tree")
        same = specbound("verify", "-m", model, *drafting, "--raw", "-p", "a", "-n", "24",
                         "--temps", "0,1", "--ignore-eos")
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        typical = (*drafting, "--accept", "typical")
        others = 0
        for temperature, seed in (("0", "1"), *(("4", str(seed)) for seed in range(1, 4))):
            ask = ("run", "-m", model, "--raw", "-p", "a", "-n", "48", "--temp", temperature,
                   "--seed", seed, "--ignore-eos")
            plain, *drafted = (specbound(*ask, *more) for more in (("--spec", "off"), typical,
                                                                   typical))
            self.assertEqual(drafted[0].returncode, 0, drafted[0].stderr)
            self.assertEqual(drafted[0].stdout, drafted[1].stdout)
            if temperature == "0":
                self.assertEqual(drafted[0].stdout, plain.stdout)
            others += drafted[0].stdout != plain.stdout
            for part in (b"a fixed tree by",
                         b"accepted where typical: another text, of other probabilities"):
                self.assertIn(part, drafted[0].stderr)
        if kind != "hydra" or "gemma3" not in model:  # which is sure of what none of them drafts
            self.assertGreater(others, 0)
        for command, says in (
                (("verify",), b"gives another text than plain decoding"),
                (("bench", "--compare", "spec"), b"gives another text, which cannot be timed"),
                (("serve", "--port", "0"), b"expected --parallel 1, found 8")):
            refused = specbound(command[0], "-m", model, *command[1:], *typical)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(b"--accept typical: " + says, refused.stderr)
        for flags in (("--accept", "typical"), ("--fixed-tree",)):
            refused = specbound("run", "-m", model, "-p", "a", "--speculator", "eagle", *flags)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(" ".join(flags).encode() +
                          b": needs --speculator medusa or hydra, found eagle", refused.stderr)

    def test_a_model_s_own_layer_drafts_for_it(self):
        directory, out = self.mimo(), self.path("mimo.gguf")
        done = specbound("convert", directory, "-o", out, "--type", "F16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rb"note: 16 tensors of multi-token prediction .* --heads")
        self.assertIn(b"mimo (qwen2)", done.stdout)
        plain = self.path("qwen2.gguf")
        self.assertEqual(specbound("convert", os.path.join(GOLDEN, "qwen2"), "-o", plain, "--name",
                                   "mimo").returncode, 0)
        with open(out, "rb") as ours, open(plain, "rb") as other:
            self.assertEqual(ours.read(), other.read())
        heads = self.path("mimo.heads.gguf")
        done = specbound("convert", "--heads", directory, "-m", out, "-o", heads)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"a multi-token prediction layer, 0.0 million parameters", done.stdout)
        for speculator in ("mtp", "auto"):
            same = specbound("verify", "-m", out, "--speculator", speculator, "--bits", "-p",
                             "the quick", "-n", "24", "--ignore-eos", "-t", "1")
            self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        other = specbound("convert", "--heads", directory, "-m",
                          os.path.join(ROOT, "tests/golden/llama_gqa.gguf"), "-o", self.path("x"))
        self.assertEqual(other.returncode, 1)
        self.assertRegex(other.stderr, rb"hidden_size.*expected 64, the model's, found 32")

    def changed_copy(self, name, golden, config, change):
        """The directory `golden` with these keys in its config, and with what change(header, parts)
        makes of its tensors."""
        directory = self.path(name)
        shutil.copytree(os.path.join(GOLDEN, golden), directory)
        path = os.path.join(directory, "config.json")
        with open(path, encoding="utf-8") as file:
            keys = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**keys, **config}, file)
        path = os.path.join(directory, "model.safetensors")
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        header.pop("__metadata__", None)
        parts = {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}
        change(header, parts)
        at = 0
        for name, entry in header.items():
            entry["data_offsets"] = [at, at + len(parts[name])]
            at += len(parts[name])
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(parts[n] for n in header))
        return directory

    def mimo(self):
        """qwen2 with a layer of multi-token prediction, which is its first layer over again."""
        def change(header, parts):
            layer, norm = "model.mtp_layers.0.", "model.norm.weight"
            for name in list(parts):
                if name.startswith("model.layers.0."):
                    mine = layer + name.removeprefix("model.layers.0.")
                    header[mine], parts[mine] = dict(header[name]), parts[name]
            for name in ("token", "hidden", "final"):
                mine = f"{layer}{name}_layernorm.weight"
                header[mine], parts[mine] = dict(header[norm]), parts[norm]
            name, [dim] = layer + "input_proj.weight", header[norm]["shape"]
            header[name] = dict(dtype="BF16", shape=[dim, 2 * dim])
            parts[name] = struct.pack("<H", 0x3e00) * (2 * dim * dim)  # 0.125

        return self.changed_copy("mimo", "qwen2", dict(architectures=["MiMoForCausalLM"],
                                                       attention_bias=True,
                                                       num_nextn_predict_layers=1), change)

    def layerskip(self):
        """llama_json with its layer six times, the last of which adds nothing."""
        def change(header, parts):
            first = "model.layers.0."
            for name in [name for name in parts if name.startswith(first)]:
                for layer in range(1, 6):
                    mine = f"model.layers.{layer}." + name.removeprefix(first)
                    header[mine], parts[mine] = dict(header[name]), parts[name]
                    if layer == 5 and ("o_proj" in name or "down_proj" in name):
                        parts[mine] = bytes(len(parts[name]))

        return self.changed_copy("layerskip", "llama_json", dict(num_hidden_layers=6), change)

    def test_heads_ask_for_what_they_need(self):
        heads = os.path.join(ROOT, "tests/golden/drafters/medusa")
        for flags, part in (((), b"-m MODEL"), (("-m", "x.gguf"), b"-o FILE"),
                            (("x", "-m", "x.gguf"), b"one directory"),
                            (("-m", "x.gguf", "-o", self.path("o"), "--type", "Q4_0"), b"Q8_0"),
                            (("-m", "x.gguf", "-o", self.path("o"), "--name", "n"), b"--name")):
            with self.subTest(flags):
                done = specbound("convert", "--heads", heads, *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(part, done.stderr)
        self.assertEqual(specbound("convert", "x", "-m", "y.gguf").returncode, 2)

    def test_help_teaches(self):
        text = specbound("convert", "--help").stdout
        for part in (b"safetensors", b"SmolLM3ForCausalLM", b"--pre", b"Examples:"):
            self.assertIn(part, text)
        self.assertIn(b"convert", specbound("--help").stdout)


if __name__ == "__main__":
    unittest.main()
