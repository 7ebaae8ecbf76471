"""A screen for the desktop app's end-to-end tests: Xvfb (whose picture is a file that we read),
xdotool for mouse and keys, and the file of --ui-json, where the window says what it drew and where.
Plain Python; a test asks missing() first."""
import atexit
import functools
import json
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import zlib

import x11
from specbound_process import BINARY

TIMEOUT = 30  # seconds for anything to appear; sanitizers are slow
POLL = 0.03
NO_DISPLAY = ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET")
# Leaks of the OpenGL driver and of the libraries that GLFW opens are not ours to mend.
FOREIGN_LEAKS = ("libGLX", "libGL.so", "libGLdispatch", "libLLVM", "_dri.so", "libgallium",
                 "libX11", "libxcb", "libXcursor", "libdrm", "libglapi", "libglfw", "libexpat")


def missing():
    """Why there can be no window here; empty where there can."""
    for tool in ("Xvfb", "xdotool"):
        if not shutil.which(tool):
            return f"no {tool}"
    said = subprocess.run([BINARY, "gui", "--help"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT).stdout
    return "this build has no desktop app" if b"has no desktop app" in said else ""


def eventually(answer, what, timeout=TIMEOUT):
    """What answer() gives once it gives something."""
    end = time.monotonic() + timeout
    while True:
        found = answer()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout} s still no {what}")
        time.sleep(POLL)


def cpu_share(pid, seconds):
    """Of one core, by a process in the next so many seconds."""
    def spent():
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, start = spent(), time.monotonic()
    time.sleep(seconds)
    return (spent() - before) / (time.monotonic() - start)


