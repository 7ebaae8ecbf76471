#!/usr/bin/env python3
"""`program_check.py SPECBOUND FAKE_DRIVER_FOLDER`: the one binary with the GPU engine needs no
library of CUDA's to start, is as small as it should be, and tells a driver that is missing, too old
or without a GPU apart, where a GPU is asked for and where it is not. It runs no kernel: a GPU is
not needed, and not used.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BINARY, FAKE_DRIVER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
STORIES = pathlib.Path(__file__).resolve().parents[1] / "data/models/stories260K.gguf"
MOST_BYTES = 40e6
RUN = ("run", "--raw", "-m", STORIES, "-p", "Once", "-n", "4", "--temp", "0")
# Driver -> the CUDA version that it serves.
TOO_OLD = {"535.183.01": 12020, "550.127.05": 12040, "575.57.08": 12090}
NEW_ENOUGH = {"580.65.06": 13000}
# A loaded driver is asked before its library: then none but that one's version can be told.
REAL_DRIVER = os.path.exists("/proc/driver/nvidia/version")


def specbound(*arguments, driver=None, libraries=None, **environment):
    """With the fake driver of a version, or with the first of all libraries from a folder."""
    everything = {**os.environ, **environment}
    if driver:
        everything.update(FAKE_DRIVER_VERSION=driver,
                          FAKE_DRIVER_CUDA=str({**TOO_OLD, **NEW_ENOUGH}[driver]))
    if driver or libraries:
        everything["LD_LIBRARY_PATH"] = str(libraries or FAKE_DRIVER)
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
        for driver, cuda in TOO_OLD.items():
            gpu = doctor(driver=driver)
            self.assertEqual((gpu["state"], gpu["cuda_version"]), ("old-driver", cuda))
            self.assertRegex(gpu["why_not"], r"serves CUDA 12\.\d, expected 13\.0: .*driver 580")
            if not REAL_DRIVER:
                self.assertEqual(gpu["driver"], driver)

    def test_a_driver_without_a_gpu(self):
        for driver, cuda in NEW_ENOUGH.items():
            gpu = doctor(driver=driver)
            self.assertEqual((gpu["state"], gpu["cuda_version"]), ("no-gpu", cuda))
            self.assertIn("no CUDA-capable device is detected", gpu["why_not"])
            hidden = doctor(driver=driver, CUDA_VISIBLE_DEVICES="")["why_not"]
            self.assertIn('CUDA_VISIBLE_DEVICES is ""', hidden)

    def test_the_text_has_the_reason_too(self):
        result = specbound("doctor", driver="550.127.05")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"(?m)^GPU +none: .*CUDA 12\.4")

    def falls_back(self, why_not, **options):
        """A GPU that is asked for is an error of one line; without asking the CPU runs and a line
        says why."""
        plain = specbound(*RUN, "--device", "cpu")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        result = specbound(*RUN, **options)
        self.assertEqual((result.returncode, result.stdout), (0, plain.stdout), result.stderr)
        self.assertRegex(result.stderr, f"{why_not}.*: every layer runs on the CPU")
        refused = specbound(*RUN, "--device", "cuda", **options)
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertRegex(refused.stderr,
                         rf"^specbound run: --device cuda: {why_not}.*; leave out --device cuda")
        self.assertEqual(refused.stderr.count("\n"), 1)

    def test_a_model_runs_on_the_cpu_all_the_same(self):
        for driver, cuda in TOO_OLD.items():
            number = r"\S+" if REAL_DRIVER else re.escape(driver)
            self.falls_back(rf"the NVIDIA driver {number} serves CUDA 12\.{cuda % 1000 // 10}, "
                            "expected 13.0: install driver 580 or newer", driver=driver)
        for driver in NEW_ENOUGH:
            self.falls_back("CUDA finds no GPU: no CUDA-capable device is detected; nvidia-smi",
                            driver=driver)
        with tempfile.TemporaryDirectory() as folder:
            # What cannot be a library ends the search: a driver of this machine is not found.
            pathlib.Path(folder, "libcuda.so.1").touch()
            gpu = doctor(libraries=folder)
            self.assertEqual((gpu["state"], gpu["cuda_version"], gpu["driver"]),
                             ("no-driver", None, None))
            self.falls_back("no NVIDIA driver .*; for a GPU install driver 580 or newer",
                            libraries=folder)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
