// A conversation as the window keeps it: what was said, what is stored, and which bytes of a reply
// are which token. No drawing, no engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace specbound::gui {

// Another number each time, above 0.
uint64_t fresh_key();

struct Message {
  ChatMessage::Role role = ChatMessage::Role::kUser;
  std::string text = {};     // the bytes as generated; drawing replaces what is no UTF-8
  std::string figures = {};  // of a reply: its one-line statistics; stored
  uint32_t number = 0;       // of a reply: how often its message had been answered before; stored

  // Of a reply of this process only:
  uint64_t reply = 0;                   // its id; 0: it came from a file
  std::vector<size_t> token_ends = {};  // [i]: bytes of text up to the end of token i

  // What layouts are kept under: the text of a key only ever grows. What says something else is
  // another Message.
  uint64_t key = fresh_key();

  // The token that byte `at` of the text belongs to; -1: none is known.
  int token_at(size_t at) const;
  // Bytes [begin, end) of token i; it may be empty.
  struct Bytes {
    size_t begin = 0, end = 0;
  };
  Bytes token_bytes(int i) const;
};

struct Conversation {
  std::string id;                 // file name without .json
  std::string title;              // the first message's beginning unless given
  std::string system;             // prompt; empty: none
  std::vector<Message> messages;  // user and assistant in turn
  int64_t changed = 0;            // seconds since 1970

  // Whether its title or any of its messages has `needle` in it, capital ASCII letters or small.
  bool mentions(std::string_view needle) const;

  // For the engine: system prompt first, the first `n` messages.
  std::vector<ChatMessage> prompt(size_t n) const;
};

// Nothing but white space: no message.
bool is_blank(std::string_view text);

}  // namespace specbound::gui
