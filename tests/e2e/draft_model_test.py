#!/usr/bin/env python3
"""--speculator draft, from the outside: a second model drafts and the text is the plain one; with
--accept rejection it is another one; models that cannot draft for this one are refused."""
import functools
import json
import os
import tempfile
import unittest

from gguf_file import GgufFile
from serve_client import CHAT, Server, ask, together
from specbound_process import DEMO, STORIES, FolderCase, specbound

ASK = ("-p", "I need a table for two tonight.", "-n", "48", "--ignore-eos", "-t", "1")


def changed(path, name, change):
    """Another demo model: one entry of its vocabulary changed."""
    model = GgufFile(DEMO)
    if isinstance(model.entries[name][1], tuple):
        values = list(model.entries[name][1][1])
        model.put(name, change(values) or values)
    else:
        model.put(name, change(model.entries[name][1]))
    with open(path, "wb") as file:
        file.write(model.bytes())
    return path


def shallow(path, layers, context=None):
    """The demo model without its last layers, a drafter that is sometimes right."""
    model = GgufFile(DEMO)
    model.put("llama.block_count", layers)
    if context:
        model.put("llama.context_length", context)
    model.tensors = {name: tensor for name, tensor in model.tensors.items()
                     if not name.startswith("blk.") or int(name.split(".")[1]) < layers}
    with open(path, "wb") as file:
        file.write(model.bytes())
    return path


FOLDER = None
SHALLOW = None


def setUpModule():
    global FOLDER, SHALLOW
    FOLDER = tempfile.TemporaryDirectory()
    SHALLOW = shallow(os.path.join(FOLDER.name, "shallow.gguf"), 14)


def tearDownModule():
    FOLDER.cleanup()


def draft(model, *more):
    return ("--speculator", "draft", "-md", model, *more)


class Draft(FolderCase):
    def run_stats(self, *arguments):
        path = self.path("stats.json")
        result = specbound("run", "-m", DEMO, *ASK, *arguments, "--stats-json", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)

    def test_the_text_is_the_plain_one(self):
        for sampling in (("--temp", "0"), ("--temp", "0.9", "-s", "2"),
                         ("--temp", "1", "-s", "3", "--repeat-penalty", "1.3", "--top-k", "0")):
            plain, _ = self.run_stats(*sampling, "--spec", "off")
            for model, flags in ((DEMO, ()), (SHALLOW, ("--tau", "0")),
                                 (SHALLOW, ("--w-max", "16"))):
                result, stats = self.run_stats(*sampling, *draft(model, *flags))
                self.assertEqual(result.stdout, plain.stdout, (sampling, model, flags))
                self.assertIs(stats["speculation_active"], True)
                self.assertLessEqual(set(stats["exit_layers"]), {"0"})
                self.assertGreater(stats["drafted_tokens"], 0)
                if model == DEMO:
                    self.assertEqual(stats["accepted_tokens"], stats["drafted_tokens"])
                else:
                    self.assertLess(stats["accepted_tokens"], stats["drafted_tokens"])

    def test_bits(self):
        path = self.path("result.json")
        result = specbound("verify", "-m", DEMO, "-t", "2", "--speculator", "draft", "-md", SHALLOW,
                           "--bits", "-n", "24", "--temps", "0,0.7", "--seeds", "1", "-p", "x",
                           "-p", "I need a table for two tonight.", "--ignore-eos", "--json", path)
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        self.assertIn(b"drafted by the draft model", result.stderr)
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.assertTrue(data["identical"])
        self.assertGreater(data["accepted_tokens"], 0)
        self.assertEqual((data["settings"]["model_draft"], data["settings"]["tau"]),
                         (SHALLOW, 0.4))

    def test_in_the_tree(self):
        for sampling in (("--temp", "0"), ("--temp", "0.9", "-s", "2")):
            plain, _ = self.run_stats(*sampling, "--spec", "off")
            for flags in ((), ("--w-max", "3"), ("--controller", "off")):
                result, stats = self.run_stats(*sampling, "-md", SHALLOW, *flags)
                self.assertEqual(result.stdout, plain.stdout, (sampling, flags))
                self.assertIn(b" drafts in place of ", result.stderr)
                self.assertRegex(result.stderr, rb"speculation on: auto, a tree of lookups.* and "
                                 rb"the draft model " + SHALLOW.encode())
                if "--controller" in flags:
                    self.assertGreater(stats["drafted_tokens"], 0)
        result = specbound("verify", "-m", DEMO, "-t", "2", "-md", SHALLOW, "--bits", "-n", "24",
                           "--temps", "0,0.7", "--seeds", "1", "-p", "I need a table for two.",
                           "--ignore-eos")
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        self.assertIn(b"identical", result.stdout)

    def test_rejection_is_another_text_but_at_temperature_0(self):
        plain, _ = self.run_stats("--temp", "0", "--spec", "off")
        several = ("--siblings", "3")
        for more in ((), several):
            result, _ = self.run_stats("--temp", "0",
                                       *draft(SHALLOW, "--accept", "rejection", *more))
            self.assertEqual(result.stdout, plain.stdout)
        self.assertIn(b"accepted by rejection: the probabilities of plain decoding, another text",
                      result.stderr)
        others = 0
        for seed, more in (("1", ()), ("2", several), ("3", ())):
            ask = ("--temp", "1", "-s", seed)
            plain, _ = self.run_stats(*ask, "--spec", "off")
            texts = {self.run_stats(*ask, *draft(SHALLOW, "--accept", "rejection", *more))[0].stdout
                     for _ in range(2)}
            self.assertEqual(len(texts), 1)
            others += plain.stdout not in texts
        self.assertGreater(others, 0)

    def test_served_by_rejection_no_text_depends_on_company(self):
        server = Server(*draft(SHALLOW, "--accept", "rejection"), "--parallel", "1")
        self.addCleanup(server.end)
        requests = [ask(temperature=1, seed=seed) for seed in range(4)]
        alone = [server.post(CHAT, request).text for request in requests]
        plain = [server.post(CHAT, {**request, "speculation": False}).text for request in requests]
        self.assertNotEqual(alone, plain)
        posts = [functools.partial(server.post, CHAT, request) for request in requests]
        self.assertEqual([answer.text for answer in together(posts)], alone)
        # Nor on how much was written before.
        long = ask(temperature=1, seed=5, max_tokens=160, ignore_eos=True)
        once = server.post(CHAT, long).text
        for _ in range(2):
            self.assertEqual(server.post(CHAT, long).text, once)

    def test_in_a_conversation(self):
        talk = b"Hello!\n/regen\nAnd tomorrow?\n/spec off\nHello!\n/spec on\nHello!\n/clear\nHi\n"
        ask = ("chat", "-m", DEMO, "-s", "4", "-n", "24", "-t", "1")
        plain = specbound(*ask, "--spec", "off", stdin=talk.replace(b"/spec off\n", b"").replace(
            b"/spec on\n", b""))
        drafted = specbound(*ask, *draft(SHALLOW), stdin=talk)
        self.assertEqual(drafted.returncode, 0, drafted.stderr)
        self.assertEqual(drafted.stdout, plain.stdout)
        self.assertIn(b"speculation on: draft, by " + SHALLOW.encode(), drafted.stderr)

    def test_a_drafter_with_less_context(self):
        model = shallow(self.path("short.gguf"), 14, context=32)
        plain, _ = self.run_stats("--temp", "0", "--spec", "off")
        result, stats = self.run_stats("--temp", "0", *draft(model, "--tau", "0"))
        self.assertEqual(result.stdout, plain.stdout)
        self.assertGreater(stats["drafted_tokens"], 0)

    def test_it_says_what_it_is(self):
        result, _ = self.run_stats(*draft(SHALLOW, "--w-max", "5", "--tau", "0.3"))
        self.assertIn(b"speculation on: draft, by " + SHALLOW.encode()
                      + b" (14 layers), up to 5 rows, tau 0.3\n", result.stderr)
        self.assertIn(b"draft model: " + SHALLOW.encode(), result.stderr)
        result, _ = self.run_stats(f"-md={SHALLOW}", "--speculator", "draft", "--spec", "off")
        self.assertIn(b"speculation off: --spec off", result.stderr)
        self.assertNotIn(b"draft model:", result.stderr)


