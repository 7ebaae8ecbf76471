// Sessions of several conversations over one backend: each goes on where it was, whichever came in
// between, as long as the backend keeps its K and V. Which session decodes changes no text.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "decode/generate.h"
#include "engine/backend.h"

namespace specbound {

class Sessions {
 public:
  // As many as the backend keeps texts. To it nobody else speaks.
  explicit Sessions(Backend& backend);

  // The session whose text `prompt` goes on with, else the one used longest ago, which then begins
  // with a copy of what another one has of the prompt. For one reply: it is what the backend speaks
  // of until the next call.
  Session& for_prompt(std::span<const int32_t> prompt);
  // The session used longest ago, for what is no conversation: it stays the one used longest ago.
  Session& for_other_text();

  // Between replies, of all of them: see Session.
  void set_speculator(Speculator* speculator) {
    for (Kept& kept : kept_) kept.session.set_speculator(speculator);
  }

 private:
  Session& select(size_t sequence);
  size_t oldest() const;

  struct Kept {
    Session session;
    uint64_t used = 0;  // when, in replies

    explicit Kept(Backend& backend) : session(backend, Sampler(greedy_sampling())) {}
  };

  Backend& backend_;
  std::deque<Kept> kept_;  // [sequence]: they stay where they are
  uint64_t replies_ = 0;
};

}  // namespace specbound
