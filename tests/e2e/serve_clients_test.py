#!/usr/bin/env python3
"""specbound serve and its clients: they leave, wait, do not read, come in crowds. The model never
ends a reply by itself, so a reply is under way for as long as a test needs, and one that went on
behind a client's back would show: as tokens, and as a queue that does not move."""
import contextlib
import http.client
import json
import select
import signal
import socket
import tempfile
import threading
import unittest

import soak
from endless_model import CONTEXT, make_endless_model
from run_test import built_for_speed
from serve_client import (CACHED, CHAT, COMPLETIONS, DONE, GENERATED, PROMPT, RUNNING, WAITING,
                          Server, ask, delta_of, prompt, read_answers, together, wait_until)

MANY = 8  # requests of one client
# Each event of a stream names the model: with such a name the kernel's buffers are full soon.
LONG_NAME = {"model": "x" * 4000}


def endless(**fields):
    return prompt(max_tokens=None, **fields)


class EndlessCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = make_endless_model(folder.name)

    def start(self, *flags, ends=True, parallel=1):
        """`parallel`: one reply holds up all others. `ends`: with the test, and well."""
        server = Server("-c", str(CONTEXT), "--parallel", str(parallel), *flags, model=self.model)
        self.addCleanup(server.end if ends else server.close)
        return server

    def occupy(self, server, source="127.0.0.1"):
        """A reply that is under way until its client leaves."""
        stream = server.stream(COMPLETIONS, endless(), source)
        self.assertEqual(stream.status, 200)
        self.addCleanup(stream.close)
        stream.read_text(2)
        return stream

    def wait_for_queue(self, server, n):
        wait_until(lambda: server.metric(WAITING) == n, f"{n} waiting")


class Leaving(EndlessCase):
    def check_stopped(self, server):
        """The engine rests, long before the end of that reply, and answers as ever."""
        server.wait_idle()
        generated = server.metric(GENERATED)
        self.assertLess(generated, CONTEXT / 2)
        answer = server.post(COMPLETIONS, prompt())
        self.assertEqual(answer.text, self.want(server))
        self.assertEqual(server.metric(GENERATED), generated + 2 * 24)

    def want(self, server):
        return server.post(COMPLETIONS, prompt(speculation=False)).text

    def test_in_the_middle_of_a_stream(self):
        server = self.start()
        for fields in ({}, {"speculation": False}, {"temperature": 1, "seed": 1}):
            stream = server.stream(COMPLETIONS, endless(**fields))
            stream.read_text(5)
            stream.close()
            server.wait_idle()
        self.check_stopped(server)

    def test_while_the_reply_is_made_in_one_piece(self):
        server = self.start()
        for path, body in ((CHAT, ask(max_tokens=None)), (COMPLETIONS, endless())):
            with server.socket(server.post_bytes(path, body)):
                wait_until(lambda: server.metric(RUNNING) == 1, "running")
            server.wait_idle()
        self.check_stopped(server)

    def test_while_the_prompt_is_read(self):
        server = self.start()
        ids = [5 + i % 3000 for i in range(CONTEXT - 10)]
        for stream in (True, False):
            own = [6 + stream, *ids[1:]]  # nothing of the one is there for the other
            body = server.post_bytes(COMPLETIONS, {**endless(stream=stream), "prompt": own})
            with server.socket(body):
                wait_until(lambda: server.metric(RUNNING) == 1, "running")
            server.wait_idle()
        # It never came to a token, and not to the end of the prompt either.
        metrics = server.metrics()
        self.assertEqual((metrics.value(GENERATED), metrics.value(CACHED)), (0, 0))
        self.assertLess(metrics.value(PROMPT), len(ids))
        self.check_stopped(server)

    def test_before_its_turn(self):
        server = self.start()
        running = self.occupy(server)
        waiting = [server.socket(server.post_bytes(COMPLETIONS, endless(stream=s)))
                   for s in (True, False, True)]
        self.wait_for_queue(server, 3)
        for i, bare in enumerate(waiting):
            bare.close()
            self.wait_for_queue(server, 2 - i)
        self.assertEqual(server.metric(RUNNING), 1)  # it went on meanwhile
        running.read_text(5)
        running.close()
        self.check_stopped(server)


