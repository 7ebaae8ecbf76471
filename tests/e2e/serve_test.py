#!/usr/bin/env python3
"""specbound serve, from the outside: routes, texts, streams, stop strings, figures, keys, metrics.
What is refused is in serve_errors_test.py, broken and many clients are in serve_clients_test.py."""
import json
import tempfile
import unittest

from serve_client import (CHAT, COMPLETIONS, DONE, GENERATED, PROMPT, WAITING, Server, ServerCase,
                          ask, delta_of, prompt, together)
from specbound_process import DEMO, LENS, STORIES, specbound

LONG = "I want to book a flight to Oslo, and a hotel for three nights."


def said_by_run(*flags, model=DEMO):
    """What `specbound run` says, without the newline behind it."""
    result = specbound("run", "-m", model, *flags)
    assert result.returncode == 0, result.stderr
    return result.stdout[:-1].decode("utf-8", "replace")


class Routes(ServerCase):
    FLAGS = ("--alias", "demo")

    def test_health_and_what_there_is(self):
        health = self.server.get("/health")
        self.assertEqual((health.status, health.json), (200, {"status": "ok"}))
        self.assertTrue(health.headers["Content-Type"].startswith("application/json"))
        self.assertIn(CHAT, self.server.get("/nothing").error["message"])

    def test_models_lists_the_one_there_is(self):
        answer = self.server.get("/v1/models")
        self.assertEqual((answer.status, answer.json["object"]), (200, "list"))
        model, = answer.json["data"]
        self.assertEqual((model["id"], model["object"]), ("demo", "model"))
        self.assertIsInstance(model["created"], int)
        self.assertIsInstance(model["owned_by"], str)
        want = {"n_ctx": 768, "n_vocab": 4096, "n_layers": 16, "architecture": "llama"}
        self.assertEqual({key: model["meta"][key] for key in want}, want)

    def test_a_model_is_found_by_its_name(self):
        model, = self.server.get("/v1/models").json["data"]
        self.assertEqual(self.server.get("/v1/models/demo").json, model)
        self.assertEqual(self.server.get("/v1/models/d%65mo?x=1").json, model)
        for name in ("demos", "demo/", "DEMO", "a/b", "%00", "x" * 3000):
            answer = self.server.get("/v1/models/" + name)
            self.assertEqual((answer.status, answer.error["param"], answer.error["code"]),
                             (404, "model", "model_not_found"), name)
            self.assertIn('"demo"', answer.error["message"])
            self.assertLess(len(answer.error["message"]), 1000)
        nested = Server("--alias", "org/model v1")
        self.addCleanup(nested.end)
        for path in ("org/model%20v1", "org%2Fmodel%20v1"):
            self.assertEqual(nested.get("/v1/models/" + path).json["id"], "org/model v1")

    def test_responses_say_what_there_is_instead(self):
        for path in ("/v1/responses", "/v1/responses/resp_1"):
            answer = self.server.post(path, {"input": "Hello", "model": "demo"})
            self.assertEqual(answer.status, 404)
            self.assertIn(CHAT, answer.error["message"])

    def test_queries_and_case_of_headers_do_not_matter(self):
        self.assertEqual(self.server.get("/health?x=%00&y[]=1").status, 200)
        data = json.dumps(ask(max_tokens=4)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost:localhost\r\ncontent-length:{len(data)}\r\n\r\n"
        answer, = self.server.exchange(head.encode() + data)  # and without a type
        self.assertEqual(answer.status, 200, answer.body)

    def test_no_web_page_is_told_that_it_may_read(self):
        answer = self.server.get("/v1/models", Origin="http://example.org")
        self.assertEqual(answer.status, 200)
        self.assertNotIn("Access-Control-Allow-Origin", answer.headers)
        preflight = self.server.request("OPTIONS", CHAT, Origin="http://example.org")
        self.assertEqual(preflight.status, 204)
        self.assertFalse([name for name in preflight.headers if name.startswith("Access-")])

    def test_pages_of_other_origins_have_nothing_done(self):
        for origin in ("http://example.org", "null", "http://localhost:1"):
            for path, body in ((CHAT, ask(max_tokens=1)), ("/tokenize", {"content": "a"})):
                answer = self.server.post(path, body, Origin=origin)
                self.assertEqual(answer.status, 403)
                self.assertEqual(answer.error["code"], "origin_not_allowed")
                self.assertIn(f'"{origin}"; --cors', answer.error["message"])
        for scheme in ("http", "https"):  # its own page, behind a proxy too
            own = f"{scheme}://localhost:{self.server.port}"
            answer = self.server.post(CHAT, ask(max_tokens=1), Origin=own,
                                      Host=f"localhost:{self.server.port}")
            self.assertEqual(answer.status, 200, answer.body)

    def test_tokenize_and_detokenize_are_the_commands(self):
        for text in ("I need a table.", "", " ", "déjà vu 中文 🤗", "a\0b", "x" * 3000):
            tokens = self.server.post("/tokenize", {"content": text}).json["tokens"]
            back = self.server.post("/detokenize", {"tokens": tokens}).json["content"]
            self.assertEqual(back.removeprefix(" "), text.removeprefix(" "))
        text = "I need a table."
        with_bos = self.server.post("/tokenize", {"content": text, "add_special": True}).json
        without = self.server.post("/tokenize", {"content": text}).json["tokens"]
        self.assertEqual(with_bos["tokens"], [1, *without])
        printed = specbound("tokenize", "-m", DEMO, "-p", text).stdout.split()
        self.assertIn([int(t) for t in printed], (without, with_bos["tokens"]))

    def test_pieces_are_text_or_bytes(self):
        tokens = self.server.post("/tokenize", {"content": "a table 🤗", "with_pieces": True}).json
        parts = [token["piece"] for token in tokens["tokens"]]
        data = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in parts)
        self.assertEqual(data.decode().strip(), "a table 🤗")
        ids = self.server.post("/tokenize", {"content": "a table 🤗"}).json["tokens"]
        self.assertEqual([token["id"] for token in tokens["tokens"]], ids)
        for cut in range(len(ids)):  # characters in halves: U+FFFD, and always JSON
            part = self.server.post("/detokenize", {"tokens": ids[:cut]})
            self.assertEqual(part.status, 200, part.body)


