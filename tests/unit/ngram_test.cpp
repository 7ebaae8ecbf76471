// Prompt lookup: the places it finds against a search of the whole text, and what it drafts.
#include "drafters/ngram.h"

#include <doctest/doctest.h>

#include "decode/generate.h"
#include "engine_rig.h"

namespace ngram_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Behind the newest earlier run of the longest n <= n_max tokens that end the text.
int search(const std::vector<int32_t>& text, int n_max) {
  const int size = static_cast<int>(text.size());
  for (int n = std::min(n_max, size); n >= 1; --n) {
    for (int place = size - 1; place >= n; --place) {
      if (std::equal(text.end() - n, text.end(), text.begin() + (place - n))) return place;
    }
  }
  return -1;
}

const TinyModel& model() {
  static const TinyModel model(q8_0_spec());
  return model;
}

}  // namespace

TEST_CASE("n-grams: the place is that of a search, over growing, cut and exchanged texts") {
  for (const int n_max : {1, 2, 3, 5}) {
    NgramIndex index(n_max);
    TinyRandom random(n_max);
    std::vector<int32_t> text;
    int found = 0;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t what = random.next() % 50;
      if (what == 0 && !text.empty()) {
        text.resize(random.next() % text.size());
        for (int i = 0; i < 5; ++i) text.push_back(static_cast<int32_t>(random.next() % 4));
        index.assign(text);
      } else if (what == 1) {
        for (int i = 0; i < 3; ++i) text.push_back(static_cast<int32_t>(random.next() % 4));
        index.assign(text);
      } else {
        text.push_back(static_cast<int32_t>(random.next() % 4));
        index.push(text.back());
      }
      REQUIRE(index.text() == text);
      const int place = index.find();
      REQUIRE(place == search(text, n_max));
      found += place >= 0;
    }
    CHECK(found > 2000);
  }
  NgramIndex index(3);
  CHECK(index.find() == -1);
  index.push(7);
  CHECK(index.find() == -1);
  index.push(7);
  CHECK(index.find() == 1);
  index.assign({});
  CHECK(index.find() == -1);
}

TEST_CASE("n-gram drafts go on into themselves, up to the width, and stop before the reply's end") {
  const auto engine = model().backend(best_isa(), 1);
  SamplingParams params;
  params.temperature = 0;
  Sampler sampler(params);
  const auto drafts = [&](std::vector<int32_t> text, int width, int32_t end = -1) {
    engine->truncate(0);
    if (text.size() > 1) engine->prefill(std::span(text).first(text.size() - 1));
    NgramSpeculator ngram(3, 16);
    ngram.begin(text);
    const size_t n = text.size();
    Round round(*engine, sampler, text);
    Round::Limits limits;
    limits.width = width;
    limits.ends = [end](std::span<const int32_t> all) { return all.back() == end; };
    round.start(limits);
    const DraftEnd why = ngram.draft(round);
    round.history(round.newest());  // which then stands in the text
    return std::pair(std::vector<int32_t>(text.begin() + static_cast<long>(n), text.end()), why);
  };
  using Tokens = std::vector<int32_t>;
  CHECK(drafts({1, 2, 3, 1, 2}, 8) == std::pair(Tokens{3, 1, 2, 3, 1, 2, 3}, DraftEnd::kWidth));
  CHECK(drafts({5, 5}, 4) == std::pair(Tokens{5, 5, 5}, DraftEnd::kWidth));
  CHECK(drafts({1, 2, 3, 1, 2}, 8, 1) == std::pair(Tokens{3}, DraftEnd::kReplyEnd));
  CHECK(drafts({1, 2, 3}, 8) == std::pair(Tokens{}, DraftEnd::kDifficult));
  CHECK(drafts({4}, 8) == std::pair(Tokens{}, DraftEnd::kDifficult));
  // The longest run counts, then the newest.
  CHECK(drafts({1, 2, 8, 2, 9, 1, 2}, 2) == std::pair(Tokens{8}, DraftEnd::kWidth));
  CHECK(drafts({2, 8, 2, 9, 6, 2}, 2) == std::pair(Tokens{9}, DraftEnd::kWidth));
}

}  // namespace ngram_test
