// What Markdown is shown as: blocks, styles, where in the source each byte comes from; text that
// comes in pieces, and sources made to take time.
#include "gui/model/markdown.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "unit/sanitized.h"

namespace specbound::gui::markdown_test {

namespace {

using Kind = RichBlock::Kind;

constexpr double kMostSeconds = test::kSanitized ? 5 : 0.5;

RichText parsed(std::string_view source) {
  RichText rich;
  REQUIRE(append_markdown(rich, source, 0));
  return rich;
}

std::string of(const RichText& rich, TextRange range) {
  return rich.text.substr(range.begin, range.end - range.begin);
}

// Whether blocks are of the same kinds, and all of the text in the same styles.
bool looks_like(const RichText& a, const RichText& b) {
  const auto styles = [](const RichText& rich) {
    std::string result;
    for (size_t i = 0; i < rich.spans.size(); ++i) {
      const size_t end = i + 1 < rich.spans.size() ? rich.spans[i + 1].begin : rich.text.size();
      result.append(end - rich.spans[i].begin, static_cast<char>(rich.spans[i].style));
    }
    return result;
  };
  return a.text == b.text && styles(a) == styles(b) &&
         std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const RichBlock& x, const RichBlock& y) {
                      return x.kind == y.kind && x.level == y.level && x.nest == y.nest &&
                             x.language == y.language && x.columns == y.columns;
                    });
}

// The styles of the first place where this is shown.
int style_of(const RichText& rich, std::string_view shown) {
  const size_t at = rich.text.find(shown);
  REQUIRE(at != std::string::npos);
  return rich.spans[rich.span_at(at)].style;
}

std::string repeated(std::string_view text, size_t n) {
  std::string result;
  for (size_t i = 0; i < n; ++i) result += text;
  return result;
}

// What is in a span comes from where it says, and nothing lies outside.
void check_sound(const RichText& rich, std::string_view source) {
  size_t at = 0, raw = 0;
  for (size_t i = 0; i < rich.spans.size(); ++i) {
    const RichSpan& span = rich.spans[i];
    const size_t end = i + 1 < rich.spans.size() ? rich.spans[i + 1].begin : rich.text.size();
    CHECK(span.begin == at);
    CHECK(end > span.begin);
    at = end;
    if (span.raw == RichSpan::kNowhere) continue;
    CHECK(span.raw >= raw);
    raw = span.raw;
    CHECK(raw < source.size());
    if (source[raw] != '&')
      CHECK(source.substr(raw, end - span.begin) == rich.text.substr(span.begin, end - span.begin));
  }
  CHECK(at == rich.text.size());
  size_t before = 0;
  for (const RichBlock& block : rich.blocks) {
    CHECK(block.marker.begin >= before);
    CHECK(block.marker.end <= block.text.begin);
    CHECK(block.text.begin <= block.text.end);
    CHECK(block.text.end <= rich.text.size());
    CHECK(block.nest.size() <= kMostNest);
    before = block.text.end;
    for (const TextRange& cell : block.cells) {
      CHECK(cell.begin >= block.text.begin);
      CHECK(cell.end <= block.text.end);
    }
  }
}

}  // namespace

#ifdef SPECBOUND_HAVE_MD4C
TEST_CASE("markdown: what was found at build time is opened, so that no test here is left out") {
  CHECK(markdown_available());
}
#endif

TEST_CASE("markdown: headings, paragraphs, emphasis, code, links as text") {
  if (!markdown_available()) return;
  const RichText rich = parsed(
      "# Title\n\nSome *slanted*, **bold** and ~~gone~~ `x = 1`\nnext line, "
      "[a link](http://x.org/a) &amp; &#65;\n\n### Small\n\n---\n");
  check_sound(rich,
              "# Title\n\nSome *slanted*, **bold** and ~~gone~~ `x = 1`\nnext line, "
              "[a link](http://x.org/a) &amp; &#65;\n\n### Small\n\n---\n");
  REQUIRE(rich.blocks.size() == 4);
  CHECK(rich.blocks[0].kind == Kind::kHeading);
  CHECK(rich.blocks[0].level == 1);
  CHECK(of(rich, rich.blocks[0].text) == "Title");
  CHECK(of(rich, rich.blocks[1].text) ==
        "Some slanted, bold and gone x = 1\nnext line, a link (http://x.org/a) & A");
  CHECK(style_of(rich, "Some") == 0);
  CHECK(style_of(rich, "slanted") == kItalic);
  CHECK(style_of(rich, "bold") == kBold);
  CHECK(style_of(rich, "gone") == kStruck);
  CHECK(style_of(rich, "x = 1") == kCode);
  CHECK(style_of(rich, "a link") == kLink);
  CHECK(style_of(rich, " (http") == kAside);
  CHECK(rich.blocks[2].level == 3);
  CHECK(rich.blocks[3].kind == Kind::kRule);
}

