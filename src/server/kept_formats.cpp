#include "server/kept_formats.h"

#include <algorithm>

namespace specbound::server {

size_t KeptFormats::Kept::bytes() const {
  return format.text.size() + grammar->source().size() + grammar->automaton().bytes();
}

Grammar::Shared KeptFormats::find(const ResponseFormat& format) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(kept_, [&](const Kept& each) {
    return each.format.gbnf == format.gbnf && each.format.text == format.text;
  });
  if (known == kept_.end()) return nullptr;
  std::rotate(kept_.begin(), known, known + 1);
  return kept_[0].grammar;
}

void KeptFormats::keep(const ResponseFormat& format, Grammar::Shared grammar) {
  const std::lock_guard lock(mutex_);
  kept_.insert(kept_.begin(), {format, std::move(grammar)});
  size_t bytes = kept_[0].bytes(), n = 1;
  while (n < std::min(kept_.size(), kMost) && (bytes += kept_[n].bytes()) <= kMostBytes) ++n;
  kept_.resize(n);
}

}  // namespace specbound::server
