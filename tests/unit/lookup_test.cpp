// Lookup: continuations against a search of the whole text, the memory of replies, and the odds of
// what was found.
#include "drafters/lookup.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "sanitized.h"
#include "tiny_datastore.h"
#include "tiny_gguf.h"

namespace lookup_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
using Found = std::array<Continuation, LookupIndex::kMost>;

Text random_text(int n, int vocabulary, uint64_t seed) {
  TinyRandom random(seed);
  Text text(n);
  for (int32_t& token : text) token = static_cast<int32_t>(random.next() % vocabulary);
  return text;
}

// The longest match behind which each token came, in all of `text`.
std::map<int32_t, int> search(const Text& text, std::span<const int32_t> context) {
  std::map<int32_t, int> longest;
  for (size_t place = 1; place < text.size(); ++place) {
    int length = 0;
    const int most = std::min<int>(LookupIndex::kLongest, std::min(place, context.size()));
    while (length < most &&
           text[place - 1 - length] == context[context.size() - 1 - static_cast<size_t>(length)]) {
      ++length;
    }
    if (length > 0) longest[text[place]] = std::max(longest[text[place]], length);
  }
  return longest;
}

std::vector<Continuation> find(const LookupIndex& index, const Text& context) {
  Found found;
  const int n = index.find(context, found);
  return {found.begin(), found.begin() + n};
}

// Orders of 1, 2 and 4 tokens.
int order(int length) {
  return length >= 4 ? 4 : length >= 2 ? 2 : 1;
}

}  // namespace

TEST_CASE("lookup: continuations are those of a search, the longest matches first") {
  for (const int vocabulary : {2, 5, 30}) {
    CAPTURE(vocabulary);
    LookupIndex index;
    TinyRandom random(vocabulary);
    Text text;
    int several = 0;
    for (int step = 0; step < 1500; ++step) {
      if (step % 100 == 99) {  // another text, of which the front may be the old one's
        text.resize(random.next() % text.size());
        const Text more = random_text(20, vocabulary, random.next());
        text.insert(text.end(), more.begin(), more.end());
        index.assign(text);
      } else {
        text.push_back(static_cast<int32_t>(random.next() % vocabulary));
        index.push(text.back());
      }
      // Behind the text itself, and behind a draft or two.
      Text context = text;
      for (uint64_t drafts = random.next() % 3; drafts > 0; --drafts) {
        context.push_back(static_cast<int32_t>(random.next() % vocabulary));
      }
      const std::map<int32_t, int> all = search(text, context);
      const std::vector<Continuation> found = find(index, context);
      REQUIRE(found.empty() == all.empty());
      std::set<int32_t> tokens;
      for (size_t i = 0; i < found.size(); ++i) {
        const Continuation& c = found[i];
        REQUIRE(tokens.insert(c.token).second);
        REQUIRE(all.contains(c.token));
        // A constant number of places is looked at: a longer match may lie further back.
        REQUIRE(c.length <= all.at(c.token));
        REQUIRE((c.count >= 1 && c.count <= c.total));
        if (i > 0) {
          const Continuation& before = found[i - 1];
          REQUIRE(order(before.length) >= order(c.length));
          if (order(before.length) == order(c.length)) REQUIRE(before.length >= c.length);
        }
      }
      several += found.size() > 1;
    }
    CHECK(several > 100);
  }
}

TEST_CASE("lookup: counts are of the places of one order") {
  LookupIndex index;
  // 7 8 9 twice before 1, once before 2; 9 alone before 3 as well.
  const Text text = {7, 8, 9, 1, 0, 7, 8, 9, 2, 0, 7, 8, 9, 1, 5, 9, 3, 7, 8, 9};
  index.assign(text);
  const std::vector<Continuation> found = find(index, text);
  REQUIRE(found.size() == 3);
  CHECK(found[0].token == 1);
  CHECK(found[0].length == 3);
  CHECK(found[0].count == 2);
  CHECK(found[0].total == 3);
  CHECK(found[1].token == 2);
  CHECK(found[1].count == 1);
  CHECK(found[2].token == 3);
  CHECK(found[2].length == 1);
  CHECK(found[2].total == 1);
  CHECK(find(index, {4}).empty());
  CHECK(find(LookupIndex(), text).empty());
}

