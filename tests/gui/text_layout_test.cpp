// Word wrap: nothing lost, nothing wider than asked for, and text that comes bit by bit laid out as
// if it had come at once.
#include "gui/model/text_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

namespace specbound::gui::text_layout_test {

namespace {

// Each character is one wide, wide ones two.
TextMetrics unit_metrics(uint64_t id = 1) {
  TextMetrics m;
  m.ascii.fill(1);
  m.ascii['\t'] = 4;
  m.ascii['\r'] = 0;
  m.other = [](uint32_t c) { return c >= 0x2e80 && c < 0xa000 ? 2.0f : 1.0f; };
  m.id = id;
  return m;
}

std::vector<std::string> wrap(std::string_view text, float width, bool growing = false) {
  TextLayout layout;
  layout.update(text, growing, width, unit_metrics());
  std::vector<std::string> lines;
  for (const auto& line : layout.lines()) {
    lines.emplace_back(text.substr(line.begin, line.end - line.begin));
  }
  return lines;
}

using Lines = std::vector<std::string>;

std::string random_text(std::mt19937& random, int pieces) {
  static const std::vector<std::string> kPieces = {
      "a",      "word", " ", "  ",       "\n",   "\t", "\u00fc", "\u6c34", "\U0001f30a",
      "longer", "-",    " ", "\xe2\x82", "\xff", "\r", "\u200d", "\x01",   "supercalifragilistic",
      " "};
  std::string text;
  for (int i = 0; i < pieces; ++i) text += kPieces[random() % kPieces.size()];
  return text;
}

}  // namespace

TEST_CASE("layout: words, blanks that hang, line feeds, words longer than a line") {
  CHECK(wrap("", 10) == Lines{""});
  CHECK(wrap("one two three", 7) == Lines{"one two ", "three"});
  CHECK(wrap("one two     three", 7) == Lines{"one two     ", "three"});
  CHECK(wrap("one\ntwo\n", 7) == Lines{"one", "two", ""});
  CHECK(wrap("abcdefghij k", 4) == Lines{"abcd", "efgh", "ij k"});
  CHECK(wrap("a abcdef", 4) == Lines{"a ", "abcd", "ef"});
  CHECK(wrap("\u6c34\u6c34\u6c34", 4) == Lines{"\u6c34\u6c34", "\u6c34"});
  CHECK(wrap("ab\u6c34", 3) == Lines{"ab", "\u6c34"});
  CHECK(wrap("abc", 0) == Lines{"a", "b", "c"});
  CHECK(wrap("abc", -5) == Lines{"a", "b", "c"});
}

TEST_CASE("layout: half a character waits for its other half, or is shown as broken") {
  const std::string half = "ab\xe2\x82";
  CHECK(wrap(half, 10, true) == Lines{"ab"});
  CHECK(wrap(half, 10, false) == Lines{half});
  CHECK(drawn_character(half, 2).code_point == 0xfffd);
  CHECK(drawn_character(half, 2).length == 2);
  TextLayout layout;
  const TextMetrics metrics = unit_metrics();
  layout.update(half, true, 10, metrics);
  CHECK(layout.shown() == 2);
  layout.update(half + "\xac", true, 10, metrics);
  CHECK(layout.shown() == 5);
  layout.update(half, true, 10, metrics);
  layout.update(half, false, 10, metrics);
  CHECK(layout.shown() == 4);
}

TEST_CASE("layout: controls and format characters steer nothing") {
  CHECK(drawn_character("\x1b", 0).code_point == 0xfffd);
  CHECK(drawn_character(std::string(1, '\0'), 0).code_point == 0xfffd);
  CHECK(drawn_character("\r", 0).code_point == 0);
  CHECK(drawn_character("\u202e", 0).code_point == 0);
  CHECK(drawn_character("\u0085", 0).code_point == 0xfffd);
  CHECK(drawn_character("\t", 0).code_point == '\t');
}

TEST_CASE("layout: nothing is lost, nothing sticks out, lines begin at characters") {
  std::mt19937 random(3);
  const TextMetrics metrics = unit_metrics();
  for (int round = 0; round < 400; ++round) {
    const std::string text = random_text(random, 60);
    const float width = static_cast<float>(1 + random() % 20);
    TextLayout layout;
    layout.update(text, false, width, metrics);
    size_t at = 0;
    for (size_t i = 0; i < layout.lines().size(); ++i) {
      const auto line = layout.lines()[i];
      if (i > 0) CHECK((line.begin == at || (line.begin == at + 1 && text[at] == '\n')));
      at = line.end;
      float x = 0, ink = 0;
      size_t characters = 0;
      for (size_t k = line.begin; k < line.end;) {
        const DrawnCharacter c = drawn_character(text, k);
        CHECK(c.code_point != '\n');
        x += metrics.advance(c.code_point);
        if (c.code_point != ' ' && c.code_point != '\t') ink = x;
        characters += metrics.advance(c.code_point) > 0;
        k += c.length;
        CHECK(k <= line.end);
      }
      if (characters > 1) CHECK(ink <= std::max(width, 4.0f));
      CHECK(layout.line_of(line.begin) == i);
    }
    CHECK(at == text.size());
  }
}

TEST_CASE("layout: text in pieces is laid out as text at once") {
  std::mt19937 random(4);
  const TextMetrics metrics = unit_metrics();
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random, 60);
    const float width = static_cast<float>(1 + random() % 20);
    TextLayout pieces, whole;
    for (size_t n = 0; n < text.size(); n += 1 + random() % 7) {
      pieces.update(std::string_view(text).substr(0, n), true, width, metrics);
    }
    pieces.update(text, false, width, metrics);
    whole.update(text, false, width, metrics);
    CHECK(pieces.lines() == whole.lines());
  }
}

