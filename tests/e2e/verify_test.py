#!/usr/bin/env python3
"""specbound verify, from the outside: what it compares, what it says, exit codes, its JSON."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from specbound_process import DEMO, STORIES, specbound, start

RAW = ("verify", "--raw", "-m", STORIES, "-t", "1")
QUICK = ("-p", "Once upon a time", "-p", "Lily saw a dog", "-n", "16", "--temps", "0,1",
         "--seeds", "1")


def verify_json(*arguments, stdin=b""):
    """The finished process and what it wrote with --json."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        result = specbound(*arguments, "--json", path, stdin=stdin)
        if not os.path.exists(path):
            return result, None
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)


class Identical(unittest.TestCase):
    def check(self, *arguments, least_cr):
        result, data = verify_json(*arguments)
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        self.assertTrue(data["identical"])
        self.assertIsNone(data["difference"])
        self.assertGreaterEqual(data["compression_rate"], least_cr)
        lines = result.stdout.decode().splitlines()
        self.assertEqual(len(lines), len(data["prompts"]) + 1)
        for line in lines[:-1]:
            self.assertRegex(line, r"^ *\d+/\d+  \d+ repl(y|ies) +\d+ tokens  CR +\d+\.\d\d  .*ok")
        self.assertTrue(lines[-1].endswith(": identical"), lines[-1])
        return data

    def test_bits_with_forced_drafts_on_stories260k(self):
        data = self.check(*RAW, "--bits", "--speculator", "forced", "--ignore-eos", "-n", "48",
                          "--temps", "0,1", "--w-max", "16", least_cr=2)
        settings = data["settings"]
        self.assertEqual(data["speculator"], "forced")
        self.assertEqual(settings["temperatures"], [0, 1])
        self.assertEqual(settings["seeds"], [1, 2])
        self.assertEqual((settings["w_max"], settings["check_layers"]), (16, [1, 2, 3, 4]))
        self.assertEqual((settings["forced_exit"], settings["forced_right"]), (0.9, 0.8))
        self.assertGreaterEqual(len(data["prompts"]), 10)
        self.assertEqual(data["replies"], 4 * len(data["prompts"]))
        self.assertEqual(len(data["results"]), data["replies"])
        self.assertEqual(data["tokens"], 48 * data["replies"])
        # Each token's row after the last layer, and its logits; K/V at each of the 5 layers twice.
        self.assertGreaterEqual(data["rows_compared"], 2 * data["tokens"])
        self.assertGreaterEqual(data["kv_compared"], 2 * 5 * data["tokens"])
        together = data["rows_in_passes_of"]
        self.assertEqual(list(together), [str(n) for n in range(1, 17)])
        for n in range(1, 17):
            self.assertGreater(together[str(n)], 0, f"no pass of {n} rows was compared")
        for field in ("tokens", "rounds", "drafted_tokens", "accepted_tokens", "rows_compared",
                      "kv_compared"):
            self.assertEqual(sum(r[field] for r in data["results"]), data[field], field)
        self.assertTrue(all(r["identical"] for r in data["results"]))

    def test_bits_on_the_demo_model(self):
        ask = ("verify", "-m", DEMO, "-t", "1", "--bits", "-n", "24", "--temps", "0,0.8",
               "--seeds", "1", "-p", "I need a table for two tonight.", "-p", "Play some jazz.")
        self.check(*ask, "--speculator", "forced", "--ignore-eos", least_cr=2)
        for speculator in ("auto", "specbound"):
            more = ("--speculator", speculator) if speculator != "auto" else ()
            data = self.check(*ask, *more, "--head", "lens", "--tau", "0.2", least_cr=1)
            self.assertEqual(data["speculator"], speculator)
            self.assertGreater(data["drafted_tokens"], 0)

    def test_two_threads_penalty_filters_and_every_token_right(self):
        self.check(*RAW[:-1], "2", *QUICK, "--bits", "--speculator", "forced", "--ignore-eos",
                   "--forced-right", "1", "--forced-exit", "1", "--repeat-penalty", "1.3",
                   "--top-k", "0", "--top-p", "0.9", least_cr=4)

    def test_without_bits_tokens_are_compared_and_it_says_so(self):
        data = self.check(*RAW, *QUICK, least_cr=1)
        self.assertEqual((data["bits"], data["rows_compared"], data["kv_compared"]), (False, 0, 0))
        self.assertNotIn("rows_in_passes_of", data)
        self.assertIn(b"with --bits", specbound(*RAW, *QUICK).stdout)

    def test_runs_are_reproducible(self):
        ask = (*RAW, *QUICK, "--bits", "--speculator", "forced")
        self.assertEqual(specbound(*ask).stdout, specbound(*ask).stdout)

    def test_settings_are_written_as_typed(self):
        settings = verify_json(*RAW, "-p", "a", "-n", "1", "--speculator", "specbound", "--tau",
                               "0.1234567", "--top-p", "0.9876543", "--temps",
                               "0.7,0.1234567")[1]["settings"]
        self.assertEqual((settings["tau"], settings["top_p"], settings["temperatures"]),
                         (0.1234567, 0.9876543, [0.7, 0.1234567]))

    def test_the_end_of_the_context(self):
        data = self.check(*RAW, "-p", "Once upon a time", "-c", "24", "-n", "64", "--ignore-eos",
                          "--bits", "--speculator", "forced", "--w-max", "16", least_cr=2)
        self.assertEqual({r["stop_reason"] for r in data["results"]}, {"context"})

    def test_settings_that_never_draft_are_told(self):
        result = specbound(*RAW, *QUICK, "--w-max", "1")
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"warning: nothing was drafted", result.stderr)


