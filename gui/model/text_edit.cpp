#include "gui/model/text_edit.h"

#include <algorithm>
#include <utility>

#include "gui/model/text_layout.h"

namespace specbound::gui {

namespace {

std::string insertable(std::string_view text, size_t room) {
  std::string result;
  const std::string utf8 = clipboard_text(text);
  for (size_t i = 0; i < utf8.size();) {
    const size_t length = drawn_character(utf8, i).length;
    const char c = utf8[i];
    const bool line_end = c == '\n' || c == '\r';
    const bool control = length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
    if (result.size() + length > room) break;
    if (line_end) {
      result += '\n';
      if (c == '\r' && i + 1 < utf8.size() && utf8[i + 1] == '\n') ++i;
    } else if (!control || c == '\t') {
      result.append(utf8, i, length);
    }
    i += length;
  }
  return result;
}

bool is_blank(std::string_view text, size_t at) {
  return text[at] == ' ' || text[at] == '\t';
}

}  // namespace

std::string TextEdit::selected() const {
  const TextRange range = selection();
  return text_.substr(range.begin, range.end - range.begin);
}

void TextEdit::set_text(std::string text) {
  const size_t version = version_ + 1;
  *this = TextEdit();
  version_ = version;
  text_ = insertable(text, kMaxBytes);
  anchor_ = caret_ = text_.size();
}

void TextEdit::insert(std::string_view utf8) {
  const TextRange range = selection();
  const std::string added =
      insertable(utf8, kMaxBytes - (text_.size() - (range.end - range.begin)));
  if (added.empty()) return;
  const bool typed = added.size() <= 4 && added != "\n" && range.begin == range.end;
  remember(typed ? Change::kTyping : Change::kOther);
  text_.replace(range.begin, range.end - range.begin, added);
  anchor_ = caret_ = range.begin + added.size();
}

void TextEdit::erase(bool forward, Step step) {
  TextRange range = selection();
  if (range.begin == range.end) {
    const size_t other = beside(forward, step);
    range = {std::min(caret_, other), std::max(caret_, other)};
    if (range.begin == range.end) return;
    remember(Change::kErasing);
  } else {
    remember(Change::kOther);
  }
  text_.erase(range.begin, range.end - range.begin);
  anchor_ = caret_ = range.begin;
}

size_t TextEdit::beside(bool forward, Step step) const {
  const std::string_view text = text_;
  size_t at = caret_;
  if (forward) {
    if (at == text.size()) return at;
    if (step == Step::kCharacter) return at + drawn_character(text, at).length;
    at = std::max(word_around(text, at).end, at + drawn_character(text, at).length);
    while (at < text.size() && is_blank(text, at)) ++at;
    return at;
  }
  if (at == 0) return 0;
  if (step == Step::kCharacter) return character_before(text, at);
  while (at > 0 && is_blank(text, at - 1)) --at;
  return at == 0 ? 0 : std::min(word_around(text, character_before(text, at)).begin, at - 1);
}

void TextEdit::step(bool forward, Step step, bool selecting) {
  const TextRange range = selection();
  const bool collapse = !selecting && step == Step::kCharacter && range.begin != range.end;
  move_to(collapse ? (forward ? range.end : range.begin) : beside(forward, step), selecting);
}

void TextEdit::move_to(size_t at, bool selecting) {
  caret_ = std::min(at, text_.size());
  if (!selecting) anchor_ = caret_;
  last_ = Change::kNone;
}

void TextEdit::select(TextRange range) {
  anchor_ = std::min(range.begin, text_.size());
  caret_ = std::min(range.end, text_.size());
  last_ = Change::kNone;
}

void TextEdit::remember(Change change) {
  ++version_;
  redo_.clear();
  if (change != last_ || change == Change::kOther) undo_.push_back({text_, anchor_, caret_});
  last_ = change;
  size_t bytes = 0;
  for (const State& state : undo_) bytes += state.text.size();
  while (undo_.size() > 1 && (undo_.size() > kMaxUndo || bytes > 8 * kMaxBytes)) {
    bytes -= undo_.front().text.size();
    undo_.erase(undo_.begin());
  }
}

void TextEdit::restore(std::vector<State>& from, std::vector<State>& to) {
  if (from.empty()) return;
  to.push_back({std::exchange(text_, std::move(from.back().text)), anchor_, caret_});
  anchor_ = from.back().anchor;
  caret_ = from.back().caret;
  from.pop_back();
  last_ = Change::kNone;
  ++version_;
}

}  // namespace specbound::gui
