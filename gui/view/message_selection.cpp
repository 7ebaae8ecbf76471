// What is selected of the messages: of one by its own selection, of several by a drag from one into
// another or by Ctrl+A; and what of it is copied.
#include <imgui_internal.h>

#include <algorithm>

#include "gui/model/app_state.h"
#include "gui/view/message_view.h"

namespace specbound::gui {

namespace {

// The index of a message by its key; as many as there are where it is gone.
size_t index_of(const std::vector<Message>& messages, uint64_t key) {
  return static_cast<size_t>(std::ranges::find(messages, key, &Message::key) - messages.begin());
}

}  // namespace

bool MessageView::rendered(const Message& message) const {
  return message.role != ChatMessage::Role::kUser && !raw(message) &&
         !markdown_.shown(message.key).empty();
}

std::string_view MessageView::shown_text(const Message& message) const {
  return rendered(message) ? markdown_.shown(message.key) : std::string_view(message.text);
}

uint64_t MessageView::dragged() const {
  for (const TextMouse* mouse : {&text_.mouse(), &markdown_.mouse()}) {
    if (mouse->selection().dragging()) return mouse->selection().key();
  }
  return 0;
}

// The messages share the pane out among them: above the first is its own, below the last likewise.
// A mouse beyond the pane is at its edge, where text scrolls towards it.
bool MessageView::reached_by_drag(const AppState& state, size_t index, float top,
                                  float bottom) const {
  const std::vector<Message>& messages = state.shown().messages;
  const uint64_t from = dragged();
  if (from == 0 || (!across_ && from == messages[index].key)) return false;
  const ImRect& view = ImGui::GetCurrentWindow()->ClipRect;
  const float y = std::clamp(ImGui::GetMousePos().y, view.Min.y, view.Max.y - 1);
  return (y >= top || index == 0) && (y < bottom || index + 1 == messages.size());
}

std::optional<TextRange> MessageView::selected_across(const AppState& state, size_t index) const {
  if (!across_ || across_->from == across_->to) return std::nullopt;
  const std::vector<Message>& messages = state.shown().messages;
  const size_t from = index_of(messages, across_->from), to = index_of(messages, across_->to);
  if (std::max(from, to) >= messages.size() || index == from) return std::nullopt;
  if (index < std::min(from, to) || index > std::max(from, to)) return std::nullopt;
  const size_t size = shown_text(messages[index]).size();
  if (index != to) return TextRange{0, size};
  const size_t at = std::min(across_->at, size);
  return to > from ? TextRange{0, at} : TextRange{at, size};
}

std::optional<TextRange> MessageView::selected(const AppState& state, size_t index) const {
  const Message& message = state.shown().messages[index];
  if (const auto across = selected_across(state, index)) return across;
  const auto own = mouse_of(message).selection().in(message.key);
  // A text may have become shorter: a replay goes back, a mark of Markdown is found its other half.
  const size_t size = shown_text(message).size();
  if (!own || own->begin >= size) return std::nullopt;
  return TextRange{own->begin, std::min(own->end, size)};
}

void MessageView::select_all(const AppState& state) {
  const std::vector<Message>& messages = state.shown().messages;
  if (messages.empty()) return;
  clear_selection();
  const Message &first = messages.front(), &last = messages.back();
  TextMouse& mouse = rendered(first) ? markdown_.mouse() : text_.mouse();
  mouse.selection().select_all(first.key, shown_text(first));
  across_ = {first.key, last.key, shown_text(last).size()};
}

void MessageView::copy_selected(const AppState& state) const {
  const std::vector<Message>& messages = state.shown().messages;
  std::string copied;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    figures_.mouse().copy_selected(message.key, message.figures);
    const std::optional<TextRange> range = selected(state, i);
    if (!range || range->begin >= range->end) continue;
    if (!copied.empty()) copied += "\n\n";
    copied += shown_text(message).substr(range->begin, range->end - range->begin);
  }
  if (!copied.empty()) ImGui::SetClipboardText(clipboard_text(copied).c_str());
}

}  // namespace specbound::gui
