// The rig itself: what it types and clicks arrives, and what it reads is what was drawn.
#include "gui/headless.h"

#include <doctest/doctest.h>

#include <string>

namespace specbound::gui::headless_test {

TEST_CASE("headless: a click on a named button arrives, and its label can be read") {
  Headless ui(400, 300);
  int clicks = 0;
  ui.set_content([&] {
    if (ImGui::Button("Send it")) ++clicks;
    probe().item("test.send");
    ImGui::TextUnformatted("two words");
  });
  ui.frame(2);
  ui.click("test.send");
  ui.click("test.send");
  CHECK(clicks == 2);
  CHECK(ui.text("test.send") == "Send it");
  CHECK(ui.shows("two words"));
  CHECK_FALSE(ui.shows("three words"));
  CHECK_THROWS(ui.rect("test.nothing"));
}

TEST_CASE("headless: typing goes where the focus is, keys and the clipboard work") {
  Headless ui(400, 300);
  char text[64] = "";
  int escapes = 0;
  ui.set_content([&] {
    ImGui::InputText("##field", text, sizeof text);
    probe().item("test.field");
    escapes += key_pressed(Key::kEscape);
  });
  ui.frame(2);
  ui.click("test.field");
  ui.type("hello");
  CHECK(std::string(text) == "hello");
  ui.key(Key::kBackspace);
  CHECK(std::string(text) == "hell");
  ui.key(Key{'A'}, true);
  ui.key(Key{'C'}, true);
  CHECK(ui.clipboard() == "hell");
  ui.key(Key::kEscape);
  CHECK(escapes == 1);
}

TEST_CASE("headless: the colour of the topmost shape, and what lies outside is not there") {
  Headless ui(400, 300);
  const ImU32 red = IM_COL32(255, 0, 0, 255), blue = IM_COL32(0, 0, 255, 255);
  ui.set_content([&] {
    ImDrawList& list = *ImGui::GetWindowDrawList();
    list.AddRectFilled({100, 100}, {200, 200}, red);
    list.AddRectFilled({150, 150}, {200, 200}, blue);
    list.AddText({390, 20}, red, "cut off");
  });
  ui.frame();
  CHECK(ui.color_at({120, 120}) == red);
  CHECK(ui.color_at({170, 170}) == blue);
  CHECK(ui.color_at({300, 250}) == ImGui::GetColorU32(ImGuiCol_WindowBg));
  CHECK_FALSE(ui.shows("cut off"));
  CHECK(ui.triangles() > 0);
}

}  // namespace specbound::gui::headless_test
