// What web pages are told: nothing, unless an origin was named, and then that one alone.
#include "server/cors.h"

#include <doctest/doctest.h>

#include <string>

#include "expect_error.h"

namespace cors_test {

using namespace specbound;
using namespace specbound::server;

namespace {

std::string text(const Cors::Headers& headers) {
  std::string text;
  for (const auto& [name, value] : headers) text += std::string(name) + ": " + value + "\n";
  return text;
}

constexpr const char* kPage = "https://example.org";

}  // namespace

TEST_CASE("cors: nothing without an origin") {
  CHECK(text(Cors().of_answer(kPage)).empty());
  CHECK(text(Cors().of_answer("")).empty());
  CHECK(text(Cors().of_preflight(kPage, "GET")).empty());
  CHECK(text(Cors().of_preflight("", "GET")).empty());
}

TEST_CASE("cors: one origin, and caches are told that others get another answer") {
  const Cors cors(kPage, "--cors");
  CHECK(text(cors.of_answer(kPage)) ==
        "Vary: Origin\nAccess-Control-Allow-Origin: https://example.org\n");
  CHECK(text(cors.of_preflight(kPage, "POST, OPTIONS")) ==
        "Access-Control-Allow-Methods: POST, OPTIONS\n"
        "Access-Control-Allow-Headers: Authorization, *\nAccess-Control-Max-Age: 600\n");
  for (const char* other : {"", "http://example.org", "https://example.org.evil.org", "null",
                            "https://example.org:8443", "https://EXAMPLE.org", "*"}) {
    CAPTURE(other);
    CHECK(text(cors.of_answer(other)) == "Vary: Origin\n");
    CHECK(text(cors.of_preflight(other, "GET")).empty());
  }
}

TEST_CASE("cors: any origin") {
  const Cors cors("*", "--cors");
  for (const char* origin : {"", kPage, "null"}) {
    CHECK(text(cors.of_answer(origin)) == "Access-Control-Allow-Origin: *\n");
    CHECK_FALSE(text(cors.of_preflight(origin, "GET")).empty());
  }
}

TEST_CASE("cors: what is no origin is refused") {
  for (const char* origin : {"http://localhost:3000", "https://example.org", "http://127.0.0.1",
                             "http://[::1]:80", "chrome-extension://abcdef"}) {
    CAPTURE(origin);
    CHECK_NOTHROW(Cors(origin, "--cors"));
  }
  for (const char* wrong : {"", "**", "example.org", "https://", "://example.org", "null",
                            "https://example.org/", "https://example.org/a", "https://a b",
                            "https://a,https://b", "https://Example.org", "https://a\r\nX: y"}) {
    CAPTURE(wrong);
    test::check_mentions(test::expect_error(ErrorCode::kUsage, [&] { Cors(wrong, "--cors"); }),
                         {"--cors", "https://example.org"});
  }
}

}  // namespace cors_test
