// Cancelling and failures of the engine's thread, and the routes in front of it, with a
// model made of words. Nothing here waits for time to pass: every wait is for something that must
// come.
#include "server/engine_thread.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "error.h"
#include "server/api.h"
#include "server/embedding_job.h"
#include "server/reply_job.h"
#include "test_connection.h"
#include "word_model.h"

namespace server_engine_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;
using nlohmann::json;

namespace {

// Opens once, for all who wait.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

void until(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

std::shared_ptr<ReplyJob> job_of(const std::string& text) {
  CompletionRequest request;
  request.text = text;
  return std::make_shared<ReplyJob>(std::move(request), Prompt{{1}, nullptr});
}

// All of it.
ReplyJob::News all_of(ReplyJob& job) {
  ReplyJob::News all;
  while (!all.over) {
    pollfd ready = {job.news_fd(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, -1) == 1);
    ReplyJob::News news = job.take();
    std::ranges::move(news.parts, std::back_inserter(all.parts));
    all.over = news.over;
    all.error = news.error;
  }
  return all;
}

using test::status_of;
int status_of(ReplyJob& job) {
  const ReplyJob::News all = all_of(job);
  return all.error ? all.error->status() : 200;
}

}  // namespace

TEST_CASE("server engine: a reply, whole characters only") {
  WordModel model;
  model.work = [](const CompletionRequest&, const std::atomic<bool>&,
                  const WordModel::OnText& out) {
    for (const char* piece : {"a\xF0\x9F", "\x98\x80", "\xFF", "b\xC3"}) out(piece);
  };
  Metrics metrics;
  EngineThread engine(model, metrics, 4);
  const auto job = job_of("x");
  engine.submit("a", job);
  const ReplyJob::News all = all_of(*job);
  std::string text;
  for (const ReplyPart& part : all.parts) text += part.text;
  CHECK(text == "a\xF0\x9F\x98\x80\uFFFDb\uFFFD");
  REQUIRE(all.parts.back().figures);
  CHECK(all.parts.back().figures->generated.generated_tokens == 1);
}

TEST_CASE("server engine: no two calls of a reply have one id, whatever the model gave them") {
  WordModel model;
  model.style = find_reply_format("<|tool_calls_section_begin|>");
  const std::string call =
      "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
  model.work = [&](const CompletionRequest&, const std::atomic<bool>&,
                   const WordModel::OnText& out) {
    out("<|tool_calls_section_begin|>" + call + call + "<|tool_calls_section_end|>");
  };
  CompletionRequest request;
  request.chat = true;
  request.n = 2;
  request.conversation.tools.tools = {{.name = "f"}};
  Metrics metrics;
  EngineThread engine(model, metrics, 4);
  const auto job = std::make_shared<ReplyJob>(std::move(request), Prompt{{1}, nullptr});
  engine.submit("a", job);
  std::vector<std::string> ids;
  for (const ReplyPart& part : all_of(*job).parts) {
    for (const auto& each : part.calls) ids.push_back(each.id);
  }
  REQUIRE(ids.size() == 4);
  for (const size_t first : {0, 2}) {
    CHECK(ids[first] == "functions.f:0");
    CHECK(ids[first + 1].size() == 9);
  }
}

TEST_CASE("server engine: several replies of a request, one after the other") {
  WordModel model;
  std::atomic<int> made{0};
  model.work = [&](const CompletionRequest& request, const std::atomic<bool>& abort,
                   const WordModel::OnText& out) {
    out(request.text);
    if (++made == 2 && request.text == "fails") throw std::runtime_error("broken");
    if (made == 2 && request.text == "endless") until(abort);
  };
  Metrics metrics;
  EngineThread engine(model, metrics, 8);
  const auto ask = [&](const char* text) {
    made = 0;
    CompletionRequest request;
    request.text = text;
    request.n = 3;
    const auto job = std::make_shared<ReplyJob>(std::move(request), Prompt{{1}, nullptr});
    engine.submit("a", job);
    return job;
  };
  std::vector<std::string> texts(3);
  int over = 0;
  const auto fine = ask("x");
  for (const ReplyPart& part : all_of(*fine).parts) {
    CHECK(part.index == over);
    texts[part.index] += part.text;
    over += part.figures.has_value();
  }
  CHECK(texts == std::vector<std::string>{"0:x", "1:x", "2:x"});
  CHECK(over == 3);
  CHECK(status_of(*ask("fails")) == 500);
  CHECK(made == 2);
  const auto endless = ask("endless");
  while (made < 2) std::this_thread::yield();
  engine.cancel(endless);
  CHECK_FALSE(all_of(*endless).error);
  CHECK(made == 2);  // and no third
  CHECK(status_of(*ask("x")) == 200);
  const auto stopped = ask("endless");
  while (made < 2) std::this_thread::yield();
  engine.stop();
  CHECK(status_of(*stopped) == 503);
}

TEST_CASE("server engine: what fails is one answer, and the next is served") {
  WordModel model;
  model.work = [](const CompletionRequest& request, const std::atomic<bool>&,
                  const WordModel::OnText& out) {
    if (request.text == "memory") throw std::bad_alloc();
    if (request.text == "error") throw std::runtime_error("broken");
    if (request.text == "number") throw 7;
    if (request.text == "refused") throw ApiError(400, "no");
    out("fine");
  };
  Metrics metrics;
  EngineThread engine(model, metrics, 8);
  for (const auto& [text, status] :
       {std::pair("memory", 500), std::pair("error", 500), std::pair("number", 500),
        std::pair("refused", 400), std::pair("x", 200)}) {
    const auto job = job_of(text);
    engine.submit("a", job);
    CHECK(status_of(*job) == status);
  }
}

TEST_CASE("server engine: a full queue, one that leaves it, one that is ended") {
  WordModel model;
  std::atomic<bool> running{false};
  std::atomic<int> made{0};
  model.work = [&](const CompletionRequest& request, const std::atomic<bool>& abort,
                   const WordModel::OnText&) {
    ++made;
    if (request.text != "endless") return;
    running = true;
    until(abort);
  };
  Metrics metrics;
  EngineThread engine(model, metrics, 2);
  const auto endless = job_of("endless"), leaving = job_of("leaves"), last = job_of("last");
  engine.submit("a", endless);
  until(running);
  engine.submit("a", leaving);
  engine.submit("b", last);
  CHECK(engine.waiting() == 2);
  CHECK(status_of([&] { engine.submit("c", job_of("x")); }) == 429);
  engine.cancel(leaving);
  CHECK(engine.waiting() == 1);
  engine.cancel(endless);
  CHECK(status_of(*endless) == 200);
  CHECK(status_of(*last) == 200);
  CHECK(made == 2);
}

TEST_CASE("server engine: as many at once as there are places, the next when one is free") {
  WordModel model;
  model.n_places = 3;
  std::atomic<bool> go{false};
  std::atomic<int> most{0};
  Metrics metrics;
  const auto running = [&] {
    const std::string text = metrics.text(0);
    return std::atoi(text.c_str() + text.find("\nspecbound_requests_running ") + 28);
  };
  model.waits = [&](const CompletionRequest& request, const std::atomic<bool>& abort) {
    most = std::max<int>(most, running());
    return !abort && (request.text == "endless" || !go);
  };
  EngineThread engine(model, metrics, 64);
  std::vector<std::shared_ptr<ReplyJob>> jobs;
  const auto endless = job_of("endless");
  engine.submit("a", endless);
  for (int i = 0; i < 6; ++i) engine.submit("a", jobs.emplace_back(job_of("x")));
  while (running() < 3) std::this_thread::yield();
  CHECK(engine.waiting() == 4);
  go = true;
  for (const auto& job : jobs) CHECK(status_of(*job) == 200);  // beside the one that stays
  CHECK(most == 3);
  CHECK(running() == 1);
  engine.cancel(endless);
  CHECK_FALSE(all_of(*endless).error);
  CHECK(running() == 0);
}

TEST_CASE(
    "server engine: what fails beside others is one answer, a step that fails is all of them") {
  WordModel model;
  model.n_places = 3;
  std::atomic<bool> go{false}, breaks{false};
  model.waits = [&](const CompletionRequest& request, const std::atomic<bool>& abort) {
    return !abort && !go && request.text == "waits";
  };
  model.work = [](const CompletionRequest& request, const std::atomic<bool>&,
                  const WordModel::OnText&) {
    if (request.text == "error") throw std::runtime_error("broken");
  };
  model.step = [&] {
    if (breaks.exchange(false)) throw std::bad_alloc();
  };
  Metrics metrics;
  EngineThread engine(model, metrics, 64);
  const auto ask = [&](const char* text) {
    const auto job = job_of(text);
    engine.submit("a", job);
    return job;
  };
  const auto first = ask("waits"), second = ask("waits");
  CHECK(status_of(*ask("error")) == 500);
  CHECK(status_of(*ask("x")) == 200);
  breaks = true;
  CHECK(status_of(*first) == 500);
  CHECK(status_of(*second) == 500);
  CHECK(status_of(*ask("x")) == 200);
  const auto last = ask("waits"), other = ask("waits");
  engine.stop();
  CHECK(status_of(*last) == 503);
  CHECK(status_of(*other) == 503);
}

TEST_CASE("server engine: stopping ends what runs and refuses what waits") {
  WordModel model;
  std::atomic<bool> running{false};
  model.work = [&](const CompletionRequest&, const std::atomic<bool>& abort,
                   const WordModel::OnText& out) {
    out("begun");
    running = true;
    until(abort);
  };
  Metrics metrics;
  EngineThread engine(model, metrics, 4);
  const auto first = job_of("1"), second = job_of("2");
  engine.submit("a", first);
  until(running);
  engine.submit("a", second);
  engine.stop();
  CHECK(status_of(*first) == 503);
  CHECK(status_of(*second) == 503);
  CHECK(status_of([&] { engine.submit("a", job_of("3")); }) == 503);
}

TEST_CASE("server api: who may come in") {
  ApiOptions options;
  options.keys = ApiKeys({"k"});
  const Api api(options);
  const auto admit = [&](const char* method, const char* path, const char* authorization) {
    return status_of([&] { api.admit(method, path, authorization); });
  };
  CHECK(admit("GET", "/health", "") == 200);
  CHECK(admit("HEAD", "/health", "") == 200);
  CHECK(admit("POST", "/health", "") == 405);
  CHECK(admit("POST", "/v1/chat/completions", "Bearer k") == 200);
  CHECK(admit("POST", "/v1/chat/completions", "bearer k") == 200);
  CHECK(admit("POST", "/v1/chat/completions", "BEARER k") == 200);
  CHECK(admit("POST", "/v1/chat/completions", "bearer K") == 401);
  CHECK(admit("POST", "/v1/chat/completions", "bearer") == 401);
  CHECK(Api::key_of("bEARER k") == Api::key_of("Bearer k"));  // one client
  CHECK(admit("GET", "/v1/chat/completions", "Bearer k") == 405);
  CHECK(admit("HEAD", "/v1/chat/completions", "Bearer k") == 405);
  CHECK(admit("POST", "/v1/chat/completions", "") == 401);
  CHECK(admit("POST", "/v1/chat/completions", "k") == 401);
  CHECK(admit("POST", "/v1/chat/completions", "Bearer x") == 401);
  CHECK(admit("GET", "/nothing", "") == 401);
  CHECK(admit("GET", "/nothing", "Bearer k") == 404);
  CHECK(admit("GET", "/v1/models/", "Bearer k") == 404);
  CHECK(admit("GET", "/v1/models/m", "Bearer k") == 200);
  CHECK(admit("POST", "/v1/models/m", "Bearer k") == 405);
  CHECK(admit("POST", "/v1/responses", "") == 401);
  CHECK(Api::methods_of("/v1/models") == "GET, HEAD, OPTIONS");
  CHECK(Api::route_of("/v1/models/m") == "/v1/models/{model}");  // few names for metrics
  for (const char* path : {"/v1/responses", "/v1/responses/resp_1"}) {
    CHECK(admit("POST", path, "Bearer k") == 404);
    try {
      api.admit("POST", path, "Bearer k");
    } catch (const ApiError& e) {
      CHECK(std::string(e.what()).find("/v1/chat/completions") != std::string::npos);
    }
  }
  CHECK(Api::route_of("/x\n") == "other");
}

TEST_CASE("server api: before the model is there, health says so") {
  Api api({});
  CHECK(api.get("/health").status == 503);
  CHECK(json::parse(api.get("/health").body)["status"] == "loading model");
  CHECK(status_of([&] { api.get("/v1/models"); }) == 503);
  TestConnection client;
  CHECK(status_of([&] { api.post("/v1/completions", R"({"prompt": "a"})", "c", client); }) == 503);
  CHECK(api.get("/metrics").status == 200);
  WordModel model;
  api.open(model);
  CHECK(api.get("/health").status == 200);
  CHECK(status_of([&] { api.get("/v1/models/word"); }) == 404);
  const json model_of_list = json::parse(api.get("/v1/models").body)["data"][0];
  CHECK(model_of_list["id"] == "words");
  CHECK(json::parse(api.get("/v1/models/words").body) == model_of_list);
  api.stop();
  CHECK(status_of([&] { api.post("/v1/completions", R"({"prompt": "a"})", "c", client); }) == 503);
}

TEST_CASE("server api: answers, whole and streamed") {
  WordModel model;
  Api api({});
  api.open(model);
  TestConnection client;
  const Answer whole = api.post("/v1/completions", R"({"prompt": "abc"})", "c", client);
  CHECK(whole.status == 200);
  CHECK_FALSE(whole.stream);
  CHECK(*whole.tokens == 1);
  const json j = json::parse(whole.body);
  CHECK(j["choices"][0]["text"] == "abc");
  CHECK(j["model"] == "words");
  CHECK(j["id"].get<std::string>().starts_with("cmpl-"));

  const Answer streamed = api.post("/v1/completions", R"({"prompt": "abc", "model": "x",
      "stream": true, "stream_options": {"include_usage": true}})",
                                   "c", client);
  CHECK(streamed.type == "text/event-stream");
  REQUIRE(streamed.stream);
  CHECK(client.written.empty());
  CHECK(streamed.stream(client));
  CHECK(client.written.find(R"("text":"abc")") != std::string::npos);
  CHECK(client.written.find(R"("model":"x")") != std::string::npos);
  CHECK(client.written.find(R"("choices":[],"usage")") != std::string::npos);
  CHECK(client.written.ends_with("\n\ndata: [DONE]\n\n"));

  CHECK(api.post("/tokenize", R"({"content": "ab"})", "c", client).body == R"({"tokens":[97,98]})");
  CHECK(json::parse(api.post("/detokenize", R"({"tokens": [97, 98]})", "c", client).body) ==
        json{{"content", "ab"}});
  const auto tokenized = [&](size_t n) {
    const json body = {{"content", std::string(n, 'a')}};
    return status_of([&] { api.post("/tokenize", body.dump(), "c", client); });
  };
  CHECK(tokenized(1'000'000) == 200);
  CHECK(tokenized(1'000'001) == 400);
  CHECK(status_of([&] { api.post("/v1/completions", R"({"prompt": "long"})", "c", client); }) ==
        400);
}

