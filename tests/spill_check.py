#!/usr/bin/env python3
"""`spill_check.py BUILD_DIR`: no kernel may keep registers in memory, on any architecture.

Compiles every kernels/*.cu as BUILD_DIR does (its compile_commands.json), for all architectures of
a release or those that --archs names, and reads what ptxas says: a spill or a stack frame fails.
Prints the registers of each kernel; more than 64 get a star. Prefill kernels (prefill_*.cu) work
on tiles that fill the registers: a thread of theirs may store and load up to 96 bytes, a few
instructions in a loop of some 400.

A kernel that spills and one with a stack frame are compiled first: the check must see both.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ARCHS = (75, 80, 86, 89, 90, 120)
OF_PREFILL = 96  # bytes
AIM = 64  # registers: half of a multiprocessor's threads stay resident

FUNCTION = re.compile(
    r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads(?:\nptxas info\s*: Used (\d+) registers)?")
ARCH = re.compile(r"Compiling entry function '\S+' for 'sm_(\d+)a?'")

# 96 values that live across a barrier in a block that is allowed 64 registers a thread; an array
# with an index that only the run knows.
SPILLS = """
__global__ void __launch_bounds__(1024) spills(float* p) {
  float x[96];
  for (int i = 0; i < 96; ++i) x[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 96; ++i) p[(95 - i) * 1024 + threadIdx.x] = x[i] * x[(i * 7) % 96];
}
__global__ void has_a_frame(float* p, int n) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = p[i];
  for (int i = 0; i < n; ++i) x[(i * n) & 15] += p[i];
  for (int i = 0; i < 16; ++i) p[i] = x[i];
}
__global__ void clean(float* p) { p[threadIdx.x] += 1; }
"""


def read_ptxas(text):
    """[(function, arch, registers or None, stack, spill bytes)] of what `ptxas -v` said."""
    found, arch = [], None
    for part in re.split(r"(?=ptxas info\s*: Compiling entry function)", text):
        arch = ARCH.search(part)
        if not arch:
            continue
        for name, stack, stores, loads, registers in FUNCTION.findall(part):
            found.append((name, int(arch.group(1)), int(registers) if registers else None,
                          int(stack), int(stores) + int(loads)))
    return found


def kernel_commands(build):
    """{path of a .cu in kernels/: the command that compiles it, less its output and archs}"""
    path = pathlib.Path(build) / "compile_commands.json"
    commands = {}
    for entry in json.loads(path.read_text()):
        source = pathlib.Path(entry["file"])
        if source.suffix != ".cu" or source.parent.name != "kernels" or source in commands:
            continue
        if "generate-code" not in entry["command"]:  # for the SIMT executor
            continue
        words = [w for w in shlex.split(entry["command"]) if "generate-code" not in w
                 and os.path.basename(w) != "ccache"]
        for flag in ("-o", "-c", "-x", "-MF", "-MT"):
            if flag in words:
                at = words.index(flag)
                del words[at:at + 2]
        commands[source] = [w for w in words if w != "-MD" and w != str(source)]
    return commands


def compile_verbosely(command, source, folder, archs):
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs]
    launcher = [ccache] if (ccache := shutil.which("ccache")) else []
    output = os.path.join(folder, source.stem)
    done = subprocess.run(
        [*launcher, *command, *codes, "-Xptxas=-v", "-MD", "-MF", f"{output}.d", "-x", "cu", "-c",
         str(source), "-o", f"{output}.o"],
        # As kernels/CMakeLists.txt has it: ccache replays what ptxas said.
        capture_output=True, text=True, env={**os.environ, "CCACHE_DEPEND": "1"})
    if done.returncode != 0:
        raise RuntimeError(f"{source}: nvcc failed\n{done.stdout}{done.stderr}")
    return read_ptxas(done.stdout + done.stderr)


def check_myself(command, folder):
    """That a spill and a stack frame are seen, and nothing else."""
    source = pathlib.Path(folder) / "planted.cu"
    source.write_text(SPILLS)
    seen = {name: (stack > 0, spilled > 0) for name, _, _, stack, spilled in
            compile_verbosely(command, source, folder, [75])}
    wanted = {"_Z6spillsPf": True, "_Z11has_a_framePfi": True, "_Z5cleanPf": False}
    if {name: any(flags) for name, flags in seen.items()} != wanted or not seen["_Z6spillsPf"][1]:
        raise RuntimeError(f"the check does not see what it is for: {seen}")


def plain_names(mangled):
    if not shutil.which("c++filt") or not mangled:
        return {name: name for name in mangled}
    names = sorted(mangled)
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    short = (re.sub(r"\(.*", "", re.sub(r"specbound::kernels::|\(anonymous namespace\)::", "",
                                      line)).removeprefix("void ")
             for line in text.splitlines())
    return dict(zip(names, short))


def report(name, found, archs, allowed):
    """Prints a file's table; returns its breaches of so many bytes."""
    names, breaches, table = plain_names({f[0] for f in found}), [], {}
    for function, arch, registers, stack, spilled in found:
        if registers is not None:
            table.setdefault(names[function], {})[arch] = registers
        if max(spilled, stack) > allowed or (stack and not spilled):
            breaches.append(f"{name}: {names[function]} on sm_{arch}: {spilled} bytes of spills, "
                            f"a stack frame of {stack} bytes")
    for kernel in sorted(table):
        cells = (f"{r}{'*' if r > AIM else ' '}" for r in
                 (table[kernel].get(a, 0) for a in archs))
        print(f"{name[:22]:22} {kernel[:40]:40} " + "".join(f"{c:>7}" for c in cells))
    return breaches


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", help="a build folder configured with SPECBOUND_CUDA")
    parser.add_argument("--only", nargs="+", help="these sources (names without .cu)")
    parser.add_argument("--archs", nargs="+", type=int, choices=ARCHS, default=ARCHS)
    a = parser.parse_args()

    commands = {source: c for source, c in sorted(kernel_commands(a.build).items())
                if not a.only or source.stem in a.only}
    if not commands:
        print("spill check: no kernels in compile_commands.json")
        return 1
    breaches = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        check_myself(next(iter(commands.values())), folder)
        runs = {s: pool.submit(compile_verbosely, c, s, folder, a.archs)
                for s, c in commands.items()}
        print(f"{'registers':64}" + "".join(f"{f'sm_{arch}':>7}" for arch in a.archs))
        for source, run in runs.items():
            found = run.result()
            seen = {(name, arch) for name, arch, registers, _, _ in found if registers}
            kernels = {name for name, _ in seen}
            if "__global__" in source.read_text() and (
                    not kernels or len(seen) != len(kernels) * len(a.archs)):
                breaches.append(f"{source.name}: ptxas said nothing of some kernels")
            allowed = OF_PREFILL if source.name.startswith("prefill_") else 0
            breaches += report(source.name, found, a.archs, allowed)
    for breach in breaches:
        print("SPILL", breach)
    print(f"spill check: {len(commands)} files, {len(a.archs)} architectures, "
          f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
