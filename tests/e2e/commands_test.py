#!/usr/bin/env python3
"""Every subcommand, from the outside: help, exit codes, doctor."""
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import unittest

from specbound_process import BINARY, DEMO, STORIES, specbound

SIMT_BINARY = os.environ.get("SPECBOUND_SIMT_BINARY")
COMMANDS = ("run", "chat", "verify", "lens", "bench", "ppl", "convert", "quantize", "info",
            "doctor", "tokenize", "detokenize")


class Help(unittest.TestCase):
    def test_the_program_lists_its_commands(self):
        for flag in ("--help", "-h"):
            result = specbound(flag)
            self.assertEqual(result.returncode, 0)
            self.assertEqual(result.stderr, b"")
            for command in COMMANDS:
                self.assertIn(f"\n  {command} ".encode(), result.stdout)

    def test_each_command_explains_itself_with_examples(self):
        for command in COMMANDS:
            for flag in ("--help", "-h"):
                result = specbound(command, flag)
                self.assertEqual(result.returncode, 0, command)
                self.assertEqual(result.stderr, b"")
                self.assertIn(f"specbound {command}".encode(), result.stdout)
                self.assertIn(f"\nExamples:\n  specbound {command}".encode(), result.stdout)

    def test_usage_errors(self):
        bare = specbound()
        self.assertEqual((bare.returncode, bare.stdout), (2, b""))
        self.assertEqual(specbound("frobnicate").returncode, 2)
        for command in COMMANDS:
            result = specbound(command, "--no-such-flag")
            self.assertEqual(result.returncode, 2, command)
            self.assertEqual(result.stdout, b"")
            self.assertIn(b"--no-such-flag", result.stderr)
            self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_version(self):
        self.assertRegex(specbound("--version").stdout, rb"^specbound \d+\.\d+\.\d+\n$")


