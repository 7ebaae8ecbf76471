#include "grammar/automaton.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "error.h"
#include "text/utf8.h"

namespace specbound {
namespace {

using Kind = Automaton::Kind;
using Node = Automaton::Node;
using Expression = GrammarRules::Expression;
using Ids = std::vector<int32_t>;

constexpr int kLongChain = 8;  // times that a rule of their own pays for

// The bytes of characters first..last as sequences of byte ranges (as Thompson's and RE2's).
struct ByteRange {
  int first, last;
};
void utf8_sequences(char32_t first, char32_t last, std::vector<std::vector<ByteRange>>& out) {
  for (const char32_t edge : {char32_t{0x7f}, char32_t{0x7ff}, char32_t{0xffff}}) {
    if (first <= edge && edge < last) {
      utf8_sequences(first, edge, out);
      utf8_sequences(edge + 1, last, out);
      return;
    }
  }
  const std::string low = to_utf8(first), high = to_utf8(last);
  for (size_t i = 1; i < low.size(); ++i) {
    const char32_t tail = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~tail) == (last & ~tail)) continue;
    if ((first & tail) != 0) {
      utf8_sequences(first, first | tail, out);
      utf8_sequences((first | tail) + 1, last, out);
      return;
    }
    if ((last & tail) != tail) {
      utf8_sequences(first, (last & ~tail) - 1, out);
      utf8_sequences(last & ~tail, last, out);
      return;
    }
  }
  std::vector<ByteRange>& sequence = out.emplace_back();
  for (size_t i = 0; i < low.size(); ++i) {
    sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  }
}

class Compiler {
 public:
  explicit Compiler(const GrammarRules& rules) : rules_(rules) {}

  Automaton compile(int root) {
    out_.root = root;
    out_.starts.assign(static_cast<size_t>(rules_.n_rules()), -1);
    for (int rule = 0; rule < rules_.n_rules(); ++rule) names_.push_back(rule);
    const size_t own = out_.starts.size();
    for (size_t rule = 0; rule < out_.starts.size(); ++rule) {  // hoisted ones come behind
      current_ = names_[rule];
      const int end = rule < own || out_.starts[rule] < 0 ? add({Kind::kEnd}) : -1;
      int begin = -1;
      if (rule < own) {
        begin = build(rules_.body_id(current_), end);
      } else if (out_.starts[rule] >= 0) {  // of a chain
        continue;
      } else {
        const Hoisted hoisted = std::move(hoisted_[rule - own]);
        begin = hoisted.expression < 0 ? build_class(hoisted.ranges, hoisted.free, end)
                                       : build(hoisted.expression, end);
      }
      out_.starts[rule] = begin;
    }
    find_ends();
    refuse_left_recursion();
    if (!out_.nodes[start(root)].ends) {
      throw Error(ErrorCode::kUsage,
                  format("rule \"%s\": expected one that some text ends, found only endless ones",
                         printable(rules_.name(root)).c_str()));
    }
    return std::move(out_);
  }

 private:
  struct Hoisted {
    int expression;  // -1: the ranges
    std::vector<CodeRange> ranges;
    bool free = false;
  };

  size_t start(int rule) const { return static_cast<size_t>(out_.starts[rule]); }
  const std::string& name(size_t rule) const { return rules_.name(names_[rule]); }

  int add(Node node) {
    if (out_.nodes.size() >= Automaton::kMaxNodes) {
      throw Error(ErrorCode::kLimit,
                  format("rule \"%s\": expected a grammar of at most %zu steps, repetitions "
                         "counted, found more",
                         printable(rules_.name(current_)).c_str(), Automaton::kMaxNodes));
    }
    out_.nodes.push_back(node);
    return static_cast<int>(out_.nodes.size()) - 1;
  }
  int add_bytes(const ByteSet& set, int next, bool control = false, bool free = false) {
    const auto [at, fresh] = sets_.try_emplace(set, static_cast<int>(out_.sets.size()));
    if (fresh) out_.sets.push_back(set);
    return add({Kind::kBytes, control, false, next, at->second, -1, free});
  }

  int hoist(Hoisted hoisted) {
    names_.push_back(current_);
    hoisted_.push_back(std::move(hoisted));
    out_.starts.push_back(-1);
    return static_cast<int>(out_.starts.size()) - 1;
  }

