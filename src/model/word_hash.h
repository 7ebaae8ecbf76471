// A hash of words and bytes, for telling files apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace specbound {

// 64 bits over a sequence of bytes; the finalizer of splitmix64 for each word. Not against forgers:
// a wrong guess only costs time.
class WordHash {
 public:
  void add(uint64_t word) {
    uint64_t z = (state_ ^ word) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    state_ = z ^ (z >> 31);
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