TEST_CASE("server api: logarithms of probabilities come with text, or at the end") {
  WordModel model;
  model.logprobs = {{{"a", -0.5}, {{"a", -0.5}, {"\xC3", -1}}, 0}, {{"bc", -0.25}, {}, 1}};
  Api api({});
  api.open(model);
  TestConnection client;
  const auto body = [](const char* text, bool stream) {
    return json{{"prompt", text}, {"logprobs", 2}, {"stream", stream}}.dump();
  };
  const json expected = {{"tokens", {"a", "bc"}},
                         {"token_logprobs", {-0.5, -0.25}},
                         {"top_logprobs", {{{"a", -0.5}, {"bytes:\\xc3", -1}}, {{"bc", -0.25}}}},
                         {"text_offset", {0, 1}}};
  for (const char* text : {"abc", ""}) {  // "": all of it a stop string
    CAPTURE(text);
    const json whole =
        json::parse(api.post("/v1/completions", body(text, false), "c", client).body);
    CHECK(whole["choices"][0]["logprobs"] == expected);
    client.written.clear();
    CHECK(api.post("/v1/completions", body(text, true), "c", client).stream(client));
    const json event = json::parse(client.written.substr(6, client.written.find("\n\n") - 6));
    CHECK(event["choices"][0]["text"] == text);
    CHECK(event["choices"][0]["logprobs"] == expected);
  }
}

