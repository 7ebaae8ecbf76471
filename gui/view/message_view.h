// One message of the chat: its text in tokens, its figures, and what can be done with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gui/model/conversation.h"
#include "gui/model/trace_model.h"
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
  bool selecting() const { return text_.selection().dragging(); }

 private:
  // What is where in a message.
  struct Frame {
    float left = 0;        // of the text
    float text_width = 0;  // that it is wrapped in
    float top = 0;         // of the text, from the message's top
    float text_height = 0, figures_height = 0, actions_height = 0;
    float total = 0;
  };
  Frame frame(const AppState& state, size_t index, float width);
  bool growing(const AppState& state, const Message& message) const;
  bool editing(const AppState& state, size_t index) const;
  void draw_text(AppState& state, size_t index, const Frame& frame, bool tinted, Probe& probe);
  void draw_waiting(const AppState& state, const Message& message, ImVec2 end) const;
  void draw_figures(const Message& message, const Frame& frame);
  void draw_actions(AppState& state, size_t index, Probe& probe);
  void draw_editor(AppState& state, size_t index, float width, Probe& probe);
  void token_tooltip(const AppState& state, const TokenRef& token) const;

  SelectableText text_, figures_;
  std::string conversation_;         // that what is below is about
  std::optional<uint64_t> editing_;  // key of the user's message that is being changed
  TextBox editor_;
  std::optional<TokenRef> pointed_at_;  // in this frame
  bool pointed_before_ = false;         // and in the one before
};

}  // namespace specbound::gui
