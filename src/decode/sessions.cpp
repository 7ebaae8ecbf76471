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
  auto chosen = std::ranges::max_element(kept_, {}, shared);
  // Where less than half of a text would stay, the prompt is another conversation's: what both
  // begin with is soon read, and the rest of that text would be lost.
  if (2 * shared(*chosen) < std::ssize(chosen->session.tokens()) || shared(*chosen) == 0) {
    chosen = std::ranges::min_element(kept_, {}, &Kept::used);
  }
  chosen->used = ++replies_;
  if (Sequences* sequences = backend_.sequences()) {
    sequences->select(static_cast<int>(chosen - kept_.begin()));
  }
  return chosen->session;
}

}  // namespace specbound
