#!/usr/bin/env python3
"""specbound serve: what a request may ask of its replies beyond sampling: a bias, penalties that
count the reply's tokens, several replies. With speculation the same text as without."""
import unittest

from serve_client import CHAT, COMPLETIONS, ServerCase, ask, delta_of, prompt
from specbound_process import LENS

LONG = "I want to book a flight to Oslo, and a hotel for three nights."


class Penalties(ServerCase):
    FLAGS = LENS  # drafts much, and is often wrong

    def test_a_bias_decides_and_a_penalty_of_the_reply_counts(self):
        def said(**fields):
            return self.server.post(COMPLETIONS, prompt(LONG, **fields)).text.removeprefix(" ")

        def words(token, n):
            answer = self.server.post("/detokenize", {"tokens": [token] * n}).json
            return answer["content"].removeprefix(" ")

        self.assertEqual(said(logit_bias={"300": 100}), words(300, 24))
        self.assertEqual(said(logit_bias={"301": 100, "300": -100}), words(301, 24))
        both = said(logit_bias={"300": 100, "301": 100}, frequency_penalty=2)
        self.assertIn(words(300, 1), both)
        self.assertIn(words(301, 1), both)
        # 2 for each time outweigh a bias at last, 2 for all times do not.
        self.assertEqual(said(logit_bias={"300": 60}, presence_penalty=2), words(300, 24))
        tired = said(logit_bias={"300": 60}, frequency_penalty=2, max_tokens=48)
        self.assertTrue(tired.startswith(words(300, 8)), tired)
        self.assertFalse(tired.startswith(words(300, 40)), tired)

    def test_bias_and_penalties_count_each_rows_own_past(self):
        drafted = accepted = 0
        for seed in range(6):
            for fields in ({"frequency_penalty": 0.8}, {"presence_penalty": -1.5},
                           {"frequency_penalty": -0.4, "repeat_penalty": 1.2,
                            "logit_bias": {"300": 2, "13": -5}}):
                body = ask(LONG, temperature=0.3 * seed, seed=seed, max_tokens=48, **fields)
                plain = self.server.post(CHAT, {**body, "speculation": False}).text
                answer = self.server.post(CHAT, {**body, "speculation": True})
                self.assertEqual(answer.text, plain, body)
                self.assertEqual(self.server.stream(CHAT, body).text(), plain, body)
                drafted += answer.json["timings"]["draft_n"]
                accepted += answer.json["timings"]["draft_n_accepted"]
        self.assertGreater(accepted, 0)
        self.assertGreater(drafted, accepted)


class Several(ServerCase):
    FLAGS = LENS

    def test_several_replies_of_one_request(self):
        wild = {"temperature": 1.2, "seed": 3, "max_tokens": 32}
        for path, body in ((CHAT, ask(LONG, **wild)), (COMPLETIONS, prompt(LONG, **wild))):
            first = self.server.post(path, body)
            answer = self.server.post(path, {**body, "n": 4})
            plain = self.server.post(path, {**body, "n": 4, "speculation": False})
            self.assertEqual(answer.text, first.text)

            def said(choices):
                return [c["message"]["content"] if "message" in c else c["text"] for c in choices]

            choices = answer.json["choices"]
            texts = said(choices)
            self.assertEqual(texts, said(plain.json["choices"]))
            self.assertEqual(texts, said(self.server.post(path, {**body, "n": 4}).json["choices"]))
            self.assertEqual(len(set(texts)), 4)
            self.assertEqual([choice["index"] for choice in choices], [0, 1, 2, 3])
            usage = answer.json["usage"]
            self.assertEqual(usage["prompt_tokens"], first.json["usage"]["prompt_tokens"])
            self.assertEqual(usage["completion_tokens"],
                             sum(choice["timings"]["predicted_n"] for choice in choices))
            self.assertNotIn("timings", answer.json)

            options = {"stream_options": {"include_usage": True}}
            *events, last = self.server.stream(path, {**body, "n": 4, **options}).events()
            self.assertEqual(last["usage"]["completion_tokens"], usage["completion_tokens"])
            streamed, ends = [""] * 4, []
            for event in events:
                index = event["choices"][0]["index"]
                self.assertEqual(index, len(ends))  # in order
                streamed[index] += delta_of(event)
                if event["choices"][0]["finish_reason"]:
                    ends.append(event["timings"]["predicted_n"])
            self.assertEqual(streamed, texts)
            self.assertEqual(ends, [choice["timings"]["predicted_n"] for choice in choices])
        greedy = self.server.post(CHAT, ask(LONG, n=2)).json["choices"]
        self.assertEqual(greedy[0]["message"], greedy[1]["message"])


if __name__ == "__main__":
    unittest.main()
