// Text on its way to a terminal, broken at words. A word is shown as it comes, token by token; one
// that turns out not to fit is taken back and written on the next line. Held back until it is
// whole, it would come later than it was there.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace specbound {

class WordWrap {
 public:
  // How a piece of text is coloured.
  using Paint = std::function<std::string(std::string_view)>;

  // What to write for `text`, whole characters, behind what came before, on a terminal of `columns`
  // (0: not known, nothing is broken). Lines of code, behind ``` up to ```, stay as they are.
  std::string push(std::string_view text, int columns, const Paint& paint);

 private:
  // What to write for a part without line ends that is a blank, a wide character, or of one word.
  std::string broken(std::string_view part, int columns, const std::string& painted);
  void end_word();
  void end_line();

  int column_ = 0;           // of the cursor
  std::string word_;         // that the line ends with, painted
  int word_width_ = 0;       // its columns
  std::string line_begins_;  // its first characters, as many as tell whether it is a fence
  bool code_ = false;        // between two fences
};

// Of the terminal at `fd`; 0: it is none, or does not say.
int terminal_columns(int fd);
// Whether the cursor of what is at `fd` can be moved.
bool can_move_cursor(int fd);

}  // namespace specbound
