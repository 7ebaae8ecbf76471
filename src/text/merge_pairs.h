// The merges of a byte-level BPE vocabulary, as GGUF files hold them:
//
//   tokenizer.ggml.merges   strings "LEFT RIGHT", both tokens; their joined text is a token too.
//                           The place in the list is the rank: the first merges first.
//
// Like HF tokenizers (models/bpe/builder), and unlike llama.cpp, which looks at texts only, a
// merge of or into something that is no token is refused. Two equal merges are refused as well:
// the references do not agree on which of them counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/gguf.h"
#include "text/vocabulary.h"

namespace specbound {

class MergePairs {
 public:
  struct Merge {
    uint32_t rank;
    int32_t token;  // what the pair becomes
  };

  // Merges that would make a control or unknown token are left out: text stays text.
  // Throws Error(kFormat).
  MergePairs(const Gguf& gguf, const Vocabulary& vocabulary);

  // Null where the two do not merge.
  const Merge* find(int32_t left, int32_t right) const {
    const uint64_t key = pair(left, right);
    for (size_t i = slot(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].merge;
      if (slots_[i].key == kFree) return nullptr;
    }
  }

 private:
  // Open addressing over one array, since merging asks it millions of times.
  struct Slot {
    uint64_t key;  // left, right
    Merge merge;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};  // tokens are not negative

  static uint64_t pair(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u >> 32) & mask_; }

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
  size_t mask_;
};

}  // namespace specbound
