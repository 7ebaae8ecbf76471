#include "gui/window/ui_json.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "app/file_output.h"
#include "gui/model/frame_times.h"
#include "gui/view/probe.h"

namespace specbound::gui {

std::string ui_json(const Probe& probe, const FrameTimes& times) {
  using nlohmann::json;
  json names = json::object(), values = json::object();
  for (const Probe::Rect& r : probe.rects()) {
    names[r.name] = {r.min.x, r.min.y, r.max.x, r.max.y};
  }
  for (const Probe::Value& v : probe.values()) values[v.name] = v.text;
  const json all = {{"names", names},
                    {"values", values},
                    {"frames",
                     {{"count", times.frames()},
                      {"work_p50_ms", times.work(0.5) * 1e3},
                      {"work_p99_ms", times.work(0.99) * 1e3},
                      {"interval_p50_ms", times.interval(0.5) * 1e3},
                      {"interval_p99_ms", times.interval(0.99) * 1e3}}}};
  // Tokens are bytes, and need not be UTF-8.
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

UiJsonFile::UiJsonFile(std::string path) : path_(std::move(path)) {
  if (on()) check_writable(path_);
}

void UiJsonFile::frame(const Probe& probe, const FrameTimes& times, double now) {
  if (!on()) return;
  pending_ = now < next_;
  if (pending_) return;
  const auto start = std::chrono::steady_clock::now();
  std::string text = ui_json(probe, times);
  if (text != written_) {
    write_file(path_, text);
    written_ = std::move(text);
  }
  const std::chrono::duration<double> cost = std::chrono::steady_clock::now() - start;
  next_ = now + std::clamp(20 * cost.count(), kEvery, kSeldom);
}

}  // namespace specbound::gui