  // Characters of one byte stand where they are, others in a rule of their own, once.
  int build_characters(const std::vector<CodeRange>& ranges, bool free, int next) {
    if (ranges.empty() || ranges.back().last < 0x80) {
      ByteSet set;
      for (const CodeRange& r : ranges)
        set.add(static_cast<int>(r.first), static_cast<int>(r.last));
      return add_bytes(set, next, false, free);
    }
    std::vector<std::pair<char32_t, char32_t>> key;
    for (const CodeRange& r : ranges) key.emplace_back(r.first, r.last);
    const auto [at, fresh] = classes_.try_emplace({free, std::move(key)}, 0);
    if (fresh) at->second = hoist({-1, ranges, free});
    return add({Kind::kCall, false, false, next, at->second});
  }

  int build_class(const std::vector<CodeRange>& ranges, bool free, int end) {
    std::vector<std::vector<ByteRange>> sequences;
    for (const CodeRange& r : ranges) utf8_sequences(r.first, r.last, sequences);
    int whole = -1;
    ByteSet single;
    const auto either = [&](int one) {
      whole = whole < 0 ? one : add({Kind::kSplit, false, false, one, whole});
    };
    for (const std::vector<ByteRange>& sequence : sequences) {
      if (sequence.size() == 1) {
        single.add(sequence[0].first, sequence[0].last);
        continue;
      }
      int node = end;
      for (size_t i = sequence.size(); i-- > 0;) {
        ByteSet set;
        set.add(sequence[i].first, sequence[i].last);
        node = add_bytes(set, node, false, free);
      }
      either(node);
    }
    if (!single.empty()) either(add_bytes(single, end, false, free));
    return whole;
  }

  // The node where `id` begins, behind which comes `next`.
  int build(int id, int next) {
    const Expression& e = rules_[id];
    switch (e.kind) {
      case GrammarRules::Kind::kEmpty:
        return next;
      case GrammarRules::Kind::kLiteral:
        for (size_t i = e.bytes.size(); i-- > 0;) {
          ByteSet set;
          set.add(static_cast<uint8_t>(e.bytes[i]));
          next = add_bytes(set, next, e.control);
        }
        return next;
      case GrammarRules::Kind::kCharacters:
        return build_characters(e.ranges, e.free, next);
      case GrammarRules::Kind::kUntil:
      case GrammarRules::Kind::kWithout:
        return build_unlike(e.marks, e.kind == GrammarRules::Kind::kUntil, next);
      case GrammarRules::Kind::kRule:
        return add({Kind::kCall, false, false, next, e.a});
      case GrammarRules::Kind::kSequence:
        for (size_t i = e.parts.size(); i-- > 0;) next = build(e.parts[i], next);
        return next;
      case GrammarRules::Kind::kChoice: {
        int whole = build(e.parts.back(), next);
        for (size_t i = e.parts.size() - 1; i-- > 0;) {
          const int one = build(e.parts[i], next);
          whole = add({Kind::kSplit, false, false, one, whole});
        }
        return whole;
      }
      case GrammarRules::Kind::kRepeat:
        return build_repeat(e, next);
    }
    SB_CHECK(!"a kind of expression that is not known");
    return next;
  }

