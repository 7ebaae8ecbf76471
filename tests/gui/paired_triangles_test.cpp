// Triangles in pairs, for Mesa.
#include "gui/window/paired_triangles.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "gui/headless.h"

namespace specbound::gui::paired_triangles_test {

namespace {

struct DrawnTriangle {
  std::array<int, 3> corners;
  ImVec4 clip;

  bool operator==(const DrawnTriangle& other) const {
    return corners == other.corners && clip.x == other.clip.x && clip.y == other.clip.y &&
           clip.z == other.clip.z && clip.w == other.clip.w;
  }
};

// In the order of drawing, those without a surface left out.
std::vector<DrawnTriangle> drawn_triangles(const ImDrawList& list) {
  std::vector<DrawnTriangle> all;
  for (const ImDrawCmd& command : list.CmdBuffer) {
    for (unsigned i = 0; i < command.ElemCount; i += 3) {
      const ImDrawIdx* index = &list.IdxBuffer[static_cast<int>(command.IdxOffset + i)];
      if (index[0] == index[1] || index[1] == index[2]) continue;
      all.push_back({{index[0], index[1], index[2]}, command.ClipRect});
    }
  }
  return all;
}

// What a call must be for Mesa to see its rectangles.
void check_calls(const ImDrawList& list) {
  for (const ImDrawCmd& command : list.CmdBuffer) {
    CHECK(command.ElemCount % 6 == 0);
    CHECK(command.ElemCount <= 1020);
  }
}

// Rectangles of which both triangles stand at an even place of a call.
int rectangles(const ImDrawList& list) {
  int n = 0;
  for (const ImDrawCmd& command : list.CmdBuffer) {
    for (unsigned i = 0; i + 6 <= command.ElemCount; i += 6) {
      const ImDrawIdx* index = &list.IdxBuffer[static_cast<int>(command.IdxOffset + i)];
      n += index[0] == index[3] && index[2] == index[4] && index[1] != index[2];
    }
  }
  return n;
}

void never(const ImDrawList*, const ImDrawCmd*) {
  FAIL("nothing is drawn here");
}

}  // namespace

TEST_CASE("triangles: pairs are found behind odd ones, and the picture is the same") {
  Headless screen(640, 480);
  ImDrawList list(ImGui::GetDrawListSharedData());
  list._ResetForNewFrame();
  list.PushClipRect({0, 0}, {640, 480});
  list.PushTextureID(ImGui::GetIO().Fonts->TexID);
  for (int i = 0; i < 400; ++i) {
    const ImVec2 at = {static_cast<float>(i), 10};
    if (i % 100 == 7) list.PushClipRect(at, {at.x + 50, 60});
    list.AddTriangleFilled(at, {at.x + 5, 10}, {at.x, 15}, IM_COL32_WHITE);
    list.AddRectFilled(at, {at.x + 9, 19}, IM_COL32_WHITE);
    if (i % 100 == 50) list.PopClipRect();
  }
  const std::vector<DrawnTriangle> before = drawn_triangles(list);
  const int corners = list.VtxBuffer.Size;
  REQUIRE(before.size() == 1200);
  pair_triangles(list);
  CHECK(list.VtxBuffer.Size == corners);
  CHECK(drawn_triangles(list) == before);
  check_calls(list);
  CHECK(rectangles(list) == 400);
}

TEST_CASE("triangles: a call of a function stays where it was, and nothing stays nothing") {
  Headless screen(640, 480);
  ImDrawList list(ImGui::GetDrawListSharedData());
  list._ResetForNewFrame();
  list.PushClipRect({0, 0}, {640, 480});
  list.PushTextureID(ImGui::GetIO().Fonts->TexID);
  list.AddRectFilled({0, 0}, {9, 9}, IM_COL32_WHITE);
  list.AddCallback(never, nullptr);
  list.AddRectFilled({9, 9}, {20, 20}, IM_COL32_WHITE);
  pair_triangles(list);
  REQUIRE(list.CmdBuffer.Size >= 3);
  CHECK(list.CmdBuffer[0].ElemCount == 6);
  CHECK((list.CmdBuffer[1].UserCallback == never));
  CHECK(list.CmdBuffer[2].ElemCount == 6);
  CHECK(list.CmdBuffer[2].IdxOffset == 6);

  ImDrawList empty(ImGui::GetDrawListSharedData());
  pair_triangles(empty);
  CHECK(empty.IdxBuffer.Size == 0);
}

}  // namespace specbound::gui::paired_triangles_test
