// No click gets lost between two frames, and each is made where the pointer was.
#include "gui/view/pointer.h"

#include <doctest/doctest.h>

#include <string>

namespace specbound::gui::pointer_test {

namespace {

using Kind = PointerEvent::Kind;

void move(PointerQueue& queue, float x, float y) {
  queue.push({Kind::kMove, {x, y}, 0});
}

void click(PointerQueue& queue, int button = 0) {
  queue.push({Kind::kDown, {}, button});
  queue.push({Kind::kUp, {}, button});
}

// "12 -": at x = 12 with no button down; "12 0": with the first.
std::string seen(PointerQueue& queue) {
  queue.next_frame();
  std::string text = std::to_string(static_cast<int>(queue.at().x)) + " ";
  for (int i = 0; i < PointerQueue::kButtons; ++i) {
    if (queue.down(i)) text += std::to_string(i);
  }
  return text.back() == ' ' ? text + "-" : text;
}

}  // namespace

TEST_CASE("pointer queue: a click behind a movement is pressed a frame after it, then released") {
  PointerQueue queue;
  move(queue, 1, 1);
  move(queue, 12, 3);
  click(queue);
  move(queue, 40, 3);
  CHECK(seen(queue) == "12 -");
  CHECK(seen(queue) == "12 0");
  CHECK(seen(queue) == "12 -");
  CHECK(seen(queue) == "40 -");
  CHECK(queue.empty());
  CHECK(seen(queue) == "40 -");
}

TEST_CASE("pointer queue: two clicks between two frames are two, of whatever buttons") {
  PointerQueue queue;
  move(queue, 5, 5);
  click(queue);
  click(queue, 1);
  click(queue, -1);  // no such buttons
  click(queue, PointerQueue::kButtons);
  for (const char* expected : {"5 -", "5 0", "5 -", "5 1", "5 -"}) CHECK(seen(queue) == expected);
  CHECK(queue.empty());
}

TEST_CASE("pointer queue: what is dragged is let go where the pointer was") {
  PointerQueue queue;
  move(queue, 5, 5);
  queue.push({Kind::kDown, {}, 0});
  move(queue, 6, 5);
  move(queue, 90, 5);
  queue.push({Kind::kUp, {}, 0});
  move(queue, 200, 5);
  for (const char* expected : {"5 -", "5 0", "90 0", "90 -", "200 -"}) {
    CHECK(seen(queue) == expected);
  }
}

}  // namespace specbound::gui::pointer_test
