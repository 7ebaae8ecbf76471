#include "grammar/token_grammar.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "error.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"

namespace specbound {
namespace {

constexpr size_t kMaskBytes = size_t{32} << 20;  // that are kept
constexpr size_t kMaxForced = size_t{1} << 16;   // states whose forced token is kept
constexpr size_t kForcedStateBytes = 48;         // of one, about, that of its table included
constexpr size_t kOwnBytes = 2048;   // of a grammar of which nothing is found yet, about
constexpr size_t kForcedBytes = 64;  // of the only text that are looked at
// That one mask may take, of the matcher and of the tree below an inner state: some hundred
// milliseconds.
constexpr size_t kMostWork = 4'000'000;

using State = GrammarMatcher::State;
using Mask = std::shared_ptr<const TokenMask>;
using Reply = std::span<const int32_t>;

}  // namespace

void TokenMask::add(const TokenMask& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

int TokenMask::n() const {
  int n = 0;
  for (const uint64_t word : words_) n += std::popcount(word);
  return n;
}

int32_t TokenMask::lowest() const {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) return static_cast<int32_t>(i * 64) + std::countr_zero(words_[i]);
  }
  return -1;
}

// What was found of the grammar so far.
class TokenGrammar::Known {
 public:
  Known(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
      : tokens(std::move(trie)), grammar_(std::move(grammar)), matcher(grammar_->automaton()) {
    for (const auto& [token, text] : tokens->controls()) {
      if (std::ranges::count(grammar_->shown(), text) > 0) shown_.push_back(token);
    }
  }

  State state(Reply reply, Path& path);
  State behind(State state, int32_t token);
  State behind_control(State state, int32_t token, std::string_view text);
  Mask mask_of(State state);  // nullptr: it would take more than kMostWork
  size_t bytes() const {
    return kOwnBytes + grammar_->source().size() + grammar_->automaton().bytes() + matcher.bytes() +
           (masks_.size() + inners_.size()) * mask_bytes() + escape_bytes_ +
           forced.size() * kForcedStateBytes;
  }

  std::mutex mutex;
  const std::shared_ptr<const TokenTrie> tokens;

 private:
  using Tree = TokenTrie::Tree;

  // What may follow an inner state (GrammarMatcher::parts), of one tree, as far as that is decided
  // inside: below these nodes of the tree what is below it goes on too.
  struct Inner {
    explicit Inner(int vocab_size) : mask(vocab_size) {}

    TokenMask mask;
    std::vector<uint32_t> escapes;
    size_t work = 0;
  };
  // Work is counted for the states that a mask comes to, whether they were known or not: whether
  // there is a mask must not depend on what was asked before.
  struct Walk {
    uint32_t number;
    size_t work = 0;

    bool over() const { return work > kMostWork; }
  };

  const GrammarMatcher::Row& row(State state, Walk& walk);
  void walk(const Tree& tree, size_t first, size_t last, State state, TokenMask& mask,
            std::vector<uint32_t>* escapes, Walk& walk);
  const Inner& inner_of(const Tree& tree, State inner);
  // The work that it took; more than kMostWork: the mask is not whole.
  size_t add_tree(const Tree& tree, State state, bool near, TokenMask& mask);
  void forget_masks();
  size_t mask_bytes() const {  // of each that is kept
    return (static_cast<size_t>(tokens->vocab_size()) + 63) / 64 * 8 + sizeof(TokenMask);
  }

  const std::shared_ptr<const Grammar> grammar_;
  std::vector<int32_t> shown_;  // control tokens
  uint64_t generation_ = 1;     // of the matcher's states
  std::unordered_map<State, Mask> masks_;
  std::map<std::pair<State, const Tree*>, Inner> inners_;
  size_t escape_bytes_ = 0;                       // of inners_
  std::vector<const GrammarMatcher::Row*> rows_;  // [depth] of the walk under way
  std::vector<uint32_t> walked_;                  // [state] the last walk that counted it
  uint32_t n_walks_ = 0;

 public:
  GrammarMatcher matcher;
  std::unordered_map<State, Forced> forced;
};

State TokenGrammar::Known::behind(State state, int32_t token) {
  if (token < 0 || token >= tokens->vocab_size()) return GrammarMatcher::kDead;
  if (const std::string* control = tokens->control_text(token)) {
    return behind_control(state, token, *control);
  }
  const std::string_view piece = tokens->piece(token);
  return piece.empty() ? GrammarMatcher::kDead : matcher.next(state, piece);
}

State TokenGrammar::Known::behind_control(State state, int32_t token, std::string_view text) {
  const bool shown = std::ranges::binary_search(shown_, token);
  return !shown && matcher.is_free(state) ? state : matcher.next_of_literal(state, text);
}

void TokenGrammar::Known::forget_masks() {
  masks_.clear();
  inners_.clear();
  escape_bytes_ = 0;
}

// Behind `reply`, of which the part that `path` has come to is not read again.
State TokenGrammar::Known::state(Reply reply, Path& path) {
  if (matcher.trim()) {
    ++generation_;
    forget_masks();
    forced.clear();
  }
  if (path.generation_ != generation_) {
    path.generation_ = generation_;
    path.tokens_.clear();
    path.states_.assign(1, matcher.start());
  }
  const Reply shared = reply.first(std::min(reply.size(), path.tokens_.size()));
  size_t known = shared.size();
  if (!std::equal(shared.begin(), shared.end(), path.tokens_.begin())) {  // seldom, and slower
    known = static_cast<size_t>(std::ranges::mismatch(shared, path.tokens_).in1 - shared.begin());
  }
  if (known == reply.size()) return path.states_[known];
  path.tokens_.resize(known);
  path.states_.resize(known + 1);
  for (const int32_t token : reply.subspan(known)) {
    const State next = behind(path.states_.back(), token);
    path.tokens_.push_back(token);
    path.states_.push_back(next);
  }
  return path.states_.back();
}

const GrammarMatcher::Row& TokenGrammar::Known::row(State state, Walk& walk) {
  const GrammarMatcher::Row& row = matcher.row(state);
  const auto at = static_cast<size_t>(state);
  if (at >= walked_.size()) walked_.resize(2 * at + 1);
  if (std::exchange(walked_[at], walk.number) != walk.number) walk.work += row.work;
  return row;
}

// Nodes [first, last) of a tree, all there is below one node or the whole, from `state` on.
void TokenGrammar::Known::walk(const Tree& tree, size_t first, size_t last, State state,
                               TokenMask& mask, std::vector<uint32_t>* escapes, Walk& walk) {
  const std::span<const TokenTrie::Node> nodes = tree.nodes();
  if (first >= last) return;
  if (rows_.size() <= static_cast<size_t>(tree.deepest())) {
    rows_.resize(static_cast<size_t>(tree.deepest()) + 1);
  }
  rows_[nodes[first].depth - 1u] = &row(state, walk);
  for (size_t i = first; i < last && !walk.over();) {
    const TokenTrie::Node& node = nodes[i];
    const GrammarMatcher::Row& row = *rows_[node.depth - 1u];
    const State next = row.targets[row.classes[node.byte]];
    if (next == GrammarMatcher::kDead) {
      i = node.behind;
      continue;
    }
    for (const int32_t token : tree.tokens(i)) mask.add(token);
    if (node.behind > i + 1) {
      rows_[node.depth] = &this->row(next, walk);
      if (escapes && matcher.escapes(next)) escapes->push_back(static_cast<uint32_t>(i));
    }
    ++i;
  }
}

const TokenGrammar::Known::Inner& TokenGrammar::Known::inner_of(const Tree& tree, State inner) {
  if (const auto known = inners_.find({inner, &tree}); known != inners_.end()) return known->second;
  Inner found(tokens->vocab_size());
  Walk walk{++n_walks_};
  this->walk(tree, 0, tree.nodes().size(), inner, found.mask, &found.escapes, walk);
  found.work = walk.work;
  escape_bytes_ += found.escapes.capacity() * sizeof(uint32_t);
  return inners_.emplace(std::pair(inner, &tree), std::move(found)).first->second;
}

size_t TokenGrammar::Known::add_tree(const Tree& tree, State state, bool near, TokenMask& mask) {
  const auto [inner, below] = matcher.parts(state, near);
  const Inner& inside = inner_of(tree, inner);
  mask.add(inside.mask);
  Walk walk{++n_walks_, inside.work};
  if (below == GrammarMatcher::kDead) return walk.work;
  for (const uint32_t node : inside.escapes) {
    walk.work += tree.nodes()[node].behind - node;
    this->walk(tree, node + size_t{1}, tree.nodes()[node].behind, below, mask, nullptr, walk);
  }
  return walk.work;
}

Mask TokenGrammar::Known::mask_of(State state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  const auto mask = std::make_shared<TokenMask>(tokens->vocab_size());
  const size_t bytes = (masks_.size() + inners_.size() + 3) * mask_bytes() + escape_bytes_;
  if (bytes > kMaskBytes) forget_masks();
  static_assert(TokenTrie::kShort <= Automaton::kNear);
  const size_t work = add_tree(tokens->short_ones(), state, true, *mask) +
                      add_tree(tokens->long_ones(), state, false, *mask);
  if (work > kMostWork) return masks_.emplace(state, nullptr).first->second;
  if (matcher.accepts(state)) {
    for (const int32_t token : tokens->end_tokens()) mask->add(token);
  }
  if (matcher.may_be_control(state) || matcher.is_free(state)) {
    for (const auto& [token, text] : tokens->controls()) {
      if (behind_control(state, token, text) != GrammarMatcher::kDead) mask->add(token);
    }
  }
  return masks_.emplace(state, mask).first->second;
}

TokenGrammar::TokenGrammar(std::shared_ptr<const Grammar> grammar,
                           std::shared_ptr<const TokenTrie> tokens)
    : known_(std::make_unique<Known>(std::move(grammar), std::move(tokens))) {}

TokenGrammar::~TokenGrammar() = default;

size_t TokenGrammar::bytes() const {
  const std::lock_guard lock(known_->mutex);
  return known_->bytes();
}

bool TokenGrammar::ends(int32_t token) const {
  const TokenTrie& tokens = *known_->tokens;
  return token >= 0 && token < tokens.vocab_size() && tokens.ends(token);
}

std::shared_ptr<const TokenMask> TokenGrammar::mask(Reply reply, Path& path) const {
  const std::lock_guard lock(known_->mutex);
  const State at = known_->state(reply, path);
  if (at == GrammarMatcher::kDead || at == GrammarMatcher::kTooMany) return nullptr;
  return known_->mask_of(at);
}

bool TokenGrammar::allows(Reply reply, int32_t token, Path& path) const {
  const std::lock_guard lock(known_->mutex);
  const State at = known_->state(reply, path);
  if (at == GrammarMatcher::kDead) return false;
  if (ends(token)) return known_->matcher.accepts(at);
  const State next = known_->behind(at, token);
  return next != GrammarMatcher::kDead && next != GrammarMatcher::kTooMany;
}

bool TokenGrammar::complete(Reply reply, Path& path) const {
  const std::lock_guard lock(known_->mutex);
  const State at = known_->state(reply, path);
  return known_->matcher.accepts(at) && known_->matcher.is_last(at);
}

TokenGrammar::Forced TokenGrammar::forced(Reply reply, Path& path) const {
  const std::lock_guard lock(known_->mutex);
  const State at = known_->state(reply, path);
  auto& kept = known_->forced;
  GrammarMatcher& matcher = known_->matcher;
  if (const auto known = kept.find(at); known != kept.end()) return known->second;
  std::string only;
  for (State s = at; only.size() < kForcedBytes && !matcher.accepts(s);) {
    const int byte = matcher.only_byte(s);
    if (byte < 0) break;
    only += static_cast<char>(byte);
    s = matcher.next(s, static_cast<uint8_t>(byte));
  }
  Forced forced;
  // Where the text goes one way the walk is short, and says whether there is one token alone.
  if (const int32_t token = known_->tokens->longest(only); token >= 0) {
    const size_t size = known_->tokens->piece(token).size();
    forced.kind = size < only.size() ? Forced::Kind::kInside : Forced::Kind::kEdge;
    const Mask mask = known_->mask_of(at);
    if (mask && mask->n() == 1) forced.kind = Forced::Kind::kSure;
    forced.token = token;
  }
  if (kept.size() >= kMaxForced) kept.clear();
  return kept.emplace(at, forced).first->second;
}

void TokenGrammar::refuse(Reply reply, int32_t token, Path& path) const {
  const std::lock_guard lock(known_->mutex);
  const State at = known_->state(reply, path);
  const bool too_many =
      at == GrammarMatcher::kTooMany || known_->behind(at, token) == GrammarMatcher::kTooMany;
  if (too_many || (at != GrammarMatcher::kDead && !known_->mask_of(at))) {
    const size_t most = too_many ? GrammarMatcher::kMaxStacks : kMostWork;
    throw Error(ErrorCode::kUnsupported,
                format("grammar: expected text that can be read in at most %zu %s, found more "
                       "behind %zu tokens of the reply: make it less ambiguous",
                       most, too_many ? "ways" : "steps a token", reply.size()));
  }
  const GrammarMatcher::Row& row = known_->matcher.row(at);
  std::string bytes;
  for (int byte = 0; byte < 256 && bytes.size() < 40; ++byte) {
    if (row.targets[row.classes[static_cast<size_t>(byte)]] == GrammarMatcher::kDead) continue;
    bytes += format("%s0x%02x", bytes.empty() ? "" : ", ", byte);
  }
  throw Error(ErrorCode::kUnsupported,
              format("grammar: expected a vocabulary with a token that begins with byte %s, which "
                     "alone can follow %zu tokens of the reply, found none (token %d was drawn)",
                     bytes.empty() ? "none" : bytes.c_str(), reply.size(), token));
}

}  // namespace specbound
