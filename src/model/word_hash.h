// A hash of words and bytes, for telling files apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "numerics/splitmix64.h"

namespace specbound {

// 64 bits over a sequence of bytes; splitmix64 for each word. Not against forgers: a wrong guess
// only costs time.
class WordHash {
 public:
  void add(uint64_t word) {
    uint64_t mixed = state_ ^ word;
    state_ = splitmix64(mixed);
  }
  void add(std::span<const std::byte> bytes) {
    add(uint64_t{bytes.size()});
    for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
      add_some(bytes.first(sizeof(uint64_t)));
    }
    if (!bytes.empty()) add_some(bytes);
  }
  uint64_t value() const { return state_; }

 private:
  void add_some(std::span<const std::byte> bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    add(word);
  }
  uint64_t state_ = 0;
};

}  // namespace specbound
