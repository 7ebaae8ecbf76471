#include "gui/view/layer_map_view.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "gui/view/fonts.h"
#include "gui/view/map_shapes.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

constexpr float kNarrowest = 8, kWidest = 150;  // points of a cell
constexpr float kZoomStep = 1.4f;               // of a button
constexpr float kBarBand = 20, kMiniStep = 2;   // of the map of the whole reply
// Likewise, of a cell: several layers share one rather than that it is lower than the least.
constexpr float kLeast = 12, kHighest = 26, kLaneGap = 5;

const char* kCaption =
    "A column is a token, a row a layer of the network: a token comes in at the top and goes down. "
    "Where a layer is sure enough, it leaves early as a draft; then all drafts of a round are "
    "checked by the last layer together, in one go.";

std::string summary(const ReplyTrace& reply) {
  int accepted = 0, rejected = 0;
  for (const DraftCount& count : reply.drafts_at) {
    accepted += count.accepted;
    rejected += count.rejected;
  }
  return format("%zu tokens: %d drafted right, %d drafted wrong, %d from the last layer",
                reply.columns.size(), accepted, rejected, reply.verified);
}

bool small_button(const char* label, const char* help, Probe& probe, const char* name) {
  const bool pressed = ImGui::SmallButton(label);
  probe.item(name);
  tooltip(help);
  return pressed;
}

constexpr float kLegibleWidth = 30;  // points; in cells from here on there are letters
// Heights in points, over and under the cells.
constexpr float kMapRoundBand = 20, kMapTextBand = 24;

// Left of the cells, with the font that is chosen.
float gutter_width() {
  return ImGui::CalcTextSize("before").x + theme().px(18);
}

}  // namespace

void LayerMapView::draw(AppState& state, Probe& probe, const ReplyTrace* reply, ImVec2 size) {
  if (hovering_) state.hovered.reset();
  hovering_ = false;
  if (reply && reply->id != shown_) {
    shown_ = reply->id;
    scroll_.reset();
  }
  const float top = ImGui::GetCursorPosY();
  draw_header(reply, probe);
  ImGui::PushFont(fonts().small);
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const float under_header = size.y - (ImGui::GetCursorPosY() - top);
  const float caption = ImGui::CalcTextSize(kCaption, nullptr, false, size.x).y + gap;
  const float legend = map_legend_height(size.x) + gap;
  const int rows = reply ? map_layers(*reply) - first_map_layer(*reply) + 1 : 8;
  const float bands = theme().px(kMapRoundBand + kMapTextBand + kBarBand + kLaneGap + 4);
  // Letters in the cells are worth more than the sentence on top, which is also under the question
  // mark; without the legend they say nothing.
  const float letters = std::ceil(ImGui::GetFontSize()) + theme().px(1);
  const float readable = bands + static_cast<float>(rows) * letters;
  if (under_header - legend - caption >= readable) draw_caption(size.x);
  const float left = size.y - (ImGui::GetCursorPosY() - top) - legend;
  const ImVec2 room = {size.x, std::max(left, theme().px(60))};
  wanted_ = needed_ = 0;
  if (reply && !reply->columns.empty()) {
    draw_map(state, probe, *reply, room);
    wanted_ = size.y - room.y + bands + theme().px(kHighest) * static_cast<float>(rows);
    needed_ = size.y - under_header + legend + readable;
  } else {
    draw_empty(state, room);
  }
  draw_map_legend();
  probe.item("map.legend");
  ImGui::PopFont();
}

void LayerMapView::draw_caption(float width) const {
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width);
  colored_text(kCaption, theme().dim);
  ImGui::PopTextWrapPos();
}

