#include "gui/model/markdown.h"

#include <algorithm>

namespace specbound::gui {

namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::string_view without_blanks(std::string_view line) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  return line;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Behind the blanks, list markers and quotation marks that a line begins with.
std::string_view without_containers(std::string_view line) {
  for (;;) {
    line = without_blanks(line);
    size_t length = 0;
    if (line.starts_with('>')) {
      length = 1;
    } else if (line.size() > 1 && (line[0] == '-' || line[0] == '*' || line[0] == '+') &&
               is_space(line[1])) {
      length = 2;
    } else {
      while (length < line.size() && length < 9 && is_digit(line[length])) ++length;
      const bool item = length > 0 && length + 1 < line.size() &&
                        (line[length] == '.' || line[length] == ')') && is_space(line[length + 1]);
      length = item ? length + 2 : 0;
    }
    if (length == 0) return line;
    line.remove_prefix(length);
  }
}

size_t run_of(std::string_view text, char c) {
  const size_t end = text.find_first_not_of(c);
  return end == std::string_view::npos ? text.size() : end;
}

// The line under a table's head.
bool is_table_rule(std::string_view line) {
  return line.find('|') != std::string_view::npos && line.find('-') != std::string_view::npos &&
         line.find_first_not_of("|:- \t\r") == std::string_view::npos;
}

// A line that no open list or quotation takes in, whatever came before the blank line above it.
bool starts_afresh(std::string_view line) {
  if (line.empty() || is_space(line.front())) return false;
  return without_containers(line).data() == line.data();
}

}  // namespace

size_t RichText::span_at(size_t at) const {
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), at,
                       [](size_t a, const RichSpan& span) { return a < span.begin; });
  return static_cast<size_t>(after - spans.begin()) - 1;
}

size_t RichText::shown_at(size_t raw) const {
  // Spans come in the source's order, those that are not in it between them.
  for (size_t i = spans.size(); i-- > 0;) {
    const RichSpan& span = spans[i];
    if (span.raw == RichSpan::kNowhere || span.raw > raw) continue;
    const size_t end = i + 1 < spans.size() ? spans[i + 1].begin : text.size();
    return std::min(span.begin + (raw - span.raw), end);
  }
  return 0;
}

void RichText::cut(const Mark& mark) {
  text.resize(mark.text);
  spans.resize(mark.spans);
  blocks.resize(mark.blocks);
  if (blocks.empty()) return;
  RichBlock& last = blocks.back();
  last.text.end = std::min(last.text.end, text.size());
  if (!last.cells.empty()) last.cells.back().end = std::min(last.cells.back().end, text.size());
}

void RichText::extend(std::string_view more, size_t raw) {
  if (more.empty()) return;
  RichBlock& last = blocks.back();
  const uint8_t style = last.kind == RichBlock::Kind::kCode ? kCode : 0;
  spans.push_back({text.size(), raw, style});
  text += more;
  // Of a table the cells are what is shown.
  last.text.end = text.size();
  if (!last.cells.empty()) last.cells.back().end = text.size();
}

size_t settled_markdown(std::string_view source, size_t begin) {
  size_t settled = begin;
  char fence = 0;  // what the code that is open was fenced with; 0: none is
  size_t fence_length = 0;
  bool fence_inside = false;                // of a list or quotation
  bool blank_above = false, table = false;  // there was a table's since the last blank line
  for (size_t at = begin; at < source.size();) {
    const size_t feed = source.find('\n', at);
    if (feed == std::string_view::npos) break;  // a line that is not whole may become anything
    const std::string_view line = source.substr(at, feed - at);
    const std::string_view inner =
        fence == 0 || fence_inside ? without_containers(line) : without_blanks(line);
    if (fence == 0 && blank_above && starts_afresh(line)) settled = at;
    const char c = inner.empty() ? '\0' : inner.front();
    const size_t length = c == '`' || c == '~' ? run_of(inner, c) : 0;
    if (fence == 0 && length >= 3) {
      // Backticks that go on in the line are code within text.
      if (c == '~' || inner.find('`', length) == std::string_view::npos) {
        if (table) break;  // the parser may take it for a row
        fence = c;
        fence_length = length;
        fence_inside = inner.data() != without_blanks(line).data();
      }
    } else if (fence != 0 && c == fence && length >= fence_length) {
      if (inner.find_first_not_of(" \t\r", length) == std::string_view::npos) fence = 0;
    }
    blank_above = line.find_first_not_of(" \t\r") == std::string_view::npos;
    table = !blank_above && (table || is_table_rule(inner));
    at = feed + 1;
  }
  return settled;
}

}  // namespace specbound::gui
