#include "gui/view/layer_map_view.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "gui/view/fonts.h"
#include "gui/view/map_shapes.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kNarrowest = 8, kWidest = 150;  // points of a cell
constexpr float kZoomStep = 1.4f;               // of a button
constexpr float kBarBand = 12;
constexpr float kLowest = 7, kHighest = 26;  // likewise

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
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", help);
  return pressed;
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
  const float bands = theme().px(kMapRoundBand + kMapTextBand + kBarBand + 4);
  // Letters in the cells are worth more than the legend, and that more than the sentence on top;
  // both are also under the question mark.
  const float readable = bands + static_cast<float>(rows) * ImGui::GetFontSize();
  const bool with_legend = under_header - legend >= readable;
  const bool with_caption = with_legend && under_header - legend - caption >= readable;
  if (with_caption) draw_caption(size.x);
  const float left = size.y - (ImGui::GetCursorPosY() - top) - (with_legend ? legend : 0);
  const ImVec2 room = {size.x, std::max(left, theme().px(60))};
  if (reply && !reply->columns.empty()) {
    draw_map(state, probe, *reply, room);
    wanted_ = size.y - room.y + bands + theme().px(kHighest) * static_cast<float>(rows);
  } else {
    draw_empty(state, room);
    wanted_ = 0;
  }
  if (with_legend) {
    draw_map_legend();
    probe.item("map.legend");
  }
  ImGui::PopFont();
}

void LayerMapView::draw_caption(float width) const {
  ImGui::PushStyleColor(ImGuiCol_Text, theme().dim);
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width);
  ImGui::TextUnformatted(kCaption);
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
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
    ImGui::PushStyleColor(ImGuiCol_Text, theme().dim);
    ImGui::TextUnformatted(text.c_str());
    ImGui::PopStyleColor();
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
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled(at, {at.x + size.x, at.y + size.y},
                      mixed(theme().panel, theme().raised, 0.3f), theme().px(4));
  const float wrap = std::min(size.x - theme().px(24), theme().px(420));
  const ImVec2 extent = ImGui::CalcTextSize(text, nullptr, false, wrap);
  const ImVec2 place = {at.x + (size.x - extent.x) / 2, at.y + (size.y - extent.y) / 2};
  list->AddText(ImGui::GetFont(), ImGui::GetFontSize(), place, theme().dim, text, nullptr, wrap);
  ImGui::Dummy(size);
}