void LayerMapView::draw_header(const ReplyTrace* reply, Probe& probe) {
  ImGui::PushFont(fonts().heading);
  ImGui::TextUnformatted("Layer map");
  ImGui::PopFont();
  if (!reply || reply->columns.empty()) return;
  ImGui::SameLine();
  const float buttons = ImGui::CalcTextSize("Newest - + ?").x +
                        8 * ImGui::GetStyle().FramePadding.x + 3 * ImGui::GetStyle().ItemSpacing.x;
  const float end = ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x;
  ImGui::PushFont(fonts().small);
  const std::string text = summary(*reply);
  const float text_end = ImGui::GetCursorPosX() + ImGui::CalcTextSize(text.c_str()).x;
  if (text_end + buttons < end) {
    ImGui::AlignTextToFramePadding();
    colored_text(text, theme().dim);
    ImGui::SameLine();
  }
  probe.value("map.summary", text);
  ImGui::SetCursorPosX(std::max(ImGui::GetCursorPosX(), end - buttons));
  const bool following = scroll_.following();
  if (following) ImGui::PushStyleVar(ImGuiStyleVar_Alpha, 0.45f);
  if (small_button("Newest", "Go to the newest token and stay there", probe, "map.newest")) {
    scroll_.follow();
  }
  if (following) ImGui::PopStyleVar();
  ImGui::SameLine();
  if (small_button("-", "Narrower cells (Ctrl and the mouse wheel)", probe, "map.narrower")) {
    zoom_by(1 / kZoomStep, view_width_ / 2);
  }
  ImGui::SameLine();
  if (small_button("+", "Wider cells (Ctrl and the mouse wheel)", probe, "map.wider")) {
    zoom_by(kZoomStep, view_width_ / 2);
  }
  ImGui::SameLine();
  ImGui::SmallButton("?");
  probe.item("map.help");
  if (ImGui::IsItemHovered()) {
    const float width = theme().px(420);
    ImGui::SetNextWindowSize({width + 2 * ImGui::GetStyle().WindowPadding.x, 0});
    ImGui::BeginTooltip();
    draw_caption(width);
    draw_map_legend();
    ImGui::EndTooltip();
  }
  ImGui::PopFont();
}

void LayerMapView::draw_empty(const AppState& state, ImVec2 size) const {
  const char* text = state.model_state() == ModelState::kReady
                         ? "Send a message: each token of the reply becomes a column here, and you "
                           "see at which layer it left the network."
                         : "Load a model and send a message: each token of the reply becomes a "
                           "column here, and you see at which layer it left the network.";
  placeholder(text, size, theme().px(420));
}

