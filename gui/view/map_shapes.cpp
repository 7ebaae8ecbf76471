#include "gui/view/map_shapes.h"

#include <algorithm>
#include <cmath>

#include "gui/view/fonts.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

struct LegendItem {
  enum class Sample { kRamp, kCell, kEdge, kDot } sample;
  MapCell cell;
  const char* text;
};

MapCell marked(CellMark mark, float confidence) {
  MapCell cell;
  cell.mark = mark;
  cell.confidence = confidence;
  return cell;
}

MapCell looked_at() {
  MapCell cell;
  cell.confidence = 0.3f;
  cell.looked = true;
  return cell;
}

MapCell left_out() {
  MapCell cell;
  cell.skipped = true;
  return cell;
}

const LegendItem kLegend[] = {
    {LegendItem::Sample::kRamp, {}, "how sure it is, 0 to 100%"},
    {LegendItem::Sample::kCell, marked(CellMark::kAccepted, 0.8f), "drafted here, right"},
    {LegendItem::Sample::kCell, marked(CellMark::kRejected, 0.8f), "drafted here, wrong"},
    {LegendItem::Sample::kCell, marked(CellMark::kVerified, 0.8f), "from the last layer"},
    {LegendItem::Sample::kCell, looked_at(), "looked at, and on"},
    {LegendItem::Sample::kCell, left_out(), "not needed to draft"},
    {LegendItem::Sample::kEdge, {}, "where tokens leave"},
    {LegendItem::Sample::kDot, {}, "has an exit head"},
};

float sample_width(const LegendItem& item) {
  if (item.sample == LegendItem::Sample::kDot) return theme().px(6);
  return theme().px(item.sample == LegendItem::Sample::kRamp ? 48 : 24);
}

float line_height() {
  return ImGui::GetFontSize() + theme().px(6);
}

void draw_sample(ImDrawList* list, const LegendItem& item, ImVec2 at) {
  const float width = sample_width(item), height = ImGui::GetFontSize();
  const ImVec2 end = {at.x + width, at.y + height};
  if (item.sample == LegendItem::Sample::kCell) {
    draw_cell(list, at, end, item.cell, "");
  } else if (item.sample == LegendItem::Sample::kRamp) {
    constexpr int kSteps = 8;
    for (int i = 0; i < kSteps; ++i) {
      list->AddRectFilled({at.x + width * i / kSteps, at.y},
                          {at.x + width * (i + 1) / kSteps, end.y},
                          theme().confidence((i + 0.5f) / kSteps));
    }
  } else if (item.sample == LegendItem::Sample::kDot) {
    list->AddCircleFilled({at.x + width / 2, at.y + height / 2}, theme().px(2.5f), theme().exit);
  } else {
    const ImVec2 edge[] = {{at.x, at.y + height * 0.3f},
                           {at.x + width / 2, at.y + height * 0.3f},
                           {at.x + width / 2, at.y + height * 0.7f},
                           {end.x, at.y + height * 0.7f}};
    list->AddPolyline(edge, 4, theme().exit, 0, theme().px(2));
  }
}

// Calls draw(item, x, y) for each item of the legend; gives its height.
template <class F>
float lay_out_legend(float width, F draw) {
  float x = 0, y = 0;
  for (const LegendItem& item : kLegend) {
    const float item_width = sample_width(item) + theme().px(6) + ImGui::CalcTextSize(item.text).x;
    if (x > 0 && x + item_width > width) {
      x = 0;
      y += line_height();
    }
    draw(item, x, y);
    x += item_width + theme().px(14);
  }
  return y + line_height();
}

}  // namespace

ImU32 kind_color(TokenKind kind) {
  switch (kind) {
    case TokenKind::kAccepted:
      return theme().accepted;
    case TokenKind::kRejected:
      return theme().rejected;
    case TokenKind::kVerified:
      return theme().verified;
  }
  return theme().text;
}

void draw_tick(ImDrawList* list, ImVec2 center, float size, ImU32 color) {
  const float h = size / 2;
  const ImVec2 points[] = {{center.x - h, center.y},
                           {center.x - h * 0.3f, center.y + h * 0.7f},
                           {center.x + h, center.y - h * 0.7f}};
  list->AddPolyline(points, 3, color, 0, std::max(1.0f, size * 0.2f));
}

void draw_cross(ImDrawList* list, ImVec2 center, float size, ImU32 color) {
  const float h = size * 0.4f, thickness = std::max(1.0f, size * 0.2f);
  list->AddLine({center.x - h, center.y - h}, {center.x + h, center.y + h}, color, thickness);
  list->AddLine({center.x - h, center.y + h}, {center.x + h, center.y - h}, color, thickness);
}

