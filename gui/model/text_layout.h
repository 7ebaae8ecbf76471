// Text broken into lines that fit a width (line_breaks.h). What is laid out stays when text comes
// behind it. No drawing: how wide a character is comes from outside. And which of its bytes are
// selected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace specbound::gui {

// What is drawn for the bytes at one place.
struct DrawnCharacter {
  uint32_t code_point = 0;  // 0: nothing; U+FFFD for bytes that are no UTF-8 and for controls
  size_t length = 1;        // bytes
};
// Precondition: at < text.size().
DrawnCharacter drawn_character(std::string_view text, size_t at);

// Where the character that ends before `at` begins. Precondition: at > 0.
size_t character_before(std::string_view text, size_t at);

// How many bytes of a text that may go on are whole characters.
size_t whole_characters(std::string_view text);

struct TextMetrics {
  std::array<float, 128> ascii{};        // advances
  std::function<float(uint32_t)> other;  // of any other character
  uint64_t id = 0;                       // another one when any advance is other

  float advance(uint32_t code_point) const {
    if (code_point == 0) return 0;
    return code_point < ascii.size() ? ascii[code_point] : other(code_point);
  }
};

struct TextRange {
  size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

class TextLayout {
 public:
  // No line is longer in bytes, however narrow its characters: work on a line is bounded.
  static constexpr size_t kMaxLineBytes = 4096;

  // Bytes [begin, end); blanks at which it was broken are in it, a line feed is not.
  struct Line {
    size_t begin = 0, end = 0;
    bool operator==(const Line&) const = default;
  };

  // After text came behind what was there, only the last line is laid out again; after another
  // width, other metrics or less text, all is. `growing`: half a character at the end waits for its
  // other half.
  void update(std::string_view text, bool growing, float width, const TextMetrics& metrics);

  const std::vector<Line>& lines() const { return lines_; }  // one at least, once updated
  size_t shown() const { return shown_; }                    // bytes that are in lines
  size_t line_of(size_t at) const;                           // the line that byte `at` is in
  // Lines laid out so far, again and again ones too: what tests count.
  size_t work() const { return work_; }

 private:
  std::vector<Line> lines_;
  size_t shown_ = 0;
  float width_ = -1;
  uint64_t metrics_ = 0;
  size_t work_ = 0;
};

// Where byte `at` begins in a line, from the line's left.
float x_of(std::string_view text, const TextLayout::Line& line, size_t at,
           const TextMetrics& metrics);
// The boundary between characters nearest to x; `inside`: the character that x is over, instead.
size_t byte_at(std::string_view text, const TextLayout::Line& line, float x,
               const TextMetrics& metrics, bool inside = false);

// Text for other programs: UTF-8 without NUL, where clipboards end.
std::string clipboard_text(std::string_view bytes);

// The word, the run of blanks or the sign at byte `at`; at a line feed nothing.
TextRange word_around(std::string_view text, size_t at);

// What of which text the mouse has selected: by characters, words, lines. One text at a time.
class TextSelection {
 public:
  // The button goes down at byte `at` (a boundary between characters) of the text that `key` names.
  // One click selects nothing yet, two a word, three a line.
  void press(uint64_t key, std::string_view text, size_t at, int clicks);
  // The mouse moved while the button was down.
  void drag(std::string_view text, size_t at);
  void release() { dragging_ = false; }
  void select_all(uint64_t key, std::string_view text);
  void clear() { *this = {}; }

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
