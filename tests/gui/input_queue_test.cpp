// No key and no click gets lost between two frames, and none overtakes another.
#include "gui/view/input_queue.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace specbound::gui::input_queue_test {

namespace {

using Kind = InputEvent::Kind;

constexpr int kEnter = 257, kBackspace = 259, kCtrl = 341;

void press(InputQueue& queue, int key) {
  queue.push({.kind = Kind::kKeyDown, .key = key});
  queue.push({.kind = Kind::kKeyUp, .key = key});
}

void type(InputQueue& queue, const std::string& text) {
  for (const char c : text) {
    queue.push({.kind = Kind::kKeyDown, .key = c, .text = true});
    queue.push({.kind = Kind::kCharacter, .character = static_cast<uint32_t>(c)});
    queue.push({.kind = Kind::kKeyUp, .key = c, .text = true});
  }
}

void move(InputQueue& queue, double x) {
  queue.push({.kind = Kind::kMove, .x = x, .y = 3});
}

void click(InputQueue& queue, int button = 0) {
  queue.push({.kind = Kind::kButtonDown, .button = button});
  queue.push({.kind = Kind::kButtonUp, .button = button});
}

// What a frame sees: "at 12", "down", "up", "wheel", "+257" and "-257" for keys, characters.
std::string seen(InputQueue& queue) {
  std::string text;
  for (const InputEvent& e : queue.take()) {
    const std::string space = text.empty() ? "" : " ";
    switch (e.kind) {
      case Kind::kKeyDown:
      case Kind::kKeyUp:
        if (e.text) break;
        text += space + (e.kind == Kind::kKeyDown ? "+" : "-") + std::to_string(e.key);
        break;
      case Kind::kCharacter:
        text += static_cast<char>(e.character);
        break;
      case Kind::kMove:
        text += space + "at " + std::to_string(static_cast<int>(e.x));
        break;
      case Kind::kWheel:
        text += space + "wheel";
        break;
      case Kind::kButtonDown:
        text += space + "down" + (e.button ? std::to_string(e.button) : "");
        break;
      case Kind::kButtonUp:
        text += space + "up" + (e.button ? std::to_string(e.button) : "");
        break;
    }
  }
  return text;
}

void check_frames(InputQueue& queue, const std::vector<std::string>& expected) {
  for (const std::string& frame : expected) CHECK(seen(queue) == frame);
  CHECK(queue.empty());
  CHECK(seen(queue).empty());
}

}  // namespace

TEST_CASE("input queue: a whole word passes in one frame, Enter after it is seen down") {
  InputQueue queue;
  type(queue, "hello");
  press(queue, kEnter);
  type(queue, "more");
  check_frames(queue, {"hello +257", "-257more"});
}

TEST_CASE("input queue: keys pressed twice between two frames are two presses") {
  InputQueue queue;
  press(queue, kBackspace);
  press(queue, kBackspace);
  check_frames(queue, {"+259", "-259 +259", "-259"});
}

TEST_CASE("input queue: a click behind a movement is pressed a frame after it, then released") {
  InputQueue queue;
  move(queue, 1);
  move(queue, 12);
  click(queue);
  move(queue, 40);
  check_frames(queue, {"at 12", "down", "up", "at 40"});
}

TEST_CASE("input queue: two clicks between two frames are two, of whatever buttons") {
  InputQueue queue;
  click(queue);
  click(queue, 1);
  click(queue, -1);  // no such buttons
  click(queue, InputQueue::kButtons);
  check_frames(queue, {"down", "up", "down1", "up1"});
}

TEST_CASE("input queue: what is dragged is let go where the pointer was") {
  InputQueue queue;
  move(queue, 5);
  queue.push({.kind = Kind::kButtonDown});
  CHECK(queue.holds(0));
  move(queue, 6);
  move(queue, 90);
  queue.push({.kind = Kind::kButtonUp});
  CHECK_FALSE(queue.holds(0));
  move(queue, 200);
  queue.push({.kind = Kind::kWheel, .y = 1});
  check_frames(queue, {"at 5", "down", "at 90", "up", "at 200 wheel"});
}

TEST_CASE("input queue: what is typed behind a click comes behind it, and Ctrl is held over one") {
  InputQueue queue;
  click(queue);
  type(queue, "hello");
  queue.push({.kind = Kind::kKeyDown, .key = kCtrl});
  click(queue);
  queue.push({.kind = Kind::kKeyUp, .key = kCtrl});
  check_frames(queue, {"down", "up", "hello +341", "down", "up", "-341"});
}

}  // namespace specbound::gui::input_queue_test
