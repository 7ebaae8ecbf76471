#!/usr/bin/env python3
"""specbound train-heads that a kill, Ctrl-C, a full disk or too large steps end, and goes on."""
import json
import os
import re
import resource
import signal
import time
import unittest

from specbound_process import DEMO, STORIES, specbound, start
from training_case import STORY, TrainHeads


class GoingOn(TrainHeads):
    def test_a_full_disk_leaves_no_broken_file(self):
        texts = self.path("texts.bin")
        flags = ("--texts", texts, "--self-generate", "3000", "--quick", "--layers", "0",
                 "--shortlist", "64")

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
        result = specbound("train-heads", "-m", DEMO, "-o", self.path("heads.gguf"), *flags,
                           preexec_fn=small_files, restore_signals=False)  # SIGXFSZ is ignored
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(b"cannot write", result.stderr)
        self.assertEqual(os.listdir(self.folder), ["texts.bin"])
        self.assertLessEqual(os.path.getsize(texts), 4000)
        self.train(*flags, model=DEMO)
        self.assertGreater(os.path.getsize(texts), 8000)

    def test_after_a_full_disk_the_same_command_goes_on(self):
        def small_files():  # the texts fit, hidden states do not
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
        data = self.put("story.txt", STORY.encode())
        for layers in ("0-2", "0"):  # read again, taken as they are written
            flags = ("--data", data, "--layers", layers, "--epochs", "1", "--shortlist", "64",
                     "--self-generate", "3000", "--no-tune")
            self.train(*flags, out="want.gguf")
            full = specbound("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags,
                             preexec_fn=small_files, restore_signals=False)  # SIGXFSZ is ignored
            self.assertEqual(full.returncode, 1, full.stderr)
            self.assertIn(b"cannot write", full.stderr)
            self.assertIn(b"the same command goes on from there", full.stderr)
            self.assertGreater(len(self.read("heads.gguf.training/texts.bin")), 500)
            self.assertIn(b"going on with the training", self.train(*flags, "--resume").stderr)
            self.assertEqual(self.read("heads.gguf"), self.read("want.gguf"))
            self.assertEqual(sorted(os.listdir(self.folder)),
                             ["heads.gguf", "story.txt", "want.gguf"])
            os.remove(self.path("heads.gguf"))

    def test_a_killed_training_goes_on_and_comes_to_the_same(self):
        flags = (*self.small(), "--self-generate", "3000", "--epochs", "60", "--no-tune")
        self.kill_and_go_on(flags)

    def test_a_killed_training_of_a_layer_goes_on_and_comes_to_the_same(self):
        flags = (*self.small(), "--kinds", "chained,layer,eagle3,kangaroo", "--self-generate",
                 "1500", "--epochs", "5", "--no-tune")
        self.kill_and_go_on(flags)

    def kill_and_go_on(self, flags):
        self.train(*flags, out="want.gguf")
        folder = self.path("heads.gguf.training")
        kills = 0
        for wait in (0.05, 0.2, 0.5, 1.0, 1.5):
            process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags)
            process.stdin.close()
            said = b""
            while kills > 0 and b"going on" not in said and (line := process.stderr.readline()):
                said += line
            deadline = time.monotonic() + 30
            manifest = os.path.join(folder, "manifest.json")
            while not os.path.exists(manifest) and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
            said += process.stderr.read()
            process.stdout.close()
            process.stderr.close()
            if process.wait() == 0:
                break
            self.assertEqual(b"going on with the training" in said, kills > 0, said)
            kills += 1
        self.assertGreater(kills, 0)
        if os.path.exists(folder):
            other = specbound("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags,
                              "--seed", "9")
            self.assertEqual(other.returncode, 2)
            self.assertIn(b"--seed 9, there: 0", other.stderr)
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                self.assertNotIn("--kv", json.load(file))  # as builds before it have it
            other = specbound("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags,
                              "--kv", "int8")
            self.assertEqual(other.returncode, 2)
            self.assertIn(b"--kv int8, there: none", other.stderr)
            resumed = self.train(*flags, "--resume")
            self.assertIn(b"going on with the training", resumed.stderr)
        self.assertEqual(self.read("heads.gguf"), self.read("want.gguf"))

    def test_a_training_goes_on_with_its_own_texts_of_a_shared_file(self):
        built_in = ("--layers", "0-2", "--shortlist", "64", "--self-generate")  # requests
        flags = (*built_in, "1500", "--epochs", "20", "--no-tune")
        self.train(*flags, "--texts", self.path("own.bin"), out="want.gguf")
        shared = ("--texts", self.path("shared.bin"))
        process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags,
                        *shared)
        while not os.path.exists(self.path("heads.gguf.training/texts.whole")):
            self.assertIsNone(process.poll())
            time.sleep(0.002)
        process.kill()
        process.communicate()
        written = self.read("shared.bin")
        self.assertEqual(written, self.read("own.bin"))
        self.train(*built_in, "3000", "--quick", *shared, out="other.gguf")
        self.assertGreater(len(self.read("shared.bin")), len(written))
        again = self.train(*flags, *shared)
        self.assertIn(b"going on with the training", again.stderr)
        self.assertEqual(self.read("heads.gguf"), self.read("want.gguf"))

    def test_a_training_that_diverged_goes_on_with_smaller_steps(self):
        flags = (*self.small(), "--unroll", "8", "--self-generate", "1500", "--epochs", "20",
                 "--no-tune")
        self.train(*flags, out="want.gguf")
        process = specbound("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags,
                            "--lr", "10")
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn(b"--lr 10: the training diverged", process.stderr)
        self.assertIn(b"expected a smaller one, which goes on with what is there", process.stderr)
        again = self.train(*flags, "--resume")
        self.assertIn(b"going on with the training", again.stderr)
        self.assertEqual(self.read("heads.gguf"), self.read("want.gguf"))

    def test_ctrl_c_keeps_what_there_is_for_the_same_command(self):
        flags = (*self.small(), "--self-generate", "3000", "--epochs", "100", "--no-tune")
        self.train(*flags, out="want.gguf")
        folder = self.path("heads.gguf.training")
        for name in ("texts.bin", "features-00000.bin"):
            process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags)
            process.stdin.close()
            while not os.path.exists(os.path.join(folder, name)):
                self.assertIsNone(process.poll())
                time.sleep(0.002)
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
            process.stdout.close()
            process.stderr.close()
            self.assertEqual(process.wait(timeout=60), 1, said)
            self.assertIn(b"the same command goes on from there", said)
            self.assertIn(b"interrupted: no heads were written", said)
            self.assertTrue(os.path.exists(os.path.join(folder, name)), name)
        self.assertIn(b"going on with the training", self.train(*flags, "--resume").stderr)
        self.assertEqual(self.read("heads.gguf"), self.read("want.gguf"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["heads.gguf", "story.txt", "want.gguf"])

    def wait_for_tuning(self, process):
        folder = self.path("heads.gguf.training")
        while not (os.path.isdir(folder) and
                   any(name.startswith("tuned.") for name in os.listdir(folder))):
            self.assertIsNone(process.poll())
            time.sleep(0.002)

    def test_a_kill_while_settings_are_tuned_leaves_nothing_in_the_end(self):
        flags = (*self.small(), "--quick", "--self-generate", "4000")
        process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags)
        self.wait_for_tuning(process)
        process.kill()
        process.communicate()
        self.assertEqual(sorted(os.listdir(self.folder)), ["heads.gguf.training", "story.txt"])
        self.assertIn(b"going on with the training", self.train(*flags).stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["heads.gguf", "story.txt"])

    def test_texts_that_are_damaged_are_told_and_kept_aside(self):
        flags = ("--texts", self.path("texts.bin"), "--kinds", "text")
        self.train(*flags, "--self-generate", "300", model=DEMO)
        good = self.read("texts.bin")
        damaged = good[:len(good) // 2] + b"\xff\xff\xff\xff" + good[len(good) // 2 + 4:]
        self.put("texts.bin", damaged)
        result = self.train(*flags, "--self-generate", "500", model=DEMO)
        told = [line for line in result.stderr.split(b"\n") if b"damaged" in line]
        self.assertEqual(len(told), 1, result.stderr)
        self.assertRegex(told[0], rb"texts.bin: damaged at byte \d+ of %d: going on with the \d+ "
                         rb"texts before it, \S+texts.bin.damaged has all as it was" % len(good))
        self.assertEqual(self.read("texts.bin.damaged"), damaged)
        self.assertEqual(self.read("texts.bin")[:len(good) // 3], good[:len(good) // 3])
        self.assertGreater(len(self.read("texts.bin")), len(good))
        self.put("texts.bin", good[:-5])  # cut short by a kill: no word
        self.assertNotIn(b"damaged", self.train(*flags, "--self-generate", "300",
                                                model=DEMO).stderr)

    def test_ctrl_c_while_settings_are_tuned_keeps_what_was_trained(self):
        process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"),
                        *self.small(), "--quick", "--self-generate", "4000")
        process.stdin.close()
        self.wait_for_tuning(process)
        process.send_signal(signal.SIGINT)
        said, summary = process.stderr.read(), process.stdout.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), 0, said)
        self.assertIn(b"guessed: interrupted while settings were tuned", summary)
        self.assertEqual(sorted(os.listdir(self.folder)), ["heads.gguf", "story.txt"])

    def test_ctrl_c_while_stdin_is_silent(self):
        process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), "--data", "-")
        process.stdin.write(b"Once upon a time")
        process.stdin.flush()
        caught = 0
        while not caught >> (signal.SIGINT - 1) & 1:
            time.sleep(0.02)
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                caught = int(re.search(r"SigCgt:\t(\w+)", file.read())[1], 16)
        time.sleep(0.2)  # it waits for more of stdin
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 1)
        self.assertIn(b"interrupted: no heads were written", process.stderr.read())
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        self.assertEqual(os.listdir(self.folder), [])

    def test_minutes_are_filled_and_gone_on_with(self):
        flags = ("--minutes", "0.15", "--no-tune", "-c", "64")
        start_time = time.monotonic()
        result = self.train(*flags)
        self.assertIn(b"built-in requests, 0.15 minutes in all", result.stderr)
        self.assertRegex(result.stdout, rb"(?m)^       0 +\d+\.\d %$")  # one head, before any layer
        self.assertRegex(result.stdout, rb"text +[\d,]+ tokens to look up in")
        self.assertLess(time.monotonic() - start_time, 60)
        folder = self.path("heads.gguf.training")
        process = start("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"), *flags)
        process.stdin.close()
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(folder, "texts.whole")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
        with open(os.path.join(folder, "texts.whole")) as file:
            written = int(file.read())
        again = self.train(*flags)
        self.assertIn(b"going on with the training", again.stderr)
        self.assertIn(f"replies: the model wrote {written:,}, ".encode(), again.stderr)
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
