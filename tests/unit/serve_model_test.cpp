// The program's own model behind the routes: the tiny one, whose answers are the same bytes
// whatever came before.
#include "server/serve_model.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/api.h"
#include "test_connection.h"

namespace serve_model_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;
using nlohmann::json;

namespace {

// The tiny model, loaded with room for so many texts.
class Stories {
 public:
  // Of auto's drafts rows are free, and what was written is remembered.
  explicit Stories(int texts, uint64_t cache_size = Sessions::kAnyBytes,
                   const char* speculator = "ngram")
      : flags_(flags(texts)), loaded_(flags_) {
    LoadWatcher watcher;
    watcher.progress = [](const std::string&, size_t, size_t) {};
    watcher.note = [](const std::string&) {};
    SpeculationOptions speculation_flags;
    speculation_flags.speculator = speculator;
    if (speculation_flags.looks_up()) {
      speculation_flags.controller = false;
      speculation_flags.remember = true;
    }
    speculation_ = std::make_unique<Speculation>(speculation_flags, loaded_);
    loaded_.load(nullptr, watcher);
    speculation_->attach(loaded_.backend());
    model = std::make_unique<ServeModel>(loaded_, *speculation_, "stories", texts, cache_size);
  }

 private:
  static ModelOptions flags(int texts) {
    ModelOptions flags;
    flags.model = std::string(SPECBOUND_TEST_DATA) + "/models/stories260K.gguf";
    flags.n_threads = 1;
    flags.n_sequences = texts;
    flags.device.where = DeviceOptions::Where::kCpu;
    return flags;
  }
  const ModelOptions flags_;
  LoadedModel loaded_;
  std::unique_ptr<Speculation> speculation_;

 public:
  std::unique_ptr<ServeModel> model;
};

// What a request may ask for, in one mix or another.
json request_of(size_t number) {
  constexpr const char* kPrompts[] = {"Once upon a time", "Once upon a time, there was a girl",
                                      "The little dog", "Lily and Tom"};
  json body = {{"prompt", kPrompts[number % 4]},
               {"temperature", number % 3 == 0 ? 0.0 : 0.4 * static_cast<double>(number % 5)},
               {"seed", number},
               {"max_tokens", 1 + 7 * (number % 9)}};
  if (number % 2) body["logprobs"] = number % 4;
  if (number % 5 == 1) body["stop"] = {" was", "and"};
  if (number % 5 == 2) body["frequency_penalty"] = 0.8;
  if (number % 7 == 3) body["logit_bias"] = {{"300", 5}, {"13", -100}};
  if (number % 6 == 4) body["grammar"] = "root ::= ([a-z]{1,4} \" \" | [0-9]{2})*";
  if (number % 6 == 5) body["n"] = 2;
  if (number % 8 == 6) body["repeat_penalty"] = 1.3;
  if (number % 8 == 7) body["speculation"] = false;
  return body;
}

// All that it says, apart from how long that took.
std::string said(const json& answer) {
  std::string text = answer["usage"]["completion_tokens"].dump();
  for (const json& choice : answer["choices"]) {
    text += choice["text"].dump() + choice["finish_reason"].dump() + choice["logprobs"].dump();
  }
  return text;
}

}  // namespace