void draw_diamond(ImDrawList* list, ImVec2 center, float size, ImU32 color) {
  const float h = size * 0.45f;
  list->AddQuadFilled({center.x, center.y - h}, {center.x + h, center.y}, {center.x, center.y + h},
                      {center.x - h, center.y}, color);
}

void draw_kind(ImDrawList* list, TokenKind kind, ImVec2 center, float size, ImU32 color) {
  if (kind == TokenKind::kAccepted) {
    draw_tick(list, center, size, color);
  } else if (kind == TokenKind::kRejected) {
    draw_cross(list, center, size, color);
  } else {
    draw_diamond(list, center, size, color);
  }
}

void draw_cell(ImDrawList* list, ImVec2 min, ImVec2 max, const MapCell& cell,
               const std::string& label) {
  const Theme& t = theme();
  const float width = max.x - min.x, height = max.y - min.y;
  ImU32 fill = mixed(t.panel, t.raised, 0.7f);
  ImU32 text = t.dim;
  if (cell.skipped) {
    fill = mixed(t.panel, t.faint, 0.22f);
    text = t.faint;
  } else if (cell.confidence) {
    fill = t.confidence(*cell.confidence);
    text = t.text_on(fill);
  }
  list->AddRectFilled(min, max, fill);
  const bool marked = cell.mark != CellMark::kNone;
  const float size = std::min(height, t.px(16)) * 0.62f;
  const bool room_for_mark = marked && width >= size + t.px(4);
  if (marked) {
    const TokenKind kind = cell.mark == CellMark::kAccepted   ? TokenKind::kAccepted
                           : cell.mark == CellMark::kRejected ? TokenKind::kRejected
                                                              : TokenKind::kVerified;
    const float thickness = std::min(t.px(2), height / 4);
    const float in = thickness / 2;
    list->AddRect({min.x + in, min.y + in}, {max.x - in, max.y - in}, kind_color(kind), 0, 0,
                  thickness);
    if (room_for_mark) {
      // On a disc of its own: the colour of a mark and that of a cell may be alike.
      const bool labelled = !label.empty();
      const ImVec2 center = {labelled ? max.x - size * 0.5f - t.px(4) : (min.x + max.x) / 2,
                             (min.y + max.y) / 2};
      list->AddCircleFilled(center, size * 0.72f, faded(t.background, 0.75f));
      draw_kind(list, kind, center, size, kind_color(kind));
    }
  } else if (cell.looked) {
    list->AddCircleFilled({min.x + t.px(4), (min.y + max.y) / 2}, std::min(t.px(1.8f), height / 4),
                          text);
  }
  if (label.empty()) return;
  const float font = ImGui::GetFontSize();
  const float left = min.x + t.px(cell.looked && !marked ? 9 : 5);
  const float right = room_for_mark ? max.x - size * 1.22f - t.px(5) : max.x - t.px(2);
  draw_cut_text(list, {left, std::round((min.y + max.y - font) / 2)}, right, text, label);
}

void draw_cut_text(ImDrawList* list, ImVec2 at, float right, ImU32 color, const std::string& text) {
  use_glyphs(text);
  const char* begin = text.data();
  const char* end = begin + text.size();
  ImFont* font = ImGui::GetFont();
  const float size = ImGui::GetFontSize(), room = right - at.x;
  const char* rest = end;
  const float width = font->CalcTextSizeA(size, room, 0, begin, end, &rest).x;
  if (rest == end && width <= room) {
    list->AddText(font, size, at, color, begin, end);
    return;
  }
  // Two dots, which every font has, take the place of what is cut.
  const float dot = font->CalcTextSizeA(size, 1e9f, 0, "..").x;
  const float kept = font->CalcTextSizeA(size, std::max(room - dot, 0.0f), 0, begin, end, &rest).x;
  if (rest == begin) return;
  list->AddText(font, size, at, color, begin, rest);
  list->AddText(font, size, {at.x + kept, at.y}, color, "..");
}

void draw_map_legend() {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = lay_out_legend(width, [&](const LegendItem& item, float x, float y) {
    const ImVec2 at = {origin.x + x, origin.y + y + theme().px(2)};
    draw_sample(list, item, at);
    list->AddText({at.x + sample_width(item) + theme().px(6), at.y}, theme().dim, item.text);
  });
  ImGui::Dummy({width, height});
}

float map_legend_height(float width) {
  return lay_out_legend(width, [](const LegendItem&, float, float) {});
}

}  // namespace specbound::gui