TEST_CASE("lookup: a text that comes at once is found in as one that comes token by token") {
  for (const int n : {0, 1, 511, 513, 2048, 2049, 9000}) {
    const Text text = random_text(n, 40, static_cast<uint64_t>(n));
    LookupIndex at_once, pushed, in_two;
    at_once.assign(text);
    for (const int32_t token : text) pushed.push(token);
    in_two.assign(std::span(text).first(text.size() / 2));
    in_two.assign(text);
    for (int i = 0; i < 200; ++i) {
      const Text context = random_text(6, 40, static_cast<uint64_t>(i));
      const auto same = [](const Continuation& a, const Continuation& b) {
        return a.token == b.token && a.length == b.length && a.count == b.count &&
               a.total == b.total;
      };
      const std::vector<Continuation> want = find(pushed, context);
      for (const LookupIndex* index : {&at_once, &in_two}) {
        const std::vector<Continuation> found = find(*index, context);
        REQUIRE(std::equal(found.begin(), found.end(), want.begin(), want.end(), same));
      }
    }
  }
}

TEST_CASE("lookup: 32,768 tokens are indexed in well under 20 ms") {
  const Text text = random_text(32768, 5000, 1);
  double least = 1;  // seconds
  for (int turn = 0; turn < 5; ++turn) {
    LookupIndex index;
    const auto begin = std::chrono::steady_clock::now();
    index.assign(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count());
    CHECK(index.text().size() == text.size());
  }
#ifdef NDEBUG
  // Ten times the bound: the machine may be busy, and tests are at -O0.
  CHECK(least < (kSanitized ? 1.0 : 0.2));
#else
  MESSAGE("SKIP the time bound: it holds for Release builds");
#endif
}

TEST_CASE("lookup: replies go to the memory when another text begins, prompts do not") {
  LookupMemory memory;
  Lookup lookup(&memory);
  const auto remembered = [&] {
    const std::span<const int32_t> text = memory.index().text();
    return Text(text.begin(), text.end());
  };
  constexpr int32_t kEnd = LookupMemory::kBetween;
  lookup.begin(Text{1, 2, 3});
  for (const int32_t token : {4, 5}) lookup.push(token);
  CHECK(remembered().empty());
  lookup.begin(Text{1, 2, 3, 4, 5, 6});  // the conversation goes on
  lookup.push(7);
  CHECK(remembered().empty());
  lookup.begin(Text{1, 9});
  CHECK(remembered() == Text{4, 5, kEnd, 7, kEnd});  // 6 was asked, not written
  lookup.push(8);
  lookup.forget();
  CHECK(remembered() == Text{4, 5, kEnd, 7, kEnd, 8, kEnd});
  lookup.forget();
  CHECK(remembered().size() == 7);

  std::vector<Lookup::Found> found;
  lookup.begin(Text{20, 4});
  lookup.find(Text{20, 4}, 0, {}, found);
  REQUIRE(found.size() == 1);
  CHECK(found[0].token == 5);
  CHECK(found[0].features.text == CandidateOdds::kNothing);
  CHECK(found[0].features.memory >= 0);
  lookup.find(Text{20, 8}, 0, {}, found);  // an end between two replies is no token
  CHECK(found.empty());
  Lookup without(nullptr);
  without.begin(Text{20, 5});
  without.find(Text{20, 5}, 0, {}, found);
  CHECK(found.empty());
}

