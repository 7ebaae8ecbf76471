// Which fonts are asked, and in what order.
#include "gui/window/font_atlas.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "unit/temp_dir.h"

namespace specbound::gui::font_files_test {

namespace {

using test::TempDir;

void touch(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

}  // namespace

TEST_CASE("font files: the best known body font, whole scripts before symbols, no weights") {
  const TempDir dir;
  for (const char* name : {"a/NotoSans-Regular.ttf", "b/DejaVuSans.ttf", "b/DejaVuSans-Bold.ttf",
                           "b/DejaVuSansMono.ttf", "c/unifont.ttf", "c/NotoSansCJK-Regular.ttc",
                           "c/readme.txt", "c/Other.otf"}) {
    touch(dir.path() / name);
  }
  const FontFiles fonts = find_fonts({dir.path().string(), "/no/such/folder"});
  CHECK(fonts.body == (dir.path() / "b/DejaVuSans.ttf").string());
  CHECK(fonts.mono == (dir.path() / "b/DejaVuSansMono.ttf").string());
  REQUIRE(fonts.others.size() == 4);
  CHECK(fonts.others[0] == (dir.path() / "c/NotoSansCJK-Regular.ttc").string());
  CHECK(fonts.others[1] == (dir.path() / "a/NotoSans-Regular.ttf").string());
  CHECK(fonts.others[2] == (dir.path() / "c/unifont.ttf").string());
  CHECK(fonts.others[3] == (dir.path() / "c/Other.otf").string());
}

TEST_CASE("font files: an unknown font is better than none, and no folder is no error") {
  const TempDir dir;
  CHECK(find_fonts({}).body.empty());
  CHECK(find_fonts({dir.path().string()}).body.empty());
  touch(dir.path() / "Strange.ttf");
  CHECK(find_fonts({dir.path().string()}).body == (dir.path() / "Strange.ttf").string());
}

}  // namespace specbound::gui::font_files_test