TEST_CASE("layout: what is there is not laid out again, but for another width, font or less text") {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "token ";
  TextLayout layout;
  TextMetrics metrics = unit_metrics();
  layout.update(text, true, 80, metrics);
  const size_t once = layout.work();
  CHECK(once == layout.lines().size());
  for (int i = 0; i < 1000; ++i) {
    text += "token ";
    layout.update(text, true, 80, metrics);
    layout.update(text, true, 80, metrics);
  }
  CHECK(layout.work() < once + 1000 + 200);
  size_t before = layout.work();
  layout.update(text, true, 70, metrics);
  CHECK(layout.work() > before + once);
  before = layout.work();
  metrics.id = 2;
  layout.update(text, true, 70, metrics);
  CHECK(layout.work() > before + once);
  // A replay that is sought backwards.
  layout.update(std::string_view(text).substr(0, 12), true, 70, metrics);
  CHECK(layout.lines().size() == 1);
  CHECK(layout.shown() == 12);
}

TEST_CASE("layout: a line without a place to break it stays bounded") {
  for (const std::string unit : {" ", "\u200d", "x"}) {
    std::string text;
    while (text.size() < 100000) text += unit;
    TextLayout layout;
    layout.update(text, false, 1e9f, unit_metrics());
    for (const auto& line : layout.lines()) {
      CHECK(line.end - line.begin <= TextLayout::kMaxLineBytes);
    }
  }
}

TEST_CASE("layout: places to pixels and back") {
  const std::string text = "ab\u6c34\u00fcd";
  const TextMetrics metrics = unit_metrics();
  const TextLayout::Line line{0, text.size()};
  CHECK(x_of(text, line, 0, metrics) == 0);
  CHECK(x_of(text, line, 5, metrics) == 4);
  CHECK(x_of(text, line, 99, metrics) == 6);
  for (size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{5}, size_t{7}, size_t{8}}) {
    CHECK(byte_at(text, line, x_of(text, line, at, metrics), metrics) == at);
  }
  CHECK(byte_at(text, line, 2.9f, metrics) == 2);
  CHECK(byte_at(text, line, 3.1f, metrics) == 5);
  CHECK(byte_at(text, line, 3.9f, metrics, true) == 2);
  CHECK(byte_at(text, line, -9, metrics) == 0);
  CHECK(byte_at(text, line, 99, metrics) == text.size());
}

}  // namespace specbound::gui::text_layout_test
