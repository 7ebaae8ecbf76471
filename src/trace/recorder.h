// The trace file of --trace: what the decode loop told, as JSON lines, one object a line.
// docs/architecture.md 9.
//
// Every object has a "type":
//   header  the first line: "version" of this schema (1), "specbound" (program version), "model"
//           (file), "n_layers", "vocab_size", "n_ctx", "backend"
//   reply   a reply begins: "reply" (its number in this file, from 0; on all lines below),
//           "regen" (how often its message had been answered before), "prompt_tokens",
//           "max_tokens" (null: no budget), "stop_strings", "seed", "temperature", "top_k",
//           "top_p", "min_p", "repeat_penalty", "repeat_last_n", "speculator" ("none": plain
//           decoding) and its "settings" (null without: "w_max", "d_max", "alpha", "tau",
//           "check_layers" (those that the bounds leave), "anneal", "depth_bound", "width_bound")
//   token   a token of the text: "reply", "round", "rows" (of the round), "slot" (the row whose
//           logits gave it), "pos", "token", "text" (its own bytes; those that are no UTF-8 by
//           themselves become U+FFFD), "draft" (what had been drafted here; null: nothing),
//           "exit_layer" (where that draft was taken, 0: outside the model, or by layers that
//           verification ran again; null likewise),
//           "accepted" (the draft was the token), "ends_reply" (an end token, which is not shown),
//           "checks" (of the row in "slot", in order: "layer", "confidence")
//   settings  they changed within the reply: "reply", "round" (the first one that they hold for),
//           and from "seed" to "settings" what a reply has, all as from there on
//   round   after its tokens: "reply", "round", "pos" (of slot 0, the root), "rows", "emitted"
//           (tokens it gave), "draft_end" (plain, width, difficult, reply_end: why drafting
//           stopped), "slots" (each row, drafts that were dropped too: "token" (its own), "text"
//           (of that, as above; not in files of the first versions), "exit_layer" (where it
//           was left for a draft behind it; null: no draft), "checks", and where the round is no
//           chain "parent" (the slot it stands behind; null: the root) and "drafted_at" (where that
//           was left for it; null likewise)), "passes" (stretches of
//           layers run together, in order: "from", "to", "slot", "rows", "phase"), "ns"
//           (nanoseconds by phase: "draft", "check", "verify", "logits", "sample")
//   end     a reply is over: "reply", "stop" (end, stop, length, context, aborted),
//           "generated_tokens" (end token not counted), "prefilled_tokens", "prefill_seconds",
//           "ttft_seconds" (null: no token came), "decode_seconds", "rounds", "decoded_tokens" (end
//           token counted),
//           "drafted_tokens", "accepted_tokens", "checks" (how many), "accepted_at" (accepted
//           drafts by exit layer, from layer 0), "mean_exit_layer" (null without any), "ns",
//           "plain_token_seconds" (median of the session's newest plain rounds; null: none),
//           "plain_rounds" (of how many)
// NaN and infinity become null. A round that was aborted is not in the file, nor the end of a reply
// that failed. Lines gather in memory and are written as they fill it and at the end of each reply.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/counters.h"
#include "trace/event.h"

namespace specbound {

struct TraceHeader {
  std::string specbound;
  std::string model;
  int n_layers = 0, vocab_size = 0, n_ctx = 0;
  std::string backend;
};

struct TraceSettings {
  int w_max = 0, d_max = 0;
  float alpha = 0, tau = 0;
  std::vector<int> check_layers;
  bool anneal = true, depth_bound = true, width_bound = true;
};

struct TraceReply {
  uint32_t regen = 0;
  int prompt_tokens = 0;
  int max_tokens = -1;  // -1: no budget
  std::vector<std::string> stop_strings;
  uint64_t seed = 0;
  float temperature = 0, top_p = 0, min_p = 0, repeat_penalty = 0;
  int top_k = 0, repeat_last_n = 0;
  std::string speculator = "none";
  std::optional<TraceSettings> settings;
};

struct TraceEnd {
  std::string stop;
  int generated_tokens = 0, prefilled_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  std::optional<double> ttft_seconds;
  Counters counters;
  double plain_token_seconds = 0;  // 0: none measured
  int plain_rounds = 0;
};

class Recorder {
 public:
  // Writes to `fd`, which it closes; `path` is for messages.
  Recorder(std::string path, int fd);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { close(); }

  // Once, before anything else. `piece` gives the bytes of a token.
  void header(const TraceHeader& header, std::function<std::string(int32_t)> piece);
  bool has_header() const { return piece_ != nullptr; }

  void begin_reply(const TraceReply& reply);
  // Of the reply under way, from its next round on.
  void settings(const TraceReply& reply);
  void round(const RoundEvent& round);
  void end_reply(const TraceEnd& end);
  // Nothing can be recorded after it.
  void close();

  const std::string& path() const { return path_; }
  // errno of the first failure to write, 0 for none. Nothing is written after one.
  int error() const { return error_; }

 private:
  void flush();

  std::string path_;
  int fd_ = -1;
  int error_ = 0;
  int reply_ = -1;      // the newest one's number in the file
  int next_round_ = 0;  // of it
  std::function<std::string(int32_t)> piece_;
  std::string buffer_;  // whole lines
};

}  // namespace specbound
