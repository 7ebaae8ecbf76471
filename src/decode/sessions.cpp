#include "decode/sessions.h"

#include <algorithm>

#include "decode/common_prefix.h"
#include "error.h"

namespace specbound {

Sessions::Sessions(Backend& backend, uint64_t most_bytes)
    : backend_(backend), most_bytes_(most_bytes) {
  const Sequences* sequences = backend.sequences();
  for (int i = 0; i < (sequences ? sequences->n_sequences() : 1); ++i) kept_.emplace_back(backend);
}

Session& Sessions::for_prompt(std::span<const int32_t> prompt) {
  // Tokens that need not be read again, and who has them; of several one that is not held.
  std::ptrdiff_t n = -1;
  size_t from = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const std::ptrdiff_t shared = common_prefix(kept_[i].session.tokens(), prompt);
    if (shared < n || (shared == n && !kept_[from].held)) continue;
    n = shared;
    from = i;
  }
  // What was said before the newest reply has to be in it. That reply may read otherwise by now:
  // it is made once more, or a template leaves out what was thought. Where more would be lost, the
  // prompt is another conversation's.
  const Kept& best = kept_[from];
  const bool goes_on = !best.held && n > 0 && n >= best.session.first_decoded();
  const size_t chosen = goes_on ? from : oldest();
  kept_[chosen].used = ++replies_;
  if (chosen == from) return select(static_cast<int>(chosen));
  select(static_cast<int>(from));
  const int there = std::min(static_cast<int>(n), backend_.kv_len(backend_.config().n_layers));
  Session& session = select(static_cast<int>(chosen));
  if (there > common_prefix(session.tokens(), prompt)) {
    backend_.sequences()->copy_prefix(static_cast<int>(from), there);
    session.take_over(prompt.first(static_cast<size_t>(there)));
  }
  return session;
}

Session& Sessions::for_other_text() {
  return select(static_cast<int>(oldest()));
}

// Of those that are not held.
size_t Sessions::oldest() const {
  const auto later = [](const Kept& a, const Kept& b) {
    return a.held != b.held ? b.held : a.used < b.used;
  };
  const auto found = std::ranges::min_element(kept_, later);
  SB_CHECK(!found->held);
  return static_cast<size_t>(found - kept_.begin());
}

void Sessions::hold(int sequence, bool held) {
  Kept& kept = kept_[static_cast<size_t>(sequence)];
  kept.held = held;
  if (held) return;
  kept.session.rest();
  kept.used = ++replies_;
  settle();
}

void Sessions::give_back(int sequence) {
  Kept& kept = kept_[static_cast<size_t>(sequence)];
  select(sequence).forget();
  kept.held = false;
  kept.used = 0;
  settle();
}

void Sessions::settle() {
  if (most_bytes_ == kAnyBytes) return;
  if (Sequences* sequences = backend_.sequences()) {
    for (int i = 0; i < size(); ++i) {
      if (kept_[static_cast<size_t>(i)].held) continue;
      // Drafts that were wrong, longer texts before it: nobody needs their memory.
      sequences->cut(i, backend_.n_ctx());
      // Of an aborted prompt there may be nothing, and what cannot stay takes no other's place.
      const uint64_t bytes = sequences->kv_bytes(i);
      if (bytes == 0 || bytes > most_bytes_) drop(i);
    }
    while (idle().bytes > most_bytes_) drop_oldest();
  } else if (most_bytes_ == 0 && !kept_[0].held) {
    backend_.truncate(0);
    kept_[0].session.lose();
  }
}

Sessions::Idle Sessions::idle() const {
  Idle idle;
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (!kept_[i].waits()) continue;
    ++idle.conversations;
    if (const Sequences* sequences = backend_.sequences()) {
      idle.bytes += sequences->kv_bytes(static_cast<int>(i));
    }
  }
  return idle;
}

// Of those that take memory.
void Sessions::drop_oldest() {
  auto oldest = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (!kept->waits()) continue;
    if (oldest == kept_.end() || kept->used < oldest->used) oldest = kept;
  }
  SB_CHECK(oldest != kept_.end());
  drop(static_cast<int>(oldest - kept_.begin()));
}

// Its place is the first that others take.
void Sessions::drop(int sequence) {
  backend_.sequences()->cut(sequence, 0);
  Kept& kept = kept_[static_cast<size_t>(sequence)];
  kept.session.lose();
  kept.used = 0;
}

Session& Sessions::select(int sequence) {
  if (Sequences* sequences = backend_.sequences()) sequences->select(sequence);
  selected_ = static_cast<size_t>(sequence);
  return kept_[selected_].session;
}

}  // namespace specbound
