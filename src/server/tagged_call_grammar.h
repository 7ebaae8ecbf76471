// Calls whose arguments stand in tags, one a value, as a part of a grammar: texts as they are, all
// else as JSON.
#pragma once

#include <string>

#include "grammar/grammar.h"
#include "server/chat_tools.h"
#include "templates/reply_format.h"

namespace specbound::server {

// The schema of arguments that nothing is known of.
inline const std::string kAnyArguments = R"({"type":"object"})";

// `syntax`: one that is_tagged(). The properties of `schema` in its order. Throws
// Error(kUnsupported) naming the place of what values between tags cannot be held to.
GrammarPart tagged_call(CallSyntax syntax, const Tool& tool, const std::string& schema);

}  // namespace specbound::server
