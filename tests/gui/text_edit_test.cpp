// The input box without its drawing.
#include "gui/model/text_edit.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace specbound::gui::text_edit_test {

namespace {

using Step = TextEdit::Step;

void type(TextEdit& edit, std::string_view text) {
  for (const char c : text) edit.insert(std::string_view(&c, 1));
}

}  // namespace

TEST_CASE("edit: typing, erasing and moving go by characters and words") {
  TextEdit e;
  type(e, "one two");
  e.insert("\u00fc");
  CHECK(e.text() == "one two\u00fc");
  e.erase(false, Step::kCharacter);
  CHECK(e.text() == "one two");
  e.step(false, Step::kWord, false);
  CHECK(e.caret() == 4);
  e.step(false, Step::kWord, false);
  e.step(false, Step::kWord, false);
  CHECK(e.caret() == 0);
  e.erase(false, Step::kCharacter);
  e.step(true, Step::kWord, false);
  CHECK(e.caret() == 4);
  e.erase(false, Step::kWord);
  CHECK(e.text() == "two");
  e.erase(true, Step::kWord);
  CHECK(e.text() == "");
  e.erase(true, Step::kCharacter);
  e.step(true, Step::kCharacter, false);
  CHECK(e.caret() == 0);
}

TEST_CASE("edit: a selection is replaced, erased, or left at its ends") {
  TextEdit e;
  e.set_text("one two three");
  e.select({4, 7});
  CHECK(e.selected() == "two");
  e.insert("2");
  CHECK(e.text() == "one 2 three");
  e.select({0, 4});
  e.erase(true, Step::kCharacter);
  CHECK(e.text() == "2 three");
  e.select({2, 4});
  e.step(false, Step::kCharacter, false);
  CHECK(e.caret() == 2);
  e.select({2, 4});
  e.step(true, Step::kCharacter, false);
  CHECK(e.caret() == 4);
  e.step(true, Step::kCharacter, true);
  CHECK(e.selected() == "r");
  e.select_all();
  CHECK(e.selected() == e.text());
  e.move_to(999, false);
  CHECK(e.caret() == e.text().size());
}

TEST_CASE("edit: undo takes typing back in one, and redo brings it again") {
  TextEdit e;
  type(e, "abc");
  e.insert("a pasted text");
  type(e, "de");
  e.erase(false, Step::kCharacter);
  e.erase(false, Step::kCharacter);
  e.undo();
  CHECK(e.text() == "abca pasted textde");
  e.undo();
  CHECK(e.text() == "abca pasted text");
  e.undo();
  CHECK(e.text() == "abc");
  e.undo();
  CHECK(e.text() == "");
  e.undo();
  e.redo();
  e.redo();
  CHECK(e.text() == "abca pasted text");
  type(e, "!");
  e.redo();
  CHECK(e.text() == "abca pasted text!");
}

TEST_CASE("edit: what cannot be text is left out, and what is too much") {
  TextEdit e;
  e.insert(std::string_view("a\r\nb\rc\x1b\0\td", 10));
  CHECK(e.text() == "a\nb\nc\td");
  e.set_text("");
  e.insert("x\xff");
  CHECK(e.text() == "x\ufffd");
  e.insert(std::string(2 * TextEdit::kMaxBytes, 'y'));
  CHECK(e.text().size() == TextEdit::kMaxBytes);
  e.insert("\u00fc");
  CHECK(e.text().size() == TextEdit::kMaxBytes);
}

TEST_CASE("edit: anything in any order stays within the text, at characters") {
  std::mt19937 random(5);
  TextEdit e;
  const char* pieces[] = {"a", " ", "\u00fc", "\u6c34", "\n", "word ", "\U0001f30a", "'"};
  for (int i = 0; i < 20000; ++i) {
    const bool flag = random() % 2 != 0;
    const Step step = random() % 2 ? Step::kWord : Step::kCharacter;
    switch (random() % 7) {
      case 0:
      case 1:
        e.insert(pieces[random() % std::size(pieces)]);
        break;
      case 2:
        e.erase(flag, step);
        break;
      case 3:
        e.step(flag, step, random() % 2 != 0);
        break;
      case 4:
        e.undo();
        break;
      case 5:
        e.redo();
        break;
      case 6:
        e.select_all();
        e.step(flag, Step::kCharacter, false);
        break;
    }
    CHECK(e.caret() <= e.text().size());
    CHECK(e.selection().end <= e.text().size());
    CHECK(clipboard_text(e.text()) == e.text());
    CHECK(clipboard_text(e.selected()) == e.selected());
  }
}

}  // namespace specbound::gui::text_edit_test
