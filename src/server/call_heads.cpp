#include "server/call_heads.h"

#include <algorithm>

namespace specbound::server {

namespace {

constexpr std::string_view kRecipient = "to=", kAssistant = "assistant";

bool take_prefix(std::string_view& text, std::string_view prefix) {
  const bool there = text.starts_with(prefix);
  if (there) text.remove_prefix(prefix.size());
  return there;
}

// [CALL_ID]id and [ARGS] may stand behind a name.
CallHead mistral_head(std::string_view head) {
  head = trimmed(head);
  if (head.empty()) return {};
  take_prefix(head, kMistralArguments);  // without a name it is none
  const size_t end = std::min(head.find('['), head.size());
  const std::string_view name = trimmed(head.substr(0, end)), rest = head.substr(end);
  const bool known = rest.empty() || rest == kMistralArguments ||
                     (rest.starts_with(kMistralId) && rest.ends_with(kMistralArguments));
  return {known && is_one_word(name), {.name = std::string(name)}};
}

// Either name and separator, or "function", separator, name and the fence of a block of code.
CallHead deepseek_head(const ReplyFormat& format, std::string_view head) {
  head = trimmed(head);
  const bool marked = take_prefix(head, format.each_open);
  const size_t at = head.find(format.separator);
  if (!marked || at == head.npos) return {false};
  std::string_view name = trimmed(head.substr(0, at));
  std::string_view rest = trimmed(head.substr(at + format.separator.size()));
  const bool fenced = !rest.empty();
  if (fenced) {
    const size_t fence = rest.find(kFence);
    if (fence == rest.npos) return {false};
    name = trimmed(rest.substr(0, fence));
    rest = rest.substr(fence + kFence.size());
    if (!rest.empty() && rest != "json") return {false};
  }
  return {is_one_word(name), {.name = std::string(name)}, fenced};
}

// functions.name:0, which is the call's id too.
CallHead kimi_head(const ReplyFormat& format, std::string_view head) {
  head = trimmed(head);
  const bool marked = take_prefix(head, format.each_open);
  const size_t at = head.find(format.separator);
  if (!marked || at == head.npos || !trimmed(head.substr(at + format.separator.size())).empty()) {
    return {false};
  }
  const std::string_view id = trimmed(head.substr(0, at));
  std::string_view name = id;
  take_prefix(name, kFunctions);
  const size_t colon = name.rfind(':');
  const std::string_view number = colon == name.npos ? "" : name.substr(colon + 1);
  const bool numbered =
      !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (numbered) name = name.substr(0, colon);
  return {is_one_word(name), {.name = std::string(name), .id = std::string(numbered ? id : "")}};
}

// The word behind `sign` where that stands in `head`.
std::string_view word_behind(std::string_view head, std::string_view sign) {
  const size_t at = head.find(sign);
  if (at == head.npos) return {};
  head.remove_prefix(at + sign.size());
  return head.substr(0, head.find_first_of(" \t\r\n<"));
}

}  // namespace

bool is_one_word(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), is_blank);
}

CallHead call_head(const ReplyFormat& format, std::string_view head) {
  if (is_mistral(format.syntax)) return mistral_head(head);
  if (format.syntax == CallSyntax::kKimi) return kimi_head(format, head);
  if (!format.each_open.empty()) return deepseek_head(format, head);
  return {.fits = trimmed(head).empty(), .fenced = format.syntax == CallSyntax::kAction};
}

MessageHead message_head(std::string_view head) {
  using Kind = MessageHead::Kind;
  head = trimmed(head);
  if (head.starts_with(harmony::kStart) && word_behind(head, harmony::kStart) != kAssistant) {
    return {};
  }
  std::string_view recipient = word_behind(head, kRecipient);
  if (take_prefix(recipient, kFunctions)) {
    return {recipient.empty() ? Kind::kOther : Kind::kCall, std::string(recipient)};
  }
  if (word_behind(head, harmony::kChannel) == "analysis") return {Kind::kThoughts};
  return {calls_somebody(head) ? Kind::kOther : Kind::kText};
}

bool calls_somebody(std::string_view head) {
  return head.find(kRecipient) != head.npos;
}

bool may_be_message_head(std::string_view head) {
  head = trimmed(head);
  constexpr std::string_view kBegins[] = {harmony::kStart, harmony::kChannel, harmony::kConstrain,
                                          harmony::kMessage, kRecipient};
  return std::ranges::any_of(kBegins, [&](std::string_view begin) {
    return head.starts_with(begin) || begin.starts_with(head);
  });
}

bool begins_message_head(std::string_view head) {
  head = trimmed(head);
  if (!head.starts_with(harmony::kStart) && !head.starts_with(harmony::kChannel)) return false;
  // Each takes what is there off, all of it where it is cut off there.
  const auto take = [&](std::string_view word) {
    head = trimmed(head);
    const bool there = head.starts_with(word) || word.starts_with(head);
    if (there) head.remove_prefix(std::min(word.size(), head.size()));
    return there;
  };
  const auto take_word_behind = [&](std::string_view sign) {
    if (take(sign)) head.remove_prefix(std::min(head.find_first_of(" \t\r\n<"), head.size()));
  };
  if (take(harmony::kStart) && !take(kAssistant)) return false;
  take_word_behind(kRecipient);
  if (take(harmony::kChannel)) {
    if (!take("analysis") && !take("commentary") && !take("final")) return false;
    take_word_behind(kRecipient);
  }
  if (!take("json")) take_word_behind(harmony::kConstrain);
  take(harmony::kMessage);
  return trimmed(head).empty();
}

}  // namespace specbound::server
