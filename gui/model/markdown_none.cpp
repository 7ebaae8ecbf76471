// In place of markdown_md4c.cpp in a build without md4c: replies are shown as they were written.
#include "gui/model/markdown.h"

namespace specbound::gui {

bool markdown_available() {
  return false;
}

bool append_markdown(RichText&, std::string_view, size_t) {
  return false;
}

}  // namespace specbound::gui
