// Gradients against finite differences.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "farther.h"
#include "train/adamw.h"

namespace specbound::test {

// `learnt` has the gradients of loss() by the values of `parameters`, of which it has as many; the
// values are moved and put back. The step is exact in float; the difference is in double.
template <class Loss>
void check_gradients(const std::vector<Parameter*>& parameters,
                     const std::vector<Parameter*>& learnt, Loss loss) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < parameters[p]->value.size(); ++i) {
      float& value = parameters[p]->value[i];
      const float middle = value, above = middle + 0x1p-10f, below = middle - 0x1p-10f;
      value = above;
      const double up = loss();
      value = below;
      const double down = loss();
      value = middle;
      const double expected = (up - down) / (static_cast<double>(above) - below);
      largest = std::max(largest, std::fabs(expected));
      worst = farther(worst, std::fabs(expected - learnt[p]->gradient[i]));
    }
    CAPTURE(p);
    REQUIRE(largest > 1e-3);
    CHECK(worst < 1e-4 * largest);
  }
}

}  // namespace specbound::test
