#include "gui/view/export_view.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <filesystem>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"
#include "system/file_output.h"

namespace specbound::gui {

bool ExportView::possible(const AppState& state) {
  return !state.replay() && !state.conversation().messages.empty();
}

void ExportView::open(AppState& state) {
  if (!possible(state)) return;
  opening_ = true;
  path_ = suggested_ = export_folder() + "/" + export_name(state.conversation(), format_);
  error_.clear();
  replacing_.clear();
}

void ExportView::draw(AppState& state, Probe& probe) {
  if (!begin_dialog("Export this conversation", opening_, 560)) return;
  for (const ExportFormat format : kExportFormats) {
    const std::string name = format_name(format);
    if (ImGui::RadioButton(name.c_str(), format_ == format)) {
      format_ = format;
      const std::string next = export_folder() + "/" + export_name(state.conversation(), format_);
      if (path_ == suggested_) path_ = suggested_ = next;
    }
    probe.item("export." + name);
    ImGui::SameLine();
  }
  ImGui::NewLine();
  colored_text("File:", theme().dim);
  ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x);
  const bool entered = ImGui::InputText("##path", &path_, ImGuiInputTextFlags_EnterReturnsTrue);
  probe.item("export.path");
  use_glyphs(path_);
  if (!error_.empty()) wrapped_text(error_, theme().error);
  const bool asked = !replacing_.empty() && replacing_ == path_;
  if (asked) wrapped_text("This file is there already.", theme().warning);
  ImGui::Spacing();
  bool close = false;
  ImGui::BeginDisabled(path_.empty());
  if (accent_button(asked ? "Replace it" : "Export") || (entered && !asked)) close = write(state);
  probe.item("export.write");
  ImGui::EndDisabled();
  ImGui::SameLine();
  if (ImGui::Button("Cancel") || key_pressed(Key::kEscape)) close = true;
  probe.item("export.cancel");
  if (close) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

bool ExportView::write(AppState& state) {
  error_.clear();
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    error_ = path_ + ": cannot write: not a regular file";  // a pipe would wait for its reader
    return false;
  }
  if (replacing_ != path_ && std::filesystem::exists(there)) {
    replacing_ = path_;
    return false;
  }
  try {
    check_writable(path_);
    write_file(path_, export_text(state.conversation(), format_));
    return true;
  } catch (const Error& e) {
    error_ = e.what();
  }
  return false;
}

}  // namespace specbound::gui
