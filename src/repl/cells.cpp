#include "repl/cells.h"

#include <cstdint>

#include "terminal/terminal_text.h"
#include "text/utf8.h"

namespace specbound {

namespace {

struct Range {
  uint32_t first, last;
  bool has(uint32_t c) const { return c >= first && c <= last; }
};
constexpr Range kNarrow = {0x100000, 0x10fffd}, kWide = {0x17000, 0x187f7};
constexpr std::string_view kJoiner = "\u200d";  // what follows is drawn in the same place

bool is_control(uint32_t c) {
  return c < 0x20 || c == 0x7f;
}

// What a cluster must not hold, as it goes to the terminal untouched: also C1 controls. Where they
// stand alone libedit spells them out.
bool steers(uint32_t c) {
  return is_control(c) || character_width(c) < 0;
}

// Takes the place of no column of its own.
bool is_mark(uint32_t c) {
  return !is_control(c) && character_width(c) == 0;
}

std::string_view take_character(std::string_view& text, bool& whole) {
  const Utf8Head head = utf8_head(text);
  const std::string_view c = text.substr(0, head.length);
  whole = head.kind == Utf8Head::kWhole;
  text.remove_prefix(c.size());
  return c;
}

// `next`, one character or a piece of one, in the place of `cluster`.
bool extends(std::string_view cluster, std::string_view next, bool whole) {
  if (cluster.empty() || !whole) return false;
  const Utf8Head base = utf8_head(cluster);
  if (base.kind == Utf8Head::kWhole && steers(code_point(cluster.substr(0, base.length)))) {
    return false;
  }
  const uint32_t c = code_point(next);
  return is_mark(c) || (cluster.ends_with(kJoiner) && !steers(c));
}

}  // namespace

std::wstring Cells::encode(std::string_view text) {
  std::wstring out;
  std::string cluster;  // the newest, not in `out` yet
  while (!text.empty()) {
    bool whole;
    const std::string_view c = take_character(text, whole);
    if (!cluster.empty() && !extends(cluster, c, whole)) {
      out += cell_of(cluster);
      cluster.clear();
    }
    cluster += c;
  }
  if (!cluster.empty()) out += cell_of(cluster);
  return out;
}

wchar_t Cells::cell_of(const std::string& cluster) {
  std::string_view rest = cluster;
  bool whole;
  const std::string_view base = take_character(rest, whole);
  const uint32_t c = whole ? code_point(base) : 0;
  const bool stands_for_itself =
      whole && rest.empty() && c != 0 && !is_mark(c) && !kNarrow.has(c) && !kWide.has(c);
  if (stands_for_itself) return static_cast<wchar_t>(c);
  if (const auto found = cells_.find(cluster); found != cells_.end()) return found->second;

  Utf8Stream stream;
  std::string shown = stream.push(cluster) + stream.finish();
  if (whole && c == 0) shown = "\u2400";
  if (whole && c != 0 && is_mark(c)) shown = "\u25cc" + shown;
  // What follows a joiner at the end would be drawn here, wherever the cursor has gone (tmux).
  while (shown.ends_with(kJoiner)) shown.erase(shown.size() - kJoiner.size());
  const bool wide = whole && character_width(c) == 2;
  wchar_t cell = L'\ufffd';
  if (wide && kWide.has(kWide.first + n_wide_)) {
    cell = static_cast<wchar_t>(kWide.first + n_wide_++);
  } else if (kNarrow.has(kNarrow.first + n_narrow_)) {
    cell = static_cast<wchar_t>(kNarrow.first + n_narrow_++);
  } else {
    return cell;
  }
  cells_.emplace(cluster, cell);
  clusters_.emplace(cell, Cluster{cluster, std::move(shown)});
  return cell;
}

std::string Cells::decode(std::wstring_view cells) const {
  std::string text;
  for (const wchar_t cell : cells) {
    const auto found = clusters_.find(cell);
    text += found != clusters_.end() ? found->second.text : to_utf8(static_cast<char32_t>(cell));
  }
  return text;
}

bool Cells::joins(wchar_t cell, std::string_view text) const {
  if (text.empty()) return false;
  bool whole;
  const std::string_view c = take_character(text, whole);
  return extends(decode({&cell, 1}), c, whole);
}

std::string Cells::shown(std::string& bytes) const {
  std::string out;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Head head = utf8_head(rest);
    if (head.kind == Utf8Head::kCut) break;
    const std::string_view c = rest.substr(0, head.length);
    rest.remove_prefix(c.size());
    const auto found = head.kind == Utf8Head::kWhole && c.size() == 4
                           ? clusters_.find(static_cast<wchar_t>(code_point(c)))
                           : clusters_.end();
    out += found != clusters_.end() ? std::string_view(found->second.shown) : c;
  }
  bytes = std::string(rest);
  return out;
}

Place place_after(std::wstring_view cells, int prompt_columns, int columns) {
  Place place = {0, prompt_columns};
  const auto next_row = [&place] { place = {place.row + 1, 0}; };
  for (const wchar_t cell : cells) {
    const auto c = static_cast<uint32_t>(cell);
    if (c == '\n') {
      next_row();
      continue;
    }
    int width = is_control(c) ? 2 : character_width(c);
    if (c == '\t') width = 8 - place.column % 8;
    if (width < 0) width = c > 0xffff ? 8 : 7;  // spelled as \U+1ffff
    for (; width > 2; --width) {                // these are drawn piece by piece
      if (++place.column >= columns) next_row();
    }
    if (place.column + width > columns) next_row();
    place.column += width;
    if (place.column >= columns) next_row();
  }
  return place;
}

}  // namespace specbound
