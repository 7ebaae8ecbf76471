// Replies that must call a tool, whatever the model would rather say: tool_choice required, or one
// that names a function.
#pragma once

#include <vector>

#include "grammar/grammar.h"
#include "server/completion_request.h"
#include "text/reply_format.h"

namespace specbound::server {

// A call of each tool that may be called, its arguments held to the tool's schema. None where
// models write arguments that are no JSON.
std::vector<std::vector<GrammarPart>> call_alternatives(const ReplyFormat& format,
                                                        const ToolRequest& request);

// Holds the reply to one of those where the request asks for that. `thinks`: the prompt has begun
// thoughts, which are ended first. Throws ApiError(400) naming the field.
void hold_to_a_call(const ReplyFormat& format, bool thinks, CompletionRequest& request);

}  // namespace specbound::server
