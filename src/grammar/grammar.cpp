#include "grammar/grammar.h"

#include <utility>

#include "error.h"
#include "grammar/json_schema.h"
#include "grammar/rules.h"

namespace specbound {
namespace {

void check_size(std::string_view source, const char* what) {
  if (source.size() <= Grammar::kMaxSource) return;
  throw Error(ErrorCode::kLimit, format("%s: expected at most %zu bytes, found %zu", what,
                                        Grammar::kMaxSource, source.size()));
}

// Errors of the whole grammar say what it was made of.
Grammar::Shared compiled(const GrammarRules& rules, int root, const char* what,
                         std::string source) {
  try {
    return std::make_shared<const Grammar>(std::move(source), Automaton::compile(rules, root));
  } catch (const Error& e) {
    throw Error(e.code(), std::string(what) + ": " + e.what());
  }
}

}  // namespace

Grammar::Shared Grammar::from_gbnf(std::string_view text) {
  check_size(text, "grammar");
  GrammarRules rules;
  const int root = read_gbnf(text, rules);
  return compiled(rules, root, "grammar", "GBNF" + std::string(text));
}

Grammar::Shared Grammar::from_json_schema(std::string_view json) {
  return choice_of({{{GrammarPart::Kind::kSchema, std::string(json)}}});
}

Grammar::Shared Grammar::any_json_object() {
  return from_json_schema(R"({"type": "object"})");
}

Grammar::Shared Grammar::choice_of(const std::vector<std::vector<GrammarPart>>& alternatives) {
  SB_CHECK(!alternatives.empty());
  GrammarRules rules;
  JsonRules json(rules);
  const int root = rules.declare("root");
  std::string source;
  std::vector<GrammarRules::Id> all;
  for (const std::vector<GrammarPart>& alternative : alternatives) {
    source += '|';
    std::vector<GrammarRules::Id> parts;
    for (const GrammarPart& part : alternative) {
      const bool literal = part.kind == GrammarPart::Kind::kLiteral;
      check_size(part.text, literal ? "literal" : "json_schema");
      parts.push_back(literal ? rules.literal(part.text, true) : json.schema(part.text));
      source += format("%c%zu ", literal ? 'L' : 'S', part.text.size()) + part.text;
    }
    all.push_back(parts.empty() ? rules.empty() : rules.sequence(std::move(parts)));
  }
  rules.define(root, rules.choice(std::move(all)));
  return compiled(rules, root, "json_schema", std::move(source));
}

}  // namespace specbound
