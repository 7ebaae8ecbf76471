#include "gui/view/file_picker.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <filesystem>

#include "gui/model/app_state.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"
#include "terminal/terminal_text.h"

namespace specbound::gui {

namespace {

constexpr struct {
  FileKind kind;
  const char *label, *name, *nothing;
} kKinds[] = {
    {FileKind::kModel, "Model (.gguf)", "files.kind.model", "No models (.gguf) in this folder."},
    {FileKind::kConversation, "Conversation (.json)", "files.kind.conversation",
     "No conversations (.json) in this folder."},
    {FileKind::kTrace, "Trace to replay", "files.kind.trace", "No files in this folder."},
};

}  // namespace

void FilePicker::open(FileKind kind) {
  kind_ = kind;
  opening_ = true;
}

void FilePicker::go_to(const std::string& folder) {
  list_.open(folder, kind_);
  path_ = list_.folder();
  selected_ = -1;
}

void FilePicker::draw(AppState& state, Probe& probe) {
  if (opening_) {
    places_ = places();
    std::error_code ignored;
    const std::filesystem::path used =
        std::filesystem::absolute(state.model_path(), ignored).parent_path();
    if (!state.model_path().empty() && std::filesystem::is_directory(used, ignored)) {
      places_.insert(places_.begin(), {"Model in use", used.lexically_normal().string()});
    }
    // Where the person was last, else where models are.
    go_to(list_.folder().empty() ? places_.front().path : list_.folder());
  }
  if (!begin_dialog("Open", opening_, 760, 520)) return;
  draw_kinds(probe);
  draw_path(probe);
  const float below = ImGui::GetFrameHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y;
  const float height = std::max(ImGui::GetContentRegionAvail().y - below, theme().px(40));
  ImGui::BeginChild("places", {theme().px(150), height}, false);
  draw_places(probe);
  ImGui::EndChild();
  ImGui::SameLine();
  ImGui::BeginChild("entries", {0, height}, true);
  const bool chosen = draw_entries(probe);
  ImGui::EndChild();
  if (draw_buttons(state, chosen, probe)) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

void FilePicker::draw_kinds(Probe& probe) {
  for (const auto& kind : kKinds) {
    if (ImGui::RadioButton(kind.label, kind_ == kind.kind)) {
      kind_ = kind.kind;
      go_to(list_.folder());
    }
    probe.item(kind.name);
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x < theme().px(160)) ImGui::NewLine();
  }
  ImGui::NewLine();
}

void FilePicker::draw_path(Probe& probe) {
  if (ImGui::Button("Up")) go_to(list_.parent());
  probe.item("files.up");
  tooltip("The folder that this one is in");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x);
  use_glyphs(path_);
  if (ImGui::InputText("##path", &path_, ImGuiInputTextFlags_EnterReturnsTrue)) {
    // The path of a file goes to its folder, with the file chosen.
    std::error_code ignored;
    const std::filesystem::path path = path_;
    const bool file = std::filesystem::is_regular_file(path, ignored);
    go_to(file ? path.parent_path().string() : path_);
    for (size_t i = 0; file && i < list_.entries().size(); ++i) {
      if (list_.entries()[i].name == path.filename()) selected_ = static_cast<int>(i);
    }
  }
  probe.item("files.path");
}

void FilePicker::draw_places(Probe& probe) {
  int number = 0;
  for (const Place& place : places_) {
    const bool here = place.path == list_.folder();
    if (ImGui::Selectable(place.name.c_str(), here)) go_to(place.path);
    probe.item("files.place." + std::to_string(number++));
    tooltip(terminal_text(place.path));
  }
}

// True when an entry was chosen for good.
bool FilePicker::draw_entries(Probe& probe) {
  if (!list_.problem().empty()) wrapped_text(list_.problem(), theme().error);
  if (list_.entries().empty() && list_.problem().empty()) {
    for (const auto& kind : kKinds) {
      if (kind.kind == kind_) wrapped_text(kind.nothing, theme().dim);
    }
  }
  bool chosen = false;
  std::string enter;  // the folder to go to
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(list_.entries().size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const FileEntry& entry = list_.entries()[static_cast<size_t>(i)];
      ImGui::PushID(i);
      const float room = ImGui::GetContentRegionAvail().x;
      const ImVec2 at = ImGui::GetCursorScreenPos();
      if (ImGui::Selectable("##entry", selected_ == i, ImGuiSelectableFlags_AllowDoubleClick)) {
        selected_ = i;
        const bool twice = ImGui::IsMouseDoubleClicked(0);
        if (twice && entry.folder) enter = list_.path(entry);
        if (twice && !entry.folder) chosen = true;
      }
      probe.row("files.row", static_cast<size_t>(i), entry.name);
      ImDrawList& list = *ImGui::GetWindowDrawList();
      const std::string size = entry.folder ? "folder" : size_text(entry.bytes);
      const float size_width = ImGui::CalcTextSize(size.c_str()).x;
      const std::string name = fitted(terminal_text(entry.name) + (entry.folder ? "/" : ""),
                                      room - size_width - theme().px(24));
      use_glyphs(name);
      list.AddText({at.x + theme().px(4), at.y}, theme().text, name.c_str());
      list.AddText({at.x + room - size_width - theme().px(4), at.y}, theme().dim, size.c_str());
      ImGui::PopID();
    }
  }
  clipper.End();
  if (!enter.empty()) go_to(enter);
  return chosen;
}

bool FilePicker::draw_buttons(AppState& state, bool chosen, Probe& probe) {
  const bool any = selected_ >= 0 && static_cast<size_t>(selected_) < list_.entries().size();
  const bool folder = any && list_.entries()[static_cast<size_t>(selected_)].folder;
  ImGui::BeginDisabled(!any);
  if (accent_button(folder ? "Open the folder" : "Open")) chosen = true;
  probe.item("files.open");
  ImGui::EndDisabled();
  ImGui::SameLine();
  const bool cancel = ImGui::Button("Cancel") || key_pressed(Key::kEscape);
  probe.item("files.cancel");
  if (cancel) return true;
  if (!chosen || !any) return false;
  const std::string path = list_.path(list_.entries()[static_cast<size_t>(selected_)]);
  if (folder) {
    go_to(path);
    return false;
  }
  if (kind_ == FileKind::kModel) state.load(path);
  if (kind_ == FileKind::kConversation) state.import_conversation(path);
  if (kind_ == FileKind::kTrace) state.open_replay(path);
  return true;
}

}  // namespace specbound::gui
