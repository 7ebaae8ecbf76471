// Formats of replies that were compiled, kept for later requests with the same text. Any thread.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "server/response_format.h"

namespace specbound::server {

class KeptFormats {
 public:
  static constexpr size_t kMost = 64, kMostBytes = size_t{16} << 20;

  // nullptr: it is not there.
  Grammar::Shared find(const ResponseFormat& format);
  // The newest is kept whatever it takes.
  void keep(const ResponseFormat& format, Grammar::Shared grammar);

 private:
  struct Kept {
    ResponseFormat format;
    Grammar::Shared grammar;

    size_t bytes() const;
  };

  std::mutex mutex_;
  std::vector<Kept> kept_;  // the last that was asked for first
};

}  // namespace specbound::server
