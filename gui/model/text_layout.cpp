#include "gui/model/text_layout.h"

#include <algorithm>

#include "app/terminal_text.h"
#include "text/utf8_stream.h"

namespace specbound::gui {

namespace {

constexpr uint32_t kReplacement = 0xfffd;

bool is_blank(uint32_t c) {
  return c == ' ' || c == '\t';
}

// Scripts that are written without spaces.
bool breaks_anywhere(uint32_t c) {
  return (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0xff00 && c <= 0xffef) ||
         (c >= 0x20000 && c <= 0x3fffd) || (c >= 0x0e00 && c <= 0x0eff);
}

}  // namespace

DrawnCharacter drawn_character(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first >= 0x20 && first < 0x7f) return {first, 1};
  const Utf8Head head = utf8_head(text.substr(at, 4));
  const auto length = static_cast<size_t>(head.length);
  if (head.kind != Utf8Head::kWhole) return {kReplacement, length};
  const uint32_t c = code_point(text.substr(at, length));
  if (c == '\n' || c == '\t') return {c, length};
  if (c == '\r' || (c >= 0xa0 && is_shapeless(c))) return {0, length};
  return {c < 0x20 || (c >= 0x7f && c < 0xa0) ? kReplacement : c, length};
}

size_t character_before(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) {
    --begin;
  }
  // Bytes that go on from nothing are characters of their own.
  return begin + drawn_character(text, begin).length == at ? begin : at - 1;
}

size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
    return utf8_head(text.substr(at)).kind == Utf8Head::kCut ? at : text.size();
  }
  return text.size();
}

void TextLayout::update(std::string_view text, bool growing, float width,
                        const TextMetrics& metrics) {
  const size_t end = growing ? whole_characters(text) : text.size();
  size_t begin = 0;  // of the line under way
  if (lines_.empty() || width != width_ || metrics.id != metrics_ || end < shown_) {
    lines_.clear();
  } else if (end == shown_) {
    return;
  } else {
    begin = lines_.back().begin;
    lines_.pop_back();
  }
  width_ = width;
  metrics_ = metrics.id;
  shown_ = end;

  const auto finish = [&](size_t line_end) {
    lines_.push_back({begin, line_end});
    ++work_;
  };
  size_t breakable = begin;  // behind the last place where the line may be broken
  float x = 0;
  for (size_t at = begin; at < end;) {
    const DrawnCharacter c = drawn_character(text, at);
    if (c.code_point == '\n') {
      finish(at);
      at = begin = breakable = at + 1;
      x = 0;
      continue;
    }
    const float advance = metrics.advance(c.code_point);
    const bool blank = is_blank(c.code_point);
    const bool alone = breaks_anywhere(c.code_point);
    if (alone) breakable = at;
    // Blanks hang over the edge.
    const bool over = (!blank && x + advance > width) || at + c.length - begin > kMaxLineBytes;
    if (over && at > begin) {
      const size_t line_end = breakable > begin ? breakable : at;
      finish(line_end);
      at = begin = breakable = line_end;
      x = 0;
      continue;
    }
    x += advance;
    at += c.length;
    if (blank || alone) breakable = at;
  }
  finish(end);
}

size_t TextLayout::line_of(size_t at) const {
  const auto after = std::upper_bound(lines_.begin(), lines_.end(), at,
                                      [](size_t a, const Line& line) { return a < line.begin; });
  return after == lines_.begin() ? 0 : static_cast<size_t>(after - lines_.begin()) - 1;
}

float x_of(std::string_view text, const TextLayout::Line& line, size_t at,
           const TextMetrics& metrics) {
  float x = 0;
  for (size_t i = line.begin; i < std::min(at, line.end);) {
    const DrawnCharacter c = drawn_character(text, i);
    x += metrics.advance(c.code_point);
    i += c.length;
  }
  return x;
}

size_t byte_at(std::string_view text, const TextLayout::Line& line, float x,
               const TextMetrics& metrics, bool inside) {
  float left = 0;
  for (size_t i = line.begin; i < line.end;) {
    const DrawnCharacter c = drawn_character(text, i);
    const float advance = metrics.advance(c.code_point);
    if (x < left + (inside ? advance : advance / 2)) return i;
    left += advance;
    i += c.length;
  }
  return line.end;
}

}  // namespace specbound::gui