TEST_CASE("server api: replies of one request have their index, and one usage") {
  WordModel model;
  Api api({});
  api.open(model);
  TestConnection client;
  const Answer whole = api.post("/v1/completions", R"({"prompt": "abc", "n": 3})", "c", client);
  const json j = json::parse(whole.body);
  REQUIRE(j["choices"].size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(j["choices"][i]["index"] == i);
    CHECK(j["choices"][i]["text"] == format("%d:abc", i));
    CHECK(j["choices"][i]["timings"]["predicted_n"] == 1);
  }
  CHECK(j["usage"]["prompt_tokens"] == 3);
  CHECK(j["usage"]["completion_tokens"] == 3);
  CHECK_FALSE(j.contains("timings"));
  CHECK(*whole.tokens == 3);

  const Answer stream = api.post("/v1/chat/completions", R"({"n": 2, "stream": true,
      "messages": [{"role": "user", "content": "a"}], "stream_options": {"include_usage": true}})",
                                 "c", client);
  CHECK(stream.stream(client));
  std::string seen;  // what each event is of: a role, some text, an end
  for (size_t at = 0, end; (end = client.written.find("\n\n", at)) != std::string::npos;
       at = end + 2) {
    const std::string text = client.written.substr(at + 6, end - at - 6);
    if (text == "[DONE]") break;
    const json event = json::parse(text);
    if (event["choices"].empty()) {
      CHECK(event["usage"]["total_tokens"] == 3 + 2);
      continue;
    }
    const json& choice = event["choices"][0];
    seen += format("%d", choice["index"].get<int>());
    seen += choice["delta"].contains("role") ? 'r' : choice["delta"].empty() ? 'e' : 't';
  }
  CHECK(seen == "0r0t0e1r1t1e");
  CHECK(*stream.tokens == 2);
}