TEST_CASE("lookup: the memory stays bounded, and the newest replies stay in it") {
  LookupMemory memory;
  const size_t most = LookupMemory::kMostTokens;
  for (int32_t reply = 0; reply < 70; ++reply) {
    memory.add(Text(most / 64, reply));
    REQUIRE(memory.index().text().size() <= most);
  }
  const std::span<const int32_t> text = memory.index().text();
  CHECK(text.size() > most / 4);
  CHECK(text[text.size() - 2] == 69);
  CHECK(text.front() > 0);
  // Of what is there the newer half stays as it was.
  const Text before = random_text(static_cast<int>(most) - 10, 30'000, 2);
  memory.assign(before);
  CHECK(memory.added().empty());
  memory.add(Text(20, 5));
  CHECK(memory.added().size() == 21);
  const std::span<const int32_t> now = memory.index().text();
  REQUIRE(now.size() == before.size() / 2 + 21);
  CHECK(std::equal(before.end() - static_cast<ptrdiff_t>(before.size() / 2), before.end(),
                   now.begin()));
  memory.assign(Text(most, 1));                                 // full
  memory.add(random_text(static_cast<int>(most) + 5, 100, 1));  // more than there is room for
  CHECK(memory.index().text().size() <= most);
  CHECK(memory.added().size() == most / 2);
  memory.add(Text(most / 2, 7));  // only such have stayed
  CHECK(memory.added().size() == memory.replies().size());
  CHECK(memory.added().back() == LookupMemory::kBetween);
}

TEST_CASE("lookup: what is given stays, whatever else is remembered") {
  LookupMemory memory;
  memory.give(Text{7, 8, 9});
  CHECK(memory.given() == 4);
  CHECK(memory.replies().empty());
  memory.add(Text{1, 2});
  CHECK(std::ranges::equal(memory.replies(), Text{1, 2, LookupMemory::kBetween}));
  for (int32_t reply = 0; reply < 70; ++reply) {
    memory.add(Text(LookupMemory::kMostTokens / 64, reply));
  }
  CHECK(memory.replies().size() <= LookupMemory::kMostTokens);
  CHECK(memory.replies()[memory.replies().size() - 2] == 69);
  CHECK(std::ranges::equal(memory.index().text().first(4), Text{7, 8, 9, LookupMemory::kBetween}));
  memory.assign(Text{5, 6, LookupMemory::kBetween});
  CHECK(memory.index().text().size() == 7);
  memory.add(Text{1});
  memory.give(Text{3, LookupMemory::kBetween, 4});  // in its place
  CHECK(std::ranges::equal(memory.index().text(), Text{3, -1, 4, -1, 5, 6, -1, 1, -1}));
  CHECK(std::ranges::equal(memory.added(), Text{1, -1}));
  memory.give({});
  CHECK(std::ranges::equal(memory.index().text(), Text{5, 6, -1, 1, -1}));

  LookupMemory closed(false);
  closed.give(Text{7, 8, 9});
  Lookup lookup(&closed);
  lookup.begin(Text{1, 2});
  for (const int32_t token : {3, 4, 7}) lookup.push(token);
  lookup.forget();
  CHECK(closed.replies().empty());
  std::vector<Lookup::Found> found;
  lookup.begin(Text{7});
  lookup.find(Text{7}, 0, {}, found);
  REQUIRE(found.size() == 1);
  CHECK(found[0].token == 8);
}

TEST_CASE("lookup: what text and memory both say is one candidate, and rivals are told") {
  LookupMemory memory;
  memory.add(Text{1, 2, 3});
  Lookup lookup(&memory);
  const Text text = {1, 2, 3, 9, 2, 4, 1, 2};
  lookup.begin(text);
  std::vector<Lookup::Found> found;
  lookup.find(text, 0, {}, found);
  REQUIRE(found.size() == 2);
  CHECK(found[0].token == 3);
  CHECK(found[0].features.text >= 0);
  CHECK(found[0].features.memory >= 0);
  CHECK(found[0].features.rival == CandidateOdds::rival(1));
  CHECK(found[1].token == 4);
  CHECK(found[1].features.memory == CandidateOdds::kNothing);
  CHECK(found[1].features.rival == CandidateOdds::rival(2));
}

TEST_CASE("lookup: what a datastore says is counted behind the longest match first") {
  // 2 tokens of `context` stand at four places, 1 of them at 7.
  const TinyStore store({97, 0}, store_tokens({{1, 2, 30},
                                               {1, 2, 40, 5},
                                               {9, 1, 2, 40},
                                               {1, 2},
                                               {7, 2, 50},
                                               {8, 2, 50, 6},
                                               {8, 2, 30}}));
  const auto found = [&](const Text& text) {
    Lookup lookup(nullptr, &*store);
    lookup.begin(text);
    std::vector<Lookup::Found> some;
    lookup.find(text, 0, {}, some);
    return some;
  };
  std::vector<Lookup::Found> some = found({60, 1, 2});
  REQUIRE(some.size() == 3);
  CHECK(some[0].token == 40);
  CHECK(some[0].features.store == CandidateOdds::cell({40, 2, 2, 4}));
  CHECK(some[1].token == 30);
  CHECK(some[1].features.store == CandidateOdds::cell({30, 2, 1, 4}));
  CHECK(some[2].token == 50);
  CHECK(some[2].features.store == CandidateOdds::cell({50, 1, 2, 7}));
  for (const Lookup::Found& one : some) {
    CHECK(one.features.text == CandidateOdds::kNothing);
    CHECK(one.features.memory == CandidateOdds::kNothing);
    CHECK(one.features.lookups() == 1);
    CHECK(one.features.rival == 0);
  }
  CHECK(found({60, 61}).empty());
  CHECK(found({}).empty());
  // The text says it too.
  some = found({1, 2, 40, 1, 2});
  REQUIRE(some.size() == 3);
  CHECK(some[0].token == 40);
  CHECK(some[0].features.text >= 0);
  CHECK(some[0].features.store >= 0);
  CHECK(some[0].features.lookups() == 2);
  CHECK(some[0].features.rival == 0);  // what a datastore says is no rival of the text's
}

TEST_CASE("lookup: of a datastore's many continuations the most frequent are named") {
  std::vector<Text> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back({1, 2, 10 + (i % 16 < 6 ? 0 : i % 16)});
  const TinyStore store({97, 0}, store_tokens(texts));
  Lookup lookup(nullptr, &*store);
  std::vector<Lookup::Found> found;
  lookup.find(Text{1, 2}, 0, {}, found);
  REQUIRE(found.size() == LookupIndex::kMost);
  CHECK(found[0].token == 10);
  CHECK(found[0].features.store == CandidateOdds::cell({10, 2, 6, 16}));
}

TEST_CASE("odds: a guess speaks for its token and against others, the more the surer it is") {
  CHECK(CandidateOdds::guess(0) == 0);
  CHECK(CandidateOdds::guess(-INFINITY) == 0);
  CHECK(CandidateOdds::guess(NAN) == 0);
  CHECK(CandidateOdds::guess(1) == CandidateOdds::kGuesses - 1);
  CandidateOdds odds;
  const int text = CandidateOdds::cell({0, 2, 1, 1});
  for (int bin = 0; bin < CandidateOdds::kGuesses; ++bin) {
    const double alone = odds.chance({.guess = bin});
    CHECK(alone < odds.chance({.text = text, .guess = bin}));
    CHECK(odds.chance({.text = text}) > odds.chance({.text = text, .against = bin}));
    if (bin == 0) continue;
    CHECK(alone > odds.chance({.guess = bin - 1}));
    CHECK(odds.chance({.text = text, .against = bin}) <
          odds.chance({.text = text, .against = bin - 1}));
  }
  for (int i = 0; i < 100; ++i) odds.learn({.guess = 11}, false);
  CHECK(odds.chance({.guess = 11}) < 0.2);
  CHECK(odds.chance({.text = text}) == CandidateOdds().chance({.text = text}));
}

TEST_CASE("odds: a chance for everything that can be said, learned and given back") {
  CandidateOdds odds;
  for (int text = -1; text < CandidateOdds::kCells; ++text) {
    for (int memory = -1; memory < CandidateOdds::kCells; ++memory) {
      const double stored = odds.chance({.text = text, .memory = memory, .store = memory});
      REQUIRE((stored > 0 && stored < 1));
      for (int rival = 0; rival < CandidateOdds::kRivals; ++rival) {
        for (const float temperature : {0.0f, 0.7f, 1e30f}) {
          const double chance = odds.chance({.text = text,
                                             .memory = memory,
                                             .rival = rival,
                                             .temperature = temperature,
                                             .noise = 7});
          REQUIRE((chance > 0 && chance < 1));
        }
      }
    }
  }
  std::set<int> cells;
  for (int length = 1; length <= LookupIndex::kLongest; ++length) {
    for (int total = 1; total <= 24; ++total) {
      for (int count = 1; count <= total; ++count) {
        const int cell = CandidateOdds::cell({0, length, count, total});
        REQUIRE((cell >= 0 && cell < CandidateOdds::kCells));
        cells.insert(cell);
      }
    }
  }
  CHECK(cells.size() == CandidateOdds::kCells);
  // As shipped, a longer match that all places agree on is surer.
  const auto agreed = [&](int length) {
    return odds.chance({.text = CandidateOdds::cell({0, length, 5, 5})});
  };
  CHECK(agreed(2) > agreed(1));
  CHECK(agreed(8) > agreed(2));
  CHECK(agreed(30) > agreed(8));
  CHECK(agreed(30) > 0.95);

  // What a datastore says is learned by itself.
  CandidateOdds stores;
  for (int i = 0; i < 400; ++i) stores.learn({.store = 7, .rival = 1}, true);
  CHECK(stores.chance({.store = 7, .rival = 1}) > 0.9);
  CHECK(stores.chance({.memory = 7}) == CandidateOdds().chance({.memory = 7}));
  CHECK(stores.weights().store[7] > CandidateOdds::shipped().store[7]);

  const CandidateOdds::Features one = {.text = 7, .rival = 1}, other = {.text = 12};
  const double before = odds.chance(one), untouched = odds.chance(other);
  for (int i = 0; i < 400; ++i) odds.learn(one, i % 4 == 0);
  CHECK(odds.chance(one) == doctest::Approx(0.25).epsilon(0.15));
  CHECK(odds.chance(other) == untouched);
  for (int i = 0; i < 2000; ++i) odds.fade();
  CHECK(odds.chance(one) == doctest::Approx(before).epsilon(0.001));
  for (int i = 0; i < 100000; ++i) odds.learn(one, true);
  CHECK(std::isfinite(odds.chance(one)));
}

TEST_CASE("odds: the noise that a token is drawn with counts as far as draws are random") {
  CHECK(CandidateOdds::noise(-1e30f) == 0);
  CHECK(CandidateOdds::noise(1e30f) == CandidateOdds::kNoises - 1);
  const CandidateOdds odds;
  const auto chance = [&](float temperature, int noise, int rival_noise) {
    return odds.chance(
        {.text = 12, .temperature = temperature, .noise = noise, .rival_noise = rival_noise});
  };
  CHECK(chance(0, 7, 0) == chance(0, 0, 7));  // greedy
  for (int noise = 1; noise < CandidateOdds::kNoises; ++noise) {
    CHECK(chance(0.7f, noise, 0) > chance(0.7f, noise - 1, 0));
  }
  CHECK(chance(0.7f, 4, 7) < chance(0.7f, 4, 1));
  CHECK(chance(1.0f, 7, 0) > chance(0.7f, 7, 0));
  CHECK(chance(5.0f, 7, 0) == chance(1.5f, 7, 0));

  CandidateOdds learned;
  const CandidateOdds::Features hot = {.text = 12, .temperature = 1, .noise = 2, .rival_noise = 3};
  for (int i = 0; i < 100; ++i) learned.learn(hot, true);
  CHECK(learned.weights().noise[2] > odds.weights().noise[2]);
  CHECK(learned.weights().rival_noise[3] > odds.weights().rival_noise[3]);
  for (int i = 0; i < 2000; ++i) learned.fade();
  CHECK(learned.chance(hot) == doctest::Approx(odds.chance(hot)).epsilon(0.001));
}

TEST_CASE("lookup: the noise is that of the token at the place where it would be drawn") {
  Lookup lookup(nullptr);
  const Text text = {1, 2, 3, 9, 2, 4, 1, 2};
  lookup.begin(text);
  std::vector<Lookup::Found> found;
  std::set<int> seen;
  for (uint32_t reply = 0; reply < 100; ++reply) {
    const DrawPlace place = {.seed = 5, .reply = reply, .pos = 8};
    lookup.find(text, 0.7f, place, found);
    REQUIRE(found.size() == 2);
    for (int i = 0; i < 2; ++i) {
      const CandidateOdds::Features& f = found[i].features;
      CHECK(f.temperature == 0.7f);
      CHECK(f.noise == CandidateOdds::noise(gumbel(place, found[i].token)));
      CHECK(f.rival_noise == found[1 - i].features.noise);
      seen.insert(f.noise);
    }
  }
  CHECK(seen.size() == CandidateOdds::kNoises);
  lookup.find(text, 0, {}, found);
  CHECK(found[0].features.noise == 0);
}

}  // namespace lookup_test
