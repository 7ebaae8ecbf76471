#include "gui/view/theme.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace specbound::gui {

namespace {

constexpr ImU32 rgb(uint32_t hex) {
  return IM_COL32(hex >> 16 & 255, hex >> 8 & 255, hex & 255, 255);
}

// What each colour is in the dark and in the light.
constexpr struct {
  ImU32 Theme::*name;
  ImU32 dark, light;
} kColors[] = {
    {&Theme::background, rgb(0x14171c), rgb(0xffffff)},
    {&Theme::panel, rgb(0x1b1f26), rgb(0xf4f6f9)},
    {&Theme::raised, rgb(0x262c36), rgb(0xe6eaf0)},
    {&Theme::border, rgb(0x3a424f), rgb(0xc3cad4)},
    {&Theme::text, rgb(0xe8ebf0), rgb(0x171c24)},
    {&Theme::dim, rgb(0xa3adbb), rgb(0x4d5866)},
    {&Theme::faint, rgb(0x6f7a89), rgb(0x7a8594)},
    {&Theme::accent, rgb(0x4c9aff), rgb(0x0b62d6)},
    {&Theme::on_accent, rgb(0x08121f), rgb(0xffffff)},
    {&Theme::selection, IM_COL32(76, 154, 255, 110), IM_COL32(11, 98, 214, 70)},
    {&Theme::hover, IM_COL32(255, 255, 255, 28), IM_COL32(0, 0, 0, 18)},
    {&Theme::good, rgb(0x5fd38d), rgb(0x137a3f)},
    {&Theme::warning, rgb(0xf2c14e), rgb(0x8f5b00)},
    {&Theme::error, rgb(0xff7b72), rgb(0xc0271d)},
    {&Theme::user_bubble, rgb(0x25405f), rgb(0xd6e6fb)},
    {&Theme::accepted, rgb(0x5fd38d), rgb(0x137a3f)},
    {&Theme::rejected, rgb(0xff7b72), rgb(0xc0271d)},
    {&Theme::verified, rgb(0xa3adbb), rgb(0x5c6775)},
    {&Theme::exit, rgb(0xf2c14e), rgb(0xb36b00)},
    {&Theme::grid, rgb(0x2d343f), rgb(0xe0e4ea)},
    {&Theme::axis, rgb(0x6f7a89), rgb(0x7a8594)},
    {&Theme::line, rgb(0x4c9aff), rgb(0x0b62d6)},
    {&Theme::second_line, rgb(0xc58af9), rgb(0x8430ce)},
    {&Theme::threshold, rgb(0xf2c14e), rgb(0xb36b00)},
};
constexpr ImU32 kDarkPhases[] = {rgb(0x4c9aff), rgb(0xf2c14e), rgb(0x5fd38d), rgb(0xc58af9),
                                 rgb(0xff9e64)};
constexpr ImU32 kLightPhases[] = {rgb(0x0b62d6), rgb(0xb36b00), rgb(0x137a3f), rgb(0x8430ce),
                                  rgb(0xd1480f)};

Theme make_theme(bool dark, float scale) {
  Theme t;
  t.dark = dark;
  t.scale = scale;
  for (const auto& color : kColors) t.*color.name = dark ? color.dark : color.light;
  std::ranges::copy(dark ? kDarkPhases : kLightPhases, t.phase);
  return t;
}

Theme current = make_theme(true, 1);

ImVec4 vec(ImU32 color) {
  return ImGui::ColorConvertU32ToFloat4(color);
}

void apply_colors(ImGuiStyle& style, const Theme& t) {
  if (t.dark) {
    ImGui::StyleColorsDark(&style);
  } else {
    ImGui::StyleColorsLight(&style);
  }
  const ImU32 pressed = mixed(t.raised, t.accent, 0.45f),
              hovered = mixed(t.raised, t.accent, 0.25f);
  const struct {
    ImGuiCol name;
    ImU32 color;
  } colors[] = {
      {ImGuiCol_Text, t.text},
      {ImGuiCol_TextDisabled, t.dim},
      {ImGuiCol_WindowBg, t.background},
      {ImGuiCol_ChildBg, 0},
      {ImGuiCol_PopupBg, t.panel},
      {ImGuiCol_Border, t.border},
      {ImGuiCol_FrameBg, t.raised},
      {ImGuiCol_FrameBgHovered, hovered},
      {ImGuiCol_FrameBgActive, pressed},
      {ImGuiCol_TitleBg, t.panel},
      {ImGuiCol_TitleBgActive, t.panel},
      {ImGuiCol_MenuBarBg, t.panel},
      {ImGuiCol_ScrollbarBg, 0},
      {ImGuiCol_ScrollbarGrab, t.border},
      {ImGuiCol_ScrollbarGrabHovered, t.faint},
      {ImGuiCol_ScrollbarGrabActive, t.dim},
      {ImGuiCol_CheckMark, t.accent},
      {ImGuiCol_SliderGrab, t.accent},
      {ImGuiCol_SliderGrabActive, t.accent},
      {ImGuiCol_Button, t.raised},
      {ImGuiCol_ButtonHovered, hovered},
      {ImGuiCol_ButtonActive, pressed},
      {ImGuiCol_Header, hovered},
      {ImGuiCol_HeaderHovered, hovered},
      {ImGuiCol_HeaderActive, pressed},
      {ImGuiCol_Separator, t.border},
      {ImGuiCol_SeparatorHovered, t.accent},
      {ImGuiCol_SeparatorActive, t.accent},
      {ImGuiCol_ResizeGrip, 0},
      {ImGuiCol_Tab, t.panel},
      {ImGuiCol_TabHovered, hovered},
      {ImGuiCol_TabActive, mixed(t.raised, t.accent, 0.35f)},
      {ImGuiCol_TableHeaderBg, t.raised},
      {ImGuiCol_TableBorderStrong, t.border},
      {ImGuiCol_TableBorderLight, t.grid},
      {ImGuiCol_TextSelectedBg, t.selection},
      {ImGuiCol_DragDropTarget, t.accent},
      {ImGuiCol_NavHighlight, t.accent},
      {ImGuiCol_PlotHistogram, t.accent},
      {ImGuiCol_ModalWindowDimBg, IM_COL32(0, 0, 0, 140)},
  };
  for (const auto& c : colors) style.Colors[c.name] = vec(c.color);
}

void apply_sizes(ImGuiStyle& style, float scale) {
  style.AntiAliasedLinesUseTex = false;  // the font's texture is not interpolated
  style.WindowPadding = {10, 10};
  style.FramePadding = {8, 5};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.CellPadding = {6, 4};
  style.ScrollbarSize = 12;
  style.GrabMinSize = 12;
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 1;
  style.FrameRounding = 5;
  style.ChildRounding = 0;
  style.PopupRounding = 6;
  style.GrabRounding = 5;
  style.TabRounding = 5;
  style.ScrollbarRounding = 6;
  style.ScaleAllSizes(scale);
}

}  // namespace

