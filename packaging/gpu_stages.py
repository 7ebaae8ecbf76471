#!/usr/bin/env python3
"""Runs what `gpu_session.sh --prepare` built: `gpu_stages.py DIR [--stage NAME]... [--seconds N]`.

What a stage has no time for, or what time cuts off, is skipped and never failed. The stages that
say most in a short time come first.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import bench

SECONDS = 480  # of a stage
CASE_SECONDS = 120  # of a test case under compute-sanitizer
ASK_SECONDS = 60  # of a program that only says what it finds
REPORT_SECONDS = 5  # for a bench to write what it found, for a program to end when it is told to
SANITIZERS_AT_ONCE = 8
JIT_ARCHS = (75, 80, 86, 89, 90, 120)
CASES = re.compile(r"^\[doctest\] test cases: +\d+ \| +(\d+) passed \| +(\d+) failed "
                   r"\| +(\d+) skipped", re.MULTILINE)
CUT_OFF_CASE = "test case CRASHED: SIGTERM"
SKIPPED = re.compile(r"^SKIP (.+)$", re.MULTILINE)
DEVICE = re.compile(r"^on (.+), sm_(\d+), driver for CUDA (.+)$", re.MULTILINE)
SANITIZER = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer",
             "/usr/local/cuda/compute-sanitizer/compute-sanitizer")
DEMO = bench.ROOT / "models" / "demo-chat-16l-q8_0.gguf"
FOUND_AN_ERROR = 99  # the exit status that compute-sanitizer is told to use


class Program:
    """One that runs for some seconds at most; then it is told to end, and soon made to, with all
    that it started."""

    def __init__(self, command, seconds, environment=None):
        self.log, self.process, self.cut_off = tempfile.TemporaryFile(), None, False
        end = time.monotonic() + seconds
        self.signals = [(end, signal.SIGTERM), (end + REPORT_SECONDS, signal.SIGKILL)]
        self.lost = end + 3 * REPORT_SECONDS  # where the driver holds it
        try:
            self.process = subprocess.Popen(
                [str(c) for c in command], stdin=subprocess.DEVNULL, stdout=self.log,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **(environment or {})})
        except OSError as error:
            self.log.write(str(error).encode())

    def ended(self):
        if self.process is None or self.process.poll() is not None:
            return True
        now = time.monotonic()
        while self.signals and now >= self.signals[0][0]:
            self.cut_off = True
            os.killpg(self.process.pid, self.signals.pop(0)[1])
        return now >= self.lost

    def kill(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def result(self):
        """(exit status, output); None for the status of one that was cut off."""
        self.log.seek(0)
        status = self.process.returncode if self.process else 127
        return None if self.cut_off else status, self.log.read().decode(errors="replace")


def run_all(commands, seconds, at_once, left, environment=None):
    """Yields (index, exit status, output) of each command as it ends. The status is None, and the
    output what there is, where a command's seconds or those `left()` were not enough."""
    waiting, running = list(enumerate(commands)), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index, command = waiting.pop(0)
                if left() <= 0:
                    yield index, None, ""
                    continue
                running[index] = Program(command, min(seconds, left()), environment)
            for index in [i for i, program in running.items() if program.ended()]:
                yield index, *running.pop(index).result()
            time.sleep(0.01)
    finally:  # also when this program is told to end
        for program in running.values():
            program.kill()


def run(command, seconds):
    (_, status, output), = run_all([command], seconds, 1, lambda: seconds)
    return status, output


def ending(status):
    return "out of time" if status is None else f"exit status {status}"


