#include "gui/view/plot_frame.h"

#include <algorithm>
#include <cmath>

#include "gui/view/fonts.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

float font_size() {
  return ImGui::GetFontSize();
}

// With the small font, which captions and axes are written in.
float caption_height(const std::string& caption, float width) {
  return ImGui::CalcTextSize(caption.c_str(), nullptr, false, width).y;
}

}  // namespace

float PlotArea::x(double value) const {
  const double share = (value - x_min) / std::max(x_max - x_min, 1e-12);
  return min.x + static_cast<float>(std::clamp(share, 0.0, 1.0)) * width();
}

float PlotArea::y(double value) const {
  const double share = std::clamp(value / std::max(y_max, 1e-12), 0.0, 1.0);
  return max.y - static_cast<float>(share) * (max.y - min.y);
}

float plot_text_height(const PlotText& text, float width) {
  ImGui::PushFont(fonts().small);
  const float height = caption_height(text.caption, width);
  ImGui::PopFont();
  return height + font_size() + theme().px(10);
}

ImVec2 begin_plot(const char* title, const PlotText& text, ImVec2 size) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float above = plot_text_height(text, size.x);
  list->AddText(at, theme().text, title);
  const float title_end = ImGui::CalcTextSize(title).x;
  const float headline = ImGui::CalcTextSize(text.headline.c_str()).x;
  if (title_end + headline + theme().px(12) < size.x) {
    list->AddText({at.x + size.x - headline, at.y}, theme().accent, text.headline.c_str());
  }
  ImGui::SetCursorScreenPos({at.x, at.y + font_size() + theme().px(4)});
  ImGui::PushFont(fonts().small);
  return {size.x, std::max(size.y - above, theme().px(30))};
}

void end_plot(const PlotText& text, ImVec2 size) {
  // The small font is still chosen.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddText(ImGui::GetFont(), font_size(), at, theme().dim,
                                      text.caption.c_str(), nullptr, size.x);
  ImGui::PopFont();
}

void draw_empty_plot(const PlotText& text, ImVec2 size) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled(at, {at.x + size.x, at.y + size.y},
                      mixed(theme().panel, theme().raised, 0.3f), theme().px(4));
  const float wrap = size.x - theme().px(24);
  const ImVec2 extent = ImGui::CalcTextSize(text.empty.c_str(), nullptr, false, wrap);
  list->AddText(ImGui::GetFont(), font_size(),
                {at.x + (size.x - extent.x) / 2, at.y + std::max(0.0f, (size.y - extent.y) / 2)},
                theme().dim, text.empty.c_str(), nullptr, wrap);
}

PlotArea plot_area(ImVec2 size, const Axis& y, const char* y_name, float right) {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  float widest = 0;
  const int steps = static_cast<int>(std::lround(y.max / y.step));
  for (int i = 0; i <= steps; ++i) {
    widest = std::max(widest, ImGui::CalcTextSize(y.label(i * y.step).c_str()).x);
  }
  PlotArea area;
  area.min = {at.x + widest + t.px(8), at.y + font_size() + t.px(6)};
  area.max = {at.x + size.x - right - t.px(4), at.y + size.y - font_size() - t.px(6)};
  area.max.x = std::max(area.max.x, area.min.x + t.px(10));
  area.max.y = std::max(area.max.y, area.min.y + t.px(10));
  area.y_max = y.max;
  list->AddText(at, t.dim, y_name);
  for (int i = 0; i <= steps; ++i) {
    const float line = std::round(area.y(i * y.step));
    list->AddLine({area.min.x, line}, {area.max.x, line}, i == 0 ? t.axis : t.grid, t.px(1));
    const std::string label = y.label(i * y.step);
    const float width = ImGui::CalcTextSize(label.c_str()).x;
    list->AddText({area.min.x - width - t.px(5), line - font_size() / 2}, t.dim, label.c_str());
  }
  return area;
}

void draw_x_label(const PlotArea& area, float x, const std::string& text, ImU32 color) {
  const float width = ImGui::CalcTextSize(text.c_str()).x;
  ImGui::GetWindowDrawList()->AddText({std::round(x - width / 2), area.max.y + theme().px(3)},
                                      color, text.c_str());
}

void draw_x_name(const PlotArea& area, const char* name) {
  const float width = ImGui::CalcTextSize(name).x;
  ImGui::GetWindowDrawList()->AddText(
      {area.max.x - width, area.min.y - font_size() - theme().px(6)}, theme().dim, name);
}

void draw_time_axis(const PlotArea& area, double seconds) {
  const double unit = seconds < 1 ? 1e3 : 1;
  const double end = seconds * unit;
  const int steps = std::clamp(static_cast<int>(area.width() / theme().px(64)), 1, 8);
  const Axis axis = round_axis(end, steps);
  const int n = static_cast<int>(end / axis.step + 1e-9);
  for (int i = 0; i <= n; ++i) {
    const float x = area.x(i * axis.step / unit);
    ImGui::GetWindowDrawList()->AddLine({x, area.max.y}, {x, area.max.y + theme().px(3)},
                                        theme().axis, theme().px(1));
    const std::string label = i == 0 ? "0" : axis.label(i * axis.step) + (unit > 1 ? " ms" : " s");
    const float half = ImGui::CalcTextSize(label.c_str()).x / 2;
    draw_x_label(area, std::min(x, area.max.x + theme().px(4) - half), label, theme().dim);
  }
}

}  // namespace specbound::gui
