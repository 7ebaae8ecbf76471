// How the models that a chat template is made for write what is more than text: calls of tools and
// thoughts. Decided from the template's text alone, never from a model's name.
#pragma once

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
};

struct ReplyFormat {
  CallSyntax syntax = CallSyntax::kJson;
  std::string_view call_open = {}, call_close = {};    // empty: none
  std::string_view think_open = {}, think_close = {};  // empty: the template knows no thoughts

  // All texts that may be control tokens, which are shown nowhere else.
  std::vector<std::string_view> call_marks() const;
  std::vector<std::string_view> think_marks() const;
};

inline bool is_mistral(CallSyntax syntax) {
  return syntax == CallSyntax::kMistral || syntax == CallSyntax::kMistralNamed;
}
inline bool is_deepseek(CallSyntax syntax) {
  return syntax == CallSyntax::kDeepSeek || syntax == CallSyntax::kDeepSeekFenced;
}

// The marks of DeepSeek's syntax between `call_open` and `call_close`.
inline constexpr std::string_view kDeepSeekCall = "<｜tool▁call▁begin｜>";
inline constexpr std::string_view kDeepSeekCallEnd = "<｜tool▁call▁end｜>";
inline constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";
// Of Mistral's, behind a name.
inline constexpr std::string_view kMistralArguments = "[ARGS]";
inline constexpr std::string_view kMistralId = "[CALL_ID]";

// `jinja`: the template's text.
ReplyFormat find_reply_format(std::string_view jinja);

}  // namespace specbound
