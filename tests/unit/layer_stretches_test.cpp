#include "engine/layer_stretches.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error.h"

namespace layer_stretches_test {

using namespace specbound;

namespace {

// "1-2 (3) 4-6": those left out in brackets; `most` stretches are visited.
std::string stretches(int n_layers, const std::vector<int>& skipped, int most = 100) {
  std::string text;
  const bool all = each_stretch(n_layers, skipped, [&](int from, int to, bool left_out) {
    const std::string range = from == to ? format("%d", from) : format("%d-%d", from, to);
    text += (text.empty() ? "" : " ") + (left_out ? "(" + range + ")" : range);
    return --most > 0;
  });
  return text + (all ? "" : " ..");
}

}  // namespace

TEST_CASE("layers left out: every layer once, in stretches as long as can be") {
  CHECK(stretches(6, {}) == "1-6");
  CHECK(stretches(6, {3}) == "1-2 (3) 4-6");
  CHECK(stretches(6, {1, 6}) == "(1) 2-5 (6)");
  CHECK(stretches(6, {2, 3, 5}) == "1 (2-3) 4 (5) 6");
  CHECK(stretches(3, {1, 2, 3}) == "(1-3)");
  CHECK(stretches(1, {}) == "1");
}

TEST_CASE("layers left out: the walk ends where it is told to") {
  CHECK(stretches(6, {2, 3, 5}, 2) == "1 (2-3) ..");
  CHECK(stretches(6, {}, 1) == "1-6 ..");
}

}  // namespace layer_stretches_test
