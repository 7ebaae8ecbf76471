#!/usr/bin/env python3
"""Repacked weights kept for the next start: the same text, whatever lies in the cache, and nothing
half written in it."""
import os
import resource
import subprocess
import time
import unittest

from specbound_process import BINARY, DEMO, FolderCase, TIMEOUT, specbound

ASK = ("run", "-m", DEMO, "-p", "I need a table for two tonight.", "-n", "32", "--temp", "0",
       "--ignore-eos", "-t", "2")
KEEP = ("--keep-repacked", "on")
STARTS = 30
PLAIN = {}  # the text without a cache


def plain_text():
    if not PLAIN:
        result = specbound(*ASK, "--keep-repacked", "off")
        assert result.returncode == 0, result.stderr
        PLAIN["text"] = result.stdout
    return PLAIN["text"]


class Keep(FolderCase):
    def setUp(self):
        super().setUp()
        self.environment = {"XDG_CACHE_HOME": self.path("cache")}
        self.tiles = os.path.join(self.path("cache"), "specbound", "tiles")

    def ask(self, *flags, **options):
        """Whether kept weights were mapped; the text is checked."""
        result = specbound(*ASK, *flags, environment=self.environment, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, plain_text())
        mapped, repacked = (word in result.stderr for word in (b"repacked earlier", b", repacked "))
        self.assertNotEqual(mapped, repacked, result.stderr)
        return mapped, result.stderr

    def keep(self):
        """Starts until what one start kept is mapped by another: where the machine is busy, one may
        end without having written."""
        for _ in range(STARTS):
            if self.ask(*KEEP)[0]:
                return self.kept()
        return self.fail(f"nothing was mapped in {STARTS} starts: {self.files()}")

    def files(self):
        return sorted(os.listdir(self.tiles)) if os.path.isdir(self.tiles) else []

    def kept(self):
        self.assertEqual(len(self.files()), 1, self.files())
        return os.path.join(self.tiles, self.files()[0])

    def test_cold_warm_and_without_a_cache_the_text_is_the_same(self):
        self.assertFalse(self.ask(*KEEP)[0])
        self.keep()
        self.assertFalse(self.ask("--keep-repacked", "off")[0])
        self.assertFalse(self.ask()[0])  # too small to be kept unasked
        self.assertEqual(len(self.files()), 1)

    def test_spoilt_files_are_made_anew(self):
        path = self.keep()
        with open(path, "rb") as file:
            whole = file.read()
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:]
        for spoilt in (b"", whole[:-1], whole[:middle], whole + b"x", flipped,
                       whole[:-1] + b"\1", os.urandom(4096), bytes(len(whole))):
            with open(path, "wb") as file:
                file.write(spoilt)
            self.assertFalse(self.ask(*KEEP)[0])
            self.keep()
            with open(path, "rb") as file:
                self.assertEqual(file.read(), whole)

    def test_where_nothing_can_be_written_a_line_says_so(self):
        os.makedirs(os.path.dirname(self.tiles))
        with open(self.tiles, "w", encoding="utf-8"):
            pass
        mapped, told = self.ask(*KEEP)
        self.assertFalse(mapped)
        self.assertIn(b"repacked weights are not kept for the next start: ", told)

    @unittest.skipIf(os.geteuid() == 0, "root writes where nobody may")
    def test_a_folder_that_may_only_be_read(self):
        os.makedirs(self.tiles)
        os.chmod(self.tiles, 0o500)
        mapped, told = self.ask(*KEEP)
        os.chmod(self.tiles, 0o700)
        self.assertFalse(mapped)
        self.assertIn(b"are not kept for the next start: ", told)

    def test_files_that_may_not_become_so_long(self):
        limit = (4 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        mapped, told = self.ask(
            *KEEP, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
        self.assertFalse(mapped)
        self.assertIn(b"ulimit -f", told)
        self.assertEqual(self.files(), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a disk")
    def test_a_disk_without_room(self):
        os.makedirs(self.tiles)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", self.tiles],
                               stderr=subprocess.DEVNULL, check=False)
        if mount.returncode != 0:
            self.skipTest("no disk can be mounted here")
        try:
            mapped, told = self.ask(*KEEP)
            self.assertFalse(mapped)
            self.assertIn(b"MB free, found", told)
            self.assertEqual(self.files(), [])
        finally:
            subprocess.run(["umount", self.tiles], check=True)

    def test_two_programs_at_once(self):
        plain = plain_text()
        both = [subprocess.Popen([BINARY, *ASK, *KEEP], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env={**os.environ, **self.environment}) for _ in range(3)]
        for process in both:
            text, told = process.communicate(timeout=TIMEOUT)
            self.assertEqual((process.returncode, text), (0, plain), told)
        self.keep()

    def test_what_is_measured_is_not_written_beside(self):
        measured = ("verify", "-m", DEMO, "-p", "I need a table.", "-n", "8", "-t", "2", *KEEP)
        for _ in range(2):
            result = specbound(*measured, environment=self.environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.files(), [])
        self.keep()
        result = specbound(*measured, environment=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"repacked earlier", result.stderr)

    def test_killed_while_it_writes(self):
        hit = 0
        for _ in range(STARTS):
            process = subprocess.Popen([BINARY, *ASK, *KEEP], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**os.environ, **self.environment})
            while process.poll() is None and not self.parts_of(process.pid):
                time.sleep(0.0005)
            process.kill()
            process.wait()
            hit += bool(self.parts_of(process.pid))
            if hit == 3:
                break
            for name in self.files():
                if not name.endswith(".part"):
                    os.remove(os.path.join(self.tiles, name))
        self.assertGreater(hit, 0, "none was killed while it wrote")
        self.keep()  # what was left half written is gone

    def parts_of(self, pid):
        return [name for name in self.files() if name.endswith(f".{pid}.part")]


if __name__ == "__main__":
    unittest.main()
