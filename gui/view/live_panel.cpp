#include "gui/view/live_panel.h"

#include <imgui.h>

#include <algorithm>

#include "gui/model/replay_player.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kRoomForBoth = 470;  // points of height

}  // namespace

void LivePanel::draw(AppState& state, Probe& probe) {
  replay_.draw(state, probe);
  const ReplayPlayer* replay = state.replay();
  const bool playing = replay && replay->playing();
  if (playing && !playing_) map_.follow();
  playing_ = playing;
  const ReplyTrace* reply = focus_.choose(state.trace(), state.focus_reply(), state.selected);
  if (ImGui::GetContentRegionAvail().y >= theme().px(kRoomForBoth)) {
    draw_both(state, probe, reply);
  } else {
    draw_one(state, probe, reply);
  }
}

void LivePanel::draw_both(AppState& state, Probe& probe, const ReplyTrace* reply) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float grip = theme().px(9), gap = 2 * ImGui::GetStyle().ItemSpacing.y;
  const float heights = room.y - grip - gap;
  state.set_guessing(true);
  const float before = ImGui::GetCursorPosY();
  float height = heights * map_share_;
  if (map_.wanted_height() > 0) height = std::min(height, map_.wanted_height());
  map_.draw(state, probe, reply, {room.x, height});
  ImGui::SetCursorPosY(before + height);

  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::InvisibleButton("##grip", {room.x, grip});
  probe.item("map.grip");
  if (ImGui::IsItemHovered() || ImGui::IsItemActive()) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeNS);
  }
  if (ImGui::IsItemActive()) {
    map_share_ = std::clamp((height + ImGui::GetIO().MouseDelta.y) / heights, 0.3f, 0.8f);
  }
  const ImVec2 middle = {at.x + room.x / 2, at.y + grip / 2};
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddLine({at.x, middle.y}, {at.x + room.x, middle.y}, theme().border, theme().px(1));
  list->AddRectFilled({middle.x - theme().px(16), middle.y - theme().px(2)},
                      {middle.x + theme().px(16), middle.y + theme().px(2)}, theme().faint,
                      theme().px(2));
  draw_plots(state, probe, reply);
}

void LivePanel::draw_one(AppState& state, Probe& probe, const ReplyTrace* reply) {
  const auto choice = [&](const char* label, bool plots, const char* name) {
    if (ImGui::RadioButton(label, on_plots_ == plots)) on_plots_ = plots;
    probe.item(name);
  };
  choice("Map", false, "map.show");
  ImGui::SameLine();
  choice("Plots", true, "plots.show");
  state.set_guessing(!on_plots_);
  if (on_plots_) {
    draw_plots(state, probe, reply);
  } else {
    map_.draw(state, probe, reply, ImGui::GetContentRegionAvail());
  }
}

void LivePanel::draw_plots(AppState& state, Probe& probe, const ReplyTrace* reply) {
  ImGui::BeginChild("##plots", {0, 0}, false);
  plots_.draw(state.trace(), reply, probe);
  ImGui::EndChild();
}

}  // namespace specbound::gui
