// How the models that a chat template is made for write what is more than text: calls of tools and
// thoughts. Decided from the template's text alone, never from a model's name.
#pragma once

#include <array>
#include <string_view>
#include <vector>

namespace specbound {

enum class CallSyntax {
  kJson,     // {"name": .., "parameters": {..}}, or a list of such; alone, or behind `call_open`
  kHermes,   // <tool_call>{"name": .., "arguments": {..}}</tool_call>
  kXml,      // <function=name><parameter=key>value</parameter></function> between those
  kMistral,  // [TOOL_CALLS][{"name": .., "arguments": {..}}]
  kMistralNamed,    // [TOOL_CALLS]name[ARGS]{..}
  kDeepSeek,        // names and objects between marks of their own
  kDeepSeekFenced,  // the same with objects in a block of code
  kKimi,            // functions.name:0 and an object between marks of their own
  kCohere,          // <|START_ACTION|>[{"tool_name": .., "parameters": {..}}]<|END_ACTION|>
  kAction,          // Action: ```json [{"tool_name": .., "parameters": {..}}] ```
  kGlm,             // <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>
  kHarmony,         // <|channel|>commentary to=functions.name<|message|>{..}: all is such messages
};

struct ReplyFormat {
  CallSyntax syntax = CallSyntax::kJson;
  std::string_view call_open = {}, call_close = {};  // empty: none
  // Around each of several calls between those, and between a name and its object; empty: none.
  std::string_view each_open = {}, each_close = {}, separator = {};
  std::string_view think_open = {}, think_close = {};  // empty: the template knows no thoughts

  // What calls begin with, in other versions of the syntax too; none: calls have no mark.
  std::vector<std::string_view> call_opens() const;
  // All texts that may be control tokens, which are shown nowhere else.
  std::vector<std::string_view> call_marks() const;
  std::vector<std::string_view> think_marks() const;
};

inline bool is_mistral(CallSyntax syntax) {
  return syntax == CallSyntax::kMistral || syntax == CallSyntax::kMistralNamed;
}
// Values stand in tags, outside of JSON.
inline bool is_tagged(CallSyntax syntax) {
  return syntax == CallSyntax::kXml || syntax == CallSyntax::kGlm;
}

// Of Mistral's, behind a name.
inline constexpr std::string_view kMistralArguments = "[ARGS]";
inline constexpr std::string_view kMistralId = "[CALL_ID]";

// Of Kimi's and of channels, in front of a name.
inline constexpr std::string_view kFunctions = "functions.";
// Of GLM's: around keys, and around values.
inline constexpr std::array<std::string_view, 4> kGlmTags = {"<arg_key>", "</arg_key>",
                                                             "<arg_value>", "</arg_value>"};

// Of messages in channels: their heads, and what ends them.
namespace harmony {
inline constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>",
                                  kConstrain = "<|constrain|>", kMessage = "<|message|>",
                                  kEnd = "<|end|>", kCall = "<|call|>", kReturn = "<|return|>";
}  // namespace harmony

// `jinja`: the template's text.
ReplyFormat find_reply_format(std::string_view jinja);

}  // namespace specbound