TEST_CASE("markdown: blocks of code keep every byte, and their language") {
  if (!markdown_available()) return;
  const std::string source = "```python\ndef f(x):\n    return *x*\n\n\tlast\n```\nafter";
  const RichText rich = parsed(source);
  check_sound(rich, source);
  REQUIRE(rich.blocks.size() == 2);
  CHECK(rich.blocks[0].kind == Kind::kCode);
  CHECK(rich.blocks[0].language == "python");
  CHECK(of(rich, rich.blocks[0].text) == "def f(x):\n    return *x*\n\n\tlast");
  CHECK(of(rich, rich.blocks[1].text) == "after");
  // One that still comes is code already.
  const RichText open = parsed("~~~\n# no heading\n");
  REQUIRE(open.blocks.size() == 1);
  CHECK(open.blocks[0].kind == Kind::kCode);
  CHECK(of(open, open.blocks[0].text) == "# no heading");
  CHECK(parsed("```\n```").blocks[0].text == TextRange{0, 0});
}

TEST_CASE("markdown: lists and quotations, one within another") {
  if (!markdown_available()) return;
  const std::string source = "- one\n- two\n  1. deep\n  2. er\n\n> said\n> - [x] done\n";
  const RichText rich = parsed(source);
  check_sound(rich, source);
  REQUIRE(rich.blocks.size() == 6);
  CHECK(rich.text == "\u2022 one\n\u2022 two\n  1. deep\n  2. er\n\nsaid\n\n[x] done");
  CHECK(of(rich, rich.blocks[0].marker) == "\u2022");
  CHECK(of(rich, rich.blocks[2].marker) == "1.");
  CHECK(of(rich, rich.blocks[3].marker) == "2.");
  CHECK(rich.blocks[2].nest == "ll");
  CHECK(rich.blocks[1].close);
  CHECK_FALSE(rich.blocks[0].close);
  CHECK(rich.blocks[4].nest == "q");
  CHECK(rich.blocks[5].nest == "ql");
  CHECK(parsed("- a\n-\n- c").blocks.size() == 3);
  CHECK_FALSE(parsed("- a\n\n- b").blocks[1].close);
}

TEST_CASE("markdown: tables in cells, which are tabs apart when copied") {
  if (!markdown_available()) return;
  const std::string source = "|a|b|c|\n|:---|:---:|---:|\n|1|*2*|3|\n|4|\n";
  const RichText rich = parsed(source);
  check_sound(rich, source);
  REQUIRE(rich.blocks.size() == 1);
  const RichBlock& table = rich.blocks[0];
  CHECK(table.kind == Kind::kTable);
  CHECK(table.columns == 3);
  REQUIRE(table.cells.size() == 9);
  CHECK(rich.text == "a\tb\tc\n1\t2\t3\n4\t\t");
  CHECK(of(rich, table.cells[4]) == "2");
  CHECK(table.aligns ==
        std::vector{RichBlock::Align::kLeft, RichBlock::Align::kCentre, RichBlock::Align::kRight});
  CHECK(style_of(rich, "a") == kBold);
}

TEST_CASE("markdown: HTML is text, indented lines are no code, broken bytes stay") {
  if (!markdown_available()) return;
  CHECK(parsed("<b>x</b>").text == "<b>x</b>");
  CHECK(parsed("    four blanks").blocks[0].kind == Kind::kParagraph);
  const std::string broken = std::string("a\xff\xe2\x82 \0b &#0; &#xd800; &nonsense;", 32);
  check_sound(parsed(broken), broken);
  CHECK(parsed("").blocks.empty());
}

TEST_CASE("markdown: a byte of the source is found in what is shown") {
  if (!markdown_available()) return;
  const std::string source = "# T\n\n- **bold** tail";
  const RichText rich = parsed(source);
  CHECK(rich.shown_at(source.find("bold")) == rich.text.find("bold"));
  CHECK(rich.shown_at(source.find("tail") + 2) == rich.text.find("tail") + 2);
  CHECK(rich.shown_at(0) == 0);
  CHECK(rich.shown_at(source.size() + 10) == rich.text.size());
}

