#include "gui/model/replay_player.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "runtime/stats.h"

namespace specbound::gui {

namespace {

constexpr double kLongestFrame =
    0.25;                         // seconds: after a pause of the window it goes on from there
constexpr double kReadable = 25;  // tokens a second that an eye can follow

// By its name in a file, which may claim anything.
std::optional<StopReason> stop_reason(const std::string& name) {
  for (const StopReason reason : {StopReason::kEnd, StopReason::kStopString, StopReason::kLength,
                                  StopReason::kContext, StopReason::kAborted}) {
    if (name == stop_reason_name(reason)) return reason;
  }
  return std::nullopt;
}

// The statistics line of a recorded reply; empty where the file ends before it did.
std::string figures(const RecordedReply& reply) {
  const std::optional<StopReason> stop = reply.end ? stop_reason(reply.end->stop) : std::nullopt;
  if (!stop) return "";
  const TraceEnd& end = *reply.end;
  ReplyStats stats;
  stats.seed = reply.reply.seed;
  stats.reply = reply.reply.regen;
  GenerateStats& g = stats.generated;
  g.prompt_tokens = reply.reply.prompt_tokens;
  g.prefilled_tokens = end.prefilled_tokens;
  g.generated_tokens = end.generated_tokens;
  g.prefill_seconds = end.prefill_seconds;
  g.ttft_seconds = end.ttft_seconds;
  g.decode_seconds = end.decode_seconds;
  g.speculated = reply.reply.speculator != "none";
  g.counters = end.counters;
  g.plain_token_seconds = end.plain_token_seconds;
  g.plain_rounds = end.plain_rounds;
  g.stop = *stop;
  return stats_line(stats);
}

}  // namespace

ReplayPlayer::ReplayPlayer(std::shared_ptr<const RecordedTrace> trace, const std::string& name)
    : name_(name), trace_(std::move(trace)) {
  double seconds = 0;
  int64_t tokens = 0;
  for (size_t r = 0; r < trace_->replies.size(); ++r) {
    const std::vector<RoundRecord>& rounds = trace_->replies[r].rounds;
    for (size_t i = 0; i < rounds.size(); ++i) {
      seconds += 1e-9 * static_cast<double>(std::max<int64_t>(rounds[i].total_ns(), 0));
      tokens += static_cast<int64_t>(rounds[i].tokens.size());
      steps_.push_back({static_cast<int>(r), static_cast<int>(i), seconds});
    }
  }
  if (steps_.empty()) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected a trace with a reply in it, found none; `specbound chat "
                       "--trace FILE` writes one while it talks",
                       printable(name).c_str()));
  }
  for (const float speed : kSpeeds) {
    if (speed <= 1 && (speed == kSpeeds[0] || tokens * speed <= kReadable * seconds)) {
      speed_ = speed;
    }
  }
  model_.set_model(trace_->header.n_layers);
  conversation_.title = "Replay of " + name_;
  start();
}

std::optional<TokenRef> ReplayPlayer::cursor() const {
  const ReplyTrace* reply = model_.newest();
  if (!reply || reply->columns.empty()) return std::nullopt;
  return TokenRef{reply->id, static_cast<int>(reply->columns.size()) - 1 - held_};
}

void ReplayPlayer::play() {
  if (at_end() && held_ == 0) start();
  held_ = 0;
  playing_ = true;
  clock_.reset();
}

void ReplayPlayer::advance(double now) {
  if (!playing_) return;
  if (clock_) time_ += std::clamp(now - *clock_, 0.0, kLongestFrame) * speed_;
  clock_ = now;
  while (!at_end() && steps_[next_].end <= time_) play_step();
  if (at_end()) {
    time_ = seconds();
    playing_ = false;
  }
}

void ReplayPlayer::seek(int round) {
  const int target = std::clamp(round, 0, rounds());
  if (target < next_) start();
  while (next_ < target) play_step();
  held_ = 0;
  time_ = next_ > 0 ? steps_[next_ - 1].end : 0;
  clock_.reset();
}

void ReplayPlayer::step_round(int by) {
  pause();
  seek(next_ + std::clamp(by, -rounds(), rounds()));
}

void ReplayPlayer::step_token(int by) {
  pause();
  for (; by > 0; --by) {
    if (held_ > 0) {
      --held_;
    } else if (at_end()) {
      break;
    } else {
      seek(next_ + 1);
      const Step& step = steps_[next_ - 1];
      held_ = static_cast<int>(trace_->replies[step.reply].rounds[step.round].tokens.size()) - 1;
    }
  }
  for (; by < 0 && next_ > 0; ++by) {
    const Step& step = steps_[next_ - 1];
    const auto tokens = trace_->replies[step.reply].rounds[step.round].tokens.size();
    if (held_ + 1 < static_cast<int>(tokens)) {
      ++held_;
    } else {
      seek(next_ - 1);
    }
  }
}

// Back to before the first round.
void ReplayPlayer::start() {
  model_.clear();
  conversation_.messages.clear();
  next_ = 0;
  held_ = 0;
  time_ = 0;
  clock_.reset();
}

void ReplayPlayer::play_step() {
  const Step& step = steps_[next_];
  const RecordedReply& reply = trace_->replies[step.reply];
  const RoundRecord& round = reply.rounds[step.round];
  const uint64_t id = kFirstReply + static_cast<uint64_t>(step.reply);
  if (step.round == 0) begin_reply(id, reply.reply);
  while (next_change_ < reply.changes.size() && reply.changes[next_change_].round <= round.round) {
    model_.apply_settings(id, reply.changes[next_change_++].reply);
  }
  model_.round(id, round, step.end - reply_start_);
  Message& message = conversation_.messages.back();
  for (const TokenRecord& token : round.tokens) {
    const bool first = message.token_ends.empty();
    std::string_view text = token.ends_reply ? std::string_view() : token.text;
    // The space that a vocabulary puts in front is not shown in a live reply either.
    if (first && text.starts_with(' ')) text.remove_prefix(1);
    message.text += text;
    message.token_ends.push_back(message.text.size());
  }
  ++next_;
  held_ = 0;
  if (step.round + 1 < static_cast<int>(reply.rounds.size())) return;
  model_.end_reply(id, reply.end ? reply.end->stop : "cut off");
  message.figures = figures(reply);
}

void ReplayPlayer::begin_reply(uint64_t id, const TraceReply& settings) {
  reply_start_ = next_ > 0 ? steps_[next_ - 1].end : 0;
  next_change_ = 0;
  model_.begin_reply(id, settings);
  Message message;
  message.role = ChatMessage::Role::kAssistant;
  message.number = settings.regen;
  message.reply = id;
  conversation_.messages.push_back(std::move(message));
}

}  // namespace specbound::gui
