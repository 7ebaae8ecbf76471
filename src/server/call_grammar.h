// Replies whose calls of tools are held to what they may be. tool_choice required, or one that
// names a function: the reply is a call, whatever the model would rather say. Strict tools: a reply
// is text as the model likes, until a call begins.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "server/completion_request.h"
#include "templates/reply_format.h"

namespace specbound::server {

using Parts = std::vector<GrammarPart>;

// A call of each tool that may be called, its arguments held to the tool's schema. Throws
// Error(kUnsupported) for a schema that values in tags cannot be held to.
std::vector<Parts> call_alternatives(const ReplyFormat& format, const ToolRequest& request);

// Text, or text and calls behind it, those of strict tools with arguments by their schema. JSON
// without a mark is a call where a reply begins with it: one that begins with `{` is held to be
// one. `splits_thoughts`, `thinks`, `goes_on`: as ReplyParser has them. Throws as the other does.
std::vector<Parts> text_or_calls(const ReplyFormat& format, const ToolRequest& request,
                                 bool splits_thoughts, bool thinks, bool goes_on = false);

// What the reply's calls and thoughts are written with: control tokens that spell one of these are
// text of it, others are none.
std::vector<std::string_view> shown_marks(const ReplyFormat& format,
                                          const CompletionRequest& request);

// What the calls of a reply are held to: one of these, the marks that it shows being text.
struct HeldCalls {
  std::vector<Parts> alternatives;
  std::vector<std::string> shown;
  bool operator==(const HeldCalls&) const = default;
};
// nullopt: the request does not ask for that. `thinks`: the prompt has begun thoughts; a reply that
// must be a call ends them first. Both throw ApiError(400) naming the field.
std::optional<HeldCalls> held_calls(const ReplyFormat& format, bool thinks,
                                    const CompletionRequest& request);
Grammar::Shared compiled(const HeldCalls& calls);

}  // namespace specbound::server
