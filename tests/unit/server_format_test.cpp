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

namespace {

// The refusal of a request for what its `field` says.
ApiError error_of_field(Api& api, const std::string& path, const json& body,
                        const std::string& field) {
  TestConnection client;
  ApiError e = error_of([&] { api.post(path, body.dump(), "c", client); });
  CHECK(e.param() == field);
  return e;
}

}  // namespace

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
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const json messages = {{{"role", "user"}, {"content", "go"}}};
    for (const auto& [field, value] :
         {std::pair<std::string, json>("grammar", "root ::= x"),
          std::pair<std::string, json>("json_schema", {{"not", json::object()}})}) {
      const json body = {{"prompt", "a"}, {"messages", messages}, {field, value}};
      const std::string message = error_of_field(api, path, body, field).what();
      CHECK(message.starts_with(field));
      CHECK(message.rfind(field) == 0);  // once
    }
  }
}

TEST_CASE("server format: what cannot be followed while it is written is an error of its field") {
  WordModel model;
  model.work = [](const CompletionRequest& request, const std::atomic<bool>&,
                  const WordModel::OnText& out) {
    if (request.text == "late") out("x");
    throw Error(ErrorCode::kUnsupported, "grammar: expected fewer ways");
  };
  Api api({});
  api.open(model);
  TestConnection client;
  const json tool = {{"type", "function"}, {"function", {{"name", "clock"}}}};
  for (const auto& held :
       {std::pair<std::string, json>("grammar", "root ::= \"x\""),
        std::pair<std::string, json>("json_schema", {{"type", "string"}}),
        std::pair<std::string, json>("response_format", {{"type", "json_object"}}),
        std::pair<std::string, json>("tools", json::array({tool}))}) {
    const std::string& field = held.first;
    CAPTURE(field);
    const bool chat = field == "tools";
    const char* path = chat ? "/v1/chat/completions" : "/v1/completions";
    json body = {{field, held.second}};
    if (chat) {
      body["messages"] = {{{"role", "user"}, {"content", "go"}}};
      body["tool_choice"] = "required";
    } else {
      body["prompt"] = "early";
    }
    for (const bool stream : {false, true}) {
      body["stream"] = stream;
      const ApiError e = error_of_field(api, path, body, field);
      CHECK(e.code() == "unsupported_value");
      CHECK(e.what() == field + ": expected fewer ways");
    }
    if (chat) continue;
    body["prompt"] = "late";
    client.written.clear();
    CHECK(api.post(path, body.dump(), "c", client).stream(client));
    CHECK(client.written.find(R"("invalid_request_error","param":")" + field) != std::string::npos);
    CHECK(client.written.find("[DONE]") == std::string::npos);
  }
  // Where nothing is held it is no mistake of the request.
  CHECK(status_of([&] { api.post("/v1/completions", R"({"prompt": "a"})", "c", client); }) == 500);
}

}  // namespace server_format_test
