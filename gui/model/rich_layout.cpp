#include "gui/model/rich_layout.h"

#include <algorithm>
#include <cmath>

#include "gui/model/line_breaks.h"

namespace specbound::gui {

namespace {

float indent_of(const RichBlock& block, const RichMetrics& metrics) {
  float indent = 0;
  for (const char container : block.nest) indent += container == 'q' ? metrics.quote : metrics.list;
  return indent;
}

float line_height(const RichBlock& block, const RichMetrics& metrics) {
  if (block.kind == RichBlock::Kind::kCode) return metrics.mono_line;
  const RichFont font = font_of(block, 0);
  return font == RichFont::kHeading ? metrics.heading_line : metrics.body_line;
}

// Widths of characters whose places are asked for in order, or a little further back.
class Advances {
 public:
  Advances(const RichText& rich, const RichBlock& block, const RichMetrics& metrics)
      : rich_(rich), block_(block), metrics_(metrics) {}

  float operator()(size_t at, uint32_t c) {
    if (!now_ || at < begin_ || at >= end_) find(at);
    return now_->advance(c);
  }

 private:
  void find(size_t at) {
    const size_t i = rich_.span_at(at);
    begin_ = rich_.spans[i].begin;
    end_ = i + 1 < rich_.spans.size() ? rich_.spans[i + 1].begin : rich_.text.size();
    now_ = &metrics_of(metrics_, font_of(block_, rich_.spans[i].style));
  }

