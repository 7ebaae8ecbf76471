#include "gui/view/text_box.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/selectable_text.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"
#include "text/utf8.h"

namespace specbound::gui {

namespace {

using Step = TextEdit::Step;

float padding() {
  return theme().px(8);
}

// What ImGui has as `c`.
char32_t typed_character(ImWchar c) {
  std::u32string& wide = wide_characters();
  if (c != IM_UNICODE_CODEPOINT_INVALID || wide.empty()) return c;
  const char32_t whole = wide.front();
  wide.erase(0, 1);
  return whole;
}

}  // namespace

std::u32string& wide_characters() {
  static std::u32string instance;
  return instance;
}

void TextBox::lay_out(float width) {
  metrics_ = font_metrics();
  // Any place may have changed: nothing of the layout before is kept then.
  if (laid_out_ != edit_.version()) layout_ = TextLayout();
  laid_out_ = edit_.version();
  layout_.update(edit_.text(), false, width, metrics_);
}

float TextBox::height(float width, int least_lines, int most_lines) {
  lay_out(width - 2 * padding());
  const int lines = std::clamp(static_cast<int>(std::min<size_t>(layout_.lines().size(), 1000)),
                               least_lines, most_lines);
  return height_of(lines);
}

float TextBox::height_of(int lines) {
  return SelectableText::line_height() * static_cast<float>(lines) + 2 * padding();
}

TextBox::Result TextBox::draw(ImVec2 size, bool enter_submits, std::string_view hint,
                              std::string_view name, Probe& probe) {
  const ImVec2 min = ImGui::GetCursorScreenPos(), max{min.x + size.x, min.y + size.y};
  lay_out(size.x - 2 * padding());
  const ImGuiID id = ImGui::GetID(name.data(), name.data() + name.size());
  const ImRect box(min, max);
  ImGui::ItemSize(size);
  if (!ImGui::ItemAdd(box, id)) return Result::kNone;
  probe.item(name);
  probe.value(name, edit_.text());
#if IMGUI_VERSION_NUM >= 18970
  const bool hovered = ImGui::ItemHoverable(box, id, ImGui::GetItemFlags());
#else
  const bool hovered = ImGui::ItemHoverable(box, id);
#endif
  if (hovered) ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
  const bool active = take_focus(id, hovered);
  const ImVec2 origin{min.x + padding(), min.y + padding() - scroll_};
  Result result = Result::kNone;
  if (active) {
    take_mouse(hovered, origin);
    result = take_keys(enter_submits);
    if (laid_out_ != edit_.version()) lay_out(size.x - 2 * padding());
  }
  if (result != Result::kNone && ImGui::GetActiveID() == id) ImGui::ClearActiveID();

  const float inner = size.y - 2 * padding(), line = SelectableText::line_height();
  const float all = line * static_cast<float>(layout_.lines().size());
  if (hovered) scroll_ -= ImGui::GetIO().MouseWheel * 3 * line;
  if (shown_caret_ != edit_.caret()) {
    const float y = place_of(edit_.caret()).y;
    scroll_ = std::clamp(scroll_, y + line - inner, y);
    shown_caret_ = edit_.caret();
  }
  scroll_ = std::clamp(scroll_, 0.0f, std::max(0.0f, all - inner));
  draw_text(min, max, active, hint);
  return result;
}

// Whether the keyboard is this box's.
bool TextBox::take_focus(ImGuiID id, bool hovered) {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  const bool clicked = ImGui::GetIO().MouseClicked[0];
  if ((hovered && clicked) || focus_) {
    focus_ = false;
    ImGui::SetActiveID(id, g.CurrentWindow);
    ImGui::FocusWindow(g.CurrentWindow);
  }
  if (ImGui::GetActiveID() != id) return false;
  if (clicked && !hovered) {
    ImGui::ClearActiveID();
    return false;
  }
  // As ImGui's own boxes: others can be pointed at while this one has the keyboard.
  g.ActiveIdAllowOverlap = !ImGui::GetIO().MouseDown[0];
  g.WantTextInputNextFrame = 1;
  return true;
}

void TextBox::take_mouse(bool hovered, ImVec2 origin) {
  const ImGuiIO& io = ImGui::GetIO();
  const ImVec2 mouse{io.MousePos.x - origin.x, io.MousePos.y - origin.y};
  if (!io.MouseDown[0]) dragging_ = false;
  if (hovered && io.MouseClicked[0]) {
    const size_t at = byte_near(mouse);
    const int clicks = io.MouseClickedCount[0];
    if (clicks == 1) edit_.move_to(at, io.KeyShift);
    if (clicks == 2) edit_.select(word_around(edit_.text(), at));
    if (clicks >= 3) {
      const TextLayout::Line line = layout_.lines()[layout_.line_of(at)];
      edit_.select({line.begin, line.end});
    }
    dragging_ = clicks == 1;
    wanted_x_ = -1;
  } else if (dragging_) {
    edit_.move_to(byte_near(mouse), true);
  }
}

TextBox::Result TextBox::take_keys(bool enter_submits) {
  ImGuiIO& io = ImGui::GetIO();
  if (key_pressed(Key::kEscape)) return Result::kCancelled;
  std::string typed;
  // AltGr is Ctrl and Alt on some systems.
  if (!io.KeyCtrl || io.KeyAlt) {
    for (const ImWchar c : io.InputQueueCharacters) {
      if (c >= 0x20 && c != 0x7f) typed += to_utf8(typed_character(c));
    }
  }
  io.InputQueueCharacters.resize(0);
  const size_t before = edit_.version();
  edit_.insert(typed);
  if (key_pressed(Key::kEnter, true)) {
    if (enter_submits && !io.KeyShift && !io.KeyCtrl) return Result::kSubmitted;
    edit_.insert("\n");
  }
  take_editing_keys();
  if (edit_.version() != before) wanted_x_ = -1;
  take_moving_keys();
  return Result::kNone;
}

void TextBox::take_editing_keys() {
  const Step step = ImGui::GetIO().KeyCtrl ? Step::kWord : Step::kCharacter;
  if (key_pressed(Key::kBackspace, true)) edit_.erase(false, step);
  if (key_pressed(Key::kDelete, true)) edit_.erase(true, step);
  if (ctrl_pressed('A')) edit_.select_all();
  const bool cut = ctrl_pressed('X'), copy = ctrl_pressed('C');
  if ((cut || copy) && !edit_.selected().empty()) {
    ImGui::SetClipboardText(edit_.selected().c_str());
    if (cut) edit_.erase(true, Step::kCharacter);
  }
  if (ctrl_pressed('V')) {
    if (const char* text = ImGui::GetClipboardText()) edit_.insert(text);
  }
  if (ctrl_pressed('Z')) edit_.undo();
  if (ctrl_pressed('Y')) edit_.redo();
}

void TextBox::take_moving_keys() {
  // Keys below go by lines: of the text as it is now.
  if (laid_out_ != edit_.version()) return;
  const ImGuiIO& io = ImGui::GetIO();
  const bool selecting = io.KeyShift;
  const Step step = io.KeyCtrl ? Step::kWord : Step::kCharacter;
  const auto go = [&](size_t at) {
    edit_.move_to(at, selecting);
    wanted_x_ = -1;
  };
  for (const bool forward : {false, true}) {
    if (!key_pressed(forward ? Key::kRight : Key::kLeft, true)) continue;
    edit_.step(forward, step, selecting);
    wanted_x_ = -1;
  }
  if (key_pressed(Key::kUp, true)) move_lines(-1, selecting);
  if (key_pressed(Key::kDown, true)) move_lines(1, selecting);
  const TextLayout::Line line = layout_.lines()[layout_.line_of(edit_.caret())];
  if (key_pressed(Key::kHome)) go(io.KeyCtrl ? 0 : line.begin);
  if (key_pressed(Key::kEnd)) {
    const std::string& text = edit_.text();
    // Behind the blanks that end a wrapped line is the next line's beginning.
    const bool wrapped = line.end < text.size() && text[line.end] != '\n';
    const size_t end =
        wrapped && line.end > line.begin ? character_before(text, line.end) : line.end;
    go(io.KeyCtrl ? text.size() : end);
  }
}

void TextBox::move_lines(int lines, bool selecting) {
  const ImVec2 place = place_of(edit_.caret());
  if (wanted_x_ < 0) wanted_x_ = place.x;
  const float x = wanted_x_, height = SelectableText::line_height();
  const float y = place.y + height * (static_cast<float>(lines) + 0.5f);
  const float all = height * static_cast<float>(layout_.lines().size());
  const size_t at = y < 0 ? 0 : y > all ? edit_.text().size() : byte_near({x, y});
  edit_.move_to(at, selecting);
}

size_t TextBox::byte_near(ImVec2 point) const {
  const auto& lines = layout_.lines();
  const float row = std::floor(point.y / SelectableText::line_height());
  const auto line =
      static_cast<size_t>(std::clamp(row, 0.0f, static_cast<float>(lines.size() - 1)));
  const size_t at = byte_at(edit_.text(), lines[line], point.x, metrics_);
  // The end of a wrapped line is the beginning of the next one: stay on this one.
  const bool next =
      line + 1 < lines.size() && at == lines[line + 1].begin && at > lines[line].begin;
  return next ? character_before(edit_.text(), at) : at;
}

ImVec2 TextBox::place_of(size_t at) const {
  const size_t line = layout_.line_of(at);
  return {x_of(edit_.text(), layout_.lines()[line], at, metrics_),
          SelectableText::line_height() * static_cast<float>(line)};
}

void TextBox::draw_text(ImVec2 min, ImVec2 max, bool active, std::string_view hint) {
  const Theme& t = theme();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(min, max, t.raised, t.px(6));
  list.AddRect(min, max, active ? t.accent : t.border, t.px(6), 0, t.px(1));
  const float pad = padding(), height = SelectableText::line_height();
  list.PushClipRect({min.x + pad / 2, min.y + pad / 2}, {max.x - pad / 2, max.y - pad / 2}, true);
  const ImVec2 origin{min.x + pad, min.y + pad - scroll_};
  const float drop = std::floor((height - ImGui::GetFontSize()) / 2);
  if (edit_.text().empty()) {
    draw_characters({origin.x, origin.y + drop}, t.faint, fitted(hint, max.x - min.x - 2 * pad),
                    metrics_);
  }
  const TextRange range = edit_.selection();
  const auto& lines = layout_.lines();
  const auto first = static_cast<size_t>(scroll_ / height);
  for (size_t i = first; i < lines.size(); ++i) {
    const float y = origin.y + height * static_cast<float>(i);
    if (y > max.y) break;
    draw_text_line({origin.x, y}, t.text, edit_.text(), lines[i], range, metrics_);
  }
  if (active) {
    const ImVec2 caret = place_of(edit_.caret());
    const float x = origin.x + caret.x, y = origin.y + caret.y;
    list.AddRectFilled({x, y + t.px(1)}, {x + t.px(1.5f), y + height - t.px(1)}, t.accent);
  }
  list.PopClipRect();
}

}  // namespace specbound::gui
