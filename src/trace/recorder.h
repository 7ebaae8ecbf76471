// The trace file of --trace: what the decode loop told, as JSON lines. docs/trace.md has the lines
// and what each field means; docs/architecture.md 9. Lines gather in memory and are written as they
// fill it and at the end of each reply.
#pragma once

#include <chrono>
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
  bool anneal_learned = false;
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
  using Clock = std::chrono::steady_clock;
  Clock::time_point flushed_ = {};  // when they were last written: at first with the first round
};

}  // namespace specbound
