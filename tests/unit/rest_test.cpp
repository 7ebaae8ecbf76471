// REST: the tree of a hand-made datastore node for node, and against a search by brute force.
#include "drafters/rest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "engine_rig.h"
#include "tiny_datastore.h"

namespace rest_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
using Rows = std::vector<std::pair<int, int32_t>>;  // parent, token
constexpr VocabularyId kVocabulary = {97, 5};

const TinyModel& model() {
  static const TinyModel model(q8_0_spec());
  return model;
}

// Of each round, with the text that it began with.
std::vector<std::pair<Text, Rows>> rounds_of(Rest& rest, Text text, int max_tokens,
                                             GenerateOptions options = {}) {
  const auto engine = model().backend(best_isa(), 1);
  Session session(*engine, Sampler(SamplingParams{}));
  session.set_speculator(&rest);
  std::vector<std::pair<Text, Rows>> rounds;
  options.max_tokens = max_tokens;
  options.on_round = [&](const RoundEvent& round) {
    Rows rows;
    for (const RowEvent& row : round.rows) rows.emplace_back(row.parent, row.token);
    rounds.emplace_back(text, rows);
    for (const TokenEvent& event : round.tokens) text.push_back(event.token);
  };
  session.generate(Text(text), options);
  return rounds;
}

Rows first_rows(const TinyStore& store, const Text& prompt, int w_max = kMaxRows,
                GenerateOptions options = {}) {
  Rest rest(*store, w_max);
  return rounds_of(rest, prompt, 40, std::move(options)).front().second;
}

const TinyStore& hand_made() {
  static const TinyStore store(kVocabulary, store_tokens({{5, 10, 11, 20, 21, 22},
                                                          {6, 10, 11, 20, 21, 23},
                                                          {7, 10, 11, 20, 24},
                                                          {8, 10, 11, 30, 31},
                                                          {9, 10, 11}}));
  return store;
}

}  // namespace

TEST_CASE("rest: the most frequent nodes of the trie are the rows, nearer ones first") {
  const Rows all = {{-1, 11}, {0, 20}, {1, 21}, {0, 30}, {1, 24}, {3, 31}, {2, 22}, {2, 23}};
  CHECK(first_rows(hand_made(), {1, 4, 10, 11}) == all);
  for (int w_max = 2; w_max <= 8; ++w_max) {
    const Rows some(all.begin(), all.begin() + w_max);
    CHECK(first_rows(hand_made(), {1, 4, 10, 11}, w_max) == some);
  }
  // The longest context alone counts.
  CHECK(first_rows(hand_made(), {1, 8, 10, 11}) == Rows{{-1, 11}, {0, 30}, {1, 31}});
  // Nothing stands behind it, or it is of one token, or not there.
  CHECK(first_rows(hand_made(), {1, 9, 10, 11}) == Rows{{-1, 11}});
  CHECK(first_rows(hand_made(), {1, 3, 11}) == Rows{{-1, 11}});
  CHECK(first_rows(hand_made(), {11}) == Rows{{-1, 11}});
  CHECK(first_rows(hand_made(), {1, 2, 3}) == Rows{{-1, 3}});
}

