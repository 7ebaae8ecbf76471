"""Many requests at once to one server: chats, calls of tools, replies by schemas and completions of
several clients, hostile requests and clients that leave at random points among them, while the
server's memory, threads and files are watched. serve_clients_test.py runs a short one,
tests/bench/serve_soak.sh a long one."""
import contextlib
import dataclasses
import http.client
import itertools
import json
import pathlib
import random
import threading
import time

from serve_client import (CHAT, COMPLETIONS, Answer, ask, prompt, read_answers, together,
                          wait_until)

CLIENTS = 10
CROWD = 40  # connections at once before anything is measured: more than come later
SAMPLE_SECONDS = 0.05
MAY_GROW_KB = 4096  # without a leak: what malloc keeps of its own for each thread
# A template that takes tools, which the demo model's own does not.
TEMPLATE = str(pathlib.Path(__file__).resolve().parents[1] / "data" / "chat-templates" /
               "Qwen-Qwen2.5-7B-Instruct.jinja")
SCHEMA = {"type": "object", "properties": {
    "city": {"enum": ["Oslo", "Lima"]}, "nights": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "nights"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "book", "parameters": SCHEMA}}
STRICT = {"type": "function", "function": {**TOOL["function"], "strict": True}}
# Conversations and texts that take turns, each with its own reply.
REQUESTS = (
    (CHAT, ask()),
    (CHAT, ask("I want to watch a film.", max_tokens=40)),
    (CHAT, ask("Hello!", stream=True)),
    (CHAT, ask("A flight to Oslo, please.", max_tokens=60, stream=True)),
    (CHAT, ask(messages=[{"role": "system", "content": "Be brief."},
                         {"role": "user", "content": "I need a taxi."},
                         {"role": "assistant", "content": "Where to?"},
                         {"role": "user", "content": "To the airport."}])),
    (CHAT, ask("I need a hotel.", speculation=False, stop=["?", "."])),
    (COMPLETIONS, prompt("One two three", max_tokens=16)),
    (COMPLETIONS, prompt("The weather is", max_tokens=48, stream=True)),
    (COMPLETIONS, prompt("word " * 200, max_tokens=8)),
    (CHAT, ask("Surprise me.", temperature=1.1, seed=7)),
    (CHAT, ask("A room in Oslo.", max_tokens=48, tools=[TOOL], tool_choice="required")),
    (CHAT, ask("A room in Lima.", max_tokens=48, tools=[TOOL], stream=True, temperature=1, seed=3,
               tool_choice={"type": "function", "function": {"name": "book"}})),
    (CHAT, ask("Where is a room?", tools=[STRICT], stream=True)),
    (CHAT, ask("Which town?", max_tokens=48, response_format={
        "type": "json_schema", "json_schema": {"name": "stay", "schema": SCHEMA}})),
    (COMPLETIONS, prompt("One of two:", grammar='root ::= ("yes" | "no") [ a-z]{0,20}')),
)
BODY = json.dumps(ask()).encode()
POST = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n".encode()
# What is sent, and the statuses that may answer it; none: the server may just close.
HOSTILE = (
    (POST + b"Content-Length: 1\r\n\r\n{", {400}),
    (POST + b"Content-Length: 90000\r\n\r\n" + b"[" * 90000, {400}),
    (POST + b"Content-Length: 9999999999\r\n\r\n{}", {413}),
    (POST + b"Content-Length: -1\r\n\r\n{}", {400, 413}),
    (POST + b"Content-Length: 8\r\n\r\n{\"\xff\": 1}", {400}),
    (POST + b"Content-Length: 15\r\n\r\n{\"messages\": 1}", {400}),
    (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
    (POST + b"Content-Length: %d\r\n\r\n%s" % (len(BODY) + 9, BODY), set()),  # never whole
    (POST + b"X: " + b"y" * 50000 + b"\r\n\r\n", {400, 413, 414, 431}),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500 + b"\r\n\r\n", {400}),
    (b"GET /" + b"%2e%2e/" * 2000 + b" HTTP/1.1\r\n\r\n", {400, 404, 414, 431}),
    (b"GET /metrics HTTP/1.1\r\nHo", set()),
    (b"DELETE / HTTP/1.1\r\n\r\n", {404, 405}),
    (b"", set()),
)


