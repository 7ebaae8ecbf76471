// The tokens of a vocabulary by their bytes, as one tree that is walked from front to end: what a
// state of a grammar allows is found without looking at tokens one by one. Made once a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {

class Tokenizer;

class TokenTrie {
 public:
  struct Node {
    uint8_t byte;          // behind its parent's
    uint16_t depth;        // bytes up to it
    uint32_t behind;       // the first node that is not below it
    uint32_t first_token;  // its own, up to the next node's
  };
  // Longer ones count as having no text: none in use is.
  static constexpr size_t kMaxPiece = 4096;

  // `ends`: tokens that end a reply.
  TokenTrie(const Tokenizer& tokenizer, const std::function<bool(int32_t)>& ends);

  int vocab_size() const { return static_cast<int>(pieces_.size()); }
  // What a token writes; empty: nothing, or it ends the reply, or it is a control token.
  std::string_view piece(int32_t token) const { return pieces_[static_cast<size_t>(token)]; }
  bool ends(int32_t token) const { return ends_[static_cast<size_t>(token)]; }
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

  struct Control {
    int32_t token;
    std::string text;
  };
  // Control tokens, which have no text of their own, with the one that names them.
  const std::vector<Control>& controls() const { return controls_; }
  const std::string* control_text(int32_t token) const;  // nullptr: it is none

  // Tokens of up to kShort bytes, and longer ones.
  static constexpr size_t kShort = 16;
  class Tree {
   public:
    // In the order of a walk: a node, all below it, its next sibling.
    std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
    std::span<const int32_t> tokens(size_t node) const {
      const uint32_t first = nodes_[node].first_token;
      return std::span(tokens_).subspan(first, nodes_[node + 1].first_token - first);
    }
    int deepest() const { return deepest_; }

   private:
    friend class TokenTrie;
    std::vector<Node> nodes_;  // one more at the end
    std::vector<int32_t> tokens_;
    int deepest_ = 0;
  };
  const Tree& short_ones() const { return short_; }
  const Tree& long_ones() const { return long_; }
  // The longest token that `text` begins with; -1: none.
  int32_t longest(std::string_view text) const;

 private:
  Tree tree_of(const std::vector<int32_t>& order) const;
  int32_t longest(const Tree& tree, std::string_view text) const;

  std::vector<std::string> pieces_;
  std::vector<bool> ends_;
  std::vector<int32_t> end_tokens_;
  std::vector<Control> controls_;  // by token
  Tree short_, long_;
};

}  // namespace specbound
