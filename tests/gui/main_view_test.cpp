// The window as a whole: what is where at which width, the menu, errors, the overlay.
#include "gui/view/main_view.h"

#include <doctest/doctest.h>
#include <imgui_internal.h>

#include <memory>
#include <string>
#include <vector>

#include "gui/fake_worker.h"
#include "gui/headless.h"

namespace specbound::gui::main_view_test {

namespace {

struct Rig {
  Headless ui;
  FakeApp fake;
  FrameTimes times;
  MainView view{WindowSettings()};

  explicit Rig(float width = 1280, float height = 800, float scale = 1) : ui(width, height, scale) {
    ui.set_frame([this] { view.draw(fake.app, probe(), times, "nothing"); });
    ui.frame(3);
  }
};

bool inside(const Probe::Rect& r, float width, float height) {
  return r.min.x >= 0 && r.min.y >= 0 && r.max.x <= width && r.max.y <= height;
}

}  // namespace

TEST_CASE("main view: panels stand side by side where there is room, else they are tabs") {
  Rig rig;
  CHECK_FALSE(rig.ui.has("tab.chat"));
  CHECK_FALSE(rig.ui.has("tab.list"));
  for (const char* tab : {"tab.live", "tab.controls", "tab.compare"}) CHECK(rig.ui.has(tab));
  rig.ui.resize(1000, 700);
  rig.ui.frame(3);
  CHECK_FALSE(rig.ui.has("tab.chat"));
  CHECK(rig.ui.has("tab.list"));
  rig.ui.resize(640, 480);
  rig.ui.frame(3);
  for (const char* tab : {"tab.chat", "tab.live", "tab.controls", "tab.compare", "tab.list"}) {
    CAPTURE(tab);
    REQUIRE(rig.ui.has(tab));
    CHECK(inside(rig.ui.rect(tab), 640, 480));
    rig.ui.click(tab);
    CHECK(rig.ui.triangles() > 0);
  }
}

TEST_CASE("main view: every tab at every size and scale draws within the window") {
  for (const float scale : {1.0f, 2.0f}) {
    Rig rig(1280, 800, scale);
    rig.fake.talk("hello", {" Hi", " there", "."});
    for (const ImVec2 size : {ImVec2{640, 480}, {900, 600}, {1280, 800}, {2560, 1440}}) {
      rig.ui.resize(size.x, size.y);
      rig.ui.frame(3);
      for (const char* tab : {"tab.chat", "tab.live", "tab.controls", "tab.compare", "tab.list"}) {
        if (!rig.ui.has(tab)) continue;
        rig.ui.click(tab);
        rig.ui.frame(2);
        CAPTURE(tab);
        CAPTURE(size.x);
        CHECK(inside(rig.ui.rect(tab), size.x, size.y));
        CHECK(inside(rig.ui.rect("status"), size.x, size.y));
      }
    }
  }
}

TEST_CASE("main view: guesses are asked for only while the live panel is to be seen") {
  Rig rig;
  REQUIRE_FALSE(rig.fake.worker.guessings.empty());
  CHECK(rig.fake.worker.guessings.back());
  rig.ui.click("tab.controls");
  CHECK_FALSE(rig.fake.worker.guessings.back());
  rig.ui.click("tab.live");
  CHECK(rig.fake.worker.guessings.back());
  const size_t said = rig.fake.worker.guessings.size();
  rig.ui.frame(5);
  CHECK(rig.fake.worker.guessings.size() == said);
  // Nor where it shows plots in place of the map.
  rig.ui.resize(700, 300);
  rig.ui.frame(3);
  rig.ui.click("tab.live");
  rig.ui.click("plots.show");
  rig.ui.frame(2);
  CHECK_FALSE(rig.fake.worker.guessings.back());
  const size_t changes = rig.fake.worker.guessings.size();
  rig.ui.frame(5);
  CHECK(rig.fake.worker.guessings.size() == changes);
}

TEST_CASE("main view: the menu changes the theme, opens help, begins a conversation, quits") {
  Rig rig;
  const auto choose = [&rig](const char* menu, const char* item) {
    rig.ui.click(menu);
    rig.ui.click(item);
  };
  CHECK(rig.view.settings().dark);
  choose("menu.view", "menu.light");
  CHECK_FALSE(rig.view.settings().dark);
  choose("menu.view", "menu.tint");
  CHECK_FALSE(rig.view.settings().tinted);
  rig.fake.talk("hello", {" Hi"});
  rig.ui.frame();
  choose("menu.file", "menu.new");
  CHECK(rig.fake.app.conversations().size() == 2);
  CHECK_FALSE(rig.view.quit_wanted());
  choose("menu.file", "menu.quit");
  CHECK(rig.view.quit_wanted());
}

TEST_CASE("main view: keys do what the menu says") {
  Rig rig;
  rig.fake.talk("hello", {" Hi"});
  rig.ui.frame();
  rig.ui.key(Key{'N'}, true);
  CHECK(rig.fake.app.conversations().size() == 2);
  CHECK(rig.ui.value("overlay.open") == "no");
  rig.ui.key(Key::kF12);
  CHECK(rig.ui.value("overlay.open") == "yes");
  CHECK(rig.ui.shows("p99"));
  rig.ui.click("chat.input");  // and stays in front of what is written to
  rig.ui.frame();
  CHECK(std::string(ImGui::GetCurrentContext()->Windows.back()->Name) == "frame times");
  rig.ui.key(Key{'D'}, true);
  CHECK(rig.ui.value("overlay.open") == "no");
  rig.ui.key(Key{'Q'}, true);
  CHECK(rig.view.quit_wanted());
}

TEST_CASE("main view: while a dialog asks, keys do nothing behind it") {
  Rig rig;
  rig.fake.talk("hello", {" Hi"});
  rig.ui.frame();
  rig.ui.key(Key{'O'}, true);
  rig.ui.frame(2);
  REQUIRE(rig.ui.has("files.cancel"));
  rig.ui.key(Key{'N'}, true);
  rig.ui.key(Key{'S'}, true);
  rig.ui.frame(2);
  CHECK(rig.fake.app.conversations().size() == 1);
  CHECK(rig.ui.has("files.cancel"));
  CHECK_FALSE(rig.ui.has("export.write"));
}

TEST_CASE("main view: the model's name stays within the menu") {
  Rig rig(640, 480);
  rig.fake.app.load("/models/" + std::string(200, 'm') + ".gguf");
  rig.ui.frame(2);
  CHECK(inside(rig.ui.rect("menu.model"), 640, 480));
}

TEST_CASE("main view: errors are shown, the newest three at once, until dismissed") {
  Rig rig;
  for (int i = 0; i < 5; ++i) rig.fake.app.add_error("failure number " + std::to_string(i));
  rig.ui.frame(2);
  CHECK_FALSE(rig.ui.shows("failure number 1"));
  CHECK(rig.ui.shows("failure number 2"));
  CHECK(rig.ui.shows("failure number 4"));
  for (int i = 0; i < 5; ++i) rig.ui.click("error.dismiss");
  CHECK(rig.fake.app.errors.empty());
  CHECK_FALSE(rig.ui.has("error"));
}

TEST_CASE("main view: lines of any length and any bytes") {
  Rig rig(640, 480);
  rig.fake.app.add_error(std::string(20'000, 'x') + "\xff\xfe%s%n\x01");
  rig.fake.app.add_error(std::string(300, '\n'));
  rig.fake.app.add_error("");
  rig.fake.app.apply(Note{std::string(10'000, '\xe2') + "%d"});
  rig.fake.app.apply(LoadFailed{std::string(50'000, 'y')});
  rig.ui.frame(3);
  CHECK(inside(rig.ui.rect("status"), 640, 480));
  CHECK(rig.ui.has("tab.chat"));
}

TEST_CASE("main view: how things stand is told by name") {
  Rig rig;
  CHECK(rig.ui.value("model.state") == "ready");
  CHECK(rig.ui.value("window.size") == "1280x800");
  CHECK(rig.ui.value("chat.busy") == "no");
  rig.fake.app.send("hello");
  rig.ui.frame();
  CHECK(rig.ui.value("chat.busy") == "yes");
  rig.fake.answer({" Hi"});
  rig.ui.frame();
  CHECK(rig.ui.value("chat.busy") == "no");
  CHECK(rig.ui.value("chat.replies") == "1");
}

}  // namespace specbound::gui::main_view_test