class Stage:
    """What a stage counts, and what it has to say."""

    def __init__(self, folder, seconds):
        self.folder, self.end = folder, time.monotonic() + seconds
        self.passed = self.failed = self.skipped = 0
        self.notes = []

    def left(self):
        return self.end - time.monotonic()

    def skip(self, why, count=1):
        self.skipped += count
        self.notes.append(f"SKIP {why}")

    def fail(self, what, output=""):
        self.failed += 1
        self.notes.append(f"FAILED {what}")
        if output:
            print(f"---- {what}\n{output[-6000:]}\n----", flush=True)

    def run_all(self, commands, at_once, seconds=float("inf"), environment=None):
        """As run_all(), for no longer than the stage has left."""
        return run_all(commands, seconds, at_once, self.left, environment)

    def run(self, command):
        (_, status, output), = self.run_all([command], 1)
        return status, output

    def count(self, name, status, output):
        """Adds a program that ends with 0 where all is well. True if it did."""
        if status == 0:
            self.passed += 1
        elif status is None:
            self.skip(f"{name}: {ending(status)}")
        else:
            self.fail(f"{name}: {ending(status)}", output)
        return status == 0

    def count_tests(self, name, status, output):
        """Adds a doctest program's cases: of one that was cut off those before."""
        found = CASES.search(output)
        passed, failed, skipped = map(int, found.groups()) if found else (0, 0, 0)
        if status is None:
            under_way = CUT_OFF_CASE in output
            self.skip(f"{name}: out of time" + (f" after {passed} cases" if found else ""),
                      max(1, skipped + under_way))
            failed -= under_way
        elif not found or status not in (0, 1) or (status == 1) != (failed > 0):
            self.fail(f"{name}: {ending(status)}", output)
            return
        else:
            self.skipped += skipped
        self.passed += passed
        if failed:
            self.fail(f"{name}: {failed} cases", output)
            self.failed += failed - 1


def stage_tests(stage, _device):
    stage.count_tests("gpu_tests", *stage.run([stage.folder / "gpu_tests"]))


def verify(stage, model, *flags):
    stage.count(" ".join([f"verify {model.name}", *flags]),
                *stage.run([stage.folder / "specbound", "verify", "--bits", "--device", "cuda",
                            "-m", model, *flags]))


def stage_verify(stage, _device):
    """Speculation changes no bit of what whole models say."""
    verify(stage, DEMO)
    verify(stage, DEMO, "--dtype", "fp16")
    if model := os.environ.get("SPECBOUND_F16_MODEL"):
        verify(stage, pathlib.Path(model))
    else:
        stage.skip("an F16 model: SPECBOUND_F16_MODEL names none")


def measure(stage, script, program):
    status, output = stage.run([sys.executable, "-B", bench.ROOT / "tests" / "bench" / script,
                                "--program", stage.folder / program,
                                "--seconds", max(0, stage.left() - REPORT_SECONDS),
                                "--commit", commit_of(stage.folder)])
    print(output, flush=True)
    if why := SKIPPED.search(output):
        stage.skip(why.group(1))
    else:
        stage.count(script, status, "")


def stage_engine(stage, _device):
    measure(stage, "gpu_engine.py", "specbound")


def stage_bench(stage, _device):
    measure(stage, "gpu_kernels.py", "gpu_kernels")


def find_sanitizer(stage):
    found = next(filter(None, map(shutil.which, SANITIZER)), None)
    if not found:
        stage.skip("no compute-sanitizer here")
    return found


def sanitize(stage, tool):
    """Case by case, side by side: the tool makes kernels many times slower."""
    sanitizer = find_sanitizer(stage)
    if not sanitizer:
        return
    program = stage.folder / "gpu_tests"
    status, listed = run([program, "-ltc"], ASK_SECONDS)
    parts = listed.split("=" * 79 + "\n")
    cases = parts[1].splitlines() if status == 0 and len(parts) > 2 else []
    if not cases:
        stage.fail(f"{tool}: cannot list the cases: {ending(status)}", listed)
    commands = [[sanitizer, "--tool", tool, "--error-exitcode", FOUND_AN_ERROR, program,
                 "-tc=" + case.replace(",", "?")] for case in cases]
    for at, status, output in stage.run_all(commands, SANITIZERS_AT_ONCE, CASE_SECONDS):
        name, found = f"{tool}: \"{cases[at]}\"", CASES.search(output)
        if status == 0 and not (found and found.group(1) == "1"):
            stage.fail(f"{name}: did not run", output)
        else:
            stage.count(name, status, output)


def stage_racecheck(stage, _device):
    sanitize(stage, "racecheck")


def stage_memcheck(stage, _device):
    sanitize(stage, "memcheck")


