// Selecting text with the mouse, whatever it is laid out by, and what is drawn behind its letters:
// the tokens that it is made of, in styles of their own.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "gui/model/text_layout.h"

namespace specbound::gui {

struct Message;

// How a token is drawn; 0: without.
struct TokenStyle {
  ImU32 fill = 0, underline = 0, outline = 0;
};

// Whose tokens a text is made of, and their styles.
struct TokenStyles {
  const Message* message = nullptr;  // nullptr: it has none
  std::function<TokenStyle(int)> style = {};
  std::function<void(int, ImVec2, ImVec2)> seen =
      {};  // may be empty; told what part is drawn where
};

// Draws what is behind the letters of text[piece], in one line from `at` on. Byte b of the text is
// byte b + to_message of the message.
void draw_tokens(std::string_view text, TextRange piece, std::ptrdiff_t to_message, ImVec2 at,
                 float height, const TextMetrics& metrics, const TokenStyles& tokens);

// A text on the screen, as the mouse finds it.
struct TextUnderMouse {
  uint64_t key;
  std::string_view text;
  size_t shown;  // bytes of it
  // The boundary between characters nearest to the mouse; `inside`: the character that it is over.
  std::function<size_t(bool inside)> byte;
};

class TextMouse {
 public:
  // The text may be out of view, and not drawn, when the button is let go.
  void begin_frame();

  struct Result {
    std::optional<size_t> over;  // the byte that the mouse is over
    bool clicked = false;        // there, without dragging
    size_t reached = 0;          // where expect() has asked for it: the boundary that is nearest
  };
  // Of the text that is drawn next: what a drag that began in another one has selected of it, in
  // place of a selection of its own; and whether the mouse has come there by such a drag.
  void expect(std::optional<TextRange> marked, bool reached) {
    marked_ = marked;
    reached_ = reached;
  }
  // What is to be drawn as selected of the text that was taken last.
  TextRange selected(uint64_t key) const {
    return marked_ ? *marked_ : selection_.in(key).value_or(TextRange());
  }
  // Of ImGui's newest item, which is all of that text.
  Result take(const TextUnderMouse& text);

  // To the clipboard, what is selected of the text that `key` names.
  void copy_selected(uint64_t key, std::string_view text) const;
  TextSelection& selection() { return selection_; }
  const TextSelection& selection() const { return selection_; }

 private:
  TextSelection selection_;
  ImVec2 pressed_at_ = {};
  std::optional<TextRange> marked_;
  bool reached_ = false;
};

}  // namespace specbound::gui