TEST_CASE("markdown: parts that are settled are found without parsing") {
  CHECK(settled_markdown("one\n\ntwo\n", 0) == 5);
  CHECK(settled_markdown("one\n\ntwo", 0) == 0);  // "two" may become "two\n==="; its line is cut
  CHECK(settled_markdown("```\na\n\nb\n", 0) == 0);
  CHECK(settled_markdown("```\na\n\nb\n```\n\nc\n", 0) == 14);
  CHECK(settled_markdown("- a\n\n  b\n\n- c\n", 0) == 0);
  CHECK(settled_markdown("1. ```\n   a\n\nb\n", 0) == 0);
  CHECK(settled_markdown("> a\n\nb\n", 0) == 5);
  CHECK(settled_markdown("a\n\nb\n\nc\n", 3) == 6);
  CHECK(settled_markdown("|a|b|\n|---|---|\n\n```\nx\n```\n\nc\n", 0) == 28);
  CHECK(settled_markdown("|a|b|\n|---|---|\n```\n\nc\n", 0) == 0);  // a row of the table
  CHECK(settled_markdown("", 0) == 0);
}

TEST_CASE("markdown: what is parsed in settled parts is what is parsed at once") {
  if (!markdown_available()) return;
  static const std::vector<std::string> kPieces = {"word ",
                                                   "\n",
                                                   "\n\n",
                                                   "# head\n",
                                                   "- item\n",
                                                   "  - deep\n",
                                                   "1. one\n",
                                                   "> q\n",
                                                   "```c\n",
                                                   "```\n",
                                                   "**b** ",
                                                   "`c` ",
                                                   "|a|b|\n|---|---|\n|1|2|\n",
                                                   "*",
                                                   "    pad\n",
                                                   "---\n\n",
                                                   "~~~\n\n",
                                                   "\\",
                                                   "[l](u)\n\n"};
  std::mt19937 random(5);
  int differ = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string source;
    for (int i = 0; i < 30; ++i) source += kPieces[random() % kPieces.size()];
    RichText parts;
    const size_t settled = settled_markdown(source, 0);
    if (settled > 0) REQUIRE(append_markdown(parts, source.substr(0, settled), 0));
    REQUIRE(append_markdown(parts, source, settled));
    const RichText whole = parsed(source);
    check_sound(parts, source);
    differ += !looks_like(parts, whole);
  }
  CHECK(differ == 0);
}

TEST_CASE("markdown: sources made to take time take none, and little memory") {
  if (!markdown_available()) return;
  const size_t n = 100'000;
  std::string wide = repeated("|a", 2000) + "|\n" + repeated("|---", 2000) + "|\n";
  wide += repeated("|b|\n", n / 4);
  const std::string sources[] = {
      repeated("*", n),
      repeated("*a ", n / 3),
      repeated("**a *b ", n / 7),
      repeated("> ", n / 2),
      repeated("- ", n / 2) + "x",
      repeated("`", n),
      repeated("[", n),
      repeated("![", n / 2),
      repeated("[a](", n / 4),
      repeated("<", n),
      repeated("&#", n / 2),
      repeated("\\", n),
      repeated("~~~\n", n / 4),
      repeated("> - 1. ", 3000) + "x\n" + repeated("lazy\n", n / 5),
      repeated("|a|b|\n", 1) + "|---|---|\n" + repeated("|1|2|\n", n / 6),
      wide,
      repeated("_a*b~c`d[e]f ", n / 13),
      "[a]: " + repeated("u", n / 2) + "\n\n" + repeated("[a] ", n / 8),
      "[u]: v '" + repeated("w", n / 2) + "'\n\n" + repeated("[u] ", n / 8),
      "[u]: " + repeated("v", n / 2) + "\n\n" + repeated("![", n / 12) + "x" +
          repeated("][u]", n / 12),
      "[a]: u\n\n" + repeated("[a]\n", n / 4),
      "[a]: u\n\n" + repeated("[a]\r", n / 4),
      repeated("x\n", n / 4) + repeated("[a]", n / 6),
  };
  for (const std::string& source : sources) {
    CAPTURE(source.substr(0, 20));
    RichText rich;
    bool good = false;
    double took = 1e9;  // the best of three: other programs take their time, too
    for (int i = 0; i < 3; ++i) {
      rich = {};
      const auto before = std::chrono::steady_clock::now();
      good = append_markdown(rich, source, 0);
      const std::chrono::duration<double> once = std::chrono::steady_clock::now() - before;
      took = std::min(took, once.count());
    }
    MESSAGE(source.substr(0, 12), ": ", 1000 * took, " ms, ", good ? "shown" : "refused");
    CHECK(took < kMostSeconds);
    CHECK(rich.text.size() <= 5 * source.size() + 5000);
    if (!good) CHECK(rich.text.empty());
  }
}

}  // namespace specbound::gui::markdown_test
