// `--ui-json FILE`: what the probe knows of the frame on screen, as JSON in a file that is replaced
// whole when something changed. For programs that drive the window.
//
// {"names": {name: [left, top, right, bottom]}, "values": {name: text},
//  "frames": {"count", "work_p50_ms", "work_p99_ms", "interval_p50_ms", "interval_p99_ms"}}
#pragma once

#include <string>

namespace specbound::gui {

class FrameTimes;
class Probe;

std::string ui_json(const Probe& probe, const FrameTimes& times);

class UiJsonFile {
 public:
  // Throws Error(kFile) for a file that cannot be written. An empty name is none.
  explicit UiJsonFile(std::string path = {});
  bool on() const { return !path_.empty(); }

  // After a frame. Writing takes a twentieth of the time at most: who looks must not change much of
  // what there is to see.
  void frame(const Probe& probe, const FrameTimes& times, double now);
  // When frame() is to be called again with what it has not written yet; below 0: never.
  double due() const { return pending_ ? next_ : -1; }

  static constexpr double kEvery = 0.05, kSeldom = 0.5;  // seconds from one to the next

 private:
  std::string path_, written_;
  double next_ = 0;  // when it may be written again
  bool pending_ = false;
};

}  // namespace specbound::gui
