#include "gui/model/text_layout.h"

#include <algorithm>

#include "gui/model/line_breaks.h"
#include "text/utf8.h"

namespace specbound::gui {

namespace {

constexpr uint32_t kReplacement = 0xfffd;

enum class Class { kBlank, kWord, kLineFeed, kOther };

Class class_of(uint32_t c) {
  if (c == '\n') return Class::kLineFeed;
  if (c == ' ' || c == '\t' || c == 0xa0 || c == 0x3000) return Class::kBlank;
  const bool ascii_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                          (c >= 'a' && c <= 'z') || c == '_' || c == '\'';
  const bool punctuation = c < 0xc0 || (c >= 0x2010 && c <= 0x2bff) || (c >= 0x3001 && c <= 0x303f);
  return ascii_word || (c >= 0x80 && !punctuation) || c == 0 ? Class::kWord : Class::kOther;
}

TextRange line_at(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  const size_t feed = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t end = text.find('\n', at);
  return {feed == std::string_view::npos ? 0 : feed + 1,
          end == std::string_view::npos ? text.size() : end};
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

  break_lines(
      text, {begin, end}, width, [&](size_t, uint32_t c) { return metrics.advance(c); },
      [&](size_t line_begin, size_t line_end) {
        lines_.push_back({line_begin, line_end});
        ++work_;
      });
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

TextRange word_around(std::string_view text, size_t at) {
  if (text.empty()) return {};
  if (at >= text.size()) at = character_before(text, text.size());
  const Class kind = class_of(drawn_character(text, at).code_point);
  size_t end = at + drawn_character(text, at).length;
  if (kind == Class::kLineFeed) return {at, at};
  if (kind == Class::kOther) return {at, end};
  while (end < text.size() && class_of(drawn_character(text, end).code_point) == kind) {
    end += drawn_character(text, end).length;
  }
  while (at > 0) {
    const size_t left = character_before(text, at);
    if (class_of(drawn_character(text, left).code_point) != kind) break;
    at = left;
  }
  return {at, std::min(end, text.size())};
}

std::string clipboard_text(std::string_view bytes) {
  Utf8Stream utf8;
  std::string text = utf8.push(bytes);
  text += utf8.finish();
  std::erase(text, '\0');
  return text;
}

TextRange TextSelection::unit_at(std::string_view text, size_t at) const {
  if (unit_ == Unit::kWord) return word_around(text, at);
  if (unit_ == Unit::kLine) return line_at(text, at);
  at = std::min(at, text.size());
  return {at, at};
}

void TextSelection::press(uint64_t key, std::string_view text, size_t at, int clicks) {
  key_ = key;
  dragging_ = true;
  unit_ = clicks >= 3 ? Unit::kLine : clicks == 2 ? Unit::kWord : Unit::kCharacter;
  anchor_ = range_ = unit_at(text, at);
}

void TextSelection::drag(std::string_view text, size_t at) {
  if (!dragging_) return;
  const TextRange here = unit_at(text, at);
  range_ = {std::min(anchor_.begin, here.begin), std::max(anchor_.end, here.end)};
}

void TextSelection::select_all(uint64_t key, std::string_view text) {
  key_ = key;
  dragging_ = false;
  unit_ = Unit::kCharacter;
  anchor_ = range_ = {0, text.size()};
}

std::optional<TextRange> TextSelection::in(uint64_t key) const {
  if (key != key_ || range_.begin == range_.end) return std::nullopt;
  return range_;
}

}  // namespace specbound::gui
