#!/usr/bin/env python3
"""Every subcommand, from the outside: help, exit codes, doctor."""
import json
import unittest

from specbound_process import specbound

COMMANDS = ("run", "chat", "info", "doctor", "tokenize", "detokenize")


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
                if command != "info":
                    self.assertIn(b"xamples:\n", result.stdout, command)

    def test_usage_errors(self):
        bare = specbound()
        self.assertEqual((bare.returncode, bare.stdout), (2, b""))
        self.assertEqual(specbound("frobnicate").returncode, 2)
        for command in COMMANDS:
            result = specbound(command, "--no-such-flag")
            self.assertEqual(result.returncode, 2, command)
            self.assertEqual(result.stdout, b"")
            # A missing required flag may be the first thing to complain about.
            self.assertRegex(result.stderr, rb"--no-such-flag|is required")
            self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_version(self):
        self.assertRegex(specbound("--version").stdout, rb"^specbound \d+\.\d+\.\d+\n$")


class Doctor(unittest.TestCase):
    def test_text(self):
        result = specbound("doctor")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in (b"CPU ", b"kernels ", b"memory ", b"bandwidth ", b"GPU ", b"model "):
            self.assertIn(b"\n" + name, b"\n" + result.stdout)

    def test_json(self):
        result = specbound("doctor", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout, parse_constant=self.fail)
        self.assertGreaterEqual(found["cpu"]["logical_cores"], found["cpu"]["physical_cores"])
        self.assertIn(found["cpu"]["kernels"], found["cpu"]["kernels_supported"])
        self.assertIn("portable", found["cpu"]["kernels_supported"])
        self.assertGreater(found["memory"]["total_bytes"], 1 << 28)
        self.assertGreater(found["read_bandwidth"]["one_thread_bytes_per_second"], 1e8)
        self.assertIs(found["gpu"]["backend_in_this_build"], False)
        self.assertTrue(found["bundled_model"].endswith(".gguf"))


if __name__ == "__main__":
    unittest.main()
