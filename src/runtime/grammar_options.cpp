#include "runtime/grammar_options.h"

#include "error.h"
#include "system/text_input.h"

namespace specbound {

void GrammarOptions::check(bool ignore_eos) const {
  if (!grammar.empty() && !json_schema.empty()) {
    throw Error(ErrorCode::kUsage,
                "grammar=FILE and json_schema=FILE both say what replies are: give one of them");
  }
  if (given() && ignore_eos) {
    throw Error(ErrorCode::kUsage,
                "ignore_eos=on: expected it off beside grammar=FILE and json_schema=FILE, which "
                "say where replies end");
  }
}

Grammar::Shared GrammarOptions::read() const {
  if (!given()) return nullptr;
  const std::string& file = grammar.empty() ? json_schema : grammar;
  const std::string text = read_bytes(file);
  try {
    return grammar.empty() ? Grammar::from_json_schema(text) : Grammar::from_gbnf(text);
  } catch (const Error& e) {
    throw Error(e.code(), file + ": " + e.what());
  }
}

}  // namespace specbound
