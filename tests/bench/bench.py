"""What the CPU bench drivers share: processes that take turns, medians, what the machine is.

Speed differs from process to process (where memory and threads land), so every figure is a median
over processes, its minimum and maximum beside it; programs under comparison alternate, so that a
slow spell of the machine touches all. Results are JSON in tests/bench/results/:

    bench, date, commit, command, hardware, settings, results: [{model, threads, ...}]

Needs nothing but Python.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC_BENCH = ROOT / "tests" / "data" / "spec-bench" / "question.jsonl"
RESULTS = ROOT / "tests" / "bench" / "results"

# What ships is measured, not what `specbound tune` once found on this machine, nor heads that it
# learnt here in idle time.
sys.path.insert(0, str(ROOT / "tests"))
import own_environment  # noqa: E402, F401

_revision = None

# Instruction sets that decide which kernels run, ours and others'.
CPU_FLAGS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
             "avx512_bf16", "amx_int8")


def lscpu():
    text = subprocess.run(["lscpu"], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    return {key.strip(): value.strip() for key, value in
            (line.split(":", 1) for line in text.splitlines() if ":" in line)}


def hardware():
    global _revision
    _revision = commit()  # that runs, whatever is committed until the report is written
    cpu = lscpu()
    flags = cpu.get("Flags", "").split()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is busy (load {load:.1f}): expect unsteady figures", file=sys.stderr)
    memory = next(line for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    return dict(
        cpu=cpu.get("Model name", platform.machine()), cores=int(cpu["CPU(s)"]),
        threads_per_core=cpu.get("Thread(s) per core"), l2=cpu.get("L2 cache"),
        l3=cpu.get("L3 cache"), hypervisor=cpu.get("Hypervisor vendor"),
        flags=[flag for flag in CPU_FLAGS if flag in flags],
        memory_gb=round(int(memory.split()[1]) / 1e6, 1), kernel=platform.release(),
        realtime_priority=os.sched_getparam(0).sched_priority,
        load_average_at_start=round(load, 2))


def relative(text):
    """Without the path of this checkout."""
    return text.replace(f"{ROOT}/", "")


def commit():
    """Short hash, with -dirty when the sources differ from it; "none" outside a repository, and
    where there is no git."""
    def git(*arguments):
        try:
            done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    revision = git("rev-parse", "--short=12", "HEAD")
    if not revision:
        return "none"
    changed = git("status", "--porcelain", "--", "CMakeLists.txt", "src", "kernels", "gui",
                  "models", "tests/bench/*.cpp", "tests/bench/*.h", "tests/bench/*.cu*")
    return revision + ("-dirty" if changed else "")


def run_json(arguments, seconds=None):
    """The JSON object that a program prints on its last line of stdout. One that takes longer than
    `seconds` raises subprocess.TimeoutExpired."""
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True,
                          timeout=seconds)
    if done.returncode != 0:
        command = shlex.join(map(str, arguments))
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def take_turns(programs, processes):
    """{name: arguments} -> {name: [output of each process]}; the first to go changes every turn."""
    outputs = {name: [] for name in programs}
    for turn in range(processes):
        names = list(programs) if turn % 2 == 0 else list(reversed(programs))
        for name in names:
            outputs[name].append(run_json(programs[name]))
    return outputs


def summary(samples, digits=5):
    """Median, minimum and maximum over processes, and every sample."""
    samples = [float(f"{s:.{digits}g}") for s in samples]
    return dict(median=float(f"{statistics.median(samples):.{digits}g}"), min=min(samples),
                max=max(samples), samples=samples)


def fetched(name):
    """The path of a model that models/fetch.py knows."""
    # Not where the cache is for the time of a run.
    folder = pathlib.Path.home() / ".cache" / "specbound" / "models"
    fetch = subprocess.run([sys.executable, ROOT / "models" / "fetch.py", name, folder],
                           stdout=subprocess.PIPE, text=True)
    if fetch.returncode != 0:
        sys.exit(fetch.returncode)
    return pathlib.Path(fetch.stdout.strip())


def link_alone(model, folder):
    """A link to `model` in `folder`, where no heads lie beside it."""
    link = pathlib.Path(folder) / model.name
    link.symlink_to(model)
    return link


def model_entry(path):
    return dict(model=pathlib.Path(path).name, model_bytes=os.path.getsize(path))


def add_shared_flags(parser, repeats):
    """The flags that every script passes on."""
    parser.add_argument("--processes", type=int, default=5, help="of each program and setting")
    parser.add_argument("--repeats", type=int, default=repeats, help="measured runs in a process")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output", help="default: tests/bench/results/NAME.json")
    parser.add_argument("models", nargs="+")


def write_results(name, flags, settings, results, machine, script=None, more_flags=()):
    """`flags`: what add_shared_flags() parsed; `machine`: hardware() from before the runs;
    `script`: whose results they are, if not that of their name; `more_flags`: its own."""
    types = ["env", f"TYPES={os.environ['TYPES']}"] if os.environ.get("TYPES") else []
    command = [*types, f"tests/bench/{script or name}.sh", "--processes", flags.processes,
               "--repeats", flags.repeats, *more_flags, "--threads", *flags.threads]
    settings = dict(**settings, processes=flags.processes, repeats=flags.repeats,
                    statistic="median over processes of the median in each")
    write_report(pathlib.Path(flags.output) if flags.output else RESULTS / f"{name}.json", name,
                 command, machine, settings=settings, results=results)


def spec_bench(arguments, report):
    """Runs `spec-bench` with these, the program first; what it says in `report`. A text that
    differs is exit status 1 behind the report."""
    done = subprocess.run([*arguments, "--json", report], stdout=sys.stderr)
    if done.returncode not in (0, 1) or not report.exists():
        sys.exit(f"spec-bench: exit status {done.returncode}")
    return json.loads(report.read_text())


def results_folder():
    """Where results go on a machine that is lent: $OUT, if that is set."""
    return pathlib.Path(os.environ["OUT"]) if os.environ.get("OUT") else RESULTS


def write_report(path, name, command, machine, revision=None, **rest):
    report = dict(
        bench=name, date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        commit=revision or _revision or commit(), command=shlex.join(map(str, command)),
        hardware=machine, **rest)
    text = json.dumps(report, indent=1)
    # Lists of numbers on one line each.
    text = re.sub(r"\[[\s\d.,]+\]", lambda match: re.sub(r"\s+", " ", match[0]), text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    print(f"\nwritten: {path}")
