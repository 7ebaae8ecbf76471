// Replies as their Markdown means them: headings, lists, emphasis, tables, code in a box with a
// button that copies it. Selected with the mouse as other text is, its tokens in styles of their
// own. Parsed and laid out when text comes, drawn where it is visible.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gui/model/markdown.h"
#include "gui/model/rich_layout.h"
#include "gui/view/selectable_text.h"

namespace specbound::gui {

class Probe;

class MarkdownText {
 public:
  // Longer replies, and longer paragraphs, lists or blocks of code of one that still comes, are
  // not for this: work on a frame is bounded.
  static constexpr size_t kMostBytes = 128 << 10, kMostUnsettled = 64 << 10;

  // With the body's font. What was not asked for since the last call is dropped.
  void begin_frame();

  // Parses and lays out where need be; see SelectableText::layout for what is given. False: it is
  // to be shown as it was written.
  bool update(uint64_t key, std::string_view text, bool growing, float width);

  // The following are for what update() was true of in this frame.
  float height(uint64_t key) const { return entry(key).layout.height(); }
  // Of the line that byte `at` of the source is shown in.
  float top_of(uint64_t key, size_t at) const;
  // At ImGui's cursor, as an item; `over` is a byte of the source. What is where is told under
  // names that begin with `name`.
  SelectableText::Result draw(uint64_t key, float width, const TokenStyles& tokens, Probe& probe,
                              const std::string& name);
  // The shown text, which the selection is of; empty for what is not shown here.
  std::string_view shown(uint64_t key) const;

  TextMouse& mouse() { return mouse_; }
  const TextMouse& mouse() const { return mouse_; }
  // Bytes parsed so far, again and again ones too: what tests count.
  size_t work() const { return work_; }

 private:
  struct Entry {
    RichText rich;
    RichLayout layout;
    size_t read = 0;        // bytes of the source that are in `rich`
    bool complete = false;  // read with nothing to come behind it
    bool good = false;
    // What is behind this much of the source came since it was parsed last.
    size_t parsed = 0;
    RichText::Mark parsed_mark;
    size_t refused = 0;  // how long the source was when the parser refused it; 0: it did not
    // As far as nothing changes any more: in the source, and in `rich`.
    size_t settled = 0;
    RichText::Mark settled_mark;
    uint64_t used = 0;  // frame
  };
  const Entry& entry(uint64_t key) const { return entries_.at(key); }
  bool parse(Entry& entry, std::string_view text, size_t& kept);
  void draw_block(const Entry& entry, size_t index, ImVec2 origin, Probe& probe,
                  const std::string& name) const;
  void draw_code_header(const Entry& entry, size_t index, ImVec2 origin, Probe& probe,
                        const std::string& name) const;
  void draw_table(const RichLayout::Block& box, ImVec2 origin) const;
  void draw_line(const Entry& entry, const RichLayout::Line& line, ImVec2 origin,
                 TextRange selected, const TokenStyles& tokens) const;
  size_t byte_under_mouse(const Entry& entry, ImVec2 origin, bool inside) const;

  TextMetrics body_, heading_, mono_;
  RichMetrics metrics_;
  std::unordered_map<uint64_t, Entry> entries_;
  uint64_t frame_ = 0;
  TextMouse mouse_;
  size_t work_ = 0;
};

}  // namespace specbound::gui
