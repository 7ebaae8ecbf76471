// Wrapped text that can be selected with the mouse, its tokens in styles of their own. Laid out
// once, drawn where it is visible.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "gui/model/text_layout.h"
#include "gui/view/text_mouse.h"

namespace specbound::gui {

// Of the font that ImGui draws with now.
TextMetrics font_metrics();

// The bytes of a line as they are drawn, from `at`.
void draw_characters(ImVec2 at, ImU32 color, std::string_view text, const TextMetrics& metrics);
// A line of a text, `at` its upper left corner, with what is selected of the text behind it.
void draw_text_line(ImVec2 at, ImU32 color, std::string_view text, const TextLayout::Line& line,
                    TextRange selected, const TextMetrics& metrics);

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

  struct Result : TextMouse::Result {
    ImVec2 end = {};  // behind the last character
  };
  // At ImGui's cursor, as an item of this width.
  Result draw(uint64_t key, std::string_view text, bool growing, float width, ImU32 color,
              const TokenStyles& tokens);

  TextMouse& mouse() { return mouse_; }
  const TextMouse& mouse() const { return mouse_; }

 private:
  struct Entry {
    TextLayout layout;
    uint64_t used = 0;  // frame
  };
  size_t byte_under_mouse(std::string_view text, const TextLayout& layout, ImVec2 origin,
                          bool inside) const;

  TextMetrics metrics_;
  std::unordered_map<uint64_t, Entry> layouts_;
  uint64_t frame_ = 0;
  TextMouse mouse_;
};

}  // namespace specbound::gui
