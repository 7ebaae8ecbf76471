// The text of an input box: typing, erasing, moving, selecting, undoing. What is up and down, and
// where lines begin, is the layout's to know. No drawing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gui/model/text_layout.h"

namespace specbound::gui {

class TextEdit {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 20;  // what is more is not taken
  static constexpr size_t kMaxUndo = 200;

  const std::string& text() const { return text_; }
  size_t caret() const { return caret_; }
  TextRange selection() const { return {std::min(anchor_, caret_), std::max(anchor_, caret_)}; }
  std::string selected() const;
  // Grows when the text changes.
  size_t version() const { return version_; }

  // Caret at the end; not to be undone.
  void set_text(std::string text);
  // In place of the selection. Line ends become line feeds; other controls than tabs are left out.
  void insert(std::string_view utf8);
  enum class Step { kCharacter, kWord };
  // The selection, else what is beside the caret.
  void erase(bool forward, Step step);
  void step(bool forward, Step step, bool selecting);
  void move_to(size_t at, bool selecting);
  void select(TextRange range);
  void select_all() { select({0, text_.size()}); }
  void undo() { restore(undo_, redo_); }
  void redo() { restore(redo_, undo_); }

 private:
  struct State {
    std::string text;
    size_t anchor = 0, caret = 0;
  };

  size_t beside(bool forward, Step step) const;
  // Before a change; changes of the same kind in a row are undone together.
  enum class Change { kNone, kTyping, kErasing, kOther };
  void remember(Change change);
  void restore(std::vector<State>& from, std::vector<State>& to);

  std::string text_;
  size_t anchor_ = 0, caret_ = 0;  // the selection is between them
  size_t version_ = 1;
  Change last_ = Change::kNone;
  std::vector<State> undo_, redo_;
};

}  // namespace specbound::gui