class NotReading(EndlessCase):
    # Tokens: with that name more than the kernel keeps for anybody, also where events are few
    # because the connection's thread came late to the text. A sanitized engine is the slower one.
    N = 4000 if built_for_speed() else 1200

    def send_without_reading(self, server):
        """The connection of a reply that is made and cannot be sent."""
        body = prompt(max_tokens=self.N, stream=True, **LONG_NAME)
        bare = server.socket(server.post_bytes(COMPLETIONS, body), receive_buffer=4096)
        self.addCleanup(bare.close)
        wait_until(lambda: server.metric(GENERATED) == self.N, "the whole reply")
        self.assertNotIn(COMPLETIONS.encode(), server.said())  # where answered requests are listed
        return bare

    def test_the_engine_goes_on_and_nothing_is_lost(self):
        server = self.start("--timeout", "1000")  # however long the other reply takes
        bare = self.send_without_reading(server)
        want = server.post(COMPLETIONS, prompt(max_tokens=self.N)).text  # others are answered
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # now it is quick
        answer, = read_answers(bare, 1)
        events = answer.body.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        text = "".join(json.loads(event.removeprefix("data: "))["choices"][0]["text"]
                       for event in events[:-2])
        self.assertEqual(text, want)

    def test_whoever_never_reads_is_dropped(self):
        server = self.start("--timeout", "1")
        rest = server.files()
        data = server.post_bytes(COMPLETIONS, endless(stream=True, **LONG_NAME))
        with server.socket(data, receive_buffer=4096):
            wait_until(lambda: server.metric(GENERATED) > 0, "the end of the reply")
            wait_until(lambda: server.files() <= rest, "the connection is closed")
        self.assertLess(server.metric(GENERATED), CONTEXT - 100)  # not to its own end

    def test_it_holds_no_place(self):
        server = self.start("--timeout", "1000", ends=False)  # of which there is one
        for _ in range(2):
            data = server.post_bytes(COMPLETIONS, prompt(max_tokens=40, stream=True, **LONG_NAME))
            self.addCleanup(server.socket(data, receive_buffer=4096).close)
        self.assertEqual(server.post(COMPLETIONS, prompt(max_tokens=4)).status, 200)
        self.assertEqual(server.stop(), 0, server.said())

    def test_it_does_not_hold_up_the_end(self):
        server = self.start("--timeout", "1000", ends=False)
        self.send_without_reading(server)
        self.assertEqual(server.stop(), 0, server.said())


