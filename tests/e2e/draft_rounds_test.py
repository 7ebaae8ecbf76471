#!/usr/bin/env python3
"""The rounds that tests/bench/acceptance.py plays over recorded text, against a case that a hand
can follow."""
import math
import pathlib
import subprocess
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(SCRIPTS))
from draft_rounds import (  # noqa: E402
    FADE_EVERY, UNKNOWN, Costs, Counts, Fixed, Given, Place, Prophet, Rounds, Threshold,
    plain_time)

# The second row is free, the third and the fourth take half a pass each.
COSTS = Costs(0.1, [1, 1, 1.5, 2], [0, 0, 0, 0])
HOPES = [0.5, 0.5, 0.5]
# Four tokens: behind the first root one guess is right, behind the third the only one there is.
TEXT = [Place(0, 4, [1, 0, UNKNOWN]), Place(1, 3, [0, UNKNOWN, UNKNOWN]),
        Place(2, 2, [1, UNKNOWN, UNKNOWN]), Place(3, 1, [0, UNKNOWN, UNKNOWN])]


class Kept(Given):
    """Keeps what it is told."""

    def __init__(self, chances):
        super().__init__(chances)
        self.told, self.fades = [], 0

    def learn(self, place, step, right):
        self.told.append((place, step, right))

    def fade(self):
        self.fades += 1


def play(predictor, costs=COSTS, **more):
    rounds = Rounds(predictor, costs, HOPES, **more)
    tokens, time = rounds.play(TEXT)
    return tokens, round(time, 9), rounds.guesses, rounds.rows


class RoundsByHand(unittest.TestCase):
    def test_plain_decoding_takes_a_pass_for_each_token(self):
        self.assertEqual(play(Fixed(0)), (4, 4, 0, 4))
        self.assertEqual(plain_time(TEXT, COSTS), 4)

    def test_a_fixed_length_pays_for_what_is_wrong(self):
        # Two guesses, three rows: 0.2 + 1.5, two tokens. One, as two tokens are left: 0.1 + 1.
        self.assertEqual(play(Fixed(2)), (4, 2.8, 3, 5))

    def test_one_that_knows_drafts_what_is_right_as_far_as_it_pays(self):
        self.assertEqual(play(Prophet()), (4, 2.2, 2, 4))
        dear = COSTS._replace(start=[1, 2.5, 3, 3.5])
        self.assertEqual(play(Prophet(), dear), (4, 4, 0, 4))

    def test_drafting_stops_where_the_next_guess_is_not_worth_its_cost(self):
        # 0.9 * 0.5 of a token for 0.1 + 0.5 of a pass; two more bring 0.675 for 1.2.
        self.assertEqual(play(Given([[0.9] * 3] * 4)), (4, 2.2, 2, 4))
        # A second row is free, so even an unlikely guess keeps its own, and asking for one is not
        # worth it only where it costs more than half a token.
        self.assertEqual(play(Given([[0.1] * 3] * 4)), (4, 2.2, 2, 4))
        self.assertEqual(play(Given([[0.9] * 3] * 4), COSTS._replace(draft=0.6)), (4, 4, 0, 4))

    def test_what_was_guessed_is_cut_where_rows_cost_more(self):
        # The first guess is asked for in hope of 0.5 tokens for 0.1 + 0.2, and turns out unlikely.
        dear = COSTS._replace(start=[1, 1.2, 1.4, 1.6])
        self.assertEqual(play(Given([[0.05] * 3] * 4), dear), (4, 4.3, 3, 4))

    def test_a_threshold_stops_behind_the_guess_that_passes_it(self):
        # 1 - 0.9 stays below 0.15, 1 - 0.81 does not: two guesses and three rows, then the last.
        self.assertEqual(play(Threshold([[0.9] * 3] * 4), margin=0.15), (4, 2.8, 3, 5))
        self.assertEqual(play(Threshold([[0.9] * 3] * 4), margin=0.05), (4, 2.2, 2, 4))

    def test_a_margin_asks_for_more(self):
        # 0.5 tokens for 0.1 pay at margin 4, not at 6.
        self.assertEqual(play(Given([[0.9] * 3] * 4), margin=4)[2], 2)
        self.assertEqual(play(Given([[0.9] * 3] * 4), margin=6)[2], 0)

    def test_positions_make_passes_dearer(self):
        costs = COSTS._replace(position=[0.5, 0.5, 0.5, 0.5])
        self.assertEqual(plain_time(TEXT, costs), 4 + 0.5 * (1 + 2 + 3))
        self.assertEqual(play(Fixed(1), costs)[1], 0.1 + 1 + 0.1 + 2)

    def test_it_learns_up_to_the_first_wrong_guess(self):
        free = Costs(0, [1, 1, 1, 1], [0, 0, 0, 0])
        kept = Kept([[0.9] * 3] * 4)
        play(kept, free)
        self.assertEqual(kept.told, [(0, 0, 1), (0, 1, 0), (2, 0, 1)])
        rounds = Rounds(kept, free, HOPES)
        for _ in range(FADE_EVERY):
            rounds.play(TEXT)
        self.assertEqual(kept.fades, 2)  # of two rounds each

    def test_the_running_rate_makes_time_dearer(self):
        rounds = Rounds(Fixed(1), Costs(0, [1, 1], [0, 0]), HOPES)
        self.assertEqual(rounds.rate(), 1)
        rounds.play(TEXT)
        tokens = time = 8
        for _ in range(2):
            tokens, time = 0.98 * tokens + 2, 0.98 * time + 1
        self.assertAlmostEqual(rounds.rate(), tokens / time)


class CountsOfConfidence(unittest.TestCase):
    def test_log_odds_of_a_bin_follow_what_comes_true(self):
        counts = Counts([[0.55, 0.995]])
        self.assertAlmostEqual(counts.chance(0, 0), 1 / (1 + math.exp(2.0 - 1.45)))
        self.assertAlmostEqual(counts.chance(0, 1), 1 / (1 + math.exp(2.0 - 5.15)))
        move = 0.15 * (1 - counts.chance(0, 0))
        counts.learn(0, 0, 1)
        self.assertAlmostEqual(counts.chance(0, 0), 1 / (1 + math.exp(2.0 - 1.45 - 2 * move)))
        self.assertAlmostEqual(counts.chance(0, 1), 1 / (1 + math.exp(2.0 - 5.15 - move)))
        counts.fade()
        self.assertAlmostEqual(counts.alone, -2 + 0.99 * move)
        chances = Counts([[0.55, 0.995]], are_chances=True)
        self.assertAlmostEqual(chances.chance(0, 0), 0.55)
        self.assertAlmostEqual(chances.chance(0, 1), 0.995)
        shipped = Counts([[0.55]], learns=False)
        shipped.learn(0, 0, 1)
        self.assertAlmostEqual(shipped.chance(0, 0), 1 / (1 + math.exp(2.0 - 1.45)))


class Script(unittest.TestCase):
    def run_script(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPTS / "acceptance.py", *arguments],
                              capture_output=True, text=True)

    def test_help_and_refusals(self):
        told = self.run_script("--help")
        if "expected PyTorch" in told.stderr:
            self.skipTest("no PyTorch")
        self.assertEqual(told.returncode, 0)
        self.assertIn("compare", told.stdout)
        for arguments, why in ((["compare", "--draft", "0"], "more than 0"),
                               (["read", "--learnt", "x"], "--held")):
            told = self.run_script(*arguments)
            self.assertEqual(told.returncode, 2, arguments)
            self.assertIn(why, told.stderr)


if __name__ == "__main__":
    unittest.main()