// No file can be trusted with the order of its places, whatever its checksum says.
TEST_CASE("rest: places out of order draft a token behind a row once") {
  // Behind 10 11: nothing, 20 21 22, 20 21 23, 20 24, 30 31.
  const Datastore& whole = *hand_made();
  const std::span<const uint32_t> places = whole.longest(Text{1, 4, 10, 11}, 2, 16).places;
  REQUIRE(places.size() == 5);
  const auto first = static_cast<size_t>(places.data() - whole.places().data());
  const auto drafted = [&](const std::vector<size_t>& order) {
    std::vector<std::byte> bytes = hand_made().bytes();
    for (size_t i = 0; i < order.size(); ++i) {
      put(bytes, kStoreHeader + 4 * (whole.tokens().size() + first + i), places[order[i]]);
    }
    set_checksum(bytes);
    const Datastore store = Datastore::parse(bytes, "mixed", kVocabulary);
    Rest rest(store, kMaxRows);
    return rounds_of(rest, {1, 4, 10, 11}, 9).front().second;
  };
  CHECK(drafted({0, 1, 2, 3, 4}) == first_rows(hand_made(), {1, 4, 10, 11}));
  CHECK(drafted({0, 1, 4, 3, 2}) ==
        Rows{{-1, 11}, {0, 20}, {0, 30}, {1, 24}, {1, 21}, {2, 31}, {4, 23}});
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  do {
    const Rows rows = drafted(order);
    for (const auto& row : rows) CHECK(std::ranges::count(rows, row) == 1);
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("rest: what ends a reply is no row, and nothing behind it is") {
  GenerateOptions options;
  options.is_end = [](int32_t token) { return token == 30 || token == 21; };
  CHECK(first_rows(hand_made(), {1, 4, 10, 11}, kMaxRows, options) ==
        Rows{{-1, 11}, {0, 20}, {1, 24}});
}

TEST_CASE("rest: of many places the shares count") {
  std::vector<Text> texts;
  for (int i = 0; i < 10000; ++i) {
    texts.push_back({10, 11, i % 8 < 5 ? 20 : i % 8 < 7 ? 30 : 40, 50});
  }
  const TinyStore store(kVocabulary, store_tokens(texts));
  CHECK(first_rows(store, {1, 10, 11}) ==
        Rows{{-1, 11}, {0, 20}, {1, 50}, {0, 30}, {3, 50}, {0, 40}, {5, 50}});
}

TEST_CASE("rest: rows have the counts of a search, round after round") {
  // Replies of the model to other prompts, so that contexts are found.
  std::vector<Text> texts;
  const auto engine = model().backend(best_isa(), 1);
  for (int i = 0; i < 12; ++i) {
    Session session(*engine, Sampler(SamplingParams{.temperature = 0.6f, .seed = 3}));
    Text text = token_ids(9, 97);
    text[i % 9] = i;
    GenerateOptions options;
    options.max_tokens = 60;
    options.on_token = [&](const TokenEvent& event) { text.push_back(event.token); };
    session.generate(Text(text), options);
    texts.push_back(text);
  }
  const TinyStore store(kVocabulary, store_tokens(texts));
  const std::span<const int32_t> tokens = store->tokens();
  Rest rest(*store, 8);
  size_t trees = 0;
  for (const auto& [text, rows] : rounds_of(rest, token_ids(9, 97), 80)) {
    const auto stands = [&](const Text& words, size_t at) {
      return at + words.size() <= tokens.size() &&
             std::equal(words.begin(), words.end(), tokens.begin() + static_cast<long>(at));
    };
    const auto count = [&](const Text& words) {
      int n = 0;
      for (size_t at = 0; at < tokens.size(); ++at) n += stands(words, at);
      return n;
    };
    Text context;
    for (int n = 16; n >= 2 && context.empty(); --n) {
      if (static_cast<size_t>(n) > text.size()) continue;
      const Text end(text.end() - n, text.end());
      if (count(end) > 0) context = end;
    }
    if (rows.size() == 1) continue;
    ++trees;
    REQUIRE(!context.empty());
    // Each row's count, and that no other continuation of a row that is there has a higher one
    // than the last.
    std::vector<Text> paths = {context};
    std::vector<int> counts;
    for (size_t slot = 1; slot < rows.size(); ++slot) {
      Text path = paths[static_cast<size_t>(rows[slot].first)];
      path.push_back(rows[slot].second);
      counts.push_back(count(path));
      CHECK(counts.back() > 0);
      paths.push_back(path);
    }
    CHECK(std::ranges::is_sorted(counts, std::ranges::greater()));
    if (rows.size() < 8) continue;
    for (Text path : paths) {
      path.push_back(0);
      for (path.back() = 0; path.back() < 97; ++path.back()) {
        if (std::ranges::count(paths, path) == 0) CHECK(count(path) <= counts.back());
      }
    }
  }
  CHECK(trees > 3);
}

}  // namespace rest_test
