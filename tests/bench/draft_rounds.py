"""Rounds of drafting over recorded text, under costs that are given: what acceptance.py weighs its
predictors by. Needs nothing but Python.

A guesser is asked for one guess behind another. Before each one its worth is weighed, by what was
predicted of those before and by how often guesses of that step are right; what was guessed is cut
where further rows would cost more than they bring, and one pass verifies the rest. Time is in
passes over one row at the beginning of a text, and plain decoding takes one for each token, so
tokens over time is the speed-up, prompts aside. As drafters/tree_speculator.h, but a chain from one
source, whose cost is known.
"""

import math
from typing import NamedTuple

RATE_KEPT = 0.98  # as in drafters/tree_speculator.cpp: of the running rate, from round to round
FIRST_ROUNDS = 8  # that plain decoding's rate counts for at first
FADE_EVERY = 32   # rounds

WRONG, RIGHT, UNKNOWN = 0, 1, -1  # of a guess; UNKNOWN: behind a wrong one


class Costs(NamedTuple):
    draft: float    # of a guess
    start: list     # [rows - 1] of a pass at the beginning of a text
    position: list  # [rows - 1] and what each position before it adds

    def rows(self, n, at):
        return self.start[n - 1] + at * self.position[n - 1]


class Place(NamedTuple):
    """Where a round may begin: what the guesser says there, one guess behind another."""
    at: int      # the position
    left: int    # tokens of the text behind it
    right: list  # [step] WRONG, RIGHT or UNKNOWN


class Given:
    """Chances that were predicted before: [place][step]."""

    def __init__(self, chances):
        self.chances = chances

    def chance(self, place, step):
        return self.chances[place][step]

    def learn(self, place, step, right):
        pass

    def fade(self):
        pass


class Counts:
    """What drafters/candidate_odds.h makes of a guess that no lookup says too: log-odds of the bin
    that its confidence is in, which learn from what comes true and fade back slowly."""
    FROM = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
    ALONE = -2.0
    GUESS = (-1.9, -0.4, 0.4, 0.65, 1.15, 1.45, 1.8, 2.1, 2.65, 2.95, 3.85, 5.15)
    MIDDLES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.925, 0.97, 0.995)
    RATE, KEPT = 0.15, 0.99

    def __init__(self, confidences, learns=True, are_chances=False):
        """`are_chances`: a bin begins at the chance that it stands for, not at what ships."""
        self.bins = [[sum(c >= edge for edge in self.FROM) for c in of] for of in confidences]
        self.first = ([math.log(m / (1 - m)) - self.ALONE for m in self.MIDDLES] if are_chances else
                      self.GUESS)
        self.alone, self.guess, self.learns = self.ALONE, list(self.first), learns

    def chance(self, place, step):
        return 1 / (1 + math.exp(-self.alone - self.guess[self.bins[place][step]]))

    def learn(self, place, step, right):
        if not self.learns:
            return
        move = self.RATE * (right - self.chance(place, step))
        self.alone += move
        self.guess[self.bins[place][step]] += move

    def fade(self):
        self.alone = self.ALONE + self.KEPT * (self.alone - self.ALONE)
        self.guess = [first + self.KEPT * (now - first)
                      for first, now in zip(self.first, self.guess)]


class Threshold(Given):
    """Is asked until the chance that a guess is wrong exceeds a threshold (`margin`, of Rounds);
    all that was guessed is verified, as in the acceptance-guided paper."""


class Prophet:
    """Knows what is right, before it is guessed."""


class Fixed(NamedTuple):
    """So many guesses, whatever they are."""
    length: int


class Rounds:
    """Of one predictor over texts one behind the other. `hopes`: [step] how often a guess is right,
    those before it being right; `margin`: what guesses and rows must bring of what they cost."""

    def __init__(self, predictor, costs, hopes, margin=1.0):
        self.predictor, self.costs, self.hopes, self.margin = predictor, costs, hopes, margin
        self.tokens = self.time = FIRST_ROUNDS
        self.rounds = self.guesses = self.rows = 0

    def rate(self):
        return max(1.0, self.tokens / self.time)

    def prices(self, at, most):
        """In tokens: of a guess, and of 0 to `most` rows beside the root's."""
        one = self.costs.rows(1, at)
        price = self.margin * self.rate() / one
        return (price * self.costs.draft,
                [price * (self.costs.rows(1 + n, at) - one) for n in range(most + 1)])

    def goes_on(self, path, n, draft, rows):
        """Whether one guess more, or several, would bring more than they and their rows cost; n are
        there, all of which are right with chance `path`."""
        gain, cost = 0.0, -rows[n]
        for more in range(n, len(rows) - 1):
            path *= self.hopes[more]
            gain += path
            cost += draft
            if gain > cost + rows[more + 1]:
                return True
        return False

    @staticmethod
    def worth_most(paths, rows):
        """How many of the guesses are verified."""
        best, found, gain = 0.0, 0, 0.0
        for n, path in enumerate(paths, 1):
            gain += path
            if gain - rows[n] > best:
                best, found = gain - rows[n], n
        return found

    def drafted(self, index, place):
        """Guesses that were made, and how many of them are verified."""
        most = min(len(place.right), place.left - 1)  # a pass gives one token more
        if isinstance(self.predictor, Fixed):
            n = min(self.predictor.length, most)
            return n, n
        if isinstance(self.predictor, Threshold):
            path, n = 1.0, 0
            while n < most and 1 - path <= self.margin:
                path *= self.predictor.chance(index, n)
                n += 1
            return n, n
        draft, rows = self.prices(place.at, most)
        if isinstance(self.predictor, Prophet):
            run = 0
            while run < most and place.right[run] == RIGHT:
                run += 1
            n = max(range(run + 1), key=lambda n: n - n * draft - rows[n])
            return n, n
        path, paths = 1.0, []
        while len(paths) < most and self.goes_on(path, len(paths), draft, rows):
            path *= self.predictor.chance(index, len(paths))
            paths.append(path)
        return len(paths), self.worth_most(paths, rows)

    def play(self, places, first=0):
        """One text, whose places are `first`, `first` + 1, ... of the predictor. Returns its tokens
        and the time that they took."""
        tokens = time = at = 0
        while at < len(places):
            place = places[at]
            guesses, rows = self.drafted(first + at, place)
            accepted = 0
            while accepted < rows and place.right[accepted] == RIGHT:
                accepted += 1
            took = guesses * self.costs.draft + self.costs.rows(1 + rows, place.at)
            tokens += accepted + 1
            time += took
            self.end_round(first + at, place, guesses, rows, accepted)
            self.tokens = RATE_KEPT * self.tokens + accepted + 1
            self.time = RATE_KEPT * self.time + took / self.costs.rows(1, place.at)
            at += accepted + 1
        return tokens, time

    def end_round(self, index, place, guesses, rows, accepted):
        self.rounds, self.guesses = self.rounds + 1, self.guesses + guesses
        self.rows += 1 + rows
        if isinstance(self.predictor, (Fixed, Prophet)):
            return
        # What came behind the root and behind each accepted row is known, of guesses that no row
        # was spent on too.
        for step in range(min(guesses, accepted + 1)):
            self.predictor.learn(index, step, place.right[step])
        if self.rounds % FADE_EVERY == 0:
            self.predictor.fade()


def plain_time(places, costs):
    return sum(costs.rows(1, place.at) for place in places)