class Text(ServerCase):
    def test_a_chat_says_what_run_says(self):
        for words in ("I need a table for two tonight.", LONG, "ünïcödé 中 🤗", ""):
            want = said_by_run("--temp", "0", "-n", "24", "-p", words)
            self.assertEqual(self.server.post(CHAT, ask(words)).text, want, words)
        want = said_by_run("--temp", "0", "-n", "24", "-p", LONG, "--sys", "Be brief.")
        for role in ("system", "developer"):
            messages = [{"role": role, "content": "Be brief."}, {"role": "user", "content": LONG}]
            self.assertEqual(self.server.post(CHAT, ask(messages=messages)).text, want, role)

    def test_a_conversation_says_what_chat_says(self):
        lines = ("I need a taxi.", "To the airport.")
        flags = ("-m", DEMO, "--temp", "0", "-n", "24")
        script = "".join(line + "\n" for line in lines).encode()
        replies = specbound("chat", *flags, stdin=script).stdout.decode().splitlines()
        messages = []
        for line, reply in zip(lines, replies, strict=True):
            messages.append({"role": "user", "content": line})
            text = self.server.post(CHAT, ask(messages=messages)).text
            self.assertEqual(text, reply)
            messages.append({"role": "assistant", "content": text})

    def test_parts_of_a_message_are_its_text(self):
        for parts in ([LONG], ["I need a table.", "Tonight.", "For two."]):
            content = [{"type": "text", "text": part} for part in parts]
            messages = [{"role": "user", "content": content}]
            self.assertEqual(self.server.post(CHAT, ask(messages=messages)).text,
                             self.server.post(CHAT, ask("\n".join(parts))).text)

    def test_a_completion_says_what_run_raw_says(self):
        ids = self.server.post("/tokenize", {"content": LONG, "add_special": True}).json["tokens"]
        want = said_by_run("--raw", "--temp", "0", "-n", "24", "-p", LONG)
        for form in (LONG, [LONG], ids):
            self.assertEqual(self.server.post(COMPLETIONS, prompt(form)).text, want, form)

    def test_sampling_is_that_of_the_flags(self):
        flags = ("--temp", "1.3", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01",
                 "--repeat-penalty", "1.2", "-s", "9", "-n", "32")
        fields = {"temperature": 1.3, "top_k": 40, "top_p": 0.9, "min_p": 0.01,
                  "repeat_penalty": 1.2, "seed": 9, "max_tokens": 32}
        want = said_by_run(*flags, "-p", LONG)
        self.assertEqual(self.server.post(CHAT, ask(LONG, **fields)).text, want)
        # What a request does not say is what the command line would have taken.
        want = said_by_run("-s", "5", "-n", "32", "-p", LONG)
        chat = {"messages": ask(LONG)["messages"], "seed": 5, "max_tokens": 32}
        self.assertEqual(self.server.post(CHAT, chat).text, want)
        for one in ({"top_k": 1}, {"min_p": 1}, {"top_p": 0}):
            self.assertEqual(self.server.post(CHAT, ask(LONG, temperature=1, **one)).text,
                             self.server.post(CHAT, ask(LONG)).text, one)

    def test_the_seed_decides(self):
        wild = {"temperature": 1.5, "max_tokens": 40, "top_k": 0, "top_p": 1, "min_p": 0}
        one, again, other, none, nobody = (
            self.server.post(CHAT, ask(LONG, **wild, **seed)).text
            for seed in ({"seed": 1}, {"seed": 1}, {"seed": 2}, {}, {"seed": None}))
        self.assertEqual(one, again)
        self.assertEqual(len({one, other, none, nobody}), 4)

    def test_lengths(self):
        for fields, n in (({"max_tokens": 1}, 1), ({"max_completion_tokens": 5}, 5),
                          ({"max_tokens": None, "max_completion_tokens": 3}, 3)):
            answer = self.server.post(CHAT, {**ask(), "max_tokens": None, **fields}).json
            self.assertEqual(answer["usage"]["completion_tokens"], n, fields)
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        none = self.server.post(CHAT, ask(max_tokens=0)).json
        self.assertEqual((none["choices"][0]["message"]["content"],
                          none["choices"][0]["finish_reason"]), ("", "length"))
        want = said_by_run("--temp", "0", "-p", ask()["messages"][0]["content"])
        for no_limit in (None, -1):  # until it ends by itself
            whole = self.server.post(CHAT, ask(max_tokens=no_limit)).json
            self.assertEqual(whole["choices"][0]["finish_reason"], "stop")
            self.assertEqual(whole["choices"][0]["message"]["content"], want)

    def test_a_full_context_ends_the_reply(self):
        ids = [1] + [300] * 759
        answer = self.server.post(COMPLETIONS, prompt(ids, max_tokens=None, ignore_eos=True)).json
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["total_tokens"], 768 + 1)  # the last one is not read again

    def test_what_does_not_change_the_text_is_ignored(self):
        more = {"user": "me", "metadata": {"a": "b"}, "store": True, "service_tier": "auto",
                "n": 1, "tools": [], "logit_bias": {}, "logprobs": False, "tool_choice": "none",
                "response_format": {"type": "text"}, "model": "gpt-4o", "stop": None, "seed": None,
                "frequency_penalty": 0, "presence_penalty": 0.0, "top_logprobs": None,
                "parallel_tool_calls": True, "an_unknown_field": [1, {"2": 3}]}
        answer = self.server.post(CHAT, ask(**more))
        self.assertEqual(answer.text, self.server.post(CHAT, ask()).text)
        self.assertEqual(answer.json["model"], "gpt-4o")


