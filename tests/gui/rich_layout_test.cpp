// Where Markdown's lines and boxes lie: inside the width, in order, found again by place and by
// byte; and that what is laid out is not laid out again.
#include "gui/model/rich_layout.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace specbound::gui::rich_layout_test {

namespace {

struct Measures {
  TextMetrics body, heading, mono;
  RichMetrics rich;

  Measures() {
    const struct {
      TextMetrics* metrics;
      float width;
    } fonts[] = {{&body, 1}, {&heading, 2}, {&mono, 1.5f}};
    for (const auto& font : fonts) {
      font.metrics->ascii.fill(font.width);
      font.metrics->other = [width = font.width](uint32_t) { return width; };
      font.metrics->id = static_cast<uint64_t>(font.width * 2);
    }
    rich.body = &body;
    rich.heading = &heading;
    rich.mono = &mono;
    rich.heading_line = 3;
    rich.gap = 1;
    rich.list = 3;
    rich.quote = 2;
    rich.pad = 1;
    rich.code_header = 2;
    rich.least_column = 4;
  }
};

RichText parsed(std::string_view source) {
  RichText rich;
  REQUIRE(append_markdown(rich, source, 0));
  return rich;
}

std::string of(const RichText& rich, const RichLayout::Line& line) {
  return rich.text.substr(line.begin, line.end - line.begin);
}

}  // namespace

TEST_CASE("rich layout: lines wrap in fonts of different widths, below one another") {
  if (!markdown_available()) return;
  const Measures m;
  const RichText rich = parsed("# AB CD\n\none `two` three\n\n- item one\n  wraps\n");
  RichLayout layout;
  layout.update(rich, 0, 10, m.rich);
  const auto& lines = layout.lines();
  REQUIRE(lines.size() == 6);
  CHECK(of(rich, lines[0]) == "AB CD");  // ten wide in letters of two
  CHECK(lines[0].height == 3);
  CHECK(of(rich, lines[1]) == "one two ");
  CHECK(lines[1].y == 4);
  CHECK(of(rich, lines[2]) == "three");
  CHECK(lines[3].x == 3);
  CHECK(of(rich, lines[3]) == "item ");
  CHECK(of(rich, lines[5]) == "wraps");
  CHECK(rich_x_of(rich, lines[1], lines[1].begin + 7, m.rich) == 4 + 4.5f);
  CHECK(layout.height() == lines[5].y + 1);
  CHECK(layout.y_of(rich.text.find("three") + 2) == lines[2].y);
}

TEST_CASE("rich layout: code in a box under its header, tables in columns or as lines") {
  if (!markdown_available()) return;
  const Measures m;
  const RichText rich = parsed("```c\nab\ncd\n```\n\n|h|i|\n|---|---:|\n|long words here|2|\n");
  RichLayout layout;
  layout.update(rich, 0, 20, m.rich);
  REQUIRE(layout.blocks().size() == 2);
  CHECK(layout.lines()[0].y == 3);
  CHECK(layout.lines()[0].x == 1);
  CHECK(layout.blocks()[0].bottom == 6);
  const RichLayout::Block& table = layout.blocks()[1];
  REQUIRE(table.columns.size() == 3);
  CHECK(table.columns[2] <= 20);
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[2] - table.rows[1] > table.rows[1] - table.rows[0]);  // a cell wraps
  const auto& lines = layout.lines();
  CHECK(of(rich, lines[3]) == "i");
  CHECK(lines[3].x == table.columns[2] - 2);  // at the right
  CHECK(lines[2].y == lines[3].y);
  CHECK(layout.line_at(table.columns[1] + 3, lines[2].y) == 3);
  CHECK(layout.line_at(table.columns[0], lines[2].y) == 2);
  layout.update(rich, 0, 8, m.rich);  // no room for two columns
  CHECK(layout.blocks()[1].columns.empty());
  for (const auto& line : layout.lines()) CHECK(line.x >= 0);
}

TEST_CASE("rich layout: every byte is in a line, lines go down, places are found again") {
  if (!markdown_available()) return;
  static const std::vector<std::string> kPieces = {"word ",
                                                   "\n",
                                                   "\n\n",
                                                   "# head\n",
                                                   "- item\n",
                                                   "  - deep\n",
                                                   "> q\n",
                                                   "```c\nx  y\n```\n",
                                                   "**b** ",
                                                   "`c` ",
                                                   "\n|a|b|\n|---|---|\n|1|2 3|\n\n",
                                                   "\u6c34\u6c34",
                                                   "supercalifragilistic"};
  std::mt19937 random(6);
  const Measures m;
  for (int round = 0; round < 300; ++round) {
    std::string source;
    for (int i = 0; i < 25; ++i) source += kPieces[random() % kPieces.size()];
    const RichText rich = parsed(source);
    RichLayout layout;
    const float width = static_cast<float>(5 + random() % 40);
    layout.update(rich, 0, width, m.rich);
    float y = 0;
    size_t letters = 0;
    for (size_t i = 0; i < layout.lines().size(); ++i) {
      const RichLayout::Line& line = layout.lines()[i];
      CHECK(line.y >= y);
      y = line.y;
      letters += line.end - line.begin;
      for (size_t at = line.begin; at < line.end; at += drawn_character(rich.text, at).length) {
        const float x = rich_x_of(rich, line, at, m.rich);
        CHECK(rich_byte_at(rich, line, x + 0.1f, m.rich, true) == at);
        CHECK(rich_byte_at(rich, line, x + 0.1f, m.rich, false) == at);
      }
      if (line.begin < line.end) CHECK(layout.line_at(line.x, line.y) == i);
    }
    CHECK(letters <= rich.text.size());
    for (const RichLayout::Block& block : layout.blocks()) CHECK(block.x <= width / 2);
    if (!layout.blocks().empty()) CHECK(layout.height() >= y);
  }
}

TEST_CASE("rich layout: blocks that are kept are not laid out again, but for another width") {
  if (!markdown_available()) return;
  const Measures m;
  std::string source;
  for (int i = 0; i < 1000; ++i) source += "some words\n\n";
  const RichText rich = parsed(source);
  RichLayout layout;
  layout.update(rich, 0, 30, m.rich);
  CHECK(layout.work() == 1000);
  const auto before = layout.lines().size();
  layout.update(rich, 999, 30, m.rich);
  CHECK(layout.work() == 1001);
  CHECK(layout.lines().size() == before);
  layout.update(rich, 1000, 20, m.rich);
  CHECK(layout.work() == 2001);
}

}  // namespace specbound::gui::rich_layout_test
