// One message of the chat: its text in tokens, a reply's as its Markdown means it, its figures, and
// what can be done with it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "gui/model/conversation.h"
#include "gui/model/trace_model.h"
#include "gui/view/markdown_text.h"
#include "gui/view/selectable_text.h"
#include "gui/view/text_box.h"

namespace specbound::gui {

class AppState;
class Probe;

class MessageView {
 public:
  // Once a frame, before the messages of the conversation shown.
  void begin_frame(const AppState& state);
  // In pixels, as draw() draws it in this width: a message that is not drawn takes this much room.
  float height(const AppState& state, size_t index, float width);
  void draw(AppState& state, size_t index, float width, bool tinted, Probe& probe);
  // How far below the top of its message a token's line is.
  float token_top(const AppState& state, size_t index, int token, float width);
  // After the messages: what the keys do with the text selected, and whose token is pointed at.
  void end_frame(AppState& state);
  // The mouse is selecting text.
  bool selecting() const {
    return text_.mouse().selection().dragging() || markdown_.mouse().selection().dragging();
  }

  // Whether replies are shown as they were written, but for those that were switched singly.
  bool raw() const { return raw_; }
  void set_raw(bool on);

 private:
  // What is where in a message.
  struct Frame {
    float left = 0;         // of the text
    float text_width = 0;   // that it is wrapped in
    float top = 0;          // of the text, from the message's top
    bool rendered = false;  // its Markdown is
    float text_height = 0, figures_height = 0, actions_height = 0;
    float total = 0;
  };
  Frame frame(const AppState& state, size_t index, float width);
  bool growing(const AppState& state, const Message& message) const;
  bool editing(const AppState& state, size_t index) const;
  bool raw(const Message& message) const { return raw_ != switched_.contains(message.key); }
  // Lays the text out for `frame`, whose width is known.
  void lay_out_text(const AppState& state, const Message& message, Frame& frame);
  void draw_text(AppState& state, size_t index, const Frame& frame, bool tinted, Probe& probe);
  void draw_waiting(const AppState& state, const Message& message, ImVec2 end) const;
  void draw_figures(const Message& message, const Frame& frame);
  void draw_actions(AppState& state, size_t index, bool rendered, Probe& probe);
  void draw_editor(AppState& state, size_t index, float width, Probe& probe);
  void token_tooltip(const AppState& state, const TokenRef& token) const;

  // The text of a message as it is shown, which its selection is of.
  std::string_view shown_text(const Message& message) const;
  bool rendered(const Message& message) const;  // in this frame, once its height was asked for
  const TextMouse& mouse_of(const Message& message) const {
    return rendered(message) ? markdown_.mouse() : text_.mouse();
  }
  // Key of the text that a drag began in, while it goes on; 0: none does.
  uint64_t dragged() const;
  bool reached_by_drag(const AppState& state, size_t index, float top, float bottom) const;
  // What of a message is selected by a drag over several; nullopt: nothing is, but perhaps of it
  // alone.
  std::optional<TextRange> selected_across(const AppState& state, size_t index) const;
  std::optional<TextRange> selected(const AppState& state, size_t index) const;
  void select_all(const AppState& state);
  void copy_selected(const AppState& state) const;
  void clear_selection();

  SelectableText text_, figures_;
  MarkdownText markdown_;
  bool raw_ = false;
  std::set<uint64_t> switched_;      // keys of replies that are shown the other way
  std::string conversation_;         // that what is below is about
  std::optional<uint64_t> editing_;  // key of the user's message that is being changed
  TextBox editor_;
  // Selected from one message into another: where the drag began, whose selection knows what of
  // that one, and how far it came in the other, in bytes of its shown text.
  struct Across {
    uint64_t from = 0, to = 0;  // keys
    size_t at = 0;
  };
  std::optional<Across> across_;
  bool dragged_before_ = false;         // in the frame before
  std::optional<TokenRef> pointed_at_;  // in this frame
  bool pointed_before_ = false;         // and in the one before
};

}  // namespace specbound::gui
