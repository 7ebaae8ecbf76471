#include "gui/model/conversation.h"

#include <algorithm>
#include <atomic>

namespace specbound::gui {

namespace {

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

uint64_t fresh_key() {
  static std::atomic<uint64_t> newest = 0;
  return ++newest;
}

int Message::token_at(size_t at) const {
  const auto token = std::upper_bound(token_ends.begin(), token_ends.end(), at);
  return token == token_ends.end() ? -1 : static_cast<int>(token - token_ends.begin());
}

Message::Bytes Message::token_bytes(int i) const {
  if (i < 0 || static_cast<size_t>(i) >= token_ends.size()) return {};
  return {i == 0 ? 0 : token_ends[i - 1], token_ends[i]};
}

bool Conversation::mentions(std::string_view needle) const {
  const auto in = [&](const std::string& text) {
    const auto same = [](char a, char b) { return small(a) == small(b); };
    return std::search(text.begin(), text.end(), needle.begin(), needle.end(), same) != text.end();
  };
  return needle.empty() || in(title) ||
         std::any_of(messages.begin(), messages.end(),
                     [&](const Message& m) { return in(m.text); });
}

std::vector<ChatMessage> Conversation::prompt(size_t n) const {
  std::vector<ChatMessage> prompt;
  if (!system.empty()) prompt.push_back({ChatMessage::Role::kSystem, system});
  for (size_t i = 0; i < std::min(n, messages.size()); ++i) {
    prompt.push_back({messages[i].role, messages[i].text});
  }
  return prompt;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace specbound::gui
