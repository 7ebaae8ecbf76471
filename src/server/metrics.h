// What the server did so far, as Prometheus reads it (text format 0.0.4). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "decode/generate.h"

namespace specbound::server {

class Metrics {
 public:
  // A request was answered. `route`: one that there is, or "other": what clients make up does not
  // become a label.
  void count_request(const std::string& route, int status);
  void count_disconnect();  // a client went away before its answer
  void count_reply(const GenerateStats& stats);
  void count_embedding(size_t tokens);  // of one input
  void set_running(int replies);
  void set_kept(int conversations, uint64_t kv_bytes);  // that wait for their next request

  // `waiting`: requests in the queue.
  std::string text(size_t waiting) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  uint64_t disconnects_ = 0;
  int running_ = 0, kept_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t replies_ = 0, prompt_tokens_ = 0, cached_tokens_ = 0, generated_tokens_ = 0;
  uint64_t rounds_ = 0, side_by_side_ = 0, drafted_ = 0, accepted_ = 0;
  uint64_t embeddings_ = 0;
  std::vector<uint64_t> accepted_at_;  // [layer]
  double prefill_seconds_ = 0, decode_seconds_ = 0;
};

}  // namespace specbound::server
