#!/usr/bin/env python3
"""packaging/gpu_session.sh, rehearsed without a GPU: what takes which time, is run once, and goes
on after a call that was cut off. Stubs stand where a device would be asked.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SESSION = ROOT / "packaging/gpu_session.sh"
MOST_SECONDS = 480
CASES = [f"case {i}, of some" for i in range(10)]

# A doctest program. It writes down what it is asked to run, waits where a file says how long, and
# fails where one says so.
GPU_TESTS = """#!{python}
import os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
def said(name):
    path = folder / name
    return path.read_text() if path.exists() else ""
flags = sys.argv[1:]
if said("no-gpu"):
    print("SKIP no CUDA device: none here (CUDA 13.0)")
elif flags == ["-tc=none"]:
    print(f"on {{said('card') or 'Some GPU'}}, sm_90, driver for CUDA 13.0")
elif flags == ["-ltc"]:
    rule = "=" * 79 + "\\n"
    print("[doctest] listing all test case names\\n" + rule + "\\n".join({cases!r}) + "\\n" + rule)
else:
    with open(folder / "log", "a") as log:
        print(os.path.basename(__file__), *flags, file=log)
    time.sleep(float(said("wait") or 0))
    n = 1 if flags else {n}
    failed = int(bool(said("fails")))
    print(f"[doctest] test cases: {{n}} | {{n - failed}} passed | {{failed}} failed | 0 skipped")
    sys.exit(failed)
"""
# One that writes down what it is asked to do, and the file that it is asked for.
SPECBOUND = """#!{python}
import pathlib, sys
with open(pathlib.Path(__file__).parent / "log", "a") as log:
    print("specbound", *(word.split("/")[-1] for word in sys.argv[1:]), file=log)
made = {{"quantize": 3, "train-heads": -1}}.get(sys.argv[1])
if made is not None:
    pathlib.Path(sys.argv[made]).write_text("a file")
for flag in ("-m", "--heads"):
    if flag in sys.argv:
        pathlib.Path(sys.argv[sys.argv.index(flag) + 1]).read_bytes()
