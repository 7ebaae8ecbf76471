#include "gui/view/selectable_text.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gui/view/fonts.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kLineHeight = 1.3f;  // in heights of the font

bool in_view(float top, float bottom) {
  const ImDrawList& list = *ImGui::GetWindowDrawList();
  return bottom > list.GetClipRectMin().y && top < list.GetClipRectMax().y;
}

}  // namespace

TextMetrics font_metrics() {
  const ImFont* font = ImGui::GetFont();
  const float size = ImGui::GetFontSize(), ratio = size / font->FontSize;
  TextMetrics metrics;
  for (size_t c = 0; c < metrics.ascii.size(); ++c) {
    metrics.ascii[c] = font->GetCharAdvance(static_cast<ImWchar>(c)) * ratio;
  }
  metrics.other = [font, ratio](uint32_t c) {
    if (c > IM_UNICODE_CODEPOINT_MAX) c = IM_UNICODE_CODEPOINT_INVALID;
    return font->GetCharAdvance(static_cast<ImWchar>(c)) * ratio;
  };
  metrics.id = reinterpret_cast<uintptr_t>(font);
  for (const uint64_t part : {static_cast<uint64_t>(size * 64), uint64_t{font_generation()}}) {
    metrics.id = metrics.id * 1000003 + part;
  }
  return metrics;
}

void draw_characters(ImVec2 at, ImU32 color, std::string_view text, const TextMetrics& metrics) {
  std::string run;
  float x = at.x, run_x = at.x;
  const auto flush = [&] {
    if (run.empty()) return;
    use_glyphs(run);
    ImGui::GetWindowDrawList()->AddText({run_x, at.y}, color, run.data(), run.data() + run.size());
    run.clear();
  };
  for (size_t i = 0; i < text.size();) {
    const DrawnCharacter c = drawn_character(text, i);
    if (run.empty()) run_x = x;
    if (c.code_point == 0xfffd) {
      run += "\ufffd";
    } else if (c.code_point != 0) {
      run.append(text.substr(i, c.length));
    }
    x += metrics.advance(c.code_point);
    i += c.length;
    // What is behind the right edge is not drawn.
    if (x > ImGui::GetWindowDrawList()->GetClipRectMax().x) break;
  }
  flush();
}

void draw_text_line(ImVec2 at, ImU32 color, std::string_view text, const TextLayout::Line& line,
                    TextRange selected, const TextMetrics& metrics) {
  const float height = SelectableText::line_height(), font = ImGui::GetFontSize();
  if (selected.begin < selected.end && selected.begin <= line.end && selected.end > line.begin) {
    // A line feed that is selected, too, is a stub behind the text.
    const float stub = selected.end > line.end ? font / 3 : 0;
    ImGui::GetWindowDrawList()->AddRectFilled(
        {at.x + x_of(text, line, selected.begin, metrics), at.y},
        {at.x + x_of(text, line, selected.end, metrics) + stub, at.y + height}, theme().selection);
  }
  draw_characters({at.x, at.y + std::floor((height - font) / 2)}, color,
                  text.substr(line.begin, line.end - line.begin), metrics);
}

void SelectableText::begin_frame() {
  std::erase_if(layouts_, [&](const auto& entry) { return entry.second.used < frame_; });
  ++frame_;
  metrics_ = font_metrics();
  mouse_.begin_frame();
}

float SelectableText::line_height() {
  return std::floor(ImGui::GetFontSize() * kLineHeight);
}

const TextLayout& SelectableText::layout(uint64_t key, std::string_view text, bool growing,
                                         float width) {
  Entry& entry = layouts_[key];
  entry.used = frame_;
  entry.layout.update(text, growing, width, metrics_);
  return entry.layout;
}

SelectableText::Result SelectableText::draw(uint64_t key, std::string_view text, bool growing,
                                            float width, ImU32 color, const TokenStyles& tokens) {
  const TextLayout& lines = layout(key, text, growing, width);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float step = line_height();
  const auto count = static_cast<float>(lines.lines().size());
  ImGui::PushID(static_cast<int>(key));
  ImGui::InvisibleButton("text", {std::max(width, 1.0f), count * step});
  ImGui::PopID();

  Result result{
      mouse_.take({key, text, lines.shown(),
                   [&](bool inside) { return byte_under_mouse(text, lines, origin, inside); }}),
      {}};
  const TextRange selected = mouse_.selected(key);
  const float above = ImGui::GetWindowDrawList()->GetClipRectMin().y - origin.y;
  const auto first = static_cast<size_t>(std::clamp(std::floor(above / step), 0.0f, count));
  for (size_t i = first; i < lines.lines().size(); ++i) {
    const TextLayout::Line& line = lines.lines()[i];
    const float y = origin.y + step * static_cast<float>(i);
    if (!in_view(y, y + step)) break;
    draw_tokens(text, {line.begin, line.end}, 0, {origin.x, y}, step, metrics_, tokens);
    draw_text_line({origin.x, y}, color, text, line, selected, metrics_);
  }
  const TextLayout::Line& last = lines.lines().back();
  result.end = {origin.x + x_of(text, last, last.end, metrics_), origin.y + step * (count - 1)};
  return result;
}

size_t SelectableText::byte_under_mouse(std::string_view text, const TextLayout& layout,
                                        ImVec2 origin, bool inside) const {
  const ImVec2 mouse = ImGui::GetMousePos();
  const auto& lines = layout.lines();
  const float row = std::floor((mouse.y - origin.y) / line_height());
  const auto line =
      static_cast<size_t>(std::clamp(row, 0.0f, static_cast<float>(lines.size() - 1)));
  // Above all lines is before the text, below them behind it.
  if (!inside && row < 0) return 0;
  if (!inside && row > static_cast<float>(lines.size() - 1)) return layout.shown();
  return byte_at(text, lines[line], mouse.x - origin.x, metrics_, inside);
}

}  // namespace specbound::gui
