// Where in a grammar a text stands, byte by byte. A state is an interned set of stacks of calls, so
// it is a number: states can be kept, compared and gone on from in any order, as rows of a tree of
// drafts need it. What follows a state is found once, for all bytes together.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace specbound {

class GrammarMatcher {
 public:
  using State = int32_t;
  static constexpr State kDead = 0;  // no text of the grammar begins like this
  // A text that can be read in more ways than are followed; nothing is known of what comes behind
  // it. Whether a state is this one depends on the text alone, not on what was looked at before.
  static constexpr State kTooMany = 1;
  // Stacks in one state: so many ways to read one text no grammar in use has.
  static constexpr size_t kMaxStacks = 1024;

  // `automaton` must outlive it.
  explicit GrammarMatcher(const Automaton& automaton);

  State start();
  State next(State state, uint8_t byte);
  State next(State state, std::string_view bytes);
  // The same within literals alone, where a control token may stand for them.
  State next_of_literal(State state, std::string_view bytes);

  bool accepts(State state) const { return states_[static_cast<size_t>(state)].accepts; }
  // A control token may begin here.
  bool may_be_control(State state) const { return states_[static_cast<size_t>(state)].control; }
  // Text here is as it likes: what is no text may come, and leads to the same state.
  bool is_free(State state) const { return states_[static_cast<size_t>(state)].free; }
  // What may come next, by class of bytes; class 0 is what may not.
  struct Row {
    std::array<uint8_t, 256> classes{};
    std::vector<State> targets;  // [class]
    size_t work = 0;             // steps that it took to find them, the same each time
  };
  const Row& row(State state);
  // The one byte that may come next; -1: several may, or none, or it is not known.
  int only_byte(State state) const;
  // Nothing may come next.
  bool is_last(State state) const {
    return state != kTooMany && states_[static_cast<size_t>(state)].stacks.empty();
  }

  // The upper part of a state's stacks, as a state of its own, and what they all have below it, as
  // the state where that goes on; kDead: nothing. Texts of many places are in one inner state.
  // `near`: one that may be told apart only behind Automaton::kNear bytes.
  struct Parts {
    State inner, below;
  };
  Parts parts(State state, bool near);
  // Of an inner state: what is below may go on here.
  bool escapes(State state) const { return states_[static_cast<size_t>(state)].escapes; }

  size_t bytes() const { return bytes_; }  // of what is kept, about

  // Where there is much to be kept, forgets all states: numbers from before mean nothing then.
  // True if it did.
  bool trim();

 private:
  static constexpr size_t kMaxStates = 40'000, kMaxBytes = size_t{128} << 20;  // trim() leaves
  // Of one closure: many calls and alternatives may lead to few stacks, or to none.
  static constexpr size_t kMaxSteps = 16 * kMaxStacks;
  // Of the upper parts of a state's stacks, where they are taken apart.
  static constexpr size_t kMaxUpper = 16 * kMaxStacks;

  static constexpr int32_t kEscape = 1;

  struct StackNode {
    int32_t node, below;  // below: another one; 0: none
  };
  struct StateData {
    std::vector<int32_t> stacks;  // ascending; their nodes take bytes
    bool accepts = false, escapes = false, control = false, free = false;
    std::unique_ptr<Row> row;
  };
  void clear();
  int32_t push(int32_t node, int32_t below);
  int32_t common_below(const std::vector<int32_t>& stacks) const;
  void begin_closure();
  // Once a closure has too many stacks it goes no further.
  void close(int32_t node, int32_t below);
  State intern();
  State intern_moved(const StateData& from, int byte, bool literal);

  const Automaton& automaton_;
  // [stack]; 0: nothing follows, kEscape: what is below an inner state
  std::vector<StackNode> nodes_;
  std::unordered_map<uint64_t, int32_t> stack_of_;  // of node and below
  std::vector<StateData> states_;
  std::unordered_multimap<uint64_t, State> state_of_;  // of a hash of its stacks
  size_t bytes_ = 0;                                   // of states and stacks, about

  // Of the closure under way.
  std::vector<int32_t> found_, open_;
  size_t steps_ = 0;
  bool ended_ = false, escaped_ = false, too_many_ = false;
  std::vector<uint32_t> seen_;  // [stack] the closure that has seen it
  uint32_t closure_ = 0;
};

}  // namespace specbound