def sanitizer_preload(pid, binary):
    """Where a process looks for leaks at its end, the libraries whose leaks are not ours: loaded
    from the start they are still there when it looks, and it sees that they are theirs."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        libraries = sorted({line.split()[-1] for line in file if ".so" in line})
    runtime = [name for name in libraries if "/libasan" in name or "/liblsan" in name]
    with open(binary, "rb") as file:  # clang's is within the program
        if not runtime and b"__asan_init" not in file.read():
            return []
    return runtime + [name for name in libraries
                      if any(foreign in name for foreign in FOREIGN_LEAKS)]


class Picture:
    """Pixels as they were at one moment."""

    def __init__(self, width, height, rows):
        self.width, self.height, self.rows = width, height, rows  # rows: 3 bytes a pixel

    def pixel(self, x, y):
        return tuple(self.rows[int(y)][3 * int(x):3 * int(x) + 3])

    def colors(self, box):
        """Each colour in a rectangle, and how many pixels have it."""
        x0, y0, x1, y1 = (int(v) for v in box)
        counts = {}
        for y in range(max(y0, 0), min(y1, self.height)):
            for x in range(max(x0, 0), min(x1, self.width)):
                color = self.pixel(x, y)
                counts[color] = counts.get(color, 0) + 1
        return counts

    def write_png(self, path):
        def chunk(kind, data):
            body = kind + data
            return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

        pixels = b"".join(b"\0" + bytes(row) for row in self.rows)
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                       chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b""))


class Screen:
    """A virtual screen; to be closed."""

    def __init__(self, width=2600, height=1500):
        self.folder = tempfile.mkdtemp(prefix="specbound-screen-")
        read, write = os.pipe()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{width}x{height}x24", "-fbdir",
             self.folder, "-nolisten", "tcp", "-noreset"],
            pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()  # once it is ready; empty when it died
        if not number:
            self.close()
            raise AssertionError("Xvfb does not start")
        self.display = ":" + number
        with open(os.path.join(self.folder, "Xvfb_screen0"), "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        words = struct.unpack(">25I", self.memory[:100])  # a header of XWD, version 7
        self.width, self.height, self.bits, self.stride = words[4], words[5], words[11], words[12]
        self.pixels = words[0] + 12 * words[19]
        assert (words[1], self.bits, words[14]) == (7, 32, 0xff0000), words

    def environment(self):
        return {"DISPLAY": self.display, "LIBGL_ALWAYS_SOFTWARE": "1"}

    def picture(self, x=0, y=0, width=None, height=None):
        width, height = width or self.width, height or self.height
        rows = []
        for line in range(y, min(y + height, self.height)):
            at = self.pixels + line * self.stride + 4 * x
            raw = self.memory[at:at + 4 * min(width, self.width - x)]
            row = bytearray(len(raw) // 4 * 3)
            row[0::3], row[1::3], row[2::3] = raw[2::4], raw[1::4], raw[0::4]  # blue comes first
            rows.append(row)
        return Picture(len(rows[0]) // 3, len(rows), rows)

    def xdotool(self, *arguments):
        return subprocess.run(["xdotool", *(str(a) for a in arguments)], timeout=TIMEOUT,
                              env={**os.environ, **self.environment()}, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()

    def close(self):
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def screen():
    """The one of all tests of this process, which ends with it; skips them where that cannot be."""
    if why_not := missing():
        raise unittest.SkipTest(why_not)
    one = Screen()
    atexit.register(one.close)
    return one


class Window:
    """The program with its window on a screen; to be closed. Its home is `folder`."""

    preload = None  # libraries, once known
    pointer = None  # where it moved to last

    def __init__(self, screen, folder, *arguments, environment=None, binary=BINARY):
        self.screen, self.folder = screen, folder
        self.said = os.path.join(folder, "ui.json")
        self.errors = open(os.path.join(folder, "stderr.txt"), "w+b")
        self.variables = {k: v for k, v in os.environ.items() if k not in NO_DISPLAY}
        self.variables.update(home_environment(folder), **screen.environment(),
                              LSAN_OPTIONS=self.leak_options(), **(environment or {}))
        self.command = [binary, "gui", "--ui-json", self.said, *arguments]
        self.start()
        if Window.preload is None:
            Window.preload = sanitizer_preload(self.process.pid, binary)
            if Window.preload:
                self.process.kill()
                self.process.wait()
                self.start()
        self.id = eventually(self.find, "window")
        self.focus()

    def start(self):
        if os.path.exists(self.said):
            os.unlink(self.said)
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors,
            env={**self.variables, "LD_PRELOAD": " ".join(self.preload or [])})
        self.wait(lambda ui: ui["names"], "first frame")

    def leak_options(self):
        path = os.path.join(self.folder, "foreign-leaks.txt")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"leak:{name}\n" for name in FOREIGN_LEAKS)
        before = os.environ.get("LSAN_OPTIONS", "")
        return f"{before}:suppressions={path}:print_suppressions=0".lstrip(":")

    def find(self):
        try:
            found = self.screen.xdotool("search", "--onlyvisible", "--pid", self.process.pid)
            return found.split()[-1] if found.split() else None
        except subprocess.CalledProcessError:
            return None

    def focus(self):
        self.screen.xdotool("windowmove", self.id, 0, 0, "windowfocus", self.id)

    # ---- what it says ----

    def ui(self):
        """The newest of what it wrote, as gui/view/probe.h has it; None before the first."""
        if self.process.poll() is not None:
            raise AssertionError(f"the window closed, exit {self.process.returncode}: "
                                 f"{self.stderr()}")
        try:
            with open(self.said, encoding="utf-8") as file:
                return json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):  # empty before the first frame
            return None

    def wait(self, fits, what, timeout=TIMEOUT):
        """What it says once that fits."""
        def look():
            ui = self.ui()
            return ui if ui and fits(ui) else None
        try:
            return eventually(look, what, timeout)
        except AssertionError as error:
            said = json.dumps((self.ui() or {}).get("values"))
            raise AssertionError(f"{error}; it says {said}; stderr: {self.stderr()}") from None

    def value(self, name):
        return self.ui()["values"].get(name)

    def wait_value(self, name, *expected, timeout=TIMEOUT):
        return self.wait(lambda ui: ui["values"].get(name) in expected,
                         f"{name} = {' or '.join(expected)}", timeout)

    def rect(self, name, timeout=TIMEOUT):
        return self.wait(lambda ui: name in ui["names"], name, timeout)["names"][name]

    def has(self, name):
        return name in self.ui()["names"]

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    # ---- what a person does ----

    def act(self, *xdotool):
        """Input, and the frame behind the one that saw the last of it."""
        before = int(self.value("input.seen"))
        self.screen.xdotool(*xdotool)
        end = time.monotonic() + 5  # a mouse that was there when the window opened moves nothing
        while self.process.poll() is None and time.monotonic() < end:
            values = self.ui()["values"]
            if int(values["input.seen"]) > before and int(values["input.frames"]) > 0:
                return
            time.sleep(POLL)

    def move(self, at):
        at = (int(at[0]), int(at[1]))
        if at == self.pointer:  # which is no movement, and no frame's
            return
        self.act("mousemove", "--window", self.id, *at)
        self.pointer = at

    def point(self, name, share=0.5):
        """Goes to the middle, or to that share of the width, of what the window calls that, once
        it has come to rest. Its rectangle."""
        before = None
        while (box := self.rect(name)) != before:
            before = box
            self.move((box[0] + share * (box[2] - box[0]), (box[1] + box[3]) / 2))
        return box

    def click(self, name, button=1):
        self.point(name)
        self.act("click", button)

    def drag(self, name, start, end):
        """Along a slider, in shares of its width."""
        box = self.point(name, start)
        self.act("mousedown", 1)
        self.move((box[0] + end * (box[2] - box[0]), (box[1] + box[3]) / 2))
        self.act("mouseup", 1)

    def drop(self, path, at=(200, 200)):
        with x11.Client(self.screen.display) as client:
            return client.drop(self.id, at, ["file://" + urllib.parse.quote(path)])

    def type(self, text):
        self.act("type", "--delay", 5, text)

    def key(self, *names):
        self.act("key", "--delay", 40, *names)

    def resize(self, width, height):
        self.screen.xdotool("windowsize", self.id, width, height)
        return self.wait_value("window.size", f"{width}x{height}")

    def picture(self):
        width, height = (int(v) for v in self.value("window.size").split("x"))
        return self.screen.picture(0, 0, width, height)

    # ---- its end ----

    def quit(self):
        """Asks it to close, as a window manager would, and waits for its end."""
        with x11.Client(self.screen.display) as client:
            client.ask_to_close(self.id)
        return self.process.wait(TIMEOUT)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def home_environment(folder):
    """The program's files go here, wherever it looks."""
    return {"HOME": folder, "XDG_DATA_HOME": os.path.join(folder, "data"),
            "XDG_CONFIG_HOME": os.path.join(folder, "config"),
            "XDG_CACHE_HOME": os.path.join(folder, "cache")}
