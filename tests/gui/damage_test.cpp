// What a frame has to draw again.
#include "gui/window/damage.h"

#include <doctest/doctest.h>

#include <vector>

#include "gui/headless.h"
#include "gui/window/paired_triangles.h"

namespace specbound::gui::damage_test {

namespace {

constexpr int kWidth = 640, kHeight = 400;

bool inside(const std::vector<PixelRect>& rects, int x, int y) {
  int n = 0;
  for (const PixelRect& r : rects) n += x >= r.left && x < r.right && y >= r.top && y < r.bottom;
  CHECK(n <= 1);
  return n == 1;
}

struct DamageRig {
  int width = kWidth, height = kHeight;
  Headless ui{static_cast<float>(width), static_cast<float>(height)};
  Damage damage = {};
  std::vector<Backdrop> under = {{{0, 0}, {kWidth, kHeight}, IM_COL32_BLACK}};
  std::vector<ImVec2> at = {};
  ImU32 color = IM_COL32_WHITE;

  std::vector<PixelRect> next() {
    ui.set_frame([this] {
      ImDrawList* list = ImGui::GetForegroundDrawList();
      for (const ImVec2 p : at) list->AddRectFilled(p, {p.x + 10, p.y + 10}, color);
    });
    ui.frame();
    return damage.since_last(*ImGui::GetDrawData(), under, width, height);
  }
};

}  // namespace

TEST_CASE("damage: the first frame is whole, and one like the last is nothing") {
  DamageRig rig;
  rig.at = {{20, 20}};
  CHECK(rig.next() == std::vector<PixelRect>{{0, 0, kWidth, kHeight}});
  CHECK(rig.next().empty());
  rig.damage.forget();
  CHECK(rig.next() == std::vector<PixelRect>{{0, 0, kWidth, kHeight}});
  CHECK(rig.next().empty());
}

TEST_CASE("damage: where a shape was and where it is, its colour, what lies under all") {
  DamageRig rig;
  rig.at = {{20, 20}, {400, 300}};
  rig.next();
  rig.at[1] = {500, 100};
  std::vector<PixelRect> rects = rig.next();
  CHECK(inside(rects, 405, 305));
  CHECK(inside(rects, 505, 105));
  CHECK_FALSE(inside(rects, 25, 25));
  rig.color = IM_COL32(1, 2, 3, 255);
  rects = rig.next();
  CHECK(inside(rects, 25, 25));
  CHECK(inside(rects, 505, 105));
  CHECK_FALSE(inside(rects, 405, 305));
  rig.under.push_back({{300, 320}, {310, 330}, IM_COL32_WHITE});
  rects = rig.next();
  CHECK(inside(rects, 305, 325));
  CHECK_FALSE(inside(rects, 25, 25));
}

TEST_CASE("damage: the order of two shapes counts") {
  DamageRig rig;
  rig.at = {{20, 20}, {25, 25}, {500, 300}};
  rig.next();
  std::swap(rig.at[0], rig.at[1]);
  const std::vector<PixelRect> rects = rig.next();
  CHECK(inside(rects, 28, 28));
  CHECK_FALSE(inside(rects, 505, 305));
}

TEST_CASE("damage: many places become few rectangles, and all of them are in") {
  DamageRig rig;
  for (int i = 0; i < 40; ++i) {
    rig.at.push_back({static_cast<float>(i * 151 % 630), static_cast<float>(i * 97 % 390)});
  }
  rig.next();
  rig.color = IM_COL32(9, 9, 9, 255);
  const std::vector<PixelRect> rects = rig.next();
  CHECK(rects.size() <= Damage::kMostRects);
  for (const ImVec2 p : rig.at) {
    CHECK(inside(rects, static_cast<int>(p.x) + 5, static_cast<int>(p.y) + 5));
  }
}

TEST_CASE("damage: of more places than joining is worth the window is drawn whole") {
  DamageRig rig{.width = 1600, .height = 1024};
  const auto all_change = [&](int n) {
    rig.at.clear();
    for (int i = 0; i < n; ++i) {  // a chessboard's tiles of one colour
      const int x = i % 12 * 2 + i / 12 % 2, y = i / 12;
      rig.at.push_back(
          {static_cast<float>(x * Damage::kTile + 20), static_cast<float>(y * Damage::kTile + 20)});
    }
    rig.next();
    rig.color ^= IM_COL32(1, 2, 3, 0);
    return rig.next();
  };
  const std::vector<PixelRect> whole = {{0, 0, 1600, 1024}};
  constexpr int kMost = Damage::kMostRuns;
  CHECK(all_change(kMost + 1) == whole);
  const std::vector<PixelRect> some = all_change(kMost);
  CHECK(some != whole);
  CHECK(some.size() <= Damage::kMostRects);
  for (const ImVec2 p : rig.at) CHECK(inside(some, static_cast<int>(p.x), static_cast<int>(p.y)));
}

TEST_CASE("damage: of a region only what lies in it is drawn, under a clip of whole pixels") {
  DamageRig rig;
  rig.at = {{20, 20}, {400, 300}};
  rig.next();
  const PixelRect regions[] = {{0, 0, 64, 64}, {384, 256, 405, 305}};
  int triangles = 0;
  const ImDrawData* data = ImGui::GetDrawData();
  for (int i = 0; i < data->CmdListsCount; ++i) {
    ImDrawList& list = *data->CmdLists[i];
    pair_triangles(list, regions, kHeight);
    for (const ImDrawCmd& command : list.CmdBuffer) {
      triangles += static_cast<int>(command.ElemCount) / 3;
      const PixelRect clip = clip_pixels(command.ClipRect, kHeight);
      CHECK((clip == regions[0] || clip == regions[1]));
    }
  }
  CHECK(triangles == 4);
}

}  // namespace specbound::gui::damage_test