class SameBytes(ServerCase):
    """One request, one text: whatever else is served, and however."""
    FLAGS = LENS  # drafts much, and is often wrong

    def test_streamed_speculating_repeated_and_concurrent(self):
        forms = [(CHAT, ask(LONG)), (CHAT, ask("Hello!", max_tokens=40)),
                 (COMPLETIONS, prompt("One two three", max_tokens=40)),
                 (CHAT, ask(LONG, temperature=1.2, seed=3)),
                 (COMPLETIONS, prompt(LONG, temperature=0.9, seed=2 ** 40, repeat_penalty=1.3)),
                 (CHAT, ask(LONG, frequency_penalty=-2, presence_penalty=-2, max_tokens=48)),
                 (COMPLETIONS, prompt(LONG, temperature=0.9, seed=7, frequency_penalty=-1,
                                      logit_bias={"300": 3, "13": -100}))]
        want = [self.server.post(path, {**body, "speculation": False}).text for path, body in forms]
        self.assertEqual(len(set(want)), len(want))

        def from_one_client(number):
            for i in range(2 * len(forms)):
                k = (i + number) % len(forms)
                path, body = forms[k]
                source = f"127.0.0.{1 + number}"
                if (i + number) % 2:
                    text = self.server.stream(path, body, source).text()
                else:
                    text = self.server.post(path, body, source=source).text
                self.assertEqual(text, want[k], (number, i))

        together([lambda n=n: from_one_client(n) for n in range(5)])
        drafted = self.server.post(*forms[0]).json["timings"]
        self.assertGreater(drafted["draft_n"], drafted["draft_n_accepted"])

    def test_a_conversation_beside_others_reads_only_what_is_new(self):
        alone = self.server.post(CHAT, ask(LONG)).json
        again = self.server.post(CHAT, ask(LONG)).json
        self.assertEqual(again["choices"], alone["choices"])
        cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreaterEqual(cached, again["usage"]["prompt_tokens"] - 1)

    def test_conversations_in_turns_go_on_where_they_were(self):
        chats = [[{"role": "user", "content": f"{LONG} {name}?"}] for name in ("Ann", "Bob", "Cy")]
        for turn in range(3):
            for chat in chats:
                reply = self.server.post(CHAT, {"messages": chat, "max_tokens": 12,
                                                "temperature": 0}).json
                usage = reply["usage"]
                fresh = (usage["prompt_tokens"] -
                         usage["prompt_tokens_details"]["cached_tokens"])
                if turn == 2:  # 36 to 41 where one conversation is kept
                    self.assertLess(fresh, 15, usage)
                chat += [reply["choices"][0]["message"], {"role": "user", "content": "And then?"}]


