#include "grammar/token_grammar.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

constexpr size_t kMaskBytes = size_t{16} << 20;  // that are kept
constexpr size_t kMaxForced = size_t{1} << 16;   // states whose forced token is kept
constexpr size_t kForcedBytes = 64;              // of the only text that are looked at

}  // namespace

int32_t TokenMask::lowest() const {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) return static_cast<int32_t>(i * 64) + std::countr_zero(words_[i]);
  }
  return -1;
}

TokenGrammar::TokenGrammar(Grammar::Shared grammar, std::shared_ptr<const TokenTrie> tokens)
    : grammar_(std::move(grammar)), tokens_(std::move(tokens)), matcher_(grammar_->automaton()) {}

TokenGrammar::State TokenGrammar::behind(State state, int32_t token) const {
  if (token < 0 || token >= tokens_->vocab_size()) return GrammarMatcher::kDead;
  if (const std::string* control = tokens_->control_text(token)) {
    return matcher_.next_of_literal(state, *control);
  }
  const std::string_view piece = tokens_->piece(token);
  return piece.empty() ? GrammarMatcher::kDead : matcher_.next(state, piece);
}

// Behind `reply`, of which the part that `path` has come to is not read again.
TokenGrammar::State TokenGrammar::state(std::span<const int32_t> reply, Path& path) const {
  if (matcher_.trim()) {
    ++generation_;
    masks_.clear();
    forced_.clear();
  }
  if (path.generation_ != generation_) {
    path.generation_ = generation_;
    path.tokens_.clear();
    path.states_.assign(1, matcher_.start());
  }
  const size_t most = std::min(reply.size(), path.tokens_.size());
  const size_t known = static_cast<size_t>(
      std::mismatch(reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(most),
                    path.tokens_.begin())
          .first -
      reply.begin());
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

TokenGrammar::Mask TokenGrammar::mask_of(State state) const {
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  const auto mask = std::make_shared<TokenMask>(tokens_->vocab_size());
  const std::span<const TokenTrie::Node> nodes = tokens_->nodes();
  std::vector<const GrammarMatcher::Row*> rows(static_cast<size_t>(tokens_->deepest()) + 1);
  rows[0] = &matcher_.row(state);
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const GrammarMatcher::Row& row = *rows[node.depth - 1u];
    const State next = row.targets[row.classes[node.byte]];
    if (next == GrammarMatcher::kDead) {
      i = node.behind;
      continue;
    }
    for (const int32_t token : tokens_->tokens(i)) mask->add(token);
    if (node.behind > i + 1) rows[node.depth] = &matcher_.row(next);
    ++i;
  }
  if (matcher_.accepts(state)) {
    for (const int32_t token : tokens_->end_tokens()) mask->add(token);
  }
  if (matcher_.may_be_control(state)) {
    for (const auto& [token, text] : tokens_->controls()) {
      if (matcher_.next_of_literal(state, text) != GrammarMatcher::kDead) mask->add(token);
    }
  }
  const size_t bytes = mask->words().size_bytes() + sizeof(TokenMask);
  if ((masks_.size() + 1) * bytes > kMaskBytes) masks_.clear();
  return masks_.emplace(state, mask).first->second;
}

std::shared_ptr<const TokenMask> TokenGrammar::mask(std::span<const int32_t> reply,
                                                    Path& path) const {
  const std::lock_guard lock(mutex_);
  const State at = state(reply, path);
  return at == GrammarMatcher::kDead ? nullptr : mask_of(at);
}

bool TokenGrammar::allows(std::span<const int32_t> reply, int32_t token, Path& path) const {
  const std::lock_guard lock(mutex_);
  const State at = state(reply, path);
  if (at == GrammarMatcher::kDead) return false;
  if (ends(token)) return matcher_.accepts(at);
  return behind(at, token) != GrammarMatcher::kDead;
}

bool TokenGrammar::complete(std::span<const int32_t> reply, Path& path) const {
  const std::lock_guard lock(mutex_);
  const State at = state(reply, path);
  if (!matcher_.accepts(at)) return false;
  const auto& targets = matcher_.row(at).targets;
  return std::ranges::count(targets, GrammarMatcher::kDead) == std::ssize(targets);
}

TokenGrammar::Forced TokenGrammar::forced(std::span<const int32_t> reply, Path& path) const {
  const std::lock_guard lock(mutex_);
  const State at = state(reply, path);
  if (const auto known = forced_.find(at); known != forced_.end()) return known->second;
  std::string only;
  for (State s = at; only.size() < kForcedBytes && !matcher_.accepts(s);) {
    const int byte = matcher_.only_byte(s);
    if (byte < 0) break;
    only += static_cast<char>(byte);
    s = matcher_.next(s, static_cast<uint8_t>(byte));
  }
  Forced forced;
  // Where the text goes one way the walk is short, and says whether there is one token alone.
  if (const int32_t token = tokens_->longest(only); token >= 0) {
    const size_t size = tokens_->piece(token).size();
    forced.kind = size < only.size() ? Forced::Kind::kInside : Forced::Kind::kEdge;
    if (mask_of(at)->n() == 1) forced.kind = Forced::Kind::kSure;
    forced.token = token;
  }
  if (forced_.size() >= kMaxForced) forced_.clear();
  return forced_.emplace(at, forced).first->second;
}

void TokenGrammar::refuse(std::span<const int32_t> reply, int32_t token, Path& path) const {
  const std::lock_guard lock(mutex_);
  const State at = state(reply, path);
  std::string bytes;
  const GrammarMatcher::Row& row = matcher_.row(at);
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
