#!/usr/bin/env python3
"""--trace: a file of JSON lines that agrees with the text, the figures and itself."""
import json
import os
import subprocess
import tempfile
import unittest

from exits_test import on_terminal
from specbound_process import BINARY, DEMO, LENS, STORIES, specbound

ASK = ("run", "-m", DEMO, "-p", "I need a table for two tonight.", "-n", "60", "--ignore-eos",
       "-s", "3")
PHASES = ["draft", "check", "verify", "logits", "sample"]


class TraceCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "trace.jsonl")

    def lines(self):
        with open(self.path, encoding="utf-8", newline="\n") as file:
            return [json.loads(line, parse_constant=self.fail) for line in file]

    def trace(self, *arguments, stdin=b""):
        result = specbound(*arguments, "--trace", self.path, stdin=stdin)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result, self.lines()


class Trace(TraceCase):
    def check_reply(self, lines, drafts):
        """One reply's lines in their order, each round against its tokens and the sums at the
        end. The layers that passes ran must be all of them for each row."""
        head, end = lines[0], lines[-1]
        self.assertEqual((head["type"], end["type"]), ("reply", "end"))
        pos, drafted, accepted, checks, decoded, rounds = head["prompt_tokens"], 0, 0, 0, 0, 0
        tokens = []
        for line in lines[1:-1]:
            self.assertEqual(line["reply"], head["reply"])
            if line["type"] == "token":
                self.assertEqual((line["pos"], line["round"]), (pos, rounds))
                self.assertEqual(line["slot"], len(tokens))
                self.assertEqual(line["accepted"], line["draft"] == line["token"])
                self.assertEqual(line["draft"] is None, line["exit_layer"] is None)
                pos += 1
                tokens.append(line)
                continue
            self.assertEqual(line["type"], "round")
            slots = line["slots"]
            self.assertEqual(line["rows"], len(slots))
            self.assertEqual(line["emitted"], len(tokens))
            self.assertEqual(line["pos"], pos - len(tokens) - 1)
            self.assertEqual(list(line["ns"]), PHASES)
            for token in tokens:
                row = slots[token["slot"]]
                self.assertEqual(token["checks"], row["checks"])
                self.assertEqual(token["rows"], line["rows"])
                if token["slot"] + 1 < len(slots):
                    self.assertEqual(token["draft"], slots[token["slot"] + 1]["token"])
                    self.assertEqual(token["exit_layer"], row["exit_layer"])
                else:
                    self.assertIsNone(token["draft"])
            done = [0] * len(slots)
            for p in line["passes"]:
                for slot in range(p["slot"], p["slot"] + p["rows"]):
                    self.assertEqual(p["from"], done[slot] + 1)
                    done[slot] = p["to"]
            self.assertEqual(done, [16] * len(slots))
            drafted += len(slots) - 1
            accepted += sum(t["accepted"] for t in tokens)
            checks += sum(len(row["checks"]) for row in slots)
            decoded += len(tokens)
            rounds += 1
            tokens = []
        self.assertEqual(
            (rounds, drafted, accepted, checks, decoded),
            tuple(end[key] for key in ("rounds", "drafted_tokens", "accepted_tokens", "checks",
                                       "decoded_tokens")))
        self.assertEqual(sum(end["accepted_at"]), accepted)
        self.assertEqual(drafted > 0, drafts)

    def test_plain_and_speculative_traces_are_whole_and_agree_with_the_figures(self):
        for spec in ("off", "on"):
            stats_path = os.path.join(self.folder, "stats.json")
            result, lines = self.trace(*ASK, *LENS, "--spec", spec, "--stats-json", stats_path)
            self.assertEqual(lines[0]["type"], "header")
            self.assertEqual((lines[0]["version"], lines[0]["n_layers"]), (1, 16))
            self.assertEqual(lines[1]["seed"], 3)
            self.assertEqual(lines[1]["speculator"], "specbound" if spec == "on" else "none")
            self.assertEqual(lines[1]["settings"] is None, spec == "off")
            self.check_reply(lines[1:], drafts=spec == "on")
            text = "".join(line["text"] for line in lines if line["type"] == "token")
            self.assertEqual(text.encode().lstrip(b" "), result.stdout[:-1])
            with open(stats_path, encoding="utf-8") as file:
                stats = json.load(file)
            end = lines[-1]
            for ours, theirs in (("stop", "stop_reason"), ("rounds", "rounds"),
                                 ("generated_tokens", "generated_tokens"),
                                 ("drafted_tokens", "drafted_tokens"),
                                 ("accepted_tokens", "accepted_tokens"),
                                 ("mean_exit_layer", "mean_exit_layer"),
                                 ("ttft_seconds", "ttft_seconds"),
                                 ("plain_rounds", "plain_rounds")):
                self.assertEqual(end[ours], stats[theirs], ours)
            self.assertAlmostEqual(1 / end["plain_token_seconds"],
                                   stats["plain_tokens_per_second"], delta=1e-6)

    def test_the_text_is_the_same_with_and_without(self):
        for spec in ("off", "on"):
            result, _ = self.trace(*ASK, *LENS, "--spec", spec)
            self.assertEqual(result.stdout, specbound(*ASK, *LENS, "--spec", spec).stdout)

    def test_the_end_token_is_a_token_of_its_own(self):
        _, lines = self.trace("run", "--raw", "-m", STORIES, "--temp", "0", "-p", "", *LENS,
                              "--spec",
                              "on")
        tokens = [line for line in lines if line["type"] == "token"]
        self.assertEqual([t["ends_reply"] for t in tokens[-2:]], [False, True])
        self.assertEqual(tokens[-1]["text"], "")
        self.assertEqual(lines[-1]["stop"], "end")
        self.assertEqual(lines[-1]["generated_tokens"] + 1, len(tokens))

    def test_a_chat_writes_each_reply_behind_the_last(self):
        _, lines = self.trace("chat", "-m", DEMO, "-n", "12", "-s", "1", *LENS, "--spec", "on",
                              stdin=b"Hello!\n/regen\n/spec off\nA taxi, please.\n")
        replies = [line for line in lines if line["type"] == "reply"]
        self.assertEqual([(r["reply"], r["regen"]) for r in replies], [(0, 0), (1, 1), (2, 0)])
        self.assertEqual([r["speculator"] for r in replies], ["specbound", "specbound", "none"])
        self.assertEqual(sum(line["type"] == "header" for line in lines), 1)
        self.assertEqual(sum(line["type"] == "end" for line in lines), 3)