"""
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""


def make(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Session(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        root = pathlib.Path(self.home.name)
        self.folder, self.out = root / "programs", root / "out"
        self.folder.mkdir()
        (root / "bin").mkdir()
        self.path = f"{root / 'bin'}:{os.environ['PATH']}"
        program = GPU_TESTS.format(python=sys.executable, cases=CASES, n=len(CASES))
        for name in ("gpu_tests", *(f"gpu_tests_ptx{arch}" for arch in (75, 80, 86, 89, 90, 120))):
            make(self.folder / name, program)
        make(self.folder / "specbound", SPECBOUND.format(python=sys.executable))
        make(root / "bin/compute-sanitizer", SANITIZER)
        self.say("commit", "0123456789ab\n")

    def say(self, name, text):
        (self.folder / name).write_text(text)

    def session(self, *flags):
        return subprocess.run([SESSION, "--run", self.folder, *map(str, flags)],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, "OUT": str(self.out), "PATH": self.path,
                                   "SPECBOUND_F16_MODEL": ""})

    def run_stages(self, *names, flags=(), status=0):
        done = self.session(*flags, *(x for name in names for x in ("--stage", name)))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def log(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def result(self, name):
        return json.loads((self.out / f"gpu_session_{name}.json").read_text())

    def listed(self):
        """{name: (seconds, state)}"""
        found = re.findall(r"^(\w+) +(\d+) s at most  (to run|done [\w:-]+)",
                           self.run_stages(flags=["--list"]), re.MULTILINE)
        self.assertEqual(len({name for name, _, _ in found}), len(found))
        return {name: (int(seconds), state.split()[0]) for name, seconds, state in found}

    def test_stages_are_short_and_in_order(self):
        stages = self.listed()
        self.assertLessEqual(max(seconds for seconds, _ in stages.values()), MOST_SECONDS)
        self.assertEqual({state for _, state in stages.values()}, {"to"})
        in_order = ["tests", "verify", "bench", "engine", "racecheck_1", "memcheck", "jit_75"]
        self.assertEqual([name for name in stages if name in in_order], in_order)
        self.assertEqual(self.log(), [])

    def test_a_stage_is_run_once_for_a_commit(self):
        self.assertRegex(self.run_stages("tests"), r"(?m)^ok +tests +10 passed, 0 failed")
        self.assertEqual(self.result("tests")["passed"], len(CASES))
        self.assertEqual(self.listed()["tests"][1], "done")
        self.assertRegex(self.run_stages("tests"), r"(?m)^before +tests +10 passed.*\n10 passed")
        self.assertEqual(len(self.log()), 1)
        self.run_stages("tests", flags=["--again"])
        self.assertEqual(len(self.log()), 2)
        self.say("commit", "ba9876543210\n")
        self.run_stages("tests")
        self.assertEqual(len(self.log()), 3)
        self.say("card", "Another GPU")
        self.run_stages("tests")
        self.assertEqual(len(self.log()), 4)

    def test_changed_sources_have_no_name(self):
        self.say("commit", "0123456789ab-dirty\n")
        for runs in (1, 2):
            self.run_stages("tests")
            self.assertEqual(len(self.log()), runs)

    def test_half_a_result_is_none(self):
        self.run_stages("tests")
        path = self.out / "gpu_session_tests.json"
        whole = path.read_text()
        for runs, text in enumerate((whole[:len(whole) // 2], "", "[]", "{}", "\0"), 2):
            path.write_text(text)
            self.run_stages("tests")
            self.assertEqual(len(self.log()), runs, text)

    def test_a_failure_is_one_the_next_time_too(self):
        self.say("fails", "yes")
        for _ in range(2):
            self.assertRegex(self.run_stages("tests", status=1), r"9 passed, 1 failed, 0 skipped$")
        self.assertEqual(len(self.log()), 1)

    def test_whole_models_are_verified_in_every_form(self):
        said = self.run_stages("verify")
        self.assertRegex(said, r"(?m)^ok +verify +13 passed, 0 failed, 1 skipped")
        self.assertIn("SKIP an F16 model", said)
        demo = "demo-chat-16l-q8_0.gguf"
        verify = "specbound verify --bits --device cuda -m"
        drawn = "--temps 0.4,1.5 --top-k 40 --top-p 0.9 --repeat-penalty 1.3"
        layer = f"{verify} {demo} --heads layer.heads.gguf --head layer"
        learnt, = (line for line in self.log() if line.startswith("specbound train-heads "))
        self.assertRegex(learnt, f"-m {demo} --kinds layer .* -o layer.heads.gguf$")
        self.assertEqual([line for line in self.log() if line != learnt], [
            *(f"{verify} {demo}{flags}" for flags in (
                "", " --kv int8", " -ngl 8", " -ngl 8 --kv int8", " --dtype fp16", f" {drawn}")),
            layer, f"{layer} --kv int8",
            f"specbound quantize {demo} Q4_0.gguf Q4_0", f"{verify} Q4_0.gguf",
            f"specbound quantize {demo} Q4_K.gguf Q4_K", f"{verify} Q4_K.gguf"])

    def test_the_parts_of_racecheck_are_all_cases_once(self):
        said = self.run_stages("racecheck")
        self.assertRegex(said, r"(?m)^ok +racecheck_4 ")
        asked = sorted(line.split("-tc=")[1].replace("?", ",") for line in self.log())
        self.assertEqual(asked, CASES)
        self.assertIn(f"{len(CASES)} passed, 0 failed, 0 skipped", said)

    def test_what_has_no_time_is_skipped(self):
        self.say("wait", "30")
        said = self.run_stages("tests", flags=["--seconds", 1])
        self.assertRegex(said, r"(?m)^none +tests .*1 skipped")
        self.assertIn("out of time", said)

    def test_a_call_that_ends_early_goes_on_with_the_next(self):
        self.say("wait", "3")
        said = self.run_stages("tests", "jit_75", "jit_80", flags=["--total", 7])
        self.assertEqual(self.result("tests")["passed"], len(CASES))
        self.assertRegex(said, r"(?m)^not reached in 7 s: jit_75 jit_80")
        self.say("wait", "0")
        said = self.run_stages("tests", "jit_75", "jit_80")
        self.assertRegex(said, r"(?s)before +tests.*ok +jit_75.*ok +jit_80")
        self.assertEqual([line.split()[0] for line in self.log()],
                         ["gpu_tests", "gpu_tests_ptx75", "gpu_tests_ptx80"])

    def test_a_stage_that_the_call_cut_short_is_run_again(self):
        self.say("wait", "30")
        self.run_stages("tests", flags=["--total", 6])
        self.assertTrue(self.result("tests")["cut_short"])
        self.say("wait", "0")
        self.assertRegex(self.run_stages("tests"), r"(?m)^ok +tests +10 passed")
        self.assertNotIn("cut_short", self.result("tests"))

    def test_no_gpu(self):
        self.say("no-gpu", "yes")
        said = self.run_stages("tests", "racecheck", "jit")
        self.assertRegex(said, r"(?s)^no GPU: no CUDA device: none here.*\n"
                               r"0 passed, 0 failed, 11 skipped$")
        self.assertFalse(self.out.exists())

    def test_code_for_a_newer_card_is_skipped(self):
        said = self.run_stages("jit")
        self.assertIn("PTX of sm_120: this card is sm_90", said)
        self.assertEqual(len(self.log()), 5)

    def test_what_is_asked_wrongly(self):
        done = self.session("--stage", "nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^--stage: expected one of tests, .*, found nonsense\n$")
        self.assertEqual(self.session("--stage").returncode, 2)
        self.assertEqual(self.session("--nonsense", "1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
