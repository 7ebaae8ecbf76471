// A line of text as libedit edits it: one wide character a step of the cursor. What a terminal
// draws in one place (a letter with its combining marks, an emoji of several code points) has
// several, and libedit draws none of the marks; such a cluster becomes one cell, a wide character
// of its width that stands for it, and is put back in what goes to the terminal and to the model.
// The stand-ins are the private code points of plane 16, and Tangut where they must be two columns
// wide; a text that has such a character itself gets a stand-in for it too.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace specbound {

class Cells {
 public:
  // Any bytes: what is no UTF-8 is kept, and shown as U+FFFD. There are stand-ins for 65,534
  // different clusters; what comes after those becomes U+FFFD.
  std::wstring encode(std::string_view text);
  std::string decode(std::wstring_view cells) const;

  // Whether `text`, behind `cell`, is drawn in the same place.
  bool joins(wchar_t cell, std::string_view text) const;

  // Of bytes on their way to the terminal: stand-ins replaced by what they stand for. An unfinished
  // character at the end stays in `bytes`, the rest is taken out of it.
  std::string shown(std::string& bytes) const;

 private:
  struct Cluster {
    std::string text;   // its bytes
    std::string shown;  // that a terminal can draw
  };
  wchar_t cell_of(const std::string& cluster);

  std::map<std::string, wchar_t, std::less<>> cells_;
  std::map<wchar_t, Cluster> clusters_;
  int n_narrow_ = 0, n_wide_ = 0;
};

// Rows and columns from where a prompt of `prompt_columns` began, after `cells` on a terminal of
// `columns`, as libedit draws them.
struct Place {
  int row = 0, column = 0;
};
Place place_after(std::wstring_view cells, int prompt_columns, int columns);

}  // namespace specbound
