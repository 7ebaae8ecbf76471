// The draft table: what it learns, how sure it says it is, and that no bytes can hurt a lookup.
#include "model/draft_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/half.h"
#include "tiny_gguf.h"
#include "train/build_draft_table.h"

namespace draft_table_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kVocab = 50;

// Everything behind the first `n_prompt` tokens is learnt.
TrainingText text_of(std::vector<int32_t> tokens, size_t n_prompt) {
  TrainingText text;
  text.learn.assign(tokens.size(), 0);
  for (size_t i = n_prompt - 1; i + 1 < tokens.size(); ++i) text.learn[i] = 1;
  text.tokens = std::move(tokens);
  return text;
}

// A language whose next token goes by the two before it: one of three, most often the first.
std::vector<TrainingText> language(int n_texts, uint64_t seed) {
  TinyRandom random(seed);
  std::vector<TrainingText> texts;
  for (int i = 0; i < n_texts; ++i) {
    std::vector<int32_t> tokens = {1, 2};
    while (tokens.size() < 60) {
      const int32_t a = tokens[tokens.size() - 2], b = tokens.back();
      const float u = random.uniform();
      const int way = u < 0.7f ? 1 : u < 0.9f ? 5 : 11;
      tokens.push_back((3 * a + 7 * b + way) % kVocab);
    }
    texts.push_back(text_of(std::move(tokens), 2));
  }
  return texts;
}

NewDraftTable build(const std::vector<TrainingText>& texts, size_t max_bytes = size_t{1} << 20,
                    int max_context = 4) {
  return build_draft_table(texts, {max_context, max_bytes, kVocab});
}

}  // namespace

TEST_CASE("a table repeats what it was built from, by the longest context it knows") {
  const std::vector<TrainingText> texts = {text_of({9, 8, 1, 2, 3, 4, 1, 2, 5, 6}, 2),
                                           text_of({9, 8, 1, 2, 3, 4, 1, 2, 5, 6}, 2)};
  const NewDraftTable made = build(texts);
  REQUIRE(DraftTable::problem(made.arrays(), kVocab) == "");
  const DraftTable table(made.arrays());
  CHECK(table.max_context() == 4);
  CHECK(table.contexts() > 5);
  const auto next = [&](std::vector<int32_t> history) {
    const TableGuess guess = table.lookup(history);
    return guess.size > 0 ? guess.ids[0] : -1;
  };
  // The prompt is context, and is not learnt itself.
  CHECK(next({9, 8}) == 1);
  CHECK(next({9}) == -1);
  CHECK(next({8, 1, 2}) == 3);
  CHECK(next({4, 1, 2}) == 5);
  // What is unknown in front does not matter.
  CHECK(next({40, 41, 42, 4, 1, 2}) == 5);
  CHECK(next({40}) == -1);
  CHECK(next({}) == -1);
  // By one token alone, both that followed.
  const TableGuess either = table.lookup(std::vector<int32_t>{40, 2});
  CHECK(either.context == 1);
  REQUIRE(either.size >= 2);
  CHECK(either.ids[0] + either.ids[1] == 8);
}

TEST_CASE("chances of a table sum to 1 at most and hold on text that it has not seen") {
  // As long as what the language goes by: sparser contexts only add noise.
  const NewDraftTable made = build(language(1500, 5), size_t{1} << 20, 2);
  const DraftTable table(made.arrays());
  TinyRandom random(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<int32_t> history;
    for (int k = 0; k < 4; ++k) history.push_back(static_cast<int32_t>(random.next() % kVocab));
    const TableGuess guess = table.lookup(history);
    double sum = 0;
    for (int k = 0; k < guess.size; ++k) {
      sum += std::exp(static_cast<double>(guess.log_p[k]));
      if (k > 0) CHECK(guess.log_p[k] <= guess.log_p[k - 1]);
    }
    CHECK(sum <= 1);
  }
  const DraftTableReport report = judge_draft_table(table, language(100, 6));
  CHECK(report.tokens == 5800);
  CHECK(report.known > 0.99);
  CHECK(report.right > 0.65);
  CHECK(report.confidence == doctest::Approx(report.right).epsilon(0.05));
  CHECK(report.ece < 0.07);
}

TEST_CASE("confidence counts the tokens that are not listed, at any temperature") {
  TableGuess guess;
  CHECK(guess.confidence(1) == 0);
  guess.size = 2;
  guess.log_p = {std::log(0.5f), std::log(0.3f)};
  CHECK(guess.confidence(1) == doctest::Approx(0.5));
  // Squared: 0.25 of 0.25 + 0.09 + 0.04.
  CHECK(guess.confidence(0.5f) == doctest::Approx(0.25 / 0.38));
  CHECK(guess.confidence(1.5f) < 0.5f);
  CHECK(guess.confidence(100) >= 0);
  guess.size = 1;
  guess.log_p[0] = 0;
  CHECK(guess.confidence(2) == 1);
  guess.log_p[0] = -60000;
  CHECK(guess.confidence(0.01f) >= 0);
  CHECK(guess.confidence(1) < 0.01f);
}

