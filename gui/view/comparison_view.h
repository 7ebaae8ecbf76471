// The comparison: one prompt answered plainly and speculatively, side by side, with the times,
// their ratio and whether the texts are the same.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <string>

#include "gui/model/app_state.h"
#include "gui/model/comparison_summary.h"
#include "gui/view/selectable_text.h"
#include "gui/view/text_box.h"

namespace specbound::gui {

class Probe;

class ComparisonView {
 public:
  // Into the current window, as wide as that is.
  void draw(AppState& state, Probe& probe);

 private:
  void draw_start(AppState& state, Probe& probe);
  void draw_result(const Comparison& comparison, const ComparisonSummary& summary, Probe& probe);
  void draw_texts(const Comparison& comparison, Probe& probe);
  void draw_text(const char* name, const char* title, uint64_t reply, const std::string& text,
                 bool growing, ImVec2 size, Probe& probe);

  SelectableText texts_;
  TextBox box_;            // the prompt
  std::string suggested_;  // in the box, until somebody types another
};

}  // namespace specbound::gui
