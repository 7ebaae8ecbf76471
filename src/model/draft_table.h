// What followed the last few tokens in text that a model wrote itself: it drafts and runs no layer.
// Lives in a heads file (model/exit_heads.h). docs/architecture.md 6; as lookahead tables of
// n-grams do, but smoothed, so that its chances can be compared with a threshold.
//
// Open addressing over contexts of 1..max_context tokens. keys[slot] is 0 (free) or the low half of
// the context's hash, whose high half says where the search begins; it ends at a free slot or after
// kMaxProbes. places[slot] = 4 first + count - 1: the context's entry is tokens[first..first+count)
// with log_p beside them, 1..4 of them. Two contexts of one hash are taken for one another: a guess
// may be wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace specbound {

// The likeliest next tokens by a table, best first.
struct TableGuess {
  static constexpr int kMost = 4;

  int context = 0;  // tokens that it goes by; 0: nothing known
  int size = 0;     // of the following
  std::array<int32_t, kMost> ids{};
  std::array<float, kMost> log_p{};

  // max softmax(log p / temperature); the chance of all other tokens together counts as one more.
  float confidence(float temperature) const;
};

class DraftTable {
 public:
  static constexpr int kMaxContext = 8;
  static constexpr int kMaxProbes = 32;
  static constexpr uint32_t kFree = 0;

  // The arrays as they lie in a file; any alignment.
  struct Arrays {
    int max_context = 0;
    std::span<const std::byte> keys, places;   // (slots) u32
    std::span<const std::byte> tokens, log_p;  // (entries) i32, f16
  };

  DraftTable() = default;
  // Views: the arrays must outlive the table, and problem() must find nothing in them.
  explicit DraftTable(const Arrays& arrays);

  // What is wrong with the arrays, as "expected ..., found ..."; empty: nothing.
  static std::string problem(const Arrays& arrays, int vocab_size);

  bool empty() const { return slots_ == 0; }
  int max_context() const { return arrays_.max_context; }
  size_t contexts() const { return contexts_; }
  size_t bytes() const;

  // By the longest context that ends `history` and is known.
  TableGuess lookup(std::span<const int32_t> history) const;

  // For building one: the hash of a context, token by token from its newest on.
  static uint64_t extend(uint64_t hash, int32_t token);
  static uint32_t key_of(uint64_t hash);
  static uint32_t first_slot(uint64_t hash, uint32_t slots);

 private:
  Arrays arrays_;
  uint32_t slots_ = 0;
  size_t contexts_ = 0;
};

// A table with values of its own.
struct NewDraftTable {
  int max_context = 0;
  std::vector<uint32_t> keys, places;
  std::vector<int32_t> tokens;
  std::vector<uint16_t> log_p;

  bool empty() const { return keys.empty(); }
  DraftTable::Arrays arrays() const;
};

}  // namespace specbound
