// JSON that others wrote: its limits, its errors, and that reading takes time by its length alone.
#include "json/json_reader.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "expect_error.h"

namespace json_reader_test {

using namespace specbound;
using specbound::test::expect_error;

namespace {

std::string refused(const std::string& text, const JsonLimits& limits = {}) {
  return expect_error(ErrorCode::kFormat, [&] { parse_json(text, "x", limits); });
}

}  // namespace

TEST_CASE("json reader: what is within the limits is read, the next one refused") {
  CHECK(parse_json("[[1], {\"a\": [2]}]", "x", {.depth = 3, .values = 7}).size() == 2);
  CHECK(refused("[[1], {\"a\": [2]}]", {.depth = 2}) ==
        "x: expected JSON nested 2 deep at most, found more levels");
  CHECK(refused("[[1], {\"a\": [2]}]", {.values = 6}) ==
        "x: expected JSON of at most 6 values, found more");
  CHECK(refused(R"({"a": 1, "b": {"a": 2, "a": 3}})") ==
        "x: expected each key of an object once, found 'a' twice");
  CHECK(parse_json(R"({"a": 1, "a": 2})", "x", {.repeated_keys = true})["a"] == 2);
  CHECK(parse_ordered_json(R"({"b": 1, "a": 2})", "x", {}).dump() == R"({"b":1,"a":2})");
}

TEST_CASE("json reader: what is no JSON is named by its place") {
  CHECK(refused("") == "x: expected JSON in UTF-8, found its end after 0 bytes");
  CHECK(refused("[1, ") == "x: expected JSON in UTF-8, found its end after 4 bytes");
  CHECK(refused("[1 2]") == "x: expected JSON in UTF-8, found something else at byte 4 of 5");
  CHECK(refused("[1] 2").starts_with("x: expected JSON in UTF-8, found something else"));
  CHECK(refused("[\"\xff\"]").starts_with("x: expected JSON in UTF-8, found something else"));
  CHECK(refused("[1e999]") == "x: expected numbers that a double can hold, found a larger one");
  // What is too much is said first, as it is found first.
  CHECK(refused("[[[", {.depth = 2}) ==
        "x: expected JSON nested 2 deep at most, found more levels");
}

TEST_CASE("json reader: half a million objects side by side take no longer than their bytes") {
  std::string text = "[{}";
  for (int i = 0; i < 500'000; ++i) text += ",{}";
  text += "]";
  const auto begin = std::chrono::steady_clock::now();
  CHECK(parse_json(text, "x").size() == 500'001);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));  // once: 3 minutes
}

}  // namespace json_reader_test
