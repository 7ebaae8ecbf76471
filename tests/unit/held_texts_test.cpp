// Which texts a training keeps from its heads, and which rows of their hidden states.
#include "corpus/held_texts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "corpus/corpus.h"
#include "train/batches.h"

namespace held_texts_test {

using namespace specbound;

namespace {

// Texts of so many learnt tokens, a prompt of two before each.
std::vector<TrainingText> texts(const std::vector<int>& tokens) {
  std::vector<TrainingText> all;
  for (const int n : tokens) {
    TrainingText& text = all.emplace_back();
    text.tokens.assign(static_cast<size_t>(n) + 2, 1);
    text.learn.assign(text.tokens.size(), 1);
    text.learn.front() = text.learn.back() = 0;
  }
  return all;
}

// Chunks of texts, each a prompt of `prompt` rows and a reply of `reply` of them.
struct Text {
  int prompt, reply;
};
FeatureSource source(const std::vector<std::vector<Text>>& chunks) {
  FeatureSource source;
  source.dim = 32;
  source.n_chunks = static_cast<int>(chunks.size());
  std::vector<FeatureChunk> made;
  for (const std::vector<Text>& in_chunk : chunks) {
    FeatureChunk& chunk = made.emplace_back();
    chunk.dim = source.dim;
    for (const Text& text : in_chunk) {
      for (int r = 0; r < text.prompt + text.reply; ++r) {
        chunk.follows.push_back(r > 0);
        chunk.learn.push_back(r >= text.prompt);
      }
      source.prompt_rows += text.prompt;
    }
    chunk.rows = static_cast<int>(chunk.follows.size());
    chunk.y.resize(static_cast<size_t>(chunk.rows) * 32);
    chunk.next.resize(chunk.follows.size());
    source.n_rows += chunk.rows;
  }
  source.load = [made](int chunk) { return made[static_cast<size_t>(chunk)]; };
  return source;
}

}  // namespace

TEST_CASE("held texts: replies to prompts of their own, else enough to tune on, at most a fifth") {
  const std::vector<TrainingText> all = texts(std::vector<int>(40, 10));
  const auto held = [&](TextSplitOptions options) { return split_texts(all, options).held; };
  CHECK(held({.held = 37}) == 37);
  CHECK(held({.held = 20}) == 32);  // 80 tokens of 400
  CHECK(held({.held = 37, .wanted = 300}) == 37);
  CHECK(held({.held = 40}) == 40);
  CHECK(held({.held = 40, .wanted = 1}) == 38);  // a twentieth
  CHECK(held({.held = 40, .wanted = 45}) == 35);
  CHECK(held({.held = 40, .wanted = 300}) == 32);
  CHECK(held({.held = 40, .first = 36, .wanted = 300}) == 36);
  // A long one at the end is more than a fifth.
  CHECK(split_texts(texts({10, 10, 10, 30}), {.held = 4, .wanted = 5}).held == 4);
}

TEST_CASE("held texts: what is more than may be learnt is not before them, nor is any of them") {
  const std::vector<TrainingText> all = texts(std::vector<int>(40, 10));
  CHECK(split_texts(all, {.held = 37}).learnt == 37);
  const TextSplit split = split_texts(all, {.held = 37, .most = 200});
  CHECK(split.held == 37);
  CHECK(split.learnt == 17);
  CHECK(split_texts(all, {.held = 40, .most = 195}).learnt == 20);
}

TEST_CASE("held texts: settings are tuned on whole ones that were not learnt") {
  const std::vector<TrainingText> all = texts({10, 10, 20, 5, 7});
  CHECK(first_unseen(all, 5, 12) == 3);
  CHECK(first_unseen(all, 5, 31) == 3);  // of the third a part was learnt
  CHECK(first_unseen(all, 5, 32) == 2);
  CHECK(first_unseen(all, 4, 5) == 3);  // the last one has no hidden states
  CHECK(first_unseen(all, 4, 3) == 4);
  CHECK(first_unseen(all, 5, 3) == 4);  // its end at least
}

TEST_CASE("row split: what was held out is validated, to the row, and at most a fifth") {
  FeatureSource of = source({{{4, 20}, {4, 20}}, {{4, 20}, {4, 6}, {9, 7}}});  // 73 are learnt
  CHECK(split_rows(of).learnt_validation == 7);  // the whole text, for the 4 of 5 %
  of.held_rows = 13;
  const RowSplit split = split_rows(of);
  CHECK(split.learnt_validation == 13);
  CHECK(split.first_chunk == 1);
  CHECK(split.first_row == 24);
  CHECK(split.validation == 26);
  CHECK(split.training == of.n_rows - 26);
  of.held_rows = 33;
  CHECK(split_rows(of).learnt_validation == 14);  // not to the beginning of a text of 20
}

TEST_CASE("row split: with prompts and without them it is the same text") {
  // A long prompt at the end: of all rows it is more than 5 %.
  const FeatureSource of = source({{{3, 40}, {3, 40}, {3, 5}}, {{60, 2}}});
  const RowSplit split = split_rows(of);
  CHECK(split.learnt_validation == 7);
  CHECK(split.first_chunk == 0);
  CHECK(split.first_row == 86);
  const RowSplit learnt = without_prompts(of, split);
  CHECK(learnt.first_chunk == 0);
  CHECK(learnt.first_row == 80);
  CHECK(learnt.validation == 7);
  CHECK(learnt.training == 80);
  CHECK(learnt.learnt_validation == 7);
  // One dialogue, whose reply alone can be split.
  const FeatureSource one = source({{{500, 8}}});
  CHECK(split_rows(one).first_row == 507);
  CHECK(without_prompts(one, split_rows(one)).first_row == 7);
}

}  // namespace held_texts_test
