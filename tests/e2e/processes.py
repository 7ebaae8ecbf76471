"""Other processes, as /proc has them."""
import contextlib
import glob

STOPPED = "T"  # a state


def stat_of(pid):
    """The fields of /proc/PID/stat behind the name, the state first; [] when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def is_gone(pid):
    fields = stat_of(pid)
    return not fields or fields[0] == "Z"


def ticks(pid):
    """Of processor time that it has had."""
    return sum(map(int, stat_of(pid)[11:13]))


def children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found += map(int, file.read().split())
    return found
