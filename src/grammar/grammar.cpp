#include "grammar/grammar.h"

#include <map>
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
Grammar::Shared compiled(const GrammarRules& rules, int root, const char* what, std::string source,
                         std::vector<std::string> shown = {}) {
  try {
    return std::make_shared<const Grammar>(std::move(source), Automaton::compile(rules, root),
                                           std::move(shown));
  } catch (const Error& e) {
    throw Error(e.code(), std::string(what) + ": " + e.what());
  }
}

// Parts as rules, and as a text that is the same for the same ones.
class PartRules {
 public:
  using Id = GrammarRules::Id;

  explicit PartRules(GrammarRules& rules)
      : rules_(rules), json_(rules), tagged_json_(rules, true) {}
  const std::string& source() const { return source_; }

  Id choice(const std::vector<std::vector<GrammarPart>>& alternatives) {
    std::vector<Id> all;
    for (const std::vector<GrammarPart>& alternative : alternatives) {
      source_ += '|';
      std::vector<Id> parts;
      for (const GrammarPart& each : alternative) parts.push_back(part(each));
      all.push_back(parts.empty() ? rules_.empty() : rules_.sequence(std::move(parts)));
    }
    return rules_.choice(std::move(all));
  }

 private:
  using Kind = GrammarPart::Kind;

  Id part(const GrammarPart& part) {
    const bool is_schema = part.kind == Kind::kSchema || part.kind == Kind::kArguments;
    check_size(part.text, is_schema ? "json_schema" : "literal");
    source_ += format("%d:%zu ", static_cast<int>(part.kind), part.text.size()) + part.text;
    for (const std::string& text : part.texts) {
      check_size(text, "literal");
      source_ += format("~%zu ", text.size()) + text;
    }
    switch (part.kind) {
      case Kind::kLiteral:
        return rules_.literal(part.text, true);
      case Kind::kPlain:
        return rules_.literal(part.text);
      case Kind::kSchema:
        return schema(part.text);
      case Kind::kValue:
        SB_CHECK(properties_ != nullptr);
        return (*properties_)(part.text);
      case Kind::kUntil:
        return rules_.until(part.texts);
      case Kind::kWithout:
        return rules_.without(part.texts);
      case Kind::kNoneOf: {
        std::vector<CodeRange> these;
        for (const char c : part.text)
          these.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c)});
        return rules_.characters(all_but(std::move(these)), true);
      }
      case Kind::kArguments:
        properties_ = properties_of(part.text);
        break;
      case Kind::kOneOf:
      case Kind::kSeveral:
        break;
    }
    source_ += format("%d(", part.most);
    ++depth_;
    const Id one = choice(part.choices);
    --depth_;
    if (part.kind == Kind::kArguments) properties_ = nullptr;
    source_ += ')';
    return part.kind == Kind::kSeveral ? rules_.repeat(one, 0, part.most) : one;
  }

  // Within choices the same schema may stand in several places: it is one rule.
  Id schema(const std::string& text) {
    if (depth_ == 0) return json_.schema(text);
    const auto [at, fresh] = shared_.try_emplace(text, 0);
    if (fresh) {
      at->second = rules_.declare("schema");
      rules_.define(at->second, json_.schema(text));
    }
    return rules_.rule(at->second);
  }

  const JsonRules::Properties* properties_of(const std::string& text) {
    const auto [at, fresh] = arguments_.try_emplace(text);
    if (fresh) at->second = tagged_json_.properties(text);
    return &at->second;
  }

  GrammarRules& rules_;
  JsonRules json_, tagged_json_;
  std::string source_;
  int depth_ = 0;
  std::map<std::string, int> shared_;                       // rules by their schema
  std::map<std::string, JsonRules::Properties> arguments_;  // likewise
  const JsonRules::Properties* properties_ = nullptr;       // of the schema that values follow
};

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

Grammar::Shared Grammar::choice_of(const std::vector<std::vector<GrammarPart>>& alternatives,
                                   std::vector<std::string> shown) {
  SB_CHECK(!alternatives.empty());
  GrammarRules rules;
  PartRules parts(rules);
  const int root = rules.declare("root");
  rules.define(root, parts.choice(alternatives));
  std::string source = parts.source();
  for (const std::string& text : shown) source += format("#%zu ", text.size()) + text;
  return compiled(rules, root, "json_schema", std::move(source), std::move(shown));
}

}  // namespace specbound
