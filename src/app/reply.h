// One reply: tokens from a Session, streamed to stdout as text, with its figures. What `run` and
// `chat` have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "app/cli.h"
#include "app/exit_colors.h"
#include "app/loaded_model.h"
#include "app/stats.h"
#include "decode/generate.h"
#include "text/utf8_stream.h"
#include "trace/recorder.h"

namespace specbound {

// The files that a reply's figures and trace go to, asked before the work. Throws Error(kFile) for
// one that cannot be written, Error(kUsage) where one would spoil the other or the text.
void check_outputs(const ReplyFlags& flags);

// Where the replies of a process go: text to stdout as it comes, whole characters only, with
// --show-exits in colours; with --trace events to a file. The first failure of each is kept, and
// nothing is written there after it; the trace's is told behind the reply and does not hold up the
// text.
class ReplyOutput {
 public:
  // Opens the trace. Throws Error(kFile).
  explicit ReplyOutput(const ReplyFlags& flags);

  // Whether exits are shown from here on. Says on stderr why not, where stdout takes no colours.
  bool show_exits(bool on);
  bool shows_exits() const { return show_exits_; }
  // What is left of a character, one newline, what the colours mean, and the trace's end.
  void end_reply(const GenerateStats& stats);
  // The trace's end of a reply that showed nothing. Behind the text: a warning may come with it.
  void end_trace(const GenerateStats& stats);
  // errno of stdout's failure, 0 for none.
  int error() const { return error_; }
  // When nothing more comes: the exit status, 1 if something did not arrive. Throws Error(kFile)
  // for a failure of stdout; a pipe whose reader went away is none: whoever closed it knows.
  int finish();

  // ---- for generate_reply ----

  Recorder* trace() { return trace_ ? &*trace_ : nullptr; }
  // A reply begins whose drafts may leave at up to this layer.
  void begin_reply(int deepest_exit);
  // Text of tokens that were drafted at `exit_layer`; kNoDraft: that the last layer gave.
  void write(std::string_view bytes, int exit_layer);

 private:
  void check_trace();
  void put(std::string_view text);

  Utf8Stream utf8_;
  int error_ = 0;
  std::optional<Recorder> trace_;
  bool trace_failed_ = false;
  bool show_exits_ = false;
  ExitColors colors_;
  std::set<int> exits_;  // of this reply
};

struct ReplyRequest {
  std::span<const int32_t> prompt;
  uint32_t reply = 0;
  // What the reply's first bytes become: the space that a template or the vocabulary puts in front
  // is cut there.
  std::function<std::string(int32_t first, std::string_view piece)> first_piece;
  const Speculator* speculator = nullptr;  // the session's
};

struct Reply {
  std::string text;  // the bytes of the reply, up to a stop string
  std::optional<std::chrono::steady_clock::time_point> first_token;  // when it came, if any came
  ReplyStats stats;
};

// Generates until the reply ends, its budget or the context is used up, or Ctrl-C. Throws
// Error(kLimit) for a prompt above n_ctx, as Session does. The caller ends the reply on `output`.
Reply generate_reply(LoadedModel& model, Session& session, const ReplyFlags& flags,
                     const ReplyRequest& request, ReplyOutput& output);

}  // namespace specbound
