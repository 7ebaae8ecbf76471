// What a reply must be: a grammar in GBNF, as llama.cpp writes it, or what a JSON schema says. One
// is made once, checked as a whole, and then only read: replies and threads share it. What is
// understood is in docs/grammar.md; what is not is refused by name, never passed over.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/rules.h"

namespace specbound {

// A stretch of a text that is known but for its values.
struct GrammarPart {
  enum class Kind {
    kLiteral,    // this text; where it spells a control token of the vocabulary, that token too
    kPlain,      // this text, for which no control token stands
    kSchema,     // JSON that this schema allows
    kArguments,  // its one choice, part by part, whose values follow this schema of an object
    kValue,      // JSON that it allows for this property; `<`, which may end it, as \u003c
    kUntil,      // whatever comes before the first place where one of these texts stands, and it
    kWithout,    // whatever none of these texts stands in; without any: anything
    kNoneOf,     // one character that is none of these, which are ASCII
    kOneOf,      // one of `choices`, each part by part
    kSeveral,    // none or more of them, at most `most`
  };
  Kind kind = Kind::kLiteral;
  std::string text;  // of a schema: its JSON
  std::vector<std::vector<GrammarPart>> choices = {};
  int most = GrammarRules::kUnbounded;
  std::vector<std::string> texts = {};
  bool operator==(const GrammarPart&) const = default;

  static GrammarPart literal(std::string text) { return {Kind::kLiteral, std::move(text)}; }
  static GrammarPart plain(std::string text) { return {Kind::kPlain, std::move(text)}; }
  static GrammarPart schema(std::string json) { return {Kind::kSchema, std::move(json)}; }
  static GrammarPart arguments(std::string json, std::vector<GrammarPart> parts) {
    return {Kind::kArguments, std::move(json), {std::move(parts)}};
  }
  static GrammarPart value(std::string property) { return {Kind::kValue, std::move(property)}; }
  static GrammarPart until(std::string text) { return until_any({std::move(text)}); }
  static GrammarPart without(std::string text) { return without_any({std::move(text)}); }
  static GrammarPart until_any(std::vector<std::string> texts) {
    return {.kind = Kind::kUntil, .text = "", .texts = std::move(texts)};
  }
  static GrammarPart without_any(std::vector<std::string> texts) {
    return {.kind = Kind::kWithout, .text = "", .texts = std::move(texts)};
  }
  static GrammarPart anything() { return without_any({}); }
  static GrammarPart none_of(std::string ascii) { return {Kind::kNoneOf, std::move(ascii)}; }
  static GrammarPart one_of(std::vector<std::vector<GrammarPart>> choices) {
    return {Kind::kOneOf, "", std::move(choices)};
  }
  static GrammarPart several(std::vector<std::vector<GrammarPart>> choices,
                             int most = GrammarRules::kUnbounded) {
    return {Kind::kSeveral, "", std::move(choices), most};
  }
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
  // One of these, each part by part: at least one alternative. `shown`: the texts of the control
  // tokens that a reply shows. Any other may come where text is as it likes (kUntil, kWithout,
  // kNoneOf), and is no text: it splits no mark that those who read the reply would see whole.
  static Shared choice_of(const std::vector<std::vector<GrammarPart>>& alternatives,
                          std::vector<std::string> shown = {});

  // `source`: what it was made of, the same text for the same grammar.
  Grammar(std::string source, Automaton automaton, std::vector<std::string> shown = {})
      : source_(std::move(source)), automaton_(std::move(automaton)), shown_(std::move(shown)) {}
  const std::string& source() const { return source_; }
  const Automaton& automaton() const { return automaton_; }
  const std::vector<std::string>& shown() const { return shown_; }

 private:
  std::string source_;
  Automaton automaton_;
  std::vector<std::string> shown_;
};

// The rule "root" of a text in GBNF, whose rules are added to `rules`.
int read_gbnf(std::string_view text, GrammarRules& rules);

}  // namespace specbound
