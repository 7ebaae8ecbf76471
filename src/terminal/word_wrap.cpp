#include "terminal/word_wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "error.h"
#include "terminal/terminal_text.h"
#include "text/utf8.h"

namespace specbound {

namespace {

constexpr int kTab = 8;

bool is_blank(std::string_view part) {
  return part == " " || part == "\t";
}

// A line may end before and behind it.
bool is_wide(std::string_view character) {
  return character_width(code_point(character)) > 1;
}

// The part of a word, or the blank, line end or wide character, that `text` begins with.
std::string_view first_part(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const std::string_view c = text.substr(size, utf8_head(text.substr(size)).length);
    const bool alone = is_blank(c) || c == "\n" || is_wide(c);
    if (alone && size > 0) break;
    size += c.size();
    if (alone) break;
  }
  return text.substr(0, size);
}

// ``` or more, and a name perhaps; code that is quoted within a line has more of them behind it.
bool may_be_fence(std::string_view line) {
  const size_t ticks = std::min(line.find_first_not_of('`'), line.size());
  return (ticks >= 3 || ticks == line.size()) && line.find('`', ticks) == line.npos;
}

bool is_fence(std::string_view line) {
  return line.starts_with("```") && may_be_fence(line);
}

}  // namespace

std::string WordWrap::push(std::string_view text, int columns, const Paint& paint) {
  std::string out;
  while (!text.empty()) {
    const std::string_view part = first_part(text);
    text.remove_prefix(part.size());
    if (part == "\n") {
      out += part;
      end_line();
      continue;
    }
    constexpr size_t kLongestFence = 256;
    if (may_be_fence(line_begins_) && line_begins_.size() < kLongestFence &&
        !(is_blank(part) && line_begins_.empty())) {
      line_begins_ += part;
    }
    out += columns > 0 && !code_ ? broken(part, columns, paint(part)) : paint(part);
  }
  return out;
}

void WordWrap::end_line() {
  if (is_fence(line_begins_)) code_ = !code_;
  line_begins_.clear();
  end_word();
  column_ = 0;
}

void WordWrap::end_word() {
  word_.clear();
  word_width_ = 0;
}

std::string WordWrap::broken(std::string_view part, int columns, const std::string& painted) {
  if (is_blank(part)) {
    end_word();
    const bool fits = column_ < columns;  // else it is where the line ends
    column_ = std::min(part == " " ? column_ + 1 : (column_ / kTab + 1) * kTab, columns);
    return fits ? painted : "";
  }
  std::string out;
  const bool wide = is_wide(part.substr(0, static_cast<size_t>(utf8_head(part).length)));
  if (wide) end_word();
  const int width = display_width(part);
  const int word_from = column_ - word_width_;
  if (column_ + width > columns && word_from > 0) {
    if (!word_.empty()) out = format("\r\x1b[%dC\x1b[K", word_from);
    out += '\n' + word_;
    column_ = word_width_;
  }
  if (!wide) {
    word_ += painted;
    word_width_ += width;
  }
  column_ += width;
  // What is longer than the line goes on below it by itself.
  while (column_ > columns) column_ -= columns;
  word_width_ = std::min(word_width_, column_);
  return out + painted;
}

int terminal_columns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool can_move_cursor(int fd) {
  const char* terminal = std::getenv("TERM");
  return isatty(fd) == 1 && terminal && std::string_view(terminal) != "dumb";
}

}  // namespace specbound
