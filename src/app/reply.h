// One reply: tokens from a Session, streamed to stdout as text, with its figures. What `run` and
// `chat` have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "app/cli.h"
#include "app/loaded_model.h"
#include "app/stats.h"
#include "decode/generate.h"
#include "text/utf8_stream.h"

namespace specbound {

// Text to stdout as it comes, whole characters only. The first failure to write (a closed pipe, a
// full disk) is kept, and nothing is written after it.
class TextOutput {
 public:
  void write(std::string_view bytes);
  void end_line();                      // what is left of a character, then one newline
  int error() const { return error_; }  // errno of the failure, 0 for none
  // Throws Error(kFile) for a failure; a pipe whose reader went away is none: whoever closed it
  // knows.
  void check() const;

 private:
  void put(std::string_view text);
  Utf8Stream utf8_;
  int error_ = 0;
};

struct ReplyRequest {
  std::span<const int32_t> prompt;
  uint32_t reply = 0;
  // What the reply's first bytes become: the space that a template or the vocabulary puts in front
  // is cut there.
  std::function<std::string(int32_t first, std::string_view piece)> first_piece;
};

struct Reply {
  std::string text;                                                  // the bytes of the reply
  std::optional<std::chrono::steady_clock::time_point> first_token;  // when it came, if any came
  ReplyStats stats;
};

// Generates until the reply ends, its budget or the context is used up, or Ctrl-C. Throws
// Error(kLimit) for a prompt above n_ctx, as Session does.
Reply generate_reply(LoadedModel& model, Session& session, const ReplyFlags& flags,
                     const ReplyRequest& request, TextOutput& output);

}  // namespace specbound
