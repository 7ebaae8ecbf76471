// What a reply must be: a grammar in GBNF, as llama.cpp writes it, or what a JSON schema says. One
// is made once, checked as a whole, and then only read: replies and threads share it. What is
// understood is in docs/grammar.md; what is not is refused by name, never passed over.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automaton.h"

namespace specbound {

class GrammarRules;

// A stretch of a text that is known but for its values.
struct GrammarPart {
  enum class Kind {
    kLiteral,  // this text; where it spells a control token of the vocabulary, that token too
    kSchema,   // JSON that this schema allows
  };
  Kind kind = Kind::kLiteral;
  std::string text;  // of a schema: its JSON
};

class Grammar {
 public:
  static constexpr size_t kMaxSource = size_t{1} << 20;  // bytes
  using Shared = std::shared_ptr<const Grammar>;

  // All throw Error(kUsage | kFormat) for what is no grammar or schema, naming the line, or the
  // place in the schema; Error(kUnsupported) for what cannot be followed; Error(kLimit) for what is
  // too large.
  static Shared from_gbnf(std::string_view text);
  static Shared from_json_schema(std::string_view json);
  static Shared any_json_object();
  // One of these, each part by part: at least one alternative.
  static Shared choice_of(const std::vector<std::vector<GrammarPart>>& alternatives);

  // `source`: what it was made of, the same text for the same grammar.
  Grammar(std::string source, Automaton automaton)
      : source_(std::move(source)), automaton_(std::move(automaton)) {}
  const std::string& source() const { return source_; }
  const Automaton& automaton() const { return automaton_; }

 private:
  std::string source_;
  Automaton automaton_;
};

// The rule "root" of a text in GBNF, whose rules are added to `rules`.
int read_gbnf(std::string_view text, GrammarRules& rules);

}  // namespace specbound