  // Any bytes up to a mark: a node for each begin of one that they may end with, as Aho and
  // Corasick have it. Control tokens may stand for what they spell.
  int build_unlike(const std::vector<std::string>& marks, bool until, int next) {
    constexpr size_t kMark = std::numeric_limits<size_t>::max();  // one stands there
    std::vector<std::array<size_t, 256>> to(1);                   // [begin][byte] which one then
    to[0].fill(0);
    for (const std::string& mark : marks) {
      size_t at = 0;
      for (size_t i = 0; i < mark.size() && at != kMark; ++i) {
        const auto byte = static_cast<uint8_t>(mark[i]);
        if (i + 1 == mark.size()) {
          to[at][byte] = kMark;
        } else if (to[at][byte] == 0) {
          to[at][byte] = to.size();
          to.emplace_back().fill(0);
        }
        at = to[at][byte];
      }
    }
    // Where no begin goes on, the longest does that is the end of this one.
    const size_t n = to.size();
    std::vector<size_t> shorter(n, 0), open = {0};
    for (size_t done = 0; done < open.size(); ++done) {
      const size_t at = open[done];
      for (size_t byte = 0; byte < 256; ++byte) {
        const size_t on = at == 0 ? 0 : to[shorter[at]][byte];
        size_t& its = to[at][byte];
        if (its == 0 || on == kMark) {
          its = on;
        } else if (its != kMark) {
          shorter[its] = on;
          open.push_back(its);
        }
      }
    }
    std::vector<int> begins(n);
    for (int& node : begins) node = add({Kind::kSplit});
    for (size_t i = 0; i < n; ++i) {
      std::map<size_t, ByteSet> sets;
      for (int byte = 0; byte < 256; ++byte) sets[to[i][static_cast<size_t>(byte)]].add(byte);
      int whole = until ? -1 : next;
      for (const auto& [target, set] : sets) {
        if (target == kMark && !until) continue;
        const int one = add_bytes(set, target == kMark ? next : begins[target], true, true);
        whole = whole < 0 ? one : add({Kind::kSplit, false, false, one, whole});
      }
      // The node that was there before is none of a choice: both its ways are the same.
      Node& begin = out_.nodes[static_cast<size_t>(begins[i])];
      begin.next = begin.arg = whole;
    }
    return begins[0];
  }

  // What is repeated becomes a rule, so that each time costs a node or two whatever it is.
  int build_repeat(const Expression& e, int next) {
    const Expression& part = rules_[e.parts[0]];
    const bool small = part.kind == GrammarRules::Kind::kCharacters ||
                       part.kind == GrammarRules::Kind::kRule ||
                       (part.kind == GrammarRules::Kind::kLiteral && part.bytes.size() == 1);
    int rule = -1;
    const auto once = [&](int then) {
      if (!small && rule < 0) rule = hoist({e.parts[0], {}});
      return small ? build(e.parts[0], then) : add({Kind::kCall, false, false, then, rule});
    };
    int node = next;
    if (e.b == GrammarRules::kUnbounded) {
      node = add({Kind::kSplit, false, false, -1, next});
      const int inner = once(node);
      out_.nodes[static_cast<size_t>(node)].next = inner;
    } else {
      const int optional = e.b - e.a;
      if (optional >= kLongChain &&
          chained_ + static_cast<size_t>(optional) <= Automaton::kMaxNodes) {
        if (rule < 0)
          rule = part.kind == GrammarRules::Kind::kRule ? part.a : hoist({e.parts[0], {}});
        node = add({Kind::kCall, false, false, next, chain(rule, optional)});
      } else {
        for (int i = 0; i < optional; ++i) {
          node = add({Kind::kSplit, false, false, once(node), next});
        }
      }
    }
    for (int i = 0; i < e.a; ++i) node = once(node);
    return node;
  }

  // A rule of up to `most` times rule `of`. All of one rule share their nodes, from the end on, so
  // that texts of bounded lengths are in the same state where as much is left of them.
  int chain(int of, int most) {
    std::vector<int32_t>& nodes = chains_[of];  // [times left]
    chained_ += static_cast<size_t>(most);
    if (nodes.empty()) nodes.push_back(add({Kind::kEnd}));
    while (static_cast<int>(nodes.size()) <= most) {
      const int once = add({Kind::kCall, false, false, nodes.back(), of});
      const int node = add({Kind::kSplit, false, false, once, nodes[0]});
      if (nodes.size() > Automaton::kNear) {
        out_.nodes[static_cast<size_t>(node)].near = nodes[Automaton::kNear];
      }
      nodes.push_back(node);
    }
    const int rule = hoist({-1, {}});
    out_.starts[static_cast<size_t>(rule)] = nodes[static_cast<size_t>(most)];
    return rule;
  }

