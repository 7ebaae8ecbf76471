// The queue in front of the engine: whose turn it is, and its ends.
#include "server/fair_queue.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace fair_queue_test {

using namespace specbound::server;

TEST_CASE("server queue: clients take turns, each in its order") {
  FairQueue<int> queue(10);
  for (const int i : {1, 2, 3}) CHECK(queue.push("a", i));
  CHECK(queue.push("b", 4));
  CHECK(queue.push("c", 5));
  CHECK(queue.push("b", 6));
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) order.push_back(*queue.pop());
  CHECK(queue.push("d", 7));
  for (int i = 0; i < 4; ++i) order.push_back(*queue.pop());
  CHECK(order == std::vector<int>{1, 4, 5, 2, 6, 7, 3});
  CHECK_FALSE(queue.poll().has_value());
  CHECK(queue.push("a", 8));
  CHECK(queue.poll() == 8);
  CHECK(queue.size() == 0);
}

TEST_CASE("server queue: full, removed from, closed") {
  FairQueue<int> queue(2);
  CHECK(queue.push("a", 1));
  CHECK(queue.push("b", 2));
  CHECK_FALSE(queue.push("c", 3));
  CHECK(queue.remove(1));
  CHECK_FALSE(queue.remove(1));
  CHECK(queue.push("c", 3));
  CHECK(queue.close() == std::vector<int>{2, 3});
  CHECK_FALSE(queue.push("a", 4));
  CHECK_FALSE(queue.pop().has_value());
}

TEST_CASE("server queue: who waits is woken by the close") {
  FairQueue<int> queue(2);
  std::thread waiting([&] { CHECK_FALSE(queue.pop().has_value()); });
  queue.close();
  waiting.join();
}

}  // namespace fair_queue_test
