// Calls of tools and thoughts on their way through the routes, whole and streamed, with a model
// made of words.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/api.h"
#include "test_connection.h"
#include "word_model.h"

namespace server_tools_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;
using nlohmann::json;

namespace {

constexpr const char* kChat = "/v1/chat/completions";
const std::string kCall = R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)";

json ask(const json& more = json::object()) {
  json body = {{"messages", {{{"role", "user"}, {"content", "go"}}}},
               {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}};
  body.update(more);
  return body;
}

// An Api whose model replies with `text`, in pieces of `size` bytes.
struct Served {
  explicit Served(std::string text, size_t size = 3, ApiOptions options = {}) : api(options) {
    model.style = find_reply_format("<think></think><tool_call>");
    model.work = [text = std::move(text), size](const CompletionRequest&, const std::atomic<bool>&,
                                                const WordModel::OnText& out) {
      for (size_t at = 0; at < text.size(); at += size) {
        out(std::string_view(text).substr(at, size));
      }
    };
    api.open(model);
  }

  json choice(const json& body) {
    return json::parse(api.post(kChat, body.dump(), "c", client).body)["choices"][0];
  }

  // The deltas of a stream, put together as clients do; its last reason is "reason".
  json streamed(json body) {
    body["stream"] = true;
    client.written.clear();
    const Answer answer = api.post(kChat, body.dump(), "c", client);
    CHECK(answer.stream(client));
    json all = {{"text", ""}, {"thoughts", ""}, {"calls", json::array()}, {"events", 0}};
    for (size_t at = 0, end; (end = client.written.find("\n\n", at)) != std::string::npos;
         at = end + 2) {
      const std::string data = client.written.substr(at + 6, end - at - 6);
      if (data == "[DONE]") break;
      const json choice = json::parse(data)["choices"][0], delta = choice["delta"];
      if (!choice["finish_reason"].is_null()) all["reason"] = choice["finish_reason"];
      const auto add = [&](const char* to, const char* from) {
        if (delta.contains(from)) {
          all[to] = all[to].get<std::string>() + delta[from].get<std::string>();
        }
      };
      add("text", "content");
      add("thoughts", "reasoning_content");
      if (!delta.contains("tool_calls")) continue;
      CHECK(delta["tool_calls"].size() == 1);
      const json& call = delta["tool_calls"][0];
      const size_t index = call["index"];
      if (index == all["calls"].size()) {  // the first of a call
        CHECK(call["type"] == "function");
        CHECK(call["function"]["arguments"] == "");
        all["calls"].push_back(call["function"]);
        all["calls"][index]["id"] = call["id"];
      } else {
        CHECK_FALSE(call.contains("id"));
        const std::string more = call["function"]["arguments"];
        json& arguments = all["calls"][index]["arguments"];
        arguments = arguments.get<std::string>() + more;
      }
    }
    return all;
  }

  WordModel model;
  Api api;
  TestConnection client;
};

}  // namespace

TEST_CASE("server tools: calls come apart from the text, whole and streamed") {
  for (const size_t size : {1, 3, 7, 1000}) {
    Served served("Let me look.\n" + kCall + "\n" + kCall, size);
    const json choice = served.choice(ask());
    CHECK(choice["finish_reason"] == "tool_calls");
    const json& message = choice["message"];
    CHECK(message["content"] == "Let me look.\n");
    REQUIRE(message["tool_calls"].size() == 2);
    for (const json& call : message["tool_calls"]) {
      CHECK(call["type"] == "function");
      CHECK(call["id"].get<std::string>().size() == 9);
      CHECK(call["function"] == json{{"name", "f"}, {"arguments", R"({"a": 1})"}});
    }
    CHECK(message["tool_calls"][0]["id"] != message["tool_calls"][1]["id"]);
    const json stream = served.streamed(ask());
    CHECK(stream["text"] == "Let me look.\n");
    CHECK(stream["reason"] == "tool_calls");
    REQUIRE(stream["calls"].size() == 2);
    CHECK(stream["calls"][1]["name"] == "f");
    CHECK(stream["calls"][1]["arguments"] == R"({"a": 1})");
  }
}

TEST_CASE("server tools: what is held to JSON is content, whatever it looks like") {
  for (const char* text :
       {R"({"a": "</think>"})", R"({"name": "f", "arguments": {"a": 1}})",
        R"({"a": "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"})"}) {
    Served served(text);
    served.model.thinks = true;
    const json body = ask({{"response_format", {{"type", "json_object"}}}});
    const json choice = served.choice(body);
    CHECK(choice["message"] == json{{"role", "assistant"}, {"content", text}});
    CHECK(choice["finish_reason"] == "stop");
    const json stream = served.streamed(body);
    CHECK(stream["text"] == text);
    CHECK(stream["thoughts"] == "");
  }
  Served served("so</think>it is");
  served.model.thinks = true;
  CHECK(served.choice(ask())["message"]["content"] == "it is");
}

