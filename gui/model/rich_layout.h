// Where Markdown's blocks and lines lie in a width: lines of text in several fonts, code in a box,
// tables in columns. Blocks that are laid out stay when others come behind them. No drawing: how
// wide characters are, and all measures, come from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gui/model/markdown.h"
#include "gui/model/text_layout.h"

namespace specbound::gui {

// Pixels.
struct RichMetrics {
  const TextMetrics *body = nullptr, *heading = nullptr, *mono = nullptr;
  float body_line = 1, heading_line = 1, mono_line = 1;  // heights
  float gap = 0;                                         // between blocks
  float list = 0, quote = 0;                             // how far what is in them is indented
  float pad = 0;                                         // of code's box and of a table's cells
  float code_header = 0;   // over code, for its language and its button
  float least_column = 1;  // of a table

  uint64_t id() const { return body->id * 31 + heading->id * 37 + mono->id; }
};

enum class RichFont { kBody, kHeading, kMono };

class RichLayout {
 public:
  // Bytes of the shown text at a place; lines beside each other are cells of one table.
  struct Line {
    size_t begin = 0, end = 0, block = 0;
    float x = 0, y = 0, height = 0;
    float left = 0;  // of its cell, in a table
  };
  struct Block {
    float x = 0, y = 0, right = 0, bottom = 0;  // its box
    size_t first_line = 0;
    std::vector<float> columns;  // of a table drawn as one: left edges of cells, and the right end
    std::vector<float> rows;     // likewise, from the top
  };

  // Lays out the blocks from `kept` on; those before are as they were at the last update, which
  // another width or other metrics make no use of.
  void update(const RichText& rich, size_t kept, float width, const RichMetrics& metrics);
  bool fits(float width, const RichMetrics& metrics) const {
    return width == width_ && metrics.id() == metrics_;
  }

  const std::vector<Line>& lines() const { return lines_; }  // top to bottom
  const std::vector<Block>& blocks() const { return blocks_; }
  float height() const { return height_; }
  // Index of the line at a place, the nearest one beside and between lines. Precondition: lines.
  size_t line_at(float x, float y) const;
  // Of the line that a byte of the shown text is in; 0 without lines.
  float y_of(size_t at) const;
  // Blocks laid out so far, again and again ones too: what tests count.
  size_t work() const { return work_; }

 private:
  void add_block(const RichText& rich, size_t index, const RichMetrics& metrics);
  void add_table(const RichText& rich, size_t index, const RichMetrics& metrics);

  std::vector<Line> lines_;
  std::vector<Block> blocks_;
  float width_ = -1, height_ = 0;
  uint64_t metrics_ = 0;
  size_t work_ = 0;
};

// The font of bytes with that style in that block.
RichFont font_of(const RichBlock& block, uint8_t style);
const TextMetrics& metrics_of(const RichMetrics& metrics, RichFont font);
inline constexpr int kLeastSmallHeading = 3;  // from this level on headings are bold body text

// Where byte `at` of a line begins, from the line's left; and back, as in text_layout.h.
float rich_x_of(const RichText& rich, const RichLayout::Line& line, size_t at,
                const RichMetrics& metrics);
size_t rich_byte_at(const RichText& rich, const RichLayout::Line& line, float x,
                    const RichMetrics& metrics, bool inside);

// Calls f(piece, span) for each part of [begin, end) that is of one span.
template <class F>
void each_piece(const RichText& rich, size_t begin, size_t end, F f) {
  if (begin >= end) return;
  for (size_t i = rich.span_at(begin); begin < end; ++i) {
    const size_t span_end = i + 1 < rich.spans.size() ? rich.spans[i + 1].begin : rich.text.size();
    const TextRange piece{begin, span_end < end ? span_end : end};
    f(piece, rich.spans[i]);
    begin = piece.end;
  }
}

}  // namespace specbound::gui
