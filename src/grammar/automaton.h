// A grammar as a network of nodes over bytes: one piece of network a rule, calls between them. What
// can be wrong with rules as a whole is found here: one that begins with itself would be called
// for ever, one that never ends leaves a reply no way out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "grammar/rules.h"

namespace specbound {

class ByteSet {
 public:
  void add(int byte) { words_[byte >> 6] |= uint64_t{1} << (byte & 63); }
  void add(int first, int last) {
    for (int byte = first; byte <= last; ++byte) add(byte);
  }
  bool has(int byte) const { return (words_[byte >> 6] >> (byte & 63)) & 1; }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }

  auto operator<=>(const ByteSet&) const = default;

 private:
  std::array<uint64_t, 4> words_{};
};

struct Automaton {
  enum class Kind : uint8_t {
    kBytes,  // one byte of set `arg`, then `next`
    kSplit,  // `next` or `arg`
    kCall,   // rule `arg`, then `next`
    kEnd,    // of the rule
  };
  struct Node {
    Kind kind;
    bool control = false;  // of a literal for which a control token may stand
    bool ends = false;     // some text leads from here to the end of the rule
    int32_t next = -1, arg = -1;
    int32_t near = -1;  // another node that goes on alike for kNear bytes; -1: none
    bool free = false;  // of text as it likes: control tokens that are none of it may come
  };
  static constexpr int kNear = 16;
  std::vector<Node> nodes;
  std::vector<ByteSet> sets;
  std::vector<int32_t> starts;  // [rule]
  int root = 0;                 // rule

  static constexpr size_t kMaxNodes = size_t{1} << 18;
  size_t bytes() const {
    return nodes.size() * sizeof(Node) + sets.size() * sizeof(ByteSet) + starts.size() * 4;
  }

  // Throws Error(kUsage) for a rule that begins with itself or a root that cannot end, naming it;
  // Error(kLimit) for what would take more than kMaxNodes. All rules must be defined.
  static Automaton compile(const GrammarRules& rules, int root);
};

}  // namespace specbound