TEST_CASE("server tools: what is held to JSON, or to calls, may be a call") {
  Served served(kCall + "\n" + kCall);
  const json body = ask({{"response_format", {{"type", "json_object"}}}});
  const json choice = served.choice(body);
  CHECK(choice["message"]["content"].is_null());
  CHECK(choice["message"]["tool_calls"].size() == 2);
  CHECK(choice["finish_reason"] == "tool_calls");
  CHECK(served.streamed(body)["calls"].size() == 2);
  // Where calls have no mark, one is JSON that names a tool and its arguments.
  Served bare(R"({"name": "f", "parameters": {"a": 1}})");
  bare.model.style = {};
  CHECK(bare.choice(body)["message"]["tool_calls"][0]["function"]["name"] == "f");
  Served answer(R"({"name": "Bob", "parameters": {"a": 1}})");
  answer.model.style = {};
  CHECK(answer.streamed(body)["text"] == R"({"name": "Bob", "parameters": {"a": 1}})");
}

TEST_CASE("server tools: a stream that is silent says that it is there") {
  ApiOptions impatient;
  impatient.silence = std::chrono::milliseconds(1);
  Served served("one two", 3, impatient);
  std::atomic<int> looks = 0;
  served.model.waits = [&](const CompletionRequest&, const std::atomic<bool>&) {
    return ++looks < 50;
  };
  served.model.step = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  json body = ask({{"stream", true}});
  const Answer answer = served.api.post(kChat, body.dump(), "c", served.client);
  CHECK(answer.status == 200);
  CHECK(answer.stream(served.client));
  CHECK(served.client.written.starts_with(": \n\n"));
  CHECK(served.client.written.ends_with("data: [DONE]\n\n"));
}

TEST_CASE("server tools: content is null where there are calls alone") {
  Served served(kCall);
  const json message = served.choice(ask())["message"];
  CHECK(message["content"].is_null());
  CHECK_FALSE(message.contains("reasoning_content"));
  CHECK(served.streamed(ask())["text"] == "");
}

TEST_CASE("server tools: without tools, or with none to be called, calls are text") {
  Served served(kCall);
  for (const json& body : {ask({{"tools", nullptr}}), ask({{"tool_choice", "none"}})}) {
    const json choice = served.choice(body);
    CHECK(choice["message"] == json{{"role", "assistant"}, {"content", kCall}});
    CHECK(choice["finish_reason"] == "stop");
    CHECK(served.streamed(body)["text"] == kCall);
  }
}

TEST_CASE("server tools: one call where one may be, and n replies with their own") {
  Served served(kCall + kCall);
  CHECK(served.choice(ask({{"parallel_tool_calls", false}}))["message"]["tool_calls"].size() == 1);
  const json answer =
      json::parse(served.api.post(kChat, ask({{"n", 2}}).dump(), "c", served.client).body);
  // The model of words puts the reply's number in front.
  for (const json& choice : answer["choices"]) {
    CHECK(choice["message"]["tool_calls"].size() == 2);
    CHECK(choice["finish_reason"] == "tool_calls");
  }
}

TEST_CASE("server tools: thoughts are reasoning_content, or stay where the server leaves them") {
  const std::string reply = "<think>\nhm, \xC3\xA9\n</think>\n\nYes.";
  Served served(reply, 1);
  const json message = served.choice(ask())["message"];
  CHECK(message ==
        json{{"role", "assistant"}, {"content", "Yes."}, {"reasoning_content", "hm, \xC3\xA9"}});
  const json stream = served.streamed(ask());
  CHECK(stream["thoughts"] == "hm, \xC3\xA9");
  CHECK(stream["text"] == "Yes.");
  ApiOptions options;
  options.defaults.split_thoughts = false;
  Served raw(reply, 1, options);
  CHECK(raw.choice(ask())["message"] == json{{"role", "assistant"}, {"content", reply}});
}

TEST_CASE("server tools: the text of a template") {
  Served served("");
  const Answer answer =
      served.api.post("/apply-template", R"({"messages": [{"role": "user", "content": "x\ny"}]})",
                      "c", served.client);
  CHECK(answer.body == R"({"prompt":"x\ny"})");
  CHECK(status_of([&] { served.api.post("/apply-template", "{}", "c", served.client); }) == 400);
  CHECK(Api::methods_of("/apply-template") == "POST, OPTIONS");
}

}  // namespace server_tools_test
