// The layers of a model some of which are left out, as stretches of layers that share that.
#pragma once

#include <algorithm>
#include <span>

namespace specbound {

// visit(from, to, left_out) for each stretch of the layers 1..n_layers in turn, until it returns
// false; whether it never did. Left out are those of `skipped`, ascending.
template <class Visit>
bool each_stretch(int n_layers, std::span<const int> skipped, Visit visit) {
  for (int from = 1; from <= n_layers;) {
    const auto next = std::ranges::lower_bound(skipped, from);
    const bool left_out = next != skipped.end() && *next == from;
    int to = next == skipped.end() ? n_layers : *next - 1;
    if (left_out) {
      to = from;
      for (auto it = next + 1; it != skipped.end() && *it == to + 1; ++it) ++to;
    }
    if (!visit(from, to, left_out)) return false;
    from = to + 1;
  }
  return true;
}

}  // namespace specbound
