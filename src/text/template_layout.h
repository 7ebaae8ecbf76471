// How a family of models has its conversations written: the pieces in front of and behind each
// message, as data. What a chat template says in Jinja, a layout says in a table, of which
// template_layouts() lists those that are built in.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace specbound {

// In all pieces {bos} and {eos} stand for the vocabulary's tokens.
struct TemplateLayout {
  struct Turn {
    std::string before = {}, after = {};
    bool trimmed = false;  // white space around the content goes
  };
  enum class SystemPlace : char {
    kTurn,       // a turn of its own, where it stands
    kFirstUser,  // inside the next user message, in front of its content
    kLastUser,   // the same, but only in the one that a reply is wanted to
  };
  // What of a stored reply is rendered. "Last" is a reply that ends the conversation.
  enum class ReplyStyle : char {
    kWhole,
    kNoBlankLines,   // without the line ends it begins with
    kAnswer,         // what is behind the last </think>
    kFirstAnswer,    // what is behind the first
    kAnswerLine,     // kAnswer without the line ends it begins with; the last whole (QwQ)
    kThoughtsAtEnd,  // the same if there is a </think>; the last with its thoughts (Qwen3)
  };

  std::string name;
  std::string begin = "{bos}";
  Turn system = {}, user = {}, reply = {};
  std::string prompt = {};  // behind a user message that ends the conversation
  std::string end = {};     // behind a reply that does
  SystemPlace system_place = SystemPlace::kTurn;
  std::optional<std::string> default_system = {};  // for conversations that have none
  bool trims_folded = false;  // a system prompt inside a user message is trimmed with it
  bool skips_empty_system = false;
  ReplyStyle reply_style = ReplyStyle::kWhole;
  std::optional<std::string> empty_reply = {};  // in place of a whole turn without content
  bool spaced_reply = false;  // models write a space in front of a reply, which no piece shows
  // /no_think and /think in the system prompt are switches (SmolLM3).
  bool thinking_switch = false;
  // Control tokens without which the layout is only text.
  std::vector<std::string> controls = {};
};

// A stretch of a rendered conversation: the layout's own text, or a message's.
struct TemplatePart {
  std::string text;
  bool content;
};

// The conversation up to where the next reply begins, or to its end if it ends with a reply.
std::vector<TemplatePart> lay_out(const TemplateLayout& layout,
                                  std::span<const ChatMessage> messages);

// The same as text.
std::string render_text(const TemplateLayout& layout, std::span<const ChatMessage> messages,
                        std::string_view bos, std::string_view eos);

// What stands in front of a reply behind the prompt: the model writes it, and it is no part of the
// reply.
std::string reply_lead(const TemplateLayout& layout);

// In the order in which they are tried and listed. A name may occur more than once: the first of
// them is what the name means, the others are recognized.
const std::vector<TemplateLayout>& template_layouts();

}  // namespace specbound
