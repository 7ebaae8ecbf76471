// What the window remembers: there and back, and whatever else may stand in the file.
#include "gui/model/window_settings.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "unit/temp_dir.h"

namespace specbound::gui::window_settings_test {

TEST_CASE("window settings: stored and read back") {
  const test::TempDir dir;
  const std::string path = dir / "new/folder/window.json";
  WindowSettings settings;
  settings.dark = false;
  settings.width = 2560;
  settings.height = 1440;
  settings.side_width = 300;
  settings.live_share = 0.25f;
  settings.tinted = false;
  settings.raw = true;
  settings.recent = {"smollm2", "/models/a b.gguf"};
  save_window_settings(path, settings);
  CHECK(load_window_settings(path) == settings);
  CHECK(load_window_settings(dir / "none") == WindowSettings());
  save_window_settings("/proc/no/such/place", settings);  // says nothing, loses nothing
}

TEST_CASE("window settings: hostile files are as none") {
  const WindowSettings usual;
  for (const char* text :
       {"", "{", "[]", "null", "\xff\xfe", "{\"width\": 1e999}", "{\"width\": \"wide\"}",
        "{\"width\": -5, \"height\": 1e9, \"side_width\": null, \"live_share\": 7}",
        "{\"dark\": 1, \"tinted\": \"no\"}", "{\"recent\": [7, \"a\"]}",
        "{\"recent\": \"smollm2\"}"}) {
    CAPTURE(text);
    CHECK(parse_window_settings(text) == usual);
  }
  CHECK_FALSE(parse_window_settings("{\"dark\": false, \"width\": -1}").dark);
  std::string many = "{\"recent\": [\"0\"";
  for (int i = 1; i < 100; ++i) many += ", \"" + std::to_string(i) + '"';
  CHECK(parse_window_settings(many + "]}").recent.size() == 8);
  WindowSettings bytes;  // of a file's name, which are no UTF-8
  bytes.recent = {"/models/\xff.gguf"};
  CHECK(parse_window_settings(window_settings_json(bytes)).recent.size() == 1);
  CHECK(parse_window_settings(std::string(100'000, '[')) == usual);
}

}  // namespace specbound::gui::window_settings_test
