#!/usr/bin/env python3
"""The Debian package of this build: what is in it, that its tree works anywhere, and that it
installs, runs and goes away again without a trace in a fresh system of the host's own release. That
one takes minutes of the network: it runs where SPECBOUND_NETWORK=1 asks for it, needs root and the
host's mirror of packages, and counts a SKIP without them.

SPECBOUND_BINARY names the program; the build around it is packed as it is."""
import atexit
import contextlib
import functools
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from specbound_process import BINARY, DEMO, ROOT

BUILD = pathlib.Path(BINARY).resolve().parent
EXAMPLE = BUILD / "tests/capi/capi_example"
TIMEOUT = 600  # the fresh system comes over the network
SYSTEMS = "/var/tmp"  # where it lies: /tmp may be in memory, and know no device files
PACKERS = ("dpkg-deb", "dpkg-shlibdeps", "strip", "apt-get")
PROMPT = ("run", "-p", "Hello!", "-n", "8", "--temp", "0", "--device", "cpu")
# Mounts and processes of a command end with it, however it ends.
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# A package is not kept: the quickest way to pack it.
QUICK = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
# Written by dpkg, apt and ldconfig as they go, whatever is installed.
VOLATILE = re.compile(
    r"^/((proc|sys|dev|tmp|run|var/(lib/(dpkg|apt)|cache|log))/|etc/ld\.so\.cache$)")


