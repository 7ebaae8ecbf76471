// Formats of replies on their way through the routes: they are compiled where they hold up nobody
// but each other.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/api.h"
#include "test_connection.h"
#include "word_model.h"

namespace server_format_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;
using nlohmann::json;

TEST_CASE("server format: what is compiled holds up no request without one, or with a known one") {
  WordModel model;
  // The first to ask for the model's calls compiles a grammar of them, and stays there.
  std::promise<void> inside, go_on;
  std::atomic<bool> asked{false};
  model.on_format = [&] {
    if (asked.exchange(true)) return;
    inside.set_value();
    go_on.get_future().wait();
  };
  Api api({});
  api.open(model);
  const auto status = [&](const std::string& path, const json& body) {
    TestConnection client;
    return status_of([&] { api.post(path, body.dump(), "someone", client); });
  };
  const json known = {{"prompt", "a"}, {"json_schema", {{"type", "string"}}}};
  CHECK(status("/v1/completions", known) == 200);
  const json calls = {{"messages", {{{"role", "user"}, {"content", "go"}}}},
                      {"tools", {{{"type", "function"}, {"function", {{"name", "clock"}}}}}},
                      {"tool_choice", "required"}};
  int called = 0;
  std::vector<int> others;
  std::promise<void> answered;
  // How long the test takes where one waits for the other, and no more.
  constexpr std::chrono::seconds kLong(20);
  {
    std::jthread slow([&] { called = status("/v1/chat/completions", calls); });
    REQUIRE(inside.get_future().wait_for(kLong) == std::future_status::ready);
    std::jthread quick([&] {
      others.push_back(status("/tokenize", {{"content", "a"}}));
      others.push_back(status("/v1/completions", {{"prompt", "a"}}));
      others.push_back(status("/v1/completions", known));
      answered.set_value();
    });
    CHECK(answered.get_future().wait_for(kLong) == std::future_status::ready);
    go_on.set_value();
  }
  CHECK(called == 200);
  CHECK(others == std::vector<int>(3, 200));
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