class Refused(FolderCase):
    def check_refused(self, *arguments, says, status=2, command="run"):
        result = specbound(command, "-m", DEMO, "-p", "x", "-n", "1", *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, b"")
        self.assertIn(says, result.stderr.splitlines()[-1])

    def test_flags_that_do_not_go_together(self):
        self.check_refused("--speculator", "draft", says=b"--speculator draft: needs --model-draft")
        self.check_refused("-md", SHALLOW, "--speculator", "ngram",
                           says=b"--model-draft: needs --speculator auto or draft, found ngram")
        self.check_refused("-md", SHALLOW, "--preset", "paper",
                           says=b": --preset paper is exit heads alone; leave one of them out")
        self.check_refused("--accept", "rejection",
                           says=b"--accept rejection: needs --speculator draft")
        self.check_refused("--accept", "maybe", says=b"expected coupled, rejection or typical")
        self.check_refused("-md", "", says=b"--model-draft: expected the name of a file")
        self.check_refused(*draft(SHALLOW, "--spec", "on", "--w-max", "1"),
                           says=b"leaves no row to draft")
        self.check_refused("--speculator", "draft", "-md", SHALLOW, "--accept", "rejection",
                           command="verify", says=b"--accept rejection: gives another text than "
                           b"plain decoding: there is nothing to compare")
        for parallel, found in (((), 8), (("--parallel", "2"), 2)):
            result = specbound("serve", "-m", DEMO, "--port", "0", *parallel,
                               *draft(SHALLOW, "--accept", "rejection"))
            self.assertEqual((result.returncode, result.stdout), (2, b""), result.stderr)
            self.assertIn(f"--accept rejection: expected --parallel 1, found {found}".encode(),
                          result.stderr)

    def test_files_that_are_no_models(self):
        self.check_refused(*draft("/no/such.gguf"), status=1, says=b"/no/such.gguf")
        self.check_refused(*draft(__file__), status=1, says=b"draft_model_test.py")

    def test_other_vocabularies(self):
        self.check_refused(*draft(STORIES), says=b"vocab_size: expected 4096, found 512")

        def swap(tokens):
            tokens[700], tokens[701] = tokens[701], tokens[700]

        def retype(types):
            types[700] = 4

        for name, change, says in (
                ("tokenizer.ggml.tokens", swap, b"token 700: expected \""),
                ("tokenizer.ggml.token_type", retype, b"of type 1, found \""),
                ("tokenizer.ggml.pre", lambda _: b"gpt-2",
                 b"tokenizer.ggml.pre: expected \"default\", found \"gpt-2\""),
                ("tokenizer.ggml.bos_token_id", lambda _: 2, b"BOS token: expected 1, found 2"),
                ("tokenizer.ggml.eos_token_id", lambda _: 1, b"EOS token: expected 2, found 1")):
            model = changed(self.path("other.gguf"), name, change)
            self.check_refused(*draft(model), says=says)
            self.check_refused(*draft(model), says=b"needs the vocabulary of " + DEMO.encode())


if __name__ == "__main__":
    unittest.main()
