#include "decode/sessions.h"

#include <algorithm>

#include "decode/common_prefix.h"

namespace specbound {

Sessions::Sessions(Backend& backend) : backend_(backend) {
  const Sequences* sequences = backend.sequences();
  for (int i = 0; i < (sequences ? sequences->n_sequences() : 1); ++i) kept_.emplace_back(backend);
}

Session& Sessions::for_prompt(std::span<const int32_t> prompt) {
  const auto shared = [&](const Kept& kept) {  // tokens that need not be read again
    return common_prefix(kept.session.tokens(), prompt);
  };
  const auto best = std::ranges::max_element(kept_, {}, shared);
  const std::ptrdiff_t n = shared(*best);
  // What was said before the newest reply has to be in it. That reply may read otherwise by now:
  // it is made once more, or a template leaves out what was thought. Where more would be lost, the
  // prompt is another conversation's.
  const bool goes_on = n > 0 && n >= best->session.first_decoded();
  const auto from = static_cast<size_t>(best - kept_.begin());
  const size_t chosen = goes_on ? from : oldest();
  kept_[chosen].used = ++replies_;
  if (chosen == from) return select(chosen);
  select(from);
  const int there = std::min(static_cast<int>(n), backend_.kv_len(backend_.config().n_layers));
  Session& session = select(chosen);
  if (there > common_prefix(session.tokens(), prompt)) {
    backend_.sequences()->copy_prefix(static_cast<int>(from), there);
    session.take_over(prompt.first(static_cast<size_t>(there)));
  }
  return session;
}

Session& Sessions::for_other_text() {
  return select(oldest());
}

size_t Sessions::oldest() const {
  return static_cast<size_t>(std::ranges::min_element(kept_, {}, &Kept::used) - kept_.begin());
}

Session& Sessions::select(size_t sequence) {
  if (Sequences* sequences = backend_.sequences()) sequences->select(static_cast<int>(sequence));
  return kept_[sequence].session;
}

}  // namespace specbound