TEST_CASE("a table keeps to its bytes and drops what says least") {
  const std::vector<TrainingText> texts = language(1500, 5), unseen = language(100, 6);
  double right = 0;
  for (const size_t bytes : {size_t{500}, size_t{5000}, size_t{50000}}) {
    const NewDraftTable made = build(texts, bytes);
    const DraftTable table(made.arrays());
    CHECK(table.bytes() <= bytes);
    CHECK(table.bytes() > bytes / 2);
    const DraftTableReport report = judge_draft_table(table, unseen);
    CHECK(report.right >= right);
    right = report.right;
  }
  CHECK(right > 0.6);
  CHECK(build(texts, 10).empty());
  CHECK(build({}).empty());
  CHECK(build({text_of({1}, 1)}).empty());
  CHECK(DraftTable().lookup(std::vector<int32_t>{1, 2}).size == 0);
}

TEST_CASE("the same texts give the same table") {
  const NewDraftTable a = build(language(50, 5)), b = build(language(50, 5));
  REQUIRE(!a.empty());
  CHECK(a.keys == b.keys);
  CHECK(a.places == b.places);
  CHECK(a.tokens == b.tokens);
  CHECK(a.log_p == b.log_p);
}

TEST_CASE("arrays that are no table are told from one") {
  const NewDraftTable good = build(language(20, 5), 4000);
  REQUIRE(DraftTable::problem(good.arrays(), kVocab) == "");
  const auto problem = [&](auto&& change) {
    NewDraftTable bad = good;
    change(bad);
    return DraftTable::problem(bad.arrays(), kVocab);
  };
  const size_t used = static_cast<size_t>(
      std::find_if(good.keys.begin(), good.keys.end(), [](uint32_t key) { return key != 0; }) -
      good.keys.begin());
  CHECK(problem([](auto& t) { t.max_context = 0; }) ==
        "expected contexts of 1 to 8 tokens, found 0");
  CHECK(problem([](auto& t) { t.max_context = 9; }) ==
        "expected contexts of 1 to 8 tokens, found 9");
  CHECK(problem([](auto& t) { t.keys.clear(); }) == "expected 1 to 2^30 keys, found 0");
  CHECK(problem([](auto& t) { t.places.pop_back(); }).find("one a key, found") !=
        std::string::npos);
  CHECK(problem([](auto& t) { t.log_p.pop_back(); }).find("one a token, found") !=
        std::string::npos);
  CHECK(problem([](auto& t) { t.tokens[3] = kVocab; }) ==
        "expected token ids from 0 to 49, found 50 at 3");
  CHECK(problem([](auto& t) { t.tokens[0] = -1; }) ==
        "expected token ids from 0 to 49, found -1 at 0");
  for (const float value :
       {0.5f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(problem([&](auto& t) { t.log_p[2] = float_to_half(value); }).find("found") !=
          std::string::npos);
  }
  CHECK(problem([&](auto& t) { t.places[used] = ~0u; }).find("expected places within") == 0);
  CHECK(problem([&](auto& t) {
          t.places[used] = static_cast<uint32_t>(t.tokens.size()) * 4;
        }).find("expected places within") == 0);
}

TEST_CASE("a lookup ends in a table without a free slot, and reads no byte outside") {
  NewDraftTable full;
  full.max_context = DraftTable::kMaxContext;
  full.tokens = {7};
  full.log_p = {0};
  TinyRandom random(9);
  for (int slots : {1, 3, 64, 1000}) {
    full.keys.clear();
    for (int i = 0; i < slots; ++i) full.keys.push_back(static_cast<uint32_t>(random.next()) | 1);
    full.places.assign(full.keys.size(), 0);
    REQUIRE(DraftTable::problem(full.arrays(), kVocab) == "");
    const DraftTable table(full.arrays());
    CHECK(table.contexts() == static_cast<size_t>(slots));
    for (int i = 0; i < 1000; ++i) {
      std::vector<int32_t> history(random.next() % 12);
      for (int32_t& id : history) id = static_cast<int32_t>(random.next() % kVocab);
      const TableGuess guess = table.lookup(history);
      CHECK((guess.size == 0 || guess.ids[0] == 7));
    }
  }
}

TEST_CASE("a table may lie at any address") {
  const NewDraftTable made = build(language(20, 5), 4000);
  const DraftTable::Arrays arrays = made.arrays();
  std::vector<std::vector<std::byte>> moved;
  const auto move = [&](std::span<const std::byte> bytes) {
    moved.emplace_back(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), moved.back().begin() + 1);
    return std::span<const std::byte>(moved.back()).subspan(1);
  };
  const DraftTable there(arrays);
  const DraftTable here({arrays.max_context, move(arrays.keys), move(arrays.places),
                         move(arrays.tokens), move(arrays.log_p)});
  for (int32_t a = 0; a < kVocab; ++a) {
    const std::vector<int32_t> history = {a, (a * 7) % kVocab};
    const TableGuess x = there.lookup(history), y = here.lookup(history);
    CHECK(x.size == y.size);
    CHECK(x.ids == y.ids);
    CHECK(x.log_p == y.log_p);
  }
}

}  // namespace draft_table_test
