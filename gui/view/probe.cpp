#include "gui/view/probe.h"

#include <algorithm>
#include <cstdio>

namespace specbound::gui {

void Probe::begin_frame() {
  rects_.clear();
  values_.clear();
}

void Probe::rect(std::string_view name, ImVec2 min, ImVec2 max) {
  if (on_) rects_.push_back({std::string(name), min, max});
}

void Probe::item(std::string_view name) {
  if (on_ && ImGui::IsItemVisible()) rect(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}

void Probe::value(std::string_view name, std::string_view text) {
  if (on_) values_.push_back({std::string(name), std::string(text)});
}

void Probe::value(std::string_view name, double number) {
  if (!on_) return;
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", number);
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

}  // namespace specbound::gui
