#!/usr/bin/env python3
"""`program_check.py SPECBOUND FAKE_DRIVER_FOLDER`: the one binary with the GPU engine needs no
library of CUDA's to start, is as small as it should be, and tells a driver that is missing, too old
or without a GPU apart. It runs no kernel: a GPU is not needed, and not used.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

BINARY, FAKE_DRIVER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
STORIES = pathlib.Path(__file__).resolve().parents[1] / "data/models/stories260K.gguf"
MOST_BYTES = 40e6


def specbound(*arguments, cuda=None, **environment):
    """With the fake driver that serves `cuda`, where one is given."""
    everything = {**os.environ, **environment}
    if cuda:
        everything.update(FAKE_DRIVER_CUDA=str(cuda), LD_LIBRARY_PATH=str(FAKE_DRIVER))
    return subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, env=everything)


def doctor(**options):
    result = specbound("doctor", "--json", **options)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)["gpu"]


class Program(unittest.TestCase):
    def test_it_is_linked_with_no_library_of_cuda(self):
        dynamic = subprocess.run(["readelf", "-d", BINARY], check=True, capture_output=True,
                                 text=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
        self.assertIn("libc.so.6", needed)
        # cpp-httplib's shared library brings the system's C++ library along, nothing else may.
        server = any(library.startswith("libcpp-httplib.so") for library in needed)
        for library in needed:
            self.assertNotRegex(library, "cuda|cublas|nvidia|nvml")
            if not server:
                self.assertNotRegex(library, "stdc|gcc")
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")

    def test_it_is_small(self):
        self.assertLess(BINARY.stat().st_size, MOST_BYTES)

    def test_doctor_without_asking_for_a_gpu(self):
        gpu = doctor()
        self.assertIs(gpu["backend_in_this_build"], True)
        self.assertIn(gpu["state"], ("no-driver", "old-driver", "no-gpu", "ready"))
        self.assertEqual(gpu["why_not"] is None, gpu["state"] == "ready")
        self.assertEqual(gpu["gpus"] == [], gpu["state"] != "ready")

    def test_an_old_driver(self):
        gpu = doctor(cuda=12040)
        self.assertEqual((gpu["state"], gpu["cuda_version"]), ("old-driver", 12040))
        self.assertRegex(gpu["why_not"], r"serves CUDA 12\.4, expected 13\.0: .*driver 580")

    def test_a_driver_without_a_gpu(self):
        gpu = doctor(cuda=13000)
        self.assertEqual((gpu["state"], gpu["cuda_version"]), ("no-gpu", 13000))
        self.assertIn("no CUDA-capable device is detected", gpu["why_not"])
        hidden = doctor(cuda=13000, CUDA_VISIBLE_DEVICES="")["why_not"]
        self.assertIn('CUDA_VISIBLE_DEVICES is ""', hidden)

    def test_the_text_has_the_reason_too(self):
        result = specbound("doctor", cuda=12040)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"(?m)^GPU +none: .*CUDA 12\.4")

    def test_a_model_runs_on_the_cpu_all_the_same(self):
        run = ("run", "--raw", "-m", STORIES, "-p", "Once", "-n", "4", "--temp", "0")
        plain = specbound(*run, "--device", "cpu")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        for cuda in (12040, 13000):
            result = specbound(*run, cuda=cuda)
            self.assertEqual((result.returncode, result.stdout), (0, plain.stdout), result.stderr)
            refused = specbound(*run, "--device", "cuda", cuda=cuda)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertEqual(refused.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
