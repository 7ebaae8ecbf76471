#!/usr/bin/env python3
"""specbound serve --cache-size: conversations stay in memory as far as their K/V fit, the one that
was served longest ago goes first, and what is kept changes no text."""
import unittest

from serve_client import COMPLETIONS, Server
from specbound_process import STORIES, specbound

KEPT, BYTES = "specbound_kept_conversations", "specbound_kept_kv_bytes"
N_PROMPT = 330
# 6 of its blocks of 64 positions, each 5 layers of 4 heads with 8 + 16 numbers of two bytes: two
# conversations fit into a megabyte, three do not.
EACH = 6 * 64 * 5 * 4 * (8 + 16) * 2
# With --kv int8 of one byte, and a scale of two behind each 8 and 16: all three do.
EACH_INT8 = 6 * 64 * 5 * 4 * (8 + 2 + 16 + 2)


class Talk:
    """A conversation by token ids."""

    def __init__(self, number):
        self.ids = [300 + (number + 3) * i % 190 for i in range(1, N_PROMPT + 1)]

    def ask(self, server):
        """Its next reply, and how many tokens were not read again."""
        body = {"prompt": self.ids, "max_tokens": 8, "temperature": 0}
        answer = server.post(COMPLETIONS, body)
        usage = answer.json["usage"]
        assert usage["prompt_tokens"] == len(self.ids), usage
        return answer.text, usage["prompt_tokens_details"]["cached_tokens"]


class CacheSize(unittest.TestCase):
    def start(self, size, *flags):
        server = Server("--cache-size", size, *flags, model=STORIES)
        self.addCleanup(server.end)
        return server

    def kept(self, server):
        metrics = server.metrics()
        return metrics.value(KEPT), metrics.value(BYTES)

    def test_the_one_served_longest_ago_goes_first(self):
        server, forgetful = self.start("1M"), self.start("0")
        talks = [Talk(number) for number in range(3)]
        alone = []
        for talk in talks:
            text, cached = talk.ask(forgetful)
            self.assertEqual(cached, 0)
            alone.append(text)
        self.assertEqual(len(set(alone)), 3)
        self.assertEqual(self.kept(forgetful), (0, 0))
        self.assertEqual(self.kept(server), (0, 0))

        def ask(number, cached):
            text, there = talks[number].ask(server)
            self.assertEqual(text, alone[number])
            self.assertEqual(there, cached)

        ask(0, 0)
        self.assertEqual(self.kept(server), (1, EACH))
        ask(1, 0)
        self.assertEqual(self.kept(server), (2, 2 * EACH))
        ask(2, 0)  # in place of the first
        self.assertEqual(self.kept(server), (2, 2 * EACH))
        ask(1, N_PROMPT - 1)
        ask(2, N_PROMPT - 1)
        ask(0, 0)  # in place of the second
        ask(2, N_PROMPT - 1)
        ask(0, N_PROMPT - 1)
        ask(1, 0)
        # Nor does what is kept depend on who is asked: all of them once more, cold.
        for talk, text in zip(talks, alone):
            self.assertEqual(talk.ask(forgetful), (text, 0))

    def test_kv_of_8_bits_leaves_room_for_more(self):
        server, forgetful = (self.start(size, "--kv", "int8") for size in ("1M", "0"))
        talks = [Talk(number) for number in range(3)]
        texts = [talk.ask(server)[0] for talk in talks]
        self.assertEqual(self.kept(server), (3, 3 * EACH_INT8))
        for talk, text in zip(talks, texts):
            self.assertEqual(talk.ask(server), (text, N_PROMPT - 1))
            self.assertEqual(talk.ask(forgetful), (text, 0))

    def test_by_default_all_fit(self):
        server = Server(model=STORIES)
        self.addCleanup(server.end)
        for cached in (0, N_PROMPT - 1):
            for number in range(3):
                self.assertEqual(Talk(number).ask(server)[1], cached)
        self.assertEqual(self.kept(server), (3, 3 * EACH))

    def test_embeddings_leave_nothing_behind(self):
        server = self.start("1M")
        Talk(0).ask(server)
        self.assertEqual(server.post("/v1/embeddings", {"input": Talk(1).ids}).status, 200)
        server.wait_idle()
        self.assertEqual(self.kept(server), (1, EACH))
        self.assertEqual(Talk(0).ask(server)[1], N_PROMPT - 1)

    def test_sizes_that_are_none(self):
        for size in ("8192", "-1", "1", "1X", "1e9G", "nan", ""):
            run = specbound("serve", "-m", STORIES, "--cache-size", size)
            self.assertEqual(run.returncode, 2, size)
            self.assertIn(b"--cache-size: expected 0 or a size from 1M to 1000T, as 500M or 8G, "
                          b"found \"" + size.encode() + b"\"", run.stderr)


if __name__ == "__main__":
    unittest.main()
