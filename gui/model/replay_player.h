// Plays a trace file: its events come again, as fast as they were recorded or slower, into a
// TraceModel and a conversation of their own, so that chat and map show them like a live reply. No
// drawing, no clock: whoever draws says what time it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/model/conversation.h"
#include "gui/model/trace_model.h"
#include "trace/trace_reader.h"

namespace specbound::gui {

class ReplayPlayer {
 public:
  // What a replay's replies are called: no live reply has such an id.
  static constexpr uint64_t kFirstReply = uint64_t{1} << 62;
  // Parts of the recorded speed.
  static constexpr float kSpeeds[] = {0.01f, 0.02f, 0.05f, 0.1f, 0.2f, 0.5f, 1.0f, 2.0f, 5.0f};

  // `name`: of the file, to be shown. Throws Error for a trace with no reply in it.
  ReplayPlayer(std::shared_ptr<const RecordedTrace> trace, const std::string& name);

  const std::string& name() const { return name_; }
  const TraceHeader& header() const { return trace_->header; }
  TraceModel& trace() { return model_; }
  const TraceModel& trace() const { return model_; }
  // Replies only: a trace does not hold what was asked.
  const Conversation& conversation() const { return conversation_; }

  // ---- where it is ----
  int rounds() const { return static_cast<int>(steps_.size()); }             // of all replies
  int round() const { return next_; }                                        // that were played
  double seconds() const { return steps_.empty() ? 0 : steps_.back().end; }  // recorded, at speed 1
  double time() const { return time_; }
  bool at_end() const { return next_ == rounds(); }
  // The token that stepping has come to: the newest one unless a step stopped before it.
  std::optional<TokenRef> cursor() const;

  // ---- moving ----
  bool playing() const { return playing_; }
  void play();  // from the beginning where it is at the end
  void pause() { playing_ = false; }
  // Once a frame; what was due until then comes. The first call after play() only sets the clock.
  void advance(double now);
  void seek(int round);     // as if this many had been played
  void step_round(int by);  // each of these pauses
  void step_token(int by);
  float speed() const { return speed_; }
  void set_speed(float speed) { speed_ = speed; }

 private:
  struct Step {
    int reply;
    int round;   // index among its rounds
    double end;  // seconds of decoding in all replies until its end
  };

  void start();
  void play_step();
  void begin_reply(uint64_t id, const TraceReply& settings);

  std::string name_;
  std::shared_ptr<const RecordedTrace> trace_;
  std::vector<Step> steps_;
  TraceModel model_;
  Conversation conversation_;

  int next_ = 0;            // step
  int held_ = 0;            // tokens of the newest round that a step has not come to
  size_t next_change_ = 0;  // of the settings of the newest reply
  double reply_start_ = 0;  // seconds in all replies before the newest one
  double time_ = 0;
  bool playing_ = false;
  std::optional<double> clock_;
  float speed_ = 1;
};

}  // namespace specbound::gui
