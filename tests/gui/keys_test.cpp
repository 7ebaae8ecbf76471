// Shortcuts are the letters that keys write, not those that a US keyboard has in their places.
#include "gui/view/keys.h"

#include <doctest/doctest.h>

namespace specbound::gui::keys_test {

TEST_CASE("keys: a key is what it writes, where that is one ASCII character") {
  CHECK(key_by_name('A', "a") == 'A');
  CHECK(key_by_name('Q', "a") == 'A');  // AZERTY
  CHECK(key_by_name('A', "q") == 'Q');
  CHECK(key_by_name(';', "m") == 'M');
  CHECK(key_by_name('M', ",") == ',');   // so that Ctrl with it is not Ctrl+M
  CHECK(key_by_name('Q', "'") == '\'');  // Dvorak
  CHECK(key_by_name('X', "Q") == 'Q');
}

TEST_CASE("keys: others are where they are") {
  CHECK(key_by_name('C', "\u0441") == 'C');  // Cyrillic
  CHECK(key_by_name('2', "\u00e9") == '2');
  CHECK(key_by_name('A', nullptr) == 'A');
  CHECK(key_by_name('A', "") == 'A');
  CHECK(key_by_name('A', "ab") == 'A');
  CHECK(key_by_name(static_cast<int>(Key::kEnter), nullptr) == static_cast<int>(Key::kEnter));
  constexpr int kUnknown = -1, kKeypad1 = 321;
  CHECK(key_by_name(kUnknown, "a") == kUnknown);
  CHECK(key_by_name(kKeypad1, "1") == kKeypad1);
}

}  // namespace specbound::gui::keys_test
