#!/usr/bin/env python3
"""Runs what `gpu_session.sh --prepare` built: `gpu_stages.py DIR [--list] [--stage NAME]...
[--seconds N] [--total N] [--again]`.

Stages of eight minutes at most, those that say most in a short time first. Each leaves a small
file, gpu_session_NAME.json; where that is of the same commit the stage is not run again, so that a
session that is cut off goes on with the next call. What a stage has no time for is skipped and
never failed.
"""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

import bench

MOST_SECONDS = 480  # of a stage
LEAST_SECONDS = 5  # of the whole call's that are left: with less no stage begins
CASE_SECONDS = 120  # of a test case under compute-sanitizer
ASK_SECONDS = 60  # of a program that only says what it finds
REPORT_SECONDS = 5  # for a bench to write what it found, for a program to end when it is told to
SANITIZERS_AT_ONCE = 8
RACECHECKS = 4  # parts of the cases: in 55 s an H200 had time for 71 of 117
JIT_ARCHS = (75, 80, 86, 89, 90, 120)
CASES = re.compile(r"^\[doctest\] test cases: +\d+ \| +(\d+) passed \| +(\d+) failed "
                   r"\| +(\d+) skipped", re.MULTILINE)
CUT_OFF_CASE = "test case CRASHED: SIGTERM"
SKIPPED = re.compile(r"^SKIP (.+)$", re.MULTILINE)
DEVICE = re.compile(r"^on (.+), sm_(\d+), driver for CUDA (.+)$", re.MULTILINE)
SANITIZER = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer",
             "/usr/local/cuda/compute-sanitizer/compute-sanitizer")
DEMO, DEMO_LAYERS = bench.ROOT / "models" / "demo-chat-16l-q8_0.gguf", 16
# A draft layer that has learnt next to nothing, in some seconds.
A_LAYER = ["--kinds", "layer", "--no-tune", "--max-tokens", "4000", "--minutes", "0.1", "--data",
           bench.ROOT / "tests" / "data" / "dialogue-valid" / "dialogue-valid.jsonl"]
# Beside temperatures 0, 0.7 and 1 without filters, which verify takes by itself.
DRAWN = ["--temps", "0.4,1.5", "--top-k", "40", "--top-p", "0.9", "--repeat-penalty", "1.3"]
TIME_IS_OVER = "time is over"  # says a bench that has not done all
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
        self.out_of_time = False

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
            self.out_of_time = True
            self.skip(f"{name}: {ending(status)}")
        else:
            self.fail(f"{name}: {ending(status)}", output)
        return status == 0

    def count_tests(self, name, status, output):
        """Adds a doctest program's cases: of one that was cut off those before."""
        found = CASES.search(output)
        passed, failed, skipped = map(int, found.groups()) if found else (0, 0, 0)
        if status is None:
            self.out_of_time, under_way = True, CUT_OFF_CASE in output
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


def all_tests(stage, _device):
    stage.count_tests("gpu_tests", *stage.run([stage.folder / "gpu_tests"]))


def specbound(stage, *words):
    """True if it ends well."""
    name = " ".join(w.name if isinstance(w, pathlib.Path) else w for w in words)
    return stage.count(name, *stage.run([stage.folder / "specbound", *words]))


def verify(stage, model, *flags):
    specbound(stage, "verify", "--bits", "--device", "cuda", "-m", model, *flags)