void LayerMapView::draw_map(AppState& state, Probe& probe, const ReplyTrace& reply, ImVec2 size) {
  const Theme& t = theme();
  Place place;
  MapLayout layout = lay_out(reply, size, place);
  if (state.reveal_in_map && state.selected && state.selected->reply == reply.id) {
    scroll_.settle(layout);
    scroll_.reveal(state.selected->index, layout);
    state.reveal_in_map = false;
  }
  scroll_.settle(layout);

  const ImVec2 start = ImGui::GetCursorScreenPos();
  const float cells_height =
      std::min(place.height, size.y - t.px(kMapRoundBand + kMapTextBand + kBarBand));
  draw_rounds(reply, layout, place);
  ImGui::SetCursorScreenPos({start.x, start.y + t.px(kMapRoundBand)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::BeginChild("##cells", {size.x, cells_height}, false,
                    place.height > cells_height + 1 ? 0 : ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleVar();                               // not for the tooltip in it
  const ImVec2 inside = ImGui::GetCursorScreenPos();  // moves with vertical scrolling
  place.cells.y = inside.y;
  draw_gutter(reply, layout, place);
  const ImVec2 clip_min = {place.cells.x, inside.y + ImGui::GetScrollY()};
  const ImVec2 clip_max = {place.cells.x + layout.view_width, clip_min.y + cells_height};
  ImGui::GetWindowDrawList()->PushClipRect(clip_min, clip_max, true);
  draw_cells(state, probe, reply, layout, place);
  draw_edge(reply, layout, place);
  draw_chosen(state, reply, layout, place);
  ImGui::GetWindowDrawList()->PopClipRect();
  ImGui::SetCursorScreenPos({place.cells.x, inside.y});
  ImGui::InvisibleButton("##map", {layout.view_width, std::max(place.height, 1.0f)});
  probe.rect("map.cells", clip_min, clip_max);
  take_input(state, reply, layout, place);
  ImGui::EndChild();

  place.text_y = start.y + t.px(kMapRoundBand) + cells_height + t.px(2);
  draw_texts(state, probe, reply, layout, place);
  ImGui::SetCursorScreenPos({place.cells.x, place.text_y});
  ImGui::InvisibleButton("##texts", {layout.view_width, t.px(kMapTextBand - 2)});
  take_input(state, reply, layout, place);
  place.bar_y = place.text_y + t.px(kMapTextBand);
  draw_bar(probe, layout, place);
  ImGui::SetCursorScreenPos(start);
  ImGui::Dummy(size);
  if (probe.on()) {
    probe.value("map.columns", layout.columns);
    probe.value("map.layers", layout.n_layers);
    probe.value("map.following", scroll_.following() ? "yes" : "no");
    probe.value("map.first_column", layout.first_column());
  }
}

float LayerMapView::cell_width() const {
  return std::round(theme().px(zoom_));
}

void LayerMapView::zoom_by(float factor, float x) {
  const float before = cell_width();
  zoom_ = std::clamp(zoom_ * factor, kNarrowest, kWidest);
  scroll_.zoom(cell_width() / before, x);
}

MapLayout LayerMapView::lay_out(const ReplyTrace& reply, ImVec2 size, Place& place) {
  const Theme& t = theme();
  MapLayout layout;
  layout.columns = static_cast<int>(reply.columns.size());
  layout.first_layer = first_map_layer(reply);
  layout.n_layers = map_layers(reply);
  layout.cell_width = cell_width();
  const float room = size.y - t.px(kMapRoundBand + kMapTextBand + kBarBand);
  layout.cell_height = std::floor(std::clamp(room / layout.rows(), t.px(kLowest), t.px(kHighest)));
  place.height = layout.cell_height * static_cast<float>(layout.rows());
  const float gutter = map_gutter_width();
  const float bar = place.height > room + 1 ? ImGui::GetStyle().ScrollbarSize : 0;
  layout.view_width = view_width_ = std::max(size.x - gutter - bar, 1.0f);
  place.cells.x = ImGui::GetCursorScreenPos().x + gutter;
  place.cells.y = ImGui::GetCursorScreenPos().y + t.px(kMapRoundBand);
  return layout;
}

// Of the item drawn last: the cells or the texts.
void LayerMapView::take_input(AppState& state, const ReplyTrace& reply, const MapLayout& layout,
                              const Place& place) {
  const ImGuiIO& io = ImGui::GetIO();
  const float x = io.MousePos.x - place.cells.x;
  if (ImGui::IsItemActivated()) dragged_ = false;
  if (ImGui::IsItemActive() && ImGui::IsMouseDragging(0)) {
    dragged_ = true;
    scroll_.move(-io.MouseDelta.x, layout);
  }
  const auto column = layout.column_at(x);
  if (ImGui::IsItemDeactivated() && !dragged_ && column && ImGui::IsItemHovered()) {
    state.select_in_map({reply.id, *column});
  }
  if (!ImGui::IsItemHovered()) return;
  if (io.MouseWheel != 0 && io.KeyCtrl) {
    zoom_by(std::pow(1.15f, io.MouseWheel), x);
  } else if (ImGui::GetScrollMaxY() <= 0 || io.KeyShift) {
    scroll_.move(-io.MouseWheel * layout.cell_width * 2, layout);
  }
  if (io.MouseWheelH != 0) scroll_.move(-io.MouseWheelH * layout.cell_width * 2, layout);
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
  say(describe_token(reply, *column, layout.n_layers));
  if (const auto layer = layout.layer_at(io.MousePos.y - place.cells.y)) {
    ImGui::Separator();
    say(describe_cell(state.trace(), reply, *column, *layer, layout.n_layers));
  }
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void LayerMapView::draw_bar(Probe& probe, const MapLayout& layout, const Place& place) {
  if (layout.max_scroll() <= 0) return;
  const Theme& t = theme();
  const float height = t.px(kBarBand - 4);
  const ImVec2 min = {place.cells.x, place.bar_y},
               max = {min.x + layout.view_width, min.y + height};
  const double shown = layout.view_width / layout.width();
  const float thumb = std::max(static_cast<float>(shown * layout.view_width), t.px(24));
  const float path = std::max(layout.view_width - thumb, 1.0f);
  const float left = min.x + static_cast<float>(layout.scroll / layout.max_scroll()) * path;
  ImGui::SetCursorScreenPos(min);
  ImGui::InvisibleButton("##bar", {layout.view_width, height});
  probe.item("map.bar");
  if (ImGui::IsItemActive()) {
    const float at = ImGui::GetIO().MousePos.x - min.x - thumb / 2;
    scroll_.set(std::clamp(at / path, 0.0f, 1.0f) * layout.max_scroll(), layout);
  }
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled(min, max, faded(t.border, 0.4f), height / 2);
  list->AddRectFilled({left, min.y}, {left + thumb, max.y},
                      ImGui::IsItemHovered() || ImGui::IsItemActive() ? t.dim : t.faint,
                      height / 2);
}

}  // namespace specbound::gui
