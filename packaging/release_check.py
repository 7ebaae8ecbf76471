#!/usr/bin/env python3
"""`release_check.py FOLDER [ROOT...]`: the tarball and the Debian package that release.sh laid into
FOLDER. What they need to start and which GPUs they have code for; then, in each ROOT (a bare
system, as debootstrap makes it; nothing is written there), whether both work: the window's command,
doctor, the demo model on the CPU, what is said where a GPU is asked for, and `verify`.

Run by release.sh; with ROOTs it needs root and writes tests/bench/results/release.json."""
import contextlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "bench"))
import bench  # noqa: E402

MOST_BYTES = 40e6
NEWEST_GLIBC = (2, 35)
# Of the C library alone; what a program opens at run time may be missing.
MAY_NEED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
# The library lives in programs of others, and shares the C++ library with them.
LIBRARY_MAY_NEED = MAY_NEED | {"libstdc++.so.6", "libgcc_s.so.1"}
NEWEST_GLIBCXX = (3, 4, 30)  # GCC 12, of Debian 12 and Ubuntu 22.04
ARCHITECTURES = {75, 80, 86, 89, 90, 120}
PTX = {90, 120}
# Mounts and processes of a command end with it, however it ends.
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PROMPT = ("run", "-p", "Hello!", "-n", "16", "--temp", "0")
TIMEOUT = 300  # seconds that a command may take


def run(*command, status=0):
    """The ended process of a command, which must exit with `status`."""
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=TIMEOUT)
    if done.returncode != status:
        sys.exit(f"{command}: expected exit status {status}, found {done.returncode}\n"
                 + (done.stdout + done.stderr)[-3000:])
    return done


def expect(condition, what, found):
    if not condition:
        sys.exit(f"release_check: expected {what}, found {found}")


# ---- what a file needs and has ----


def newest(symbols, library):
    """The newest version of a library's symbols among what `objdump -T` lists."""
    versions = re.findall(rf"\b{library}_([\d.]+)\)? ", symbols)
    return max(tuple(map(int, version.split("."))) for version in versions) if versions else ()


def gpu_code(path):
    """{"code": {architecture: bytes}, "ptx": ...} of what nvcc put into a file.

    A container: magic, u16 version, u16 header bytes, u64 bytes behind that; its entries: u16 kind
    (1 PTX, 2 code), u16, u32 header bytes, u64 bytes behind that, and at 28 u32 architecture."""
    data, magic = path.read_bytes(), struct.pack("<IH", 0xBA55ED50, 1)
    found, at = {1: {}, 2: {}}, data.find(magic)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            found[kind][architecture] = found[kind].get(architecture, 0) + size
            entry += header + size
        at = data.find(magic, end)
    return dict(code=dict(sorted(found[2].items())), ptx=dict(sorted(found[1].items())))


def describe(path, may_need):
    """What a program or library is; ends the check where it would not start everywhere."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", path).stdout))
    symbols = run("objdump", "-T", path).stdout
    glibc, gpu = newest(symbols, "GLIBC"), gpu_code(path)
    expect(needed <= may_need, f"{path.name} to need no more than {sorted(may_need)}",
           sorted(needed))
    expect(glibc <= NEWEST_GLIBC, "glibc 2.35 to be enough", glibc)
    expect(newest(symbols, "GLIBCXX") <= NEWEST_GLIBCXX, "GCC 12's C++ library to be enough",
           newest(symbols, "GLIBCXX"))
    expect(set(gpu["code"]) == ARCHITECTURES and set(gpu["ptx"]) == PTX,
           f"code for {sorted(ARCHITECTURES)} and PTX of {sorted(PTX)}", gpu)
    return dict(file=path.name, bytes=path.stat().st_size, needs=sorted(needed),
                newest_glibc_symbol=".".join(map(str, glibc)), gpu_code_bytes=gpu["code"],
                gpu_ptx_bytes=gpu["ptx"])


# ---- bare systems ----


class System:
    """A root folder, seen through an overlay that takes what is written."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.over = pathlib.Path(folder.name)
        self.close = folder.cleanup
        for name in ("upper", "work", "seen"):
            (self.over / name).mkdir()
        about = (self.root / "etc/os-release").read_text()
        self.name = dict(re.findall(r"^(\w+)=\"?([^\"\n]*)", about, re.M))["PRETTY_NAME"]

    def inside(self, *command, status=0):
        return run(*APART, "sh", "-c",
                   'mount -t overlay -o "lowerdir=$0,upperdir=$1/upper,workdir=$1/work" overlay '
                   '"$1/seen" && mount -t proc proc "$1/seen/proc" && cd "$1/seen" && shift && '
                   'exec chroot . "$@"', self.root, self.over, "env", "-i", "HOME=/tmp",
                   "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", *command, status=status)

    def version_of(self, package):
        return self.inside("dpkg-query", "-W", "-f", "${Version}", package).stdout


