"""A terminal to drive the program in: tmux, whose screen can be read. Nothing here waits for a time
to pass: all waits are for what the screen shows."""
import glob
import os
import shlex
import shutil
import subprocess
import tempfile
import time

from specbound_process import BINARY, TIMEOUT

TMUX = shutil.which("tmux")


def alive_in(sessions):
    """Whether any process of these sessions, zombies aside, is there."""
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="latin-1") as file:
                state, _, _, session = file.read().rpartition(")")[2].split()[:4]
        except OSError:  # gone meanwhile
            continue
        if session in sessions and state != "Z":
            return True
    return False


class Screen:
    """One window, on a server of its own, whose home folders are `folder`. High enough that nothing
    scrolls out of it."""

    def __init__(self, folder, *arguments, columns=100, rows=200, environment=None, shell=None):
        self.sockets = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.sockets.name, "s")
        home = {"HOME": folder, "XDG_STATE_HOME": os.path.join(folder, "state"),
                "XDG_DATA_HOME": os.path.join(folder, "data"),
                "XDG_CONFIG_HOME": os.path.join(folder, "config"),
                "XDG_CACHE_HOME": os.path.join(folder, "cache"), "CUDA_VISIBLE_DEVICES": "",
                **(environment or {})}
        words = ["env", "-u", "LANG", "-u", "LC_ALL", "-u", "LC_CTYPE", "-u", "TMUX",
                 "-u", "NO_COLOR",
                 *(f"{name}={value}" for name, value in home.items()), BINARY, *arguments]
        # What comes behind shows that the program is gone, with its status, and keeps the window.
        # Ctrl-C goes to all that run in it, and the shell must outlive it.
        command = shell or "trap : INT; " + shlex.join(words) + '; echo "left with $?"; exec cat'
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "-c", folder, command)

    def tmux(self, *arguments, stdin=None):
        return subprocess.run([TMUX, "-u", "-S", self.socket, *arguments], check=True, input=stdin,
                              env={**os.environ, "SHELL": "/bin/sh"},  # that runs the command
                              stdout=subprocess.PIPE, timeout=TIMEOUT).stdout.decode()

    def close(self):
        sessions = self.tmux("list-panes", "-a", "-F", "#{pane_pid}").split()
        self.tmux("kill-server")
        self.sockets.cleanup()
        deadline = time.monotonic() + TIMEOUT
        while alive_in(sessions) and time.monotonic() < deadline:  # what it keeps is written then
            time.sleep(0.01)

    # ---- keys ----

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def send(self, text):
        self.type(text)
        self.keys("Enter")

    def paste(self, text):
        """As a terminal does it that marks what is pasted."""
        self.tmux("load-buffer", "-", stdin=text.encode())
        self.tmux("paste-buffer", "-p", "-r")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    # ---- the screen ----

    def lines(self):
        lines = [line.rstrip() for line in self.tmux("capture-pane", "-p").split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def cursor(self):
        """(column, row), from 0."""
        at = self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").split()
        return int(at[0]), int(at[1])

    def wait(self, condition, what):
        """The lines for which condition(lines) is true."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            lines = self.lines()
            if condition(lines):
                return lines
            if time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}; the screen:\n" + "\n".join(lines))
            time.sleep(0.01)

    def wait_for(self, text):
        return self.wait(lambda lines: any(text in line for line in lines), repr(text))

    def wait_last(self, line):
        """Until the last line is this one."""
        return self.wait(lambda lines: lines[-1:] == [line], f"{line!r} as the last line")

    def wait_column(self, column):
        """Until the cursor is there: the screen may be drawn before it."""
        self.wait(lambda lines: self.cursor()[0] == column, f"the cursor in column {column}")

    def wait_prompt(self):
        return self.wait_last(">")
