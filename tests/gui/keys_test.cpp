// No key gets lost between two frames, and none overtakes another.
#include "gui/view/keys.h"

#include <doctest/doctest.h>

#include <string>

namespace specbound::gui::keys_test {

namespace {

using Kind = KeyEvent::Kind;

void press(KeyQueue& queue, int key) {
  queue.push({Kind::kDown, key, 0, 0, 0, false});
  queue.push({Kind::kUp, key, 0, 0, 0, false});
}

void type(KeyQueue& queue, char c) {
  queue.push({Kind::kDown, c, 0, 0, 0, true});
  queue.push({Kind::kCharacter, 0, 0, 0, static_cast<uint32_t>(c), true});
  queue.push({Kind::kUp, c, 0, 0, 0, true});
}

// What a frame that looks once at the end sees: characters, then keys that are down.
std::string seen(KeyQueue& queue) {
  std::string characters, keys;
  for (const KeyEvent& e : queue.take()) {
    if (e.kind == Kind::kCharacter) characters += static_cast<char>(e.character);
    if (e.kind == Kind::kDown && !e.text) keys += "<" + std::to_string(e.key) + ">";
  }
  return characters + keys;
}

}  // namespace

TEST_CASE("key queue: a whole word passes in one frame, Enter after it is seen down") {
  KeyQueue queue;
  for (const char c : std::string("hello")) type(queue, c);
  press(queue, 257);
  for (const char c : std::string("more")) type(queue, c);
  CHECK(seen(queue) == "hello<257>");
  CHECK(seen(queue) == "more");
  CHECK(queue.empty());
}

TEST_CASE("key queue: keys pressed twice between two frames are two presses") {
  KeyQueue queue;
  press(queue, 259);
  press(queue, 259);
  CHECK(seen(queue) == "<259>");
  CHECK(seen(queue) == "<259>");
  CHECK(seen(queue).empty());
  CHECK(queue.empty());
}

}  // namespace specbound::gui::keys_test
