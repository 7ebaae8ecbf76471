// Sessions of several conversations over one backend: each goes on where it was, whichever came in
// between, as long as its K and V are kept: by how many the backend keeps, and by how much memory
// they take. Which session decodes changes no text.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>

#include "decode/generate.h"
#include "engine/backend.h"

namespace specbound {

class Sessions {
 public:
  static constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();

  // As many as the backend keeps texts. To it nobody else speaks. K and V of conversations that no
  // reply holds take `most_bytes` together at most: first those go that are larger by themselves,
  // then those used longest ago. A backend that keeps one text (Backend::sequences()) drops it at 0
  // alone.
  explicit Sessions(Backend& backend, uint64_t most_bytes = kAnyBytes);

  // The session whose text `prompt` goes on with, else the one used longest ago, which then begins
  // with a copy of what another one has of the prompt. Not one that is held: of those there must be
  // others. It is what the backend speaks of until another one is selected.
  Session& for_prompt(std::span<const int32_t> prompt);
  // The session used longest ago, for what is no conversation: it stays that one until it is held.
  Session& for_other_text();

  Backend& backend() { return backend_; }
  int size() const { return static_cast<int>(kept_.size()); }
  // Which one the backend speaks of, and another one that it speaks of from now on.
  int selected() const { return static_cast<int>(selected_); }
  Session& select(int sequence);
  // A reply is under way in it, or none is any more: it was used until now.
  void hold(int sequence, bool held);
  // What a held one has is no conversation: that goes, and others take its place first.
  void give_back(int sequence);
  // What nobody holds is brought within the bound: after other texts too.
  void settle();
  // Conversations that no reply holds, and bytes of their K and V.
  struct Idle {
    int conversations = 0;
    uint64_t bytes = 0;
  };
  Idle idle() const;

 private:
  size_t oldest() const;
  void drop_oldest();
  void drop(int sequence);

  struct Kept {
    Session session;
    uint64_t used = 0;  // when, in replies
    bool held = false;

    explicit Kept(Backend& backend) : session(backend, Sampler(greedy_sampling())) {}
    // For its next request.
    bool waits() const { return !held && !session.tokens().empty(); }
  };

  Backend& backend_;
  const uint64_t most_bytes_;
  std::deque<Kept> kept_;  // [sequence]: they stay where they are
  size_t selected_ = 0;
  uint64_t replies_ = 0;
};

}  // namespace specbound
