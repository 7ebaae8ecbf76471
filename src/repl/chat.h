// The conversation of `specbound chat`: what a line does, be it a message or a command.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/generate.h"
#include "learning/idle_learning.h"
#include "repl/line_input.h"
#include "repl/set_command.h"
#include "runtime/conversation.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation.h"
#include "runtime/stats.h"
#include "terminal/reply.h"
#include "trace/counters.h"

namespace specbound {

// /stats: where drafts left, and at which place in the round they were right. Lines for people;
// empty without drafts.
std::string acceptance_histogram(const Counters& counters, const DraftPlaces& places);

// What a chat gets from above.
struct ChatParts {
  std::vector<SettingFlag> settings;  // of /set
  // Of /lens: what the layers said at positions [from, to) of the newest reply, for a terminal.
  // Throws Interrupted on Ctrl-C.
  std::function<std::string(Session&, const SpecBoundParams&, int from, int to)> lens;
  IdleLearning* learning;
};

class Chat {
 public:
  // What is no reply's option must outlive it. `given`: what the command line said of speculation.
  Chat(LoadedModel& model, const ChatTemplate& chat_template, const ReplyOptions& options,
       const SamplingParams& sampling, const SpeculationOptions& given, Speculation& speculation,
       ChatParts parts);

  // Where /edit puts a message; it must outlive the chat. Without one /edit needs the text.
  void edit_in(LineInput& input) { input_ = &input; }
  const SetCommand& settings() const { return set_command_; }

  // False when the conversation is over. `quoted`: a message, whatever it begins with.
  bool handle(const std::string& line, bool quoted);
  // A line that was to be sent is not.
  void cancel() { editing_ = false; }
  // A message had no reply: it did not fit, or could not be written for this model.
  bool unanswered() const { return unanswered_; }
  // The exit status. Throws Error(kFile) if stdout could not take the replies.
  int finish() { return output_.finish(); }

 private:
  struct ReplyNote {
    std::string figures;
    uint32_t number = 0;  // how often its message was answered before
  };

  bool command(std::string_view typed, std::string_view argument);
  void message(std::string text, bool replaces);
  void clear();
  void regenerate();
  void edit(std::string_view text);
  void save(std::string_view file);
  void load(std::string_view file);
  void change_system(std::string_view text);
  void show();
  void set(std::string_view argument);
  void switch_speculation(std::string_view to);
  void toggle_exits();
  void show_stats();
  void show_lens(std::string_view count);
  void learn(std::string_view to);
  SavedConversation saved() const;
  SavedConversation learnt_from() const;
  void take_learnt_heads();
  bool answer(uint32_t number, const char* otherwise);
  void report(const Reply& reply);

  LoadedModel& model_;
  const ChatTemplate& template_;
  ReplyOptions options_;  // as /set has changed them
  Speculation& speculation_;
  std::function<std::string(Session&, const SpecBoundParams&, int, int)> lens_;
  IdleLearning* learning_;
  Session session_;
  SetCommand set_command_;
  Conversation conversation_;
  std::vector<ReplyNote> notes_;  // of the conversation's replies, in order
  std::string title_;             // of a file that was loaded; empty: the first message's beginning
  ReplyOutput output_;
  LineInput* input_ = nullptr;
  bool unanswered_ = false;
  bool editing_ = false;   // the next message takes the place of the last one
  size_t heard_from_ = 0;  // messages before this one are not learnt from: nobody had agreed to it
  size_t n_used_ = 0;      // positions of the context that the conversation takes
  TotalStats totals_;
};

}  // namespace specbound
