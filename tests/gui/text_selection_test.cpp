// Selecting with the mouse, and what reaches the clipboard.
#include "gui/model/text_layout.h"

#include <doctest/doctest.h>

#include <string>

#include "gui/model/text_layout.h"

namespace specbound::gui::text_selection_test {

namespace {

using Range = TextRange;

}  // namespace

TEST_CASE("selection: a drag selects characters, both ways, and stays when released") {
  const std::string text = "hello world";
  TextSelection s;
  s.press(1, text, 4, 1);
  CHECK_FALSE(s.in(1));
  s.drag(text, 8);
  CHECK(*s.in(1) == Range{4, 8});
  s.drag(text, 1);
  CHECK(*s.in(1) == Range{1, 4});
  s.release();
  s.drag(text, 9);
  CHECK(*s.in(1) == Range{1, 4});
  CHECK_FALSE(s.in(2));
  CHECK(s.key() == 1);
  s.press(2, text, 0, 1);
  CHECK_FALSE(s.in(1));
}

TEST_CASE("selection: two clicks select a word, three a line, a drag goes on by them") {
  const std::string text = "na\u00efve \u6c34 it's, a\nsecond line";
  TextSelection s;
  s.press(1, text, 3, 2);
  CHECK(*s.in(1) == Range{0, 6});
  s.drag(text, 12);
  CHECK(*s.in(1) == Range{0, text.find(',')});
  s.press(1, text, text.find(','), 2);
  CHECK(*s.in(1) == Range{text.find(','), text.find(',') + 1});
  s.press(1, text, text.size(), 2);
  CHECK(*s.in(1) == Range{text.rfind(' ') + 1, text.size()});
  s.press(1, text, 3, 3);
  CHECK(*s.in(1) == Range{0, text.find('\n')});
  s.drag(text, text.size());
  CHECK(*s.in(1) == Range{0, text.size()});
  s.press(1, "", 0, 2);
  CHECK_FALSE(s.in(1));
}

TEST_CASE("selection: all of a text, and nothing") {
  TextSelection s;
  s.select_all(5, "abc");
  CHECK(*s.in(5) == Range{0, 3});
  s.clear();
  CHECK_FALSE(s.in(5));
  CHECK(s.key() == 0);
}

TEST_CASE("selection: broken text has places to click, too") {
  const std::string text = "a\xff\xe2\x82 \x80\x80\xf0\x9f\x8c";
  for (size_t at = 0; at <= text.size(); ++at) {
    for (int clicks = 1; clicks <= 3; ++clicks) {
      TextSelection s;
      s.press(1, text, at, clicks);
      s.drag(text, text.size());
      s.drag(text, 0);
      if (const auto range = s.in(1)) CHECK(range->end <= text.size());
    }
  }
}

TEST_CASE("selection: the clipboard gets UTF-8 without NUL") {
  CHECK(clipboard_text("plain \u00fc") == "plain \u00fc");
  CHECK(clipboard_text(std::string("a\0b", 3)) == "ab");
  CHECK(clipboard_text("x\xe2\x82") == "x\ufffd");
}

}  // namespace specbound::gui::text_selection_test
