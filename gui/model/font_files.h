// Which font files this system has, in the order in which the window should ask them for
// characters. Nothing is read but folders.
#pragma once

#include <string>
#include <vector>

namespace specbound::gui {

// Where fonts are kept here: the XDG data folders, ~/.fonts.
std::vector<std::string> font_folders();

struct FontFiles {
  std::string body;                 // to write everything with; empty: none that we know
  std::string mono;                 // likewise, for figures
  std::vector<std::string> others;  // for what `body` lacks, best first
};

// Looks through the folders, links to folders left alone and no further than a bound, so that no
// folder is too large.
FontFiles find_fonts(const std::vector<std::string>& folders);

}  // namespace specbound::gui
