// Draws the layer map (gui/model/layer_map.h): only what is visible, however long the reply. It is
// moved with the wheel, by dragging or by its bar; Ctrl and the wheel make cells wider; a click
// selects a token here and in the chat.
#pragma once

#include <imgui.h>

#include "gui/model/app_state.h"
#include "gui/model/layer_map.h"
#include "gui/view/probe.h"

namespace specbound::gui {

class LayerMapView {
 public:
  // Fills `size` from the cursor on. `reply`: what is shown; nullptr: nothing yet.
  void draw(AppState& state, Probe& probe, const ReplyTrace* reply, ImVec2 size);
  // The height from which on more is of no use, and the one that each layer's row of letters
  // needs, as of the newest frame; 0: any is.
  float wanted_height() const { return wanted_; }
  float needed_height() const { return needed_; }
  // Goes to the newest token and stays there.
  void follow() { scroll_.follow(); }

 private:
  struct Place : MapLayout {  // on the screen
    ImVec2 cells;             // top left of the cells
    float text_y = 0, bar_y = 0;
  };

  void draw_header(const ReplyTrace* reply, Probe& probe);
  void draw_caption(float width) const;
  void draw_empty(const AppState& state, ImVec2 size) const;
  void draw_map(AppState& state, Probe& probe, const ReplyTrace& reply, ImVec2 size);
  Place lay_out(const ReplyTrace& reply, ImVec2 size);
  float cell_width() const;
  // What stands at `x` of the cells' area stays there.
  void zoom_by(float factor, float x);
  void draw_gutter(const ReplyTrace& reply, const Place& place) const;
  void draw_rounds(const ReplyTrace& reply, const Place& place) const;
  void draw_cells(AppState& state, Probe& probe, const ReplyTrace& reply, const Place& place) const;
  void draw_texts(const AppState& state, Probe& probe, const ReplyTrace& reply,
                  const Place& place) const;
  void draw_edge(const ReplyTrace& reply, const Place& place) const;
  void draw_chosen(const AppState& state, const ReplyTrace& reply, const Place& place) const;
  void take_input(AppState& state, const ReplyTrace& reply, const Place& place);
  void draw_bar(Probe& probe, const ReplyTrace& reply, const Place& place);
  void draw_minimap(const ReplyTrace& reply, const Place& place, ImVec2 min, ImVec2 max) const;

  MapScroll scroll_;
  uint64_t shown_ = 0;  // the reply of the newest frame
  float zoom_ = 62;     // points that a cell is wide
  float wanted_ = 0, needed_ = 0;
  float view_width_ = 0;   // of the newest frame's cells
  bool dragged_ = false;   // since the button went down
  bool hovering_ = false;  // AppState::hovered is from here
};

}  // namespace specbound::gui