TEST_CASE("server api: embeddings, in their order") {
  WordModel model;
  Api api({});
  api.open(model);
  TestConnection client;
  const auto post = [&](const json& body) {
    return api.post("/v1/embeddings", body.dump(), "c", client);
  };
  const json answer = json::parse(post({{"input", {"ab", "c"}}}).body);
  CHECK(answer["model"] == "words");
  CHECK(answer["data"][0]["embedding"] == json{3, 0.5});  // with a token in front
  CHECK(answer["data"][1]["embedding"] == json{2, 0.5});
  CHECK(answer["usage"]["total_tokens"] == 5);
  CHECK(status_of([&] { post({{"input", std::string(128, 'a')}}); }) == 400);
  CHECK(status_of([&] { post({{"input", std::string(127, 'a')}}); }) == 200);
  client.here = false;
  CHECK(post({{"input", "a"}}).status == kClientGone);
  api.stop();
  client.here = true;
  CHECK(status_of([&] { post({{"input", "a"}}); }) == 503);
}

TEST_CASE("server engine: an embedding that is cancelled between two chunks leaves the model") {
  WordModel model;
  Metrics metrics;
  EmbeddingJob job({{1, 2}, {3}});
  CHECK(job.go_on(model, metrics) == Job::Progress::kGoesOn);
  CHECK(model.embeddings == 1);
  CHECK(job.go_on(model, metrics) == Job::Progress::kGoesOn);  // the first is there
  CHECK(model.embeddings == 0);
  CHECK(job.go_on(model, metrics) == Job::Progress::kGoesOn);
  CHECK(model.embeddings == 1);
  job.cancel();
  CHECK(job.go_on(model, metrics) == Job::Progress::kCancelled);
  job.leave();
  CHECK(model.embeddings == 0);
}