def stage_memcheck_run(stage, _device):
    """The engine's host side with its copies and graphs, under compute-sanitizer."""
    sanitizer = find_sanitizer(stage)
    if not sanitizer:
        return
    for flags in ([], ["--dtype", "fp16"], ["--temp", "0.8", "--seed", "1"]):
        stage.count(" ".join(["run", *flags]), *stage.run(
            [sanitizer, "--tool", "memcheck", "--error-exitcode", FOUND_AN_ERROR,
             stage.folder / "specbound", "run", "--device", "cuda", "-m", DEMO, "-p",
             "I need a table for two tonight.", "-n", "24", *flags]))


def stage_jit(stage, device):
    """PTX of one architecture, compiled by the driver: every code path on one card."""
    archs = [arch for arch in JIT_ARCHS if arch <= device["sm"]]
    for arch in JIT_ARCHS[len(archs):]:
        stage.skip(f"PTX of sm_{arch}: this card is sm_{device['sm']}")
    names = [f"gpu_tests_ptx{arch}" for arch in archs]
    with tempfile.TemporaryDirectory() as cache:
        for at, status, output in stage.run_all(
                [[stage.folder / name] for name in names], len(names),
                environment={"CUDA_FORCE_PTX_JIT": "1", "CUDA_CACHE_PATH": cache}):
            stage.count_tests(names[at], status, output)


def stage_train(stage, _device):
    """Heads for a 7B model, on random features."""
    status, output = stage.run([stage.folder / "gpu_train"])
    if stage.count("gpu_train", status, output):
        stage.notes.append(" ".join(output.split()))


STAGES = {name.removeprefix("stage_"): function for name, function in list(globals().items())
          if name.startswith("stage_")}


def commit_of(folder):
    path = folder / "commit"
    return path.read_text().strip() if path.is_file() else "unknown"


def find_device(folder):
    """{name, sm, driver}, or why there is none."""
    program = folder / "gpu_tests"
    if not program.is_file():
        sys.exit(f"{folder}: expected the programs of gpu_session.sh --prepare DIR, "
                 "found no gpu_tests")
    status, output = run([program, "-tc=none"], ASK_SECONDS)
    if status is None:
        sys.exit(f"{program}: asked for the GPU and got no answer within {ASK_SECONDS} s")
    found = DEVICE.search(output)
    if found:
        return dict(name=found.group(1), sm=int(found.group(2)), cuda_driver=found.group(3)), None
    why = SKIPPED.search(output)
    if not why:
        sys.exit(f"{program}: {ending(status)}\n{output.strip()}")
    return None, why.group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--stage", action="append", choices=list(STAGES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each stage")
    a = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # run_all() cleans up
    device, why_not = find_device(a.folder)
    out = pathlib.Path(os.environ["OUT"]) if os.environ.get("OUT") else bench.RESULTS
    print(f"on {device['name']}, sm_{device['sm']}" if device else f"no GPU: {why_not}", flush=True)
    totals = [0, 0, 0]
    for name in a.stage or STAGES:
        stage, start = Stage(a.folder, a.seconds), time.monotonic()
        if device:
            STAGES[name](stage, device)
        else:
            stage.skip(f"{name}: {why_not}")
        seconds = time.monotonic() - start
        counts = [stage.passed, stage.failed, stage.skipped]
        totals = [x + y for x, y in zip(totals, counts)]
        verdict = "FAILED" if stage.failed else "ok" if stage.passed else "none"
        print(f"{verdict:7} {name:11} {counts[0]:4} passed, {counts[1]} failed, "
              f"{counts[2]} skipped {seconds:8.1f} s", *stage.notes, sep="\n        ", flush=True)
        if device:
            bench.write_report(
                out / f"gpu_session_{name}.json", f"gpu_session_{name}",
                ["packaging/gpu_session.sh", "--run", "DIR", "--stage", name, "--seconds",
                 f"{a.seconds:g}"], bench.hardware(),
                commit_of(a.folder), gpu=device, passed=counts[0], failed=counts[1],
                skipped=counts[2], seconds=round(seconds, 1), notes=stage.notes)
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
