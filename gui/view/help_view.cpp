#include "gui/view/help_view.h"

#include <imgui.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// In points.
constexpr float kWidth = 620;
constexpr float kPictureHeight = 190;

constexpr std::array<const char*, 5> kSentences = {
    "A language model writes one token - a word or a piece of one - at a time, and for each it "
    "goes "
    "through all of its layers, reading every weight from memory again.",
    "Many tokens are easy: they stood behind the same words before, or a few layers in it is "
    "already clear which one comes next.",
    "So what came before is looked up, and where that is unsure and the model has trained heads, "
    "a small head is asked for its guess after some of the lower layers. What is likely enough is "
    "taken as a draft, and the next token begins at once.",
    "After some drafts the remaining layers run for all of them together, which takes hardly "
    "longer "
    "than for one, because the weights are read only once.",
    "Drafts that the last layer agrees with stay, the first wrong one is replaced by what the last "
    "layer says: the text is the same to the last byte, only sooner.",
};

// The example that the picture shows: rows of one round, left to right, and the layer each left at;
// the last is a hard one, which no layer was sure of.
constexpr int kLayers = 8, kDeepestDraft = 4;
constexpr std::array<int, 4> kExits = {2, 3, 2, 0};
constexpr std::array<const char*, 4> kWords = {"The", "cat", "sat", "on"};

constexpr const char* kPictureCaption =
    "Three tokens left early here (framed). The fourth is a hard one: no layer was sure, so the "
    "rest of the network runs once, for all four.";

// Text to the right of a bracket that spans layers.
void bracket(ImDrawList& list, float x, float top, float bottom, const char* text, float width) {
  const float tick = theme().px(5);
  list.AddLine({x, top}, {x, bottom}, theme().axis);
  list.AddLine({x - tick, top}, {x, top}, theme().axis);
  list.AddLine({x - tick, bottom}, {x, bottom}, theme().axis);
  const ImVec2 size = ImGui::CalcTextSize(text, nullptr, false, width);
  list.AddText(ImGui::GetFont(), ImGui::GetFontSize(),
               {x + theme().px(8), (top + bottom - size.y) / 2}, theme().text, text, nullptr,
               width);
}

void picture(Probe& probe) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float row = (theme().px(kPictureHeight) - line) / kLayers;
  const float label = ImGui::CalcTextSize("layer 8 ").x;
  const float column =
      std::min(theme().px(64), (width * 0.55f - label) / static_cast<float>(kExits.size()));
  const float inset = theme().px(1.5f);
  const auto top_of = [&](int layer) { return origin.y + static_cast<float>(layer - 1) * row; };

  for (const int layer : {1, kDeepestDraft, kLayers}) {
    char text[16];
    std::snprintf(text, sizeof text, "layer %d", layer);
    list.AddText({origin.x, top_of(layer) + (row - ImGui::GetTextLineHeight()) / 2}, theme().dim,
                 text);
  }
  for (size_t i = 0; i < kExits.size(); ++i) {
    const float left = origin.x + label + static_cast<float>(i) * column;
    const int exit = kExits[i];
    for (int layer = 1; layer <= kLayers; ++layer) {
      const bool drafting = layer <= (exit ? exit : kDeepestDraft);
      const ImVec2 min = {left + inset, top_of(layer) + inset};
      const ImVec2 max = {left + column - inset, top_of(layer) + row - inset};
      list.AddRectFilled(min, max, drafting ? theme().phase[0] : theme().phase[2], theme().px(2));
      if (layer == exit) list.AddRect(min, max, theme().exit, theme().px(2), 0, theme().px(3));
    }
    const float text_width = ImGui::CalcTextSize(kWords[i]).x;
    list.AddText({left + (column - text_width) / 2, origin.y + kLayers * row + theme().px(3)},
                 theme().text, kWords[i]);
  }
  const float right = origin.x + label + kExits.size() * column + theme().px(10);
  const float text_width = origin.x + width - right - theme().px(10);
  bracket(list, right, top_of(kDeepestDraft + 1), top_of(kLayers) + row,
          "verify: all tokens together", text_width);
  bracket(list, right, top_of(1), top_of(kDeepestDraft) + row,
          "draft: one token after the other, until a layer is sure (framed)", text_width);
  ImGui::Dummy({width, theme().px(kPictureHeight)});
  probe.item("help.picture");
}

}  // namespace

void draw_help(bool& open, Probe& probe) {
  if (!open) return;
  const ImGuiViewport& screen = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(screen.GetCenter(), ImGuiCond_Appearing, {0.5f, 0.5f});
  const float width = std::min(theme().px(kWidth), screen.WorkSize.x);
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, screen.WorkSize.y});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, theme().panel);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, theme().px(1));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {theme().px(16), theme().px(14)});
  constexpr int kFlags = ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_AlwaysAutoResize |
                         ImGuiWindowFlags_NoSavedSettings;
  if (ImGui::Begin("What is this?", &open, kFlags)) {
    ImGui::PushTextWrapPos(0);
    for (size_t i = 0; i < kSentences.size(); ++i) {
      ImGui::Text("%zu.", i + 1);
      ImGui::SameLine();
      ImGui::TextUnformatted(kSentences[i]);
    }
    ImGui::PopTextWrapPos();
    ImGui::Spacing();
    picture(probe);
    ImGui::Spacing();
    wrapped_text(kPictureCaption, theme().dim);
  }
  probe.window("help.window");
  ImGui::End();
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor();
}

}  // namespace specbound::gui
