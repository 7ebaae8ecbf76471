#include "gui/model/window_settings.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gui/model/model_choices.h"
#include "system/file_output.h"
#include "system/user_path.h"

namespace specbound::gui {

namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 64 << 10;
constexpr int kLeastSize = 320, kMostSize = 16384;

void read(const json& object, const char* key, bool& value) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_boolean()) value = found->get<bool>();
}

template <class T>
void read(const json& object, const char* key, T& value, T low, T high) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return;
  const double number = found->get<double>();
  if (number >= static_cast<double>(low) && number <= static_cast<double>(high)) {
    value = static_cast<T>(number);
  }
}

void read_recent(const json& object, std::vector<std::string>& recent) {
  const auto found = object.find("recent");
  if (found == object.end() || !found->is_array()) return;
  for (const json& one : *found) {
    if (recent.size() == kMostRecentModels || !one.is_string()) return;
    recent.push_back(one.get<std::string>());
  }
}

}  // namespace

std::string window_settings_path() {
  return user_path("XDG_CONFIG_HOME", ".config", "window.json");
}

std::string window_settings_json(const WindowSettings& settings) {
  const json object = {{"dark", settings.dark},
                       {"width", settings.width},
                       {"height", settings.height},
                       {"side_width", settings.side_width},
                       {"live_share", settings.live_share},
                       {"tinted", settings.tinted},
                       {"raw", settings.raw},
                       {"recent", settings.recent}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

WindowSettings parse_window_settings(std::string_view text) {
  WindowSettings settings;
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return settings;
  read(object, "dark", settings.dark);
  read(object, "width", settings.width, kLeastSize, kMostSize);
  read(object, "height", settings.height, kLeastSize, kMostSize);
  read(object, "side_width", settings.side_width, 100.0f, 600.0f);
  read(object, "live_share", settings.live_share, 0.15f, 0.85f);
  read(object, "tinted", settings.tinted);
  read(object, "raw", settings.raw);
  read_recent(object, settings.recent);
  return settings;
}

WindowSettings load_window_settings(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (path.empty() || !file) return {};
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_window_settings(text);
}

void save_window_settings(const std::string& path, const WindowSettings& settings) {
  if (path.empty()) return;
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file(path, window_settings_json(settings));
  } catch (const std::exception&) {
    // A read-only home: the next start is as this one was.
  }
}

}  // namespace specbound::gui
