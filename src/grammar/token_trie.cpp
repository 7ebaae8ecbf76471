#include "grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "text/tokenizer.h"

namespace specbound {
namespace {

size_t common_bytes(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
      a.begin());
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer, const std::function<bool(int32_t)>& ends) {
  const int32_t n = tokenizer.vocab_size();
  pieces_.resize(static_cast<size_t>(n));
  std::vector<int32_t> order;
  for (int32_t token = 0; token < n; ++token) {
    const bool end = ends(token);
    ends_.push_back(end);
    if (end) {
      end_tokens_.push_back(token);
    } else if (tokenizer.is_control(token)) {
      controls_.push_back({token, tokenizer.piece(token, true)});
    } else {
      std::string piece = tokenizer.piece(token);
      if (piece.empty() || piece.size() > kMaxPiece) continue;
      pieces_[static_cast<size_t>(token)] = std::move(piece);
      order.push_back(token);
    }
  }
  const auto less = [](std::string_view a, std::string_view b) { return a < b; };
  const auto piece_of = [this](int32_t token) { return piece(token); };
  std::ranges::stable_sort(order, less, piece_of);  // char_traits compares bytes unsigned
  const auto shorter = [this](int32_t token) { return piece(token).size() <= kShort; };
  const auto longer = std::stable_partition(order.begin(), order.end(), shorter);
  long_ = tree_of({longer, order.end()});
  order.erase(longer, order.end());
  short_ = tree_of(order);
}

// `order`: the tokens, ascending by their bytes.
TokenTrie::Tree TokenTrie::tree_of(const std::vector<int32_t>& order) const {
  Tree tree;
  std::vector<Node>& nodes = tree.nodes_;
  std::vector<size_t> open;  // the path to the newest node
  std::string_view before;
  for (const int32_t token : order) {
    const std::string_view text = piece(token);
    const size_t common = common_bytes(before, text);
    for (; open.size() > common; open.pop_back()) {
      nodes[open.back()].behind = static_cast<uint32_t>(nodes.size());
    }
    for (size_t i = common; i < text.size(); ++i) {
      open.push_back(nodes.size());
      nodes.push_back({static_cast<uint8_t>(text[i]), static_cast<uint16_t>(i + 1), 0,
                       static_cast<uint32_t>(tree.tokens_.size())});
    }
    tree.tokens_.push_back(token);
    tree.deepest_ = std::max(tree.deepest_, static_cast<int>(text.size()));
    before = text;
  }
  const auto end = static_cast<uint32_t>(nodes.size());
  for (const size_t node : open) nodes[node].behind = end;
  nodes.push_back({0, 0, end + 1, static_cast<uint32_t>(tree.tokens_.size())});
  return tree;
}

const std::string* TokenTrie::control_text(int32_t token) const {
  const auto at = std::ranges::lower_bound(controls_, token, {}, &Control::token);
  return at != controls_.end() && at->token == token ? &at->text : nullptr;
}

int32_t TokenTrie::longest(const Tree& tree, std::string_view text) const {
  int32_t found = -1;
  const std::span<const Node> nodes = tree.nodes();
  size_t from = 0, to = nodes.size();
  for (const char byte : text) {
    while (from < to && nodes[from].byte != static_cast<uint8_t>(byte)) from = nodes[from].behind;
    if (from >= to) break;
    if (const auto here = tree.tokens(from); !here.empty()) found = here.front();
    to = nodes[from].behind;
    ++from;
  }
  return found;
}

int32_t TokenTrie::longest(std::string_view text) const {
  const int32_t found = longest(long_, text);
  return found >= 0 ? found : longest(short_, text);
}

}  // namespace specbound
