"""What the tests of `specbound serve` share: the server as a child process on a free port, requests
over connections of their own, streams event by event, bare bytes, and its metrics. Standard library
only: what arrives is what the server sent."""
import atexit
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from specbound_process import BINARY, DEMO, TIMEOUT

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
LISTENING = re.compile(rb"^listening on http://127\.0\.0\.1:(\d+)$", re.MULTILINE)
DONE = "[DONE]"
WAITING, RUNNING = "specbound_queue_depth", "specbound_requests_running"
GENERATED, PROMPT = "specbound_generated_tokens_total", "specbound_prompt_tokens_total"
CACHED = "specbound_cached_tokens_total"
# name{labels} value, as Prometheus writes it; no time stamps.
SAMPLE = re.compile(r'^([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+="[^"\\\n]*",?)+)\})? (\S+)$')


def wait_until(condition, what, timeout=TIMEOUT):
    """The condition's first true value; polled, because other processes make it true."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout} s still not: {what}")
        time.sleep(0.004)
    return value


def together(functions):
    """Runs the functions, each on a thread of its own; their results in order."""
    results = [None] * len(functions)
    failures = []

    def run(i, function):
        try:
            results[i] = function()
        except BaseException as failure:  # a thread has nobody above it to tell
            failures.append(failure)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def ask(text="I need a table for two tonight.", **fields):
    """A greedy chat request."""
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24,
            **fields}


def prompt(text="I need a table for two tonight.", **fields):
    """A greedy completion request."""
    return {"prompt": text, "temperature": 0, "max_tokens": 24, **fields}


class Answer:
    """A whole response: status, headers, body."""

    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, after a look at its form."""
        error = self.json["error"]
        assert set(error) >= {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"], error
        return error

    @property
    def text(self):
        """What the model said, by chat or completion."""
        assert self.status == 200, (self.status, self.body)
        choice = self.json["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]


def delta_of(event):
    """The text that an event adds."""
    if not event["choices"]:
        return ""
    choice = event["choices"][0]
    return choice["delta"].get("content") or "" if "delta" in choice else choice["text"]


class Stream:
    """A streamed reply, read event by event; close() goes away without reading the rest."""

    def __init__(self, connection, method, path, body, headers):
        self.connection = connection
        connection.request(method, path, body, headers)
        self.response = connection.getresponse()
        self.status, self.headers = self.response.status, self.response.headers

    def __iter__(self):
        """JSON events and, as text, [DONE]; ends where the server ends the body."""
        while line := self.response.readline():
            if line.startswith(b":"):  # the server is still there
                assert self.response.readline() == b"\n"
                continue
            assert line.startswith(b"data: ") and line.endswith(b"\n"), line
            assert self.response.readline() == b"\n"
            data = line[len("data: "):].decode("utf-8").strip()  # strict: whole characters only
            yield data if data == DONE else json.loads(data)

    def events(self):
        """All that is left, without the [DONE] that must end it."""
        *events, last = list(self)
        assert last == DONE, last
        self.close()
        return events

    def text(self):
        return "".join(map(delta_of, self.events()))

    def read_text(self, n_events):
        """Reads until that many events brought text; the reply is under way then."""
        texts = (delta_of(event) for event in self if event != DONE)
        return "".join(text for text, _ in zip(filter(None, texts), range(n_events)))

    def close(self):
        self.response.close()
        self.connection.close()


class Server:
    """`specbound serve` on a free port, with one thread in its engine: tests run side by side."""

    def __init__(self, *flags, model=DEMO):
        self.output = {name: tempfile.TemporaryFile() for name in ("stdout", "stderr")}
        self.process = subprocess.Popen(
            [BINARY, "serve", "-m", model, "--port", "0", "-t", "1", *flags],
            stdin=subprocess.DEVNULL, **self.output)
        atexit.register(self.close)  # where a test failed
        self.key = None
        self.port = int(wait_until(self._listening, "listening")[1])

    def _listening(self):
        if self.process.poll() is not None:
            raise AssertionError(f"exit {self.process.returncode}: {self.said()}")
        return LISTENING.search(self.said())

    def said(self, name="stderr"):
        """What it wrote so far."""
        return os.pread(self.output[name].fileno(), 1 << 24, 0)

    def stop(self, number=signal.SIGTERM):
        """Ends it by a signal; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(TIMEOUT)

    def end(self):
        """It ran until now, leaves with 0 when asked to, and said nothing on stdout."""
        running = self.process.poll() is None
        status, said, out = self.stop(), self.said(), self.said("stdout")
        self.close()
        assert running, f"it ended by itself: {status} {said}"
        assert (status, out) == (0, b""), (status, out, said)

    def close(self):
        """Whatever became of it: nothing is left."""
        self.process.kill()
        self.process.wait()
        for file in self.output.values():
            file.close()

    # -- requests, each over a connection of its own

    def connection(self, source="127.0.0.1"):
        """`source`: another address of this machine is another client."""
        return http.client.HTTPConnection("127.0.0.1", self.port, TIMEOUT, (source, 0))

    def headers(self, body, more):
        json_type = {"Content-Type": "application/json"} if body is not None else {}
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {**json_type, **key, **more}

    def request(self, method, path, body=None, source="127.0.0.1", **headers):
        """`body`: bytes as they are, anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(self.connection(source)) as connection:
            connection.request(method, path, data, self.headers(body, headers))
            return Answer(connection.getresponse())

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def stream(self, path, body, source="127.0.0.1", **headers):
        data = json.dumps({**body, "stream": True}).encode()
        return Stream(self.connection(source), "POST", path, data, self.headers(data, headers))

    # -- bare bytes

    def socket(self, data=b"", source="127.0.0.1", receive_buffer=None):
        """A connection on which `data` was sent. `receive_buffer`: about how many bytes the kernel
        keeps for a client that does not read."""
        bare = socket.socket()
        if receive_buffer:
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        bare.settimeout(TIMEOUT)
        bare.bind((source, 0))
        bare.connect(("127.0.0.1", self.port))
        bare.sendall(data)
        return bare

    def post_bytes(self, path, body):
        """A request as bytes for a socket."""
        data = json.dumps(body).encode()
        return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\n\r\n").encode() + data

    def exchange(self, data, n=1):
        """Up to `n` answers to bytes: all that came before the server ended the connection."""
        with self.socket() as bare:
            with contextlib.suppress(ConnectionError):  # it may answer and go before the last byte
                bare.sendall(data)
            return read_answers(bare, n)

    # -- its metrics

    def metrics(self):
        answer = self.get("/metrics")
        assert answer.status == 200, (answer.status, answer.body)
        return Metrics(answer.body.decode())

    def metric(self, name, **labels):
        return self.metrics().value(name, **labels)

    def wait_idle(self):
        """Until nothing waits and nothing runs."""
        def idle():
            metrics = self.metrics()
            return metrics.value(RUNNING) == 0 and metrics.value(WAITING) == 0

        wait_until(idle, "idle")

    # -- what it holds

    def memory_kb(self):
        return int(self._status("VmRSS"))

    def threads(self):
        return int(self._status("Threads"))

    def _status(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii", errors="replace") as file:
            return re.search(rf"^{field}:\s+(\d+)", file.read(), re.MULTILINE)[1]

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class ServerCase(unittest.TestCase):
    """All tests of a class ask one server."""
    FLAGS, MODEL = (), DEMO

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS, model=cls.MODEL)
        cls.addClassCleanup(cls.server.end)


class _Unclosed:
    """What HTTPResponse reads from and closes when it is done; the next response is behind it."""

    def __init__(self, file):
        self.file = file

    def makefile(self, _):
        return self

    def close(self):
        pass

    def __getattr__(self, name):
        return getattr(self.file, name)


def read_answers(bare, n):
    """Up to n answers from a socket: all that came whole before the server ended the connection."""
    answers = []
    with bare.makefile("rb") as file, contextlib.suppress(ConnectionError, ValueError,
                                                          http.client.HTTPException):
        while len(answers) < n:
            response = http.client.HTTPResponse(_Unclosed(file))
            response.begin()  # passes over "100 Continue"
            answers.append(Answer(response))
    return answers


class Metrics:
    """Prometheus text, every line of it checked against the format."""

    def __init__(self, text):
        self.types, self.samples, helps = {}, {}, set()
        assert text.endswith("\n")
        for line in text.splitlines():
            if line.startswith("# HELP "):
                helps.add(line.split(" ", 3)[2])
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert kind in ("counter", "gauge", "histogram") and name not in self.types, line
                self.types[name] = kind
            elif line:
                self._add(line)
        assert helps == set(self.types), helps ^ set(self.types)

    def _add(self, line):
        found = SAMPLE.match(line)
        assert found, line
        name, labels, value = found.groups()
        assert name in self.types, f"no TYPE before {line}"
        assert self.types[name] != "counter" or name.endswith("_total"), line
        key = (name, frozenset(re.findall(r'([a-z_]+)="([^"]*)"', labels or "")))
        assert key not in self.samples, f"twice: {line}"
        self.samples[key] = float(value)

    def value(self, name, **labels):
        """The sum of the samples that have these labels."""
        assert name in self.types, f"no {name} among {sorted(self.types)}"
        wanted = set(labels.items())
        return sum(v for (n, has), v in self.samples.items() if n == name and wanted <= has)

    def by(self, name, label):
        """{the label's value: sample}"""
        return {dict(has)[label]: v for (n, has), v in self.samples.items() if n == name}
