#include "gui/view/replay_bar.h"

#include <imgui.h>

#include "error.h"
#include "gui/model/plots.h"
#include "gui/model/replay_player.h"
#include "gui/view/fonts.h"
#include "gui/view/theme.h"

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
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", help);
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

}  // namespace

void ReplayBar::draw(AppState& state, Probe& probe) {
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
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("How fast: 1 x is as recorded");
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
  if (ImGui::IsItemHovered() && !ImGui::IsItemActive()) ImGui::SetTooltip("Drag to any round");
  if (stepped) show_cursor(state);
  if (probe.on()) {
    probe.value("replay.round", replay->round());
    probe.value("replay.rounds", replay->rounds());
    probe.value("replay.playing", replay->playing() ? "yes" : "no");
  }
  ImGui::Separator();
  if (close) state.close_replay();
}

}  // namespace specbound::gui
