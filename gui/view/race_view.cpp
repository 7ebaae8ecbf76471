#include "gui/view/race_view.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "error.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// In points.
constexpr float kBarHeight = 14, kTextHeight = 140, kNarrow = 480;
constexpr int kMostLines = 4;  // of the prompt, before it scrolls
constexpr const char* kExample = "I need a table for two tonight.";

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

// What the person asked last in the conversation that is shown.
std::string newest_message(const AppState& state) {
  const std::vector<Message>& messages = state.conversation().messages;
  const auto found = std::find_if(messages.rbegin(), messages.rend(), [](const Message& message) {
    return message.role == ChatMessage::Role::kUser;
  });
  return found == messages.rend() ? kExample : found->text;
}

// Why the race cannot begin; empty if it can.
std::string hindrance(const AppState& state, bool has_prompt) {
  if (state.model_state() == ModelState::kLoading) return "The model is still loading.";
  if (state.model_state() != ModelState::kReady) return "Load a model first.";
  if (state.busy()) return "Wait for the reply under way, or stop it.";
  if (!state.drafting().possible) return "Nothing can draft: " + state.drafting().description;
  if (!has_prompt) return "Write a prompt first.";
  return state.can_race() ? "" : "Not now.";
}

const char* state_name(RaceLane::State state) {
  switch (state) {
    case RaceLane::State::kWaiting:
      return "waiting for its turn";
    case RaceLane::State::kReading:
      return "reading the prompt";
    case RaceLane::State::kRunning:
      return "writing";
    case RaceLane::State::kDone:
      break;
  }
  return "done";
}

// One side's time as a bar on the axis that both share.
void draw_lane(const char* name, const char* title, const RaceLane& lane, ImU32 color,
               Probe& probe) {
  ImGui::TextUnformatted(title);
  ImGui::SameLine();
  ImGui::PushStyleColor(ImGuiCol_Text, theme().dim);
  if (lane.figures.empty()) {
    ImGui::TextUnformatted(state_name(lane.state));
  } else {
    ImGui::TextUnformatted(lane.figures.c_str());
  }
  ImGui::PopStyleColor();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = {ImGui::GetContentRegionAvail().x, theme().px(kBarHeight)};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float rounding = theme().px(3);
  list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, theme().raised, rounding);
  const float filled = size.x * lane.share;
  if (filled >= 1) list.AddRectFilled(at, {at.x + filled, at.y + size.y}, color, rounding);
  ImGui::Dummy(size);
  if (!probe.on()) return;
  const std::string probed = std::string("race.") + name;
  probe.rect(probed + ".bar", at, {at.x + filled, at.y + size.y});
  probe.value(probed + ".tokens", lane.tokens);
  probe.value(probed + ".seconds", lane.seconds);
  probe.value(probed + ".state", state_name(lane.state));
}

void draw_axis(double seconds) {
  const std::string end = duration(seconds) + " of decoding";
  ImGui::PushStyleColor(ImGuiCol_Text, theme().dim);
  ImGui::TextUnformatted("0");
  ImGui::SameLine(ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x -
                  ImGui::CalcTextSize(end.c_str()).x);
  ImGui::TextUnformatted(end.c_str());
  ImGui::PopStyleColor();
}

}  // namespace

void RaceView::draw(AppState& state, Probe& probe) {
  wrapped_text(
      "One prompt, answered twice by the same model: first plainly, every token through all "
      "layers, then with speculation. The text comes out the same; watch the time.",
      theme().dim);
  draw_start(state, probe);
  const Race& race = state.race();
  if (race.plain == 0) return;
  ImGui::Spacing();
  const RaceSummary summary =
      summarize(race, state.trace().find(race.plain), state.trace().find(race.speculative));
  draw_lane("plain", "Plain", summary.plain, theme().verified, probe);
  draw_lane("speculative", "Speculative", summary.speculative, theme().accepted, probe);
  draw_axis(summary.axis_seconds);
  draw_result(race, summary, probe);
  draw_texts(race, probe);
}

// The prompt and the button. Until somebody writes one, the prompt is the newest message.
void RaceView::draw_start(AppState& state, Probe& probe) {
  if (box_.text() == suggested_) {
    const std::string newest = newest_message(state);
    if (newest != suggested_) box_.set_text(newest);
    suggested_ = newest;
  }
  const float width = ImGui::GetContentRegionAvail().x;
  box_.draw({width, box_.height(width, 2, kMostLines)}, false, "The prompt of the race",
            "race.prompt", probe);
  if (state.race().running) {
    if (ImGui::Button(state.stopping() ? "Stopping" : "Stop")) state.stop();
    probe.item("race.stop");
    return;
  }
  const std::string why_not = hindrance(state, !is_blank(box_.text()));
  ImGui::BeginDisabled(!why_not.empty());
  if (accent_button("Race")) state.start_race(box_.text());
  ImGui::EndDisabled();
  probe.item("race.start");
  if (why_not.empty()) return;
  ImGui::SameLine();
  wrapped_text(why_not, theme().dim);
}

void RaceView::draw_result(const Race& race, const RaceSummary& summary, Probe& probe) {
  if (!race.error.empty()) wrapped_text(race.error, theme().error);
  if (!summary.headline.empty()) {
    ImGui::PushFont(fonts().heading);
    wrapped_text(summary.headline, theme().text);
    ImGui::PopFont();
  }
  if (!summary.caution.empty()) wrapped_text(summary.caution, theme().warning);
  if (!summary.verdict.empty()) {
    wrapped_text(summary.verdict, summary.identical ? theme().good : theme().error);
    probe.item("race.verdict");
    wrapped_text(summary.explanation, theme().dim);
  }
  if (!probe.on()) return;
  probe.value("race.running", race.running ? "yes" : "no");
  if (summary.ratio) probe.value("race.ratio", *summary.ratio);
  if (!summary.verdict.empty()) probe.value("race.identical", summary.identical ? "yes" : "no");
}

// Side by side, or one above the other where that would be too narrow to read.
void RaceView::draw_texts(const Race& race, Probe& probe) {
  texts_.begin_frame();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  const bool beside = room.x >= theme().px(kNarrow);
  const float least = theme().px(kTextHeight);
  const ImVec2 size = {beside ? std::floor((room.x - gap) / 2) : room.x,
                       beside ? std::max(room.y, least) : least};
  draw_text("race.plain.text", "Plain", race.plain, race.plain_text, race.running, size, probe);
  if (beside) ImGui::SameLine();
  draw_text("race.speculative.text", "Speculative", race.speculative, race.speculative_text,
            race.running, size, probe);
}

void RaceView::draw_text(const char* name, const char* title, uint64_t reply,
                         const std::string& text, bool growing, ImVec2 size, Probe& probe) {
  ImGui::PushStyleColor(ImGuiCol_ChildBg, theme().background);
  ImGui::BeginChild(name, size, true);
  // Follows the text until somebody scrolls up.
  const bool follow = growing && ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;
  ImGui::TextDisabled("%s", title);
  texts_.draw(reply, text, growing, ImGui::GetContentRegionAvail().x, theme().text, {});
  if (follow) ImGui::SetScrollHereY(1);
  const auto selected = texts_.selection().in(reply);
  if (selected && ImGui::IsWindowFocused() && ctrl_pressed(Key::kC)) {
    const std::string_view part =
        std::string_view(text).substr(selected->begin, selected->end - selected->begin);
    ImGui::SetClipboardText(clipboard_text(part).c_str());
  }
  ImGui::EndChild();
  probe.item(name);
  ImGui::PopStyleColor();
}

}  // namespace specbound::gui
