// The line through plain rounds: lengths it has seen, lengths it has not, and a machine whose times
// are no line.
#include "decode/plain_cost.h"

#include <doctest/doctest.h>

#include "tiny_gguf.h"

namespace plain_cost_test {

using namespace specbound;
using namespace specbound::test;

namespace {

double line(int length) {
  return 2 + 0.005 * length;
}

// A reply of `tokens` plain rounds; each takes up to `noise` more or less.
void reply(PlainCost& cost, int prompt, int tokens, TinyRandom& random, double noise = 0.2,
           double times = 1) {
  for (int n = prompt; n < prompt + tokens; ++n) {
    cost.add(n, times * line(n) * (1 + noise * (2 * random.uniform() - 1)));
  }
}

}  // namespace

TEST_CASE("plain cost: nothing before three rounds, then their median at every length") {
  PlainCost cost;
  for (const double seconds : {0.0, 3.0, 100.0}) cost.add(40, seconds);
  CHECK(cost.at(100) == 0);
  CHECK(cost.rounds(100) == 0);
  cost.add(41, 2);  // the third that took time
  CHECK(cost.at(40) == 3);
  CHECK(cost.at(4000) == 3);
  CHECK(cost.rounds(40) > PlainCost::kFew);
  CHECK(cost.rounds(400) < 1);
}

TEST_CASE("plain cost: a line through texts of all lengths") {
  PlainCost cost;
  TinyRandom random(1);
  for (int i = 0; i < 40; ++i)
    reply(cost, static_cast<int>(20 + 600 * random.uniform()), 3, random);
  for (const int length : {0, 100, 300, 600, 1000}) {
    CHECK(cost.at(length) == doctest::Approx(line(length)).epsilon(0.1).scale(0));
  }
  CHECK(cost.rounds(300) > 20);
  CHECK(cost.rounds(300) < 34);  // of the newest
  CHECK(cost.rounds(5000) < 1);
}

TEST_CASE("plain cost: rounds of one length say little about others") {
  PlainCost cost;
  TinyRandom random(2);
  reply(cost, 100, 8, random, 0.3);
  CHECK(cost.at(104) == doctest::Approx(line(104)).epsilon(0.15).scale(0));
  CHECK(cost.at(700) == doctest::Approx(line(104)).epsilon(0.6).scale(0));
  CHECK(cost.at(0) > 0.5 * line(104));
  CHECK(cost.rounds(104) > 6);
  CHECK(cost.rounds(700) < 1);
  reply(cost, 700, 3, random);  // and few tell
  CHECK(cost.at(700) == doctest::Approx(line(700)).epsilon(0.2).scale(0));
  CHECK(cost.rounds(700) > 2.5);
}

TEST_CASE("plain cost: texts many times as long, one of whose rounds is interrupted") {
  PlainCost cost;
  TinyRandom random(4);
  reply(cost, 20, 40, random);
  cost.add(8000, 40 * line(8000));
  CHECK(cost.at(40) == doctest::Approx(line(40)).epsilon(0.1).scale(0));
  cost.add(20, line(20));  // a reply behind a short text in between
  for (int n = 8001; n < 8003; ++n) cost.add(n, line(n));
  CHECK(cost.at(8000) == doctest::Approx(line(8000)).epsilon(0.1).scale(0));
  CHECK(cost.at(40) == doctest::Approx(line(40)).epsilon(0.3).scale(0));
}

TEST_CASE("plain cost: an interruption counts for little, a slower machine is found") {
  PlainCost cost;
  TinyRandom random(3);
  reply(cost, 100, 30, random, 0.05);
  cost.add(130, 1000);
  CHECK(cost.at(130) == doctest::Approx(line(130)).epsilon(0.1).scale(0));
  reply(cost, 130, 60, random, 0.05, 3);
  CHECK(cost.at(160) == doctest::Approx(3 * line(160)).epsilon(0.1).scale(0));
  for (int n = 1000; n > 0; n -= 50) cost.add(n, 1);  // long texts were fast: no line falls
  CHECK(cost.at(0) > 0);
  CHECK(cost.at(0) <= cost.at(1000));
}

}  // namespace plain_cost_test
