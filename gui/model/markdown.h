// Markdown as it is shown: the text without its marks, what style each part of it has, and where in
// the source it comes from, so that tokens (bytes of the source) are found in what is shown. No
// drawing, no layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gui/model/text_layout.h"

namespace specbound::gui {

enum RichStyle : uint8_t {
  kBold = 1,
  kItalic = 2,
  kCode = 4,
  kLink = 8,
  kStruck = 16,
  kAside = 32,  // where a link leads
};

// Bytes of the shown text from `begin` to the next span's.
struct RichSpan {
  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  size_t begin = 0;
  size_t raw = kNowhere;  // where they are in the source; kNowhere: not in it
  uint8_t style = 0;      // RichStyle bits
};

struct RichBlock {
  enum class Kind { kParagraph, kHeading, kCode, kRule, kTable };
  enum class Align : uint8_t { kLeft, kCentre, kRight };
  Kind kind = Kind::kParagraph;
  int level = 0;         // of a heading, from 1
  std::string nest;      // what it is in, outermost first: 'l' a list, 'q' a quotation
  bool close = false;    // no gap above
  std::string language;  // of code; may be empty
  TextRange marker;      // in front of a list's item; empty: none
  TextRange text;        // without the marker; of a table all cells
  // Of a table, row by row, the first one its head: as many cells as columns.
  size_t columns = 0;
  std::vector<TextRange> cells;
  std::vector<Align> aligns;  // of the columns
};

struct RichText {
  std::string text;
  std::vector<RichSpan> spans;  // in order, the first at 0; none of an empty text
  std::vector<RichBlock> blocks;

  // Index of the span that byte `at` is in. Precondition: at < text.size().
  size_t span_at(size_t at) const;
  // Where byte `raw` of the source is shown; of what is not, what is shown behind it.
  size_t shown_at(size_t raw) const;

  // What a text that grows goes back to.
  struct Mark {
    size_t text = 0, spans = 0, blocks = 0;
  };
  Mark mark() const { return {text.size(), spans.size(), blocks.size()}; }
  void cut(const Mark& mark);
  // Takes what has come since it was parsed as it is, into the last block. Precondition: blocks.
  void extend(std::string_view more, size_t raw);
};

// Containers within containers beyond this are not indented any further.
inline constexpr size_t kMostNest = 12;

// Whether this build has a parser and its library is on this machine.
bool markdown_available();

// Appends what the source from `begin` on says. False, with `to` as it was, where no parser is
// available, or the source is made to take time: what is shown, or the addresses and titles of its
// links, would be many times as long as it, or paragraphs have too many brackets for their lines.
// Work is linear in the source, but for brackets: a bounded number of looks at paragraphs' lines.
bool append_markdown(RichText& to, std::string_view source, size_t begin);

// The last place from `begin` on behind which nothing can change what is shown of the text before
// it, as far as one can tell without parsing: behind a blank line, outside code, lists and
// quotations. `begin` where there is none.
size_t settled_markdown(std::string_view source, size_t begin);

}  // namespace specbound::gui
