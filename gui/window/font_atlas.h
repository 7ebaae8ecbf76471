// The pictures of characters: made from the fonts of this system for the characters that texts on
// screen have needed so far (gui/view/fonts.h), and made anew, between two frames, when there are
// others or the scale changes. Without any font file ImGui's own serves.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace specbound::gui {

// Where fonts are kept here: the XDG data folders, ~/.fonts.
std::vector<std::string> font_folders();

struct FontFiles {
  std::string body;                 // to write everything with; empty: none that we know
  std::string mono;                 // likewise, for code and figures
  std::vector<std::string> others;  // for what `body` lacks, best first
};

// Looks through the folders, links to folders left alone and no further than a bound, so that no
// folder is too large.
FontFiles find_fonts(const std::vector<std::string>& folders);

class FontAtlas {
 public:
  explicit FontAtlas(FontFiles files);
  ~FontAtlas();

  // Fills ImGui's atlas and fonts(); the texture is the caller's to make again. `scale`: ImGui's
  // units per point, `density`: pixels per unit. Pictures have a texel for each pixel, as far as
  // they have no more than kMostScale a point.
  void build(float scale, float density = 1);
  // True when texts need characters that the atlas lacks, and a font has them.
  bool wants_build();

  const std::string& body_file() const { return files_.body; }

  // More characters than this at once are not drawn; the atlas stays within 4096 x 4096 pixels at
  // scale 2.
  static constexpr size_t kMostCharacters = 3000;
  static constexpr float kMostScale = 4;

 private:
  struct Face;  // a font file in memory

  Face* open(const std::string& file);
  // The first face that has the character; nullptr: none.
  Face* face_of(ImWchar character);
  void gather();
  ImFont* add(Face* first, const std::vector<ImWchar>& own, float size);

  FontFiles files_;
  std::map<std::string, std::unique_ptr<Face>> faces_;
  std::map<ImWchar, Face*> found_;                // nullptr: nowhere
  std::map<Face*, std::vector<ImWchar>> ranges_;  // pairs, 0 at the end: ImGui keeps the pointer
  std::vector<ImWchar> mono_ranges_;              // likewise
  bool full_ = false;                             // kMostCharacters
};

}  // namespace specbound::gui
