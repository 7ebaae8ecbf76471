// The messages of a chat, and which of them still fit the context: the oldest turns go first, the
// system prompt and the newest message stay.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "templates/chat_template.h"
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
  // What the next prompts begin with; empty: nothing.
  void set_system(std::string system) { system_ = std::move(system); }
  const std::string& system() const { return system_; }

  // True if the newest message is a reply.
  bool ends_with_reply() const;
  // All that was said, in turn from a user's message on: also what prompts have dropped.
  std::span<const ChatMessage> messages() const { return messages_; }

  struct Prompt {
    std::vector<int32_t> ids;
    int dropped_turns = 0;  // out of all prompts from this call on
  };
  // Ids of the conversation up to the next reply. Turns are dropped until `reserve` positions of
  // `n_ctx` are free; when only the newest message is left, it need only fit. Throws Error(kLimit),
  // and drops nothing, if it does not.
  Prompt prompt(int n_ctx, int reserve);
  // There was no reply: turns that the newest prompt dropped are in the next ones again.
  void bring_back(int dropped_turns);

 private:
  void add(ChatMessage::Role role, std::string content);
  std::vector<int32_t> encode(size_t first_turn) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  std::string system_;
  std::vector<ChatMessage> messages_;  // user and assistant in turn
  size_t n_dropped_ = 0;               // of them, at the beginning: in no prompt any more
};

// Positions kept free for a reply before old turns are dropped for it. `max_tokens`: of the reply;
// -1: no budget.
int reply_reserve(int n_ctx, int max_tokens);

}  // namespace specbound
