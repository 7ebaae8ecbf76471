#!/usr/bin/env python3
"""packaging/quickstart.sh in a tree with a blank in its path: what it installs, configures, builds
and starts, the first time and later. Stubs stand where CMake, apt and the network are asked."""
import os
import pathlib
import shutil
import subprocess
import unittest

from specbound_process import ROOT, FolderCase

# One for all tools: it says in `log` what it was asked for. Files beside it say what the machine
# lacks (lacks-PACKAGE), which GPUs it has, and where the model is that can be fetched.
STUB = r"""#!/bin/sh
here=${0%/*} name=${0##*/}
echo "$name $*" >>"$here/log"
case "$name $*" in
  "g++ "*) echo 12.2.0 ;;
  "cmake --version") echo "cmake version 3.25.1" ;;
  "cmake -S "*)
    cd "$2/build/release"
    {
      echo "CMAKE_PROJECT_NAME:STATIC=specbound"
      echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2"
      for word in "$@"; do
        case $word in SPECBOUND_*) echo "$word" | sed 's/=/:STRING=/' ;; esac
      done
      [ -e "$here/lacks-libimgui-dev" ] && gui=OFF || gui=ON
      echo "SPECBOUND_HAVE_GUI:INTERNAL=$gui"
    } >CMakeCache.txt
    touch build.ninja
    ;;
  "cmake --build "*)
    printf '#!/bin/sh\necho "$@"\n' >"$2/specbound"
    chmod +x "$2/specbound"
    ;;
  "nvcc "*) echo "Cuda compilation tools, release 13.0, V13.0.1" ;;
  "nvidia-smi "*) cat "$here/gpus" ;;
  "dpkg-query "*) [ -e "$here/lacks-$4" ] || echo "install ok installed" ;;
  "sudo -n true") ;;
  "sudo "*) "$@" ;;
  "apt-get "*install*) for word in "$@"; do rm -f "$here/lacks-$word"; done ;;
  "python3 "*fetch.py*) cat "$here/model" ;;
esac
"""
TOOLS = ("g++", "cmake", "ninja", "pkg-config", "nvcc", "nvidia-smi", "dpkg-query", "sudo",
         "apt-get", "python3")
HEADS = "smollm2-135m-instruct-q4_1.heads.gguf"


