#!/usr/bin/env python3
"""specbound serve: what is refused, and how. Bodies, fields, routes, HTTP itself, and starting up.
After each, the same server still answers."""
import json
import socket
import unittest

from serve_client import CHAT, COMPLETIONS, Server, ServerCase, ask, prompt, read_answers
from specbound_process import DEMO, specbound

INVALID = "invalid_request_error"
MAX_BODY = 100_000


class Refusals(ServerCase):
    FLAGS = ("--max-body", str(MAX_BODY))

    def tearDown(self):
        self.assertEqual(self.server.post(CHAT, ask(max_tokens=1)).status, 200)

    def refused(self, path, body, param=None, status=400):
        """The error that answers `body`; it names `param`."""
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, (body, answer.body[:300]))
        self.assertTrue(answer.headers["Content-Type"].startswith("application/json"))
        error = answer.error
        if status == 400:
            self.assertEqual(error["type"], INVALID)
        self.assertLess(len(error["message"]), 1000, "what was sent comes back whole")
        if param:
            self.assertIn(param, (error["param"] or "") + error["message"], body)
            self.assertIsNotNone(error["param"], body)
        return error


class Bodies(Refusals):
    def test_what_is_not_json(self):
        for path in (CHAT, COMPLETIONS, "/tokenize", "/detokenize"):
            for body in (b"", b" ", b"{", b"nul", b"{'a': 1}", b'{"a": 1,}', b'{"a" 1}', b"{}{}",
                         b'{"messages": NaN}', b'{"a": 01}', b"\0", b"{\0}", b'{"a": "\xff"}',
                         b'{"a": "\\ud800"}', b'{"a": "\\x41"}', b'{"a": "\n"}', b"\xef\xbb\xbf{",
                         b'{"prompt": "\xed\xa0\x80"}', b"\xff\xfe{\0}\0", b"<html></html>"):
                self.refused(path, body)

    def test_json_that_is_no_object(self):
        for path in (CHAT, COMPLETIONS, "/tokenize", "/detokenize"):
            for body in (b"null", b"[]", b'"messages"', b"1", b"true", b"[{}]", b"1e400"):
                self.refused(path, body)

    def test_json_that_is_deep(self):
        for opening in (b"[", b'{"a":'):
            n = 90_000 // len(opening)
            self.refused(CHAT, opening * n)
            self.refused(CHAT, b'{"metadata":' + opening * (n // 2))
        closed = b"[" * 40_000 + b"]" * 40_000
        for field in (b"metadata", b"stop"):  # one that is ignored, one that is not
            body = b'{"%s":%s,' % (field, closed) + json.dumps(ask()).encode()[1:]
            self.refused(CHAT, body)
        self.refused(CHAT, b'{"messages":' + closed + b"}")

    def test_nul_and_every_other_character_are_text(self):
        text = "".join(map(chr, range(1, 0x130))) + "\0\0\u2028\ufffe\U0010ffff"
        answer = self.server.post(CHAT, ask(text))
        self.assertEqual(answer.status, 200, answer.body)
        # What the model reads is the same for each spelling of JSON.
        body = json.dumps(ask(text), ensure_ascii=False).encode()
        self.assertEqual(self.server.post(CHAT, body).text, answer.text)

    def test_a_body_above_the_limit(self):
        at_limit = b" " * (MAX_BODY - 2) + b"{}"
        self.refused(CHAT, at_limit)
        self.refused(CHAT, b" " + at_limit, status=413)
        for size in (MAX_BODY + 1, 10 ** 9, 10 ** 18 - 1):  # refused before it is sent
            head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: {size}\r\n\r\n".encode()
            answer, = self.server.exchange(head)
            self.assertEqual(answer.status, 413, size)
            self.assertEqual(answer.error["type"], INVALID)


class Fields(Refusals):
    # Each with values that are refused, and the reply is not given.
    SAMPLING = {
        "max_tokens": ["5", 1.5, True, -2, [], {}, 2 ** 31, 2 ** 64, 1e300],
        "max_completion_tokens": ["5", 1.5, -2, 25],  # 25: another number than max_tokens
        "top_logprobs": [2, -1, 21, "x", 1.5],
        "n_predict": [5],
        "grammar": ["root ::= x"],
        "temperature": ["hot", -0.1, 101, 1e39, [], True],
        "top_p": ["x", -0.1, 1.1, 1e39],
        "top_k": ["x", 1.5, 2 ** 31, True],
        "min_p": ["x", -0.1, 1.1],
        "seed": ["x", 1.5, 2 ** 64, 1e30, True],
        "repeat_penalty": ["x", 0, -1, 1e39],
        "frequency_penalty": ["x", 2.1, -2.5, 1e39, True, []],
        "presence_penalty": ["x", 2.1, -2.5, {}],
        "stop": ["", [""], [1], 1, {}, True, ["x"] * 17, "x" * 257, ["a", None]],
        "n": [0, 9, -1, "1", 1.5, 2 ** 40],
        "stream": ["yes", 1, "true", []],
        "stream_options": ["x", 1, [], {"include_usage": "yes"}],
        "speculation": ["on", 1, []],
        "model": [1, {}, []],
        "logit_bias": ["x", 1, [], [5], {"4096": 1}, {"-1": 1}, {"05": 1}, {"5.0": 1}, {"the": 1},
                       {"": 1}, {"5": 100.5}, {"5": "1"}, {"5": None}, {"5": {}},
                       {str(token): 1 for token in range(301)}],
    }
    CHAT_ONLY = {
        "tools": [[{"type": "function", "function": {"name": "f", "parameters": {}}}], "x"],
        "functions": [[{"name": "f", "parameters": {}}]],
        "response_format": [{"type": "x"}, "json", 1, {"type": "json_schema"},
                            {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}],
        "json_schema": [{"not": {}}, "x", 1],
        "logprobs": [1, "x", []],
        "modalities": [["text", "audio"]],
        "audio": [{"voice": "alloy", "format": "wav"}],
    }
    COMPLETION_ONLY = {
        "echo": [True, "x"],
        "suffix": ["end"],
        "best_of": [2],
        "logprobs": [True, "x", -1, 21, 1.5, []],
        "prompt": [None, 1, {}, [], True, [1.5], [-1], [4096], [2 ** 40], [True], ["a", "b"],
                   [[1, 2], [3]], [1, "a"], [None]],
    }

    def test_wrong_values_of_chats(self):
        for table in (self.SAMPLING, self.CHAT_ONLY):
            for field, values in table.items():
                for value in values:
                    self.refused(CHAT, ask(**{field: value}), field)

    def test_wrong_values_of_completions(self):
        for table in (self.SAMPLING, self.COMPLETION_ONLY):
            for field, values in table.items():
                for value in values:
                    self.refused(COMPLETIONS, prompt(**{field: value}), field)
        self.refused(COMPLETIONS, {"max_tokens": 5}, "prompt")

    def test_a_stream_is_refused_like_any_other(self):
        for body in (ask(stream=True, n=9), ask(stream=True, messages=[])):
            self.refused(CHAT, body)

    def test_messages(self):
        user = {"role": "user", "content": "Hello"}
        for messages in (None, "x", 1, {}, [], [1], [None], [[]], [{}], ["user"],
                         [{"role": "user"}], [{"content": "x"}], [{**user, "content": None}],
                         [{**user, "content": 1}], [{**user, "content": {}}],
                         [{**user, "content": [1]}], [{**user, "content": [{}]}],
                         [{**user, "content": [{"type": "text"}]}],
                         [{**user, "content": [{"type": "text", "text": 1}]}],
                         [{**user, "content": [{"text": "x"}]}],
                         [{**user, "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
                         [{**user, "content": [{"type": "input_audio", "input_audio": {}}]}],
                         [{**user, "role": "tool"}], [{**user, "role": "function"}],
                         [{**user, "role": "User"}], [{**user, "role": 1}], [{**user, "role": ""}],
                         [{**user, "role": None}],
                         [user, {**user, "role": "nobody"}]):
            self.refused(CHAT, ask(messages=messages), "messages")
        self.refused(CHAT, {"max_tokens": 5}, "messages")
        calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        self.refused(CHAT, ask(messages=[user, {"role": "assistant", "tool_calls": calls}, user]))

    def test_a_prompt_above_the_context(self):
        long = "many words " * 2000
        for path, body in ((CHAT, ask(long)), (COMPLETIONS, prompt(long)),
                           (COMPLETIONS, prompt([5] * 769)), (CHAT, ask(long, stream=True))):
            error = self.refused(path, body)
            self.assertEqual(error["code"], "context_length_exceeded")
            self.assertIn("768", error["message"])

    def test_tokenize_and_detokenize(self):
        for body in ({}, {"content": 1}, {"content": None}, {"content": ["x"]},
                     {"content": "x", "add_special": "yes"}, {"content": "x", "with_pieces": 1}):
            self.refused("/tokenize", body)
        for body in ({}, {"tokens": 1}, {"tokens": "1"}, {"tokens": ["1"]}, {"tokens": [1.5]},
                     {"tokens": [-1]}, {"tokens": [4096]}, {"tokens": [2 ** 70]}, {"tokens": [[1]]},
                     {"tokens": [None]}):
            self.refused("/detokenize", body, "tokens")


class Http(Refusals):
    def test_routes_that_are_not_there(self):
        for path in ("/v1", "/v1/", "/v1/chat", "/v2/models", "//", "/health/", "/index.html",
                     "/v1/embedding", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/%",
                     "/%zz", "/\u00ff", "/v1/models/../chat/completions"):
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            answer, = self.server.exchange(request.encode())
            self.assertIn(answer.status, (400, 404), path)
            self.assertEqual(answer.error["type"], INVALID)

    def test_methods_that_a_route_does_not_have(self):
        for method, path, allowed in (("GET", CHAT, "POST"), ("GET", COMPLETIONS, "POST"),
                                      ("PUT", CHAT, "POST"), ("DELETE", "/v1/models", "GET"),
                                      ("POST", "/health", "GET"), ("POST", "/v1/models", "GET"),
                                      ("POST", "/metrics", "GET"), ("GET", "/tokenize", "POST"),
                                      ("PATCH", "/detokenize", "POST")):
            answer = self.server.request(method, path, {} if method == "POST" else None)
            self.assertEqual(answer.status, 405, (method, path))
            self.assertEqual(answer.error["type"], INVALID)
            self.assertIn(allowed, answer.headers["Allow"])

    def test_names_that_are_not_this_machines(self):
        """A web page that points its own name here must not read replies."""
        for host in ("localhost", "LOCALHOST:8080", "127.0.0.1", "127.1.2.3:80", "[::1]:80"):
            self.assertEqual(self.server.get("/v1/models", Host=host).status, 200, host)
        for host in ("evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example",
                     "192.168.0.1"):
            answer = self.server.get("/v1/models", Host=host)
            self.assertEqual(answer.status, 403, host)
            self.assertEqual(answer.error["code"], "host_not_allowed")

    def test_bytes_that_are_no_request(self):
        for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET /health\r\n\r\n", b"hello\r\n\r\n",
                     b"GET /health HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03" * 9,
                     b"\0" * 100 + b"\r\n\r\n", b"\xff" * 5000 + b"\r\n\r\n",
                     b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
                     b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
                     b"GET /health HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
                     b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"):
            with self.server.socket() as bare:
                try:
                    bare.sendall(data)
                    bare.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it did not wait for the end
                for answer in read_answers(bare, 1):
                    self.assertIn(answer.status, (200, 400, 404, 414, 431, 505), data[:40])

    def test_a_head_that_is_not_read_is_told_what_is(self):
        for data in (b"BREW /health HTTP/1.1\r\n\r\n",
                     b"GET /health HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n"):
            answer, = self.server.exchange(data)
            self.assertEqual(answer.status, 400, data[:40])
            self.assertEqual(answer.error["message"],
                             "the request: expected HTTP/1.1 by a known method, with header lines "
                             "of at most 8192 bytes")

    def test_lengths_that_lie(self):
        body = json.dumps(ask(max_tokens=1)).encode()
        for length in (b"-1", b"abc", b"", b"0x10", b"1e3", b"99999999999999999999999",
                       b"5\r\nContent-Length: 7", b"+5", b"5 5"):
            head = b"POST %s HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (CHAT.encode(), length)
            with self.server.socket(head + body) as bare:
                bare.shutdown(socket.SHUT_WR)
                answers = read_answers(bare, 5)
            self.assertTrue(answers, length)
            self.assertTrue(all(a.status in (400, 413) for a in answers), length)

    def test_the_type_of_a_body_does_not_matter(self):
        body = ask(metadata={"padding": "x" * 20_000})
        want = self.server.post(CHAT, ask()).text
        for name in ("application/x-www-form-urlencoded", "text/plain", "application/json; a=b"):
            answer = self.server.post(CHAT, body, **{"Content-Type": name})
            self.assertEqual((answer.status, answer.text), (200, want), name)

    def test_bodies_that_are_wrapped_up(self):
        for header in ({"Content-Encoding": "gzip"}, {"Content-Encoding": "br"},
                       {"Content-Type": "multipart/form-data"},
                       {"Content-Type": "multipart/form-data; boundary=x"}):
            answer = self.server.post(CHAT, b"\x1f\x8b--x\r\n", **header)
            self.assertIn(answer.status, (400, 415), header)
            self.assertEqual(answer.error["type"], INVALID)

    def test_no_length_is_no_body(self):
        answer, = self.server.exchange(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.assertIn(answer.status, (400, 411))
        self.assertEqual(answer.error["type"], INVALID)

    def test_request_bodies_in_chunks(self):
        body = json.dumps(ask()).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()

        def chunks(data, size):
            parts = [data[i:i + size] for i in range(0, len(data), size)] + [b""]
            return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)

        want = self.server.post(CHAT, ask()).text
        for size in (1, 7, len(body)):
            answer, = self.server.exchange(head + chunks(body, size))
            self.assertEqual((answer.status, answer.text), (200, want))
        answer, = self.server.exchange(head + chunks(b" " * (MAX_BODY + 1), 5000))
        self.assertEqual(answer.status, 413)
        twice = head.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: gzip\r\n\r\n")
        self.assertEqual(self.server.exchange(twice + chunks(body, 7))[0].status, 400)
        long_line = b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(body), b"x" * 70_000, body)
        for broken in (b"zz\r\n{}\r\n0\r\n\r\n", b"5\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n0\r\n\r\n",
                       b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n", b"2\r\n{}", long_line):
            with self.server.socket(head + broken) as bare:
                bare.shutdown(socket.SHUT_WR)
                answers = read_answers(bare, 5)
                self.assertTrue(answers, broken)
                self.assertTrue(all(a.status in (400, 413) for a in answers), broken)

    def test_curl_asks_before_it_sends_much(self):
        body = json.dumps(ask(max_tokens=2)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
        with self.server.socket(head + b"Expect: 100-continue\r\n\r\n") as bare:
            self.assertTrue(bare.recv(100).startswith(b"HTTP/1.1 100"))
            bare.sendall(body)
            answer, = read_answers(bare, 1)
        self.assertEqual(answer.status, 200)

    def test_one_connection_takes_many_requests(self):
        with self.server.socket() as bare:  # one after another, errors among them
            for data, status in ((b"GET /health HTTP/1.1\r\n\r\n", 200),
                                 (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
                                 (self.server.post_bytes(CHAT, ask(max_tokens=3)), 200),
                                 (self.server.post_bytes(CHAT, {}), 400),
                                 (self.server.post_bytes(CHAT, ask(stream=True)), 200),
                                 (b"GET /v1/models HTTP/1.1\r\n\r\n", 200)):
                bare.sendall(data)
                answer, = read_answers(bare, 1)
                self.assertEqual(answer.status, status, data[:60])
        # All at once: answered in order.
        words = ("One", "Two", "Six")
        pieces = [self.server.post_bytes(COMPLETIONS, prompt(word)) for word in words]
        data = b"GET /health HTTP/1.1\r\n\r\n" + b"".join(pieces)
        answers = self.server.exchange(data, 4)
        self.assertEqual([answer.status for answer in answers], [200] * 4)
        for word, answer in zip(words, answers[1:]):
            self.assertEqual(answer.text, self.server.post(COMPLETIONS, prompt(word)).text)


class Starting(unittest.TestCase):
    def test_a_port_that_is_taken(self):
        server = Server()
        self.addCleanup(server.end)
        result = specbound("serve", "-m", DEMO, "--port", str(server.port))
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        self.assertIn(f"127.0.0.1 port {server.port}".encode(), result.stderr)

    def test_a_host_that_is_none_of_ours(self):
        for host in ("192.0.2.1", "not a host", "a" * 300):
            result = specbound("serve", "-m", DEMO, "--port", "0", "--host", host)
            self.assertIn(result.returncode, (1, 2), host)
            self.assertNotIn(b"listening", result.stderr)
            self.assertIn(host[:40].encode(), result.stderr)

    def test_flags_out_of_range(self):
        for flags in (("--port", "65536"), ("--port", "-1"), ("--port", "http"), ("--host", ""),
                      ("--max-queue", "-1"), ("--max-queue", "x"), ("--timeout", "-1"),
                      ("--timeout", "nan"), ("--max-body", "0"), ("--max-body", "1e400"),
                      ("--alias", ""), ("--temp", "-1"), ("--api-key", ""), ("--cors", ""),
                      ("--cors", "example.org"), ("--cors", "https://a/b"), ("surplus",)):
            result = specbound("serve", "-m", DEMO, "--port", "0", *flags)
            self.assertEqual((result.returncode, result.stdout), (2, b""), (flags, result.stderr))

    def test_a_model_that_is_not_there(self):
        result = specbound("serve", "-m", "/nowhere/model.gguf", "--port", "0")
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertIn(b"/nowhere/model.gguf", result.stderr)


if __name__ == "__main__":
    unittest.main()