ImU32 Theme::confidence(float share) const {
  // One hue, from one end of brightness to the other: green, red and amber say what became of a
  // token.
  static constexpr std::array<ImU32, 5> kDark = {rgb(0x1e2733), rgb(0x1c416d), rgb(0x2568ad),
                                                 rgb(0x4c9aee), rgb(0xb4daff)};
  static constexpr std::array<ImU32, 5> kLight = {rgb(0xe9edf5), rgb(0xb5d3e7), rgb(0x63a9c9),
                                                  rgb(0x2b6f9e), rgb(0x103a63)};
  const std::array<ImU32, 5>& ramp = dark ? kDark : kLight;
  const float at = (share > 0 ? std::min(share, 1.0f) : 0.0f) * (ramp.size() - 1);
  const size_t step = std::min(static_cast<size_t>(at), ramp.size() - 2);
  return mixed(ramp[step], ramp[step + 1], at - static_cast<float>(step));
}

ImU32 Theme::text_on(ImU32 fill) const {
  const ImVec4 c = vec(fill);
  const float brightness = 0.299f * c.x + 0.587f * c.y + 0.114f * c.z;
  return brightness > 0.5f ? rgb(0x10141a) : rgb(0xffffff);
}

std::vector<Backdrop>& backdrops() {
  static std::vector<Backdrop> all;
  return all;
}

const Theme& theme() {
  return current;
}

void set_theme(bool dark, float scale) {
  current = make_theme(dark, scale);
  if (!ImGui::GetCurrentContext()) return;
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  apply_sizes(style, scale);
  apply_colors(style, current);
}

ImU32 faded(ImU32 color, float opacity) {
  ImVec4 c = vec(color);
  c.w *= std::clamp(opacity, 0.0f, 1.0f);
  return ImGui::ColorConvertFloat4ToU32(c);
}

ImU32 mixed(ImU32 a, ImU32 b, float share) {
  const ImVec4 x = vec(a), y = vec(b);
  const float s = std::clamp(share, 0.0f, 1.0f), r = 1 - s;
  return ImGui::ColorConvertFloat4ToU32(
      {x.x * r + y.x * s, x.y * r + y.y * s, x.z * r + y.z * s, x.w * r + y.w * s});
}

}  // namespace specbound::gui