@dataclasses.dataclass
class Sample:
    seconds: float
    done: int  # requests
    memory_kb: int
    threads: int
    files: int


def said(choices):
    """What some choices say, whole ones or those of a stream: text, names and arguments."""
    text = ""
    for choice in choices:
        message = choice.get("message") or choice.get("delta") or choice
        text += message.get("content") or message.get("text") or ""
        for call in message.get("tool_calls") or []:
            text += call["function"].get("name", "") + call["function"]["arguments"]
    return text


def send(server, path, body, source, connection=None):
    """One request, streamed or not, over a connection that stays or its own; what is said."""
    if connection:
        data = json.dumps(body).encode()
        kept = connection.sock is not None
        try:
            connection.request("POST", path, data, server.headers(data, {}))
            response = connection.getresponse()
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            if not kept:
                raise
            connection.close()  # idle for too long in the server's eyes; it is opened again
            connection.request("POST", path, data, server.headers(data, {}))
            response = connection.getresponse()
        if not body.get("stream"):
            return answered(Answer(response))
        lines = response.read().split(b"\n\n")
        assert lines[-2:] == [b"data: [DONE]", b""], lines[-2:]
        events = [line for line in lines[:-2] if line.startswith(b"data: ")]
        choices = [json.loads(line[len("data: "):])["choices"][0] for line in events]
        return said(choices)
    if body.get("stream"):
        return said(event["choices"][0] for event in server.stream(path, body, source).events())
    return answered(server.post(path, body, source=source))


def answered(answer):
    assert answer.status == 200, (answer.status, answer.body)
    return said(answer.json["choices"])


def references(server):
    """The text of each of REQUESTS, asked for one after another."""
    return [send(server, path, body, "127.0.0.1") for path, body in REQUESTS]


def plan(requests, hostile, disconnects, seed):
    """Which request is what, in the order in which they are sent."""
    kinds = [("hostile", i) for i in range(hostile)]
    kinds += [("disconnect", i) for i in range(disconnects)]
    kinds += [("normal", i) for i in range(requests - len(kinds))]
    random.Random(seed).shuffle(kinds)
    return kinds


