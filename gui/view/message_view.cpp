#include "gui/view/message_view.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// In points.
constexpr float kPadding = 10, kGap = 12, kMarginOfUser = 48, kFiguresGap = 4;
constexpr int kLeastEditorLines = 2, kMostEditorLines = 12;
constexpr size_t kProbedBytes = 4096;

bool is_user(const Message& message) {
  return message.role == ChatMessage::Role::kUser;
}

const Message& message_of(const AppState& state, size_t index) {
  return state.shown().messages[index];
}

bool is_last(const AppState& state, size_t index) {
  return index + 1 == state.shown().messages.size();
}

TokenStyle style_of(TokenKind kind, bool tinted) {
  const Theme& t = theme();
  TokenStyle style;
  if (!tinted) return style;
  if (kind == TokenKind::kAccepted) style.fill = faded(t.accepted, t.dark ? 0.26f : 0.2f);
  if (kind == TokenKind::kRejected) {
    style.fill = faded(t.rejected, t.dark ? 0.26f : 0.16f);
    style.underline = t.rejected;
  }
  return style;
}

}  // namespace

void MessageView::begin_frame(const AppState& state) {
  text_.begin_frame();
  markdown_.begin_frame();
  ImGui::PushFont(fonts().small);
  figures_.begin_frame();
  ImGui::PopFont();
  pointed_at_.reset();
  if (conversation_ == state.shown().id) return;
  conversation_ = state.shown().id;
  editing_.reset();
  switched_.clear();
  clear_selection();
}

void MessageView::clear_selection() {
  for (TextMouse* mouse : {&text_.mouse(), &markdown_.mouse(), &figures_.mouse()}) {
    mouse->selection().clear();
  }
  across_.reset();
}

void MessageView::set_raw(bool on) {
  if (on == raw_) return;
  raw_ = on;
  switched_.clear();
  clear_selection();
}

bool MessageView::growing(const AppState& state, const Message& message) const {
  if (message.reply == 0) return false;
  if (state.replay()) return &message == &state.shown().messages.back();
  return state.replying() == message.reply;
}

bool MessageView::editing(const AppState& state, size_t index) const {
  return editing_ && *editing_ == message_of(state, index).key && !state.replay();
}

MessageView::Frame MessageView::frame(const AppState& state, size_t index, float width) {
  const Theme& t = theme();
  const Message& message = message_of(state, index);
  Frame f;
  if (is_user(message)) {
    const float most = width - t.px(kMarginOfUser) - 2 * t.px(kPadding);
    f.text_width = std::max(most, t.px(40));
    const TextLayout& lines = text_.layout(message.key, message.text, false, f.text_width);
    float inked = f.text_width;
    if (lines.lines().size() == 1) {
      const TextLayout::Line& line = lines.lines()[0];
      inked = std::ceil(x_of(message.text, line, line.end, text_.metrics()));
    }
    f.left = std::max(0.0f, width - inked - t.px(kPadding));
    f.top = t.px(kPadding);
  } else {
    f.text_width = std::max(width, t.px(40));
  }
  lay_out_text(state, message, f);
  if (!message.figures.empty()) {
    f.figures_height = t.px(2) + figures_.height(message.key, message.figures, false, f.text_width);
  }
  f.actions_height = ImGui::GetFontSize() + t.px(4);
  f.total = f.text_height + f.figures_height + f.actions_height + t.px(kGap) + 2 * f.top;
  return f;
}

void MessageView::lay_out_text(const AppState& state, const Message& message, Frame& f) {
  const bool grows = growing(state, message);
  f.rendered = !is_user(message) && !raw(message) &&
               markdown_.update(message.key, message.text, grows, f.text_width);
  f.text_height = f.rendered ? markdown_.height(message.key)
                             : text_.height(message.key, message.text, grows, f.text_width);
}

float MessageView::height(const AppState& state, size_t index, float width) {
  if (editing(state, index)) {
    return editor_.height(width, kLeastEditorLines, kMostEditorLines) +
           ImGui::GetFrameHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y + theme().px(kGap);
  }
  return frame(state, index, width).total;
}

float MessageView::token_top(const AppState& state, size_t index, int token, float width) {
  const Message& message = message_of(state, index);
  const Frame f = frame(state, index, width);
  if (f.rendered) return f.top + markdown_.top_of(message.key, message.token_bytes(token).begin);
  const TextLayout& lines =
      text_.layout(message.key, message.text, growing(state, message), f.text_width);
  const auto line = static_cast<float>(lines.line_of(message.token_bytes(token).begin));
  return f.top + line * SelectableText::line_height();
}

