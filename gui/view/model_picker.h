// The dialog that opens a model by its name: the newest ones, those on this machine, and those that
// are downloaded first, with what fits into memory.
#pragma once

#include <string>
#include <vector>

#include "gui/model/model_choices.h"

namespace specbound::gui {

class AppState;
class FilePicker;
class Probe;

class ModelPicker {
 public:
  // Where somebody would rather have a file.
  explicit ModelPicker(FilePicker& files) : files_(files) {}

  void open() { opening_ = true; }
  // Draws the dialog while it is open; what is chosen is loaded. Once a frame, at the level of the
  // main window.
  void draw(AppState& state, Probe& probe);

 private:
  // True when an entry was chosen for good.
  bool draw_choices(Probe& probe);
  bool draw_choice(size_t index, Probe& probe);
  // True when the dialog is done.
  bool draw_buttons(AppState& state, bool chosen, Probe& probe);

  FilePicker& files_;
  std::vector<ModelChoice> choices_;
  std::string name_;     // as the person edits it, or chose it
  std::string problem_;  // of the name that was to be opened last
  uint64_t free_bytes_ = 0;
  bool opening_ = false, focus_ = false;  // the name is to be typed
};

}  // namespace specbound::gui
