// The pictures of characters, with the fonts of this machine where it has any.
#include "gui/window/font_atlas.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "gui/headless.h"
#include "gui/view/fonts.h"
#include "unit/temp_dir.h"

namespace specbound::gui::font_atlas_test {

TEST_CASE("font atlas: what texts need comes in when it is asked for, once") {
  const FontFiles files = find_fonts(font_folders());
  if (files.body.find("DejaVuSans.ttf") == std::string::npos) {
    MESSAGE("SKIP font atlas: no DejaVu Sans here");
    return;
  }
  Headless ui(400, 300);
  FontAtlas atlas(files);
  atlas.build(1);
  CHECK(fonts().body->FontSize > fonts().small->FontSize);
  CHECK(fonts().heading->FontSize > fonts().body->FontSize);
  CHECK(fonts().body->FindGlyphNoFallback('A'));
  CHECK(fonts().body->FindGlyphNoFallback(0xe9));
  CHECK_FALSE(fonts().body->FindGlyphNoFallback(0x416));
  CHECK_FALSE(atlas.wants_build());
  const unsigned generation = font_generation();
  use_glyphs("na\xc3\xafve \xd0\x96");  // naïve, and the Cyrillic Zhe
  REQUIRE(atlas.wants_build());
  atlas.build(1);
  CHECK(font_generation() != generation);
  CHECK(fonts().body->FindGlyphNoFallback(0x416));
  CHECK(fonts().body->FindGlyphNoFallback(0x436));  // its script came with it
  use_glyphs("\xd0\xb6 \xd0\x96");
  CHECK_FALSE(atlas.wants_build());
  use_glyphs("\xee\x80\x80");  // private use: in no font
  CHECK_FALSE(atlas.wants_build());
  ui.set_content([] { ImGui::TextUnformatted("\xd0\x96 \xee\x80\x80"); });
  ui.frame();
  CHECK(ui.shows("\xd0\x96"));
}

TEST_CASE("font atlas: where a unit is several pixels, letters are as large and have more texels") {
  const FontFiles files = find_fonts(font_folders());
  Headless ui(400, 300);
  FontAtlas atlas(files);
  float height = 0, width = 0;
  ui.set_content([&] {
    height = ImGui::GetFontSize();
    width = ImGui::CalcTextSize("How do tides work?").x;
    ImGui::TextUnformatted("How do tides work?");
  });
  const auto texels = [&](float scale, float density) {
    atlas.build(scale, density);
    ui.frame();
    CHECK(ui.shows("How do tides work?"));
    return ImGui::GetIO().FontDefault->FontSize;
  };
  const float plain = texels(1, 1), plain_width = width;
  CHECK(height == plain);
  CHECK(ImGui::GetIO().FontGlobalScale == 1);
  CHECK(texels(1, 2) == 2 * plain);
  CHECK(height == plain);
  CHECK(width == doctest::Approx(plain_width).epsilon(0.1));
  CHECK(texels(2, 1) == 2 * plain);
  CHECK(height == 2 * plain);
  // The atlas has no room for 12 texels a point.
  CHECK(texels(2, 6) == FontAtlas::kMostScale * plain);
  CHECK(height == 2 * plain);
  CHECK(texels(0.5f, 0) == texels(0.5f, 1));  // a window without a width
}

TEST_CASE("font atlas: files that are no fonts, and none at all, leave ImGui's own") {
  const test::TempDir dir;
  std::ofstream(dir / "broken.ttf") << std::string(10'000, 'x');
  std::ofstream(dir / "empty.ttf");
  Headless ui(400, 300);
  FontAtlas atlas(FontFiles{dir / "broken.ttf", dir / "missing.ttf", {dir / "empty.ttf"}});
  atlas.build(2);
  CHECK(atlas.body_file().empty());
  use_glyphs("\xe4\xb8\xad");
  CHECK_FALSE(atlas.wants_build());
  ui.set_content([] { ImGui::TextUnformatted("still here"); });
  ui.frame();
  CHECK(ui.shows("still here"));
}

TEST_CASE("font atlas: bytes that are no characters ask for nothing") {
  Headless ui(400, 300);
  (void)take_new_glyphs();
  use_glyphs("plain ASCII");
  CHECK_FALSE(take_new_glyphs());
  use_glyphs("\xff\xfe\xc3");
  CHECK(used_glyphs().contains(IM_UNICODE_CODEPOINT_INVALID));
  use_glyphs("\xf0\x9f\x98\x80");  // beyond what ImGui's characters hold
  (void)take_new_glyphs();
  use_glyphs("\xf0\x9f\x98\x80 \xff");
  CHECK_FALSE(take_new_glyphs());
}

}  // namespace specbound::gui::font_atlas_test
