#include "gui/view/model_picker.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <utility>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/model/file_list.h"
#include "gui/view/file_picker.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"
#include "terminal/terminal_text.h"

namespace specbound::gui {

namespace {

const char* group_label(ModelChoice::From from) {
  switch (from) {
    case ModelChoice::From::kRecent:
      return "Recent";
    case ModelChoice::From::kHere:
      return "On this machine";
    case ModelChoice::From::kHub:
      return "From Hugging Face";
  }
  return "";
}

// Without what a name has around it when it is pasted.
std::string trimmed_name(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
}

}  // namespace

void ModelPicker::draw(AppState& state, Probe& probe) {
  if (opening_) {
    focus_ = true;
    free_bytes_ = memory_without(state.model().memory_bytes);
    choices_ = model_choices(state.recent_models(), free_bytes_);
    name_.clear();
    problem_.clear();
  }
  if (!begin_dialog("Models", opening_, 620, 560)) return;
  if (std::exchange(focus_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x);
  use_glyphs(name_);
  bool chosen =
      ImGui::InputTextWithHint("##name", "hf:OWNER/REPO[:QUANT], a name of the list, or a file",
                               &name_, ImGuiInputTextFlags_EnterReturnsTrue);
  probe.item("models.name");
  probe.value("models.name", name_);
  if (!problem_.empty()) {
    wrapped_text(problem_, theme().error);
    probe.value("models.problem", problem_);
  }
  const float below = 2 * ImGui::GetFrameHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y;
  const float height = std::max(ImGui::GetContentRegionAvail().y - below, theme().px(40));
  ImGui::BeginChild("choices", {0, height}, true);
  chosen = draw_choices(probe) || chosen;
  ImGui::EndChild();
  colored_text(fitted("Main memory for a model and its context: " + size_text(free_bytes_),
                      ImGui::GetContentRegionAvail().x),
               theme().dim);
  tooltip(
      "What is free, and what the model that is open takes. Weights of up to 0.7 of it fit. "
      "A GPU's memory is not counted.");
  if (draw_buttons(state, chosen, probe)) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

bool ModelPicker::draw_choices(Probe& probe) {
  bool chosen = false;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i == 0 || choices_[i].from != choices_[i - 1].from) {
      if (i > 0) ImGui::Spacing();
      colored_text(group_label(choices_[i].from), theme().accent);
    }
    chosen = draw_choice(i, probe) || chosen;
  }
  return chosen;
}

bool ModelPicker::draw_choice(size_t index, Probe& probe) {
  const ModelChoice& choice = choices_[index];
  const Theme& t = theme();
  ImGui::PushID(static_cast<int>(index));
  const float room = ImGui::GetContentRegionAvail().x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  bool chosen = false;
  if (ImGui::Selectable("##choice", name_ == choice.name, ImGuiSelectableFlags_AllowDoubleClick)) {
    name_ = choice.name;
    problem_.clear();
    chosen = ImGui::IsMouseDoubleClicked(0);
  }
  probe.row("models.row", index, choice.name);
  if (probe.on()) probe.value("models.note." + std::to_string(index), choice.note);
  const float note = ImGui::CalcTextSize(choice.note.c_str()).x;
  const std::string full = terminal_text(choice.name);
  const std::string shown = fitted(without_folders(full), room - note - t.px(24));
  use_glyphs(shown);
  if (shown != full) tooltip(full);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddText({at.x + t.px(4), at.y}, choice.fits ? t.text : t.faint, shown.c_str());
  list.AddText({at.x + room - note - t.px(4), at.y}, choice.fits ? t.dim : t.faint,
               choice.note.c_str());
  ImGui::PopID();
  return chosen;
}

bool ModelPicker::draw_buttons(AppState& state, bool chosen, Probe& probe) {
  const std::string name = trimmed_name(name_);
  ImGui::BeginDisabled(name.empty());
  if (accent_button("Open")) chosen = true;
  probe.item("models.open");
  ImGui::EndDisabled();
  tooltip("The model that is open is closed first, whatever comes of this one.");
  ImGui::SameLine();
  const bool file = ImGui::Button("Choose a file...");
  probe.item("models.file");
  ImGui::SameLine();
  const bool cancel = ImGui::Button("Cancel") || key_pressed(Key::kEscape);
  probe.item("models.cancel");
  if (file) files_.open();
  if (file || cancel) return true;
  if (!chosen || name.empty()) return false;
  problem_ = why_no_model(name);
  focus_ = !problem_.empty();
  if (focus_) return false;
  state.load(name);
  return true;
}

}  // namespace specbound::gui
