// A conversation as a file: what the window keeps and what /save of `specbound chat` writes are the
// same JSON object, read by one parser. It is written on one line, as a dialogue to train from
// (corpus/corpus.h). What a file holds never does harm: one Error says what was expected and found.
//
// {"version": 1, "title", "system", "changed": seconds since 1970,
//  "messages": [{"role": "user" | "assistant", "text", "figures", "number"}, ...]}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/chat_template.h"

namespace specbound {

struct SavedMessage {
  ChatMessage::Role role = ChatMessage::Role::kUser;
  std::string text = {};     // any bytes
  std::string figures = {};  // of a reply: its one-line statistics
  uint32_t number = 0;       // of a reply: how often its message had been answered before
};

struct SavedConversation {
  std::string title;                   // never empty in what was read
  std::string system;                  // prompt; empty: none
  int64_t changed = 0;                 // seconds since 1970
  std::vector<SavedMessage> messages;  // user and assistant in turn, a user first
};

// Bytes that are no UTF-8 become U+FFFD. Throws Error(kLimit) for more than can be read again:
// 10,000 messages or 16 MiB.
std::string saved_conversation_json(const SavedConversation& conversation);

// Throws Error(kFormat | kLimit) saying what was expected and found; `name` stands for the file.
SavedConversation parse_saved_conversation(std::string_view json, const std::string& name);

// Of a file of at most 16 MiB. Throws what parsing throws, and Error(kFile) for what cannot be read
// or is no regular file.
SavedConversation read_saved_conversation(const std::string& path);

// What a conversation that begins with `text` is called: its first line on 40 characters at most,
// whole ones, with nothing in it that is no text.
std::string title_from(std::string_view text);

}  // namespace specbound
