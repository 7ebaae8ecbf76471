// A reply as text: tokens from a Session, turned into the bytes that a reader may see, up to a stop
// string. What every front end without a window does: `run` and `chat` show the text on stdout, the
// server and the C API hand it on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/generate.h"
#include "runtime/loaded_model.h"
#include "runtime/stats.h"
#include "text/stop_strings.h"

namespace specbound {

struct ReplyRequest {
  std::span<const int32_t> prompt;
  int max_tokens = -1;  // -1: until the end token or the context is full
  uint32_t reply = 0;   // reply number: how often this prompt was answered before
  bool ignore_eos = false;
  StopStrings stop;
  // What the reply's first bytes become: the space that a template or the vocabulary puts in front
  // is cut there. Empty: nothing else.
  ReplyText::FirstPiece first_piece;
  std::span<const int32_t> spelled;          // control tokens that are text here; others are none
  const std::atomic<bool>* abort = nullptr;  // looked at between passes and after each token

  // All from within the reply, on its thread.
  std::function<void(int done, int total)> on_prefill;
  // Bytes that can be shown, of tokens that were drafted at `exit_layer`; kNoDraft: that the last
  // layer gave. They may end inside a character. False: nobody wants more, and the reply ends as
  // one that was aborted.
  std::function<bool(std::string_view bytes, int exit_layer)> on_text;
  // As GenerateOptions::on_logits: before the token's text.
  std::function<void(const TokenEvent& event, std::span<const float> logits)> on_logits;
  std::function<void(const TokenEvent& event)> on_token;  // before its text
  std::function<void(const RoundEvent& event)> on_round;
};

struct Reply {
  std::string text;  // the bytes of the reply, up to a stop string
  std::optional<std::chrono::steady_clock::time_point> first_token;  // when it came, if any came
  ReplyStats stats;
};

// A reply on its way, whoever decodes it: what becomes of its tokens.
class ReplyWriter {
 public:
  // `model` and what `request` refers to must outlive it.
  ReplyWriter(const LoadedModel& model, ReplyRequest request);
  ReplyWriter(const ReplyWriter&) = delete;
  ReplyWriter& operator=(const ReplyWriter&) = delete;

  // What to decode it with. They refer to this object, which hears of the tokens by them.
  GenerateOptions options();
  // When it is over, once: all of it. `backend` has decoded it.
  Reply finish(const GenerateStats& generated, uint64_t seed, const Backend& backend);

 private:
  std::string piece(int32_t id) const;
  void show(const std::vector<ReplyText::Stretch>& stretches);

  const LoadedModel& model_;
  const ReplyRequest request_;
  ReplyText text_;
  Reply reply_;
  bool wanted_ = true;
};

// Generates until the reply ends, its budget or the context is used up, or `abort`. Throws
// Error(kLimit) for a prompt above n_ctx, as Session does.
Reply generate_reply(const LoadedModel& model, Session& session, const ReplyRequest& request);

}  // namespace specbound
