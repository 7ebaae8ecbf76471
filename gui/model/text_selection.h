// Which bytes of which text are selected, as the mouse left them: by characters, words, lines. One
// text at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace specbound::gui {

// Text for other programs: UTF-8 without NUL, where clipboards end.
std::string clipboard_text(std::string_view bytes);

struct TextRange {
  size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

// The word, the run of blanks or the sign at byte `at`; at a line feed nothing.
TextRange word_around(std::string_view text, size_t at);

class TextSelection {
 public:
  // The button goes down at byte `at` (a boundary between characters) of the text that `key` names.
  // One click selects nothing yet, two a word, three a line.
  void press(uint64_t key, std::string_view text, size_t at, int clicks);
  // The mouse moved while the button was down.
  void drag(std::string_view text, size_t at);
  void release() { dragging_ = false; }
  void select_all(uint64_t key, std::string_view text);
  void clear();

  // Of this text; nullopt where nothing of it is selected.
  std::optional<TextRange> in(uint64_t key) const;
  // The text that was clicked last, 0 for none: the one that keys act on.
  uint64_t key() const { return key_; }
  bool dragging() const { return dragging_; }

 private:
  enum class Unit { kCharacter, kWord, kLine };
  TextRange unit_at(std::string_view text, size_t at) const;

  uint64_t key_ = 0;
  bool dragging_ = false;
  Unit unit_ = Unit::kCharacter;
  TextRange anchor_;  // what the press selected
  TextRange range_;
};

}  // namespace specbound::gui
