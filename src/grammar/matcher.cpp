#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

namespace specbound {
namespace {

using Kind = Automaton::Kind;
using Node = Automaton::Node;

// What a stack node and a state take beside their lists, tables of hashes included.
constexpr size_t kNodeBytes = 64, kStateBytes = 160;

uint64_t hash_of(std::span<const int32_t> numbers, bool accepts, bool escapes) {
  uint64_t hash = 0xcbf29ce484222325u + accepts + 2 * escapes;
  for (const int32_t number : numbers) {
    hash = (hash ^ static_cast<uint32_t>(number)) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

GrammarMatcher::GrammarMatcher(const Automaton& automaton) : automaton_(automaton) {
  clear();
}

void GrammarMatcher::clear() {
  nodes_.assign(2, {-1, 0});
  seen_.assign(2, 0);
  closure_ = 0;
  stack_of_.clear();
  states_.clear();
  states_.resize(2);  // kDead, kTooMany
  auto all = std::make_unique<Row>();
  all->targets.push_back(kTooMany);
  states_[kTooMany].row = std::move(all);
  state_of_.clear();
  bytes_ = 0;
}

bool GrammarMatcher::trim() {
  if (states_.size() <= kMaxStates && bytes_ <= kMaxBytes) return false;
  clear();
  return true;
}

int32_t GrammarMatcher::push(int32_t node, int32_t below) {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(below);
  const auto [at, fresh] = stack_of_.try_emplace(key, static_cast<int32_t>(nodes_.size()));
  if (fresh) {
    nodes_.push_back({node, below});
    seen_.push_back(0);
    bytes_ += kNodeBytes;
  }
  return at->second;
}

void GrammarMatcher::begin_closure() {
  found_.clear();
  steps_ = 0;
  ended_ = escaped_ = too_many_ = false;
  ++closure_;
}

// All stacks whose next step is a byte, from node `node` on, behind which the stack `below` goes
// on. A call that a rule ends with leaves nothing to come back to, so lists do not grow a stack.
void GrammarMatcher::close(int32_t node, int32_t below) {
  const auto visit = [&](int32_t to, int32_t under) {
    too_many_ = too_many_ || ++steps_ > kMaxSteps;
    if (too_many_ || !automaton_.nodes[static_cast<size_t>(to)].ends) return;
    const int32_t stack = push(to, under);
    if (std::exchange(seen_[static_cast<size_t>(stack)], closure_) != closure_) {
      open_.push_back(stack);
    }
  };
  visit(node, below);
  while (!open_.empty()) {
    const int32_t stack = open_.back();
    open_.pop_back();
    const StackNode top = nodes_[static_cast<size_t>(stack)];
    const Node& at = automaton_.nodes[static_cast<size_t>(top.node)];
    switch (at.kind) {
      case Kind::kBytes:
        found_.push_back(stack);
        too_many_ = too_many_ || found_.size() > kMaxStacks;
        break;
      case Kind::kSplit:
        visit(at.next, top.below);
        visit(at.arg, top.below);
        break;
      case Kind::kCall: {
        const bool last = automaton_.nodes[static_cast<size_t>(at.next)].kind == Kind::kEnd;
        const int32_t start = automaton_.starts[static_cast<size_t>(at.arg)];
        visit(start, last ? top.below : push(at.next, top.below));
        break;
      }
      case Kind::kEnd:
        if (top.below == 0) {
          ended_ = true;
        } else if (top.below == kEscape) {
          escaped_ = true;
        } else {
          const StackNode below = nodes_[static_cast<size_t>(top.below)];
          visit(below.node, below.below);
        }
        break;
    }
  }
}

GrammarMatcher::State GrammarMatcher::intern() {
  if (too_many_) return kTooMany;
  if (found_.empty() && !ended_ && !escaped_) return kDead;
  std::ranges::sort(found_);
  const uint64_t hash = hash_of(found_, ended_, escaped_);
  const auto [first, last] = state_of_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const StateData& known = states_[static_cast<size_t>(at->second)];
    if (known.accepts == ended_ && known.escapes == escaped_ && known.stacks == found_) {
      return at->second;
    }
  }
  StateData state;
  state.stacks = found_;
  state.accepts = ended_;
  state.escapes = escaped_;
  for (const int32_t stack : found_) {
    const Node& node =
        automaton_.nodes[static_cast<size_t>(nodes_[static_cast<size_t>(stack)].node)];
    state.control = state.control || node.control;
    state.free = state.free || node.free;
  }
  bytes_ += kStateBytes + found_.size() * sizeof(int32_t);
  states_.push_back(std::move(state));
  const State id = static_cast<State>(states_.size()) - 1;
  state_of_.emplace(hash, id);
  return id;
}

GrammarMatcher::State GrammarMatcher::start() {
  begin_closure();
  close(automaton_.starts[static_cast<size_t>(automaton_.root)], 0);
  return intern();
}

// Behind those stacks of `from` that take `byte`.
GrammarMatcher::State GrammarMatcher::intern_moved(const StateData& from, int byte, bool literal) {
  begin_closure();
  for (const int32_t stack : from.stacks) {
    const StackNode top = nodes_[static_cast<size_t>(stack)];
    const Node& node = automaton_.nodes[static_cast<size_t>(top.node)];
    if (too_many_) break;
    if (literal && !node.control) continue;
    if (automaton_.sets[static_cast<size_t>(node.arg)].has(byte)) close(node.next, top.below);
  }
  return intern();
}

// Bytes that the same stacks take are one class, so that a state inside a string has a few targets,
// not 256.
const GrammarMatcher::Row& GrammarMatcher::row(State state) {
  if (const auto& known = states_[static_cast<size_t>(state)].row) return *known;
  auto row = std::make_unique<Row>();
  row->targets.push_back(kDead);
  // States move where more come: the stacks are copied.
  StateData from;
  from.stacks = states_[static_cast<size_t>(state)].stacks;
  std::vector<int32_t> sets;
  for (const int32_t stack : from.stacks) {
    const int32_t node = nodes_[static_cast<size_t>(stack)].node;
    sets.push_back(automaton_.nodes[static_cast<size_t>(node)].arg);
  }
  std::ranges::sort(sets);
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  int n = 1;
  for (const int32_t which : sets) {
    const ByteSet& set = automaton_.sets[static_cast<size_t>(which)];
    std::array<int, 256> inside;  // [class] what it becomes where the set has the byte
    inside.fill(-1);
    std::array<bool, 256> outside{};  // some of its bytes are not in the set
    for (int byte = 0; byte < 256; ++byte) {
      if (!set.has(byte)) outside[row->classes[static_cast<size_t>(byte)]] = true;
    }
    for (int byte = 0; byte < 256; ++byte) {
      uint8_t& its = row->classes[static_cast<size_t>(byte)];
      if (!set.has(byte) || (its != 0 && !outside[its])) continue;
      if (inside[its] < 0) inside[its] = n++;
      its = static_cast<uint8_t>(inside[its]);
    }
  }
  std::array<int, 256> byte_of;
  byte_of.fill(-1);
  for (int byte = 0; byte < 256; ++byte) byte_of[row->classes[static_cast<size_t>(byte)]] = byte;
  row->targets.resize(static_cast<size_t>(n), kDead);
  for (int c = 1; c < n; ++c) {
    const int byte = byte_of[static_cast<size_t>(c)];
    if (byte < 0) continue;
    row->targets[static_cast<size_t>(c)] = intern_moved(from, byte, false);
    row->work += from.stacks.size() + steps_;
  }
  bytes_ += sizeof(Row) + row->targets.size() * sizeof(State);
  return *(states_[static_cast<size_t>(state)].row = std::move(row));
}

// The uppermost stack that is below all of these; 0: none is found near their tops.
int32_t GrammarMatcher::common_below(const std::vector<int32_t>& stacks) const {
  constexpr size_t kLooked = 32;
  std::vector<int32_t> common;
  const auto below = [&](int32_t stack) { return nodes_[static_cast<size_t>(stack)].below; };
  for (int32_t s = below(stacks[0]); s != 0 && common.size() < kLooked; s = below(s)) {
    common.push_back(s);
  }
  for (const int32_t stack : stacks) {
    size_t first = common.size();  // of `common`, that is below this one too
    int32_t s = below(stack);
    for (size_t i = 0; s != 0 && i < 2 * kLooked && first == common.size(); ++i, s = below(s)) {
      first = static_cast<size_t>(std::ranges::find(common, s) - common.begin());
    }
    common.erase(common.begin(), common.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return common.empty() ? 0 : common[0];
}

GrammarMatcher::Parts GrammarMatcher::parts(State state, bool near) {
  const StateData& whole = states_[static_cast<size_t>(state)];
  if (whole.accepts || whole.stacks.empty()) return {state, kDead};
  const std::vector<int32_t> stacks = whole.stacks;
  const int32_t common = common_below(stacks);
  begin_closure();
  std::vector<int32_t> upper;
  size_t taken = 0;
  for (const int32_t stack : stacks) {
    upper.clear();
    for (int32_t s = stack; s != common; s = nodes_[static_cast<size_t>(s)].below) {
      if (++taken > kMaxUpper) return {state, kDead};
      upper.push_back(nodes_[static_cast<size_t>(s)].node);
    }
    int32_t moved = common == 0 ? 0 : kEscape;
    for (size_t i = upper.size(); i-- > 0;) {
      const int32_t alike = automaton_.nodes[static_cast<size_t>(upper[i])].near;
      moved = push(near && alike >= 0 ? alike : upper[i], moved);
    }
    found_.push_back(moved);
  }
  std::ranges::sort(found_);
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  const State inner = intern();
  if (common == 0) return {inner, kDead};
  const StackNode on = nodes_[static_cast<size_t>(common)];
  begin_closure();
  close(on.node, on.below);
  return {inner, intern()};
}

// A row is looked up where there is one, and not made: it costs as much as all bytes together.
GrammarMatcher::State GrammarMatcher::next(State state, uint8_t byte) {
  const StateData& data = states_[static_cast<size_t>(state)];
  if (data.row) return data.row->targets[data.row->classes[byte]];
  StateData from;
  from.stacks = data.stacks;
  return intern_moved(from, byte, false);
}

GrammarMatcher::State GrammarMatcher::next(State state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == kDead) break;
    state = next(state, static_cast<uint8_t>(byte));
  }
  return state;
}

GrammarMatcher::State GrammarMatcher::next_of_literal(State state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == kDead || state == kTooMany) break;
    StateData from;
    from.stacks = states_[static_cast<size_t>(state)].stacks;
    state = intern_moved(from, static_cast<uint8_t>(byte), true);
  }
  return state;
}

// Each stack leads somewhere: nodes that lead nowhere are in none.
int GrammarMatcher::only_byte(State state) const {
  int only = -1;
  for (const int32_t stack : states_[static_cast<size_t>(state)].stacks) {
    const int32_t node = nodes_[static_cast<size_t>(stack)].node;
    const ByteSet& set =
        automaton_.sets[static_cast<size_t>(automaton_.nodes[static_cast<size_t>(node)].arg)];
    for (int byte = 0; byte < 256; ++byte) {
      if (!set.has(byte) || byte == only) continue;
      if (only >= 0) return -1;
      only = byte;
    }
  }
  return only;
}

}  // namespace specbound