def check_program(system, program, version, text):
    """The program in a system that has no driver. Returns what was tried."""
    def said(*arguments, status=0):
        return system.inside(program, *arguments, status=status)

    tried = []

    def check(name, condition, found):
        expect(condition, f"{system.name}: {program} {name} as it should be", found)
        tried.append(name)

    check("--version", said("--version").stdout == version, version)
    gpu = json.loads(said("doctor", "--json").stdout)["gpu"]
    check("doctor", gpu["backend_in_this_build"] and gpu["state"] == "no-driver"
          and re.search(r"\nGPU +none: no NVIDIA driver", said("doctor").stdout), gpu)
    check("run --device cpu", said(*PROMPT, "--device", "cpu").stdout == text, text)
    unasked = said(*PROMPT)
    check("run", unasked.stdout == text and "no NVIDIA driver" in unasked.stderr, unasked)
    refused = said(*PROMPT, "--device", "cuda", status=1)
    check("run --device cuda", refused.stdout == "" and refused.stderr.count("\n") == 1
          and "driver 580" in refused.stderr, refused)
    check("gui --help", "specbound gui" in said("gui", "--help").stdout, "")
    check("serve --help", "specbound serve" in said("serve", "--help").stdout, "")
    said("verify", "-p", "Hello!", "-n", "16", "--seeds", "1")
    tried.append("verify")
    return tried


def check_in(root, tarball, package, version, text):
    """Both packages in a bare system."""
    system = System(root)
    with contextlib.closing(system):
        glibc, cxx = system.version_of("libc6"), system.version_of("libstdc++6")
        print(f"{system.name}, libc6 {glibc}, libstdc++6 {cxx}", flush=True)
        srv = system.over / "upper/srv"
        srv.mkdir()
        run("tar", "-C", srv, "-xf", tarball)
        tree = tarball.name.removesuffix(".tar.xz")
        tried = {"tarball": check_program(system, f"/srv/{tree}/bin/specbound", version, text)}
        run("cp", package, srv)
        system.inside("dpkg", "-i", f"/srv/{package.name}")
        tried["deb"] = check_program(system, "/usr/bin/specbound", version, text)
        system.inside("dpkg", "--verify", "specbound")
        system.inside("dpkg", "--purge", "specbound")
        system.inside("test", "!", "-e", "/usr/bin/specbound")
        tried["deb"] += ["dpkg -i", "dpkg --verify", "dpkg --purge"]
    for what, names in tried.items():
        print(f"  {what}: {len(names)} passed: {', '.join(names)}", flush=True)
    return dict(system=system.name, libc6=glibc, libstdcxx6=cxx, passed=tried)


def newest_file(folder, pattern):
    """Earlier releases may lie beside it."""
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    expect(found, f"{pattern} in {folder} (packaging/release.sh makes it)", found)
    return found[-1]


def main(folder, *roots):
    folder = pathlib.Path(folder)
    tarball = newest_file(folder, "specbound-*.tar.xz")
    version = tarball.name.split("-")[1]
    package = newest_file(folder, f"specbound_{version}-*.deb")
    with tempfile.TemporaryDirectory() as unpacked:
        run("tar", "-C", unpacked, "-xf", tarball)
        tree = newest_file(pathlib.Path(unpacked), "specbound-*")
        program = tree / "bin/specbound"
        library = (tree / "lib").glob("**/libspecbound.so.*.*")
        files = [describe(program, MAY_NEED), describe(next(library), LIBRARY_MAY_NEED)]
        version = run(program, "--version").stdout
        text = run(program, *PROMPT, "--device", "cpu").stdout
    depends = run("dpkg-deb", "-f", package, "Depends").stdout.strip()
    packages = [dict(file=file.name, bytes=file.stat().st_size) for file in (tarball, package)]
    packages[1]["depends"] = depends
    for entry in packages + files:
        print(f"{entry['file']}: {entry['bytes'] * 1e-6:.1f} MB", flush=True)
        expect(entry["bytes"] < MOST_BYTES, f"{entry['file']} of less than 40 MB", entry["bytes"])
    print(f"glibc {files[0]['newest_glibc_symbol']}; the package depends on {depends}", flush=True)
    if roots:
        machine = bench.hardware()
        systems = [check_in(root, tarball, package, version, text) for root in roots]
        bench.write_report(bench.RESULTS / "release.json", "release",
                           ["packaging/release.sh", "--check", *map(os.path.basename, roots)],
                           machine, packages=packages, files=files, systems=systems)


if __name__ == "__main__":
    main(*sys.argv[1:])
