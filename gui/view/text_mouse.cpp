#include "gui/view/text_mouse.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gui/model/conversation.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kClick = 4;  // points that a mouse may move in a click

}  // namespace

void draw_tokens(std::string_view text, TextRange piece, std::ptrdiff_t to_message, ImVec2 at,
                 float height, const TextMetrics& metrics, const TokenStyles& tokens) {
  if (!tokens.message) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Theme& t = theme();
  const Message& message = *tokens.message;
  const auto shift = static_cast<size_t>(to_message);  // modulo 2^64, as the sums are
  const float bottom = at.y + height - t.px(1);
  float left = at.x;
  for (size_t byte = piece.begin; byte < piece.end;) {
    const int token = message.token_at(byte + shift);
    if (token < 0) break;
    // A character that its token only begins is drawn with that token.
    size_t end = byte;
    const size_t token_end = std::min(piece.end, message.token_bytes(token).end - shift);
    float right = left, ink = left;  // the blanks that words begin with are left plain
    while (end < token_end) {
      const DrawnCharacter c = drawn_character(text, end);
      right += metrics.advance(c.code_point);
      end += c.length;
      if (c.code_point == ' ' && ink + metrics.advance(' ') >= right && end < token_end) {
        ink = right;
      }
    }
    const ImVec2 min{std::floor(ink), at.y}, max{std::floor(right) - t.px(1), bottom};
    if (max.x > min.x) {
      const TokenStyle style = tokens.style(token);
      if (style.fill) list.AddRectFilled(min, max, style.fill);
      if (style.underline) list.AddRectFilled({min.x, bottom - t.px(2)}, max, style.underline);
      if (style.outline) list.AddRect(min, max, style.outline, t.px(3), 0, t.px(1.5f));
      if (tokens.seen) tokens.seen(token, min, max);
    }
    left = right;
    byte = end;
  }
}

void TextMouse::begin_frame() {
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) selection_.release();
}

TextMouse::Result TextMouse::take(const TextUnderMouse& text) {
  Result result;
  if (ImGui::IsItemHovered()) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
    const size_t over = text.byte(true);
    if (over < text.shown) result.over = over;
  }
  if (ImGui::IsItemActivated()) {
    const int clicks = std::max(1, ImGui::GetMouseClickedCount(ImGuiMouseButton_Left));
    const size_t at = clicks > 1 && result.over ? *result.over : text.byte(false);
    pressed_at_ = ImGui::GetMousePos();
    selection_.press(text.key, text.text, at, clicks);
  } else if (selection_.dragging() && selection_.key() == text.key) {
    // Also where it was out of view meanwhile, and ImGui's active item no more.
    const ImVec2 mouse = ImGui::GetMousePos();
    const float moved = std::hypot(mouse.x - pressed_at_.x, mouse.y - pressed_at_.y);
    if (moved > theme().px(kClick)) selection_.drag(text.text, text.byte(false));
  }
  if (reached_) result.reached = text.byte(false);
  if (ImGui::IsItemDeactivated() && selection_.key() == text.key) {
    selection_.release();
    result.clicked = result.over && !selection_.in(text.key);
  }
  return result;
}

void TextMouse::copy_selected(uint64_t key, std::string_view text) const {
  const auto range = selection_.in(key);
  // A text may have become shorter: a replay goes back, a mark of Markdown is found its other half.
  if (!range || range->begin >= text.size()) return;
  const std::string part = clipboard_text(text.substr(range->begin, range->end - range->begin));
  ImGui::SetClipboardText(part.c_str());
}

}  // namespace specbound::gui
