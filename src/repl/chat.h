// The conversation of `specbound chat`: what a line does, be it a message or a command.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/conversation.h"
#include "app/loaded_model.h"
#include "app/reply.h"
#include "app/speculation.h"
#include "app/stats.h"
#include "decode/generate.h"
#include "repl/line_input.h"
#include "repl/settings.h"

namespace specbound {

class Chat {
 public:
  // All must outlive it. `given`: what the command line said of speculation.
  Chat(LoadedModel& model, const ChatTemplate& chat_template, const ReplyFlags& flags,
       const SamplingParams& sampling, const SpeculationFlags& given, Speculation& speculation);

  // Where /edit puts a message; it must outlive the chat. Without one /edit needs the text.
  void edit_in(LineInput& input) { input_ = &input; }
  const Settings& settings() const { return settings_; }

  // False when the conversation is over. `quoted`: a message, whatever it begins with.
  bool handle(const std::string& line, bool quoted);
  // A line that was to be sent is not.
  void cancel() { editing_ = false; }
  // The exit status. Throws Error(kFile) if stdout could not take the replies.
  int finish() { return output_.finish(); }

 private:
  struct ReplyNote {
    std::string figures;
    uint32_t number = 0;  // how often its message was answered before
  };

  bool command(std::string_view name, std::string_view argument);
  void message(std::string text, bool replaces);
  void clear();
  void regenerate();
  void edit(std::string_view text);
  void save(std::string_view file);
  void load(std::string_view file);
  void change_system(std::string_view text);
  void set(std::string_view argument);
  void switch_speculation(std::string_view to);
  void toggle_exits();
  void show_stats();
  void show_lens(std::string_view count);
  bool answer(uint32_t number, const char* otherwise);
  void report(const Reply& reply);

  LoadedModel& model_;
  const ChatTemplate& template_;
  const ReplyFlags& flags_;
  Speculation& speculation_;
  Session session_;
  Settings settings_;
  Conversation conversation_;
  std::vector<ReplyNote> notes_;  // of the conversation's replies, in order
  std::string title_;             // of a file that was loaded; empty: the first message's beginning
  ReplyOutput output_;
  LineInput* input_ = nullptr;
  bool editing_ = false;  // the next message takes the place of the last one
  size_t n_used_ = 0;     // positions of the context that the conversation takes
  TotalStats totals_;
};

}  // namespace specbound
