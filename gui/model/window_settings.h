// What the window remembers from one start to the next: theme, size, how wide the panels are. A
// small JSON file under the XDG config home; one that cannot be read counts as none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specbound::gui {

struct WindowSettings {
  bool dark = true;
  int width = 1280, height = 800;        // of the window
  float side_width = 210;                // of the list of conversations, in points
  float live_share = 0.5f;               // of the rest, for the panel at the right
  bool tinted = true;                    // tokens coloured by how they came about
  bool raw = false;                      // replies as they were written, not as Markdown
  std::vector<std::string> recent = {};  // models, the newest first: names, absolute paths

  bool operator==(const WindowSettings&) const = default;
};

// $XDG_CONFIG_HOME/specbound/window.json or ~/.config/...; empty without a home.
std::string window_settings_path();

std::string window_settings_json(const WindowSettings& settings);
// Whatever is missing, of another type or out of range is as it would be without a file.
WindowSettings parse_window_settings(std::string_view json);

// Never throw: to lose a size is no reason to stop.
WindowSettings load_window_settings(const std::string& path);
void save_window_settings(const std::string& path, const WindowSettings& settings);

}  // namespace specbound::gui
