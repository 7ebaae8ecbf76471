// The list of conversations and the dialogs, drawn without a screen.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/model/conversation.h"
#include "gui/view/export_view.h"
#include "gui/view/file_picker.h"
#include "gui/view/side_list.h"
#include "gui/view/widgets.h"
#include "system/text_input.h"

namespace specbound::gui::side_views_test {

namespace {

namespace fs = std::filesystem;

struct ListRig {
  FakeApp fake;
  SideList side;
  Headless ui;

  explicit ListRig(int conversations) : ui(800, 600) {
    for (int i = 0; i < conversations; ++i) {
      fake.app.new_conversation();
      fake.talk("Talk " + std::to_string(i), {"reply" + std::to_string(i)});
    }
    ui.set_content([this] {
      ImGui::BeginChild("list", {250, 0});
      side.draw(fake.app, probe());
      ImGui::EndChild();
    });
    ui.frame(3);
  }
  AppState& app() { return fake.app; }
  std::string row(int i) { return ui.value("sidebar.row." + std::to_string(i)); }
};

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("side list: conversations are chosen, and new ones begun") {
  ListRig r(3);
  CHECK(r.row(0) == "Talk 2");
  CHECK(r.row(2) == "Talk 0");
  r.ui.click("sidebar.row.2");
  CHECK(r.app().current() == 2);
  r.ui.click("sidebar.new");
  CHECK(r.app().current() == 0);
  CHECK(r.row(0) == "New conversation");
  CHECK(r.ui.value("sidebar.count") == "4");
}

TEST_CASE("side list: a search looks into the messages") {
  ListRig r(5);
  r.ui.click("sidebar.search");
  r.ui.type("REPLY3");
  r.ui.frame(2);
  CHECK(r.ui.value("sidebar.found") == "1");
  CHECK(r.row(1) == "Talk 3");
  r.app().rename(1, "Reply33");
  r.fake.app.rename(2, "reply3, too");  // it is looked into again
  r.ui.frame(2);
  CHECK(r.ui.value("sidebar.found") == "2");
  r.app().rename(2, "another");
  r.ui.frame(2);
  CHECK(r.ui.value("sidebar.found") == "1");
  r.ui.type("no");
  r.ui.frame(2);
  CHECK(r.ui.shows("Nothing found."));
}

TEST_CASE("side list: a title is changed, or left as it was") {
  ListRig r(2);
  r.ui.click("sidebar.rename.0");
  r.ui.frame(2);
  r.ui.type("Tides");
  r.ui.key(Key::kEnter);
  CHECK(r.row(0) == "Tides");
  CHECK((r.fake.stored()[0].title == "Tides" || r.fake.stored()[1].title == "Tides"));
  r.ui.double_click(r.ui.rect("sidebar.row.0").center());
  r.ui.frame(2);
  CHECK(r.ui.has("sidebar.title"));
  r.ui.type("Other");
  r.ui.key(Key::kEscape);
  r.ui.frame(2);
  CHECK(r.row(0) == "Tides");
  CHECK_FALSE(r.ui.has("sidebar.title"));
}

TEST_CASE("side list: deleting asks first") {
  ListRig r(2);
  r.ui.click("sidebar.delete.0");
  CHECK(r.ui.shows("go for good"));
  r.ui.click("sidebar.keep");
  CHECK(r.app().conversations().size() == 2);
  r.ui.move("sidebar.row.1");
  r.ui.frame();
  r.ui.click("sidebar.delete.1");
  r.ui.click("sidebar.confirm");
  CHECK(r.app().conversations().size() == 1);
  CHECK(r.row(0) == "Talk 1");
  CHECK(r.fake.stored().size() == 1);
  r.ui.frame(3);
  CHECK_FALSE(r.ui.has("sidebar.confirm"));
}

TEST_CASE("side list: of many conversations the visible ones are drawn, titles are cut to fit") {
  ListRig r(300);
  CHECK(r.ui.rects("sidebar.row.").size() < 30);
  r.app().rename(0, std::string(5000, 'w'));
  r.app().rename(1, "##hidden %s \xff");
  r.ui.frame(2);
  for (const Headless::Glyph& glyph : r.ui.glyphs()) CHECK(glyph.max.x <= 260);
  CHECK(r.ui.shows("##hidden %s"));
}

TEST_CASE("file picker: a model is found through folders and loaded") {
  test::TempDir dir;
  fs::create_directory(dir / "models");
  put(dir / "models/a.gguf", "12345");
  put(dir / "models/b.gguf", std::string(2500, 'x'));
  put(dir / "models/chat.json", conversation_json(Conversation()));
  FakeApp fake(false);
  FilePicker picker;
  Headless ui(800, 600);
  ui.set_content([&] { picker.draw(fake.app, probe()); });
  picker.open();
  ui.frame(3);
  CHECK(ui.has("files.place.0"));
  ui.click("files.path");
  ui.key(Key{'A'}, true);
  ui.type(dir.path().string());
  ui.key(Key::kEnter);
  ui.frame(2);
  CHECK(ui.value("files.row.0") == "models");
  ui.double_click(ui.rect("files.row.0").center());
  ui.frame(2);
  CHECK(ui.value("files.row.1") == "b.gguf");
  CHECK(ui.shows("2.5 KB"));
  ui.click("files.row.1");
  CHECK(fake.worker.loads.empty());
  ui.click("files.open");
  REQUIRE(fake.worker.loads.size() == 1);
  CHECK(fake.worker.loads[0].model.model == dir / "models/b.gguf");
  ui.frame(2);
  CHECK_FALSE(ui.has("files.open"));

  // It comes back where it was; a double click does it too, and Escape closes.
  picker.open();
  ui.frame(3);
  ui.double_click(ui.rect("files.row.0").center());
  ui.frame(2);
  REQUIRE(fake.worker.loads.size() == 2);
  CHECK(fake.worker.loads[1].model.model == dir / "models/a.gguf");
  picker.open();
  ui.frame(3);
  ui.click("files.kind.conversation");
  CHECK(ui.value("files.row.0") == "chat.json");
  ui.click("files.up");
  CHECK(ui.value("files.row.0") == "models");
  ui.key(Key::kEscape);
  ui.frame(2);
  CHECK_FALSE(ui.has("files.open"));
}

TEST_CASE("file picker: a folder that cannot be read says so, and there is a way out") {
  FakeApp fake(false);
  FilePicker picker;
  Headless ui(640, 480);
  ui.set_content([&] { picker.draw(fake.app, probe()); });
  picker.open();
  ui.frame(3);
  ui.click("files.path");
  ui.key(Key{'A'}, true);
  ui.type("/nowhere/at all");
  ui.key(Key::kEnter);
  ui.frame(2);
  CHECK(ui.shows("cannot read this folder"));
  ui.click("files.up");
  ui.click("files.up");
  CHECK_FALSE(ui.shows("cannot read this folder"));
  for (const Headless::Glyph& glyph : ui.glyphs()) CHECK(glyph.max.x <= 640);
}

TEST_CASE("export: writes the file, asks before it replaces one, and says why it cannot") {
  test::TempDir dir;
  FakeApp fake;
  fake.talk("Why?", {"Because."});
  ExportView view;
  Headless ui(800, 600);
  ui.set_content([&] { view.draw(fake.app, probe()); });
  const auto export_to = [&](const std::string& path) {
    view.open(fake.app);
    ui.frame(3);
    ui.click("export.path");
    ui.key(Key{'A'}, true);
    ui.type(path);
    ui.frame();
    ui.click("export.write");
    ui.frame(2);
  };
  const std::string path = dir / "out.md";
  export_to(path);
  CHECK_FALSE(ui.has("export.write"));
  CHECK(read_bytes(path).find("**Assistant**\n\nBecause.") != std::string::npos);
  put(path, "mine");
  export_to(path);
  CHECK(ui.shows("This file is there already"));
  CHECK(read_bytes(path) == "mine");
  ui.click("export.cancel");
  CHECK(read_bytes(path) == "mine");
  export_to(path);
  ui.click("export.write");
  CHECK(read_bytes(path) != "mine");
  export_to(dir / "none/out.md");
  CHECK(ui.shows("cannot write"));
  ui.click("export.cancel");
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  export_to(dir / "pipe");
  ui.click("export.write");  // whose reader would be waited for
  CHECK(ui.shows("not a regular file"));
  ui.click("export.cancel");
  ui.frame(2);
  CHECK_FALSE(ui.has("export.write"));
}

TEST_CASE("widgets: a text that does not fit ends in dots") {
  Headless ui(300, 100);
  std::string all, cut, none;
  ui.set_content([&] {
    all = fitted("short", 200);
    cut = fitted("a rather long line of text \xff", 100);
    none = fitted("text", 0);
  });
  ui.frame();
  CHECK(all == "short");
  CHECK(cut.ends_with("..."));
  CHECK(cut.size() < 20);
  CHECK(none == "...");
}

}  // namespace specbound::gui::side_views_test
