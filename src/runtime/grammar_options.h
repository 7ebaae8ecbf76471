// What replies are held to, by the file that says it.
#pragma once

#include <string>

#include "grammar/grammar.h"

namespace specbound {

struct GrammarOptions {
  std::string grammar;      // a file in GBNF; empty: none
  std::string json_schema;  // a JSON schema, likewise; one of them at most

  bool given() const { return !grammar.empty() || !json_schema.empty(); }
  // Throws Error(kUsage) for two of them, or one with `ignore_eos`: a grammar ends replies.
  void check(bool ignore_eos) const;
  // Reads the file; nullptr: there is none. Throws what reading and Grammar throw.
  Grammar::Shared read() const;
};

}  // namespace specbound
