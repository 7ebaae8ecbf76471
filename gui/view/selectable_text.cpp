#include "gui/view/selectable_text.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gui/model/conversation.h"
#include "gui/view/fonts.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kLineHeight = 1.3f;  // in heights of the font
constexpr float kClick = 4;          // points that a mouse may move in a click

bool in_view(float top, float bottom) {
  const ImDrawList& list = *ImGui::GetWindowDrawList();
  return bottom > list.GetClipRectMin().y && top < list.GetClipRectMax().y;
}

}  // namespace

// A text on the screen.
struct SelectableText::Place {
  uint64_t key;
  std::string_view text;
  const TextLayout& layout;
  ImVec2 origin;
  const TokenStyles& tokens;
};

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
  // The text may be out of view, and not drawn, when the button is let go.
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) selection_.release();
}

void SelectableText::copy_selected(uint64_t key, std::string_view text) const {
  const auto range = selection_.in(key);
  if (!range) return;
  const std::string part = clipboard_text(text.substr(range->begin, range->end - range->begin));
  ImGui::SetClipboardText(part.c_str());
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
  const Place place{key, text, lines, ImGui::GetCursorScreenPos(), tokens};
  const float step = line_height();
  const auto count = static_cast<float>(lines.lines().size());
  ImGui::PushID(static_cast<int>(key));
  ImGui::InvisibleButton("text", {std::max(width, 1.0f), count * step});
  ImGui::PopID();

  Result result;
  take_mouse(place, result);
  const TextRange selected = selection_.in(key).value_or(TextRange());
  const float above = ImGui::GetWindowDrawList()->GetClipRectMin().y - place.origin.y;
  const auto first = static_cast<size_t>(std::clamp(std::floor(above / step), 0.0f, count));
  for (size_t i = first; i < lines.lines().size(); ++i) {
    const float y = place.origin.y + step * static_cast<float>(i);
    if (!in_view(y, y + step)) break;
    if (tokens.message) draw_tokens(place, lines.lines()[i], y);
    draw_text_line({place.origin.x, y}, color, text, lines.lines()[i], selected, metrics_);
  }
  const TextLayout::Line& last = lines.lines().back();
  result.end = {place.origin.x + x_of(text, last, last.end, metrics_),
                place.origin.y + step * (count - 1)};
  return result;
}

size_t SelectableText::byte_under_mouse(const Place& place, bool inside) const {
  const ImVec2 mouse = ImGui::GetMousePos();
  const auto& lines = place.layout.lines();
  const float row = std::floor((mouse.y - place.origin.y) / line_height());
  const auto line =
      static_cast<size_t>(std::clamp(row, 0.0f, static_cast<float>(lines.size() - 1)));
  // Above all lines is before the text, below them behind it.
  if (!inside && row < 0) return 0;
  if (!inside && row > static_cast<float>(lines.size() - 1)) return place.layout.shown();
  return byte_at(place.text, lines[line], mouse.x - place.origin.x, metrics_, inside);
}

void SelectableText::take_mouse(const Place& place, Result& result) {
  if (ImGui::IsItemHovered()) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
    const size_t over = byte_under_mouse(place, true);
    if (over < place.layout.shown()) result.over = over;
  }
  if (ImGui::IsItemActivated()) {
    const int clicks = std::max(1, ImGui::GetMouseClickedCount(ImGuiMouseButton_Left));
    const bool on_text = clicks > 1 && result.over;
    const size_t at = on_text ? *result.over : byte_under_mouse(place, false);
    pressed_at_ = ImGui::GetMousePos();
    selection_.press(place.key, place.text, at, clicks);
  } else if (ImGui::IsItemActive() && selection_.key() == place.key) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const float moved = std::hypot(mouse.x - pressed_at_.x, mouse.y - pressed_at_.y);
    if (moved > theme().px(kClick)) selection_.drag(place.text, byte_under_mouse(place, false));
  }
  if (ImGui::IsItemDeactivated() && selection_.key() == place.key) {
    selection_.release();
    result.clicked = result.over && !selection_.in(place.key);
  }
}

// What is behind the letters.
void SelectableText::draw_tokens(const Place& place, const TextLayout::Line& line, float y) const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Theme& t = theme();
  const Message& message = *place.tokens.message;
  const float bottom = y + line_height() - t.px(1);
  float left = place.origin.x;
  for (size_t at = line.begin; at < line.end;) {
    const int token = message.token_at(at);
    if (token < 0) break;
    // A character that its token only begins is drawn with that token.
    size_t end = at;
    const size_t token_end = std::min(line.end, message.token_bytes(token).end);
    float right = left, ink = left;  // the blanks that words begin with are left plain
    while (end < token_end) {
      const DrawnCharacter c = drawn_character(place.text, end);
      right += metrics_.advance(c.code_point);
      end += c.length;
      if (c.code_point == ' ' && ink + metrics_.advance(' ') >= right && end < token_end) {
        ink = right;
      }
    }
    const ImVec2 min{std::floor(ink), y}, max{std::floor(right) - t.px(1), bottom};
    if (max.x > min.x) {
      const TokenStyle style = place.tokens.style(token);
      if (style.fill) list.AddRectFilled(min, max, style.fill);
      if (style.underline) list.AddRectFilled({min.x, bottom - t.px(2)}, max, style.underline);
      if (style.outline) list.AddRect(min, max, style.outline, t.px(3), 0, t.px(1.5f));
      if (place.tokens.seen) place.tokens.seen(token, min, max);
    }
    left = right;
    at = end;
  }
}

}  // namespace specbound::gui