class Streams(ServerCase):
    MODEL, FLAGS = STORIES, ("--chat-template", "chatml")

    def test_the_form_of_a_chat(self):
        stream = self.server.stream(CHAT, ask(max_tokens=12))
        self.assertEqual(stream.status, 200)
        self.assertTrue(stream.headers["Content-Type"].startswith("text/event-stream"))
        events = stream.events()
        for key in ("id", "created", "model", "object"):
            self.assertEqual(len({event[key] for event in events}), 1, key)
        self.assertTrue(events[0]["id"].startswith("chatcmpl-"))
        self.assertEqual(events[0]["object"], "chat.completion.chunk")
        choices = [event["choices"][0] for event in events]
        self.assertEqual({choice["index"] for choice in choices}, {0})
        self.assertEqual(choices[0]["delta"], {"role": "assistant", "content": ""})
        for choice in choices[1:-1]:
            self.assertEqual(list(choice["delta"]), ["content"])
            self.assertIsNone(choice["finish_reason"])
        self.assertEqual((choices[-1]["delta"], choices[-1]["finish_reason"]), ({}, "length"))
        self.assertEqual(events[-1]["timings"]["predicted_n"], 12)
        other = self.server.stream(CHAT, ask(max_tokens=1)).events()
        self.assertNotEqual(other[0]["id"], events[0]["id"])

    def test_the_form_of_a_completion(self):
        events = self.server.stream(COMPLETIONS, prompt(max_tokens=12)).events()
        self.assertEqual({event["object"] for event in events}, {"text_completion"})
        self.assertTrue(all(event["id"].startswith("cmpl-") for event in events))
        reasons = [event["choices"][0]["finish_reason"] for event in events]
        self.assertEqual(reasons, [None] * (len(events) - 1) + ["length"])
        whole = self.server.post(COMPLETIONS, prompt(max_tokens=12))
        self.assertEqual("".join(map(delta_of, events)), whole.text)

    def test_usage_comes_last_where_it_is_asked_for(self):
        for path, body in ((CHAT, ask()), (COMPLETIONS, prompt())):
            usage = self.server.post(path, body).json["usage"]
            options = {"include_usage": True}
            events = self.server.stream(path, {**body, "stream_options": options}).events()
            self.assertEqual(events[-1]["choices"], [])
            for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(events[-1]["usage"][key], usage[key])
            for event in events[:-1]:
                self.assertEqual(len(event["choices"]), 1)
                self.assertIsNone(event.get("usage"))
            for options in (None, {}, {"include_usage": False}):
                events = self.server.stream(path, {**body, "stream_options": options}).events()
                self.assertTrue(all(event["choices"] for event in events))

    def test_characters_are_never_cut_in_two(self):
        # At such a temperature half of the tokens are single bytes.
        wild = {"temperature": 50, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": 300}
        for seed in (1, 2, 3):
            body = prompt("Once", **wild, seed=seed)
            text = self.server.post(COMPLETIONS, body).text
            self.assertIn("\ufffd", text)
            self.assertEqual(self.server.stream(COMPLETIONS, body).text(), text)
            flags = ("--temp", "50", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-n", "300")
            said = said_by_run("--raw", "-p", "Once", "-s", str(seed), *flags, model=STORIES)
            self.assertEqual(text, said)

    def test_http_1_0_gets_a_body_without_chunks(self):
        body = json.dumps(prompt("Once", stream=True)).encode()
        head = f"POST {COMPLETIONS} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        data = b""
        with self.server.socket(head + body) as bare:
            while more := bare.recv(1 << 16):
                data += more
        headers, text = data.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"chunked", headers.lower())
        lines = text.decode().split("\n\n")
        self.assertEqual(lines[-2:], ["data: " + DONE, ""])
        events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        self.assertEqual("".join(map(delta_of, events)),
                         self.server.post(COMPLETIONS, prompt("Once")).text)


class StopStrings(ServerCase):
    MODEL = STORIES
    FLAGS = LENS

    def story(self, **fields):
        return prompt("", max_tokens=100, **fields)

    def check_cut(self, *stop):
        """The story up to the string that is complete first, and of several the longest."""
        text = self.whole
        first = min(text.find(s) + len(s) for s in stop if s in text)
        cut = first - max(len(s) for s in stop if text[:first].endswith(s))
        fields = {"stop": stop[0] if len(stop) == 1 else list(stop)}
        for speculation in (True, False):
            body = self.story(speculation=speculation, **fields)
            answer = self.server.post(COMPLETIONS, body)
            self.assertEqual((answer.text, answer.json["choices"][0]["finish_reason"]),
                             (text[:cut], "stop"), stop)
            events = self.server.stream(COMPLETIONS, body).events()
            self.assertEqual("".join(map(delta_of, events)), text[:cut], stop)
            self.assertEqual(events[-1]["choices"][0]["finish_reason"], "stop")

    def test_a_reply_ends_before_them(self):
        self.__class__.whole = self.server.post(COMPLETIONS, self.story()).text
        self.check_cut("park")
        self.check_cut("O")  # the very first: nothing is left
        self.check_cut("park", "little", "not in it")
        self.check_cut("little girl", "l")
        self.check_cut(*[f"not {i} in it" for i in range(15)], "play")
        for begin in range(0, len(self.whole) - 30, 29):  # across tokens, anywhere
            self.check_cut(self.whole[begin:begin + 1 + begin % 19])

    def test_what_does_not_appear_changes_nothing(self):
        whole = self.server.post(COMPLETIONS, self.story()).text
        for stop in (["zebra"], whole[-8:] + "??", [], None):
            body = self.story(stop=stop)
            self.assertEqual(self.server.post(COMPLETIONS, body).text, whole, stop)
            self.assertEqual(self.server.stream(COMPLETIONS, body).text(), whole, stop)


class Figures(ServerCase):
    FLAGS = ("--controller", "off")  # drafts, however slow that is

    def check(self, body, n_prompt=None):
        usage, timings = body["usage"], body["timings"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual((timings["cache_n"], timings["prompt_n"], timings["predicted_n"]),
                         (cached, usage["prompt_tokens"] - cached, usage["completion_tokens"]))
        for kind in ("prompt", "predicted"):
            n, ms = timings[f"{kind}_n"], timings[f"{kind}_ms"]
            self.assertGreaterEqual(ms, 0)
            each, rate = timings[f"{kind}_per_token_ms"], timings[f"{kind}_per_second"]
            if n == 0 or each is None:
                self.assertEqual((each, rate), (None, None), kind)
            else:
                self.assertAlmostEqual(each * n / ms, 1, delta=1e-3)
                self.assertAlmostEqual(rate * ms / 1000 / n, 1, delta=1e-3)
        speculation = timings["speculation"]
        accepted = speculation["accepted_by_exit_layer"]
        self.assertEqual(sum(accepted.values()), timings["draft_n_accepted"])
        self.assertLessEqual(timings["draft_n_accepted"], timings["draft_n"])
        if timings["draft_n_accepted"]:
            mean = sum(int(k) * v for k, v in accepted.items()) / timings["draft_n_accepted"]
            self.assertAlmostEqual(speculation["mean_exit_layer"], mean, delta=1e-3)
        else:
            self.assertIsNone(speculation["mean_exit_layer"])
        # Each round gives one token of the last layer and the drafts that were right; the end token
        # is one of them and is not counted as completed.
        decoded = speculation["rounds"] + timings["draft_n_accepted"]
        end = body["choices"][0]["finish_reason"] == "stop"
        self.assertIn(decoded - usage["completion_tokens"], (0, 1) if end else (0,))
        if speculation["rounds"]:
            self.assertAlmostEqual(speculation["compression_rate"],
                                   decoded / speculation["rounds"], delta=1e-3)
        return timings

    def test_usage_and_timings_agree(self):
        for fields in ({}, {"max_tokens": 1}, {"max_tokens": 200}, {"temperature": 1, "seed": 4}):
            timings = self.check(self.server.post(CHAT, ask(LONG, **fields)).json)
            self.assertTrue(timings["speculation"]["active"])
        self.assertGreater(timings["draft_n_accepted"], 0)  # the demo model's own heads

    def test_speculation_is_switched_by_request(self):
        off = self.check(self.server.post(CHAT, ask(LONG, speculation=False)).json)
        self.assertEqual((off["draft_n"], off["draft_n_accepted"]), (0, 0))
        self.assertFalse(off["speculation"]["active"])
        on = self.check(self.server.post(CHAT, ask(LONG, speculation=True)).json)
        self.assertTrue(on["speculation"]["active"])
        self.assertLess(on["speculation"]["rounds"], on["predicted_n"])
        self.assertIsNone(off["speculation"]["speedup"])

    def test_the_prompt_is_counted_as_tokenized(self):
        ids = self.server.post("/tokenize", {"content": LONG, "add_special": True}).json["tokens"]
        usage = self.server.post(COMPLETIONS, prompt(LONG)).json["usage"]
        self.assertEqual(usage["prompt_tokens"], len(ids))

    def test_a_model_without_heads_drafts_from_its_text(self):
        for flags, active in ((("--controller", "off"), True),
                              (("--speculator", "specbound"), False)):
            server = Server(*flags, model=STORIES)
            self.addCleanup(server.end)
            timings = self.check(server.post(COMPLETIONS, prompt(max_tokens=200)).json)
            self.assertIs(timings["speculation"]["active"], active)
            self.assertEqual(timings["draft_n"] > 0, active)


class Keys(unittest.TestCase):
    def setUp(self):
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        file.write(b"from-a-file\nanother-one\n\n")
        file.flush()
        keys = ("--api-key", "key-one", "--api-key", "key-two", "--api-key-file", file.name)
        self.server = Server(*keys)
        self.addCleanup(self.server.end)

    def ask_with(self, header):
        headers = {} if header is None else {"Authorization": header}
        return self.server.post(CHAT, ask(max_tokens=1), **headers)

    def test_only_with_a_key(self):
        for key in ("key-one", "key-two", "from-a-file", "another-one"):
            self.assertEqual(self.ask_with("Bearer " + key).status, 200, key)
        wrong = (None, "", "Bearer", "Bearer ", "key-one", "Basic key-one", "Bearer key-on",
                 "Bearer Key-one", "Bearer key-one2", "Bearer key-one,key-two",
                 "Bearer from-a-file\tanother-one")
        for header in wrong:
            answer = self.ask_with(header)
            self.assertEqual(answer.status, 401, header)
            self.assertEqual(answer.error["code"], "invalid_api_key")
            self.assertIn("WWW-Authenticate", answer.headers)

    def test_every_route_but_health_and_the_page(self):
        self.assertEqual(self.server.get("/health").status, 200)
        for method, path in (("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/nothing"),
                              ("POST", "/tokenize"), ("POST", "/detokenize"),
                             ("POST", CHAT), ("POST", COMPLETIONS)):
            body = {} if method == "POST" else None
            self.assertEqual(self.server.request(method, path, body).status, 401, path)
        answer = self.server.get("/v1/models", Authorization="Bearer key-two")
        self.assertEqual(answer.status, 200)

    def test_no_key_is_ever_shown(self):
        seen = self.server.said() + self.ask_with("Bearer wrong-one").body
        self.server.key = "key-one"
        seen += self.server.get("/metrics").body + self.server.get("/").body + self.server.said()
        for key in (b"key-one", b"key-two", b"from-a-file", b"wrong-one"):
            self.assertNotIn(key, seen)

    def test_a_wrong_file_is_an_error(self):
        with tempfile.NamedTemporaryFile() as empty:
            for flags in (("--api-key-file", ""), ("--api-key-file", "/nowhere/keys"),
                          ("--api-key-file", empty.name), ("--api-key", ""), ("--api-key", "a b")):
                result = specbound("serve", "-m", DEMO, "--port", "0", *flags)
                self.assertIn(result.returncode, (1, 2), flags)
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)


class Counters(unittest.TestCase):
    def test_they_add_up(self):
        server = Server("--controller", "off")  # drafts, whatever that costs
        self.addCleanup(server.end)
        answers = [server.post(CHAT, ask(LONG, max_tokens=n)).json for n in (1, 40, 80)]
        answers += [server.post(COMPLETIONS, prompt(LONG, speculation=False)).json]
        server.stream(CHAT, ask(LONG)).events()
        self.assertEqual(server.post(CHAT, b"{").status, 400)
        for path in ("/a", "/b/c", "/%00", "/d" * 200):
            self.assertEqual(server.get(path).status, 404)

        answer = server.get("/metrics")
        self.assertTrue(answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        metrics = server.metrics()
        requests = "specbound_requests_total"
        for path, status, n in ((CHAT, "200", 4), (CHAT, "400", 1), (COMPLETIONS, "200", 1)):
            self.assertEqual(metrics.value(requests, route=path, status=status), n, path)
        self.assertEqual(metrics.value(requests, status="404"), 4)
        self.assertEqual(metrics.value(requests, route="/metrics", status="200"), 1)
        # Whoever asks for nonsense does not make the list longer.
        self.assertLessEqual(len(metrics.by(requests, "route")), 12)

        streamed = server.stream(CHAT, ask(LONG, stream_options={"include_usage": True})).events()
        events = [*answers, streamed[-1], streamed[-1]]  # the same reply was streamed before
        after = server.metrics()
        for name, key in ((PROMPT, "prompt_tokens"), (GENERATED, "completion_tokens")):
            self.assertEqual(after.value(name), sum(event["usage"][key] for event in events), name)
        timings = [answer["timings"] for answer in answers] + 2 * [streamed[-2]["timings"]]
        self.assertEqual(after.value("specbound_accepted_tokens_total"),
                         sum(after.by("specbound_accepted_by_exit_layer_total", "layer").values()))
        for name in ("accepted", "drafted"):
            self.assertGreater(after.value(f"specbound_{name}_tokens_total"), 0)
        self.assertLessEqual(after.value("specbound_accepted_tokens_total"),
                             after.value("specbound_drafted_tokens_total"))
        self.assertGreaterEqual(after.value("specbound_rounds_total"),
                                sum(t["speculation"]["rounds"] for t in timings[:4]))
        for name in ("prefill", "decode"):
            self.assertGreater(after.value(f"specbound_{name}_seconds_total"), 0)
        self.assertEqual(after.value(WAITING), 0)


if __name__ == "__main__":
    unittest.main()
