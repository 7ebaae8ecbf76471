// The whole window: menu, the list of conversations, the chat, the panel at the right with its
// tabs, the status line, dialogs and the overlay of frame times. Where the window is narrow, panels
// become tabs.
#pragma once

#include <string>
#include <tuple>
#include <utility>

#include "gui/model/app_state.h"
#include "gui/model/frame_times.h"
#include "gui/model/window_settings.h"
#include "gui/view/chat_view.h"
#include "gui/view/comparison_view.h"
#include "gui/view/controls_view.h"
#include "gui/view/export_view.h"
#include "gui/view/file_picker.h"
#include "gui/view/help_view.h"
#include "gui/view/live_panel.h"
#include "gui/view/model_picker.h"
#include "gui/view/side_list.h"

namespace specbound::gui {

class Probe;

class MainView {
 public:
  explicit MainView(const WindowSettings& settings);

  // One frame, between ImGui's NewFrame and Render. `renderer`: what draws, for the overlay.
  void draw(AppState& state, Probe& probe, const FrameTimes& times, const std::string& renderer);

  // What the person changed; the window itself sees to the theme.
  const WindowSettings& settings() const { return settings_; }
  void set_size(std::pair<int, int> size) { std::tie(settings_.width, settings_.height) = size; }
  bool quit_wanted() const { return quit_; }

 private:
  enum class Panel { kChat, kList, kLive, kControls, kCompare };

  void draw_menu(AppState& state, Probe& probe);
  void draw_model_summary(AppState& state, Probe& probe);
  void take_keys(AppState& state);
  void draw_errors(AppState& state, Probe& probe);
  void draw_panels(AppState& state, Probe& probe);
  void draw_tabs(AppState& state, Probe& probe, const char* id, bool with_chat, bool with_list);
  void draw_tab(Panel panel, AppState& state, Probe& probe);
  void draw_panel(Panel panel, AppState& state, Probe& probe);
  void draw_status(AppState& state, Probe& probe);
  void draw_overlay(Probe& probe, const FrameTimes& times, const std::string& renderer);
  void tell(AppState& state, Probe& probe);

  WindowSettings settings_;
  FilePicker picker_;
  ModelPicker models_{picker_};
  ExportView exporter_;
  ChatView chat_{picker_, models_, exporter_};
  SideList side_;
  LivePanel live_;
  ControlsView controls_;
  ComparisonView comparison_;
  bool help_open_ = false, overlay_open_ = false, quit_ = false;
  bool live_drawn_ = false;  // in this frame: its guesses are wanted
};

}  // namespace specbound::gui