def verify_models(stage, _device):
    """Speculation changes no bit of what whole models say: of each form of weights and of K/V, with
    half of the layers on the CPU, and by each way to draw."""
    half, int8 = ["-ngl", str(DEMO_LAYERS // 2)], ["--kv", "int8"]
    for flags in ([], int8, half, [*half, *int8], ["--dtype", "fp16"], DRAWN):
        verify(stage, DEMO, *flags)
    with tempfile.TemporaryDirectory() as folder:
        layer = pathlib.Path(folder) / "layer.heads.gguf"
        if specbound(stage, "train-heads", "-m", DEMO, *A_LAYER, "-o", layer):
            verify(stage, DEMO, "--heads", layer, "--head", "layer")
            verify(stage, DEMO, "--heads", layer, "--head", "layer", *int8)
        for form in ("Q4_0", "Q4_K"):
            small = pathlib.Path(folder) / f"{form}.gguf"
            if specbound(stage, "quantize", DEMO, small, form):
                verify(stage, small)
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
    stage.out_of_time |= TIME_IS_OVER in output
    if why := SKIPPED.search(output):
        stage.skip(why.group(1))
    else:
        stage.count(script, status, "")


def bench_engine(stage, _device):
    measure(stage, "gpu_engine.py", "specbound")


def bench_kernels(stage, _device):
    measure(stage, "gpu_kernels.py", "gpu_kernels")


def find_sanitizer(stage):
    found = next(filter(None, map(shutil.which, SANITIZER)), None)
    if not found:
        stage.skip("no compute-sanitizer here")
    return found


def sanitize(stage, _device, tool, part=0, parts=1):
    """Case by case, side by side: the tool makes kernels many times slower. Neighbours are alike,
    so parts take turns."""
    sanitizer = find_sanitizer(stage)
    if not sanitizer:
        return
    program = stage.folder / "gpu_tests"
    status, listed = run([program, "-ltc"], ASK_SECONDS)
    found = listed.split("=" * 79 + "\n")
    cases = found[1].splitlines()[part::parts] if status == 0 and len(found) > 2 else []
    if not cases:
        stage.fail(f"{tool}: cannot list the cases: {ending(status)}", listed)
    commands = [[sanitizer, "--tool", tool, "--error-exitcode", FOUND_AN_ERROR, program,
                 "-tc=" + case.replace(",", "?")] for case in cases]
    for at, status, output in stage.run_all(commands, SANITIZERS_AT_ONCE, CASE_SECONDS):
        name, ran = f"{tool}: \"{cases[at]}\"", CASES.search(output)
        if status == 0 and not (ran and ran.group(1) == "1"):
            stage.fail(f"{name}: did not run", output)
        else:
            stage.count(name, status, output)


def memcheck_run(stage, _device):
    """The engine's host side with its copies and graphs, under compute-sanitizer."""
    sanitizer = find_sanitizer(stage)
    if not sanitizer:
        return
    for flags in ([], ["--dtype", "fp16"], ["--temp", "0.8", "--seed", "1"]):
        stage.count(" ".join(["run", *flags]), *stage.run(
            [sanitizer, "--tool", "memcheck", "--error-exitcode", FOUND_AN_ERROR,
             stage.folder / "specbound", "run", "--device", "cuda", "-m", DEMO, "-p",
             "I need a table for two tonight.", "-n", "24", *flags]))


def jit(stage, device, arch):
    """PTX of one architecture, compiled by the driver: every code path on one card."""
    name = f"gpu_tests_ptx{arch}"
    if arch > device["sm"]:
        stage.skip(f"PTX of sm_{arch}: this card is sm_{device['sm']}")
        return
    with tempfile.TemporaryDirectory() as cache:
        (_, status, output), = stage.run_all(
            [[stage.folder / name]], 1,
            environment={"CUDA_FORCE_PTX_JIT": "1", "CUDA_CACHE_PATH": cache})
        stage.count_tests(name, status, output)


def train(stage, _device):
    """Heads for a 7B model, on random features."""
    status, output = stage.run([stage.folder / "gpu_train"])
    if stage.count("gpu_train", status, output):
        stage.notes.append(" ".join(output.split()))


@dataclasses.dataclass(frozen=True)
class Planned:
    name: str
    run: typing.Callable  # (stage, device)
    seconds: int  # at most
    about: str


STAGES = [
    Planned("tests", all_tests, 120, "every kernel against the CPU's bits"),
    Planned("verify", verify_models, 240, "verify --bits of whole models"),
    Planned("bench", bench_kernels, MOST_SECONDS, "kernels and bandwidth, 7B first"),
    Planned("engine", bench_engine, MOST_SECONDS, "whole models of random weights, 7B first"),
    *(Planned(f"racecheck_{i + 1}",
              functools.partial(sanitize, tool="racecheck", part=i, parts=RACECHECKS),
              MOST_SECONDS, f"a part of the tests under racecheck: {i + 1} of {RACECHECKS}")
      for i in range(RACECHECKS)),
    Planned("memcheck", functools.partial(sanitize, tool="memcheck"), MOST_SECONDS,
            "the tests under memcheck"),
    Planned("memcheck_run", memcheck_run, MOST_SECONDS, "whole replies under memcheck"),
    *(Planned(f"jit_{arch}", functools.partial(jit, arch=arch), MOST_SECONDS,
              f"the tests as PTX of sm_{arch}, compiled by the driver") for arch in JIT_ARCHS),
    Planned("train", train, 240, "heads of a 7B, on random features"),
]


def chosen(names):
    """The stages of these names, or whose names begin with one and _; all where there are none."""
    found = []
    for name in names or [stage.name for stage in STAGES]:
        of_name = [s for s in STAGES if s.name == name or s.name.startswith(f"{name}_")]
        exact = [s for s in of_name if s.name == name]
        if not of_name:
            sys.exit(f"--stage: expected one of {', '.join(s.name for s in STAGES)}, found {name}")
        found += [s for s in exact or of_name if s not in found]
    return found


def result_path(name):
    return bench.results_folder() / f"gpu_session_{name}.json"


def done_before(name, commit, device=None):
    """What the stage left for this commit on this card (None: on any), if it ran something and had
    all of its time. A tree with changes has no name: nothing of it counts."""
    if commit in ("none", "unknown") or commit.endswith("-dirty"):
        return None
    try:
        found = json.loads(result_path(name).read_text())
        ran = found["passed"] + found["failed"] > 0 or found["seconds"] > ASK_SECONDS
        here = found["commit"] == commit and (not device or found["gpu"]["name"] == device["name"])
        whole = here and ran and not found.get("cut_short")
        return found if whole and {"skipped", "date", "notes"} <= set(found) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or a file that was cut off


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


def list_stages(stages, commit):
    for planned in stages:
        before = done_before(planned.name, commit)
        state = f"done {before['date']}" if before else "to run"
        print(f"{planned.name:13} {planned.seconds:4} s at most  {state:22} {planned.about}")


def report(verdict, name, counts, seconds, notes):
    print(f"{verdict:7} {name:13} {counts[0]:4} passed, {counts[1]} failed, {counts[2]} skipped "
          f"{seconds:8.1f} s", *notes, sep="\n        ", flush=True)


def run_stage(planned, device, why_not, a, left):
    """Its [passed, failed, skipped]. `left`: seconds of the whole call."""
    wanted = min(planned.seconds, a.seconds)
    stage, start = Stage(a.folder, min(wanted, left)), time.monotonic()
    if device:
        planned.run(stage, device)
    else:
        stage.skip(f"{planned.name}: {why_not}")
    seconds = time.monotonic() - start
    counts = [stage.passed, stage.failed, stage.skipped]
    report("FAILED" if stage.failed else "ok" if stage.passed else "none", planned.name, counts,
           seconds, stage.notes)
    if device:
        cut_short = dict(cut_short=True) if left < wanted and stage.out_of_time else {}
        bench.write_report(
            result_path(planned.name), f"gpu_session_{planned.name}",
            ["packaging/gpu_session.sh", "--run", "DIR", "--stage", planned.name, "--seconds",
             f"{wanted:g}"], bench.hardware(), commit_of(a.folder), gpu=device, passed=counts[0],
            failed=counts[1], skipped=counts[2], seconds=round(seconds, 1), notes=stage.notes,
            **cut_short)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--stage", action="append", help="default: all that were not run yet")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="most of each stage")
    parser.add_argument("--total", type=float, default=float("inf"), help="seconds of all of them")
    parser.add_argument("--again", action="store_true", help="also what was run for this commit")
    a = parser.parse_args()
    stages, commit = chosen(a.stage), commit_of(a.folder)
    if a.list:
        return list_stages(stages, commit)

    end = time.monotonic() + a.total
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # run_all() cleans up
    device, why_not = find_device(a.folder)
    print(f"on {device['name']}, sm_{device['sm']}" if device else f"no GPU: {why_not}", flush=True)
    totals, not_reached = [0, 0, 0], []
    for planned in stages:
        left = end - time.monotonic()
        before = None if a.again or not device else done_before(planned.name, commit, device)
        if before:
            counts = [before[key] for key in ("passed", "failed", "skipped")]
            report("before", planned.name, counts, before["seconds"], before["notes"])
        elif device and left < min(LEAST_SECONDS, a.seconds):
            not_reached.append(planned.name)
            continue
        else:
            counts = run_stage(planned, device, why_not, a, left)
        totals = [x + y for x, y in zip(totals, counts)]
    if not_reached:
        print(f"not reached in {a.total:g} s: {' '.join(not_reached)}; run the same once more")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
