#include "gui/view/live_panel.h"

#include <imgui.h>

#include <algorithm>

#include "error.h"
#include "gui/model/plots.h"
#include "gui/model/replay_player.h"
#include "gui/view/fonts.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

struct Bar {
  Probe& probe;
  float end;  // of the line
  bool first = true;

  // Goes to the next line where the item would not fit.
  void place(float width) {
    if (!first) {
      ImGui::SameLine();
      if (ImGui::GetCursorScreenPos().x + width > end) ImGui::NewLine();
    }
    first = false;
  }
  bool button(const char* label, const char* help, const char* name) {
    place(ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x);
    const bool pressed = ImGui::Button(label);
    probe.item(name);
    tooltip(help);
    return pressed;
  }
};

std::string speed_name(float speed) {
  return format("%g x", static_cast<double>(speed));
}

// A step leads to a token: the chat and the map show which.
void show_cursor(AppState& state) {
  if (const auto cursor = state.replay()->cursor()) {
    state.selected = cursor;
    state.reveal_in_map = state.reveal_in_chat = true;
  } else {
    state.selected.reset();
  }
}

constexpr float kRoomForBoth = 470, kLeastPlots = 90;  // points of height

}  // namespace

// Over the panel while a trace is replayed: play and pause, steps by round and by token, how far,
// how fast, and an end to it.
void draw_replay_bar(AppState& state, Probe& probe) {
  ReplayPlayer* replay = state.replay();
  if (!replay) return;
  const float left = ImGui::GetCursorScreenPos().x, width = ImGui::GetContentRegionAvail().x;
  use_glyphs(replay->name());
  const std::string title = "Replay of " + replay->name();
  ImGui::PushTextWrapPos();
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopTextWrapPos();
  Bar bar{probe, left + width};
  if (replay->playing()) {
    if (bar.button("Pause", "Hold it here", "replay.play")) replay->pause();
  } else if (bar.button(replay->at_end() ? "Play again" : "Play",
                        "Play the recorded rounds as they came", "replay.play")) {
    replay->play();
    state.selected.reset();  // the newest token is what is looked at from here on
  }
  bool stepped = false;
  const auto step = [&](const char* label, const char* help, const char* name,
                        void (ReplayPlayer::*move)(int), int by) {
    if (!bar.button(label, help, name)) return;
    (replay->*move)(by);
    stepped = true;
  };
  step("< token", "One token back", "replay.token_back", &ReplayPlayer::step_token, -1);
  step("token >", "The next token", "replay.token", &ReplayPlayer::step_token, 1);
  step("< round", "One round back", "replay.round_back", &ReplayPlayer::step_round, -1);
  step("round >", "The next round: some drafts, and the check of all of them", "replay.round",
       &ReplayPlayer::step_round, 1);

  const float combo = ImGui::CalcTextSize("0.01 x").x + ImGui::GetFrameHeight() +
                      3 * ImGui::GetStyle().FramePadding.x;
  bar.place(combo);
  ImGui::SetNextItemWidth(combo);
  if (ImGui::BeginCombo("##speed", speed_name(replay->speed()).c_str())) {
    for (const float speed : ReplayPlayer::kSpeeds) {
      if (ImGui::Selectable(speed_name(speed).c_str(), speed == replay->speed())) {
        replay->set_speed(speed);
      }
    }
    ImGui::EndCombo();
  }
  probe.item("replay.speed");
  tooltip("How fast: 1 x is as recorded");
  const bool close = bar.button("Close", "Back to the conversation", "replay.close");

  int round = replay->round();
  ImGui::SetNextItemWidth(width);
  const std::string place =
      format("round %%d of %d, %s of %s", replay->rounds(), short_duration(replay->time()).c_str(),
             short_duration(replay->seconds()).c_str());
  if (ImGui::SliderInt("##seek", &round, 0, replay->rounds(), place.c_str(),
                       ImGuiSliderFlags_AlwaysClamp)) {
    replay->seek(round);
    stepped = true;
  }
  probe.item("replay.seek");
  if (!ImGui::IsItemActive()) tooltip("Drag to any round");
  if (stepped) show_cursor(state);
  probe.value("replay.round", replay->round());
  probe.value("replay.rounds", replay->rounds());
  probe.value("replay.playing", replay->playing() ? "yes" : "no");
  ImGui::Separator();
  if (close) state.close_replay();
}

void LivePanel::draw(AppState& state, Probe& probe) {
  draw_replay_bar(state, probe);
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
  if (!dragged_) {
    const float most = std::max(height, heights - theme().px(kLeastPlots));
    height = std::clamp(map_.needed_height(), height, most);
  }
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
    dragged_ = dragged_ || ImGui::GetIO().MouseDelta.y != 0;
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