class Crowds(EndlessCase):
    def test_a_full_queue_says_come_back(self):
        server = self.start("--max-queue", "2")
        running = self.occupy(server)
        waiting = [server.socket(server.post_bytes(COMPLETIONS, prompt())) for _ in range(2)]
        self.wait_for_queue(server, 2)
        for path, body in ((CHAT, ask()), (COMPLETIONS, prompt()), (CHAT, ask(stream=True))):
            answer = server.post(path, body)
            self.assertEqual(answer.status, 429, answer.body)
            self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
            self.assertEqual(answer.error["code"], "queue_full")
        for path in ("/health", "/metrics", "/v1/models"):  # these need no engine
            self.assertEqual(server.get(path).status, 200)
        running.close()
        texts = set()
        for bare in waiting:
            with bare:
                answer, = read_answers(bare, 1)
                texts.add(answer.text)
        self.assertEqual(texts, {server.post(COMPLETIONS, prompt()).text})

    def check_turns(self, server, many, one):
        """Of two clients, one with many requests and one that comes last, both have their turns.
        `many`: what each of those requests is sent with."""
        running = self.occupy(server)
        order, lock = [], threading.Lock()

        def answered(client):
            answer = server.post(COMPLETIONS, prompt(max_tokens=100), **client)
            self.assertEqual(answer.status, 200)
            with lock:
                order.append(client)

        threads = [threading.Thread(target=answered, args=(each,)) for each in many]
        for thread in threads:
            thread.start()
        self.wait_for_queue(server, len(many))
        threads.append(threading.Thread(target=answered, args=(one,)))
        threads[-1].start()
        self.wait_for_queue(server, len(many) + 1)
        running.close()
        for thread in threads:
            thread.join()
        # Second at the latest by its turn; the threads here may wake up in another order.
        self.assertLess(order.index(one), len(many) / 2, order)

    def test_addresses_take_turns(self):
        # Keys that nobody asked for make no other client.
        many = [{"source": "127.0.0.2", "Authorization": f"Bearer {i}"} for i in range(MANY)]
        self.check_turns(self.start(), many, {"source": "127.0.0.3"})

    def test_keys_take_turns(self):
        server = self.start("--api-key", "a", "--api-key", "b")
        server.key = "a"
        self.check_turns(server, [{}] * MANY, {"Authorization": "Bearer b"})

    def test_within_a_client_the_first_comes_first(self):
        server = self.start()
        running = self.occupy(server)
        streams = []
        for i in range(4):
            streams.append(server.socket(server.post_bytes(COMPLETIONS, endless(stream=True))))
            self.wait_for_queue(server, i + 1)
        running.close()
        for i, bare in enumerate(streams):  # each is answered when those before it have left
            with bare:
                self.assertTrue(bare.recv(1))
                self.assertEqual(server.metric(WAITING), 3 - i)
        server.wait_idle()

    def test_connections_that_say_nothing_hold_up_nobody(self):
        server = self.start("--timeout", "1")
        rest = server.files()
        request = server.post_bytes(CHAT, ask())
        starts = (b"", b"GET", b"GET /health HTTP/1.1\r\nHost:", request[:-1], request[:60])
        with contextlib.ExitStack() as open_ones:
            for i in range(150):
                open_ones.enter_context(server.socket(starts[i % len(starts)]))
            self.assertEqual(server.get("/health").status, 200)
            texts = together([lambda: server.post(CHAT, ask()).text for _ in range(4)])
            self.assertEqual(len(set(texts)), 1)
            wait_until(lambda: server.files() <= rest, "all of them are closed")


    def dripped(self, server, begin, rest):
        """The answer to what is sent byte by byte behind its begin, until there is one."""
        with server.socket(begin) as bare:
            for byte in rest:
                if select.select([bare], [], [], 0.1)[0]:
                    break
                bare.send(bytes([byte]))
            answer, = read_answers(bare, 1)
            return answer

    def test_a_request_byte_by_byte_is_told_that_it_takes_too_long(self):
        server = self.start("--timeout", "1")
        request = server.post_bytes(CHAT, ask())
        body = len(request) - request.index(b"\r\n\r\n") - 4
        for begin, rest in ((b"", b"GET /" + b"a" * 99),
                            (b"GET /health HTTP/1.1\r\nHost: ", b"a" * 99),
                            (request[:-body], request[-body:])):
            answer = self.dripped(server, begin, rest)
            self.assertEqual(answer.status, 408)
            self.assertIn("in time", answer.error["message"])
        # Those that nobody could read are counted and told, too.
        self.assertEqual(server.metric("specbound_requests_total", status="408"), 3)
        wait_until(lambda: server.said().count(b" 408, 0 tokens") == 3, "all of them in the log")
        self.assertEqual(server.metric(RUNNING), 0)
        self.assertEqual(server.post(CHAT, ask(max_tokens=2)).status, 200)

    def test_in_a_crowd_no_connection_goes_on_for_long(self):
        server = self.start("--timeout", "1000")
        get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answers = []
        for _ in range(10):  # it may be too late: threads come free after two seconds
            with contextlib.ExitStack() as open_ones, contextlib.suppress(BrokenPipeError):
                bare = open_ones.enter_context(server.socket(get))
                for i in range(200):
                    if i == 100:
                        bare.send(get[:5])  # its thread reads this one
                    open_ones.enter_context(server.socket(b"GET"))
                bare.sendall(get[5:] + get * 8)
                answers = read_answers(bare, 10)
            self.assertTrue(all(answer.status in (200, 408) for answer in answers))
            if 0 < len(answers) <= 3:  # that one, and one more
                return
        self.fail(f"{len(answers)} requests of one connection were answered")