void MessageView::draw(AppState& state, size_t index, float width, bool tinted, Probe& probe) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float total = height(state, index, width);
  ImGui::PushID(static_cast<int>(index));
  if (probe.on()) {
    const std::string number = std::to_string(index);
    const Message& message = message_of(state, index);
    probe.rect("chat.message." + number, at, {at.x + width, at.y + total});
    std::string text = message.text.substr(0, kProbedBytes);
    text.resize(whole_characters(text));
    probe.value("chat.text." + number, clipboard_text(text));
    probe.value("chat.figures." + number, message.figures);
    probe.value("chat.rendered." + number, frame(state, index, width).rendered ? "yes" : "no");
  }
  if (editing(state, index)) {
    draw_editor(state, index, width, probe);
  } else {
    const Frame f = frame(state, index, width);
    draw_text(state, index, f, tinted, probe);
    const float below = at.y + 2 * f.top + f.text_height;
    ImGui::SetCursorScreenPos({at.x, below});
    if (f.figures_height > 0) draw_figures(message_of(state, index), f);
    ImGui::SetCursorScreenPos({at.x, below + f.figures_height + theme().px(2)});
    draw_actions(state, index, f.rendered, probe);
  }
  ImGui::PopID();
  ImGui::SetCursorScreenPos({at.x, at.y + total});
}

void MessageView::draw_text(AppState& state, size_t index, const Frame& f, bool tinted,
                            Probe& probe) {
  const Theme& t = theme();
  const Message& message = message_of(state, index);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 text_at{at.x + f.left, at.y + f.top};
  if (is_user(message)) {
    const float pad = t.px(kPadding);
    const float right = at.x + f.text_width + t.px(kMarginOfUser) + 2 * pad;
    ImGui::GetWindowDrawList()->AddRectFilled(
        {text_at.x - pad, at.y}, {right, at.y + f.text_height + 2 * pad}, t.user_bubble, t.px(10));
  }
  ImGui::SetCursorScreenPos(text_at);
  const bool grows = growing(state, message);
  const auto style = [&](int token) {
    const TokenRef ref{message.reply, token};
    const Column* column = state.trace().find(ref);
    TokenStyle result = column ? style_of(column->kind(), tinted) : TokenStyle();
    if (state.hovered == ref) result.outline = t.dim;
    if (state.selected == ref) result.outline = t.text;
    return result;
  };
  const auto seen = [&](int token, ImVec2 min, ImVec2 max) {
    probe.rect("chat.token." + std::to_string(index) + "." + std::to_string(token), min, max);
  };
  const Message* tokens = message.token_ends.empty() ? nullptr : &message;
  const TokenStyles styles{tokens, style,
                           probe.on() ? seen : std::function<void(int, ImVec2, ImVec2)>()};
  const bool reached = reached_by_drag(state, index, at.y, at.y + f.total);
  (f.rendered ? markdown_.mouse() : text_.mouse()).expect(selected_across(state, index), reached);
  const SelectableText::Result result =
      f.rendered ? markdown_.draw(message.key, f.text_width, styles, probe,
                                  "chat.text." + std::to_string(index))
                 : text_.draw(message.key, message.text, grows, f.text_width, t.text, styles);
  if (reached) across_ = {dragged(), message.key, result.reached};
  if (grows && !state.replay()) draw_waiting(state, message, result.end);
  if (!result.over || !tokens) return;
  const int token = message.token_at(*result.over);
  if (token < 0) return;
  const TokenRef ref{message.reply, token};
  pointed_at_ = ref;
  if (result.clicked) state.select_in_chat(ref);
  const TextMouse& mouse = f.rendered ? markdown_.mouse() : text_.mouse();
  if (tinted && !mouse.selection().in(message.key)) token_tooltip(state, ref);
}

// Behind what has come so far: that more is to come.
void MessageView::draw_waiting(const AppState& state, const Message& message, ImVec2 end) const {
  const Theme& t = theme();
  const float height = SelectableText::line_height();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled({end.x + t.px(2), end.y + t.px(2)},
                     {end.x + t.px(8), end.y + height - t.px(2)}, t.accent, t.px(2));
  const int total = state.prompt_total();
  if (!message.token_ends.empty()) return;
  if (state.prompt_read() >= total) return;
  const std::string text =
      format("reading the prompt, %d of %d tokens", state.prompt_read(), total);
  list.AddText({end.x + t.px(16), end.y + std::floor((height - ImGui::GetFontSize()) / 2)}, t.dim,
               text.c_str());
}

void MessageView::draw_figures(const Message& message, const Frame& f) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({at.x, at.y + theme().px(kFiguresGap)});
  ImGui::PushFont(fonts().small);
  ImGui::PushID("figures");  // another item than the text, whose key it shares
  figures_.draw(message.key, message.figures, false, f.text_width, theme().dim, {});
  ImGui::PopID();
  ImGui::PopFont();
  tooltip(
      "What this reply took. tok/s: tokens a second. plain: the same without speculation, as "
      "measured here. speedup: how much sooner tokens came in rounds that could draft. CR: tokens "
      "a round, where plain decoding gives 1. Mean exit layer: how deep drafts went before they "
      "left. First: how long until the first token.");
}

