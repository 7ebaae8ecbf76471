#include "server/kept_grammars.h"

#include <algorithm>

namespace specbound::server {

KeptGrammars::Shared KeptGrammars::of(const Grammar::Shared& grammar) {
  if (!grammar) return nullptr;
  const auto known = std::ranges::find_if(
      kept_, [&](const auto& each) { return each.first->source() == grammar->source(); });
  if (known != kept_.end()) {
    std::rotate(kept_.begin(), known, known + 1);
  } else {
    kept_.insert(kept_.begin(), {grammar, make_(grammar)});
  }
  size_t bytes = kept_[0].second->bytes(), n = 1;
  while (n < std::min(kept_.size(), kMost) && (bytes += kept_[n].second->bytes()) <= most_) ++n;
  kept_.resize(n);
  return kept_[0].second;
}

}  // namespace specbound::server
