// The dialog that writes the current conversation to a file: as Markdown, text or JSON.
#pragma once

#include <string>

#include "gui/model/conversation.h"

namespace specbound::gui {

class AppState;
class Probe;

class ExportView {
 public:
  // There is a conversation, and it is the one that is shown.
  static bool possible(const AppState& state);
  void open(AppState& state);
  // Draws the dialog while it is open. Once a frame, at the level of the main window.
  void draw(AppState& state, Probe& probe);

 private:
  // True when it is written.
  bool write(AppState& state);

  ExportFormat format_ = ExportFormat::kMarkdown;
  std::string path_;
  std::string suggested_;  // the path as it was made up; one that was typed stays
  std::string error_;      // why the last attempt failed
  std::string replacing_;  // a file that is there: asked whether it may go
  bool opening_ = false;
};

}  // namespace specbound::gui
