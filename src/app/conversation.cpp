#include "app/conversation.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace specbound {

Conversation::Conversation(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                           std::string system)
    : tokenizer_(tokenizer), template_(chat_template) {
  if (!system.empty()) {
    add(ChatMessage::Role::kSystem, std::move(system));
    n_system_ = 1;
  }
}

void Conversation::add(ChatMessage::Role role, std::string content) {
  messages_.push_back({role, std::move(content)});
}

ChatMessage Conversation::remove_last() {
  SB_CHECK(messages_.size() > n_system_);
  ChatMessage last = std::move(messages_.back());
  messages_.pop_back();
  return last;
}

void Conversation::clear() {
  messages_.resize(n_system_);
}

bool Conversation::ends_with_reply() const {
  return messages_.size() > n_system_ && messages_.back().role == ChatMessage::Role::kAssistant;
}

std::vector<int32_t> Conversation::encode(size_t first_turn) const {
  std::vector<ChatMessage> kept(messages_.begin(), messages_.begin() + n_system_);
  kept.insert(kept.end(), messages_.begin() + first_turn, messages_.end());
  return template_.encode(tokenizer_, kept);
}

Conversation::Prompt Conversation::prompt(int n_ctx, int reserve) {
  SB_CHECK(messages_.size() > n_system_ && !ends_with_reply());
  const size_t limit = n_ctx;
  const size_t newest = messages_.size() - 1;
  Prompt prompt;
  prompt.ids = encode(newest);
  if (prompt.ids.size() > limit) {
    throw Error(
        ErrorCode::kLimit,
        format("this message needs %zu tokens%s, the context holds %d: shorten it or raise -c",
               prompt.ids.size(), n_system_ > 0 ? " with the system prompt" : "", n_ctx));
  }
  size_t first = n_system_;
  for (; first < newest; first += 2) {
    std::vector<int32_t> ids = encode(first);
    if (ids.size() + reserve <= limit) {
      prompt.ids = std::move(ids);
      break;
    }
  }
  prompt.dropped_turns = static_cast<int>(first - n_system_) / 2;
  messages_.erase(messages_.begin() + n_system_, messages_.begin() + first);
  return prompt;
}

int reply_reserve(int n_ctx, int max_tokens) {
  const int quarter = n_ctx / 4;
  return max_tokens >= 0 ? std::min(max_tokens, quarter) : quarter;
}

}  // namespace specbound
