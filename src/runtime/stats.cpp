#include "runtime/stats.h"

#include <cmath>

#include "error.h"
#include "json/json_writer.h"
#include "model/exit_heads.h"
#include "trace/speedup.h"

namespace specbound {

namespace {

const std::chrono::steady_clock::time_point kStart = std::chrono::steady_clock::now();

std::optional<double> rate(double count, double seconds) {
  if (!(count > 0) || !(seconds > 0) || !std::isfinite(count / seconds)) return std::nullopt;
  return count / seconds;
}

// "1 token", "2 tokens"
std::string count(int n, const char* one) {
  return format("%d %s%s", n, one, n == 1 ? "" : "s");
}

std::string speculation_state(bool on) {
  return on ? "speculation on" : "speculation off";
}

// What speculation made of a reply, and what that is compared with.
std::string speculation_figures(const ReplyStats& stats) {
  std::string text;
  if (const auto plain = stats.plain_tokens_per_second()) {
    text +=
        format(", plain %.1f (%s)", *plain, count(stats.generated.plain_rounds, "round").c_str());
  } else {
    text += ", plain not measured yet";
  }
  if (const auto speedup = stats.speedup()) text += format(", speedup %.2fx", *speedup);
  if (const auto rate = stats.compression_rate()) text += format(", CR %.2f", *rate);
  if (const auto layer = stats.mean_exit_layer()) text += format(", mean exit layer %.1f", *layer);
  return text;
}

// Why a reply ended, and where the context was full how large it could be.
std::string stop_text(const ReplyStats& stats) {
  const std::string reason = stop_reason_name(stats.generated.stop);
  if (stats.generated.stop != StopReason::kContext || stats.n_ctx == 0) return reason;
  const std::string full = reason + format(" (n_ctx=%d is full", stats.n_ctx);
  if (stats.n_ctx >= stats.n_ctx_trained) return full + ", all that the model was trained for)";
  return full + format("; as trained up to n_ctx=%d)", stats.n_ctx_trained);
}

nlohmann::ordered_json control_figures(const Control& control) {
  const auto each_round = [&](int64_t n) {
    return or_null(rate(static_cast<double>(n), static_cast<double>(control.rounds)));
  };
  return {{"active", control.active},
          {"rounds", control.rounds},
          {"drafts_asked_per_round", each_round(control.asked)},
          {"drafts_declined_per_round", each_round(control.declined)}};
}

nlohmann::ordered_json heads_figures(const ReplyStats& stats) {
  if (stats.heads.empty()) return nullptr;
  nlohmann::ordered_json json = {{"file", stats.heads}, {"learnt_tokens", nullptr}};
  if (stats.heads_learnt > 0) json["learnt_tokens"] = stats.heads_learnt;
  return json;
}

nlohmann::ordered_json phase_seconds(const Counters& counters) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (size_t i = 0; i < kPhases; ++i) {
    json[kPhaseNames[i]] = 1e-9 * static_cast<double>(counters.ns[i]);
  }
  return json;
}

}  // namespace

std::chrono::steady_clock::time_point program_start() {
  return kStart;
}

std::optional<double> ReplyStats::decode_tokens_per_second() const {
  return rate(generated.counters.decoded_tokens, generated.decode_seconds);
}

std::optional<double> ReplyStats::prefill_tokens_per_second() const {
  return rate(generated.prefilled_tokens, generated.prefill_seconds);
}

std::optional<double> ReplyStats::compression_rate() const {
  return rate(generated.counters.decoded_tokens, generated.counters.rounds);
}

std::optional<double> ReplyStats::plain_tokens_per_second() const {
  return rate(1, generated.plain_token_seconds);
}

std::optional<double> ReplyStats::speedup() const {
  // What waits for others says nothing of drafts.
  if (!generated.speculated || generated.side_by_side > 0) return std::nullopt;
  return told_speedup(generated.counters, generated.decode_seconds, generated.plain_token_seconds,
                      generated.plain_rounds);
}

void name_heads(ReplyStats& stats, const ExitHeads* heads) {
  if (!heads || !stats.generated.speculated) return;
  stats.heads = heads->path();
  stats.heads_learnt = heads->learnt();
}

