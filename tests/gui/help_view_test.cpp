// "What is this?": five sentences and a picture, on any screen.
#include "gui/view/help_view.h"

#include <doctest/doctest.h>

#include "gui/headless.h"

namespace specbound::gui::help_view_test {

TEST_CASE("help: five sentences and a picture, closed by its button") {
  for (const bool dark : {true, false}) {
    Headless ui(1280, 800, 1, dark);
    bool open = false;
    ui.set_frame([&] { draw_help(open, probe()); });
    ui.frame(2);
    CHECK_FALSE(ui.has("help.window"));
    open = true;
    ui.frame(3);
    CHECK(ui.shows("one token"));
    for (const char* number : {"1.", "2.", "3.", "4.", "5."}) CHECK(ui.shows(number));
    CHECK(ui.shows("same to the last byte"));
    CHECK(ui.shows("verify: all tokens together"));
    const Probe::Rect window = ui.rect("help.window"), picture = ui.rect("help.picture");
    CHECK(picture.max.y <= window.max.y);
    CHECK(picture.max.x <= window.max.x);
    ui.click({window.max.x - 16, window.min.y + 12});
    CHECK_FALSE(open);
  }
}

TEST_CASE("help: on a small screen it stays inside and scrolls") {
  Headless ui(640, 480);
  bool open = true;
  ui.set_frame([&] { draw_help(open, probe()); });
  ui.frame(3);
  const Probe::Rect window = ui.rect("help.window");
  CHECK(window.min.x >= 0);
  CHECK(window.min.y >= 0);
  CHECK(window.max.x <= 640);
  CHECK(window.max.y <= 480);
}

}  // namespace specbound::gui::help_view_test