TEST_CASE("server model: requests at once get the bytes that each gets alone") {
  constexpr size_t kRequests = 96, kClients = 6;
  std::vector<std::string> alone;
  {
    const Stories one(1);
    Api api({});
    api.open(*one.model);
    TestConnection client;
    for (size_t i = 0; i < kRequests; ++i) {
      alone.push_back(
          said(json::parse(api.post("/v1/completions", request_of(i).dump(), "c", client).body)));
    }
  }
  const Stories several(4, Sessions::kAnyBytes, "auto");
  CHECK(several.model->places() == 4);
  Api api({});
  api.open(*several.model);
  std::vector<std::thread> clients;
  std::vector<std::string> together(kRequests);
  std::atomic<int> left{0};
  for (size_t c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      const std::string name = format("client %zu", c);
      for (size_t i = c; i < kRequests; i += kClients) {
        json body = request_of(i);
        TestConnection client;
        together[i] =
            said(json::parse(api.post("/v1/completions", body.dump(), name, client).body));
        if (i % 3 != 0) continue;
        body["stream"] = true;  // one that leaves after a few words
        client.writes_left = static_cast<int>(i % 4);
        const Answer answer = api.post("/v1/completions", body.dump(), name, client);
        if (answer.stream && !answer.stream(client)) ++left;
        TestConnection embeds;
        api.post("/v1/embeddings", json{{"input", {"A dog", "A cat"}}}.dump(), name, embeds);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < kRequests; ++i) {
    CAPTURE(i);
    CHECK(together[i] == alone[i]);
  }
  CHECK(left > 5);
  const std::string metrics = api.get("/metrics").body;
  const auto counted = [&](const std::string& name) {
    const size_t at = metrics.find("\n" + name + " ");
    REQUIRE(at != std::string::npos);
    return std::atoi(metrics.c_str() + at + name.size() + 2);
  };
  CHECK(counted("specbound_rounds_side_by_side_total") > 200);
  CHECK(counted("specbound_accepted_tokens_total") > 200);
  // One whose client left ends at the engine's next step.
  const auto at_rest = [&] {
    return api.get("/metrics").body.find("\nspecbound_requests_running 0\n") != std::string::npos;
  };
  for (int i = 0; i < 1000 && !at_rest(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(at_rest());
  api.stop();
}

TEST_CASE("server model: the tiny model gives the same bytes whatever came before") {
  const Stories stories(1);
  Api api({});
  api.open(*stories.model);
  TestConnection client;
  const auto post = [&](const json& fields) {
    json body = {{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 24}};
    body.update(fields);
    return json::parse(api.post("/v1/completions", body.dump(), "c", client).body);
  };
  const auto text = [&](const json& fields) {
    return post(fields)["choices"][0]["text"].get<std::string>();
  };
  const std::string first = text(json::object());
  CHECK_FALSE(first.empty());
  CHECK(text({{"speculation", false}}) == first);
  CHECK(text({{"prompt", "The little dog"}}) != first);
  CHECK(text({{"speculation", true}}) == first);
  CHECK(text({{"temperature", 1.5}, {"seed", 3}}) == text({{"temperature", 1.5}, {"seed", 3}}));
  CHECK(text(json::object()) == first);
  const json again = post({{"speculation", false}});
  CHECK(again["timings"]["cache_n"] == again["usage"]["prompt_tokens"].get<int>() - 1);
  CHECK(again["timings"]["speculation"]["active"] == false);
  CHECK(post({{"speculation", true}})["timings"]["speculation"]["active"] == true);
  CHECK(again["choices"][0]["finish_reason"] == "length");

  const auto told = [&](const json& fields) {
    json asked = {{"logprobs", 3}, {"max_tokens", 12}};
    asked.update(fields);
    return post(asked)["choices"][0];
  };
  const json plain = told({{"speculation", false}});
  CHECK(plain["logprobs"]["tokens"].size() == 12);
  CHECK(told({{"speculation", true}}).dump() == plain.dump());
  // The model's own: how a token is picked is not in them.
  const json biased = told({{"logit_bias", {{"300", 100}}}, {"temperature", 1.5}});
  CHECK(biased["logprobs"]["top_logprobs"][0].size() == 4);  // the one that was picked, too
  for (const auto& [token, logprob] : plain["logprobs"]["top_logprobs"][0].items()) {
    CHECK(biased["logprobs"]["top_logprobs"][0][token] == logprob);
  }
  const std::string words = plain["text"];
  for (size_t i = 0; i < 12; ++i) {
    const std::string token = plain["logprobs"]["tokens"][i];
    CHECK(words.substr(plain["logprobs"]["text_offset"][i], token.size()) == token);
  }

  client.written.clear();
  const Answer stream = api.post(
      "/v1/completions",
      R"({"prompt": "Once upon a time", "temperature": 0, "max_tokens": 24, "stream": true})", "c",
      client);
  CHECK(stream.stream(client));
  std::string joined;
  for (size_t at = 0, end; (end = client.written.find("\n\n", at)) != std::string::npos;
       at = end + 2) {
    const std::string event = client.written.substr(at + 6, end - at - 6);
    if (event != "[DONE]") joined += json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  CHECK(joined == first);

  const std::string ids =
      api.post("/tokenize", R"({"content": "Once upon a time", "add_special": true})", "c", client)
          .body;
  CHECK(text({{"prompt", json::parse(ids)["tokens"]}}) == first);
  CHECK(status_of([&] { post({{"prompt", std::string(4000, 'x')}}); }) == 400);
  CHECK(status_of([&] { post({{"prompt", json::array({512})}}); }) == 400);
}

TEST_CASE("server model: who drafts and who does not leave each other alone") {
  for (const char* speculator : {"auto", "ngram"}) {
    CAPTURE(speculator);
    const Stories several(4, Sessions::kAnyBytes, speculator);
    Api api({});
    api.open(*several.model);
    // Drafts are asked for, refused, and not spoken of, whoever is beside it.
    const auto asked = [](size_t number) {
      return number % 3 == 2 ? std::nullopt : std::optional(number % 3 == 0);
    };
    const auto post = [&](size_t number) {
      json body = request_of(3 * number);
      for (const char* key : {"n", "grammar", "logprobs", "stop", "speculation"}) body.erase(key);
      body["max_tokens"] = 5 + number * 7 % 40;
      if (asked(number)) body["speculation"] = *asked(number);
      TestConnection client;
      const std::string name = format("client %zu", number);
      return json::parse(api.post("/v1/completions", body.dump(), name, client).body);
    };
    constexpr size_t kClients = 4, kRequests = 12;
    std::vector<std::thread> clients;
    std::vector<json> told(kClients * kRequests);
    for (size_t c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        for (size_t i = c; i < told.size(); i += kClients) told[i] = post(i);
      });
    }
    for (std::thread& client : clients) client.join();
    for (int last = 0; last < 3; ++last) told.push_back(post(told.size()));  // alone
    int shared = 0;
    for (size_t i = 0; i < told.size(); ++i) {
      CAPTURE(i);
      const json& speculation = told[i]["timings"]["speculation"];
      const int rounds = speculation["rounds"], beside = speculation["rounds_side_by_side"];
      shared += beside > 0;
      const bool active = asked(i).value_or(true);
      // N-grams draft for who is alone.
      if (!active || beside < rounds || std::string(speculator) == "auto") {
        CHECK(speculation["active"] == active);
      }
      if (!active) CHECK(speculation["compression_rate"] == 1);
    }
    CHECK(shared > 10);
    api.stop();
  }
}

}  // namespace serve_model_test
