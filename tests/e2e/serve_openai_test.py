#!/usr/bin/env python3
"""specbound serve under the programs that people use: the commands of docs/server.md, run as they
stand there, and the official `openai` package, where it can be imported.
packaging/test.sh puts that into build/openai."""
import asyncio
import contextlib
import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from endless_model import CONTEXT, make_endless_model
from serve_client import CHAT, COMPLETIONS, WAITING, Server, ask, prompt, wait_until
from specbound_process import ROOT, TIMEOUT, FolderCase

# The server is on this machine, whatever proxy there is.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
sys.path[:0] = glob.glob(os.path.join(
    ROOT, "build/openai/lib/python{}.{}/site-packages".format(*sys.version_info)))
try:
    import openai
except ImportError:
    openai = None
NO_OPENAI = "SKIP: the openai package cannot be imported; packaging/test.sh installs it"
MESSAGES = ask()["messages"]


def page():
    """docs/server.md."""
    with open(os.path.join(ROOT, "docs/server.md"), encoding="utf-8") as file:
        return file.read()


def code_blocks():
    """(language, text) of each on that page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page(), re.MULTILINE | re.DOTALL)


class Docs(FolderCase):
    """Every line of its code blocks is run by one of these."""

    def setUp(self):
        super().setUp()
        with open(self.path("keys.txt"), "w", encoding="ascii") as file:
            file.write("a-long-random-text\n")
        self.lines = [line for language, text in code_blocks() if not language
                      for line in text.replace("\\\n", "").splitlines()]
        starts = [line for line in self.lines if line.startswith("specbound serve ")]
        self.commands = [line for line in self.lines if line not in starts]
        self.servers = []
        for line in starts:
            flags = shlex.split(line, comments=True)[2:]
            self.assertEqual(flags[:2], ["-m", "model.gguf"])
            self.servers.append(Server(*[self.path(f) if f == "keys.txt" else f for f in flags[2:]],
                                       "--port", "0"))
            self.addCleanup(self.servers[-1].end)

    def run_line(self, line, server):
        there = line.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
        self.assertNotEqual(there, line)
        result = subprocess.run(["bash", "-c", there], cwd=self.folder, timeout=TIMEOUT,
                                stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(result.returncode, 0, (line, result.stderr))
        return result.stdout.decode()

    @unittest.skipUnless(shutil.which("curl"), "SKIP: no curl")
    def test_curl(self):
        self.assertTrue(all(line.startswith("curl ") for line in self.commands), self.commands)
        plain, keyed = self.servers
        said = [self.run_line(line, keyed if "keys.txt" in line else plain)
                for line in self.commands]
        self.assertEqual(len(said), 3)
        self.assertIn('"object":"chat.completion"', said[0])
        self.assertTrue(said[1].startswith('data: {"id":"chatcmpl-'))
        self.assertTrue(said[1].endswith("data: [DONE]\n\n"))
        self.assertIn('"object":"list"', said[2])
        for line in self.commands:  # the key is needed, and only there
            answer = self.run_line(line.replace("keys.txt", "/dev/null"), keyed)
            self.assertIn("invalid_api_key", answer)

    @unittest.skipUnless(openai, NO_OPENAI)
    def test_python(self):
        blocks = [text for language, text in code_blocks() if language == "python"]
        self.assertEqual(len(blocks), 1)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(blocks[0].replace(":8080", f":{self.servers[0].port}"), {})
        want = self.servers[0].post(CHAT, {"messages": MESSAGES, "temperature": 0}).text
        self.assertEqual(out.getvalue().splitlines()[0], want)
        self.assertRegex(out.getvalue().splitlines()[1], r"^\d+(\.\d+)? tokens a second")

    def test_routes(self):
        """Its table names what there is."""
        routes = re.findall(r"^\| `(GET|POST) (\S+)` \|", page(), re.MULTILINE)
        self.assertGreaterEqual(len(routes), 8)
        name = self.servers[0].get("/v1/models").json["data"][0]["id"]
        for method, path in routes:
            path = path.replace("{model}", name)
            status = self.servers[0].request(method, path, {} if method == "POST" else None).status
            self.assertEqual(status, 400 if method == "POST" else 200, path)


@unittest.skipUnless(openai, NO_OPENAI)
class OpenAI(FolderCase):
    """Everything through the package; what it gives is held against the bare answers."""

    def setUp(self):
        super().setUp()
        self.server = Server("--api-key", "secret", "--alias", "demo")
        self.server.key = "secret"
        self.addCleanup(self.server.end)

    def client(self, server=None, key="secret"):
        server = server or self.server
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key,
                               timeout=TIMEOUT, max_retries=0)
        self.addCleanup(client.close)
        return client

    def test_chats(self):
        want = self.server.post(CHAT, ask()).json
        reply = self.client().chat.completions.create(
            model="demo", messages=MESSAGES, temperature=0, max_completion_tokens=24, user="me",
            metadata={"a": "b"}, extra_body={"speculation": False})
        self.assertEqual(reply.object, "chat.completion")
        self.assertEqual(reply.choices[0].message.role, "assistant")
        self.assertEqual(reply.choices[0].message.content, want["choices"][0]["message"]["content"])
        self.assertEqual(reply.choices[0].finish_reason, want["choices"][0]["finish_reason"])
        self.assertEqual(reply.usage.total_tokens, want["usage"]["total_tokens"])
        self.assertGreater(reply.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertFalse(reply.model_extra["timings"]["speculation"]["active"])

    def test_streams(self):
        want = self.server.post(CHAT, ask()).json
        chunks = list(self.client().chat.completions.create(
            model="demo", messages=MESSAGES, temperature=0, max_tokens=24, stream=True,
            stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, want["choices"][0]["message"]["content"])
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-1].usage.completion_tokens, want["usage"]["completion_tokens"])
        # Its helper puts the chunks together by itself.
        with self.client().chat.completions.stream(model="demo", messages=MESSAGES, temperature=0,
                                                   max_tokens=24) as stream:
            whole = stream.get_final_completion()
        self.assertEqual(whole.choices[0].message.content, text)
        # Left in the middle.
        stream = self.client().chat.completions.create(
            model="demo", messages=MESSAGES, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.server.wait_idle()

    def test_completions(self):
        want = self.server.post(COMPLETIONS, prompt(stop=["."])).json
        create = self.client().completions.create
        reply = create(model="demo", prompt=prompt()["prompt"], temperature=0, max_tokens=24,
                       stop=["."])
        self.assertEqual(reply.choices[0].text, want["choices"][0]["text"])
        chunks = create(model="demo", prompt=prompt()["prompt"], temperature=0, max_tokens=24,
                        stop=".", stream=True)
        self.assertEqual("".join(c.choices[0].text for c in chunks), reply.choices[0].text)

    def test_logprobs(self):
        asked = dict(model="demo", temperature=0, max_tokens=6)
        chat = self.client().chat.completions.create(messages=MESSAGES, logprobs=True,
                                                     top_logprobs=3, **asked)
        content = chat.choices[0].logprobs.content
        self.assertEqual(len(content), 6)
        for entry in content:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertEqual(entry.top_logprobs[0].token, entry.token)
            self.assertLessEqual(entry.logprob, 0)
        old = self.client().completions.create(prompt="Hello", logprobs=2, **asked)
        self.assertEqual(len(old.choices[0].logprobs.tokens), 6)
        self.assertEqual(len(old.choices[0].logprobs.top_logprobs[0]), 2)

    def test_embeddings(self):
        create = self.client().embeddings.create
        floats = create(model="demo", input=["Hello", "there"], encoding_format="float")
        self.assertEqual([entry.index for entry in floats.data], [0, 1])
        # Without a format the package asks for base64, and reads it.
        default = create(model="demo", input=["Hello", "there"])
        for one, other in zip(floats.data, default.data, strict=True):
            self.assertEqual(len(one.embedding), len(other.embedding))
            for x, y in zip(one.embedding, other.embedding, strict=True):
                self.assertAlmostEqual(x, y, delta=1e-6)
        self.assertEqual(floats.usage.total_tokens, default.usage.total_tokens)

    def test_several_replies(self):
        asked = dict(model="demo", messages=MESSAGES, temperature=1, seed=4, max_tokens=16, n=3)
        reply = self.client().chat.completions.create(**asked)
        texts = [choice.message.content for choice in reply.choices]
        self.assertEqual([choice.index for choice in reply.choices], [0, 1, 2])
        self.assertEqual(len(set(texts)), 3)
        streamed = [""] * 3
        for chunk in self.client().chat.completions.create(**asked, stream=True):
            for choice in chunk.choices:
                streamed[choice.index] += choice.delta.content or ""
        self.assertEqual(streamed, texts)

    def test_models(self):
        self.assertEqual([model.id for model in self.client().models.list()], ["demo"])
        self.assertEqual(self.client().models.retrieve("demo").id, "demo")
        with self.assertRaises(openai.NotFoundError):
            self.client().models.retrieve("gpt-4o")

    def test_many_at_once(self):
        async def all_of_them():
            url = f"http://127.0.0.1:{self.server.port}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="secret", max_retries=0) as client:
                calls = [client.chat.completions.create(model="demo", messages=MESSAGES,
                                                        temperature=0, max_tokens=24)
                         for _ in range(8)]
                return [reply.choices[0].message.content for reply in await asyncio.gather(*calls)]

        self.assertEqual(set(asyncio.run(all_of_them())), {self.server.post(CHAT, ask()).text})

    def test_errors_have_their_classes(self):
        chats = self.client().chat.completions
        with self.assertRaises(openai.AuthenticationError) as wrong:
            self.client(key="wrong").models.list()
        self.assertEqual(wrong.exception.code, "invalid_api_key")
        with self.assertRaises(openai.BadRequestError) as bad:
            chats.create(model="demo", messages=MESSAGES, n=9)
        self.assertEqual((bad.exception.param, bad.exception.type), ("n", "invalid_request_error"))
        with self.assertRaises(openai.BadRequestError) as long:
            chats.create(model="demo", messages=[{"role": "user", "content": "many " * 2000}])
        self.assertEqual(long.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError):
            chats.create(model="demo", messages=MESSAGES, stream=True, temperature=-1)
        with self.assertRaises(openai.NotFoundError):
            self.client().moderations.create(model="demo", input="x")

    def test_a_full_queue_is_a_rate_limit(self):
        model = make_endless_model(self.folder)
        server = Server("--max-queue", "1", "--parallel", "1", "-c", str(CONTEXT), model=model)
        self.addCleanup(server.end)
        client = self.client(server)
        endless = dict(model="demo", prompt="x", temperature=0, stream=True)
        running = client.completions.create(**endless)
        next(iter(running))
        with server.socket(server.post_bytes(COMPLETIONS, prompt())):
            wait_until(lambda: server.metric(WAITING) == 1, "one waiting")
            with self.assertRaises(openai.RateLimitError) as full:
                client.completions.create(**endless)
            self.assertGreaterEqual(int(full.exception.response.headers["retry-after"]), 1)
            running.close()
        server.wait_idle()


if __name__ == "__main__":
    unittest.main()
