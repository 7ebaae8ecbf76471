"""How the end-to-end tests run the program. SPECBOUND_BINARY names it (ctest sets that); without it
the release build is run. The models are files of the repository. What was learnt on the machine
plays no part (own_environment.py), nor does a GPU, where the build has its engine: what runs on one
is tested on the SIMT executor, against the CPU."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("SPECBOUND_BINARY", os.path.join(ROOT, "build/release/specbound"))
STORIES = os.path.join(ROOT, "tests/data/models/stories260K.gguf")
STORIES_TEXT = os.path.join(ROOT, "tests/data/models/stories260K.md")
DEMO = os.path.join(ROOT, "models/demo-chat-16l-q8_0.gguf")
DEMO_HEADS = DEMO.replace(".gguf", ".heads.gguf")
# Drafts by the logit lens alone however slow that is: the same on every machine, heads or not.
LENS = ("--speculator", "specbound", "--head", "lens", "--controller", "off")
sys.path.insert(0, os.path.join(ROOT, "tests"))
import own_environment  # noqa: E402, F401

os.environ["CUDA_VISIBLE_DEVICES"] = ""
TIMEOUT = 120  # a run takes well under a second; sanitizers are slow


def demo_without_heads(folder):
    """The demo model where no heads lie beside it, as models come that one downloads."""
    path = os.path.join(folder, "no-heads.gguf")
    os.symlink(DEMO, path)
    return path


class FolderCase(unittest.TestCase):
    """Each test has an empty folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)


def specbound(*arguments, stdin=b"", environment=None, **options):
    """Runs the program to its end, or another one. Text arguments may hold any bytes."""
    return subprocess.run([options.pop("binary", BINARY), *arguments], input=stdin, timeout=TIMEOUT,
                          stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
                          env={**os.environ, **(environment or {})}, **options)


def start(*arguments, **options):
    """Starts the program with pipes on all three ends."""
    return subprocess.Popen([BINARY, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)
