#include "server/kept_formats.h"

#include "server/recently_used.h"

namespace specbound::server {

size_t KeptFormats::Kept::bytes() const {
  return format.text.size() + grammar->source().size() + grammar->automaton().bytes();
}

Grammar::Shared KeptFormats::find(const ResponseFormat& format) {
  const std::lock_guard lock(mutex_);
  const bool known = move_to_front(kept_, [&](const Kept& each) {
    return each.format.gbnf == format.gbnf && each.format.text == format.text;
  });
  return known ? kept_[0].grammar : nullptr;
}

void KeptFormats::keep(const ResponseFormat& format, Grammar::Shared grammar) {
  const std::lock_guard lock(mutex_);
  kept_.insert(kept_.begin(), {format, std::move(grammar)});
  keep_first(kept_, kMost, kMostBytes, [](const Kept& each) { return each.bytes(); });
}

}  // namespace specbound::server