class SideBySide(EndlessCase):
    def test_a_reply_comes_beside_those_that_never_end(self):
        server = self.start(parallel=3)
        want = server.post(COMPLETIONS, prompt()).text
        others = [self.occupy(server, f"127.0.0.{2 + i}") for i in range(2)]
        self.assertEqual(server.metric(RUNNING), 2)
        for fields in ({}, {"temperature": 1, "seed": 3}, {"stop": ["zz"]}, {"logprobs": 2}):
            answer = server.post(COMPLETIONS, prompt(**fields))
            self.assertEqual(answer.status, 200)
            rounds = answer.json["timings"]["speculation"]
            self.assertGreater(rounds["rounds_side_by_side"], rounds["rounds"] / 2)
            if not fields:
                self.assertEqual(answer.text, want)
        for other in others:
            other.read_text(3)  # they went on meanwhile
            other.close()
        server.wait_idle()
        self.assertLess(server.metric(GENERATED), 2 * CONTEXT)
        alone = server.post(COMPLETIONS, prompt())
        self.assertEqual(alone.text, want)
        self.assertEqual(alone.json["timings"]["speculation"]["rounds_side_by_side"], 0)

    def test_who_does_not_read_or_leaves_holds_up_nobody(self):
        server = self.start("--timeout", "1", parallel=4)
        want = server.post(COMPLETIONS, prompt()).text
        stays = self.occupy(server)
        data = server.post_bytes(COMPLETIONS, endless(stream=True, **LONG_NAME))
        with server.socket(data, receive_buffer=4096):  # never reads
            wait_until(lambda: server.metric(RUNNING) == 2, "both run")
            for i in range(4):  # leave while their prompts are read
                ids = [7 + i, *(5 + k % 3000 for k in range(CONTEXT - 20))]
                with server.socket(server.post_bytes(COMPLETIONS, {**endless(), "prompt": ids})):
                    wait_until(lambda: server.metric(RUNNING) == 3, "it is there")
                self.assertEqual(server.post(COMPLETIONS, prompt()).text, want)
            wait_until(lambda: server.metric(RUNNING) == 1, "who does not read is dropped")
        stays.read_text(3)
        stays.close()
        server.wait_idle()

    def test_who_leaves_changes_no_byte_of_those_beside_it(self):
        server = self.start(parallel=4)
        # So long that it is under way while others come and leave, on any machine.
        body = prompt(max_tokens=4000 if built_for_speed() else 1200, temperature=1, seed=9)
        want = server.post(COMPLETIONS, body).text
        long_one = [5 + i % 3000 for i in range(CONTEXT - 20)]
        data = server.post_bytes(COMPLETIONS, {**endless(), "prompt": long_one})

        def beside(leave):
            stream, text = server.stream(COMPLETIONS, {**body, "stream": True}), ""
            for n, event in enumerate(stream):
                text += delta_of(event) if event != DONE else ""
                if n == 2:
                    leave()
            stream.close()
            self.assertEqual(text, want)
            server.wait_idle()

        def while_it_writes():
            other = self.occupy(server, "127.0.0.2")
            other.close()

        def while_its_prompt_is_read():
            with server.socket(data):
                wait_until(lambda: server.metric(RUNNING) == 2, "it is there")

        for leave in (while_it_writes, while_its_prompt_is_read):
            beside(leave)
        self.assertEqual(server.post(COMPLETIONS, body).text, want)

    def test_a_short_prompt_behind_a_long_one_does_not_wait_for_it(self):
        server = self.start(parallel=4)
        want = server.post(COMPLETIONS, prompt(max_tokens=4)).text
        ids = [9, *(5 + i % 2990 for i in range(CONTEXT - 20))]
        data = server.post_bytes(COMPLETIONS, prompt(max_tokens=1, stream=False) | {"prompt": ids})
        with server.socket(data) as bare:
            wait_until(lambda: server.metric(RUNNING) == 1, "it is there")
            short = server.post(COMPLETIONS, prompt(max_tokens=4)).text
            long_done = server.metric(PROMPT) > len(ids)
            self.assertEqual((short, long_done), (want, False))
            self.assertEqual(read_answers(bare, 1)[0].status, 200)

    def test_full_contexts_end_their_own_replies(self):
        server = Server("-c", "600", "--parallel", "4", model=self.model)
        self.addCleanup(server.end)
        want = server.post(COMPLETIONS, prompt(max_tokens=90)).text

        def fill(n):
            body = {**endless(), "prompt": [5 + i % 3000 for i in range(560 - n)]}
            answer = server.post(COMPLETIONS, body).json
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
            return answer["usage"]["total_tokens"]

        *totals, text = together([
            *(lambda n=n: fill(n) for n in (0, 10, 20)),
            lambda: server.post(COMPLETIONS, prompt(max_tokens=90)).text])
        self.assertEqual((totals, text), ([600 + 1] * 3, want))

    def test_a_hundred_at_once(self):
        server = self.start("--max-queue", "100", parallel=8)
        bodies = [prompt(temperature=i % 3 / 2, seed=i, max_tokens=1 + i % 40) for i in range(20)]
        want = [server.post(COMPLETIONS, body).text for body in bodies]
        found = together([lambda i=i: server.post(COMPLETIONS, bodies[i % 20],
                                                  source=f"127.0.0.{2 + i % 7}")
                          for i in range(100)])
        for i, answer in enumerate(found):
            self.assertEqual(answer.text, want[i % 20], i)
        self.assertGreater(server.metric("specbound_rounds_side_by_side_total"), 100)

    def test_a_signal_ends_all_of_them(self):
        server = self.start(parallel=4, ends=False)
        running = [self.occupy(server) for _ in range(3)]
        self.assertEqual(server.stop(), 0, server.said())
        for stream in running:
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                for _ in stream:
                    pass


