#include "gui/view/probe.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "error.h"
#include "gui/model/frame_times.h"
#include "system/file_output.h"

namespace specbound::gui {

void Probe::rect(std::string_view name, ImVec2 min, ImVec2 max) {
  if (on_) rects_.push_back({std::string(name), min, max});
}

void Probe::item(std::string_view name) {
  if (on_ && ImGui::IsItemVisible()) rect(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}

void Probe::window(std::string_view name) {
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  rect(name, at, {at.x + size.x, at.y + size.y});
}

void Probe::value(std::string_view name, std::string_view text) {
  if (on_) values_.push_back({std::string(name), std::string(text)});
}

void Probe::value(std::string_view name, double number) {
  if (on_) value(name, format("%.9g", number));
}

void Probe::row(std::string_view list, size_t index, std::string_view text) {
  if (!on_) return;
  const std::string name = std::string(list) + "." + std::to_string(index);
  item(name);
  value(name, text);
}

const Probe::Rect* Probe::find(std::string_view name) const {
  const auto found = std::ranges::find(rects_.rbegin(), rects_.rend(), name, &Rect::name);
  return found == rects_.rend() ? nullptr : &*found;
}

const std::string* Probe::find_value(std::string_view name) const {
  const auto found = std::ranges::find(values_.rbegin(), values_.rend(), name, &Value::name);
  return found == values_.rend() ? nullptr : &found->text;
}

Probe& probe() {
  static Probe instance;
  return instance;
}

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
    write_file(path_, text, false);  // of a moment; a frame does not wait for the disk
    written_ = std::move(text);
  }
  const std::chrono::duration<double> cost = std::chrono::steady_clock::now() - start;
  next_ = now + std::clamp(20 * cost.count(), kEvery, kSeldom);
}

}  // namespace specbound::gui
