#!/usr/bin/env python3
"""House rules that a compiler does not check: one line per breach, exit status 1 when there is any.

File length, line width, tabs and trailing blanks, unfinished-work markers, include direction, CUDA
headers in one file of src/ alone, ImGui and GLFW where they belong, `#pragma once`, a comment at
the top of each source file (a .cpp beside its .h is described there), no paths of one machine, no
large file but those that are named. Of data that others wrote (tests/data) only the size counts.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAX_LINES, MAX_COLUMNS, MAX_BYTES = 600, 100, 1 << 20
CPP = (".h", ".cpp", ".cuh", ".cu")
CODE = CPP + (".py", ".sh", ".cmake")

# What any room of src/ may include.
EVERYWHERE = ("error.h", "descriptor.h")
# Room of src/, or kernels -> rooms it may include from (docs/architecture.md 7). A room is a
# folder; the two engines behind engine/'s interface are rooms of their own. What is
# written as a formula (numerics), what the loop tells (trace), the reader of JSON and what comes
# over the network (download) are leaves.
# The engine launches kernels by their headers (*.h), and so does training; no room includes a
# front end (cli, repl, server, capi) above it.
MAY_INCLUDE = {
    "numerics": {"numerics"},
    "kernels": {"numerics"},
    "model": {"model", "numerics"},
    "text": {"text", "model"},
    "jinja": {"jinja", "text"},
    "templates": {"templates", "jinja", "model", "text"},
    "trace": {"trace"},
    "json": {"json"},
    "download": {"download"},
    "grammar": {"grammar", "json", "text"},
    "convert": {"convert", "json", "model", "numerics", "text"},
    "engine": {"engine", "model", "numerics"},
    "engine/cpu": {"engine/cpu", "engine", "model", "numerics"},
    "engine/cuda": {"engine/cuda", "engine/cpu", "engine", "kernels", "model", "numerics"},
    "decode": {"decode", "engine", "grammar", "numerics", "trace"},
    "drafters": {"drafters", "decode", "engine", "model", "numerics", "trace"},
    "corpus": {"corpus", "decode", "drafters", "engine", "json", "numerics", "templates", "text"},
    "train": {"train", "corpus", "decode", "engine/cpu", "engine/cuda", "kernels", "model",
              "numerics"},
    "tune": {"tune", "decode", "drafters", "engine", "model", "numerics", "trace"},
    "system": {"system", "engine", "engine/cpu", "json", "model", "text"},
    "library": {"library", "system", "download", "engine/cpu", "json", "model"},
    "runtime": {"runtime", "library", "system", "decode", "drafters", "engine", "engine/cpu",
                "engine/cuda", "grammar", "json", "model", "templates", "text", "trace"},
    "learning": {"learning", "runtime", "system", "engine", "json"},
    "terminal": {"terminal", "runtime", "library", "system", "decode", "text", "trace"},
    "tools": {"tools", "terminal", "runtime", "library", "system", "tune", "train", "corpus",
              "decode", "drafters", "engine", "engine/cpu", "engine/cuda", "json", "model",
              "numerics", "templates", "text", "trace"},
    "spec_bench": {"spec_bench", "tools", "terminal", "runtime", "library", "system", "json",
                   "numerics", "trace"},
    "server": {"server", "learning", "grammar", "jinja", "json", "runtime", "system", "decode",
               "engine/cuda", "templates", "text"},
    "capi": {"capi", "runtime", "library", "decode", "numerics"},
    "repl": {"repl", "terminal", "learning", "runtime", "library", "system", "decode", "text",
             "trace"},
    "cli": {"cli", "repl", "server", "spec_bench", "tools", "terminal", "learning", "runtime",
            "library", "system", "convert", "train", "corpus", "drafters", "engine", "engine/cpu",
            "engine/cuda", "json", "model", "templates", "text"},
}


def room_of(path):
    """Of a file under src/, or a header as it is included; None: of none."""
    parts = path.split("/")
    inner = "/".join(parts[:2])
    return inner if inner in MAY_INCLUDE else parts[0] if len(parts) > 1 else None


# What only builds with CUDA have, in whose programs the training is too.
ALSO = {("src/runtime/gpu_cuda.cpp", "train/device_learner.h")}
# The same for gui/: what is decided is apart from what draws it, and neither knows of the window.
GUI_MAY_INCLUDE = {
    "worker": {"worker"},
    "model": {"worker/messages.h", "model"},
    "view": {"worker/messages.h", "model", "view"},
    "window": {"worker", "model", "view", "window"},
}
# And what of src/ each may include beside error.h, runtime/ and what that stands on.
GUI_MAY_INCLUDE_SRC = {
    "worker": {"learning", "decode", "drafters", "templates", "text", "trace"},
    "model": {"decode", "drafters", "model", "terminal", "text", "tools", "trace"},
    "view": {"terminal", "text"},
    "window": {"cli", "learning"},
}
# What a kernel may include beside numerics/ and its neighbours by their bare names: the errors of
# the root, and in the one file with PTX the executor that stands in for a GPU elsewhere.
KERNELS_ALSO = {("kernels/launch.cuh", "error.h"), ("kernels/intrinsics.cuh", "simt/device.h")}
IMGUI_HEADER = re.compile(r"^(imgui|imstb|misc/)")
WINDOW_HEADER = re.compile(r"^(GLFW/|imgui_impl_|stb_|X11/|GL/)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"^(cuda|cublas|curand|nvrtc|nvml|mma\.h|cooperative_groups|thrust/|cub/)")
CUDA_RUNTIME = "src/engine/cuda/cuda_device.cpp"  # only builds with CUDA compile it
# Larger than MAX_BYTES all the same.
LARGE = {"models/demo-chat-16l-q8_0.gguf", "models/demo-chat-16l-q8_0.heads.gguf",
         "models/smollm2-135m-instruct-q4_1.heads.gguf", "tests/data/models/stories260K.gguf",
         "tests/data/tokenizer/ggml-vocab-gpt-2.gguf"}
# Spelled apart so that this file passes its own check.
MARKER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.\-}])/(?:work|home|root|opt)/")


def tracked_files():
    """Every file that git knows or would add; without git, every file outside build folders."""
    try:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                                check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        names = listed.stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, subfolders, files in os.walk(ROOT):
            subfolders[:] = [s for s in subfolders if s not in (".git", "__pycache__", "dist")
                             and not s.startswith("build")]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return sorted(n for n in names if n and os.path.isfile(os.path.join(ROOT, n)))


def check_gui(part, header):
    """What is wrong with a file of gui/<part> that includes header, or None."""
    if part not in GUI_MAY_INCLUDE:
        return f"no include rule for gui/{part}: add one to tests/lint.py"
    if WINDOW_HEADER.match(header) and part != "window":
        return f"{header} is for gui/window alone"
    if IMGUI_HEADER.match(header) and part not in ("view", "window"):
        return f"gui/{part} may not draw: {header}"
    if header.startswith("gui/"):
        target = header[len("gui/"):]
        may = GUI_MAY_INCLUDE[part]
        if target not in may and target.split("/")[0] not in may:
            return f"gui/{part} may not include {header}"
    elif (room_of(header) in MAY_INCLUDE
          and room_of(header) not in {"runtime", "library", "system", *GUI_MAY_INCLUDE_SRC[part]}):
        return f"gui/{part} may not include {header}"
    return None


def check_kernel(name, header):
    """What is wrong with a file of kernels/ that includes header in quotes, or None."""
    if "/" not in header and os.path.isfile(os.path.join(ROOT, "kernels", header)):
        return None
    if header.split("/")[0] in MAY_INCLUDE["kernels"] or (name, header) in KERNELS_ALSO:
        return None
    return f"kernels may not include {header}"


def check_source(name, lines):
    """Rules for C++ and CUDA files: what is included, and how a file begins."""
    parts = name.split("/")
    room = room_of(name[len("src/"):]) if parts[0] == "src" else None
    if room and room not in MAY_INCLUDE:
        yield 1, f"no include rule for src/{room}: add one to tests/lint.py"
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        quote, header = found.groups()
        if parts[0] == "src" and CUDA_HEADER.match(header) and name != CUDA_RUNTIME:
            yield number, f"CUDA header {header} in src/"
        if parts[0] == "gui" and check_gui(parts[1], header):
            yield number, check_gui(parts[1], header)
        if quote == '"' and room in MAY_INCLUDE:
            target = room_of(header)
            if (header not in EVERYWHERE and target not in MAY_INCLUDE[room]
                    and (name, header) not in ALSO):
                yield number, f"src/{room} may not include {header}"
            if target == "kernels" and not header.endswith(".h"):
                yield number, f"src/ may include kernels/*.h, not {header}"
        if quote == '"' and parts[0] == "kernels" and check_kernel(name, header):
            yield number, check_kernel(name, header)
    if name.endswith((".h", ".cuh")) and "#pragma once" not in lines:
        yield 1, "no #pragma once"
    described = "".join(lines[:1]).startswith("//") or (
        name.endswith(".cpp") and os.path.isfile(os.path.join(ROOT, name[:-4] + ".h")))
    if parts[0] in ("src", "kernels", "gui") and not described:
        yield 1, "no comment at the top that says what the file owns"


def check_file(name):
    with open(os.path.join(ROOT, name), "rb") as file:
        data = file.read()
    if len(data) > MAX_BYTES and name not in LARGE:
        yield 1, f"{len(data)} bytes; at most {MAX_BYTES}: a file that came in by mistake?"
    if b"\0" in data or name.startswith("tests/data/"):
        return
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "absolute path of one machine"
    base = os.path.basename(name)
    if not name.endswith(CODE) and base != "CMakeLists.txt":
        return
    if len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines; at most {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns; at most {MAX_COLUMNS}"
        if "\t" in line:
            yield number, "tab"
        if line != line.rstrip():
            yield number, "trailing blank"
        if MARKER.search(line):
            yield number, "unfinished-work marker; open an issue instead"
    if name.endswith(CPP):
        yield from check_source(name, lines)


def main():
    names = tracked_files()
    breaches = [f"{name}:{number}: {text}" for name in names for number, text in check_file(name)]
    for breach in breaches:
        print(breach)
    print(f"lint: {len(names)} files, {len(breaches)} breaches")
    return 1 if breaches or not names else 0


sys.exit(main())
