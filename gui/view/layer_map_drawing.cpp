// The parts of the layer map's picture, each drawn for the columns that are visible.
#include <algorithm>
#include <cmath>

#include "error.h"
#include "gui/view/layer_map_view.h"
#include "gui/view/map_shapes.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kLabelWidth = 30;  // points; in cells from here on there are letters

}  // namespace

float map_gutter_width() {
  return ImGui::CalcTextSize("layer 00").x * 0.75f + theme().px(12);
}

// The layers' numbers; those that exit heads look at have a dot.
void LayerMapView::draw_gutter(const ReplyTrace& reply, const MapLayout& layout,
                               const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const auto& settings = reply.newest_settings().settings;
  const float font = ImGui::GetFontSize();
  const int every = std::max(1, static_cast<int>(std::ceil(font * 0.9f / layout.cell_height)));
  for (int layer = layout.first_layer; layer <= layout.n_layers; ++layer) {
    const float y = place.cells.y + layout.y(layer) + layout.cell_height / 2;
    const bool checked = settings && std::count(settings->check_layers.begin(),
                                                settings->check_layers.end(), layer) > 0;
    if (checked) {
      list->AddCircleFilled({place.cells.x - t.px(7), y},
                            std::min(t.px(2.5f), layout.cell_height / 3), t.exit);
    }
    if ((layout.n_layers - layer) % every != 0) continue;
    const std::string text = std::to_string(layer);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    list->AddText({place.cells.x - t.px(14) - width, std::round(y - font / 2)},
                  checked || layer == layout.n_layers ? t.text : t.dim, text.c_str());
  }
}

// A bracket over the tokens that came out of one round.
void LayerMapView::draw_rounds(const ReplyTrace& reply, const MapLayout& layout,
                               const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float y = place.cells.y - t.px(kMapRoundBand), line = place.cells.y - t.px(4);
  list->AddText({place.cells.x - map_gutter_width(), y}, t.dim, "layer");
  const float right = place.cells.x + layout.view_width;
  list->PushClipRect({place.cells.x, y}, {right, place.cells.y}, true);
  for (const RoundSpan& span : round_spans(reply, layout.first_column(), layout.end_column())) {
    const float x0 = place.cells.x + layout.x(span.begin) + t.px(2);
    const float x1 = place.cells.x + layout.x(span.end) - t.px(3);
    const int n = span.end - span.begin;
    const ImU32 color = n > 1 ? t.accent : t.faint;
    list->AddLine({x0, line}, {x1, line}, color, t.px(1.5f));
    for (const float x : {x0, x1}) list->AddLine({x, line}, {x, line + t.px(3)}, color, t.px(1.5f));
    // Over what is visible of its round.
    const float from = std::max(x0, place.cells.x), room = std::min(x1, right) - from;
    std::string text = format("round %d: %d token%s", span.round + 1, n, n == 1 ? "" : "s");
    float width = ImGui::CalcTextSize(text.c_str()).x;
    if (width > room) {
      text = format("%d", n);
      width = ImGui::CalcTextSize(text.c_str()).x;
    }
    if (width > room) continue;
    list->AddText({std::round(from + (room - width) / 2), y}, n > 1 ? t.text : t.dim, text.c_str());
  }
  list->PopClipRect();
}

void LayerMapView::draw_cells(AppState& state, Probe& probe, const ReplyTrace& reply,
                              const MapLayout& layout, const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const bool labels =
      layout.cell_width >= t.px(kLabelWidth) && layout.cell_height >= ImGui::GetFontSize() * 0.95f;
  const float gap = layout.cell_height >= t.px(9) ? std::round(t.px(1)) : 0;
  for (int column = layout.first_column(); column < layout.end_column(); ++column) {
    const float x = place.cells.x + layout.x(column);
    for (int layer = layout.first_layer; layer <= layout.n_layers; ++layer) {
      const float y = place.cells.y + layout.y(layer);
      const ImVec2 min = {x, y};
      const ImVec2 max = {x + layout.cell_width - gap, y + layout.cell_height - gap};
      if (!ImGui::IsRectVisible(min, max)) continue;
      const MapCell cell = map_cell(reply, column, layer, layout.n_layers);
      draw_cell(list, min, max, cell,
                labels ? cell_label(state.trace(), reply, column, layer) : std::string());
      if (probe.on()) probe.rect(format("map.cell.%d.%d", column, layer), min, max);
    }
  }
}

// The text itself, tinted by how each token came about.
void LayerMapView::draw_texts(const AppState& state, Probe& probe, const ReplyTrace& reply,
                              const MapLayout& layout, const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float bottom = place.text_y + t.px(kMapTextBand - 4);
  const float text_y =
      std::round(place.text_y + (t.px(kMapTextBand - 4) - ImGui::GetFontSize()) / 2);
  list->AddText({place.cells.x - map_gutter_width(), text_y}, t.dim, "text");
  list->PushClipRect({place.cells.x, place.text_y}, {place.cells.x + layout.view_width, bottom},
                     true);
  for (int column = layout.first_column(); column < layout.end_column(); ++column) {
    const Column& c = reply.columns[column];
    const float x = place.cells.x + layout.x(column), end = x + layout.cell_width - t.px(1);
    const ImU32 color = kind_color(c.kind());
    const bool chosen = state.selected == TokenRef{reply.id, column};
    list->AddRectFilled({x, place.text_y}, {end, bottom}, faded(color, chosen ? 0.5f : 0.2f),
                        t.px(2));
    list->AddRectFilled({x, bottom - t.px(2)}, {end, bottom}, color);
    if (layout.cell_width >= t.px(kLabelWidth)) {
      const std::string text = c.token.ends_reply ? "(end)" : short_text(c.token.text);
      draw_cut_text(list, {x + t.px(5), text_y}, end - t.px(2), t.text, text);
    }
    if (probe.on()) {
      probe.rect(format("map.text.%d", column), {x, place.text_y}, {end, bottom});
    }
  }
  list->PopClipRect();
}

// The line along which tokens leave the network.
void LayerMapView::draw_edge(const ReplyTrace& reply, const MapLayout& layout,
                             const Place& place) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float thickness = theme().px(2);
  std::optional<float> before;
  for (int column = layout.first_column(); column < layout.end_column(); ++column) {
    const Column& c = reply.columns[column];
    const int layer = c.kind() == TokenKind::kAccepted ? c.token.exit_layer : layout.n_layers;
    const float x = place.cells.x + layout.x(column);
    const float y = place.cells.y + layout.y(layer + 1) - thickness / 2;
    if (before && *before != y) {
      list->AddLine({x - thickness / 4, *before}, {x - thickness / 4, y}, theme().exit, thickness);
    }
    list->AddLine({x, y}, {x + layout.cell_width, y}, theme().exit, thickness);
    before = y;
  }
}

// The columns that are pointed at and selected.
void LayerMapView::draw_chosen(const AppState& state, const ReplyTrace& reply,
                               const MapLayout& layout, const Place& place) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const auto outline = [&](const std::optional<TokenRef>& token, ImU32 color, float points) {
    if (!token || token->reply != reply.id) return;
    if (token->index < layout.first_column() || token->index >= layout.end_column()) return;
    const float x = place.cells.x + layout.x(token->index), in = theme().px(points) / 2;
    list->AddRect({x + in, place.cells.y + in},
                  {x + layout.cell_width - in, place.cells.y + place.height - in}, color, 0, 0,
                  theme().px(points));
  };
  outline(state.hovered, theme().dim, 1.5f);
  outline(state.selected, theme().text, 2.5f);
}

}  // namespace specbound::gui