void LayerMapView::draw_map(AppState& state, Probe& probe, const ReplyTrace& reply, ImVec2 size) {
  const Theme& t = theme();
  Place place = lay_out(reply, size);
  if (state.reveal_in_map && state.selected && state.selected->reply == reply.id) {
    scroll_.clamp(place);
    scroll_.reveal(state.selected->index, place);
    state.reveal_in_map = false;
  }
  scroll_.clamp(place);

  const ImVec2 start = ImGui::GetCursorScreenPos();
  const float cells_height = place.height();
  draw_rounds(reply, place);
  ImGui::SetCursorScreenPos({start.x, start.y + t.px(kMapRoundBand)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::BeginChild("##cells", {size.x, cells_height}, false,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();  // not for the tooltip in it
  draw_gutter(reply, place);
  const ImVec2 clip_min = place.cells;
  const ImVec2 clip_max = {place.cells.x + place.view_width, clip_min.y + cells_height};
  ImGui::GetWindowDrawList()->PushClipRect(clip_min, clip_max, true);
  draw_cells(state, probe, reply, place);
  draw_edge(reply, place);
  draw_chosen(state, reply, place);
  ImGui::GetWindowDrawList()->PopClipRect();
  ImGui::SetCursorScreenPos(place.cells);
  ImGui::InvisibleButton("##map", {place.view_width, std::max(cells_height, 1.0f)});
  probe.rect("map.cells", clip_min, clip_max);
  take_input(state, reply, place);
  ImGui::EndChild();

  place.text_y = start.y + t.px(kMapRoundBand) + cells_height + t.px(2);
  draw_texts(state, probe, reply, place);
  ImGui::SetCursorScreenPos({place.cells.x, place.text_y});
  ImGui::InvisibleButton("##texts", {place.view_width, t.px(kMapTextBand - 2)});
  take_input(state, reply, place);
  place.bar_y = place.text_y + t.px(kMapTextBand);
  draw_bar(probe, reply, place);
  ImGui::SetCursorScreenPos(start);
  ImGui::Dummy(size);
  probe.value("map.columns", place.columns);
  probe.value("map.layers", place.n_layers);
  probe.value("map.group", place.group);
  probe.value("map.lane", place.lane() ? "yes" : "no");
  probe.value("map.cell_height", place.cell_height);
  probe.value("map.following", scroll_.following() ? "yes" : "no");
  probe.value("map.first_column", place.first_column());
}

float LayerMapView::cell_width() const {
  return std::round(theme().px(zoom_));
}

void LayerMapView::zoom_by(float factor, float x) {
  const float before = cell_width();
  zoom_ = std::clamp(zoom_ * factor, kNarrowest, kWidest);
  scroll_.zoom(cell_width() / before, x);
}

LayerMapView::Place LayerMapView::lay_out(const ReplyTrace& reply, ImVec2 size) {
  const Theme& t = theme();
  Place place;
  place.columns = static_cast<int>(reply.columns.size());
  place.first_layer = first_map_layer(reply);
  place.n_layers = map_layers(reply);
  place.cell_width = cell_width();
  const float room = size.y - t.px(kMapRoundBand + kMapTextBand + kBarBand);
  place.lane_gap = std::round(t.px(kLaneGap));
  place.fit_rows(room, t.px(kLeast), t.px(kHighest));
  const float gutter = gutter_width();
  place.view_width = view_width_ = std::max(size.x - gutter, 1.0f);
  place.cells.x = ImGui::GetCursorScreenPos().x + gutter;
  place.cells.y = ImGui::GetCursorScreenPos().y + t.px(kMapRoundBand);
  return place;
}

// Of the item drawn last: the cells or the texts.
void LayerMapView::take_input(AppState& state, const ReplyTrace& reply, const Place& place) {
  const ImGuiIO& io = ImGui::GetIO();
  const float x = io.MousePos.x - place.cells.x;
  if (ImGui::IsItemActivated()) dragged_ = false;
  if (ImGui::IsItemActive() && ImGui::IsMouseDragging(0)) {
    dragged_ = true;
    scroll_.move(-io.MouseDelta.x, place);
  }
  const auto column = place.column_at(x);
  if (ImGui::IsItemDeactivated() && !dragged_ && column && ImGui::IsItemHovered()) {
    state.select_in_map({reply.id, *column});
  }
  if (!ImGui::IsItemHovered()) return;
  if (io.MouseWheel != 0 && io.KeyCtrl) {
    zoom_by(std::pow(1.15f, io.MouseWheel), x);
  } else {
    scroll_.move(-io.MouseWheel * place.cell_width * 2, place);
  }
  if (io.MouseWheelH != 0) scroll_.move(-io.MouseWheelH * place.cell_width * 2, place);
  if (!column || dragged_) return;
  state.hovered = TokenRef{reply.id, *column};
  hovering_ = true;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(theme().px(380));
  const auto say = [](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      use_glyphs(line);
      ImGui::TextUnformatted(line.c_str());
    }
  };
  say(describe_token(reply, *column, place.n_layers));
  if (const auto row = place.row_at(io.MousePos.y - place.cells.y)) {
    const int first = place.first_of(*row), last = place.last_of(*row);
    const int layer = map_group(reply, *column, first, last, place.n_layers).layer;
    ImGui::Separator();
    if (first < last) say({format("Layers %d to %d, of which %d:", first, last, layer)});
    say(describe_cell(state.trace(), reply, *column, layer, place.n_layers));
  }
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

// The whole reply in small, where not all of it is in view: each token goes down as far as it went.
void LayerMapView::draw_minimap(const ReplyTrace& reply, const Place& place, ImVec2 min,
                                ImVec2 max) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled(min, max, mixed(t.panel, t.raised, 0.7f));
  const float step = std::max(std::round(t.px(kMiniStep)), 1.0f);
  const auto column_at = [&](float x) {
    const double share = static_cast<double>(x) / place.view_width;
    return std::min(static_cast<int>(share * place.columns), place.columns);
  };
  for (float x = 0; x < place.view_width; x += step) {
    const int begin = std::min(column_at(x), place.columns - 1);
    const int end = std::max(column_at(x + step), begin + 1);
    const MiniColumn mini = mini_column(reply, begin, end, place.n_layers);
    const float depth = std::max(std::round((max.y - min.y) * mini.depth), t.px(2));
    list->AddRectFilled({min.x + x, min.y},
                        {std::min(min.x + x + step, max.x), std::min(min.y + depth, max.y)},
                        kind_color(mini.kind));
  }
}

void LayerMapView::draw_bar(Probe& probe, const ReplyTrace& reply, const Place& place) {
  if (place.max_scroll() <= 0) return;
  const Theme& t = theme();
  const float height = t.px(kBarBand - 6);
  const ImVec2 min = {place.cells.x, place.bar_y}, max = {min.x + place.view_width, min.y + height};
  const double shown = place.view_width / place.width();
  const float thumb = std::max(static_cast<float>(shown * place.view_width), t.px(24));
  const float path = std::max(place.view_width - thumb, 1.0f);
  const float left = min.x + static_cast<float>(place.scroll / place.max_scroll()) * path;
  ImGui::SetCursorScreenPos(min);
  ImGui::InvisibleButton("##bar", {place.view_width, height});
  probe.item("map.bar");
  if (ImGui::IsItemActive()) {
    const float at = ImGui::GetIO().MousePos.x - min.x - thumb / 2;
    scroll_.set(std::clamp(at / path, 0.0f, 1.0f) * place.max_scroll(), place);
  }
  draw_minimap(reply, place, min, max);
  ImDrawList* list = ImGui::GetWindowDrawList();
  const bool hot = ImGui::IsItemHovered() || ImGui::IsItemActive();
  list->AddRectFilled({left, min.y}, {left + thumb, max.y}, faded(t.text, hot ? 0.35f : 0.2f),
                      t.px(2));
  list->AddRect({left, min.y}, {left + thumb, max.y}, t.text, t.px(2), 0, t.px(1.5f));
}

// The layers' numbers; those that exit heads look at have a dot.
void LayerMapView::draw_gutter(const ReplyTrace& reply, const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const auto& settings = reply.newest_settings().settings;
  const float font = ImGui::GetFontSize();
  const int every = std::max(1, static_cast<int>(std::ceil(font * 0.9f / place.cell_height)));
  const int rows = place.rows();
  for (int row = 0; row < rows; ++row) {
    const float y = place.cells.y + place.row_y(row) + place.cell_height / 2;
    const int first = place.first_of(row), last = place.last_of(row);
    const auto in_row = [&](int layer) { return layer >= first && layer <= last; };
    const bool checked = settings && std::ranges::any_of(settings->check_layers, in_row);
    if (checked) {
      list->AddCircleFilled({place.cells.x - t.px(7), y},
                            std::min(t.px(2.5f), place.cell_height / 3), t.exit);
    }
    if ((rows - 1 - row) % every != 0 && first > 0) continue;
    const std::string text = first == 0     ? "before"
                             : first < last ? format("%d-%d", first, last)
                                            : std::to_string(first);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    list->AddText({place.cells.x - t.px(14) - width, std::round(y - font / 2)},
                  checked || row + 1 == rows ? t.text : t.dim, text.c_str());
  }
}

// A bracket over the tokens that came out of one round.
void LayerMapView::draw_rounds(const ReplyTrace& reply, const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float y = place.cells.y - t.px(kMapRoundBand), line = place.cells.y - t.px(4);
  list->AddText({place.cells.x - gutter_width(), y}, t.dim, "layer");
  const float right = place.cells.x + place.view_width;
  list->PushClipRect({place.cells.x, y}, {right, place.cells.y}, true);
  for (const RoundSpan& span : round_spans(reply, place.first_column(), place.end_column())) {
    const float x0 = place.cells.x + place.x(span.begin) + t.px(2);
    const float x1 = place.cells.x + place.x(span.end) - t.px(3);
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
                              const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const bool labels =
      place.cell_width >= t.px(kLegibleWidth) && place.cell_height >= ImGui::GetFontSize() * 0.95f;
  const float gap = place.cell_height >= t.px(9) ? std::round(t.px(1)) : 0;
  for (int column = place.first_column(); column < place.end_column(); ++column) {
    const float x = place.cells.x + place.x(column);
    for (int row = 0; row < place.rows(); ++row) {
      const int first = place.first_of(row);
      const float y = place.cells.y + place.row_y(row);
      const ImVec2 min = {x, y};
      const ImVec2 max = {x + place.cell_width - gap, y + place.cell_height - gap};
      if (!ImGui::IsRectVisible(min, max)) continue;
      const MapGroup group = map_group(reply, column, first, place.last_of(row), place.n_layers);
      draw_cell(list, min, max, group.cell,
                labels ? cell_label(state.trace(), reply, column, group.layer) : std::string());
      if (probe.on()) probe.rect(format("map.cell.%d.%d", column, first), min, max);
    }
  }
}

// The text itself, tinted by how each token came about.
void LayerMapView::draw_texts(const AppState& state, Probe& probe, const ReplyTrace& reply,
                              const Place& place) const {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float bottom = place.text_y + t.px(kMapTextBand - 4);
  const float text_y =
      std::round(place.text_y + (t.px(kMapTextBand - 4) - ImGui::GetFontSize()) / 2);
  list->AddText({place.cells.x - gutter_width(), text_y}, t.dim, "text");
  list->PushClipRect({place.cells.x, place.text_y}, {place.cells.x + place.view_width, bottom},
                     true);
  for (int column = place.first_column(); column < place.end_column(); ++column) {
    const Column& c = reply.columns[column];
    const float x = place.cells.x + place.x(column), end = x + place.cell_width - t.px(1);
    const ImU32 color = kind_color(c.kind());
    const bool chosen = state.selected == TokenRef{reply.id, column};
    list->AddRectFilled({x, place.text_y}, {end, bottom}, faded(color, chosen ? 0.5f : 0.2f),
                        t.px(2));
    list->AddRectFilled({x, bottom - t.px(2)}, {end, bottom}, color);
    if (place.cell_width >= t.px(kLegibleWidth)) {
      const std::string text = c.token.ends_reply ? "(end)" : short_text(c.token.text);
      draw_cut_text(list, {x + t.px(5), text_y}, end - t.px(2), t.text, text);
    }
    if (probe.on()) probe.rect(format("map.text.%d", column), {x, place.text_y}, {end, bottom});
  }
  list->PopClipRect();
}

// The line along which tokens leave the network.
void LayerMapView::draw_edge(const ReplyTrace& reply, const Place& place) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float thickness = theme().px(2);
  std::optional<float> before;
  for (int column = place.first_column(); column < place.end_column(); ++column) {
    const Column& c = reply.columns[column];
    const int layer = c.kind() == TokenKind::kAccepted ? c.token.exit_layer : place.n_layers;
    const float x = place.cells.x + place.x(column);
    const float y =
        place.cells.y + place.row_y(place.row_of(layer)) + place.cell_height - thickness / 2;
    if (before && *before != y) {
      list->AddLine({x - thickness / 4, *before}, {x - thickness / 4, y}, theme().exit, thickness);
    }
    list->AddLine({x, y}, {x + place.cell_width, y}, theme().exit, thickness);
    before = y;
  }
}

// The columns that are pointed at and selected.
void LayerMapView::draw_chosen(const AppState& state, const ReplyTrace& reply,
                               const Place& place) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const auto outline = [&](const std::optional<TokenRef>& token, ImU32 color, float points) {
    if (!token || token->reply != reply.id) return;
    if (token->index < place.first_column() || token->index >= place.end_column()) return;
    const float x = place.cells.x + place.x(token->index), in = theme().px(points) / 2;
    list->AddRect({x + in, place.cells.y + in},
                  {x + place.cell_width - in, place.cells.y + place.height() - in}, color, 0, 0,
                  theme().px(points));
  };
  outline(state.hovered, theme().dim, 1.5f);
  outline(state.selected, theme().text, 2.5f);
}

}  // namespace specbound::gui
