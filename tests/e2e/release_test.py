#!/usr/bin/env python3
"""packaging/release.sh without a build: where it refuses to begin, and that what release_check.py
refuses is not released. Stubs stand where CMake and the packages' tools would be asked."""
import os
import pathlib
import shutil
import subprocess
import unittest

from specbound_process import ROOT, FolderCase

STUB = r"""#!/bin/sh
here=${0%/*} name=${0##*/}
case "$name $*" in
  "getconf "*) echo "glibc $(cat "$here/glibc")" ;;
  "g++ "*) echo 12.2.0 ;;
  "cmake --version") echo "cmake version 3.25.1" ;;
  "cmake -S "*)
    echo "$@" >"$here/configured"
    echo "CMAKE_PROJECT_VERSION:STATIC=9.9" >"$6/CMakeCache.txt"
    ;;
  "cmake --install "*) mkdir -p "$4" && echo program >"$4/specbound" ;;
  "dpkg-query "*) echo "install ok installed" ;;
  "xz "*) cat ;;
  "deb.sh "*) echo package >"$2/specbound_9.9-1_any.deb" && echo "$2/specbound_9.9-1_any.deb" ;;
esac
"""
TOOLS = ("getconf", "g++", "cmake", "ninja", "pkg-config", "python3", "dpkg-query", "dpkg-source",
         "dpkg-shlibdeps", "strip", "xz")


def make(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Release(FolderCase):
    def setUp(self):
        super().setUp()
        self.tree, self.stubs = pathlib.Path(self.path("a tree")), pathlib.Path(self.path("stubs"))
        packaging, httplib = self.tree / "packaging", self.tree / "build/release-gpu/httplib"
        for folder in (packaging, httplib, self.stubs):
            folder.mkdir(parents=True)
        for name in ("release.sh", "dependencies.sh"):
            shutil.copy(os.path.join(ROOT, "packaging", name), packaging)
        make(packaging / "deb.sh", STUB)
        (httplib / "version").write_text("install ok installed\n")
        for tool in TOOLS:
            make(self.stubs / tool, STUB)
        (self.stubs / "glibc").write_text("2.36\n")
        self.out = self.tree / "dist"

    def release(self, checked):
        """The ended process; the check of the packages is the text of a shell script."""
        make(self.stubs / "python3", "#!/bin/sh\n" + checked)
        return subprocess.run(
            [self.tree / "packaging/release.sh"], capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": f"{self.stubs}:{os.environ['PATH']}",
                 "SOURCE_DATE_EPOCH": "1000000000"})

    def test_what_passes_its_check_is_released(self):
        done = self.release('ls "$3"')
        self.assertEqual(done.returncode, 0, done.stderr)
        released = done.stdout.splitlines()
        self.assertEqual(sorted(map(str, self.out.iterdir())), released)
        self.assertEqual([os.path.basename(path) in done.stderr for path in released], [True, True])
        self.assertIn("-D SPECBOUND_WERROR=OFF", (self.stubs / "configured").read_text())

    def test_what_fails_it_is_not(self):
        self.out.mkdir()
        (self.out / "specbound-9.8-linux.tar.xz").touch()
        done = self.release("echo expected less >&2; exit 1")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("expected less", done.stderr)
        self.assertEqual([path.name for path in self.out.iterdir()], ["specbound-9.8-linux.tar.xz"])

    def test_a_newer_glibc_is_refused_at_once(self):
        for glibc, refused in (("2.41", True), ("2.38", True), ("2.35", False), ("2.4", False)):
            (self.stubs / "glibc").write_text(glibc)
            done = self.release("true")
            self.assertEqual(done.returncode, int(refused), done.stderr)
            self.assertEqual(f"found {glibc}:" in done.stderr, refused)
            self.assertEqual((self.stubs / "configured").exists(), not refused)


if __name__ == "__main__":
    unittest.main()
