#!/usr/bin/env python3
"""specbound serve: logarithms of probabilities, whole and streamed, of chats and of completions.
They are the model's own: the same bytes with speculation and without, and no setting of sampling
is in them."""
import math
import unittest

from serve_client import CHAT, COMPLETIONS, ServerCase, ask, delta_of, prompt
from specbound_process import LENS, STORIES

LONG = "I want to book a flight to Oslo, and a hotel for three nights."


def told(answer):
    """The logprobs of an answer's one reply."""
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json["choices"][0]["logprobs"]


def choices_bytes(answer):
    """As they were sent, up to the figures behind them."""
    return answer.body[answer.body.index(b'"choices":'):answer.body.index(b'"usage":')]


class Chats(ServerCase):
    def test_one_for_each_token_and_its_bytes_are_the_text(self):
        for top in (0, 1, 5, 20):
            answer = self.server.post(CHAT, ask(LONG, logprobs=True, top_logprobs=top))
            content = told(answer)["content"]
            self.assertEqual(len(content), answer.json["usage"]["completion_tokens"])
            said = b"".join(bytes(entry["bytes"]) for entry in content).decode()
            self.assertEqual(said.removeprefix(" "), answer.text)
            for entry in content:
                self.assertEqual(bytes(entry["bytes"]).decode("utf-8", "replace"), entry["token"])
                likely = [each["logprob"] for each in entry["top_logprobs"]]
                self.assertEqual(len(likely), top)
                self.assertEqual(likely, sorted(likely, reverse=True))
                self.assertLessEqual(sum(map(math.exp, likely)), 1 + 1e-9)
                if top:  # greedy: the likeliest
                    best = {key: entry[key] for key in ("token", "logprob", "bytes")}
                    self.assertEqual(entry["top_logprobs"][0], best)
            self.assertEqual(answer.text, self.server.post(CHAT, ask(LONG)).text)

    def test_nothing_where_nobody_asks(self):
        for fields in ({}, {"logprobs": False}, {"logprobs": None, "top_logprobs": 0}):
            self.assertIsNone(told(self.server.post(CHAT, ask(**fields))))
            events = self.server.stream(CHAT, ask(**fields)).events()
            self.assertEqual({e["choices"][0]["logprobs"] for e in events}, {None})

    def test_sampling_is_not_in_them(self):
        def first(**fields):
            body = ask(LONG, logprobs=True, top_logprobs=20, max_tokens=1, **fields)
            return told(self.server.post(CHAT, body))["content"][0]

        plain = first()
        for fields in ({"temperature": 2, "seed": 1}, {"temperature": 1, "top_k": 1},
                       {"logit_bias": {"300": 100}}, {"repeat_penalty": 1.5},
                       {"temperature": 1, "top_p": 0.1, "presence_penalty": 2}):
            self.assertEqual(first(**fields)["top_logprobs"], plain["top_logprobs"], fields)
        unlikely = first(logit_bias={"300": 100})
        self.assertLess(unlikely["logprob"], plain["logprob"])
        self.assertNotEqual(unlikely["token"], plain["token"])

    def test_the_probability_of_each_token_is_that_of_its_place(self):
        """Asked for again, one at a time, behind the text before it."""
        ids = self.server.post("/tokenize", {"content": LONG, "add_special": True}).json["tokens"]
        whole = told(self.server.post(COMPLETIONS, prompt(ids, logprobs=0, max_tokens=6)))
        for i in range(6):
            one = told(self.server.post(COMPLETIONS, prompt(ids, logprobs=1, max_tokens=1)))
            self.assertEqual(one["token_logprobs"][0], whole["token_logprobs"][i], i)
            self.assertEqual(one["tokens"][0], whole["tokens"][i])
            pieces = self.server.post("/tokenize", {"content": one["tokens"][0].lstrip(" "),
                                                    "with_pieces": True}).json["tokens"]
            same = [p["id"] for p in pieces if p["piece"] == one["tokens"][0]]
            if len(pieces) != 1 or len(same) != 1:
                break  # the text of the token alone is another one
            ids.append(same[0])
        self.assertGreater(i, 0)

    def test_a_stop_string_hides_text_and_no_token(self):
        words = self.server.post(CHAT, ask(LONG)).text.split()
        body = ask(LONG, stop=[words[2]], logprobs=True)
        answer = self.server.post(CHAT, body)
        content = told(answer)["content"]
        self.assertEqual(len(content), answer.json["usage"]["completion_tokens"])
        said = "".join(entry["token"] for entry in content).removeprefix(" ")
        self.assertTrue(said.startswith(answer.text + words[2]), (said, answer.text))
        events = self.server.stream(CHAT, body).events()
        streamed = [entry for event in events
                    for entry in (event["choices"][0]["logprobs"] or {}).get("content", [])]
        self.assertEqual(streamed, content)


class SameBytes(ServerCase):
    FLAGS = LENS  # drafts much, and is often wrong

    def test_speculation_and_streams_change_no_byte(self):
        drafted = 0
        for seed in range(4):
            for path, body in ((CHAT, ask(LONG, logprobs=True, top_logprobs=4)),
                               (COMPLETIONS, prompt(LONG, logprobs=4))):
                body |= {"seed": seed, "temperature": 0.5 * seed, "max_tokens": 40,
                         "frequency_penalty": 0.3 * (seed % 2)}
                plain = self.server.post(path, {**body, "speculation": False})
                fast = self.server.post(path, {**body, "speculation": True})
                self.assertEqual(choices_bytes(fast), choices_bytes(plain), body)
                drafted += fast.json["timings"]["draft_n"]
                events = [event["choices"][0] for event in self.server.stream(path, body).events()]
                joined = {}
                for part in filter(None, (choice["logprobs"] for choice in events)):
                    for key, values in part.items():
                        joined[key] = joined.get(key, []) + values if values else values
                self.assertEqual(joined, told(plain))
        self.assertGreater(drafted, 0)


class Completions(ServerCase):
    MODEL = STORIES

    def test_the_form(self):
        for top in (0, 3, 20):
            answer = self.server.post(COMPLETIONS, prompt("Once", logprobs=top, temperature=1,
                                                          seed=top, max_tokens=40))
            logprobs = told(answer)
            n = answer.json["usage"]["completion_tokens"]
            self.assertEqual(set(logprobs),
                             {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
            self.assertEqual({len(values) for values in logprobs.values()}, {n})
            for token, logprob, likely, offset in zip(*logprobs.values(), strict=True):
                self.assertEqual(likely[token], logprob)
                self.assertIn(len(likely), (max(top, 1), top + 1))
                self.assertTrue(answer.text[offset:].startswith(token) or offset == 0, token)
            self.assertEqual(logprobs["text_offset"], sorted(logprobs["text_offset"]))

    def test_bytes_that_are_no_text(self):
        wild = {"temperature": 50, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 1}
        body = prompt("Once", **wild, max_tokens=200, logprobs=2)
        answer = self.server.post(COMPLETIONS, body)
        logprobs = told(answer)
        parts = [token for token in logprobs["tokens"] if token.startswith("bytes:")]
        self.assertTrue(parts)
        for token in parts:
            self.assertRegex(token, r"^bytes:(\\x[0-9a-f]{2})+$")
        for token, offset in zip(logprobs["tokens"][1:], logprobs["text_offset"][1:], strict=True):
            if not token.startswith("bytes:"):
                self.assertEqual(answer.text[offset:offset + len(token)], token)
        text = "".join(map(delta_of, self.server.stream(COMPLETIONS, body).events()))
        self.assertEqual(text, answer.text)


if __name__ == "__main__":
    unittest.main()
