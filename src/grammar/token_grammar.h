// A grammar over the tokens of a vocabulary: which of them may follow a reply so far. What was
// found is kept, for one reply after the other: a state costs one walk over the vocabulary, once.
// Threads may share one.
//
// A token may follow where its bytes may, whatever stands at its end: half a character too. Tokens
// that end a reply may follow where the grammar may end; where nothing else can come, it ends by
// itself. Control tokens may follow where a literal spells them (GrammarPart), and in text as it
// likes, where those that a reply does not show change nothing (Grammar::choice_of).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace specbound {

class Grammar;
class TokenTrie;

// The tokens that may follow, by id.
class TokenMask {
 public:
  explicit TokenMask(int vocab_size) : words_((static_cast<size_t>(vocab_size) + 63) / 64) {}

  void add(int32_t token) { words_[static_cast<size_t>(token) >> 6] |= bit(token); }
  void add(const TokenMask& other);  // of the same vocabulary
  bool has(int32_t token) const {
    const size_t word = static_cast<size_t>(token) >> 6;
    return word < words_.size() && (words_[word] & bit(token)) != 0;
  }
  int n() const;
  int32_t lowest() const;  // -1: none
  // Bit i of word w is token 64 w + i.
  std::span<const uint64_t> words() const { return words_; }

 private:
  static uint64_t bit(int32_t token) { return uint64_t{1} << (token & 63); }

  std::vector<uint64_t> words_;
};

class TokenGrammar {
 public:
  TokenGrammar(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens);
  ~TokenGrammar();

  // What a caller keeps of replies to one grammar, so that one that goes on is not read again.
  class Path {
    friend class TokenGrammar;
    uint64_t generation_ = 0;
    std::vector<int32_t> tokens_;
    std::vector<int32_t> states_;  // before each token, and behind the last
  };

  // All speak of what may follow the tokens `reply`. Where a grammar is too ambiguous a mask has
  // the token that leads there, or there is none, as the reply alone says; a target is refused.

  // nullptr where no text of the grammar begins with `reply`, or where it is not known what may
  // follow it: nothing is held to it then.
  std::shared_ptr<const TokenMask> mask(std::span<const int32_t> reply, Path& path) const;
  bool allows(std::span<const int32_t> reply, int32_t token, Path& path) const;
  // Nothing but the end can follow.
  bool complete(std::span<const int32_t> reply, Path& path) const;
  bool ends(int32_t token) const;
  size_t bytes() const;  // of the grammar and of what was found, about

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

  // For a message: why `token`, which a draw gave, cannot follow: nothing that it may give is left,
  // or the grammar is too ambiguous.
  [[noreturn]] void refuse(std::span<const int32_t> reply, int32_t token, Path& path) const;

 private:
  class Known;

  std::unique_ptr<Known> known_;
};

}  // namespace specbound
