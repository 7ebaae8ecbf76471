#include "runtime/conversation.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace specbound {

Conversation::Conversation(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                           std::string system)
    : tokenizer_(tokenizer), template_(chat_template), system_(std::move(system)) {}

void Conversation::add(ChatMessage::Role role, std::string content) {
  messages_.push_back({role, std::move(content)});
}

ChatMessage Conversation::remove_last() {
  SB_CHECK(!messages_.empty());
  ChatMessage last = std::move(messages_.back());
  messages_.pop_back();
  n_dropped_ = std::min(n_dropped_, messages_.size());
  return last;
}

void Conversation::clear() {
  messages_.clear();
  n_dropped_ = 0;
}

bool Conversation::ends_with_reply() const {
  return !messages_.empty() && messages_.back().role == ChatMessage::Role::kAssistant;
}

std::vector<int32_t> Conversation::encode(size_t first_turn) const {
  std::vector<ChatMessage> kept;
  if (!system_.empty()) kept.push_back({ChatMessage::Role::kSystem, system_});
  kept.insert(kept.end(), messages_.begin() + first_turn, messages_.end());
  return template_.encode(tokenizer_, kept);
}

Conversation::Prompt Conversation::prompt(int n_ctx, int reserve) {
  SB_CHECK(!messages_.empty() && !ends_with_reply());
  const size_t limit = n_ctx;
  const size_t newest = messages_.size() - 1;
  Prompt prompt;
  prompt.ids = encode(newest);
  if (prompt.ids.size() > limit) {
    throw Error(
        ErrorCode::kLimit,
        format("this message needs %zu tokens%s, the context holds %d: shorten it or raise n_ctx",
               prompt.ids.size(), !system_.empty() ? " with the system prompt" : "", n_ctx));
  }
  // All that there is, or else by halving: a file may hold thousands of turns that do not fit.
  size_t first = n_dropped_, end = newest;  // the first one that is kept lies in [first, end]
  for (size_t probe = first; first < end; probe = first + (end - first) / 4 * 2) {
    std::vector<int32_t> ids = encode(probe);
    if (ids.size() + reserve <= limit) {
      prompt.ids = std::move(ids);
      end = probe;
    } else {
      first = probe + 2;
    }
  }
  prompt.dropped_turns = static_cast<int>(first - n_dropped_) / 2;
  n_dropped_ = first;
  return prompt;
}

void Conversation::bring_back(int dropped_turns) {
  const auto messages = 2 * static_cast<size_t>(dropped_turns);
  SB_CHECK(messages <= n_dropped_);
  n_dropped_ -= messages;
}

int reply_reserve(int n_ctx, int max_tokens) {
  const int quarter = n_ctx / 4;
  return max_tokens >= 0 ? std::min(max_tokens, quarter) : quarter;
}

}  // namespace specbound
