#!/usr/bin/env python3
"""specbound train-heads, from the outside: data good and bad, files, the same seed."""
import json
import lzma
import os
import re
import shlex
import signal
import subprocess
import time
import unittest

from specbound_process import BINARY, DEMO, STORIES, specbound, start
from training_case import DIALOGUES, STORY, TrainHeads, jsonl


class Training(TrainHeads):
    def test_the_command_that_messages_name_works_as_it_is_printed(self):
        model = self.path("it's a model.gguf")
        os.symlink(STORIES, model)
        os.mkdir(self.path("bin"))
        os.symlink(BINARY, self.path("bin/specbound"))
        says = specbound("info", model).stdout.decode()
        command = re.search(r"exit heads  none: (specbound .*) makes them", says)[1]
        run = specbound("run", "--raw", "-m", model, "--speculator", "specbound", "-p", "x", "-n",
                        "1")
        self.assertIn(f"{command} makes them".encode(), run.stderr)
        result = subprocess.run(f"{command} --kinds text --self-generate 200", shell=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ,
                                     "PATH": self.path("bin") + ":" + os.environ["PATH"]})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.path.exists(self.path("it's a model.heads.gguf")))
        following = re.search(rb"(?m)^next +(specbound .*)$", result.stdout)[1].decode()
        self.assertEqual(shlex.split(following), ["specbound", "chat", "-m", model])

    def test_what_a_chat_saved_is_data(self):
        talk = self.path("talk.json")
        script = "I need a taxi.\nTo the airport.\n/save " + talk + "\n"
        self.assertEqual(specbound("chat", "-m", DEMO, "-n", "40", "--sys", "Be polite.",
                                   stdin=script.encode()).returncode, 0)
        result = self.train("--data", talk, "--quick", "--layers", "0", "--shortlist", "100",
                            model=DEMO)
        self.assertIn(b"1 dialogue", result.stderr + result.stdout)

    def test_quick_heads_from_dialogues_fit_the_model(self):
        bad = b"{\"messages\": 3}\n\xff\xff\n"
        data = self.put("chat.jsonl.xz", lzma.compress(
            jsonl(*({"messages": d} for d in DIALOGUES)) + bad + jsonl(*DIALOGUES)))
        result = self.train("--data", data, "--quick", "--layers", "0,2", "--shortlist", "100",
                            "--report", self.path("report.html"), model=DEMO)
        self.assertIn(b"data: 12 dialogues, 0 pieces of plain text", result.stderr)
        self.assertIn(b"skipped 2 of 14 lines; the first: " + data.encode() + b":7: \"messages\"",
                      result.stderr)
        self.assertIn(b"shortlist of 112 tokens", result.stdout)
        self.assertRegex(result.stdout, rb"(?m)^ +2 +\d+\.\d % +\d+\.\d %$")
        self.assertIn(b"--heads", result.stdout)  # the file does not lie beside the model
        info = specbound("info", self.path("heads.gguf"))
        self.assertEqual(info.returncode, 0, info.stderr)
        self.assertTrue(self.read("report.html").lstrip().lower().startswith(b"<!doctype html"))

    def test_a_text_alone_is_looked_up_in(self):
        data = self.put("chat.jsonl", jsonl(*DIALOGUES))
        flags = ("--data", data, "--kinds", "text")
        self.refuse(*flags, "--report", self.path("r.html"), status=2, model=DEMO,
                    says=b"--report: tells of trained heads")
        for kinds in ("table", "hybrid", "text,table"):
            self.refuse("--data", data, "--kinds", kinds, status=2,
                        says=b"--kinds: expected kinds among text, chained, layer, folded, full, "
                             b"medusa, hydra, eagle, eagle3 and kangaroo")
        flags += ("--self-generate", "400")
        result = self.train(*flags, model=DEMO)
        self.train(*flags, model=DEMO, out="again.gguf")
        self.assertEqual(self.read("heads.gguf"), self.read("again.gguf"))
        self.assertRegex(result.stdout, rb"(?m)^text +\d+ tokens to look up in$")
        self.assertIn(b"next       specbound chat", result.stdout)
        self.assertNotIn(b"settings", result.stdout)
        heads = self.path("heads.gguf")
        info = specbound("info", heads)
        self.assertRegex(info.stdout, rb"heads +text of \d+ tokens")
        self.assertNotIn(b"settings", info.stdout)
        stats = self.path("stats.json")
        flags = ("-m", DEMO, "-p", DIALOGUES[0][0]["content"], "-n", "40", "--temp", "0")
        drafted = specbound("run", *flags, "--controller", "off", "--heads", heads,
                            "--stats-json", stats)
        plain = specbound("run", *flags, "--spec", "off")
        self.assertEqual(drafted.stdout, plain.stdout)
        self.assertGreater(json.loads(self.read("stats.json"))["accepted_tokens"], 3)
        refused = specbound("tune", "-m", DEMO, "--heads", heads, "--kind", "chained")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"expected heads, found none", refused.stderr)

    def test_kinds_of_papers_learn_the_same_text_and_draft_their_trees(self):
        data = self.put("chat.jsonl", jsonl(*DIALOGUES))
        flags = ("--data", data, "--epochs", "8", "--shortlist", "64", "--no-tune")
        result = self.train(*flags, "--kinds", "chained,medusa,hydra", "--layers", "0",
                            "--report", self.path("report.html"), model=DEMO)
        for kind, steps in (("chained", 5), ("medusa", 4), ("hydra", 4)):
            # None behind a step that no draft came to.
            self.assertRegex(result.stdout, rb"(?m)^ +%s at 0( +\d+\.\d %%){1,%d}$" %
                             (kind.encode(), steps))
            self.assertIn(f">{kind}, layer 0<".encode(), self.read("report.html"))
        self.assertIn(b"Agreement by step", self.read("report.html"))
        alone = self.train(*flags, "--kinds", "medusa,hydra", model=DEMO, out="alone.gguf")
        self.assertRegex(alone.stderr, rb"features: [\d,]+ tokens at 0 layers")
        self.assertIn(b"next       specbound chat", alone.stdout)
        self.assertNotIn(b"settings", alone.stdout)
        info = specbound("info", self.path("alone.gguf"))
        self.assertIn(b"medusa at 0 for 4 places; hydra at 0 for 4 places", info.stdout)
        # Without an output matrix: those of 4 places alone would have more than that.
        self.assertLess(len(self.read("alone.gguf")), 2500000)
        run = ("run", "-m", DEMO, "-p", DIALOGUES[0][0]["content"], "-n", "40", "--temp", "0",
               "--ignore-eos")
        plain = specbound(*run, "--spec", "off")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        stats = self.path("stats.json")
        for heads in ("heads.gguf", "alone.gguf"):
            for kind in ("medusa", "hydra"):
                drafted = specbound(*run, "--speculator", kind, "--heads", self.path(heads),
                                    "--stats-json", stats)
                self.assertEqual(drafted.stdout, plain.stdout, drafted.stderr)
                done = json.loads(self.read("stats.json"))
                self.assertGreater(done["drafted_tokens"], 40)
                if kind == "hydra":  # medusa starts at nothing, and 100 tokens teach it little
                    self.assertGreater(done["accepted_tokens"], 3)
        self.train(*flags, "--kinds", "medusa,hydra", model=DEMO, out="again.gguf")
        self.assertEqual(self.read("alone.gguf"), self.read("again.gguf"))
        os.remove(self.path("heads.gguf"))
        for more, says in ((("--quick",), b"--quick: is least squares alone"),
                           (("--layers", "0"), b"--layers: medusa heads stand before")):
            self.refuse("--data", data, "--kinds", "medusa,hydra", *more, says=says, status=2,
                        model=DEMO)
        for kind in ("mtp", "layer,mtp", "kangaroo,kangaroo"):
            self.refuse("--data", data, "--kinds", kind, status=2, model=DEMO,
                        says=b"--kinds: expected kinds among")

    def test_layers_learn_from_whole_texts_and_draft(self):
        data = self.put("chat.jsonl", jsonl(*DIALOGUES))
        flags = ("--data", data, "--epochs", "12", "--shortlist", "64", "--no-tune", "--lr", "1e-3")
        kinds = ("layer", "eagle", "eagle3", "kangaroo")
        result = self.train(*flags, "--kinds", "chained," + ",".join(kinds), "--layers", "0",
                            "--report", self.path("report.html"), model=DEMO)
        # A user's words are rows too. Layers: the embedding, that of the adapter and of eagle3 2,
        # and two more of eagle3.
        self.assertRegex(result.stderr, rb"features: \d+ tokens and \d+ of prompts at 4 layers")
        page = self.read("report.html").decode()
        for kind in ("chained",) + kinds:
            place = f"{kind} at {2 if kind == 'kangaroo' else 0}".encode()
            self.assertRegex(result.stdout, rb"(?m)^ *%s( +\d+\.\d %%){1,5}$" % place)
            self.assertIn(f">{place.decode().replace(' at', ', layer')}<", page)
        self.assertIn(">draft layers<", page)  # the curve of their loss
        alone = self.train(*flags, "--kinds", "layer", model=DEMO, out="alone.gguf")
        self.assertIn(b"next       specbound chat", alone.stdout)
        self.train(*flags, "--kinds", "layer", "--threads", "1", model=DEMO, out="again.gguf")
        self.assertEqual(self.read("alone.gguf"), self.read("again.gguf"))
        self.assertIn(b"layer at 0", specbound("info", self.path("alone.gguf")).stdout)
        run = ("run", "-m", DEMO, "-p", DIALOGUES[0][0]["content"], "-n", "40", "--temp", "0",
               "--ignore-eos")
        plain = specbound(*run, "--spec", "off")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        stats = self.path("stats.json")
        for name, flag in (("alone.gguf", ()), *(("heads.gguf", ("--head", k)) for k in kinds[:2])):
            drafted = specbound(*run, "--speculator", "auto", "--controller", "off", "--heads",
                                self.path(name), *flag, "--stats-json", stats)
            self.assertEqual(drafted.stdout, plain.stdout, drafted.stderr)
            self.assertGreater(json.loads(self.read("stats.json"))["accepted_tokens"], 3)
        for kind in kinds[1:]:
            drafted = specbound(*run, "--speculator", kind, "--heads", self.path("heads.gguf"),
                                "--stats-json", stats)
            self.assertEqual(drafted.stdout, plain.stdout, drafted.stderr)
            # Of 100 tokens eagle3 and an adapter learn little.
            self.assertGreater(json.loads(self.read("stats.json"))["accepted_tokens"], 0)
        verified = specbound("verify", "-m", DEMO, "--heads", self.path("alone.gguf"), "-p",
                             "Hello.", "-n", "30")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        os.remove(self.path("heads.gguf"))
        self.train(*flags, "--epochs", "1", "--kinds", "kangaroo,eagle3", "--layers", "3",
                   model=DEMO, out="deeper.gguf")
        self.assertIn(b"kangaroo at 3", specbound("info", self.path("deeper.gguf")).stdout)
        # Five layers have no second, middle and third last: eagle3 takes 1, 3 and 5.
        few = self.train("--data", self.put("story.txt", STORY.encode()), "--epochs", "1",
                         "--shortlist", "64", "--kinds", "eagle3,kangaroo", out="few.gguf")
        self.assertRegex(few.stderr, rb"features: [\d,]+ tokens at 4 layers")
        self.assertRegex(few.stdout, rb"(?m)^kangaroo at 2 ")
        for layers, says in (("1,2", b"found 2 layers"), ("0", b"found 0"), ("16", b"found 16")):
            self.refuse("--data", data, "--kinds", "eagle,kangaroo", "--layers", layers,
                        says=b"--layers: expected one layer from 1 to 15, which a kangaroo head "
                             b"stands behind, " + says, status=2, model=DEMO)
        self.refuse("--data", data, "--kinds", "kangaroo", "--quick", status=2, model=DEMO,
                    says=b"--quick: is least squares alone")
        for more, says in ((("--quick",), b"--quick: is least squares alone"),
                           (("--layers", "0"), b"--layers: layer heads stand before the layers")):
            self.refuse("--data", data, "--kinds", "layer", *more, says=says, status=2, model=DEMO)

    def test_texts_that_are_kept_grow_and_others_are_learnt_beside_them(self):
        texts = self.path("texts.bin")
        flags = ("--texts", texts, "--quick", "--layers", "0", "--shortlist", "64")
        self.train(*flags, "--self-generate", "200", model=DEMO)
        first = self.read("texts.bin")
        more = self.train(*flags, "--self-generate", "500", model=DEMO)
        second = self.read("texts.bin")
        self.assertTrue(second.startswith(first) and len(second) > len(first))
        also = self.put("also.jsonl", jsonl(*({"messages": d} for d in DIALOGUES)))
        beside = self.train(*flags, "--self-generate", "500", "--also", also, model=DEMO)
        self.assertEqual(self.read("texts.bin"), second)  # it had them
        with open(DEMO, "rb") as file:
            self.put("copy.gguf", file.read())
        for name, says in (("copy.gguf", b"this is a GGUF file"),
                           ("also.jsonl", b"found another file"),
                           ("heads.gguf", b"two outputs would go to this file")):
            before = self.read(name)
            refused = specbound("train-heads", "-m", DEMO, "-o", self.path("heads.gguf"),
                                "--texts", self.path(name), "--self-generate", "100", *flags[2:])
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(says, refused.stderr)
            self.assertEqual(self.read(name), before)

        def learnt(result):
            return sum(int(n.replace(b",", b"")) for n in
                       re.search(rb"(?m)^learnt +([\d,]+) tokens; ([\d,]+) more",
                                 result.stdout).groups())
        self.assertGreater(learnt(beside), learnt(more) + 50)
        os.remove(self.path("heads.gguf"))
        for flag, value in (("--texts", texts), ("--also", also)):
            self.refuse("--data", also, flag, value, status=2, model=DEMO,
                        says=flag.encode() + b": is beside what the model writes")

    def test_an_openblas_that_does_not_know_the_cpu_is_left_aside(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            if " avx2 " not in file.read():
                self.skipTest("no CPU that it could not know")

        def arithmetic(core):
            result = specbound("train-heads", "-m", STORIES, "-o", self.path("heads.gguf"),
                               *self.small(), environment={"OPENBLAS_CORETYPE": core})
            return re.search(rb"training: matrices by (.*)\n", result.stderr)[1]
        if not arithmetic("Haswell").startswith(b"OpenBLAS"):
            self.skipTest("no OpenBLAS here")
        self.assertEqual(arithmetic("Prescott"), b"own kernels")

    def test_minutes_bound_what_is_written_and_read_too(self):
        data = self.put("chat.jsonl", jsonl(*DIALOGUES * 500))
        flags = ("--data", data, "--layers", "0", "--shortlist", "64", "--minutes", "0.05")
        read = self.train(*flags, "--max-tokens", "100000000", model=DEMO)
        self.assertIn(b"features: no time or room for", read.stderr)
        written = self.train(*flags, "--self-generate", "100000000", model=DEMO)
        self.assertRegex(written.stderr, rb"replies: the model wrote [\d,]+, [\d,]+ tokens")
        self.assertNotIn(b"asked for more", written.stderr)

    def test_minutes_that_pass_while_it_is_stopped_do_not_count(self):
        data = self.put("chat.jsonl", jsonl(*DIALOGUES))
        flags = ("train-heads", "-m", DEMO, "-o", self.path("heads.gguf"), "--data", data,
                 "--layers", "0", "--shortlist", "64", "--epochs", "100000", "--minutes", "0.05")
        process = start(*flags)
        self.addCleanup(process.kill)
        time.sleep(1)
        process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        time.sleep(4)  # more than all of it
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(time.monotonic() - begin, 4 + 1)

    def test_the_same_seed_gives_the_same_bytes_and_an_old_file_is_replaced(self):
        flags = (*self.small(), "--no-tune")
        result = self.train(*flags)
        self.assertIn(b"(guessed: --no-tune)", result.stdout)
        self.train(*flags, out="again.gguf")
        self.assertEqual(self.read("heads.gguf"), self.read("again.gguf"))
        self.train(*flags, "--seed", "1")
        self.assertNotEqual(self.read("heads.gguf"), self.read("again.gguf"))
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["again.gguf", "heads.gguf", "story.txt"])

    def test_the_model_can_write_what_is_learnt(self):
        data = self.put("chat.jsonl", jsonl(*DIALOGUES))
        result = self.train("--data", data, "--quick", "--layers", "1", "--kinds", "folded",
                            "--self-generate", "200", model=DEMO)
        self.assertRegex(result.stderr, rb"replies: the model wrote \d+, \d+ tokens")
        # What is tuned depends on costs, which are measured.
        self.assertRegex(result.stdout,
                         rb"(?m)^settings   .*\((tuned by replay on [\d,]+ tokens: predicted "
                         rb"\d+\.\d\dx|guessed: by replay on [\d,]+ tokens nothing beats plain "
                         rb"decoding)\)$")
        more = self.train("--data", data, "--quick", "--layers", "1", "--kinds", "folded",
                          "--self-generate", "100000", model=DEMO)
        self.assertIn(b"no further turns", more.stderr)

    def test_settings_are_tuned_on_what_no_head_has_learnt(self):
        flags = ("--quick", "--layers", "1", "--kinds", "folded", "--shortlist", "64",
                 "--self-generate", "1500")
        also = self.put("also.jsonl", jsonl(*DIALOGUES))
        for more, all_tokens in (((), 1500), (("--max-tokens", "700"), 700),
                                 (("--also", also, "--max-tokens", "700"), 700)):
            said = self.train(*flags, *more, model=DEMO).stdout
            learnt, kept = (int(n.replace(b",", b"")) for n in re.search(
                rb"(?m)^learnt +([\d,]+) tokens; ([\d,]+) more kept", said).groups())
            self.assertLess(abs(learnt + kept - all_tokens), 250, said)
            self.assertGreater(kept, 0.1 * all_tokens)
            # Sampled replies are written anew, and may be longer.
            tuned = int(re.search(rb"by replay on ([\d,]+) tok", said)[1].replace(b",", b""))
            self.assertLess(tuned, 2 * kept, said)

    def test_kinds_that_no_layer_takes_are_told(self):
        data = self.put("story.txt", STORY.encode())
        result = self.train("--data", data, "--quick", "--layers", "3,4", "--shortlist", "64")
        self.assertEqual(result.stderr.count(b"no chained head is made: they go on layers 0 to 2"),
                         1, result.stderr)
        self.assertNotIn(b"no folded", result.stderr)

    def test_a_link_is_written_through(self):
        os.mkdir(self.path("elsewhere"))
        os.symlink("elsewhere/real.gguf", self.path("heads.gguf"))
        self.put("elsewhere/real.gguf", b"")
        result = self.train(*self.small(), "--quick")
        self.assertIn(b"(guessed: there are no texts by the model", result.stdout)
        self.assertTrue(os.path.islink(self.path("heads.gguf")))
        self.assertTrue(self.read("elsewhere/real.gguf").startswith(b"GGUF"))
        self.assertEqual(os.listdir(self.path("elsewhere")), ["real.gguf"])

    def test_the_disk_bound_is_told_and_kept(self):
        data = self.put("story.txt", STORY.encode() * 20)
        result = self.train("--data", data, "--quick", "--layers", "1,2,3", "--max-disk", "1M",
                            "--kinds", "folded", "--max-tokens", "100000", "-c", "256")
        self.assertIn(b"--max-disk 1.0 MB is reached: learning from ", result.stderr)

    def test_without_data_the_model_answers_built_in_requests(self):
        result = self.train("--self-generate", "300", "--kinds", "text")
        self.assertIn(b"no --data: learning what the model answers to 2,408 ", result.stderr)
        self.assertIn(b"replies: the model wrote ", result.stderr)
        self.assertNotIn(b"asked for more", result.stderr)


