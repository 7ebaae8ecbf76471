// What is typed into a box, as the window hands it on.
#include "gui/view/text_box.h"

#include <doctest/doctest.h>

#include "gui/headless.h"
#include "gui/view/probe.h"

namespace specbound::gui::text_box_test {

TEST_CASE("text box: characters that ImGui has no room for are taken whole") {
  Headless ui(400, 300);
  TextBox box;
  box.focus();
  ui.set_content([&] { box.draw({300, 60}, true, "", "box", probe()); });
  ui.frame(2);
  // As the window does: ImGui makes U+FFFD of what has more than 16 bits.
  const auto type = [&](const std::u32string& text) {
    wide_characters().clear();
    for (const char32_t c : text) {
      if (c > IM_UNICODE_CODEPOINT_MAX || c == IM_UNICODE_CODEPOINT_INVALID) wide_characters() += c;
      ImGui::GetIO().AddInputCharacter(static_cast<unsigned>(c));
    }
    ui.frame();
  };
  type(U"a\U0001f600b\ufffd\U0001f30a");
  CHECK(box.text() == "a\U0001f600b\ufffd\U0001f30a");
  CHECK(wide_characters().empty());
  type(U"c");
  CHECK(box.text() == "a\U0001f600b\ufffd\U0001f30ac");
  // Without a window that says so it is what ImGui has.
  ImGui::GetIO().AddInputCharacter(0xfffd);
  ui.frame();
  CHECK(box.text() == "a\U0001f600b\ufffd\U0001f30ac\ufffd");
}

}  // namespace specbound::gui::text_box_test
