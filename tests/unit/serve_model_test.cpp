// The program's own model behind the routes: the tiny one, whose answers are the same bytes
// whatever came before.
#include "server/serve_model.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "server/api.h"
#include "test_connection.h"

namespace serve_model_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;
using nlohmann::json;

TEST_CASE("server model: the tiny model gives the same bytes whatever came before") {
  ModelOptions flags;
  flags.model = std::string(SPECBOUND_TEST_DATA) + "/models/stories260K.gguf";
  flags.n_threads = 1;
  flags.device.where = DeviceOptions::Where::kCpu;
  LoadedModel loaded(flags);
  LoadWatcher watcher;
  watcher.progress = [](const std::string&, size_t, size_t) {};
  watcher.note = [](const std::string&) {};
  SpeculationOptions speculation_flags;
  speculation_flags.speculator = "ngram";
  Speculation speculation(speculation_flags, loaded);
  loaded.load(nullptr, watcher);
  speculation.attach(loaded.backend());
  ServeModel model(loaded, speculation, "stories");
  Api api({});
  api.open(model);
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

}  // namespace serve_model_test
