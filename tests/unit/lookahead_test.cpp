// Lookahead: its window against plain decoding of each column, and the n-grams that it drafts.
#include "drafters/lookahead.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "engine_rig.h"
#include "expect_error.h"

namespace lookahead_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Tokens = std::vector<int32_t>;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec());
  return model;
}

struct Seen {
  Tokens text;                                // up to the root
  std::vector<std::pair<int, int32_t>> rows;  // parent, token
  size_t emitted = 0;
  std::vector<Tokens> window;  // after it

  // The row at the end of `path`, which begins with the root; -1: there is none.
  int row(const Tokens& path) const {
    int at = 0;
    for (size_t i = 1; i < path.size() && at >= 0; ++i) {
      const auto child = std::ranges::find(rows, std::pair(at, path[i]));
      at = child == rows.end() ? -1 : static_cast<int>(child - rows.begin());
    }
    return at;
  }
};

std::vector<Seen> rounds_of(Lookahead& lookahead, int max_tokens, GenerateOptions options = {}) {
  const auto engine = model().backend(best_isa(), 1);
  Session session(*engine, Sampler(SamplingParams{}));
  session.set_speculator(&lookahead);
  std::vector<Seen> seen;
  Tokens text = token_ids(9, 97);
  options.max_tokens = max_tokens;
  options.on_round = [&](const RoundEvent& round) {
    Seen& one = seen.emplace_back();
    one.text = text;
    for (const RowEvent& row : round.rows) one.rows.emplace_back(row.parent, row.token);
    one.emitted = round.tokens.size();
    one.window = lookahead.window();
    for (const TokenEvent& event : round.tokens) text.push_back(event.token);
  };
  session.generate(text, options);
  return seen;
}

// What the model says behind a text.
int32_t said(Backend& engine, Tokens text) {
  engine.truncate(0);
  if (text.size() > 1) engine.prefill(std::span(text).first(text.size() - 1));
  engine.embed(0, text.back());
  engine.run_layers(0, 1, static_cast<int>(text.size()) - 1, 1, engine.config().n_layers);
  std::vector<float> z(static_cast<size_t>(engine.config().vocab_size));
  engine.logits(0, 1, z.data());
  return static_cast<int32_t>(std::ranges::max_element(z) - z.begin());
}

}  // namespace

TEST_CASE("lookahead: the window is what the model says behind its columns, round after round") {
  for (const LookaheadParams& params :
       {LookaheadParams{3, 4, 2}, {5, 3, 3}, {2, 2, 6}, {1, 6, 2}}) {
    CAPTURE(lookahead_text(params));
    Lookahead lookahead(params);
    const std::vector<Seen> rounds = rounds_of(lookahead, 60);
    const auto engine = model().backend(best_isa(), 1);
    const int levels = params.ngram - 1;
    std::vector<Tokens> window;
    const auto path_to = [&](int level, int column) {
      Tokens path(window[0].begin(), window[0].begin() + column + 1);
      for (int l = 1; l <= level; ++l) path.push_back(window[l][column]);
      return path;
    };
    REQUIRE(rounds.size() > 3);
    std::map<int32_t, std::vector<Tokens>> pool;
    for (size_t r = 1; r < rounds.size() && rounds[r].text.size() < 40; ++r) {
      CAPTURE(r);
      const Seen& round = rounds[r];
      window = rounds[r - 1].window;
      window[0][0] = round.text.back();
      CHECK(static_cast<int>(round.rows.size()) <= params.rows());
      for (int i = 0; i < levels * params.window; ++i) {
        CHECK(round.row(path_to(i / params.window, i % params.window)) >= 0);
      }
      // Those that the first round brought are not known here.
      for (const Tokens& ngram : pool[round.text.back()]) CHECK(round.row(ngram) >= 0);
      Tokens next;
      for (int column = 0; column < params.window; ++column) {
        Tokens text = round.text;
        const Tokens path = path_to(levels - 1, column);
        text.insert(text.end(), path.begin() + 1, path.end());
        next.push_back(said(*engine, text));
        Tokens ngram;
        for (const Tokens& level : window) ngram.push_back(level[column]);
        ngram.push_back(next.back());
        std::vector<Tokens>& kept = pool[ngram[0]];
        std::erase(kept, ngram);
        kept.insert(kept.begin(), ngram);
        if (static_cast<int>(kept.size()) > params.guesses) kept.pop_back();
      }
      std::rotate(window.begin(), window.begin() + 1, window.end());
      window.back() = next;
      CHECK(round.window == window);
    }
    CHECK(std::ranges::any_of(rounds, [](const Seen& round) { return round.emitted > 1; }));
  }
}

TEST_CASE("lookahead: tokens that end a reply are no rows, and a forgotten text leaves no n-gram") {
  Lookahead lookahead({});
  GenerateOptions options;
  options.is_end = [](int32_t token) { return token % 3 == 0; };
  for (const Seen& round : rounds_of(lookahead, 30, options)) {
    for (size_t i = 1; i < round.rows.size(); ++i) CHECK(round.rows[i].second % 3 != 0);
  }
  // As a new one: the rows of the first reply again.
  Lookahead fresh({});
  const std::vector<Seen> first = rounds_of(fresh, 30);
  lookahead.forget();
  const std::vector<Seen> again = rounds_of(lookahead, 30);
  REQUIRE(again.size() == first.size());
  for (size_t r = 0; r < first.size(); ++r) CHECK(again[r].rows == first[r].rows);
}

TEST_CASE("lookahead: what no round holds is refused") {
  const auto refused = [](const LookaheadParams& params) {
    return expect_error(ErrorCode::kUsage, [&] { Lookahead made(params); });
  };
  check_mentions(refused({0, 4, 2}), {"W from 1 to 16, found 0"});
  check_mentions(refused({3, 1, 2}), {"N from 2 to 16, found 1"});
  check_mentions(refused({3, 4, 0}), {"G from 1 to 16, found 0"});
  check_mentions(refused({INT32_MAX, 4, 2}), {"W from 1 to 16"});
  check_mentions(refused({3, 4, 3}), {"(W + G) (N - 1)", "up to 16, found 18", "N 4"});
}

}  // namespace lookahead_test
