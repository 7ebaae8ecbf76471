#!/usr/bin/env python3
"""--stop: the reply ends before the text, whatever is drafted, and nothing of it is shown."""
import subprocess
import unittest

from specbound_process import LENS, BINARY, DEMO, STORIES, specbound

STORY = ("run", "--raw", "-m", STORIES, "-p", "", "--temp", "0", "-n", "120")


class Stop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.story = specbound(*STORY).stdout[:-1]

    def check_cut(self, *strings, flags=()):
        """The story up to the string that is complete first."""
        ends = [self.story.find(s) + len(s) for s in strings if s in self.story]
        first = min(ends)
        cut = first - max(len(s) for s in strings if self.story[:first].endswith(s))
        for spec in ("off", "on"):
            stops = [flag for s in strings for flag in ("--stop", s)]
            result = specbound(*STORY, *stops, *flags, *LENS, "--spec", spec)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, self.story[:cut] + b"\n", strings)
            self.assertIn(b"stop: stop", result.stderr)

    def test_the_reply_ends_before_the_text(self):
        self.check_cut(b"park")
        self.check_cut(b"Once")  # the very first: nothing is left
        self.check_cut(b"O")
        self.check_cut(b" ")
        self.check_cut(b". ")
        self.check_cut(self.story[40:90])  # over many tokens

    def test_of_several_the_first_counts(self):
        self.check_cut(b"park", b"little", b"not in it")
        self.check_cut(b"little girl", b"l")

    def test_any_stretch_of_the_text(self):
        for begin in range(0, len(self.story) - 9, 17):
            self.check_cut(self.story[begin:begin + 1 + begin % 9])

    def test_what_does_not_appear_changes_nothing(self):
        for strings in ((b"zebra",), (self.story[-8:] + b"??",), (b" Once",)):
            stops = [flag for s in strings for flag in ("--stop", s)]
            result = specbound(*STORY, *stops)
            self.assertEqual(result.stdout, self.story + b"\n", strings)  # held text comes out
            self.assertIn(b"stop: length", result.stderr)

    def test_the_template_cuts_the_space_in_front_for_both(self):
        ask = ("run", "-m", DEMO, "-p", "I need a table for two tonight.", "-s", "3")
        text = specbound(*ask).stdout[:-1]
        word = text.split()[0]
        self.assertEqual(specbound(*ask, "--stop", word).stdout, b"\n")
        spaced = b" " + word
        cut = text.find(spaced)
        want = text if cut < 0 else text[:cut]
        self.assertEqual(specbound(*ask, "--stop", spaced).stdout, want + b"\n")

    def test_a_chat_goes_on_without_the_stop_string_in_its_history(self):
        ask = (BINARY, "chat", "-m", DEMO, "-s", "1", "-n", "20", "--ignore-eos", "--stop", "e")
        result = subprocess.run(ask, input=b"Hello!\nI want to watch a film.\n", timeout=120,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(b"e", result.stdout)
        self.assertEqual(result.stderr.count(b"stop: stop"), 2, result.stderr)
        self.assertEqual(result.stdout.count(b"\n"), 2)


class Refusals(unittest.TestCase):
    def test_wrong_strings_are_usage_errors(self):
        for flags in (("--stop", ""), ("--stop=",), ("--stop", "x" * 257), ("--stop", "x") * 17):
            result = specbound("run", "-p", "x", *flags)
            self.assertEqual((result.returncode, result.stdout), (2, b""), flags)
            self.assertEqual(result.stderr.count(b"\n"), 1)
            self.assertIn(b"--stop: expected", result.stderr)


if __name__ == "__main__":
    unittest.main()
