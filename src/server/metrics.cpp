#include "server/metrics.h"

#include <algorithm>

#include "error.h"
#include "server/reply_json.h"

namespace specbound::server {

namespace {

std::string head(const char* name, const char* type, const char* help) {
  return format("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

std::string counter(const char* name, uint64_t value, const char* help) {
  return head(name, "counter", help) +
         format("%s %llu\n", name, static_cast<unsigned long long>(value));
}

std::string seconds(const char* name, double value, const char* help) {
  return head(name, "counter", help) + format("%s %.6f\n", name, value);
}

std::string gauge(const char* name, size_t value, const char* help) {
  return head(name, "gauge", help) + format("%s %zu\n", name, value);
}

}  // namespace

void Metrics::count_request(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
}

void Metrics::count_disconnect() {
  const std::lock_guard lock(mutex_);
  ++disconnects_;
}

void Metrics::set_running(int replies) {
  const std::lock_guard lock(mutex_);
  running_ = replies;
}

void Metrics::set_kept(int conversations, uint64_t kv_bytes) {
  const std::lock_guard lock(mutex_);
  kept_ = conversations;
  kept_bytes_ = kv_bytes;
}

void Metrics::count_reply(const GenerateStats& stats) {
  const std::lock_guard lock(mutex_);
  const Counters& counters = stats.counters;
  ++replies_;
  // Of a prompt whose client left while it was read, only what was read.
  const bool read = counters.rounds > 0 || stats.stop != StopReason::kAborted;
  prompt_tokens_ += read ? stats.prompt_tokens : stats.prefilled_tokens;
  cached_tokens_ += read ? cached_tokens(stats) : 0;
  generated_tokens_ += stats.generated_tokens;
  rounds_ += counters.rounds;
  side_by_side_ += static_cast<uint64_t>(stats.side_by_side);
  drafted_ += counters.drafted_tokens;
  accepted_ += counters.accepted_tokens;
  accepted_at_.resize(std::max(accepted_at_.size(), counters.accepted_at.size()));
  for (size_t l = 0; l < counters.accepted_at.size(); ++l) {
    accepted_at_[l] += counters.accepted_at[l];
  }
  prefill_seconds_ += stats.prefill_seconds;
  decode_seconds_ += stats.decode_seconds;
}

void Metrics::count_embedding(size_t tokens) {
  const std::lock_guard lock(mutex_);
  ++embeddings_;
  prompt_tokens_ += tokens;
}

std::string Metrics::text(size_t waiting) const {
  const std::lock_guard lock(mutex_);
  std::string out =
      head("specbound_requests_total", "counter", "Answered requests by route and status.");
  for (const auto& [key, n] : requests_) {
    out += format("specbound_requests_total{route=\"%s\",status=\"%d\"} %llu\n", key.first.c_str(),
                  key.second, static_cast<unsigned long long>(n));
  }
  out += counter("specbound_disconnects_total", disconnects_,
                 "Clients that went away before the end of their answer.");
  out += gauge("specbound_queue_depth", waiting, "Requests that wait for the engine.");
  out += gauge("specbound_requests_running", static_cast<size_t>(running_),
               "Requests that the engine works on.");
  out += gauge("specbound_kept_conversations", static_cast<size_t>(kept_),
               "Conversations that wait for their next request with K/V in memory.");
  out += gauge("specbound_kept_kv_bytes", kept_bytes_, "Bytes of these K/V.");
  out += counter("specbound_replies_total", replies_, "Replies that the engine made.");
  out += counter("specbound_embeddings_total", embeddings_, "Embeddings that the engine made.");
  out += counter("specbound_prompt_tokens_total", prompt_tokens_,
                 "Tokens of prompts and of inputs of embeddings.");
  out += counter("specbound_cached_tokens_total", cached_tokens_,
                 "Of these, tokens that were there from requests before.");
  out += counter("specbound_generated_tokens_total", generated_tokens_, "Tokens of replies.");
  out += seconds("specbound_prefill_seconds_total", prefill_seconds_,
                 "Time spent on prompts, summed over replies.");
  out += seconds("specbound_decode_seconds_total", decode_seconds_,
                 "Time spent on replies, summed over them: side by side it counts for each.");
  out += counter("specbound_rounds_total", rounds_, "Rounds of the decode loop.");
  out += counter("specbound_rounds_side_by_side_total", side_by_side_,
                 "Of these, those whose pass was shared with other requests.");
  out += counter("specbound_drafted_tokens_total", drafted_, "Tokens that were drafted.");
  out += counter("specbound_accepted_tokens_total", accepted_, "Drafts that were right.");
  out += head("specbound_accepted_by_exit_layer_total", "counter",
              "Drafts that were right, by the layer they left at.");
  for (size_t l = 0; l < accepted_at_.size(); ++l) {
    if (accepted_at_[l] == 0) continue;
    out += format("specbound_accepted_by_exit_layer_total{layer=\"%zu\"} %llu\n", l,
                  static_cast<unsigned long long>(accepted_at_[l]));
  }
  return out;
}

}  // namespace specbound::server
