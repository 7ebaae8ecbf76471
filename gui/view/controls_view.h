// The panel of settings: what drafts and with what bounds, how tokens are drawn. Each control says
// what it does when pointed at, and what it is set to holds from the next round on.
#pragma once

#include <array>

#include "gui/model/app_state.h"
#include "gui/model/settings_form.h"

namespace specbound::gui {

class Probe;

class ControlsView {
 public:
  // Into the current window, as wide as that is.
  void draw(AppState& state, Probe& probe);

 private:
  void draw_speculation(AppState& state, Probe& probe);
  void draw_presets(AppState& state, Probe& probe);
  void draw_bounds(AppState& state, Probe& probe);
  void draw_check_layers(AppState& state, Probe& probe);
  void draw_sampling(AppState& state, Probe& probe);
  void draw_seed(AppState& state, Probe& probe);
  void draw_seed_number(AppState& state, Probe& probe);
  void draw_reply_budget(AppState& state, Probe& probe);

  template <class T>
  bool slider(Field field, T& value, T low, T high, Probe& probe);
  void end_control(Field field, Probe& probe);

  SettingsForm form_;
  std::array<char, 32> seed_text_{};  // as typed so far
  bool typing_seed_ = false;
};

}  // namespace specbound::gui
