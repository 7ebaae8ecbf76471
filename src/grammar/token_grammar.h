// A grammar over the tokens of a vocabulary: which of them may follow a reply so far. What was
// found is kept, for one reply after the other: a state costs one walk over the vocabulary, once.
// Threads may share one.
//
// A token may follow where its bytes may, whatever stands at its end: half a character too. Tokens
// that end a reply may follow where the grammar may end; where nothing else can come, it ends by
// itself. Control tokens may follow where a literal spells them (GrammarPart).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"

namespace specbound {

// The tokens that may follow, by id.
class TokenMask {
 public:
  explicit TokenMask(int vocab_size) : words_((static_cast<size_t>(vocab_size) + 63) / 64) {}

  void add(int32_t token) {
    uint64_t& word = words_[static_cast<size_t>(token) >> 6];
    const uint64_t bit = uint64_t{1} << (token & 63);
    n_ += (word & bit) == 0;
    word |= bit;
  }
  bool has(int32_t token) const {
    const size_t word = static_cast<size_t>(token) >> 6;
    return word < words_.size() && (words_[word] >> (token & 63) & 1) != 0;
  }
  int n() const { return n_; }
  int32_t lowest() const;  // -1: none
  // Bit i of word w is token 64 w + i.
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
  int n_ = 0;
};

class TokenGrammar {
 public:
  TokenGrammar(Grammar::Shared grammar, std::shared_ptr<const TokenTrie> tokens);

  // What a caller keeps, so that a reply that goes on is not read again.
  class Path {
    friend class TokenGrammar;
    uint64_t generation_ = 0;
    std::vector<int32_t> tokens_;
    std::vector<GrammarMatcher::State> states_;  // before each token, and behind the last
  };

  // All speak of what may follow the tokens `reply`. They throw Error(kUnsupported) where a grammar
  // is too ambiguous.

  // nullptr where no text of the grammar begins with `reply`: nothing is held to it then.
  std::shared_ptr<const TokenMask> mask(std::span<const int32_t> reply, Path& path) const;
  bool allows(std::span<const int32_t> reply, int32_t token, Path& path) const;
  // Nothing but the end can follow.
  bool complete(std::span<const int32_t> reply, Path& path) const;
  bool ends(int32_t token) const {
    return token >= 0 && token < tokens_->vocab_size() && tokens_->ends(token);
  }

  // A token that the grammar leaves hardly a choice but to be next.
  struct Forced {
    enum class Kind {
      kNone,
      kSure,    // no other may follow
      kInside,  // the longest that the only text begins with; shorter ones may follow too
      kEdge,    // the same, up to where the only text ends: longer ones may follow as well
    };
    static constexpr int kKinds = 4;
    Kind kind = Kind::kNone;
    int32_t token = -1;
  };
  Forced forced(std::span<const int32_t> reply, Path& path) const;

  // For a message: why `token`, which a draw gave where nothing it may give is left, cannot follow.
  [[noreturn]] void refuse(std::span<const int32_t> reply, int32_t token, Path& path) const;

 private:
  using State = GrammarMatcher::State;
  using Mask = std::shared_ptr<const TokenMask>;

  State state(std::span<const int32_t> reply, Path& path) const;
  State behind(State state, int32_t token) const;
  Mask mask_of(State state) const;

  Grammar::Shared grammar_;
  std::shared_ptr<const TokenTrie> tokens_;
  mutable std::mutex mutex_;
  mutable GrammarMatcher matcher_;
  mutable uint64_t generation_ = 1;  // of the matcher's states
  mutable std::unordered_map<State, Mask> masks_;
  mutable std::unordered_map<State, Forced> forced_;
};

}  // namespace specbound
