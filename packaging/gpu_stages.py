#!/usr/bin/env python3
"""Runs what `gpu_session.sh --prepare` built: `gpu_stages.py DIR [--stage NAME]...`."""
import argparse
import contextlib
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

SECONDS = 520  # of a stage
START_SECONDS = 20  # that must be left for one more program to start
CASE_SECONDS = 120  # of a test case under compute-sanitizer
JIT_SECONDS = 300  # of a program that the driver compiles first
ASK_SECONDS = 60  # of a program that only says what it finds
JIT_ARCHS = (75, 80, 86, 89, 90, 120)
CASES = re.compile(r"^\[doctest\] test cases: +\d+ \| +(\d+) passed \| +(\d+) failed "
                   r"\| +(\d+) skipped", re.MULTILINE)
DEVICE = re.compile(r"^on (.+), sm_(\d+), driver for CUDA (.+)$", re.MULTILINE)
SANITIZER = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer",
             "/usr/local/cuda/compute-sanitizer/compute-sanitizer")
DEMO = bench.ROOT / "models" / "demo-chat-16l-q8_0.gguf"
FOUND_AN_ERROR = 99  # the exit status that compute-sanitizer is told to use


def ending(status):
    return "out of time" if status is None else f"exit status {status}"


def run(command, seconds, environment=None):
    """(exit status, output); None for the status when it was out of time and killed, with all that
    it started. That happens too when this program is told to end."""
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, **(environment or {})})
        except OSError as error:
            return 127, str(error)
        status = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(max(0, seconds))
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)  # longer where the driver holds it
        log.seek(0)
        return status, log.read().decode(errors="replace")


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

    def run(self, command, seconds=SECONDS, environment=None):
        """As run(), for no longer than the stage has left."""
        return run(command, min(seconds, self.left()), environment)

    def count_tests(self, name, status, output):
        """Adds a doctest program's cases."""
        found = CASES.search(output)
        if not found or status not in (0, 1) or (status == 1) != (found.group(2) != "0"):
            self.fail(f"{name}: {ending(status)}", output)
            return
        passed, failed, skipped = map(int, found.groups())
        self.passed += passed
        self.skipped += skipped
        if failed:
            self.fail(f"{name}: {failed} cases", output)
            self.failed += failed - 1


def stage_tests(stage, _device):
    stage.count_tests("gpu_tests", *stage.run([stage.folder / "gpu_tests"]))


def find_sanitizer():
    return next(filter(None, map(shutil.which, SANITIZER)), None)


def sanitize(stage, tool):
    """Case by case, until time is over: the tool makes kernels many times slower."""
    sanitizer = find_sanitizer()
    if not sanitizer:
        stage.skip(f"{tool}: no compute-sanitizer here")
        return
    program = stage.folder / "gpu_tests"
    status, listed = stage.run([program, "-ltc"], ASK_SECONDS)
    parts = listed.split("=" * 79 + "\n")
    cases = parts[1].splitlines() if status == 0 and len(parts) > 2 else []
    if not cases:
        stage.fail(f"{tool}: cannot list the cases: {ending(status)}", listed)
    for at, case in enumerate(cases):
        in_time = stage.left() >= START_SECONDS
        if in_time:
            status, output = stage.run(
                [sanitizer, "--tool", tool, "--error-exitcode", FOUND_AN_ERROR, program,
                 "-tc=" + case.replace(",", "?")], CASE_SECONDS)
            in_time = status is not None or stage.left() > 0
        if not in_time:
            stage.skip(f"{tool}: no time for {len(cases) - at} of {len(cases)} cases, "
                       f"from \"{case}\"", len(cases) - at)
            return
        if status == 0 and (found := CASES.search(output)) and found.group(1) == "1":
            stage.passed += 1
        else:
            stage.fail(f"{tool}: \"{case}\": {ending(status)}", output)


def stage_memcheck(stage, _device):
    sanitize(stage, "memcheck")


def stage_racecheck(stage, _device):
    sanitize(stage, "racecheck")