std::string stats_line(const ReplyStats& stats) {
  const GenerateStats& g = stats.generated;
  std::string line = count(g.generated_tokens, "token");
  if (const auto speed = stats.decode_tokens_per_second()) line += format(", %.1f tok/s", *speed);
  if (g.speculated) line += speculation_figures(stats);
  if (g.ttft_seconds) {
    const double ms = 1e3 * *g.ttft_seconds;
    line += format(", first after %.*f ms", ms < 10 ? 1 : 0, ms);
  }
  line += format(" | prompt %d", g.prompt_tokens);
  if (g.prefilled_tokens < g.prompt_tokens - 1) line += format(" (%d new)", g.prefilled_tokens);
  if (const auto speed = stats.prefill_tokens_per_second()) line += format(", %.0f tok/s", *speed);
  line += format(" | stop: %s | seed %llu", stop_text(stats).c_str(),
                 static_cast<unsigned long long>(stats.seed));
  if (stats.reply > 0) line += format(" reply %u", stats.reply);
  return line + " | " + speculation_state(g.speculated);
}

void TotalStats::add(const GenerateStats& reply) {
  ++replies;
  generated_tokens += reply.generated_tokens;
  prefilled_tokens += reply.prefilled_tokens;
  all.add(reply.counters);
  places.add(reply.places);
  if (reply.speculated) speculative.add(reply.counters);
  decode_seconds += reply.decode_seconds;
  prefill_seconds += reply.prefill_seconds;
}

std::string totals_line(const TotalStats& totals, size_t n_used, int n_ctx, bool speculating) {
  std::string line = format("%d %s, %s", totals.replies, totals.replies == 1 ? "reply" : "replies",
                            count(totals.generated_tokens, "token").c_str());
  if (const auto speed = rate(totals.all.decoded_tokens, totals.decode_seconds)) {
    line += format(", %.1f tok/s", *speed);
  }
  const Counters& c = totals.speculative;
  if (const auto cr = rate(c.decoded_tokens, c.rounds)) {
    line += format(" | speculative: %s, drafted %d, accepted %d, CR %.2f",
                   count(c.rounds, "round").c_str(), c.drafted_tokens, c.accepted_tokens, *cr);
  }
  line += " | prompts " + count(totals.prefilled_tokens, "token");
  if (const auto speed = rate(totals.prefilled_tokens, totals.prefill_seconds)) {
    line += format(", %.0f tok/s", *speed);
  }
  return line + format(" | context %zu of %d | ", n_used, n_ctx) + speculation_state(speculating);
}

nlohmann::ordered_json accepted_by_layer(const Counters& counters) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (size_t l = 0; l < counters.accepted_at.size(); ++l) {
    if (counters.accepted_at[l] > 0) json[std::to_string(l)] = counters.accepted_at[l];
  }
  return json;
}

std::string stats_json(const ReplyStats& stats) {
  const GenerateStats& g = stats.generated;
  const nlohmann::ordered_json json = {
      {"model", stats.model},
      {"backend", stats.backend},
      {"seed", stats.seed},
      {"reply", stats.reply},
      {"prompt_tokens", g.prompt_tokens},
      {"prefilled_tokens", g.prefilled_tokens},
      {"generated_tokens", g.generated_tokens},
      {"stop_reason", stop_reason_name(g.stop)},
      {"load_seconds", stats.load_seconds},
      {"prefill_seconds", g.prefill_seconds},
      {"decode_seconds", g.decode_seconds},
      {"ttft_seconds", or_null(g.ttft_seconds)},
      {"start_to_first_token_seconds", or_null(stats.start_to_first_token_seconds)},
      {"prefill_tokens_per_second", or_null(stats.prefill_tokens_per_second())},
      {"decode_tokens_per_second", or_null(stats.decode_tokens_per_second())},
      {"speculation_active", g.speculated},
      {"heads", heads_figures(stats)},
      {"controller", control_figures(g.control)},
      {"rounds", g.counters.rounds},
      {"drafted_tokens", g.counters.drafted_tokens},
      {"accepted_tokens", g.counters.accepted_tokens},
      {"compression_rate", or_null(stats.compression_rate())},
      {"mean_exit_layer", or_null(stats.mean_exit_layer())},
      {"plain_tokens_per_second", or_null(stats.plain_tokens_per_second())},
      {"plain_rounds", g.plain_rounds},
      {"speedup", or_null(stats.speedup())},
      {"exit_layers", accepted_by_layer(g.counters)},
      {"phase_seconds", phase_seconds(g.counters)},
  };
  // A path need not be UTF-8.
  return dump(json, 2) + "\n";
}

}  // namespace specbound
