#include "app/stats.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "error.h"

namespace specbound {

namespace {

const std::chrono::steady_clock::time_point kStart = std::chrono::steady_clock::now();

std::optional<double> rate(double count, double seconds) {
  if (!(count > 0) || !(seconds > 0) || !std::isfinite(count / seconds)) return std::nullopt;
  return count / seconds;
}

// Tokens the loop sampled and used: emitted ones, and the end token that is not emitted.
int count_decoded(const GenerateStats& g) {
  return g.generated_tokens + (g.stop == StopReason::kEnd ? 1 : 0);
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : nlohmann::ordered_json();
}

}  // namespace

std::chrono::steady_clock::time_point program_start() {
  return kStart;
}

std::optional<double> ReplyStats::decode_tokens_per_second() const {
  return rate(count_decoded(generated), generated.decode_seconds);
}

std::optional<double> ReplyStats::prefill_tokens_per_second() const {
  return rate(generated.prefilled_tokens, generated.prefill_seconds);
}

std::optional<double> ReplyStats::compression_rate() const {
  return rate(count_decoded(generated), generated.counters.rounds);
}

std::string stats_line(const ReplyStats& stats) {
  const GenerateStats& g = stats.generated;
  std::string line = format("%d tokens", g.generated_tokens);
  if (const auto speed = stats.decode_tokens_per_second()) line += format(", %.1f tok/s", *speed);
  if (g.generated_tokens > 0) line += format(", first after %.0f ms", 1e3 * g.ttft_seconds);
  line += format(" | prompt %d", g.prompt_tokens);
  if (g.prefilled_tokens < g.prompt_tokens - 1) line += format(" (%d new)", g.prefilled_tokens);
  if (const auto speed = stats.prefill_tokens_per_second()) line += format(", %.0f tok/s", *speed);
  line += format(" | stop: %s | seed %llu", stop_reason_name(g.stop),
                 static_cast<unsigned long long>(stats.seed));
  if (stats.reply > 0) line += format(" reply %u", stats.reply);
  return line + " | " + kSpeculation;
}

void TotalStats::add(const GenerateStats& reply) {
  ++replies;
  generated_tokens += reply.generated_tokens;
  decoded_tokens += count_decoded(reply);
  prefilled_tokens += reply.prefilled_tokens;
  decode_seconds += reply.decode_seconds;
  prefill_seconds += reply.prefill_seconds;
}

std::string totals_line(const TotalStats& totals, size_t n_used, int n_ctx) {
  std::string line = format("%d %s, %d tokens", totals.replies,
                            totals.replies == 1 ? "reply" : "replies", totals.generated_tokens);
  if (const auto speed = rate(totals.decoded_tokens, totals.decode_seconds)) {
    line += format(", %.1f tok/s", *speed);
  }
  line += format(" | prompts %d tokens", totals.prefilled_tokens);
  if (const auto speed = rate(totals.prefilled_tokens, totals.prefill_seconds)) {
    line += format(", %.0f tok/s", *speed);
  }
  return line + format(" | context %zu of %d | ", n_used, n_ctx) + kSpeculation;
}

std::string stats_json(const ReplyStats& stats) {
  const GenerateStats& g = stats.generated;
  const bool any = g.generated_tokens > 0;
  const nlohmann::ordered_json json = {
      {"model", stats.model},
      {"backend", stats.backend},
      {"seed", stats.seed},
      {"reply", stats.reply},
      {"prompt_tokens", g.prompt_tokens},
      {"prefilled_tokens", g.prefilled_tokens},
      {"generated_tokens", g.generated_tokens},
      {"stop_reason", stop_reason_name(g.stop)},
      {"load_seconds", finite_or_null(stats.load_seconds)},
      {"prefill_seconds", finite_or_null(g.prefill_seconds)},
      {"decode_seconds", finite_or_null(g.decode_seconds)},
      {"ttft_seconds", any ? finite_or_null(g.ttft_seconds) : nullptr},
      {"start_to_first_token_seconds", or_null(stats.start_to_first_token_seconds)},
      {"prefill_tokens_per_second", or_null(stats.prefill_tokens_per_second())},
      {"decode_tokens_per_second", or_null(stats.decode_tokens_per_second())},
      {"speculation_active", false},
      {"rounds", g.counters.rounds},
      {"drafted_tokens", 0},
      {"accepted_tokens", 0},
      {"compression_rate", or_null(stats.compression_rate())},
      {"mean_exit_layer", nullptr},
      // Plain decoding is what ran, so its rate is known; there is no speed-up to speak of.
      {"plain_tokens_per_second", or_null(stats.decode_tokens_per_second())},
      {"speedup", nullptr},
  };
  // A path need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace specbound
