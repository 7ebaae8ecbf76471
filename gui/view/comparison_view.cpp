#include "gui/view/comparison_view.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// In points.
constexpr float kBarHeight = 14, kTextHeight = 140, kNarrow = 480;
constexpr int kMostPromptLines = 4;  // of the prompt, before it scrolls
constexpr const char* kExample = "I need a table for two tonight.";

// What the person asked last in the conversation that is shown.
std::string newest_message(const AppState& state) {
  const std::vector<Message>& messages = state.conversation().messages;
  const auto found = std::find_if(messages.rbegin(), messages.rend(), [](const Message& message) {
    return message.role == ChatMessage::Role::kUser;
  });
  return found == messages.rend() ? kExample : found->text;
}

// Why the comparison cannot begin; empty if it can.
std::string hindrance(const AppState& state, bool has_prompt) {
  if (state.model_state() == ModelState::kLoading) return "The model is still loading.";
  if (state.model_state() != ModelState::kReady) return "Load a model first.";
  if (state.busy()) return "Wait for the reply under way, or stop it.";
  if (!state.drafting().possible) return "Nothing can draft: " + state.drafting().description;
  if (!has_prompt) return "Write a prompt first.";
  return state.can_compare() ? "" : "Not now.";
}

std::string state_name(ComparisonSide::State state) {
  constexpr const char* kNames[] = {"waiting for its turn", "reading the prompt", "writing",
                                    "done"};
  return kNames[static_cast<int>(state)];
}

// One side's time as a bar on the axis that both share.
void draw_side(const char* name, const char* title, const ComparisonSide& side, ImU32 color,
               Probe& probe) {
  ImGui::TextUnformatted(title);
  ImGui::SameLine();
  colored_text(side.figures.empty() ? state_name(side.state) : side.figures, theme().dim);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = {ImGui::GetContentRegionAvail().x, theme().px(kBarHeight)};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float rounding = theme().px(3);
  list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, theme().raised, rounding);
  const float filled = size.x * side.share;
  if (filled >= 1) list.AddRectFilled(at, {at.x + filled, at.y + size.y}, color, rounding);
  ImGui::Dummy(size);
  if (!probe.on()) return;
  const std::string probed = std::string("compare.") + name;
  probe.rect(probed + ".bar", at, {at.x + filled, at.y + size.y});
  probe.value(probed + ".tokens", side.tokens);
  probe.value(probed + ".seconds", side.seconds);
  probe.value(probed + ".state", state_name(side.state));
}

void draw_axis(double seconds) {
  const std::string end = duration(seconds) + " of decoding";
  colored_text("0", theme().dim);
  ImGui::SameLine(ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x -
                  ImGui::CalcTextSize(end.c_str()).x);
  colored_text(end, theme().dim);
}

}  // namespace

void ComparisonView::draw(AppState& state, Probe& probe) {
  wrapped_text(
      "One prompt, answered twice by the same model: first plainly, every token through all "
      "layers, then with speculation. The text comes out the same; watch the time.",
      theme().dim);
  draw_start(state, probe);
  const Comparison& comparison = state.comparison();
  if (comparison.plain == 0) return;
  ImGui::Spacing();
  const ComparisonSummary summary = summarize(comparison, state.live().find(comparison.plain),
                                              state.live().find(comparison.speculative));
  draw_side("plain", "Plain", summary.plain, theme().verified, probe);
  draw_side("speculative", "Speculative", summary.speculative, theme().accepted, probe);
  draw_axis(summary.axis_seconds);
  draw_result(comparison, summary, probe);
  draw_texts(comparison, probe);
}

// The prompt and the button. Until somebody writes one, the prompt is the newest message.
void ComparisonView::draw_start(AppState& state, Probe& probe) {
  if (box_.text() == suggested_) {
    const std::string newest = newest_message(state);
    if (newest != suggested_) box_.set_text(newest);
    suggested_ = newest;
  }
  const float width = ImGui::GetContentRegionAvail().x;
  box_.draw({width, box_.height(width, 2, kMostPromptLines)}, false, "The prompt to compare",
            "compare.prompt", probe);
  if (state.comparison().running) {
    if (ImGui::Button(state.stopping() ? "Stopping" : "Stop")) state.stop();
    probe.item("compare.stop");
    return;
  }
  const std::string why_not = hindrance(state, !is_blank(box_.text()));
  ImGui::BeginDisabled(!why_not.empty());
  if (accent_button("Compare")) state.compare(box_.text());
  ImGui::EndDisabled();
  probe.item("compare.start");
  if (why_not.empty()) return;
  ImGui::SameLine();
  wrapped_text(why_not, theme().dim);
}

void ComparisonView::draw_result(const Comparison& comparison, const ComparisonSummary& summary,
                                 Probe& probe) {
  if (!comparison.error.empty()) wrapped_text(comparison.error, theme().error);
  if (!summary.headline.empty()) heading(summary.headline);
  if (!summary.caution.empty()) wrapped_text(summary.caution, theme().warning);
  if (!summary.verdict.empty()) {
    wrapped_text(summary.verdict, summary.identical ? theme().good : theme().error);
    probe.item("compare.verdict");
    wrapped_text(summary.explanation, theme().dim);
  }
  if (!probe.on()) return;
  probe.value("compare.running", comparison.running ? "yes" : "no");
  if (summary.ratio) probe.value("compare.ratio", *summary.ratio);
  if (!summary.verdict.empty()) probe.value("compare.identical", summary.identical ? "yes" : "no");
}

// Side by side, or one above the other where that would be too narrow to read.
void ComparisonView::draw_texts(const Comparison& comparison, Probe& probe) {
  texts_.begin_frame();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  const bool beside = room.x >= theme().px(kNarrow);
  const float least = theme().px(kTextHeight);
  const ImVec2 size = {beside ? std::floor((room.x - gap) / 2) : room.x,
                       beside ? std::max(room.y, least) : least};
  draw_text("compare.plain.text", "Plain", comparison.plain, comparison.plain_text,
            comparison.running, size, probe);
  if (beside) ImGui::SameLine();
  draw_text("compare.speculative.text", "Speculative", comparison.speculative,
            comparison.speculative_text, comparison.running, size, probe);
}

void ComparisonView::draw_text(const char* name, const char* title, uint64_t reply,
                               const std::string& text, bool growing, ImVec2 size, Probe& probe) {
  ImGui::PushStyleColor(ImGuiCol_ChildBg, theme().background);
  ImGui::BeginChild(name, size, true);
  // Follows the text until somebody scrolls up.
  const bool follow = growing && ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;
  ImGui::TextDisabled("%s", title);
  texts_.draw(reply, text, growing, ImGui::GetContentRegionAvail().x, theme().text, {});
  if (follow) ImGui::SetScrollHereY(1);
  if (ImGui::IsWindowFocused() && ctrl_pressed('C')) texts_.mouse().copy_selected(reply, text);
  ImGui::EndChild();
  probe.item(name);
  ImGui::PopStyleColor();
}

}  // namespace specbound::gui
