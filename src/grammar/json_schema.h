// A JSON schema (drafts 7 to 2020-12) as rules: all that they write, the schema allows. Not all
// that it allows is written: properties come in the order of the schema, those it does not name
// only where it says so, numbers have 16 digits at most, white space is short. A keyword that is
// not followed is an error that names it and its place.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "grammar/rules.h"

namespace specbound {

class JsonRules {
 public:
  static constexpr int kMaxDepth = 64;                   // of a schema's JSON
  static constexpr size_t kMaxValues = size_t{1} << 14;  // values and keys in it

  // `rules` must outlive it. `in_tags`: `<` stands nowhere in values, texts have it as \u003c.
  explicit JsonRules(GrammarRules& rules, bool in_tags = false);
  ~JsonRules();

  // A value that the schema, given as JSON, allows.
  GrammarRules::Id schema(std::string_view json);
  // Values of the properties of the object that it describes, each by its name, which it must list.
  // What they refer to is in the whole schema.
  using Properties = std::function<GrammarRules::Id(const std::string& name)>;
  Properties properties(std::string_view json);

 private:
  class Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace specbound
