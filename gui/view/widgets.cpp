#include "gui/view/widgets.h"

#include <algorithm>

#include "gui/view/fonts.h"
#include "gui/view/selectable_text.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kTooltipWidth = 340;  // points

}  // namespace

bool accent_button(const char* label, ImVec2 size) {
  const Theme& t = theme();
  ImGui::PushStyleColor(ImGuiCol_Button, t.accent);
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mixed(t.accent, t.text, 0.2f));
  ImGui::PushStyleColor(ImGuiCol_ButtonActive, mixed(t.accent, t.text, 0.35f));
  ImGui::PushStyleColor(ImGuiCol_Text, t.on_accent);
  const bool pressed = ImGui::Button(label, size);
  ImGui::PopStyleColor(4);
  return pressed;
}

bool quiet_button(const char* label) {
  const Theme& t = theme();
  ImGui::PushStyleColor(ImGuiCol_Button, 0);
  ImGui::PushStyleColor(ImGuiCol_Text, t.dim);
  const bool pressed = ImGui::SmallButton(label);
  ImGui::PopStyleColor(2);
  return pressed;
}

void tooltip(std::string_view text) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  use_glyphs(text);
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(theme().px(kTooltipWidth));
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void dim_text(std::string_view text) {
  use_glyphs(text);
  ImGui::PushStyleColor(ImGuiCol_Text, theme().dim);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopStyleColor();
}

void wrapped_text(std::string_view text, ImU32 color) {
  use_glyphs(text);
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
}

std::string fitted(std::string_view text, float width) {
  const TextMetrics metrics = font_metrics();
  const std::string dots = "...";
  const float room = width - 3 * metrics.advance('.');
  std::string result;
  float x = 0;
  size_t cut = 0;  // of the result, where the dots still fit behind it
  for (size_t i = 0; i < text.size();) {
    const DrawnCharacter c = drawn_character(text, i);
    const bool blank = c.code_point == '\n' || c.code_point == '\t';
    x += metrics.advance(blank ? ' ' : c.code_point);
    if (x > width) return result.substr(0, cut) + dots;
    if (blank) {
      result += ' ';
    } else if (c.code_point == 0xfffd) {
      result += "\ufffd";
    } else if (c.code_point != 0) {
      result += text.substr(i, c.length);
    }
    if (x <= room) cut = result.size();
    i += c.length;
  }
  return result;
}

}  // namespace specbound::gui
