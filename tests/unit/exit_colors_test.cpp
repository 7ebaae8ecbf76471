// Colours of exit layers: their order, the sequences around a text, and the line that explains
// them.
#include "terminal/exit_colors.h"

#include <doctest/doctest.h>

#include <vector>

namespace exit_colors_test {

using specbound::ExitColors;

TEST_CASE("exit colours go from green over yellow to red") {
  const ExitColors eleven(11);
  std::vector<int> colors;
  for (int layer = 1; layer <= 11; ++layer) colors.push_back(eleven.color(layer));
  CHECK(colors == std::vector<int>{46, 82, 118, 154, 190, 226, 220, 214, 208, 202, 196});
  for (const int deepest : {2, 3, 10, 31, 79, 1000}) {
    const ExitColors ramp(deepest);
    CHECK(ramp.color(1) == 46);
    CHECK(ramp.color(deepest) == 196);
    CHECK(ramp.color(deepest + 5) == 196);
  }
  CHECK(ExitColors(1).color(1) == 46);
  CHECK(ExitColors(0).color(1) == 46);
}

TEST_CASE("paint puts one sequence before and one behind, and leaves the last layer's text alone") {
  const ExitColors colors(3);
  CHECK(colors.paint("a\nb", 1) == "\x1b[38;5;46ma\nb\x1b[39m");
  CHECK(colors.paint("a", specbound::kNoDraft) == "a");
  CHECK(colors.paint("a", 0) == colors.paint("a", 1));  // drafted before any layer
  CHECK(colors.paint("", 2) == "");
}

TEST_CASE("the legend names the layers, in colours or in words") {
  const ExitColors colors(3);
  CHECK(colors.legend({1, 3}, true) ==
        "exit layer: \x1b[38;5;46m1\x1b[39m \x1b[38;5;196m3\x1b[39m; uncoloured: the last layer");
  CHECK(colors.legend({1, 3}, false) ==
        "exit layer, from green to red: 1 3; uncoloured: the last layer");
  CHECK(colors.legend({0, 1}, false) ==
        "exit layer, from green to red: 0 1; 0: before any layer; uncoloured: the last layer");
  CHECK(colors.legend({}, true) ==
        "exit layer: no token came from a draft; uncoloured: the last layer");
}

}  // namespace exit_colors_test
