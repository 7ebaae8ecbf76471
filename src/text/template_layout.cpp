#include "text/template_layout.h"

#include <utility>

#include "text/jinja_text.h"

namespace specbound {

namespace {

using jinja::Side;
using Role = ChatMessage::Role;

constexpr std::string_view kThoughtsEnd = "</think>";

std::string stripped(std::string_view text, bool strips) {
  return std::string(strips ? jinja::strip(text) : text);
}

std::string reply_content(const TemplateLayout& layout, std::string_view content, bool last) {
  using Style = TemplateLayout::ReplyStyle;
  const std::string text = stripped(content, layout.reply.trimmed);
  const bool thinks = text.find(kThoughtsEnd) != text.npos;
  const auto answer = [&] { return jinja::split(text, kThoughtsEnd).back(); };
  const auto line = [](std::string_view t) {
    return std::string(jinja::strip(t, "\n", Side::kLeft));
  };
  switch (layout.reply_style) {
    case Style::kWhole:
      return text;
    case Style::kNoBlankLines:
      return line(text);
    case Style::kAnswer:
      return std::string(answer());
    case Style::kFirstAnswer:
      return std::string(jinja::split(text, kThoughtsEnd, 1).back());
    case Style::kAnswerLine:
      return last ? text : line(answer());
    case Style::kThoughtsAtEnd:
      return thinks ? line(answer()) : text;
  }
  return text;
}

// SmolLM3 as /no_think in the system prompt has it.
TemplateLayout without_thinking(TemplateLayout layout) {
  constexpr const char* kNone = "<think>\n\n</think>\n";
  layout.system.before = jinja::replace(layout.system.before, "/think", "/no_think");
  layout.reply.before += kNone;
  layout.prompt += kNone;
  layout.default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.";
  return layout;
}

class Writer {
 public:
  Writer(const TemplateLayout& layout, std::span<const ChatMessage> messages)
      : layout_(layout), messages_(messages) {}

  std::vector<TemplatePart> run() {
    own(layout_.begin);
    const bool has_system = !messages_.empty() && messages_[0].role == Role::kSystem;
    if (!has_system && layout_.default_system) system({*layout_.default_system, false});
    for (size_t i = 0; i < messages_.size(); ++i) {
      const ChatMessage& message = messages_[i];
      const bool last = i + 1 == messages_.size();
      switch (message.role) {
        case Role::kSystem:
          if (message.content.empty() && layout_.skips_empty_system) break;
          system(system_part(message.content));
          break;
        case Role::kUser:
          user(message.content, last);
          break;
        case Role::kAssistant:
          reply(message.content, last);
          break;
      }
    }
    return std::move(parts_);
  }

 private:
  void own(std::string_view text) {
    if (!text.empty()) parts_.push_back({std::string(text), false});
  }

  TemplatePart system_part(const std::string& content) const {
    if (!layout_.thinking_switch) return {stripped(content, layout_.system.trimmed), true};
    std::string text = jinja::replace(jinja::replace(content, "/no_think", ""), "/think", "");
    text = jinja::strip(text, Side::kRight);
    if (text.empty()) return {*layout_.default_system, false};
    return {std::move(text), true};
  }

  void system(TemplatePart part) {
    if (layout_.system_place != TemplateLayout::SystemPlace::kTurn) {
      held_.push_back(std::move(part));
      return;
    }
    own(layout_.system.before);
    parts_.push_back(std::move(part));
    own(layout_.system.after);
  }

  void user(const std::string& content, bool last) {
    own(layout_.user.before);
    std::string text = stripped(content, layout_.user.trimmed);
    if (!held_.empty() &&
        (last || layout_.system_place != TemplateLayout::SystemPlace::kLastUser)) {
      // Trimmed as one text, of which the end is this message's, and the system prompt's without.
      if (layout_.trims_folded) text = jinja::strip(content, Side::kRight);
      const bool bare = layout_.trims_folded && text.empty();
      for (TemplatePart& part : held_) {
        own(layout_.system.before);
        parts_.push_back(std::move(part));
        own(bare ? jinja::strip(layout_.system.after, Side::kRight) : layout_.system.after);
      }
      held_.clear();
    }
    parts_.push_back({text, true});
    own(layout_.user.after);
    if (last) own(layout_.prompt);
  }

  void reply(const std::string& content, bool last) {
    if (content.empty() && layout_.empty_reply) {
      own(*layout_.empty_reply);
    } else {
      own(layout_.reply.before);
      if (last && layout_.reply_style == TemplateLayout::ReplyStyle::kThoughtsAtEnd) {
        with_thoughts(stripped(content, layout_.reply.trimmed));
      } else {
        parts_.push_back({reply_content(layout_, content, last), true});
      }
      own(layout_.reply.after);
    }
    if (last) own(layout_.end);
  }

  // A reply of Qwen3 with its thoughts, which are empty if it shows none.
  void with_thoughts(std::string_view content) {
    const auto strip_lines = [](std::string_view text, Side side) {
      return jinja::strip(text, "\n", side);
    };
    std::string_view thoughts, answer = content;
    if (content.find(kThoughtsEnd) != content.npos) {
      const std::string_view before = jinja::split(content, kThoughtsEnd).front();
      thoughts = jinja::split(strip_lines(before, Side::kRight), "<think>").back();
      answer = jinja::split(content, kThoughtsEnd).back();
    }
    thoughts = layout_.reply.trimmed ? jinja::strip(thoughts) : strip_lines(thoughts, Side::kBoth);
    own("<think>\n");
    parts_.push_back({std::string(thoughts), true});
    own("\n</think>\n\n");
    parts_.push_back({std::string(strip_lines(answer, Side::kLeft)), true});
  }

  const TemplateLayout& layout_;
  std::span<const ChatMessage> messages_;
  std::vector<TemplatePart> parts_;
  std::vector<TemplatePart> held_;  // system prompts for the next user message
};

}  // namespace

std::vector<TemplatePart> lay_out(const TemplateLayout& layout,
                                  std::span<const ChatMessage> messages) {
  const bool off = layout.thinking_switch && !messages.empty() &&
                   messages[0].role == Role::kSystem &&
                   messages[0].content.find("/no_think") != std::string::npos;
  if (off) return Writer(without_thinking(layout), messages).run();
  return Writer(layout, messages).run();
}

std::string render_text(const TemplateLayout& layout, std::span<const ChatMessage> messages,
                        std::string_view bos, std::string_view eos) {
  std::string out;
  for (const TemplatePart& part : lay_out(layout, messages)) {
    if (part.content) {
      out += part.text;
    } else {
      out += jinja::replace(jinja::replace(part.text, "{bos}", bos), "{eos}", eos);
    }
  }
  return out;
}

std::string reply_lead(const TemplateLayout& layout) {
  if (layout.spaced_reply) return " ";
  const std::string& before = layout.reply.before;
  return before.starts_with(layout.prompt) ? before.substr(layout.prompt.size()) : "";
}

}  // namespace specbound