class Ending(EndlessCase):
    def check_signal(self, number):
        server = self.start(ends=False)
        running = self.occupy(server)
        waiting = server.socket(server.post_bytes(COMPLETIONS, prompt()))
        self.wait_for_queue(server, 1)
        idle, half = server.socket(), server.socket(b"POST /v1/")
        self.assertEqual(server.stop(number), 0, server.said())
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            for _ in running:  # it ends, somehow
                pass
        with waiting, idle, half:
            self.assertEqual([a.status for a in read_answers(waiting, 1)], [503])
            for bare in (idle, half):
                read_answers(bare, 1)
        self.assertNotIn(b"error", server.said().lower())

    def test_a_signal_ends_what_is_under_way(self):
        # Side by side: the server waits a second for the rest of what is half sent.
        together([lambda number=number: self.check_signal(number)
                  for number in (signal.SIGTERM, signal.SIGINT)])

    def test_its_port_is_free_at_once(self):
        server = self.start(ends=False)
        self.occupy(server)
        self.assertEqual(server.stop(), 0, server.said())
        again = self.start("--port", str(server.port))
        self.assertEqual(again.port, server.port)
        self.assertEqual(again.get("/health").status, 200)


class Soak(unittest.TestCase):
    def test_many_requests_leave_nothing_behind(self):
        # A sanitizer keeps what was freed. The K/V of few conversations are soon all there.
        template = ("--chat-template-file", soak.TEMPLATE)
        server = Server("--conversations", "2", "--parallel", "2", *template)
        found = soak.measure(Server("--spec", "off", *template), server, requests=300, hostile=28,
                             disconnects=12, seed=1, judge_memory=built_for_speed())
        self.assertEqual(found["wrong"], [])
        self.assertEqual(found["sent"], {"normal": 260, "hostile": 28, "disconnect": 12})


if __name__ == "__main__":
    unittest.main()