class Input(unittest.TestCase):
    def test_a_file_of_prompts_whatever_bytes_it_holds(self):
        text = b"Once upon\r\n\n\xff\xfe broken \x80\n\x1b[31mred\x00\n\n"
        result, data = verify_json(*RAW, "-f", "-", "-n", "4", "--temps", "1", "--seeds", "1",
                                   stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(data["prompts"]), 3)
        self.assertEqual(data["prompts"][0]["text"], "Once upon")
        self.assertNotIn(b"\x1b", result.stdout)
        self.assertIn(rb"\xff\xfe broken \x80", result.stdout)

    def test_prompts_that_look_like_flags_or_lists_or_nothing(self):
        result, data = verify_json(*RAW, "-n", "4", "--seeds", "1", "-p", "-x", "-p", "[a,b]",
                                   "-p", "")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([p["text"] for p in data["prompts"]], ["-x", "[a,b]", ""])

    def check_refused(self, *arguments, status, says, stdin=b""):
        result = specbound(*arguments, stdin=stdin)
        self.assertEqual(result.returncode, status, (arguments, result.stderr))
        self.assertEqual(result.stdout, b"")
        self.assertIn(says, result.stderr.splitlines()[-1])

    def test_prompts_that_do_not_fit(self):
        long = b"word " * 3000
        self.check_refused(*RAW, "-f", "-", stdin=b"short\n\n" + long + b"\n", status=1,
                           says=b"prompt 2: the prompt has")
        self.check_refused(*RAW, "-f", "-", stdin=b"a\n" + b"b" * (1 << 21), status=1,
                           says=b"stdin, line 2: expected a prompt of at most 1024 KiB")

    def test_usage_errors(self):
        for arguments, says in [
                (("-p", "a", "-f", "b"), b"-p and -f"),
                (("-f", ""), b"--file: expected the name of a file"),
                (("--json", ""), b"--json: expected the name of a file"),
                (("--temps", ""), b"--temps"), (("--temps", "0,x"), b"--temps"),
                (("--temps", "0,-1"), b"expected 0 to 100, found -1"),
                (("--seeds", "0"), b"--seeds"), (("--seeds", "1,,2"), b"--seeds"),
                (("-n", "0"), b"-n"), (("-n", "-1"), b"-n"),
                (("--speculator", "none"), b"expected auto, specbound, ngram, "),
                (("--forced-right", "1.5"), b"--forced-right: expected a number from 0 to 1"),
                (("--forced-exit", "nan"), b"--forced-exit"),
                (("--forced-exit", "0.5"), b"--forced-exit: needs --speculator forced"),
                (("--forced-right", "0.5"), b"--forced-right: needs --speculator forced"),
                (("--temp", "1"), b"--temp"), (("-s", "1"), b"-s"), (("--json", "-"), b"--json"),
                (("--w-max", "17"), b"--w-max"),
                (("--speculator", "specbound", "--check-layers", "5"), b"--check-layers"),
                (("--parse-special",), b"--parse-special")]:
            raw = () if arguments == ("--parse-special",) else ("--raw",)
            self.check_refused("verify", "-m", STORIES, *raw, *arguments, status=2, says=says)
        self.check_refused(*RAW, "-f", "-", stdin=b"\n\r\n", status=2, says=b"found no text")

    def test_run_time_failures(self):
        self.check_refused("verify", "-m", STORIES, status=1, says=b"--raw")
        self.check_refused(*RAW, "-f", "/no/such/file", status=1, says=b"/no/such/file")
        self.check_refused(*RAW, "--json", "/no/such/folder/x", status=1, says=b"/no/such/folder/x")

    @unittest.skipUnless(os.path.exists("/dev/full"), "SKIP: no /dev/full")
    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            result = specbound(*RAW, *QUICK, stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"stdout: cannot write", result.stderr)

    def test_a_reader_that_went_away_needs_no_words(self):
        def unread(*flags):
            reading, writing = os.pipe()
            os.close(reading)
            with os.fdopen(writing, "wb") as closed:
                result = specbound(*RAW, *QUICK, *flags, stdout=closed)
            self.assertEqual(result.returncode, 1)
            self.assertNotIn(b"verify:", result.stderr)

        unread()
        with tempfile.TemporaryDirectory() as folder:  # a file is written all the same
            path = os.path.join(folder, "result.json")
            unread("--json", path)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        self.assertTrue(result["identical"])
        self.assertEqual(len(result["results"]), result["replies"])

    def test_ctrl_c_stops_it(self):
        process = start("verify", "-m", DEMO, "-t", "1", "-n", "700", "--ignore-eos")
        line = b""
        while b"drafted by" not in line:  # loaded, and on its way
            line = process.stderr.readline()
            self.assertNotEqual(line, b"")
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertEqual(process.returncode, 1)
        self.assertNotIn(b"identical", out)
        self.assertRegex(err, rb"interrupted after \d+ of 72 replies")


if __name__ == "__main__":
    unittest.main()