void MessageView::draw_actions(AppState& state, size_t index, bool rendered, Probe& probe) {
  const Message& message = message_of(state, index);
  const std::string number = std::to_string(index);
  const bool idle = !state.busy() && !state.replay();
  const auto action = [&](const char* label, const std::string& name, const char* about) {
    const bool pressed = quiet_button(label);
    probe.item(name);
    tooltip(about);
    ImGui::SameLine(0, theme().px(4));
    return pressed;
  };
  if (is_user(message)) {
    const float buttons = theme().px(18) + ImGui::CalcTextSize("EditCopy").x +
                          (is_last(state, index) ? ImGui::CalcTextSize("Reply").x : 0);
    const float room = ImGui::GetContentRegionAvail().x - buttons - 6 * theme().px(4);
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, room));
  } else {
    // The words, not their buttons, stand below the text's edge.
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() - ImGui::GetStyle().FramePadding.x);
  }
  const bool copied =
      !message.text.empty() && action("Copy", "chat.copy." + number, "Copy this text");
  if (copied) ImGui::SetClipboardText(clipboard_text(message.text).c_str());
  const bool is_raw = raw(message);
  if (!is_user(message) && !message.text.empty() && markdown_available() && (rendered || is_raw)) {
    if (action(is_raw ? "Rendered" : "Raw", "chat.raw." + number,
               is_raw ? "Show this reply as its Markdown means it"
                      : "Show this reply as it was written")) {
      if (switched_.erase(message.key) == 0) switched_.insert(message.key);
      clear_selection();
    }
  }
  bool edit = false, regenerate = false;
  if (idle && is_user(message)) {
    edit = action("Edit", "chat.edit." + number,
                  "Change this message and send it again. What follows it goes.");
  }
  if (idle && is_last(state, index) && state.can_regenerate()) {
    regenerate =
        is_user(message)
            ? action("Reply", "chat.regenerate", "This message got no reply yet: ask again")
            : action("Regenerate", "chat.regenerate", "Another reply to the same message");
  }
  ImGui::NewLine();
  if (edit) {
    editing_ = message.key;
    editor_.set_text(message.text);
    editor_.focus();
  }
  if (regenerate) state.regenerate();
}

void MessageView::draw_editor(AppState& state, size_t index, float width, Probe& probe) {
  const float height = editor_.height(width, kLeastEditorLines, kMostEditorLines);
  const TextBox::Result result = editor_.draw({width, height}, true, "", "chat.editor", probe);
  const bool can_send = state.can_send() && !is_blank(editor_.text());
  ImGui::BeginDisabled(!can_send);
  bool send = accent_button("Send again");
  probe.item("chat.editor.send");
  ImGui::EndDisabled();
  send = (send || result == TextBox::Result::kSubmitted) && can_send;
  ImGui::SameLine();
  const bool cancel = ImGui::Button("Cancel") || result == TextBox::Result::kCancelled;
  probe.item("chat.editor.cancel");
  if (!send && !cancel) return;
  editing_.reset();
  if (send) state.edit(index, editor_.text());
}

void MessageView::token_tooltip(const AppState& state, const TokenRef& ref) const {
  const Column* column = state.trace().find(ref);
  if (!column) return;
  const TokenRecord& token = column->token;
  std::string text;
  switch (column->kind()) {
    case TokenKind::kVerified:
      text = "Not drafted: all layers gave this token.";
      break;
    case TokenKind::kAccepted:
      text = format("Drafted at layer %d", token.exit_layer);
      // A check that went on may stand before what a lookup drafted.
      if (!token.checks.empty() && token.checks.back().layer == token.exit_layer &&
          std::isfinite(token.checks.back().confidence)) {
        text += format(", %.0f %% sure", 100 * token.checks.back().confidence);
      }
      text += ". All layers agreed: accepted.";
      break;
    case TokenKind::kRejected:
      text = format("Layer %d had drafted another token", token.exit_layer);
      if (!column->draft_text.empty()) text += " (\"" + clipboard_text(column->draft_text) + "\")";
      text += ". All layers said this one: the draft was rejected.";
      break;
  }
  text += "\nClick: show it in the layer map.";
  show_tooltip(text, 300);
}

void MessageView::end_frame(AppState& state) {
  // Where the mouse is over the map, the map says what is pointed at.
  if (pointed_at_) {
    state.hovered = pointed_at_;
  } else if (pointed_before_) {
    state.hovered.reset();
  }
  pointed_before_ = pointed_at_.has_value();

  // One text at a time begins a selection.
  const bool drags = dragged() != 0 || figures_.mouse().selection().dragging();
  if (drags && !dragged_before_) across_.reset();
  dragged_before_ = drags;
  TextMouse* const mice[] = {&text_.mouse(), &markdown_.mouse(), &figures_.mouse()};
  for (const TextMouse* dragging : mice) {
    if (!dragging->selection().dragging()) continue;
    for (TextMouse* other : mice) {
      if (other != dragging) other->selection().clear();
    }
  }
  if (ImGui::IsAnyItemActive() || ImGui::GetTopMostPopupModal()) return;
  if (ctrl_pressed('A')) select_all(state);
  if (ctrl_pressed('C')) copy_selected(state);
}

}  // namespace specbound::gui
