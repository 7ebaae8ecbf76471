#!/usr/bin/env python3
"""specbound serve: /v1/embeddings, from the outside."""
import base64
import math
import struct
import unittest

from serve_client import CHAT, ServerCase, ask, together
from specbound_process import STORIES

EMBEDDINGS = "/v1/embeddings"
LONG = "I want to book a flight to Oslo, and a hotel for three nights."


def product(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


class Embeddings(ServerCase):
    FLAGS = ("--alias", "demo")

    def embed(self, text, **fields):
        answer = self.server.post(EMBEDDINGS, {"input": text, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def vectors(self, text, **fields):
        return [entry["embedding"] for entry in self.embed(text, **fields)["data"]]

    def test_the_form(self):
        answer = self.embed([LONG, "Hello!"])
        self.assertEqual(set(answer), {"object", "data", "model", "usage"})
        self.assertEqual((answer["object"], answer["model"]), ("list", "demo"))
        self.assertEqual([(e["object"], e["index"]) for e in answer["data"]],
                         [("embedding", 0), ("embedding", 1)])
        for entry in answer["data"]:
            self.assertAlmostEqual(product(entry["embedding"], entry["embedding"]), 1, delta=1e-5)
        n = sum(len(self.server.post("/tokenize", {"content": text, "add_special": True})
                    .json["tokens"]) for text in (LONG, "Hello!"))
        self.assertEqual(answer["usage"], {"prompt_tokens": n, "total_tokens": n})
        self.assertEqual(self.embed("x", model="gpt", user="me")["model"], "gpt")

    def test_texts_and_ids_alone_and_together(self):
        one, = self.vectors(LONG)
        ids = self.server.post("/tokenize", {"content": LONG, "add_special": True}).json["tokens"]
        other, = self.vectors("Hello!")
        self.assertEqual(self.vectors(ids), [one])
        self.assertEqual(self.vectors([LONG]), [one])
        self.assertEqual(self.vectors(["Hello!", ids, LONG]), [other, one, one])
        self.assertNotEqual(one, other)

    def test_base64_is_the_same_numbers(self):
        one, = self.vectors(LONG)
        text, = self.vectors(LONG, encoding_format="base64")
        data = base64.b64decode(text, validate=True)
        self.assertEqual(struct.pack(f"<{len(one)}f", *one), data)
        self.assertEqual(self.vectors(LONG, dimensions=len(one), encoding_format="float"), [one])

    def test_texts_that_are_alike_are_near(self):
        table, also, film = self.vectors(["I need a table for two tonight.",
                                          "I need a table for four tomorrow.",
                                          "Which films are shown in the cinema?"])
        self.assertGreater(product(table, also), product(table, film))
        self.assertTrue(all(map(math.isfinite, table)))

    def test_replies_beside_them_stay_what_they_are(self):
        want = self.server.post(CHAT, ask(LONG)).text
        one, = self.vectors(LONG)

        def both():
            for _ in range(4):
                self.assertEqual(self.server.post(CHAT, ask(LONG)).text, want)
                self.assertEqual(self.vectors([LONG]), [one])

        together([both] * 3)
        self.assertGreater(self.server.metric("specbound_embeddings_total"), 12)

    def test_what_is_refused(self):
        for param, fields in (("input", {}), ("input", {"input": []}), ("input", {"input": 1}),
                              ("input", {"input": [4096]}), ("input[1]", {"input": ["a", 1]}),
                              ("input[0]", {"input": [[-1]]}), ("input", {"input": ["a"] * 2049}),
                              ("encoding_format", {"input": "a", "encoding_format": "hex"}),
                              ("dimensions", {"input": "a", "dimensions": 3})):
            answer = self.server.post(EMBEDDINGS, fields)
            self.assertEqual((answer.status, answer.error["param"]), (400, param), answer.body)
        for param, text in (("input", "many words " * 2000), ("input[1]", ["a", [5] * 769])):
            error = self.server.post(EMBEDDINGS, {"input": text}).error
            self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", param))
            self.assertIn("768", error["message"])
        self.assertEqual(len(self.vectors([5] * 768)), 1)  # the whole context
        self.assertEqual(self.server.get(EMBEDDINGS).status, 405)


class AnyModel(ServerCase):
    MODEL = STORIES

    def test_an_empty_text_is_its_first_token(self):
        answer = self.server.post(EMBEDDINGS, {"input": ""}).json
        self.assertEqual(answer["usage"]["prompt_tokens"], 1)
        self.assertEqual(len(answer["data"][0]["embedding"]), 64)


if __name__ == "__main__":
    unittest.main()
