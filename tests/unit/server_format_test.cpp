// Formats of replies on their way through the routes: they are compiled where they hold up nobody
// but each other.
#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "server/api.h"
#include "test_connection.h"
#include "word_model.h"

namespace server_format_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;
using nlohmann::json;

namespace {

// A completion whose grammar takes long to compile.
std::string slow_body() {
  json properties = json::object();
  for (int i = 0; i < 1000; ++i) {
    properties["property" + std::to_string(i)] = {{"type", "string"},
                                                  {"pattern", "^[a-z]{1,40}-[0-9]{9}$"}};
  }
  return json{{"prompt", "a"}, {"json_schema", {{"properties", properties}}}}.dump();
}

}  // namespace

TEST_CASE("server format: a large schema holds up no request without one") {
  WordModel model;
  Api api({});
  api.open(model);
  const std::string slow = slow_body();
  std::atomic<int> compiled{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    TestConnection client;
    while (!stop) {
      CHECK(api.post("/v1/completions", slow, "slow", client).status == 200);
      ++compiled;
    }
  });
  while (compiled == 0) std::this_thread::yield();
  constexpr int kRequests = 40;
  // Long enough to leave the other one time to come in between, far shorter than a schema.
  const std::string quick = json{{"content", std::string(30'000, 'a')}}.dump();
  const int before = compiled;
  TestConnection client;
  for (int i = 0; i < kRequests; ++i) {
    CHECK(api.post("/tokenize", quick, "quick", client).status == 200);
  }
  // Where each waits for a schema to be compiled, there are a third as many and more.
  const int meanwhile = compiled - before;
  CAPTURE(meanwhile);
  CHECK(meanwhile < kRequests / 6);
  stop = true;
  other.join();
}

TEST_CASE("server format: what is no grammar is an error of its field") {
  WordModel model;
  Api api({});
  api.open(model);
  TestConnection client;
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const json messages = {{{"role", "user"}, {"content", "go"}}};
    for (const auto& [field, value] :
         {std::pair<std::string, json>("grammar", "root ::= x"),
          std::pair<std::string, json>("json_schema", {{"not", json::object()}})}) {
      const json body = {{"prompt", "a"}, {"messages", messages}, {field, value}};
      try {
        api.post(path, body.dump(), "c", client);
        FAIL("no error");
      } catch (const ApiError& e) {
        CHECK(e.status() == 400);
        CHECK(e.param() == field);
      }
    }
  }
}

}  // namespace server_format_test
