// What a draft layer knows of its text, whatever rounds do to it; what comes of it is in
// draft_layer_test.cpp.
#include "engine/draft_layer_text.h"

#include <doctest/doctest.h>

#include <vector>

namespace draft_layer_text_test {

using namespace specbound;

namespace {

// Rows of `n` tokens ran, and the root behind them was looked at.
void grow(DraftLayerText& text, int pos, int n) {
  text.ran(pos, std::vector<int32_t>(static_cast<size_t>(n), 7));
  text.begin_root(pos + n);
  text.end_root(pos + n);
}

}  // namespace

TEST_CASE("draft layer's text: K and V hold up to the root, and as far as they stand") {
  for (const int behind : {0, 1}) {
    CAPTURE(behind);
    DraftLayerText text(64, behind);
    text.begin_at(10);
    CHECK(text.reaches(10));
    CHECK(!text.reaches(9));
    CHECK(!text.reaches(11));
    grow(text, 10, 5);
    CHECK(text.reaches(15));
    CHECK(!text.reaches(16));
    CHECK(text.origin(15) == 10 + behind);
    CHECK(text.valid() == 6 - behind);
    // Two of these are taken back: other tokens stand there, behind the same states.
    text.ran(13, std::vector<int32_t>{1});
    CHECK(text.valid() == 3 - behind);
    CHECK(text.token(12) == 7);
    CHECK(text.token(13) == 1);
    CHECK(text.reaches(15));  // those behind it are still there
    text.begin_root(12);
    CHECK(text.valid() == 2 - behind);
    text.caught_up(0);
    text.end_root(12);
    CHECK(text.valid() == 3 - behind);
    text.begin_at(0);
    CHECK(text.valid() == 0);
    CHECK(!text.reaches(12));
  }
}

TEST_CASE("draft layer's text: a root without a state before it is looked at alone") {
  DraftLayerText published(64, 1), own(64, 0);
  for (DraftLayerText* text : {&published, &own}) {
    text->begin_at(4);
    text->begin_root(4);
    CHECK(text->origin(4) == 4);
    CHECK(text->valid() == 0);
    text->end_root(4);
  }
  CHECK(published.valid() == 0);  // its row was made of no state, as the first of a text is not
  CHECK(own.valid() == 1);
  grow(published, 4, 1);
  CHECK(published.origin(5) == 5);
  CHECK(published.valid() == 1);
}

TEST_CASE("draft layer's text: the tokens of a path move to their places") {
  DraftLayerText text(64, 0);
  text.begin_at(0);
  text.ran(0, std::vector<int32_t>{10, 11, 12, 13, 14});
  RowPaths paths;
  paths.follow(1, 0);
  paths.follow(2, 0);
  paths.follow(3, 1);
  paths.follow(4, 2);
  text.keep_path(0, paths[4]);
  CHECK(text.token(0) == 10);
  CHECK(text.token(1) == 12);
  CHECK(text.token(2) == 14);
}

}  // namespace draft_layer_text_test