  const RichText& rich_;
  const RichBlock& block_;
  const RichMetrics& metrics_;
  const TextMetrics* now_ = nullptr;
  size_t begin_ = 0, end_ = 0;
};

// How wide the widest line of a cell would be unbroken.
float natural_width(const RichText& rich, const RichBlock& block, TextRange range,
                    const RichMetrics& metrics) {
  Advances advances(rich, block, metrics);
  float x = 0, widest = 0;
  for (size_t at = range.begin; at < range.end;) {
    const DrawnCharacter c = drawn_character(rich.text, at);
    x = c.code_point == '\n' ? 0 : x + advances(at, c.code_point);
    widest = std::max(widest, x);
    at += c.length;
  }
  return widest;
}

// Widths of a table's columns within `room`: as wide as their cells would be, where all of that has
// room; else narrow ones as they are, and wide ones what is left in equal shares.
std::vector<float> column_widths(std::vector<float> natural, float room) {
  std::vector<float> ascending = natural;
  std::sort(ascending.begin(), ascending.end());
  float left = room, widest = room;
  for (size_t i = 0; i < ascending.size(); ++i) {
    const float share = left / static_cast<float>(ascending.size() - i);
    if (ascending[i] > share) {
      widest = share;
      break;
    }
    left -= ascending[i];
  }
  for (float& width : natural) width = std::floor(std::min(width, widest));
  return natural;
}

}  // namespace

RichFont font_of(const RichBlock& block, uint8_t style) {
  if ((style & kCode) != 0 || block.kind == RichBlock::Kind::kCode) return RichFont::kMono;
  const bool large = block.kind == RichBlock::Kind::kHeading && block.level < kLeastSmallHeading;
  return large ? RichFont::kHeading : RichFont::kBody;
}

const TextMetrics& metrics_of(const RichMetrics& metrics, RichFont font) {
  return font == RichFont::kMono      ? *metrics.mono
         : font == RichFont::kHeading ? *metrics.heading
                                      : *metrics.body;
}

void RichLayout::update(const RichText& rich, size_t kept, float width,
                        const RichMetrics& metrics) {
  if (!fits(width, metrics)) kept = 0;
  width_ = width;
  metrics_ = metrics.id();
  kept = std::min({kept, blocks_.size(), rich.blocks.size()});
  if (kept < blocks_.size()) {
    lines_.resize(blocks_[kept].first_line);
    blocks_.resize(kept);
  }
  for (size_t i = kept; i < rich.blocks.size(); ++i) {
    add_block(rich, i, metrics);
    ++work_;
  }
  height_ = blocks_.empty() ? metrics.body_line : blocks_.back().bottom;
}

void RichLayout::add_block(const RichText& rich, size_t index, const RichMetrics& metrics) {
  const RichBlock& block = rich.blocks[index];
  Block box;
  box.x = std::min(indent_of(block, metrics), width_ / 2);
  box.right = width_;
  box.y = index == 0 ? 0 : blocks_[index - 1].bottom + (block.close ? 0 : metrics.gap);
  box.first_line = lines_.size();
  const bool code = block.kind == RichBlock::Kind::kCode;
  const float height = line_height(block, metrics), pad = code ? metrics.pad : 0;
  float y = box.y + (code ? metrics.code_header + pad : 0);
  blocks_.push_back(box);
  if (block.kind == RichBlock::Kind::kTable) return add_table(rich, index, metrics);
  if (block.kind != RichBlock::Kind::kRule) {
    break_lines(rich.text, block.text, box.right - box.x - 2 * pad, Advances(rich, block, metrics),
                [&](size_t begin, size_t end) {
                  lines_.push_back({begin, end, index, box.x + pad, y, height});
                  y += height;
                });
  } else {
    y += height / 2;
  }
  blocks_.back().bottom = y + pad;
}

void RichLayout::add_table(const RichText& rich, size_t index, const RichMetrics& metrics) {
  const RichBlock& block = rich.blocks[index];
  Block& box = blocks_.back();
  const size_t columns = std::max<size_t>(block.columns, 1), rows = block.cells.size() / columns;
  const float pads = 2 * metrics.pad * static_cast<float>(columns);
  const float room = box.right - box.x - pads;
  float y = box.y;
  if (room < metrics.least_column * static_cast<float>(columns)) {
    // Too many columns for any of them to be read: its rows are lines.
    break_lines(rich.text, block.text, box.right - box.x, Advances(rich, block, metrics),
                [&](size_t begin, size_t end) {
                  lines_.push_back({begin, end, index, box.x, y, metrics.body_line});
                  y += metrics.body_line;
                });
    box.bottom = y;
    return;
  }
  std::vector<float> natural(columns, metrics.least_column);
  for (size_t i = 0; i < rows * columns; ++i) {
    float& width = natural[i % columns];
    width = std::max(width, std::ceil(natural_width(rich, block, block.cells[i], metrics)) + 1);
  }
  const std::vector<float> widths = column_widths(std::move(natural), room);
  box.columns.assign(1, box.x);
  for (const float width : widths) {
    box.columns.push_back(box.columns.back() + width + 2 * metrics.pad);
  }
  box.right = box.columns.back();
  box.rows.assign(1, y);
  for (size_t row = 0; row < rows; ++row) {
    const size_t first = lines_.size();
    const float top = y + metrics.pad / 2;
    float bottom = top + metrics.body_line;
    for (size_t column = 0; column < columns; ++column) {
      float line_y = top;
      break_lines(rich.text, block.cells[row * columns + column], widths[column],
                  Advances(rich, block, metrics), [&](size_t begin, size_t end) {
                    lines_.push_back({begin, end, index, box.columns[column] + metrics.pad, line_y,
                                      metrics.body_line, box.columns[column]});
                    line_y += metrics.body_line;
                  });
      bottom = std::max(bottom, line_y);
    }
    for (size_t i = first; i < lines_.size(); ++i) {
      Line& line = lines_[i];
      const auto after = std::upper_bound(box.columns.begin(), box.columns.end(), line.x);
      const auto column = static_cast<size_t>(after - box.columns.begin()) - 1;
      if (column >= block.aligns.size()) continue;
      const RichBlock::Align align = block.aligns[column];
      if (align == RichBlock::Align::kLeft) continue;
      const float free = std::max(0.0f, widths[column] - rich_x_of(rich, line, line.end, metrics));
      line.x += std::floor(align == RichBlock::Align::kRight ? free : free / 2);
    }
    std::stable_sort(lines_.begin() + static_cast<std::ptrdiff_t>(first), lines_.end(),
                     [](const Line& a, const Line& b) { return a.y < b.y; });
    y = bottom + metrics.pad / 2;
    box.rows.push_back(y);
  }
  box.bottom = y;
}

size_t RichLayout::line_at(float x, float y) const {
  const auto below = std::upper_bound(lines_.begin(), lines_.end(), y,
                                      [](float at, const Line& line) { return at < line.y; });
  if (below == lines_.begin()) return 0;
  // Of the lines that begin at that height, the last one whose cell is not right of the place.
  const float top = (below - 1)->y;
  auto found = below - 1;
  while (found != lines_.begin() && (found - 1)->y == top && found->left > x) --found;
  return static_cast<size_t>(found - lines_.begin());
}

float RichLayout::y_of(size_t at) const {
  float y = 0;
  for (const Line& line : lines_) {
    if (line.begin <= at && at <= line.end) return line.y;
    if (line.begin <= at) y = line.y;
  }
  return y;
}

float rich_x_of(const RichText& rich, const RichLayout::Line& line, size_t at,
                const RichMetrics& metrics) {
  const RichBlock& block = rich.blocks[line.block];
  float x = 0;
  each_piece(rich, line.begin, std::min(at, line.end), [&](TextRange piece, const RichSpan& span) {
    x += x_of(rich.text, {piece.begin, piece.end}, piece.end,
              metrics_of(metrics, font_of(block, span.style)));
  });
  return x;
}

size_t rich_byte_at(const RichText& rich, const RichLayout::Line& line, float x,
                    const RichMetrics& metrics, bool inside) {
  const RichBlock& block = rich.blocks[line.block];
  float left = 0;
  size_t found = line.end;
  bool done = false;
  each_piece(rich, line.begin, line.end, [&](TextRange piece, const RichSpan& span) {
    if (done) return;
    const TextMetrics& font = metrics_of(metrics, font_of(block, span.style));
    const TextLayout::Line part{piece.begin, piece.end};
    const float width = x_of(rich.text, part, piece.end, font);
    const size_t at = byte_at(rich.text, part, x - left, font, inside);
    left += width;
    if (at == piece.end && piece.end != line.end && x >= left) return;
    done = true;
    found = at;
  });
  return found;
}

}  // namespace specbound::gui
