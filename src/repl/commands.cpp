#include "repl/commands.h"

#include <algorithm>
#include <array>

#include "error.h"

namespace specbound {

namespace {

using enum ChatCommand::Argument;

constexpr auto kCommands = std::to_array<ChatCommand>({
    {"/clear", kNone, "", "forget the conversation"},
    {"/regen", kNone, "", "another reply to the last message"},
    {"/edit", kOptional, "[TEXT]", "change the last message and have it answered again"},
    {"/save", kNeeded, "FILE", "write the conversation, as JSON that the window reads too"},
    {"/load", kNeeded, "FILE", "go on with a saved conversation"},
    {"/sys",
     kOptional,
     "[TEXT]",
     "another system prompt, - for none; alone: what it is",
     {"/system"}},
    {"/show", kNone, "", "the model, where it runs, and every setting"},
    {"/set", kOptional, "[NAME [VALUE]]",
     "settings of replies, sampling and speculation: all, one, or a new value"},
    {"/spec", kOptional, "on|off",
     "draft tokens, or decode plainly: the same text; alone: which of the two"},
    {"/show-exits", kNone, "", "colour tokens by the layer their drafts left at, or stop it"},
    {"/stats", kNone, "", "figures of this session, and where drafts left"},
    {"/lens", kOptional, "[N]", "what each layer would say for the last N tokens (default 8)"},
    {"/learn", kOptional, "on|off",
     "learn faster drafts while nobody works with it, or stop that; alone: how far it is"},
    {"/help", kNone, "", "this list", {"/?"}},
    {"/exit", kNone, "", "leave (so do Ctrl-D, and Ctrl-C twice at the prompt)", {"/quit", "/bye"}},
});

}  // namespace

bool ChatCommand::is_called(std::string_view typed) const {
  return !typed.empty() && (typed == name || std::ranges::count(also, typed) > 0);
}

std::vector<std::string> ChatCommand::names() const {
  std::vector<std::string> names = {std::string(name)};
  for (const std::string_view other : also) {
    if (!other.empty()) names.emplace_back(other);
  }
  return names;
}

std::span<const ChatCommand> chat_commands() {
  return kCommands;
}

const ChatCommand* find_chat_command(std::string_view typed) {
  const auto found = std::ranges::find_if(
      kCommands, [typed](const ChatCommand& command) { return command.is_called(typed); });
  return found != kCommands.end() ? &*found : nullptr;
}

std::string chat_help() {
  const auto entry = [](std::string_view what, std::string_view help) {
    return format("%-20s  %s\n", std::string(what).c_str(), std::string(help).c_str());
  };
  std::string out;
  for (const ChatCommand& command : kCommands) {
    std::string what = joined(command.names());
    if (!command.argument.empty()) what += ' ' + std::string(command.argument);
    out += entry(what, command.help);
  }
  return out + entry("//text", "send a message that begins with a slash") +
         entry("\"\"\"", "begins and ends a message of many lines") +
         entry("Ctrl-C", "stops a reply; at the prompt it clears the line");
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

ChatLine split_line(std::string_view line) {
  const std::string_view text = trimmed(line);
  if (text.empty()) return {};
  if (!text.starts_with("/") || line.find('\n') != std::string_view::npos) return {"", line};
  if (text.starts_with("//")) return {"", text.substr(1)};
  const size_t end = std::min(text.find_first_of(" \t"), text.size());
  return {text.substr(0, end), trimmed(text.substr(end))};
}

std::string message_line(std::string_view text) {
  const bool slash = trimmed(text).starts_with("/") && text.find('\n') == std::string_view::npos;
  return slash ? "/" + std::string(trimmed(text)) : std::string(text);
}

}  // namespace specbound