class Quickstart(FolderCase):
    def setUp(self):
        super().setUp()
        self.tree, self.stubs = pathlib.Path(self.path("a tree")), pathlib.Path(self.path("stubs"))
        for folder in ("packaging", "src", "models"):
            (self.tree / folder).mkdir(parents=True)
        for name in ("quickstart.sh", "dependencies.sh"):
            shutil.copy(os.path.join(ROOT, "packaging", name), self.tree / "packaging")
        (self.tree / "CMakeLists.txt").touch()
        (self.tree / "models" / HEADS).write_text("the draft layer")
        self.stubs.mkdir()
        for tool in TOOLS:
            (self.stubs / tool).write_text(STUB)
            (self.stubs / tool).chmod(0o755)
        self.build = self.tree / "build/release"
        self.model = self.tree / "smollm2-135m-instruct-q4_1.gguf"
        (self.stubs / "model").write_text(f"{self.model}\n")

    def start(self, *arguments, **environment):
        """(stdout, stderr, what apt-get and CMake were asked for) of a run."""
        log = self.stubs / "log"
        log.write_text("")
        inherited = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
        done = subprocess.run(
            [self.tree / "packaging/quickstart.sh", *arguments], capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
            env={**inherited, "PATH": f"{self.stubs}:{os.environ['PATH']}", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        asked = [line for line in log.read_text().splitlines()
                 if line.startswith(("apt-get", "cmake -", "python3 "))
                 and not line.endswith("--version")]
        return done.stdout, done.stderr, asked

    def change(self, name):
        """A file is newer than the last build."""
        path = self.tree / name
        path.touch()
        built = (self.build / "quickstart.stamp").stat().st_mtime_ns
        os.utime(path, ns=(built + 1000, built + 1000))

    def test_first_and_later_runs(self):
        (self.stubs / "lacks-libedit-dev").touch()
        fetch = f"python3 {self.tree}/models/fetch.py {self.model.stem}"
        configure = (f"cmake -S {self.tree} --preset release -D SPECBOUND_TESTS=OFF "
                     "-D SPECBOUND_WERROR=OFF -D SPECBOUND_GUI=AUTO")
        build = f"cmake --build {self.build} --target specbound"
        stdout, stderr, asked = self.start()
        self.assertEqual(stdout, f"chat -m {self.model}\n")
        self.assertIn("installing with apt: libedit-dev\n", stderr)
        self.assertEqual(asked[0], "apt-get update")
        self.assertIn("libedit-dev", asked[1])
        self.assertEqual(asked[2:], [configure, build, fetch])

        self.assertEqual(self.start(), (stdout, "", [fetch]))
        self.assertEqual(self.start("run", "-p", "a  b"), ("run -p a  b\n", "", []))
        self.assertEqual(self.start("--demo", "-n", "1"), ("chat -n 1\n", "", []))
        for name in ("src/new.cpp", "packaging/help_texts.py"):
            self.change(name)
            self.assertEqual(self.start("list")[2], [build], name)

    def test_offline_it_chats_with_the_demo_model(self):
        (self.stubs / "model").unlink()
        stdout, stderr, _ = self.start()
        self.assertEqual(stdout, "chat\n")
        self.assertIn("chatting with the bundled demo model", stderr)

    def test_what_has_come_since_is_built(self):
        (self.stubs / "lacks-libimgui-dev").touch()
        self.assertEqual(len(self.start("list")[2]), 2)
        asked = self.start("list", DISPLAY=":0")[2]
        self.assertIn("libimgui-dev", asked[1])
        self.assertEqual([line.split()[1] for line in asked[2:]], ["-S", "--build"])
        self.assertEqual(self.start("list", DISPLAY=":0")[2], [])

        (self.stubs / "gpus").write_text("8.9\n")
        asked = self.start("list")[2]
        self.assertIn("-D SPECBOUND_CUDA=AUTO -D SPECBOUND_CUDA_ARCHS=89", asked[0])
        self.assertEqual(self.start("list")[2], [])
        (self.stubs / "gpus").write_text("7.5\n8.9\n")  # another card beside it
        self.assertIn("-D SPECBOUND_CUDA_ARCHS=75;89", self.start("list")[2][0])
        self.assertEqual(self.start("list")[2], [])

    def test_a_build_of_the_tests_is_run_and_not_built_on(self):
        self.start("list")
        cache = self.build / "CMakeCache.txt"
        cache.write_text(cache.read_text().replace("WERROR:STRING=OFF", "WERROR:BOOL=ON"))
        self.assertEqual(self.start("list")[2], [])
        self.change("src/new.cpp")
        self.assertEqual([line.split()[1] for line in self.start("list")[2]], ["-S", "--build"])

    def test_copies_of_the_draft_layer_go_and_other_heads_stay(self):
        self.start("list")
        cases = [("the draft layer", False), ("the draft", False), ("", False),
                 ("the draft lamp", True), ("the draft layer and more", True)]
        if shutil.which("git"):
            cases += [("an earlier one", False), ("kept elsewhere", True)]
            bundled, elsewhere = self.tree / "models" / HEADS, self.tree / "kept"
            now = bundled.read_text()
            elsewhere.write_text("kept elsewhere")
            for command in (["init", "-q"], ["config", "user.name", "x"],
                            ["config", "user.email", "x@x"]):
                subprocess.run(["git", *command], cwd=self.tree, check=True)
            for text in ("an earlier one", now):
                bundled.write_text(text)
                subprocess.run(["git", "add", bundled, elsewhere], cwd=self.tree, check=True)
                subprocess.run(["git", "commit", "-qm", text], cwd=self.tree, check=True)
            # A long history: git goes on writing when what is looked for has come.
            (self.stubs / "git").write_text(
                f'#!/bin/sh\n{shutil.which("git")} "$@" || exit\n'
                'case "$*" in *" log "*) sleep 0.1; echo another ;; esac\n')
            (self.stubs / "git").chmod(0o755)
        copy = self.tree / HEADS
        for content, stays in cases:
            copy.write_text(content)
            self.start()
            self.assertEqual(copy.exists(), stays, content)
        self.assertEqual((self.tree / "models" / HEADS).read_text(), "the draft layer")


if __name__ == "__main__":
    unittest.main()
