// The dialog that finds a file to open: a model, a saved conversation, a trace to replay.
#pragma once

#include <string>
#include <vector>

#include "gui/model/file_list.h"

namespace specbound::gui {

class AppState;
class Probe;

class FilePicker {
 public:
  void open(FileKind kind = FileKind::kModel);
  // Draws the dialog while it is open; what is chosen is opened. Once a frame, at the level of the
  // main window.
  void draw(AppState& state, Probe& probe);

 private:
  void go_to(const std::string& folder);
  void draw_kinds(Probe& probe);
  void draw_places(Probe& probe);
  void draw_path(Probe& probe);
  bool draw_entries(Probe& probe);
  // True when the dialog is done.
  bool draw_buttons(AppState& state, bool chosen, Probe& probe);

  FileKind kind_ = FileKind::kModel;
  FileList list_;
  std::vector<Place> places_;
  std::string path_;   // as the person edits it
  int selected_ = -1;  // index of an entry
  bool opening_ = false;
};

}  // namespace specbound::gui
