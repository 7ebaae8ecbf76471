#include "repl/histogram.h"

#include <algorithm>

#include "error.h"

namespace specbound {

namespace {

constexpr int kWidth = 32;  // of a whole bar

std::string bar(double share) {
  const int n = static_cast<int>(share * kWidth + 0.5);
  return std::string(static_cast<size_t>(std::clamp(n, 0, kWidth)), '#');
}

std::string row(const char* what, size_t at, double share, const std::string& figures) {
  return format("  %s %2zu  %-*s %s\n", what, at, kWidth, bar(share).c_str(), figures.c_str());
}

}  // namespace

std::string acceptance_histogram(const Counters& counters, const DraftPlaces& places) {
  if (counters.drafted_tokens == 0) return {};
  std::string out =
      format("accepted drafts by the layer they left at, of %d:\n", counters.accepted_tokens);
  for (size_t layer = 0; layer < counters.accepted_at.size(); ++layer) {
    const int n = counters.accepted_at[layer];
    if (n == 0) continue;
    const double share = static_cast<double>(n) / counters.accepted_tokens;
    out += row("layer", layer, share, format("%d (%.0f %%)", n, 100 * share));
  }
  out += "drafts that were right, by their place in the round:\n";
  for (size_t place = 0; place < places.drafted.size(); ++place) {
    const int drafted = places.drafted[place];
    const int right = place < places.accepted.size() ? places.accepted[place] : 0;
    const double share = drafted > 0 ? static_cast<double>(right) / drafted : 0;
    out +=
        row("place", place + 1, share, format("%d of %d (%.0f %%)", right, drafted, 100 * share));
  }
  return out;
}

}  // namespace specbound