TEST_CASE("server api: a client that goes away ends its reply") {
  WordModel model;
  std::atomic<int> aborted{0};
  model.work = [&](const CompletionRequest& request, const std::atomic<bool>& abort,
                   const WordModel::OnText& out) {
    if (request.text != "endless") return;
    out("x");
    until(abort);
    ++aborted;
  };
  Api api({});
  api.open(model);
  TestConnection gone;
  gone.here = false;
  CHECK(api.post("/v1/completions", R"({"prompt": "endless"})", "c", gone).status == kClientGone);
  TestConnection leaves;
  leaves.writes_left = 0;
  {
    const Answer answer =
        api.post("/v1/completions", R"({"prompt": "endless", "stream": true})", "c", leaves);
    REQUIRE(answer.stream);
    CHECK_FALSE(answer.stream(leaves));
  }
  {  // its stream is never asked for
    const Answer answer =
        api.post("/v1/completions", R"({"prompt": "endless", "stream": true})", "c", leaves);
    CHECK(answer.stream);
  }
  TestConnection stays;
  CHECK(api.post("/v1/completions", R"({"prompt": "a"})", "c", stays).status == 200);
  CHECK(aborted >= 2);  // the first may have gone before its turn
  CHECK(api.get("/metrics").body.find("specbound_disconnects_total 2") != std::string::npos);
}

TEST_CASE("server api: an error behind the first text is an event, before it a status") {
  WordModel model;
  model.work = [](const CompletionRequest& request, const std::atomic<bool>&,
                  const WordModel::OnText& out) {
    if (request.text == "late") out("x");
    throw std::runtime_error("broken");
  };
  Api api({});
  api.open(model);
  TestConnection client;
  CHECK(status_of([&] {
          api.post("/v1/completions", R"({"prompt": "early", "stream": true})", "c", client);
        }) == 500);
  // Whether the text has come before the error is a race that the connection may lose; then both
  // come at once, and the text is kept.
  const Answer answer =
      api.post("/v1/completions", R"({"prompt": "late", "stream": true})", "c", client);
  CHECK(answer.stream(client));
  CHECK(client.written.find(R"("text":"x")") != std::string::npos);
  CHECK(client.written.find(R"("server_error")") != std::string::npos);
  CHECK(client.written.find("[DONE]") == std::string::npos);
}

}  // namespace server_engine_test
