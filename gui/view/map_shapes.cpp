#include "gui/view/map_shapes.h"

#include <algorithm>
#include <cmath>

#include "gui/view/fonts.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

struct LegendItem {
  enum class Sample { kRamp, kCell, kEdge, kDot } sample;
  MapCell cell;
  const char* text;
};

const LegendItem kLegend[] = {
    {LegendItem::Sample::kRamp, {}, "how sure it is, 0 to 100%"},
    {LegendItem::Sample::kCell,
     {.mark = TokenKind::kAccepted, .confidence = 0.8f},
     "drafted here, right"},
    {LegendItem::Sample::kCell,
     {.mark = TokenKind::kRejected, .confidence = 0.8f},
     "drafted here, wrong"},
    {LegendItem::Sample::kCell,
     {.mark = TokenKind::kVerified, .confidence = 0.8f},
     "from the last layer"},
    {LegendItem::Sample::kCell, {.confidence = 0.3f, .checked = true}, "checked, and on"},
    {LegendItem::Sample::kCell, {.skipped = true}, "not needed to draft"},
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

// A tick, a cross or a diamond, `size` high around `center`.
void draw_kind(ImDrawList* list, TokenKind kind, ImVec2 center, float size, ImU32 color) {
  const auto [x, y] = center;
  const float h = size / 2, c = size * 0.4f, d = size * 0.45f, line = std::max(1.0f, size * 0.2f);
  if (kind == TokenKind::kAccepted) {
    const ImVec2 tick[] = {{x - h, y}, {x - h * 0.3f, y + h * 0.7f}, {x + h, y - h * 0.7f}};
    list->AddPolyline(tick, 3, color, 0, line);
  } else if (kind == TokenKind::kRejected) {
    list->AddLine({x - c, y - c}, {x + c, y + c}, color, line);
    list->AddLine({x - c, y + c}, {x + c, y - c}, color, line);
  } else {
    list->AddQuadFilled({x, y - d}, {x + d, y}, {x, y + d}, {x - d, y}, color);
  }
}

}  // namespace

ImU32 kind_color(TokenKind kind) {
  const Theme& t = theme();
  return kind == TokenKind::kAccepted   ? t.accepted
         : kind == TokenKind::kRejected ? t.rejected
                                        : t.verified;
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
  const bool marked = cell.mark.has_value();
  const float size = std::min(height, t.px(16)) * 0.62f;
  const bool room_for_mark = marked && width >= size + t.px(4);
  if (marked) {
    const float thickness = std::min(t.px(2), height / 4);
    const float in = thickness / 2;
    list->AddRect({min.x + in, min.y + in}, {max.x - in, max.y - in}, kind_color(*cell.mark), 0, 0,
                  thickness);
    if (room_for_mark) {
      // On a disc of its own: the colour of a mark and that of a cell may be alike.
      const bool labelled = !label.empty();
      const ImVec2 center = {labelled ? max.x - size * 0.5f - t.px(4) : (min.x + max.x) / 2,
                             (min.y + max.y) / 2};
      list->AddCircleFilled(center, size * 0.72f, faded(t.background, 0.75f));
      draw_kind(list, *cell.mark, center, size, kind_color(*cell.mark));
    }
  } else if (cell.checked) {
    list->AddCircleFilled({min.x + t.px(4), (min.y + max.y) / 2}, std::min(t.px(1.8f), height / 4),
                          text);
  }
  if (label.empty()) return;
  const float font = ImGui::GetFontSize();
  const float left = min.x + t.px(cell.checked && !marked ? 9 : 5);
  const float right = room_for_mark ? max.x - size * 1.22f - t.px(5) : max.x - t.px(2);
  draw_cut_text(list, {left, std::round((min.y + max.y - font) / 2)}, right, text, label);
}

void draw_cut_text(ImDrawList* list, ImVec2 at, float right, ImU32 color, const std::string& text) {
  use_glyphs(text);
  const bool fits = ImGui::CalcTextSize(text.c_str()).x <= right - at.x;
  const std::string shown = fits ? text : fitted(text, right - at.x);
  if (fits || shown != "...") list->AddText(at, color, shown.c_str());
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
