#!/usr/bin/env python3
"""The chat page of specbound serve: what is sent of it, and in a headless Chromium that it chats,
stops, shows exits and errors. SKIP without a Chromium."""
import tempfile
import unittest

import chromium
from endless_model import CONTEXT, make_endless_model
from scripted_model import make_scripted_model
from serve_client import CHAT, Server, ask
from specbound_process import DEMO

QUESTION = "I need a table for two tonight."


class Sent(unittest.TestCase):
    def test_anyone_gets_the_page_and_nothing_else_without_a_key(self):
        server = Server("--api-key", "k")
        self.addCleanup(server.end)
        page = server.get("/")
        self.assertEqual(page.status, 200)
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        policy = page.headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertIn("connect-src 'self'", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertTrue(page.body.startswith(b"<!DOCTYPE html>"))
        self.assertTrue(page.body.endswith(b"</html>\n"))
        self.assertNotIn(b"http:", page.body)  # nothing from elsewhere
        self.assertNotIn(b"https:", page.body)
        self.assertEqual(server.request("HEAD", "/").status, 200)
        self.assertEqual(server.get("/v1/models").status, 401)

    def test_exits_say_which_layer_a_stream_s_text_was_drafted_at(self):
        server = Server("--controller", "off")  # drafts, however slow that is
        self.addCleanup(server.end)
        plain = server.stream(CHAT, ask(speculation=True)).text()
        events = server.stream(CHAT, ask(speculation=True, exits=True)).events()
        parts = [c for e in events[:-1] for c in e["choices"] if c["delta"].get("content")]
        self.assertEqual("".join(c["delta"]["content"] for c in parts), plain)
        layers = [c["exit_layer"] for c in parts]
        self.assertTrue(any(layer is not None for layer in layers), layers)
        self.assertTrue(all(layer is None or 0 <= layer < 16 for layer in layers), layers)
        self.assertGreater(len(set(layers)), 1)
        without = server.stream(CHAT, ask(speculation=False, exits=True)).events()
        self.assertEqual({c["exit_layer"] for e in without[:-1] for c in e["choices"]
                          if c["delta"].get("content")}, {None})
        for e in server.stream(CHAT, ask()).events()[:-1]:
            self.assertTrue(all("exit_layer" not in c for c in e["choices"]))
        whole = server.post(CHAT, ask(exits=True))
        self.assertEqual(whole.status, 400)
        self.assertEqual(whole.json["error"]["param"], "exits")


@unittest.skipUnless(chromium.PROGRAM, "no Chromium")
class Chats(unittest.TestCase):
    def open(self, *flags, model=DEMO, says=None):
        self.server = Server(*flags, model=model)
        self.addCleanup(self.server.end)
        page = chromium.Page(f"http://127.0.0.1:{self.server.port}/")
        self.addCleanup(page.close)
        page.wait(says or "document.title.endsWith(' - SpecBound')")
        return page

    def send(self, page, text):
        page.value("text.focus()")
        page.type(text)
        page.press("Enter")

    def reply(self, page, number):
        """The text of reply `number`, once it is over."""
        page.wait(f"running === null && chat.querySelectorAll('.assistant').length > {number}")
        return page.value(f"chat.querySelectorAll('.assistant > .body')[{number}].textContent")

    def test_it_chats_turn_by_turn(self):
        page = self.open("--temp", "0", "-n", "24")
        self.send(page, QUESTION)
        first = self.reply(page, 0)
        expected = self.server.post(CHAT, ask(QUESTION)).json["choices"][0]["message"]["content"]
        self.assertEqual(first, expected)
        figures = page.value("chat.querySelector('.figures').textContent")
        self.assertRegex(figures, r"^\d+ tokens, [\d.]+ a second")
        self.send(page, "Thank you.")
        second = self.reply(page, 1)
        turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": first},
                 {"role": "user", "content": "Thank you."}]
        answer = self.server.post(CHAT, {**ask(), "messages": turns}).json
        self.assertEqual(second, answer["choices"][0]["message"]["content"])
        page.value("at('new').click()")
        self.assertEqual(page.value("chat.querySelectorAll('.message').length"), 0)
        self.send(page, QUESTION)
        self.assertEqual(self.reply(page, 0), first)

    def test_exits_are_coloured(self):
        page = self.open("--temp", "0", "-n", "24", "--controller", "off")  # drafts for certain
        self.send(page, QUESTION)
        self.reply(page, 0)
        line = ("getComputedStyle(chat.querySelector('[data-exit]')).borderBottomStyle")
        self.assertEqual(page.value(line), "none")
        page.value("at('show-exits').click()")
        self.assertEqual(page.value(line), "solid")
        self.assertEqual(page.value("getComputedStyle(at('legend')).display"), "block")

    def test_a_reply_is_stopped(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        page = self.open("--temp", "0", "-c", str(CONTEXT), model=make_endless_model(folder.name))
        self.send(page, QUESTION)
        page.wait("chat.querySelector('.assistant > .body').textContent.length > 20")
        page.value("at('stop').click()")
        words = self.reply(page, 0)
        self.assertIn("stopped", page.value("chat.querySelector('.assistant').textContent"))
        self.assertTrue(words)
        self.send(page, "Again.")
        page.wait("chat.querySelectorAll('.assistant > .body')[1].textContent.length > 20")

    def test_what_the_model_says_is_text(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pieces = ["<img src=x ", "onerror=\"document.title='run'\">"]
        template = "{% for m in messages %}{{ m.content }}{% endfor %}<|go|>"
        model = make_scripted_model(folder.name, template, {"<|go|>": pieces})
        page = self.open("--temp", "0", "-n", "8", model=model)
        self.send(page, "".join(pieces))
        self.assertEqual(self.reply(page, 0), "".join(pieces))
        self.assertEqual(page.value("chat.querySelectorAll('img').length"), 0)
        self.assertNotEqual(page.value("document.title"), "run")

    def test_errors_are_shown_and_the_message_comes_back(self):
        page = self.open("--temp", "0", "-n", "8", "-c", "64")
        long = "word " * 200
        self.send(page, long)
        self.reply(page, 0)
        self.assertIn("context", page.value("chat.querySelector('.error').textContent"))
        self.assertEqual(page.value("text.value").strip(), long.strip())

    def test_a_key_is_asked_for(self):
        page = self.open("--api-key", "k", "--temp", "0", "-n", "8",
                         says="document.body && document.body.innerText.includes('API key:')")
        page.value("at('key').value = 'k'")
        page.wait("document.title.endsWith(' - SpecBound')")
        self.send(page, QUESTION)
        self.assertTrue(self.reply(page, 0))


if __name__ == "__main__":
    unittest.main()
