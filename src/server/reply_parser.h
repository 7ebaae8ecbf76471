// A reply as it is written, taken apart: thoughts, calls of tools, and text. Byte by byte, so that
// nothing depends on how it was cut into tokens. A call comes out when it is complete; what turns
// out to be none is text, byte for byte. Where a grammar holds calls none turns out so: their
// arguments come out as they are written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat_tools.h"
#include "server/tool_calls.h"
#include "templates/reply_format.h"

namespace specbound::server {

// What some bytes brought.
struct ReplyPieces {
  std::string text = {}, thoughts = {};
  std::vector<CallText> calls = {};
};

class ReplyParser {
 public:
  static constexpr size_t kMaxHead = 256;              // bytes between a mark and a call's JSON
  static constexpr size_t kMaxCall = size_t{1} << 20;  // of a call
  static constexpr size_t kMaxCalls = 128;

  struct Options {
    ReplyFormat format;
    bool splits_thoughts = false;
    bool thinks = false;           // the reply begins with thoughts, whose mark the prompt has
    bool goes_on = false;          // it is the rest of a message that the prompt ends in
    std::vector<Tool> tools = {};  // none: calls are text
    bool several = true;           // calls in a reply
    bool held = false;             // calls are what call_grammar.h has them be
    bool at_front = false;         // a reply that begins with something else has none
    // JSON without a mark that a reply begins with may be a call.
    enum class Bare { kNone, kObject, kAny } bare = Bare::kAny;
  };

  explicit ReplyParser(Options options);

  ReplyPieces push(std::string_view bytes);
  // The reply is over.
  ReplyPieces finish();
  // After that: it ended within the arguments of a call, of which some came out.
  bool cut_off() const { return state_ == State::kJson && streamed_; }

 private:
  enum class State {
    kText,
    kThoughts,
    kHead,
    kArguments,  // of a message in a channel: they begin here
    kJson,
    kTags,
    kBehindCall,  // or behind a message in a channel
  };

  void take(char c);
  void take_text(char c);
  void take_thoughts(char c);
  void take_head(char c);
  void take_message_head(char c);
  void take_arguments(char c);
  void take_json(char c);
  void take_tags(char c);
  void take_behind_call(char c);

  void put_text(std::string_view bytes);
  void put_thoughts(std::string_view bytes);
  std::string lead();  // the white space that waited, where it is the text's
  void begin_call(std::string mark);
  void begin_json(char c, CallText call, bool fenced = false);
  bool stream_arguments(char c);
  void end_call(std::vector<CallText> calls);
  void go_behind_message();
  void end_message();
  void go_back(const std::string& bytes);
  void show_message();            // its head is text, and so is what ends it
  void give_up();                 // no call: its bytes are text
  void give_up_before(size_t n);  // the same, but its last `n` bytes may begin the mark of another
  bool reads_calls() const {
    const bool here = !options_.at_front || begins_ || n_calls_ > 0;
    return here && !options_.tools.empty() && (options_.several || n_calls_ == 0);
  }
  bool in_channels() const { return options_.format.syntax == CallSyntax::kHarmony; }
  std::vector<std::string_view> text_marks() const;
  std::vector<std::string_view> closing_marks() const, opening_marks() const;  // behind a call

  const Options options_;
  State state_ = State::kText;
  bool begins_ = true;      // nothing but white space came since the reply or its text began
  bool may_think_ = false;  // its thoughts may still begin
  bool blanks_go_ = false;  // white space in front of the text is left out
  std::string blanks_;      // that white space, or the newest of thoughts
  std::string held_;        // may begin a mark
  std::string raw_;         // all bytes of a call
  std::string head_;        // those behind its mark
  std::string body_;        // its JSON, or its tags
  bool bare_ = false;       // no mark is in front of its JSON
  CallText call_;           // its name and id, where they stand outside of them
  static constexpr int kNever = -1;
  int inside_ = 0;         // arguments that come out are so deep in it; 0: not yet
  bool streamed_ = false;  // some of its arguments came out
  bool in_value_ = false;  // of a tag: what ends a call does not end it there
  bool fenced_ = false;    // a fence closes it
  // Of messages in channels.
  std::string behind_;            // from what may have ended one on, until that is known
  State message_ = State::kText;  // of that one
  bool shows_end_ = false;        // what ends it is text
  bool joins_ = false;            // text of one before it came: this one's begins a line
  bool has_text_ = false, has_thoughts_ = false;  // of the reply
  JsonEnd end_;
  size_t n_calls_ = 0;
  ReplyPieces out_;
};

}  // namespace specbound::server