class Soak:
    """run() sends everything, or the same again for as long as `seconds` say; what went wrong is in
    `failures`."""

    def __init__(self, server, texts, kinds, seed, seconds):
        self.server, self.texts, self.kinds, self.seed = server, texts, kinds, seed
        self.numbers = itertools.count()
        self.until = time.monotonic() + seconds if seconds else None
        self.n_done = 0
        self.failures, self.samples = [], []
        self.sent = {"normal": 0, "hostile": 0, "disconnect": 0}
        self.lock = threading.Lock()
        self.over = threading.Event()

    def run(self):
        watcher = threading.Thread(target=self.watch)
        watcher.start()
        try:
            together([lambda n=n: self.client(n) for n in range(CLIENTS)])
        finally:
            self.over.set()
            watcher.join()

    def watch(self):
        begin = time.monotonic()
        while True:
            last = self.over.wait(SAMPLE_SECONDS)
            self.samples.append(Sample(time.monotonic() - begin, self.n_done,
                                       self.server.memory_kb(), self.server.threads(),
                                       self.server.files()))
            if last:
                return

    def client(self, number):
        source = f"127.0.0.{2 + number}"
        dice = random.Random(self.seed * CLIENTS + number)
        with contextlib.closing(self.server.connection(source)) as kept:
            while True:
                number = next(self.numbers)
                if time.monotonic() > self.until if self.until else number >= len(self.kinds):
                    return
                kind, i = self.kinds[number % len(self.kinds)]
                try:
                    if kind == "normal":
                        self.normal(i, source, kept if dice.random() < 0.4 else None)
                    else:
                        getattr(self, kind)(i, source, dice)
                except (OSError, AssertionError, ValueError, http.client.HTTPException) as failure:
                    kept.close()
                    with self.lock:
                        self.failures.append(f"{kind} {i}: {failure!r}")
                with self.lock:
                    self.sent[kind] += 1
                    self.n_done += 1

    def normal(self, i, source, kept):
        k = i % len(REQUESTS)
        text = send(self.server, *REQUESTS[k], source, kept)
        assert text == self.texts[k], f"request {k}: {text!r} instead of {self.texts[k]!r}"

    def hostile(self, i, source, _):
        data, statuses = HOSTILE[i % len(HOSTILE)]
        with self.server.socket(source=source) as bare:
            with contextlib.suppress(ConnectionError):
                bare.sendall(data)
            if statuses:
                found = [answer.status for answer in read_answers(bare, 1)]
                assert not found or found[0] in statuses, (data[:60], found)

    def disconnect(self, i, source, dice):
        """Leaves while it sends, while it waits, or while it reads."""
        path, body = REQUESTS[i % len(REQUESTS)]
        body = {**body, "max_tokens": 400, "stop": None, "stream": bool(i % 2)}
        data = self.server.post_bytes(path, body)
        if i % 4 == 0:
            data = data[:dice.randrange(len(data))]
        with self.server.socket(data, source) as bare:
            if i % 4 == 1:
                bare.recv(dice.randrange(1, 2000))
            elif i % 4 == 2:
                time.sleep(dice.random() * 0.02)

    def growth_kb(self):
        """Memory in the last fifth of the requests above that in the second: what a leak adds."""
        n = self.n_done
        second = [s.memory_kb for s in self.samples if n / 5 <= s.done <= 2 * n / 5]
        last = [s.memory_kb for s in self.samples if s.done >= 4 * n / 5]
        return max(last) - max(second, default=self.samples[0].memory_kb)

    def columns(self, most=200):
        """Not more than that many of the samples, each field as a list."""
        kept = self.samples[::1 + len(self.samples) // most]
        return {field.name: [round(getattr(sample, field.name), 2) for sample in kept]
                for field in dataclasses.fields(Sample)}


def measure(plain, server, requests, hostile, disconnects, seed, judge_memory=True, seconds=0):
    """Soaks `server` and ends both; `plain` gives the texts. What was found, for JSON: all is well
    if nothing is "wrong"."""
    with contextlib.ExitStack() as ending:
        ending.callback(plain.end)
        ending.callback(server.end)
        texts = references(plain)
        wrong = [] if references(server) == texts else ["other texts before the soak"]
        rest = server.files()
        with contextlib.ExitStack() as crowd:  # a thread for each, which the server keeps
            for bare in [crowd.enter_context(server.socket()) for _ in range(CROWD)]:
                bare.sendall(b"GET /health HTTP/1.1\r\n\r\n")
                assert read_answers(bare, 1)[0].status == 200
        wait_until(lambda: server.files() <= rest, f"{rest} files again")
        files, threads = server.files(), server.threads()
        soak = Soak(server, texts, plan(requests, hostile, disconnects, seed), seed, seconds)
        soak.run()
        wrong += soak.failures
        try:
            server.wait_idle()
            wait_until(lambda: server.files() <= files, f"{files} files again", 60)
        except AssertionError as failure:
            wrong.append(str(failure))
        if server.threads() > threads:
            wrong.append(f"{server.threads()} threads instead of {threads}")
        if references(server) != texts:
            wrong.append("other texts after the soak")
        if judge_memory and soak.growth_kb() > MAY_GROW_KB:
            wrong.append(f"memory grew by {soak.growth_kb()} kB, more than {MAY_GROW_KB}")
        return dict(sent=soak.sent, seconds=round(soak.samples[-1].seconds, 2), wrong=wrong,
                    memory_growth_kb=soak.growth_kb(),
                    files=dict(before=files, after=server.files()),
                    threads=dict(before=threads, after=server.threads()), samples=soak.columns())
