#include "server/kept_grammars.h"

#include "server/recently_used.h"

namespace specbound::server {

KeptGrammars::Shared KeptGrammars::of(const Grammar::Shared& grammar) {
  if (!grammar) return nullptr;
  const bool known = move_to_front(
      kept_, [&](const auto& each) { return each.first->source() == grammar->source(); });
  if (!known) kept_.insert(kept_.begin(), {grammar, make_(grammar)});
  keep_first(kept_, kMost, most_, [](const auto& each) { return each.second->bytes(); });
  return kept_[0].second;
}

}  // namespace specbound::server