class Refusals(TrainHeads):
    def test_wrong_flags(self):
        story = self.put("story.txt", STORY.encode())
        for flags, says in ((("--data", ""), b"an empty one"),
                            (("--data", story, "--kinds", "lens"), b"kinds among text"),
                            (("--data", story, "--kinds", "full,full"), b"kinds among text"),
                            (("--data", story, "--layers", "3-1"), b"layers as 0,1"),
                            (("--data", story, "--layers", "1,,2"), b"layers as 0,1"),
                            (("--data", story, "--layers", "5"), b"expected 0 to 4, found 5"),
                            (("--data", story, "--layers", "0", "--kinds", "folded"),
                             b"0 is for chained"),
                            (("--data", story, "--max-disk", "9Q"), b"expected a size"),
                            (("--data", story, "--lr", "nan"), b"expected a number"),
                            (("--data", story, "--resume", "--fresh"), b"give one of them"),
                            (("--data", story, "--resume"), b"found none"),
                            (("--data", story, "--report", self.path("heads.gguf")),
                             b"two outputs")):
            self.refuse(*flags, says=says, status=2)

    def test_data_that_teaches_nothing(self):
        cases = {"empty.jsonl": (b"", b"found nothing"),
                 "bad.jsonl": (b"\0\n[[[\n", b"bad.jsonl:1: no JSON"),
                 "deep.jsonl": (b"[" * 1000000, b"brackets more than 32 deep"),
                 "huge.jsonl": (b"x" * (17 << 20), b"longer than 16 MiB"),
                 "cut.jsonl.xz": (lzma.compress(jsonl(*DIALOGUES))[:-9], b"its end missing"),
                 "noxz.jsonl.xz": (jsonl(*DIALOGUES), b"expected an .xz archive"),
                 "chat.jsonl": (jsonl(*DIALOGUES), b"tokenizer.chat_template")}
        for name, (data, says) in cases.items():
            self.refuse("--data", self.put(name, data), says=says)
        self.refuse("--data", self.path("absent.jsonl"), says=b"absent.jsonl: cannot open")
        self.refuse("--data", self.folder, says=b"Is a directory")

    def test_what_is_no_file_is_not_replaced(self):
        os.mkfifo(self.path("pipe"))
        os.symlink("/dev/null", self.path("null"))
        for name in ("pipe", "null"):
            result = specbound("train-heads", "-m", STORIES, "-o", self.path(name), *self.small())
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(b"found a device or a pipe", result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["null", "pipe", "story.txt"])

    def test_a_folder_of_somebody_else_is_left_alone(self):
        os.mkdir(self.path("work"))
        mine = self.put("work/manifest.json", b"{}")
        for flags in ((), ("--fresh",)):
            self.refuse(*self.small(), "--features-dir", self.path("work"), *flags, status=2,
                        says=b"give another --features-dir")
        with open(mine, "rb") as file:
            self.assertEqual(file.read(), b"{}")
        os.remove(mine)
        self.refuse(*self.small(), "--features-dir", self.path("work"), "--resume", status=2,
                    says=b"found none")
        self.assertEqual(os.listdir(self.path("work")), [])

    def test_a_model_is_never_written_over(self):
        with open(STORIES, "rb") as file:
            model = file.read()
        copy = self.put("copy.gguf", model)
        for learning, status, says in ((copy, 2, b"would be written over what is read"),
                                       (DEMO, 1, b"not written over")):
            result = specbound("train-heads", "-m", learning, "-o", copy, *self.small())
            self.assertEqual(result.returncode, status)
            self.assertIn(says, result.stderr)
        self.assertEqual(self.read("copy.gguf"), model)

    def test_a_file_of_somebody_else_is_not_written_over(self):
        notes = self.put("notes.txt", b"mine")
        result = specbound("train-heads", "-m", STORIES, "-o", notes, *self.small())
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"notes.txt: expected the name of a new file", result.stderr)
        self.assertEqual(self.read("notes.txt"), b"mine")


if __name__ == "__main__":
    unittest.main()
