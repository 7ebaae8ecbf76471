"""Learning while idle on a real model: what tests/bench/idle_learning.sh runs."""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

import bench

sys.path.insert(0, str(bench.ROOT / "tests" / "e2e"))

from processes import STOPPED, children, stat_of  # noqa: E402
from serve_client import wait_until  # noqa: E402
from specbound_process import specbound, start  # noqa: E402

QUESTION = "Why does bread rise, and what makes it stay soft for some days?"
ALONE, BESIDE, BEHIND = "no learning yet", "stops what is learning", "behind the round"
SECONDS_AT_WORK = 5  # before a message comes
ROUND_SECONDS = 3600  # at most, beyond its minutes


class Chat:
    """A chat that is asked the same again and again, each time as the first question."""

    def __init__(self, model, flags, *more):
        self.process = start("chat", "-m", str(model), "-n", str(flags.n), "--temp", "0",
                             "--ignore-eos", "-t", str(flags.threads), *more)
        self.said, self.told = b"", []
        self.readers = [threading.Thread(target=read, daemon=True)
                        for read in (self.read_replies, self.read_figures)]
        for reader in self.readers:
            reader.start()

    def read_replies(self):
        while some := self.process.stdout.read1():
            self.said += some

    def read_figures(self):
        for line in self.process.stderr:
            self.told.append(line.decode(errors="replace").strip())

    def replies(self):
        return sum(line.startswith("[") and " tokens, " in line for line in self.told)

    def ask(self, learner=None):
        """The seconds until the first byte of the reply, and those until the learner stood."""
        before, replies, stopped = len(self.said), self.replies(), None
        begin = time.monotonic()
        self.process.stdin.write(b"/clear\n" + QUESTION.encode() + b"\n")
        self.process.stdin.flush()
        if learner:
            wait_until(lambda: stat_of(learner)[:1] == [STOPPED], "learning to stop")
            stopped = time.monotonic() - begin
        wait_until(lambda: len(self.said) > before, "a byte")
        first = time.monotonic() - begin
        wait_until(lambda: self.replies() > replies, "the end of the reply")
        return first, stopped

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        for reader in self.readers:
            reader.join()


def milliseconds(samples):
    return bench.summary([1e3 * s for s in samples])


def rounds_of(home):
    for path in pathlib.Path(home).glob("specbound/learning/*/rounds.json"):
        with contextlib.suppress(ValueError):
            return json.loads(path.read_text())["rounds"]
    return 0


def measured_of(home):
    """What the round measured of the drafter without its heads and with them."""
    [path] = pathlib.Path(home).glob("specbound/learning/*/measured.json")
    results = json.loads(path.read_text())["strategies"][0]["results"]
    return {r["name"]: r["overall"]["decode_speedup"] for r in results
            if r["name"] in ("auto", "new")}


def run(flags, model, folder):
    home, stats = folder / "data", folder / "stats.json"
    os.environ["XDG_DATA_HOME"] = str(home)
    chat = Chat(model, flags, "--idle-learning", "on", "--idle-seconds", "2", "--idle-minutes",
                str(flags.minutes), "--stats-json", str(stats))
    first, stopped = {ALONE: [], BESIDE: [], BEHIND: []}, []

    def ask(when, learner=None):
        seconds, until = chat.ask(learner)
        first[when].append(seconds)
        if learner:
            stopped.append(until)

    for _ in range(flags.messages):
        ask(ALONE)
    begin = time.monotonic()
    learner = wait_until(lambda: next(iter(children(chat.process.pid)), None), "learning", 60)
    for _ in range(flags.messages):
        wait_until(lambda: (stat_of(learner) or "Z")[0] in "RS",
                   "learning to go on: more --minutes or fewer --messages", 60)
        time.sleep(SECONDS_AT_WORK)
        ask(BESIDE, learner)
    wait_until(lambda: rounds_of(home) > 0, "the end of a round",
               60 * flags.minutes + ROUND_SECONDS)
    seconds = time.monotonic() - begin
    for _ in range(flags.messages):
        ask(BEHIND)
    chat.close()
    news = [line for line in chat.told if "faster heads draft" in line]
    plain = specbound("chat", "-m", str(model), "-n", str(flags.n), "--temp", "0", "--ignore-eos",
                      "-t", str(flags.threads), "--spec", "off",
                      stdin=QUESTION.encode() + b"\n").stdout
    if chat.said != 3 * flags.messages * plain:
        sys.exit("idle_learning: a reply is not plain decoding's")
    heads = json.loads(stats.read_text())["heads"]
    return dict(
        stopped_ms=milliseconds(stopped),
        first_byte_ms={when: milliseconds(samples) for when, samples in first.items()},
        round_seconds=round(seconds, 1), decode_speedup=measured_of(home),
        taken=bool(news), learnt_tokens=heads["learnt_tokens"] if heads else None,
        replies=3 * flags.messages, same_text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct-q4_1")
    parser.add_argument("--minutes", type=float, default=10, help="of learning (default 10)")
    parser.add_argument("--messages", type=int, default=20,
                        help="before, during and behind it, each (default 20)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-n", type=int, default=48)
    parser.add_argument("--output", default=bench.RESULTS / "idle_learning.json")
    flags = parser.parse_args()
    machine, revision = bench.hardware(), bench.commit()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = bench.link_alone(bench.fetched(flags.model), folder)
        result = run(flags, model, folder)
    command = ["tests/bench/idle_learning.sh", "--model", flags.model, "--minutes", flags.minutes,
               "--messages", flags.messages, "--threads", flags.threads, "-n", flags.n]
    print(json.dumps(result, indent=1))
    bench.write_report(pathlib.Path(flags.output), "idle_learning", command, machine, revision,
                       settings=dict(model=flags.model, idle_seconds=2, minutes=flags.minutes),
                       results=[result])


if __name__ == "__main__":
    main()
