#!/usr/bin/env python3
"""The desktop app on a virtual screen with Mesa's software renderer, the engine on one thread: how
long a frame takes while a reply comes, how many come a second, what the engine loses against
`specbound run`, and what the window costs at rest.

Run by gui_frames.sh, which builds what is needed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import bench

sys.path.insert(0, str(bench.ROOT / "tests/e2e"))
import endless_model  # noqa: E402
import gui_window  # noqa: E402

FRAMES_PER_SECOND, SLOWDOWN, IDLE = 60, 1.05, 0.01  # what is asked for
PROMPT, TOKENS = "Tell me about a film.", 3000
FLAGS = ["-s", "3", "-t", "1", "-c", "16384"]
RENDERER = {"LP_NUM_THREADS": "1"}  # of Mesa: the engine has its core for itself
# What the window says of itself is not to wait for a disk.
MEMORY = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None


def send(window):
    window.click("chat.input")
    window.type(PROMPT)
    window.key("Return")
    window.wait_value("chat.busy", "yes")


def drawing_seconds(pid):
    """Of processor time, by the window's thread and the renderer's: load beside it adds little."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        folder = pathlib.Path(f"/proc/{pid}/task/{task}")
        if int(task) == pid or (folder / "comm").read_text().startswith("llvmpipe"):
            total += int((folder / "schedstat").read_text().split()[0])
    return total * 1e-9


def measure_frames(screen, model, size, tab, seconds):
    """Over the newest 600 frames of a reply that has been coming for so long."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        window = gui_window.Window(screen, folder, "-m", model, *FLAGS, "--size", size,
                                   environment=RENDERER)
        try:
            window.wait_value("model.state", "ready")
            window.click(tab)
            send(window)
            time.sleep(2)
            drawn, start = drawing_seconds(window.process.pid), time.monotonic()
            before = window.ui()["frames"]["count"]
            time.sleep(seconds)
            frames, elapsed = window.ui()["frames"], time.monotonic() - start
            drawn = drawing_seconds(window.process.pid) - drawn
            columns = int(float(window.ui()["values"].get("map.columns", 0)))
            window.click("chat.stop")
            window.wait_value("chat.busy", "no")
            deadline = time.monotonic() + 120  # the layers' guesses for all of the reply
            while gui_window.cpu_share(window.process.pid, 1) > 0.1 and time.monotonic() < deadline:
                pass
            idle = gui_window.cpu_share(window.process.pid, 5)
            return dict(work_p50_ms=frames["work_p50_ms"], work_p99_ms=frames["work_p99_ms"],
                        interval_p99_ms=frames["interval_p99_ms"],
                        cpu_ms=1e3 * drawn / (frames["count"] - before),
                        frames_per_second=(frames["count"] - before) / elapsed, idle_cpu=idle,
                        tokens=columns)
        finally:
            window.close()


def window_decode_seconds(screen, model):
    """Of a reply of TOKENS tokens, as its trace has it."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        trace = pathlib.Path(folder) / "trace.jsonl"
        window = gui_window.Window(screen, folder, "-m", model, *FLAGS, "-n", str(TOKENS),
                                   "--size", "1280x800", "--trace", str(trace),
                                   environment=RENDERER)
        try:
            window.wait_value("model.state", "ready")
            send(window)
            window.wait_value("chat.busy", "no", timeout=120)
            window.quit()
            return decode_seconds(trace)
        finally:
            window.close()


def run_decode_seconds(model):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        trace = pathlib.Path(folder) / "trace.jsonl"
        subprocess.run([gui_window.BINARY, "run", "-m", model, *FLAGS, "-n", str(TOKENS), "-p",
                        PROMPT, "--trace", str(trace)], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return decode_seconds(trace)


def decode_seconds(trace):
    ends = [line for line in map(json.loads, trace.open(encoding="utf-8"))
            if line["type"] == "end"]
    if len(ends) != 1 or ends[0]["generated_tokens"] != TOKENS:
        raise SystemExit(f"expected one reply of {TOKENS} tokens")
    return ends[0]["decode_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--size", nargs="+", default=["1280x800"])
    parser.add_argument("--output", default=str(bench.RESULTS / "gui_frames.json"))
    a = parser.parse_args()
    if gui_window.missing():
        sys.exit(gui_window.missing())

    machine, results, missed = bench.hardware(), [], []
    screen = gui_window.Screen()
    try:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            model = endless_model.make_endless_model(folder)
            for size in a.size:
                for tab in ("tab.live", "tab.controls"):
                    runs = [measure_frames(screen, model, size, tab, a.seconds)
                            for _ in range(a.processes)]
                    figures = {key: bench.summary([run[key] for run in runs], 4)
                               for key in runs[0]}
                    results.append(dict(size=size, shown=tab.removeprefix("tab."), **figures))
                    print(f"{size}, {tab}: a frame takes p50 {figures['work_p50_ms']['median']} "
                          f"ms, p99 {figures['work_p99_ms']['median']} ms, "
                          f"{figures['cpu_ms']['median']} ms of a processor; "
                          f"{figures['frames_per_second']['median']} a second; at rest "
                          f"{figures['idle_cpu']['median']:.2%} of a core", flush=True)
                    if figures["work_p99_ms"]["median"] > 1000 / FRAMES_PER_SECOND:
                        missed.append(f"{size} {tab}: a frame takes too long")
                    if figures["idle_cpu"]["median"] > IDLE:
                        missed.append(f"{size} {tab}: busy at rest")
            pairs = [(run_decode_seconds(model), window_decode_seconds(screen, model))
                     for _ in range(a.processes)]
            ratio = bench.summary([window / run for run, window in pairs], 4)
            results.append(dict(tokens=TOKENS, run_seconds=bench.summary([p[0] for p in pairs]),
                                window_seconds=bench.summary([p[1] for p in pairs]), ratio=ratio))
            print(f"decoding beside the window takes {ratio['median']} times as long")
            if ratio["median"] > SLOWDOWN:
                missed.append("the window slows the engine down")
    finally:
        screen.close()
    command = ["tests/bench/gui_frames.sh", "--processes", a.processes, "--seconds", a.seconds,
               "--size", *a.size]
    settings = dict(flags=FLAGS, environment=RENDERER, tokens=TOKENS, processes=a.processes,
                    limits=dict(work_p99_ms=1000 / FRAMES_PER_SECOND, idle_cpu=IDLE,
                                slowdown=SLOWDOWN), statistic="median over processes")
    bench.write_report(pathlib.Path(a.output), "gui_frames", command, machine, settings=settings,
                       results=results)
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
