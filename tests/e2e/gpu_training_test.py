#!/usr/bin/env python3
"""specbound train-heads on a GPU, from the outside: specbound_simt, whose GPU is the SIMT executor,
with a cuBLAS made for tests (tests/simt/fake_cublas.cpp)."""
import os
import unittest

from run_test import built_for_speed
from specbound_process import STORIES, FolderCase, specbound

SIMT = os.environ.get("SPECBOUND_SIMT_BINARY")
WHOLE = built_for_speed()  # otherwise the executor is slow: fewer steps
STORY = "Once upon a time there was a little girl called Lily. She had a red ball. " * 6


def setUpModule():
    if SIMT is None:
        raise unittest.SkipTest("no specbound_simt: SPECBOUND_SIMT_BINARY names it")


class GpuTraining(FolderCase):
    def setUp(self):
        super().setUp()
        with open(self.path("story.txt"), "w", encoding="ascii") as file:
            file.write(STORY)

    def start(self, out, device="cuda:0", kinds="chained,folded", **environment):
        environment["LD_LIBRARY_PATH"] = os.path.join(os.path.dirname(SIMT), "fake_cublas")
        return specbound("train-heads", "-m", STORIES, "--data", self.path("story.txt"),
                         "--kinds", kinds, "--layers", "1,2", "--epochs", "6" if WHOLE else "2",
                         "--shortlist", "64", "--no-tune", "-c", "64", "--max-tokens", "90",
                         "--device", device, "-o", self.path(out), binary=SIMT,
                         environment=environment)

    def train(self, out, **how):
        result = self.start(out, **how)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path(out), "rb") as file:
            return file.read(), result.stderr

    def test_trains_on_the_gpu_and_its_heads_draft_there(self):
        heads, log = self.train("heads.gguf")
        self.assertIn(b"training: matrices by cuBLAS 13.7 on SIMT executor", log)
        self.assertNotIn(b"on the CPU", log)
        self.assertNotIn(b"each of", log)  # one text: nothing is written side by side
        if WHOLE:
            self.assertEqual(self.train("again.gguf")[0], heads)  # the same bits in every run
        run = ("run", "--raw", "-m", STORIES, "-p", "Once upon", "-n", "12" if WHOLE else "4",
               "--temp", "0", "--device", "cuda:0")
        plain = specbound(*run, "--spec", "off", binary=SIMT)
        drafted = specbound(*run, "--heads", self.path("heads.gguf"), binary=SIMT)
        self.assertEqual((plain.returncode, drafted.returncode), (0, 0), drafted.stderr)
        self.assertEqual(drafted.stdout, plain.stdout)

    def test_too_little_memory_is_said_and_the_cpu_trains(self):
        _, log = self.train("heads.gguf", SPECBOUND_SIMT_MEMORY="300000000")
        lines = [line for line in log.split(b"\n") if line.startswith(b"heads learn on the CPU: ")]
        self.assertEqual(len(lines), 1, log)
        self.assertIn(b" MB", lines[0])
        self.assertNotIn(b"cuBLAS", log)

    def test_kinds_that_the_gpu_cannot_train_are_said_and_the_cpu_trains(self):
        _, log = self.train("heads.gguf", kinds="folded,medusa")
        self.assertIn(b"heads learn on the CPU: training on the GPU: expected chained, folded and "
                      b"full heads, found medusa ones", log)
        self.assertNotIn(b"cuBLAS", log)

    def test_a_lost_gpu_is_one_line_and_the_training_goes_on_after_it(self):
        for operation in ("300", "1400"):  # in the hidden states, in the training
            folder = self.path("heads.gguf.training")
            lost = self.start("heads.gguf", SPECBOUND_SIMT_LOSE=operation)
            self.assertEqual((lost.returncode, lost.stdout), (1, b""), lost.stderr)
            last = lost.stderr.rstrip(b"\n").split(b"\n")[-1]
            self.assertTrue(last.startswith(b"specbound train-heads: GPU 0"), lost.stderr)
            self.assertTrue(os.path.isdir(folder))
            went_on = self.start("heads.gguf", device="cpu")
            self.assertEqual(went_on.returncode, 0, went_on.stderr)
            self.assertIn(b"going on with the training", went_on.stderr)
            self.assertFalse(os.path.isdir(folder))


if __name__ == "__main__":
    unittest.main()
