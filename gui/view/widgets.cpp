#include "gui/view/widgets.h"

#include <algorithm>

#include "gui/view/fonts.h"
#include "gui/view/selectable_text.h"
#include "gui/view/theme.h"

namespace specbound::gui {

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
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) show_tooltip(text);
}

void show_tooltip(std::string_view text, float points) {
  use_glyphs(text);
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(theme().px(points));
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void colored_text(std::string_view text, ImU32 color) {
  use_glyphs(text);
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopStyleColor();
}

void wrapped_text(std::string_view text, ImU32 color) {
  ImGui::PushTextWrapPos(0);
  colored_text(text, color);
  ImGui::PopTextWrapPos();
}

void heading(std::string_view text) {
  ImGui::PushFont(fonts().heading);
  wrapped_text(text, theme().text);
  ImGui::PopFont();
}

void placeholder(std::string_view text, ImVec2 size, float widest) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled(at, {at.x + size.x, at.y + size.y},
                      mixed(theme().panel, theme().raised, 0.3f), theme().px(4));
  const float wrap = std::min(size.x - theme().px(24), widest);
  const char* end = text.data() + text.size();
  const ImVec2 extent = ImGui::CalcTextSize(text.data(), end, false, wrap);
  list->AddText(ImGui::GetFont(), ImGui::GetFontSize(),
                {at.x + (size.x - extent.x) / 2, at.y + std::max(0.0f, (size.y - extent.y) / 2)},
                theme().dim, text.data(), end, wrap);
  ImGui::Dummy(size);
}

bool begin_dialog(const char* title, bool& opening, float width, float height) {
  if (opening) ImGui::OpenPopup(title);
  opening = false;
  const ImGuiViewport& screen = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(screen.GetCenter(), ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSize({std::min(theme().px(width), screen.WorkSize.x * 0.94f),
                            std::min(theme().px(height), screen.WorkSize.y * 0.9f)});
  return ImGui::BeginPopupModal(title, nullptr,
                                ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove);
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
