// Wrapped text that can be selected with the mouse, its tokens in styles of their own. Laid out
// once, drawn where it is visible.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "gui/model/text_layout.h"

namespace specbound::gui {

struct Message;

// Of the font that ImGui draws with now.
TextMetrics font_metrics();

// The bytes of a line as they are drawn, from `at`.
void draw_characters(ImVec2 at, ImU32 color, std::string_view text, const TextMetrics& metrics);
// A line of a text, `at` its upper left corner, with what is selected of the text behind it.
void draw_text_line(ImVec2 at, ImU32 color, std::string_view text, const TextLayout::Line& line,
                    TextRange selected, const TextMetrics& metrics);

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

class SelectableText {
 public:
  // Layouts that were not asked for since the last call of this are dropped.
  void begin_frame();

  // The lines of a text that `key` names (see Message::key), in this width; laid out where need be.
  const TextLayout& layout(uint64_t key, std::string_view text, bool growing, float width);
  float height(uint64_t key, std::string_view text, bool growing, float width) {
    return line_height() * static_cast<float>(layout(key, text, growing, width).lines().size());
  }
  static float line_height();
  const TextMetrics& metrics() const { return metrics_; }

  struct Result {
    std::optional<size_t> over;  // the byte that the mouse is over
    bool clicked = false;        // there, without dragging
    ImVec2 end = {};             // behind the last character
  };
  // At ImGui's cursor, as an item of this width.
  Result draw(uint64_t key, std::string_view text, bool growing, float width, ImU32 color,
              const TokenStyles& tokens);

  // To the clipboard, what is selected of the text that `key` names.
  void copy_selected(uint64_t key, std::string_view text) const;
  TextSelection& selection() { return selection_; }
  const TextSelection& selection() const { return selection_; }

 private:
  struct Entry {
    TextLayout layout;
    uint64_t used = 0;  // frame
  };
  struct Place;
  void draw_tokens(const Place& place, const TextLayout::Line& line, float y) const;
  void take_mouse(const Place& place, Result& result);
  size_t byte_under_mouse(const Place& place, bool inside) const;

  TextMetrics metrics_;
  std::unordered_map<uint64_t, Entry> layouts_;
  uint64_t frame_ = 0;
  TextSelection selection_;
  ImVec2 pressed_at_ = {};
};

}  // namespace specbound::gui
