#include "gui/view/learning_view.h"

#include <imgui.h>

#include <string>

#include "error.h"
#include "gui/model/file_list.h"
#include "gui/view/fonts.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

constexpr const char *kBegin = "Make it faster", *kNever = "Do not ask again";

// A click while a reply is under way would wait for its end without a word.
bool learning_button(const char* label, bool accent, bool busy) {
  ImGui::BeginDisabled(busy);
  const bool pressed = accent ? accent_button(label) : ImGui::Button(label);
  ImGui::EndDisabled();
  if (busy) tooltip("Once the reply is done.");
  return pressed;
}

void draw_share(double share) {
  const Theme& t = theme();
  ImGui::PushStyleColor(ImGuiCol_PlotHistogram, t.accent);
  ImGui::ProgressBar(static_cast<float>(share), {ImGui::GetContentRegionAvail().x, t.px(6)}, "");
  ImGui::PopStyleColor();
  tooltip(format("%.0f %% of this round's time", 100 * share));
}

}  // namespace

void draw_learning(AppState& state, Probe& probe) {
  const Learning& learning = state.learning();
  if (learning.status.empty()) return;  // the model is not there yet
  ImGui::Spacing();
  heading("Make it faster");
  const char* const how = !learning.cannot.empty() ? "cannot" : learning.on ? "on" : "off";
  probe.value("learning.state", how);
  probe.value("learning.status", learning.status);
  if (!learning.gained.empty()) {
    const std::string gained = without_folders(learning.gained);
    wrapped_text(gained, theme().accent);
    probe.value("learning.gained", gained);
  }
  if (!learning.cannot.empty()) {
    wrapped_text("Idle learning cannot help here: " + learning.cannot + ".", theme().dim);
    return;
  }
  const std::string status = without_folders(learning.status);
  if (learning.on) {
    wrapped_text(status, theme().dim);
    if (learning.share) {
      draw_share(*learning.share);
      probe.item("learning.progress");
      probe.value("learning.share", *learning.share);
    }
    if (learning_button("Stop learning", false, state.busy())) state.set_learning(false);
    probe.item("learning.stop");
    tooltip("What was learnt still drafts.");
    return;
  }
  wrapped_text(status, theme().dim);
  wrapped_text(learning.about, theme().dim);
  if (learning_button(kBegin, true, state.busy())) state.set_learning(true);
  probe.item("learning.begin");
}

void draw_learning_offer(AppState& state, Probe& probe) {
  if (!state.learning().asked) return;
  const Theme& t = theme();
  const std::string& text = state.learning().about;
  use_glyphs(text);
  const float pad = t.px(10), wrap = ImGui::GetWindowWidth() - 2 * pad;
  const float text_height = ImGui::CalcTextSize(text.c_str(), nullptr, false, wrap).y;
  const float height = text_height + ImGui::GetFrameHeight() + 2.5f * pad;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 end{at.x + ImGui::GetWindowWidth(), at.y + height};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, end, mixed(t.background, t.accent, 0.18f));
  list.AddRectFilled(at, {at.x + t.px(3), end.y}, t.accent);
  list.AddText(nullptr, 0, {at.x + pad, at.y + pad}, t.text, text.c_str(), nullptr, wrap);
  probe.rect("learning.offer", at, end);
  ImGui::SetCursorScreenPos({at.x + pad, at.y + 1.5f * pad + text_height});
  if (learning_button(kBegin, true, state.busy())) state.set_learning(true);
  probe.item("learning.offer.yes");
  ImGui::SameLine();
  if (learning_button(kNever, false, state.busy())) state.set_learning(false);
  probe.item("learning.offer.no");
  tooltip("It stays among the controls.");
  ImGui::SetCursorScreenPos({at.x, end.y + t.px(1)});
}

}  // namespace specbound::gui
