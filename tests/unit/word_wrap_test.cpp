// Words at the edge of a terminal: what its screen shows, however the text was cut into pieces.
#include "terminal/word_wrap.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "terminal/terminal_text.h"
#include "text/utf8.h"

namespace specbound::word_wrap_test {

namespace {

std::string plain(std::string_view text) {
  return std::string(text);
}

// As much of a terminal as it takes: cells, line ends, \r, "go right", "clear what follows", and a
// line that is full goes on below with the next character.
class Terminal {
 public:
  explicit Terminal(int columns) : columns_(columns), rows_(1) {}

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view c = bytes.substr(0, utf8_head(bytes).length);
      bytes.remove_prefix(c.size());
      if (c == "\n" || c == "\r") {
        column_ = 0;
        if (c == "\n") rows_.emplace_back();
      } else if (c == "\x1b") {
        const size_t end = bytes.find_first_of("CKm");
        const int n = end > 1 ? std::stoi(std::string(bytes.substr(1, end - 1))) : 0;
        if (bytes[end] == 'C') column_ = std::min(column_ + n, columns_ - 1);
        if (bytes[end] == 'K') rows_.back().resize(static_cast<size_t>(column_));
        bytes.remove_prefix(end + 1);
      } else {
        put(c);
      }
    }
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (const std::string& cell : row) line += cell;
      while (line.ends_with(' ')) line.pop_back();
      lines.push_back(line);
    }
    return lines;
  }

 private:
  void put(std::string_view c) {
    const int width = display_width(c);
    if (column_ + width > columns_) {
      rows_.emplace_back();
      column_ = 0;
    }
    rows_.back().resize(static_cast<size_t>(column_), " ");
    rows_.back().emplace_back(c);
    if (width > 1) rows_.back().emplace_back();  // its second cell
    column_ += width;
  }

  int columns_;
  int column_ = 0;
  std::vector<std::vector<std::string>> rows_;
};

// What a terminal shows of `text` that comes in pieces of so many characters.
std::vector<std::string> shown(std::string_view text, int columns, size_t piece,
                               const WordWrap::Paint& paint = plain) {
  WordWrap wrap;
  Terminal terminal(columns);
  while (!text.empty()) {
    size_t size = 0;
    for (size_t i = 0; i < piece && size < text.size(); ++i) {
      size += utf8_head(text.substr(size)).length;
    }
    terminal.write(wrap.push(text.substr(0, size), columns, paint));
    text.remove_prefix(size);
  }
  return terminal.lines();
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("word wrap: lines end at words, whatever the pieces") {
  const std::string text = "The quick brown fox, jumps\nover  it";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    CAPTURE(piece);
    CHECK(shown(text, 10, piece) == Lines{"The quick", "brown fox,", "jumps", "over  it"});
    CHECK(shown(text, 9, piece) == Lines{"The quick", "brown", "fox,", "jumps", "over  it"});
    CHECK(shown(text, 6, piece) == Lines{"The", "quick", "brown", "fox,", "jumps", "over", "it"});
    CHECK(shown(text, 80, piece) == Lines{"The quick brown fox, jumps", "over  it"});
  }
}

TEST_CASE("word wrap: a word longer than the line fills it") {
  for (size_t piece = 1; piece < 20; ++piece) {
    CAPTURE(piece);
    CHECK(shown("abcdefghijkl mn", 5, piece) == Lines{"abcde", "fghij", "kl mn"});
    CHECK(shown("xy abcdefgh", 5, piece) == Lines{"xy", "abcde", "fgh"});
  }
}

TEST_CASE("word wrap: wide characters, of which any may end a line") {
  for (size_t piece = 1; piece < 8; ++piece) {
    CAPTURE(piece);
    CHECK(shown("ab\u65e5\u672c\u8a9e\u3067", 7, piece) == Lines{"ab\u65e5\u672c", "\u8a9e\u3067"});
    CHECK(shown("\u65e5\u672cword", 6, piece) == Lines{"\u65e5\u672c", "word"});
  }
}

TEST_CASE("word wrap: code keeps its lines") {
  // Three within a line are no fence, four at its beginning are.
  const std::string quoted = "```x``` is it so?\n````\nint main() { }\n````\nthat was it";
  for (const size_t step : {1, 3, 40}) {
    CHECK(shown(quoted, 8, step) ==
          Lines{"```x```", "is it", "so?", "````", "int main", "() { }", "````", "that was", "it"});
  }
  const std::string code = "see:\n```cpp and more\nint main() { }\n```\nthat was it";
  for (size_t piece = 1; piece < 12; ++piece) {
    CAPTURE(piece);
    CHECK(shown(code, 8, piece) ==
          Lines{"see:", "```cpp", "and more", "int main", "() { }", "```", "that was", "it"});
  }
}

TEST_CASE(
    "word wrap: what is taken back keeps its colours, and without a width nothing is broken") {
  const auto paint = [](std::string_view part) {
    return "\x1b[38;5;46m" + plain(part) + "\x1b[39m";
  };
  CHECK(shown("one three", 6, 1, paint) == Lines{"one", "three"});
  WordWrap wrap;
  CHECK(wrap.push("one thr", 7, paint) == paint("one") + paint(" ") + paint("thr"));
  CHECK(wrap.push("ee", 7, plain) == "\r\x1b[4C\x1b[K\n" + paint("thr") + "ee");
  WordWrap unknown;
  CHECK(unknown.push("one three\nfour", 0, plain) == "one three\nfour");
}

}  // namespace specbound::word_wrap_test