def run(*command, **options):
    """The stdout of a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=TIMEOUT, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}\n"
                             + (done.stdout + done.stderr).decode(errors="replace")[-3000:])
    return done.stdout.decode()


def host_release():
    """(codename, mirror) of this system, as apt has them; (None, reason) where it has none."""
    codename = ""
    with contextlib.suppress(OSError), open("/etc/os-release", encoding="utf-8") as file:
        codename = dict(re.findall(r"^(\w+)=\"?([^\"\n]*)", file.read(), re.M)).get(
            "VERSION_CODENAME", "")
    lines = run("apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)",
                "Identifier: Packages").split("\n")
    # Others name their packages' release likewise, but not the component; and debootstrap knows
    # none of apt's lists of mirrors.
    mirrors = [line.split()[2] for line in lines
               if re.match(re.escape(codename) + r" main https?://", line)]
    return (codename, mirrors[0]) if mirrors else (None, f"apt knows no mirror of {codename!r}")


def device_files_work():
    """Whether there can be device files where the system is to lie, as debootstrap makes them."""
    with tempfile.TemporaryDirectory(dir=SYSTEMS) as folder:
        try:
            os.mknod(folder + "/null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            with open(folder + "/null", "wb"):
                return True
        except OSError:
            return False


def no_fresh_system():
    """Why no system can be made here; empty: it can."""
    if os.environ.get("SPECBOUND_NETWORK") != "1":
        return "a fresh system comes over the network: SPECBOUND_NETWORK=1 asks for it"
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("debootstrap", "unshare") if not shutil.which(tool)]
    if missing:
        return "needs " + " and ".join(missing)
    if subprocess.run([*APART, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return "needs the right to mount"
    if not device_files_work():
        return f"needs device files in {SYSTEMS}"
    codename, mirror = host_release()
    if not codename:
        return mirror
    with tempfile.TemporaryDirectory() as folder:
        asked = subprocess.run(
            ["/usr/lib/apt/apt-helper", "-o", "Acquire::Retries=0", "-o",
             "Acquire::http::Timeout=15", "download-file", f"{mirror}dists/{codename}/InRelease",
             folder + "/InRelease"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return f"{mirror} cannot be reached" if asked.returncode != 0 else ""


@functools.lru_cache(maxsize=None)
def package():
    """The package of the build, made once."""
    if not (BUILD / "CMakeCache.txt").is_file():
        raise AssertionError(f"{BUILD}: expected a build folder; SPECBOUND_BINARY names a program "
                             "that lies where it was built")
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    said = run(os.path.join(ROOT, "packaging/deb.sh"), str(BUILD), folder.name,
               env=QUICK)
    return pathlib.Path(said.split("\n")[-2])


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.tree, cls.control = cls.folder / "tree", cls.folder / "control"
        run("dpkg-deb", "-x", str(package()), str(cls.tree))
        run("dpkg-deb", "-e", str(package()), str(cls.control))
        [cls.libraries] = [path.parent for path in cls.tree.glob("usr/lib/*/libspecbound.so")]

    def test_what_is_in_it(self):
        listed = run("dpkg-deb", "-c", str(package())).split("\n")[:-1]
        self.assertEqual({line.split()[1] for line in listed}, {"root/root"})
        modes = {line.split()[0] for line in listed}
        self.assertLessEqual(modes, {"drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"})
        files = {str(path.relative_to(self.tree)) for path in self.tree.rglob("*")
                 if not path.is_dir() and "third-party" not in str(path)
                 and "hicolor" not in str(path)}
        version = run(BINARY, "--version").split()[-1]
        self.assertEqual(self.libraries.parent, self.tree / "usr/lib")
        lib = f"usr/lib/{self.libraries.name}/"
        doc, models = "usr/share/doc/specbound/", "usr/share/specbound/models/"
        expected = {
            "usr/bin/specbound", "usr/include/specbound.h", lib + "libspecbound.so",
            lib + "libspecbound.so.0", lib + f"libspecbound.so.{version}",
            lib + "pkgconfig/specbound.pc", "usr/share/man/man1/specbound.1.gz",
            "usr/share/bash-completion/completions/specbound",
            "usr/share/fish/vendor_completions.d/specbound.fish",
            "usr/share/zsh/vendor-completions/_specbound", "usr/share/lintian/overrides/specbound",
            doc + "README.md", doc + "changelog.gz", doc + "changelog.Debian.gz", doc + "copyright",
            doc + "examples/example.c", doc + "examples/bench_tables.py",
            doc + "examples/spec_bench_sweep.py", doc + "examples/plots.py", models + "README.md",
            *(doc + "docs/" + path.name for path in pathlib.Path(ROOT, "docs").glob("*.md")),
            models + "demo-chat-16l-q8_0.gguf", models + "demo-chat-16l-q8_0.heads.gguf",
            models + "smollm2-135m-instruct-q4_1.heads.gguf",
            models + "smollm2-135m-instruct-q4_1.heads.card.md",
            models + "demo-chat-16l.card.md", models + "demo-chat-16l.heads.card.md"}
        entry = "usr/share/applications/specbound.desktop"
        if entry in files:  # with the desktop app
            expected.add(entry)
            self.assertEqual(len(list(self.tree.glob("usr/share/icons/hicolor/*/apps/*"))), 5)
        self.assertEqual(files, expected)
        for binary in ("usr/bin/specbound", lib + "libspecbound.so"):
            symbols = subprocess.run(["nm", self.tree / binary], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE)
            self.assertIn(b"no symbols", symbols.stderr)

    def test_what_dpkg_is_told(self):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", (self.control / "control").read_text(), re.M))
        version = run(BINARY, "--version").split()[-1]
        self.assertEqual((fields["Package"], fields["Version"]), ("specbound", version + "-1"))
        self.assertEqual(fields["Architecture"], run("dpkg", "--print-architecture").strip())
        self.assertRegex(fields["Depends"], r"libc6 \(>= 2\.\d+\)")
        self.assertNotIn("glfw", fields["Depends"])
        self.assertIn("libglfw3", fields["Recommends"])
        self.assertIn("libmd4c0", fields["Recommends"])
        self.assertNotIn("curl", fields["Depends"])
        self.assertIn("libcurl4", fields["Recommends"])
        size = sum(path.stat().st_size for path in self.tree.rglob("*")
                   if path.is_file() and not path.is_symlink())
        self.assertAlmostEqual(int(fields["Installed-Size"]) * 1024 / size, 1, delta=0.1)
        run("md5sum", "--check", "--quiet", str(self.control / "md5sums"), cwd=self.tree)
        self.assertEqual(len((self.control / "md5sums").read_text().split("\n")) - 1,
                         sum(path.is_file() and not path.is_symlink()
                             for path in self.tree.rglob("*")))

    def test_the_tree_works_where_it_lies(self):
        usr = self.tree / "usr"
        self.assertEqual(run(str(usr / "bin/specbound"), *PROMPT), run(BINARY, *PROMPT, "-m", DEMO))
        if not shutil.which("pkg-config") or not shutil.which("cc"):
            print("SKIP a program with the package's library: no cc or no pkg-config")
            return
        there = {**os.environ, "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "specbound", env=there).split()
        self.assertIn(f"-I{usr}/include", [os.path.normpath(flag) for flag in flags])
        program = str(self.folder / "example")
        run("cc", "-o", program, str(usr / "share/doc/specbound/examples/example.c"), *flags)
        said = run(program, str(usr / "share/specbound/models/demo-chat-16l-q8_0.gguf"), "Hello!",
                   env={**os.environ, "LD_LIBRARY_PATH": str(self.libraries)})
        self.assertRegex(said, r"\n\[\d+ tokens, [\d.]+ tok/s")


class FreshSystem(unittest.TestCase):
    root = None  # where the system lies

    def setUp(self):
        why_not = no_fresh_system()
        if why_not:
            print("SKIP the package in a fresh system:", why_not)
            return
        self.root = tempfile.mkdtemp(prefix="specbound-deb-", dir=SYSTEMS)
        self.addCleanup(self.remove_system)
        codename, mirror = host_release()
        run(*APART, "debootstrap", "--variant=minbase", codename, self.root, mirror)
        for key, value in re.findall(r'^(Acquire::https?::Proxy) "(.+)";$',
                                     run("apt-config", "dump"), re.M):
            with open(self.root + "/etc/apt/apt.conf.d/99proxy", "a", encoding="utf-8") as file:
                file.write(f'{key} "{value}";\n')

    def remove_system(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounted = [line.split()[4] for line in file if line.split()[4].startswith(self.root)]
        self.assertEqual(mounted, [])  # nothing of the host may be under it
        shutil.rmtree(self.root)

    def inside(self, *command):
        proxies = [f"{name}={value}" for name, value in os.environ.items()
                   if name.lower() in ("http_proxy", "https_proxy", "no_proxy")]
        return run(*APART, "sh", "-c",
                   'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', self.root,
                   "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                   "DEBIAN_FRONTEND=noninteractive", *proxies, *command)

    def files(self):
        found = self.inside("find", "/", "-xdev").split("\n")
        return {path for path in found if not VOLATILE.search(path)}

    def test_it_installs_runs_and_goes_away(self):
        if not self.root:
            return
        shutil.copy(package(), self.root + "/tmp/specbound.deb")
        self.inside("apt-get", "update")
        before = self.files()
        self.inside("apt-get", "install", "-y", "--no-install-recommends", "/tmp/specbound.deb")

        self.assertEqual(self.inside("specbound", "--version"), run(BINARY, "--version"))
        self.assertEqual(self.inside("specbound", *PROMPT), run(BINARY, *PROMPT, "-m", DEMO))
        self.assertIn(".TH", self.inside("specbound", "man"))
        self.assertEqual(self.inside("dpkg", "--verify", "specbound"), "")
        listed = set(self.inside("dpkg", "-L", "specbound").split("\n"))
        self.assertLessEqual({"/usr/bin/specbound", "/usr/include/specbound.h"}, listed)
        if EXAMPLE.is_file():
            shutil.copy(EXAMPLE, self.root + "/tmp/example")
            said = self.inside("/tmp/example",
                               "/usr/share/specbound/models/demo-chat-16l-q8_0.gguf", "Hello!")
            self.assertRegex(said, r"\n\[\d+ tokens, ")

        self.inside("apt-get", "purge", "-y", "specbound")
        self.inside("apt-get", "autoremove", "-y", "--purge")
        self.assertEqual(self.files() ^ before, set())
        self.assertNotIn("specbound", self.inside("dpkg-query", "-W", "-f", "${Package}\n"))


if __name__ == "__main__":
    lacking = [tool for tool in PACKERS if not shutil.which(tool)]
    if lacking:  # and nothing is installed for a test
        print("SKIP the Debian package: needs", " and ".join(lacking))
        sys.exit(0)
    unittest.main()
