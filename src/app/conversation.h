// The messages of a chat, and which of them still fit the context: the oldest turns go first, the
// system prompt and the newest message stay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace specbound {

class Conversation {
 public:
  // An empty system prompt is none.
  Conversation(const Tokenizer& tokenizer, const ChatTemplate& chat_template, std::string system);

  void add_user(std::string content) { add(ChatMessage::Role::kUser, std::move(content)); }
  void add_reply(std::string content) { add(ChatMessage::Role::kAssistant, std::move(content)); }
  ChatMessage remove_last();
  void clear();  // all but the system prompt

  // True if the newest message is a reply.
  bool ends_with_reply() const;

  struct Prompt {
    std::vector<int32_t> ids;
    int dropped_turns = 0;  // forgotten for good by this call
  };
  // Ids of the conversation up to the next reply. Turns are dropped until `reserve` positions of
  // `n_ctx` are free; when only the newest message is left, it need only fit. Throws Error(kLimit),
  // and drops nothing, if it does not.
  Prompt prompt(int n_ctx, int reserve);

 private:
  void add(ChatMessage::Role role, std::string content);
  std::vector<int32_t> encode(size_t first_turn) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  size_t n_system_ = 0;                // 0 or 1
  std::vector<ChatMessage> messages_;  // system, then user and assistant in turn
};

// Positions kept free for a reply before old turns are dropped for it. `max_tokens`: of the reply;
// -1: no budget.
int reply_reserve(int n_ctx, int max_tokens);

}  // namespace specbound
