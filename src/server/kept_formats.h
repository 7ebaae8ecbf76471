// What replies are held to, compiled and kept for later requests that ask for the same. Any thread.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "server/recently_used.h"

namespace specbound::server {

// `Asked`: ResponseFormat or HeldCalls, about as large as the grammar's source.
template <class Asked>
class KeptFormats {
 public:
  static constexpr size_t kMost = 64, kMostBytes = size_t{16} << 20;

  // nullptr: it is not there.
  Grammar::Shared find(const Asked& asked) {
    const std::lock_guard lock(mutex_);
    const bool known = move_to_front(kept_, [&](const Kept& each) { return each.asked == asked; });
    return known ? kept_[0].grammar : nullptr;
  }

  // The newest is kept whatever it takes.
  void keep(const Asked& asked, Grammar::Shared grammar) {
    const std::lock_guard lock(mutex_);
    kept_.insert(kept_.begin(), {asked, std::move(grammar)});
    keep_first(kept_, kMost, kMostBytes, [](const Kept& each) {
      return 2 * each.grammar->source().size() + each.grammar->automaton().bytes();
    });
  }

 private:
  struct Kept {
    Asked asked;
    Grammar::Shared grammar;
  };

  std::mutex mutex_;
  std::vector<Kept> kept_;  // the last that was asked for first
};

}  // namespace specbound::server