class Linked(unittest.TestCase):
    """The same file starts on machines without X11, OpenGL or CUDA: what it uses of them is opened
    when it is asked for. It needs the C library alone, the C++ library is in it; where the server
    is built in it needs cpp-httplib too, and shares the C++ library with that."""

    BASE = {"libc", "libm", "libdl", "librt", "libpthread", "ld-linux-x86-64",
            "liblzma",  # in the program where its archive is installed
            "libasan", "libubsan", "libtsan"}  # of gcc's sanitizers; clang's are in the program
    SERVER = {"libcpp-httplib", "libstdc++", "libgcc_s"}

    def has_server(self):
        """Asked by a port on which nothing can be served."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            result = specbound("serve", "-m", STORIES, "--port", str(taken.getsockname()[1]))
        self.assertEqual((result.returncode, result.stdout), (1, b""), result.stderr)
        absent = b"this build has no server" in result.stderr
        self.assertTrue(absent or b"cannot listen" in result.stderr, result.stderr)
        return not absent

    @unittest.skipUnless(shutil.which("readelf"), "SKIP what it is linked with: no readelf")
    def test_with_nothing_but_what_must_be_there(self):
        dynamic = subprocess.run(["readelf", "-d", BINARY], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout
        needed = {name.split(".so")[0] for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)}
        may = self.BASE | self.SERVER if self.has_server() else self.BASE
        self.assertIn("libc", needed)
        self.assertEqual("libcpp-httplib" in needed, "libcpp-httplib" in may)
        self.assertLessEqual(needed, may)
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")


class LeftOut(unittest.TestCase):
    """What an unset shell variable or an empty pipe leaves must not pass for a choice."""

    def check_refused(self, *arguments, says):
        result = specbound(*arguments)
        self.assertEqual(result.returncode, 2, (arguments, result.stderr))
        self.assertEqual(result.stdout, b"")
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        self.assertIn(says, result.stderr)

    def test_empty_file_names(self):
        for command in ("run", "chat", "tokenize", "detokenize"):
            self.check_refused(command, "-m", "", says=b"--model: expected the name of a file")
        for command in ("run", "chat"):
            self.check_refused(command, "--stats-json", "", says=b"--stats-json: expected the name")
        for command in ("run", "tokenize"):
            self.check_refused(command, "-f", "", says=b"--file: expected the name of a file")
        self.check_refused("info", "-m", "", says=b"expected a GGUF file")

    def test_an_empty_prompt_must_be_asked_for(self):
        raw = ("run", "--raw", "-m", STORIES, "-n", "1", "--temp", "0")
        self.check_refused(*raw, says=b"stdin: expected a prompt, found no text")
        self.check_refused(*raw, "-f", "/dev/null", says=b"/dev/null: expected a prompt")
        self.assertEqual(specbound(*raw, "-p", "").stdout, b"Once\n")

    def test_layers_on_a_gpu_that_is_not_there(self):
        raw = ("run", "--raw", "-m", STORIES, "-n", "1", "--temp", "0", "-p", "")  # 5 layers
        for layers, told in (("-ngl99", b"-ngl all: "), ("-ngl=6", b"-ngl all: "),
                             ("-nglall", b"-ngl all: "), ("-ngl1", b"-ngl 1: "),
                             ("-ngl5", b"-ngl 5: ")):
            result = specbound(*raw, layers)
            self.assertEqual((result.returncode, result.stdout), (0, b"Once\n"), layers)
            self.assertIn(told + b"this build has no GPU backend", result.stderr)
        self.assertNotIn(b"no GPU backend", specbound(*raw, "-ngl0").stderr)


class FirstWords(unittest.TestCase):
    """What people type who come from llama.cpp and Ollama."""

    def check_refused(self, *arguments, says, status=2):
        result = specbound(*arguments)
        self.assertEqual((result.returncode, result.stdout), (status, b""), arguments)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        self.assertIn(says, result.stderr)

    def test_a_word_of_one_dash(self):
        for arguments, says in ((("run", "-hello"), b"unknown option -hello;"),
                                (("-hello",), b"unknown option -hello;"),
                                (("run", "-p", "hi", "-fa", "on"), b"unknown option -fa;"),
                                (("run", "-p", "hi", "-no-cnv"), b"unknown option -no-cnv;"),
                                (("chat", "-hf", "x"), b"expected hf:OWNER/REPO"),
                                (("run", "-prompt", "hi"), b"did you mean --prompt?")):
            self.check_refused(*arguments, says=says)
        joined = specbound("run", "--raw", f"-m{STORIES}", "-n1", "-t1", "-s7", "-p", "")
        self.assertEqual(joined.returncode, 0, joined.stderr)

    def test_a_flag_of_another_command(self):
        self.check_refused("-m", DEMO, "-p", "Hi", says=b"unknown option -p; specbound run has it;")
        self.check_refused("serve", "--tensors", says=b"--tensors; specbound info has it;")

    def test_repositories_without_hf(self):
        self.check_refused("run", "-m", "own/stories", "-p", "a", status=1,
                           says=b"own/stories: there is no such file; hf:own/stories would be")
        self.check_refused("run", "hf.co/own/stories/tree", "a", says=b"expected hf:OWNER/REPO")

    def test_models_have_a_place(self):
        self.check_refused("serve", STORIES, "-m", STORIES, says=b"-m and MODEL both name a model")
        self.check_refused("serve", "stray", says=b'expected a model, a GGUF file or a name')

    def test_a_model_without_a_text(self):
        master, slave = pty.openpty()
        try:
            result = subprocess.run([BINARY, "run", STORIES], stdin=slave, timeout=60,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        finally:
            os.close(slave)
            os.close(master)
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(f"; specbound chat {STORIES} talks with the model\n".encode(), result.stderr)

    def test_words_for_off(self):
        self.check_refused("run", "-p", "a", "--speculator", "off", says=b"expected none for plain")
        raw = ("run", "--raw", "-m", STORIES, "-n", "4", "--temp", "0", "-p", "")
        self.assertEqual(specbound(*raw, "-c", "0").stdout, specbound(*raw).stdout)


class Doctor(unittest.TestCase):
    def test_text(self):
        result = specbound("doctor")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in (b"CPU ", b"kernels ", b"memory ", b"bandwidth ", b"GPU ", b"model ", b"try "):
            self.assertIn(b"\n" + name, b"\n" + result.stdout)
        # What it ends in is a command that works as printed, with a name that pull knows.
        [name] = re.findall(rb"(?m)^try +specbound chat -m (\S+)$", result.stdout)
        self.assertIn(b"\n  " + name + b" ", specbound("pull", "--help").stdout)

    def test_a_model_that_is_none_is_refused(self):
        for model, says in (("/no/such.gguf", b"/no/such.gguf"), (__file__, b"GGUF"),
                            ("no-such-name", b"no-such-name")):
            result = specbound("doctor", "-m", model)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(says, result.stderr)

    def test_json(self):
        result = specbound("doctor", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout, parse_constant=self.fail)
        self.assertGreaterEqual(found["cpu"]["logical_cores"], found["cpu"]["physical_cores"])
        self.assertIn(found["cpu"]["kernels"], found["cpu"]["kernels_supported"])
        self.assertIn("portable", found["cpu"]["kernels_supported"])
        self.assertGreater(found["memory"]["total_bytes"], 1 << 28)
        self.assertGreater(found["read_bandwidth"]["one_thread_bytes_per_second"], 1e8)
        self.check_gpu(found["gpu"])
        self.assertTrue(found["bundled_model"].endswith(".gguf"))
        advice = found["recommendation"]
        self.assertEqual(advice["device"] == "cpu", not found["gpu"]["gpus"])
        self.assertGreater(advice["most_tokens_per_second"], 0)
        if advice["device"] == "cpu":  # also where a container may have more than there is
            self.assertLess(advice["largest_file_bytes"], found["memory"]["available_bytes"])

    def check_gpu(self, gpu):
        built = gpu["state"] != "not-built"
        self.assertIs(gpu["backend_in_this_build"], built)
        self.assertEqual(gpu["why_not"] is None, gpu["state"] == "ready")
        self.assertEqual(bool(gpu["gpus"]), gpu["state"] == "ready")
        if not built:
            self.assertIn("this build has no GPU backend", gpu["why_not"])
            self.assertEqual([gpu["driver"], gpu["cuda_version"], gpu["cublas"]], [None] * 3)


@unittest.skipUnless(SIMT_BINARY, "no specbound_simt")
class DoctorWithGpu(unittest.TestCase):
    """The GPU is the SIMT executor, which simulates what goes wrong."""

    def doctor(self, *arguments, environment=None):
        result = specbound("doctor", *arguments, binary=SIMT_BINARY,
                           environment={"SPECBOUND_MODEL": DEMO, **(environment or {})})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode()

    def gpu(self, environment=None):
        found = self.doctor("--json", environment=environment)
        return json.loads(found, parse_constant=self.fail)["gpu"]

    def test_a_gpu(self):
        gpu = self.gpu()
        self.assertEqual((gpu["state"], gpu["why_not"]), ("ready", None))
        [one] = gpu["gpus"]
        self.assertEqual((one["index"], one["name"], one["compute_capability"]),
                         (0, "SIMT executor", "7.5"))
        self.assertEqual(one["free_bytes"], one["total_bytes"])
        self.assertGreater(one["read_bytes_per_second"], 1e6)
        self.assertEqual(one["bundled_model_context"], 768)
        self.assertEqual(one["bundled_model_context_kv_int8"], 768)
        self.assertIsNone(one["failure"])
        text = self.doctor()
        self.assertRegex(text, r"(?m)^GPU +cuda:0 SIMT executor, compute capability 7\.5")
        self.assertRegex(text, r"(?m)^ +8\.6 GB, 8\.6 GB free, [0-9.]+ GB/s read")
        self.assertRegex(text, r"(?m)^ +bundled model: its whole context of \d+ positions fits")

    def plan(self):
        info = specbound("info", "--json", DEMO, binary=SIMT_BINARY)
        return json.loads(info.stdout)["gpu"]["bytes"]

    def test_heads_decide_whether_it_fits_whole(self):
        """As they do when the model is loaded."""
        plan = self.plan()
        self.assertGreater(plan["exit_heads"], 1000000)
        for without, layers, status, says in (
                (0, 17, 0, "-ngl all: it fits whole"),
                (plan["exit_heads"] // 2, 16, 1, "-ngl 16: so many of its 16 layers fit")):
            memory = {"SPECBOUND_SIMT_MEMORY": str(plan["total"] - without)}
            [one] = self.gpu(memory)["gpus"]
            self.assertEqual(one["bundled_model_layers"], layers)
            self.assertIn(says, self.doctor(environment=memory))
            run = specbound("run", "-m", DEMO, "-p", "Hi", "-n", "1", "-ngl", "all",
                            binary=SIMT_BINARY, environment=memory)
            self.assertEqual(run.returncode, status, run.stderr)
            self.assertEqual(b"or -ngl 16 " in run.stderr, status == 1, run.stderr)

    def test_little_memory(self):
        almost = self.plan()["total"] - 1
        for memory, context, says in ((almost, 704, "704 of its 768 positions fit"),
                                      (almost // 2, 0, "does not fit")):
            environment = {"SPECBOUND_SIMT_MEMORY": str(memory)}
            [one] = self.gpu(environment)["gpus"]
            self.assertEqual(one["bundled_model_context"], context)
            self.assertEqual(one["bundled_model_context_kv_int8"], 768 if context else 0)
            self.assertIn("bundled model: " + says, self.doctor(environment=environment))

    def test_a_gpu_that_fails_is_a_finding(self):
        for at in range(1, 6):
            environment = {"SPECBOUND_SIMT_LOSE": str(at)}
            [one] = self.gpu(environment)["gpus"]
            self.assertIn("the device is lost", one["failure"])
            self.assertIsNone(one["read_bytes_per_second"])
            self.assertIn("failed: GPU 0 (SIMT executor): ", self.doctor(environment=environment))

    def test_why_there_is_none(self):
        for state, says in (("no-driver", "libcuda.so.1 is not found"),
                            ("old-driver", "serves CUDA 12.4, expected 13.0"),
                            ("no-gpu", "CUDA finds no GPU")):
            environment = {"SPECBOUND_SIMT_STATE": state}
            gpu = self.gpu(environment)
            self.assertEqual((gpu["state"], gpu["gpus"], gpu["cublas"]), (state, [], None))
            self.assertIn(says, gpu["why_not"])
            text = self.doctor(environment=environment)
            self.assertIn("GPU        none: " + gpu["why_not"], text)


if __name__ == "__main__":
    unittest.main()
