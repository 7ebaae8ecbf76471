// One reply: tokens from a Session, streamed to stdout as text, with its figures. What `run` and
// `chat` have in common.
#pragma once

#include <optional>
#include <set>
#include <string_view>

#include "decode/generate.h"
#include "runtime/loaded_model.h"
#include "runtime/reply.h"
#include "runtime/reply_options.h"
#include "terminal/exit_colors.h"
#include "terminal/word_wrap.h"
#include "text/utf8.h"
#include "trace/recorder.h"

namespace specbound {

// The files that a reply's figures and trace go to, asked before the work. Throws Error(kFile) for
// one that cannot be written, Error(kUsage) where one would spoil the other or the text.
void check_outputs(const ReplyOptions& options);

// Where the replies of a process go: text to stdout as it comes, whole characters only, on a
// terminal none that steer it, with --show-exits in colours; with --trace events to a file. The
// first failure of each is kept, and nothing is written there after it; the trace's is told behind
// the reply and does not hold up the text.
class ReplyOutput {
 public:
  // Opens the trace. Throws Error(kFile).
  explicit ReplyOutput(const ReplyOptions& options);

  // From here on lines break at words, where stdout is a terminal whose width is known.
  void break_at_words();
  // Whether exits are shown from here on. Says on stderr why not, where stdout takes no colours.
  bool show_exits(bool on);
  bool shows_exits() const { return show_exits_; }
  // What is left of a character, one newline, what the colours mean, and the trace's end.
  void end_reply(const GenerateStats& stats);
  // Of a reply that ended in an error: its line's end, where any of it was shown.
  void break_off();
  // The trace's end of a reply that showed nothing. Behind the text: a warning may come with it.
  void end_trace(const GenerateStats& stats);
  // errno of stdout's failure, 0 for none.
  int error() const { return error_; }
  // When nothing more comes: the exit status, 1 if something did not arrive. Throws Error(kFile)
  // for a failure of stdout; a pipe whose reader went away is none: whoever closed it knows.
  int finish();

  // ---- for show_reply ----

  Recorder* trace() { return trace_ ? &*trace_ : nullptr; }
  // A reply begins whose drafts may leave at up to this layer.
  void begin_reply(int deepest_exit);
  // Text of tokens that were drafted at `exit_layer`; kNoDraft: that the last layer gave.
  void write(std::string_view bytes, int exit_layer);

 private:
  void check_trace();
  void put(std::string_view text);

  Utf8Stream utf8_;
  const bool on_terminal_;
  std::optional<WordWrap> wrap_;
  int error_ = 0;
  std::optional<Recorder> trace_;
  bool trace_failed_ = false;
  bool show_exits_ = false, shown_ = false;
  ExitColors colors_;
  std::set<int> exits_;  // of this reply, as shown_
};

// Generates as the options and the request have it, until the reply ends, its budget or the context
// is used up, Ctrl-C, or nobody reads any more. `speculator`: the session's. Throws Error(kLimit)
// for a prompt above n_ctx, as Session does. The caller ends the reply on `output`.
Reply show_reply(LoadedModel& model, Session& session, const ReplyOptions& options,
                 ReplyRequest request, const Speculator* speculator, ReplyOutput& output);

}  // namespace specbound