class Failures(TraceCase):
    def test_a_full_disk_costs_the_trace_and_the_status_but_not_the_text(self):
        want = specbound(*ASK).stdout
        result = specbound(*ASK, "--trace", "/dev/full")
        self.assertEqual((result.returncode, result.stdout), (1, want))
        self.assertEqual(result.stderr.count(b"/dev/full"), 1, result.stderr)
        self.assertIn(b"/dev/full: cannot write the trace: No space left", result.stderr)

    def test_on_a_terminal_the_warning_has_a_line_of_its_own(self):
        text = specbound(*ASK).stdout
        shown, _ = on_terminal(*ASK, "--trace", "/dev/full", errors=None, status=1)
        self.assertIn(text + b"warning: /dev/full: cannot write", shown)

    def test_what_would_cut_into_the_text_is_refused(self):
        with open(self.path, "wb") as out:
            results = [specbound(*ASK, "--trace", "/dev/stdout"),
                       specbound(*ASK, "--trace", self.path, stdout=out)]
        for result in results:
            self.assertEqual((result.returncode, result.stdout or b""), (2, b""))
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertIn(b"stdout, which carries the text", result.stderr)
        self.assertEqual(os.path.getsize(self.path), 0)
        thrown = specbound(*ASK, "--trace", "/dev/null", stdout=subprocess.DEVNULL)
        self.assertEqual(thrown.returncode, 0, thrown.stderr)

    def test_two_outputs_never_go_to_one_file(self):
        other = os.path.join(self.folder, ".", "trace.jsonl")
        for command in (ASK, ("chat", "-m", DEMO)):
            result = specbound(*command, "--trace", self.path, "--stats-json", other)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertIn(b"two outputs would go to this file", result.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_chat_goes_on_without_its_trace_and_says_so_once(self):
        result = specbound("chat", "-m", DEMO, "-n", "6", "-s", "1", "--trace", "/dev/full",
                           stdin=b"Hello!\n/regen\nThanks.\n")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.count(b"\n"), 3)
        self.assertEqual(result.stderr.count(b"/dev/full"), 1, result.stderr)

    def test_a_reader_that_left_is_told_too(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        process = subprocess.Popen([BINARY, *ASK, "--trace", fifo], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        open(fifo, "rb").close()
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (1, specbound(*ASK).stdout))
        self.assertIn(b"fifo: cannot write the trace: Broken pipe", err)

    def test_what_cannot_be_opened_is_told_before_anything_is_loaded(self):
        for path, says in ((self.folder, b"irectory"), ("/no/such/file", b"/no/such/file"),
                           ("/no\x1b[31m/x", rb"/no\x1b[31m/x")):
            result = specbound(*ASK, "--trace", path)
            self.assertEqual((result.returncode, result.stdout), (1, b""), path)
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertIn(says, result.stderr)

    def test_a_dash_is_refused_and_dev_stderr_is_shared(self):
        for flag in ("--trace", "--stats-json"):
            refused = specbound(*ASK, flag, "-", cwd=self.folder)
            self.assertEqual((refused.returncode, refused.stdout), (2, b""))
            self.assertIn(b"expected a file, found -", refused.stderr)
        self.assertEqual(os.listdir(self.folder), [])
        with open(self.path, "wb") as errors:
            errors.write(b"before\n")
            errors.flush()
            process = subprocess.run([BINARY, *ASK, "--trace", "/dev/stderr"], timeout=120,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=errors)
        self.assertEqual(process.returncode, 0)
        with open(self.path, "rb") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], b"before")  # a log is written on, not emptied
        self.assertIn(b"tok/s", lines[-1])
        types = [json.loads(line)["type"] for line in lines if line.startswith(b"{")]
        self.assertEqual((types[0], types[1], types[-1]), ("header", "reply", "end"))
        self.assertNotIn(b"\0", b"".join(lines))


if __name__ == "__main__":
    unittest.main()