  // Which nodes a text leads from to the end of their rule; with `empty` the empty text. From the
  // ends backwards, each edge once.
  std::vector<bool> solve(bool empty) const {
    const size_t n = out_.nodes.size();
    std::vector<int32_t> first(n, -1), more, from;  // lists of those that lead to a node
    const auto link = [&](int32_t to, size_t node) {
      from.push_back(static_cast<int32_t>(node));
      more.push_back(
          std::exchange(first[static_cast<size_t>(to)], static_cast<int32_t>(from.size()) - 1));
    };
    for (size_t i = 0; i < n; ++i) {
      const Node& node = out_.nodes[i];
      if (node.kind == Kind::kEnd) continue;
      if (node.kind != Kind::kBytes || !empty) link(node.next, i);
      if (node.kind == Kind::kSplit) link(node.arg, i);
      if (node.kind == Kind::kCall) link(out_.starts[static_cast<size_t>(node.arg)], i);
    }
    std::vector<bool> holds(n);
    Ids open;
    const auto look = [&](size_t i) {
      if (holds[i]) return;
      const Node& node = out_.nodes[i];
      const auto of = [&](int32_t other) { return holds[static_cast<size_t>(other)]; };
      bool now = node.kind == Kind::kEnd;
      if (node.kind == Kind::kBytes) {
        now = !empty && of(node.next) && !out_.sets[static_cast<size_t>(node.arg)].empty();
      } else if (node.kind == Kind::kSplit) {
        now = of(node.next) || of(node.arg);
      } else if (node.kind == Kind::kCall) {
        now = of(node.next) && of(out_.starts[static_cast<size_t>(node.arg)]);
      }
      if (!now) return;
      holds[i] = true;
      open.push_back(static_cast<int32_t>(i));
    };
    for (size_t i = 0; i < n; ++i) {
      if (out_.nodes[i].kind == Kind::kEnd) look(i);
    }
    while (!open.empty()) {
      const size_t to = static_cast<size_t>(open.back());
      open.pop_back();
      for (int32_t at = first[to]; at >= 0; at = more[static_cast<size_t>(at)]) {
        look(static_cast<size_t>(from[static_cast<size_t>(at)]));
      }
    }
    return holds;
  }

  void find_ends() {
    const std::vector<bool> ends = solve(false);
    for (size_t i = 0; i < ends.size(); ++i) out_.nodes[i].ends = ends[i];
  }

  // The rules that rule `rule` calls before it has taken a byte.
  Ids called_first(size_t rule, const std::vector<bool>& empty) const {
    Ids called, open = {out_.starts[rule]};
    std::map<int32_t, bool> seen;
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      if (!std::exchange(seen[at], true)) {
        const Node& node = out_.nodes[static_cast<size_t>(at)];
        if (node.kind == Kind::kSplit) open.insert(open.end(), {node.next, node.arg});
        if (node.kind != Kind::kCall) continue;
        called.push_back(node.arg);
        if (empty[start(node.arg)]) open.push_back(node.next);
      }
    }
    return called;
  }

  void refuse_left_recursion() const {
    const std::vector<bool> empty = solve(true);
    const size_t n = out_.starts.size();
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> state(n, kNew);
    struct Visit {
      size_t rule;
      Ids called;
      size_t next = 0;
    };
    for (size_t from = 0; from < n; ++from) {
      if (state[from] != kNew) continue;
      std::vector<Visit> path = {{from, called_first(from, empty)}};
      state[from] = kOpen;
      while (!path.empty()) {
        Visit& top = path.back();
        if (top.next == top.called.size()) {
          state[top.rule] = kDone;
          path.pop_back();
          continue;
        }
        const size_t rule = static_cast<size_t>(top.called[top.next++]);
        if (state[rule] == kOpen) {
          throw Error(ErrorCode::kUsage,
                      format("rule \"%s\": expected one that begins with text, found that it "
                             "begins with itself (left recursion)",
                             printable(name(rule)).c_str()));
        }
        if (state[rule] == kDone) continue;
        state[rule] = kOpen;
        path.push_back({rule, called_first(rule, empty)});
      }
    }
  }

  const GrammarRules& rules_;
  Automaton out_;
  int current_ = 0;         // of `rules_`: what is built belongs to it
  std::vector<int> names_;  // [rule] the one of `rules_` that it belongs to
  std::vector<Hoisted> hoisted_;
  std::map<int, std::vector<int32_t>> chains_;  // by the rule that they repeat
  size_t chained_ = 0;                          // nodes of all, those shared counted each time
  std::map<ByteSet, int> sets_;
  std::map<std::pair<bool, std::vector<std::pair<char32_t, char32_t>>>, int> classes_;
};

}  // namespace

Automaton Automaton::compile(const GrammarRules& rules, int root) {
  return Compiler(rules).compile(root);
}

}  // namespace specbound
