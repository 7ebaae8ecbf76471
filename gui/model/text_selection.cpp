#include "gui/model/text_selection.h"

#include <algorithm>

#include "gui/model/text_layout.h"
#include "text/utf8_stream.h"

namespace specbound::gui {

namespace {

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

void TextSelection::clear() {
  *this = TextSelection();
}

std::optional<TextRange> TextSelection::in(uint64_t key) const {
  if (key != key_ || range_.begin == range_.end) return std::nullopt;
  return range_;
}

}  // namespace specbound::gui