def verify(stage, model, *flags):
    name = " ".join([f"verify {model.name}", *flags])
    if stage.left() < START_SECONDS:
        stage.skip(f"{name}: no time to start")
        return
    status, output = stage.run([stage.folder / "specbound", "verify", "--bits", "--device", "cuda",
                                "-m", model, *flags])
    if status == 0:
        stage.passed += 1
    else:
        stage.fail(f"{name}: {ending(status)}", output)


def stage_verify(stage, _device):
    """Speculation changes no bit of what whole models say."""
    verify(stage, DEMO)
    verify(stage, DEMO, "--dtype", "fp16")
    if model := os.environ.get("SPECBOUND_F16_MODEL"):
        verify(stage, pathlib.Path(model))
    else:
        stage.skip("an F16 model: SPECBOUND_F16_MODEL names none")


def stage_memcheck_run(stage, _device):
    """The engine's host side with its copies and graphs, under compute-sanitizer."""
    sanitizer = find_sanitizer()
    if not sanitizer:
        stage.skip("no compute-sanitizer here")
        return
    for flags in ([], ["--dtype", "fp16"], ["--temp", "0.8", "--seed", "1"]):
        name = " ".join(["run", *flags])
        status, output = stage.run(
            [sanitizer, "--tool", "memcheck", "--error-exitcode", FOUND_AN_ERROR,
             stage.folder / "specbound", "run", "--device", "cuda", "-m", DEMO, "-p",
             "I need a table for two tonight.", "-n", "24", *flags])
        if status == 0:
            stage.passed += 1
        else:
            stage.fail(f"{name}: {ending(status)}", output)


def stage_jit(stage, device):
    """PTX of one architecture, compiled by the driver: every code path on one card."""
    with tempfile.TemporaryDirectory() as cache:
        for arch in JIT_ARCHS:
            if arch > device["sm"]:
                stage.skip(f"PTX of sm_{arch}: this card is sm_{device['sm']}")
                continue
            name = f"gpu_tests_ptx{arch}"
            if stage.left() < START_SECONDS:
                stage.skip(f"{name}: no time to start")
                continue
            status, output = stage.run([stage.folder / name], JIT_SECONDS,
                                       {"CUDA_FORCE_PTX_JIT": "1", "CUDA_CACHE_PATH": cache})
            if status is None and stage.left() <= 0:
                stage.skip(f"{name}: no time to end")
            else:
                stage.count_tests(name, status, output)


def measure(stage, script, program):
    status, output = stage.run([sys.executable, "-B", bench.ROOT / "tests" / "bench" / script,
                                "--program", stage.folder / program, "--seconds", "400",
                                "--commit", commit_of(stage.folder)])
    print(output, flush=True)
    if status == 0:
        stage.passed += 1
    else:
        stage.fail(f"{script}: {ending(status)}")


def stage_bench(stage, _device):
    measure(stage, "gpu_kernels.py", "gpu_kernels")


def stage_engine(stage, _device):
    measure(stage, "gpu_engine.py", "specbound")


def stage_train(stage, _device):
    """Heads for a 7B model, on random features."""
    status, output = stage.run([stage.folder / "gpu_train"])
    if status == 0:
        stage.passed += 1
        stage.notes.append(" ".join(output.split()))
    else:
        stage.fail(f"gpu_train: {ending(status)}", output)


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
    why = re.search(r"^SKIP (.+)$", output, re.MULTILINE)
    if not why:
        sys.exit(f"{program}: {ending(status)}\n{output.strip()}")
    return None, why.group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--stage", action="append", choices=list(STAGES))
    a = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # run() cleans up
    device, why_not = find_device(a.folder)
    out = pathlib.Path(os.environ["OUT"]) if os.environ.get("OUT") else bench.RESULTS
    print(f"on {device['name']}, sm_{device['sm']}" if device else f"no GPU: {why_not}", flush=True)
    totals = [0, 0, 0]
    for name in a.stage or STAGES:
        stage, start = Stage(a.folder, SECONDS), time.monotonic()
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
                ["packaging/gpu_session.sh", "--run", "DIR", "--stage", name], bench.hardware(),
                commit_of(a.folder), gpu=device, passed=counts[0], failed=counts[1],
                skipped=counts[2], seconds=round(seconds, 1), notes=stage.notes)
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
