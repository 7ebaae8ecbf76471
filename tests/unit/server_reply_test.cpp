// Answers: the form that OpenAI's clients and llama.cpp's expect, whatever bytes and figures go in.
#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "expect_error.h"
#include "server/api_keys.h"
#include "server/metrics.h"
#include "server/reply_json.h"

namespace server_reply_test {

using namespace specbound;
using namespace specbound::server;
using nlohmann::json;

namespace {

ReplyHead chat_head() {
  return {true, "chatcmpl-1", 1700000000, "m"};
}

ReplyHead completion_head() {
  return {false, "cmpl-1", 1700000000, "m"};
}

// 10 tokens of prompt, of which 4 were there; 20 generated in 8 rounds.
ReplyStats figures() {
  ReplyStats f;
  GenerateStats& g = f.generated;
  g.prompt_tokens = 10;
  g.prefilled_tokens = 5;
  g.side_by_side = 3;
  g.generated_tokens = 20;
  g.prefill_seconds = 0.5;
  g.decode_seconds = 2;
  g.stop = StopReason::kLength;
  g.speculated = true;
  g.counters.rounds = 8;
  g.counters.drafted_tokens = 15;
  g.counters.accepted_tokens = 12;
  g.counters.accepted_at = {0, 0, 5, 0, 7};
  g.counters.decoded_tokens = 20;
  return f;
}

std::string one_reply(const ReplyHead& head, std::string text,
                      const std::vector<TokenLogprobs>& logprobs, const ReplyStats& figures) {
  const ReplyPart reply{0, std::move(text), logprobs, figures};
  return reply_json(head, {&reply, 1});
}

// The JSON of "data: {...}\n\n".
json event(const std::string& text) {
  REQUIRE(text.starts_with("data: "));
  REQUIRE(text.ends_with("\n\n"));
  CHECK(text.find('\n') == text.size() - 2);
  return json::parse(text.substr(6));
}

}  // namespace

TEST_CASE("server reply: a chat's answer") {
  const json j = json::parse(one_reply(chat_head(), "hi", {}, figures()));
  CHECK(j["id"] == "chatcmpl-1");
  CHECK(j["object"] == "chat.completion");
  CHECK(j["created"] == 1700000000);
  CHECK(j["model"] == "m");
  REQUIRE(j["choices"].size() == 1);
  const json& choice = j["choices"][0];
  CHECK(choice["index"] == 0);
  CHECK(choice["message"] == json{{"role", "assistant"}, {"content", "hi"}});
  CHECK(choice["finish_reason"] == "length");
  CHECK(j["usage"] == json{{"prompt_tokens", 10},
                           {"completion_tokens", 20},
                           {"total_tokens", 30},
                           {"prompt_tokens_details", {{"cached_tokens", 4}}}});
  CHECK(j["timings"] == json{{"cache_n", 4},
                             {"prompt_n", 6},
                             {"prompt_ms", 500.0},
                             {"prompt_per_token_ms", 500.0 / 6},
                             {"prompt_per_second", 12.0},
                             {"predicted_n", 20},
                             {"predicted_ms", 2000.0},
                             {"predicted_per_token_ms", 100.0},
                             {"predicted_per_second", 10.0},
                             {"draft_n", 15},
                             {"draft_n_accepted", 12},
                             {"speculation",
                              {{"active", true},
                               {"rounds", 8},
                               {"rounds_side_by_side", 3},
                               {"compression_rate", 2.5},
                               {"mean_exit_layer", 38.0 / 12},
                               {"plain_tokens_per_second", nullptr},
                               {"speedup", nullptr},
                               {"accepted_by_exit_layer", {{"2", 5}, {"4", 7}}}}}});
}

TEST_CASE("server reply: a completion's answer, and why it ended") {
  for (const auto& [stop, reason] :
       {std::pair(StopReason::kEnd, "stop"), std::pair(StopReason::kStopString, "stop"),
        std::pair(StopReason::kLength, "length"), std::pair(StopReason::kContext, "length")}) {
    ReplyStats f = figures();
    f.generated.stop = stop;
    const json j = json::parse(one_reply(completion_head(), "hi", {}, f));
    CHECK(j["object"] == "text_completion");
    CHECK(j["choices"][0]["text"] == "hi");
    CHECK_FALSE(j["choices"][0].contains("message"));
    CHECK(j["choices"][0]["finish_reason"] == reason);
  }
}

TEST_CASE("server reply: of several replies the prompt counts once, and each has its timings") {
  ReplyPart first{0, "a", {}, figures()}, second{1, "b", {}, figures()};
  second.figures->generated.generated_tokens = 7;
  second.figures->generated.prefilled_tokens = 0;
  second.figures->generated.stop = StopReason::kEnd;
  const json j = json::parse(reply_json(chat_head(), std::vector<ReplyPart>{first, second}));
  REQUIRE(j["choices"].size() == 2);
  CHECK(j["choices"][1]["index"] == 1);
  CHECK(j["choices"][1]["message"]["content"] == "b");
  CHECK(j["choices"][0]["finish_reason"] == "length");
  CHECK(j["choices"][1]["finish_reason"] == "stop");
  CHECK(j["choices"][0]["timings"]["predicted_n"] == 20);
  CHECK(j["choices"][1]["timings"]["predicted_n"] == 7);
  CHECK_FALSE(j.contains("timings"));
  CHECK(j["usage"] == json{{"prompt_tokens", 10},
                           {"completion_tokens", 27},
                           {"total_tokens", 37},
                           {"prompt_tokens_details", {{"cached_tokens", 4}}}});
  CHECK(event(text_event(chat_head(), second))["choices"][0]["index"] == 1);
  CHECK(event(first_event(chat_head(), 1))["choices"][0]["index"] == 1);
  CHECK(event(last_event(chat_head(), second))["choices"][0]["index"] == 1);
}

TEST_CASE("server reply: the events of a chat's stream") {
  const json first = event(first_event(chat_head(), 0));
  CHECK(first["object"] == "chat.completion.chunk");
  CHECK(first["choices"][0]["delta"] == json{{"role", "assistant"}, {"content", ""}});
  CHECK(first["choices"][0]["finish_reason"].is_null());
  const json text = event(text_event(chat_head(), {.text = "a\nb"}));
  CHECK(text["choices"][0]["delta"] == json{{"content", "a\nb"}});
  CHECK(text["choices"][0]["finish_reason"].is_null());
  const json last = event(last_event(chat_head(), {.figures = figures()}));
  CHECK(last["choices"][0]["delta"] == json::object());
  CHECK(last["choices"][0]["finish_reason"] == "length");
  CHECK(last["timings"]["predicted_n"] == 20);
  Usage sum;
  sum.add(figures().generated);
  const json usage = event(usage_event(chat_head(), sum));
  CHECK(usage["choices"] == json::array());
  CHECK(usage["usage"]["total_tokens"] == 30);
  CHECK(event(error_event(ApiError(503, "gone")))["error"]["type"] == "unavailable_error");
}

TEST_CASE("server reply: the events of a completion's stream") {
  CHECK(first_event(completion_head(), 0).empty());
  const json text = event(text_event(completion_head(), {.text = "ab"}));
  CHECK(text["object"] == "text_completion");
  CHECK(text["choices"][0]["text"] == "ab");
  CHECK(event(last_event(completion_head(), {.figures = figures()}))["choices"][0]["text"] == "");
}

TEST_CASE("server reply: logarithms of probabilities, in the form of chats and of completions") {
  const std::vector<TokenLogprobs> tokens = {{{"hi", -0.5}, {{"hi", -0.5}, {"\xE2\x82", -1.25}}, 0},
                                             {{"\xC3", -2}, {}, 2}};
  ReplyHead head = chat_head();
  CHECK(json::parse(one_reply(head, "hi", tokens, figures()))["choices"][0]["logprobs"].is_null());
  head.logprobs = true;
  const json chat = {{"content",
                      {{{"token", "hi"},
                        {"logprob", -0.5},
                        {"bytes", {104, 105}},
                        {"top_logprobs",
                         {{{"token", "hi"}, {"logprob", -0.5}, {"bytes", {104, 105}}},
                          {{"token", "\uFFFD"}, {"logprob", -1.25}, {"bytes", {226, 130}}}}}},
                       {{"token", "\uFFFD"},
                        {"logprob", -2.0},
                        {"bytes", {195}},
                        {"top_logprobs", json::array()}}}},
                     {"refusal", nullptr}};
  CHECK(json::parse(one_reply(head, "hi", tokens, figures()))["choices"][0]["logprobs"] == chat);
  CHECK(event(text_event(head, {.text = "hi", .logprobs = tokens}))["choices"][0]["logprobs"] ==
        chat);
  CHECK(event(first_event(head, 0))["choices"][0]["logprobs"].is_null());
  CHECK(event(last_event(head, {.figures = figures()}))["choices"][0]["logprobs"].is_null());
  head.chat = false;
  const json completion = json::parse(
      R"({"tokens": ["hi", "bytes:\\xc3"], "token_logprobs": [-0.5, -2.0],
          "top_logprobs": [{"hi": -0.5, "bytes:\\xe2\\x82": -1.25}, {"bytes:\\xc3": -2.0}],
          "text_offset": [0, 2]})");
  CHECK(event(text_event(head, {.text = "hi", .logprobs = tokens}))["choices"][0]["logprobs"] ==
        completion);
}

TEST_CASE("server reply: no figure is NaN, no byte is no UTF-8") {
  ReplyStats f;
  f.generated.prefill_seconds = std::numeric_limits<double>::quiet_NaN();
  f.generated.generated_tokens = 3;  // in no time
  f.generated.counters.rounds = 3;   // that gave nothing
  ReplyHead head = chat_head();
  head.model = "a\xff";
  const json j = json::parse(one_reply(head, "b\xC3", {}, f));
  CHECK(j["timings"]["prompt_ms"].is_null());
  CHECK(j["timings"]["predicted_per_second"].is_null());
  CHECK(j["timings"]["speculation"]["compression_rate"].is_null());
  CHECK(j["model"] == "a\uFFFD");
  CHECK(j["choices"][0]["message"]["content"] == "b\uFFFD");
  CHECK(json::parse(content_json("a\xE2\x82z"))["content"] == "a\uFFFDz");
}

TEST_CASE("server reply: errors, models and tokens") {
  const json error = json::parse(error_json(ApiError(400, "no", "top_k", "")))["error"];
  CHECK(error == json{{"message", "no"},
                      {"type", "invalid_request_error"},
                      {"param", "top_k"},
                      {"code", nullptr}});
  CHECK(json::parse(error_json(ApiError(429, "")))["error"]["type"] == "rate_limit_error");
  CHECK(json::parse(error_json(ApiError(401, "")))["error"]["type"] == "authentication_error");
  CHECK(json::parse(error_json(ApiError(500, "")))["error"]["type"] == "server_error");

  const json models = json::parse(models_json({"m.gguf", 5, "llama", 128, 512, 4}));
  CHECK(models["object"] == "list");
  REQUIRE(models["data"].size() == 1);
  CHECK(models["data"][0]["id"] == "m.gguf");
  CHECK(models["data"][0]["meta"] ==
        json{{"n_ctx", 128}, {"n_vocab", 512}, {"n_layers", 4}, {"architecture", "llama"}});

  const std::vector<int32_t> ids = {1, 2};
  CHECK(tokens_json(ids, {}) == R"({"tokens":[1,2]})");
  const auto piece = [](int32_t id) { return std::string(id == 1 ? " a" : "\xC3"); };
  CHECK(tokens_json(ids, piece) == R"({"tokens":[{"id":1,"piece":" a"},{"id":2,"piece":[195]}]})");
  CHECK(tokens_json({}, {}) == R"({"tokens":[]})");
}

TEST_CASE("server metrics: counters as Prometheus reads them") {
  Metrics metrics;
  metrics.count_request("/health", 200);
  metrics.count_request("/health", 200);
  metrics.count_request("other", 404);
  metrics.count_disconnect();
  metrics.count_reply(figures().generated);
  metrics.count_reply(figures().generated);
  GenerateStats left;  // while the prompt was read
  left.stop = StopReason::kAborted;
  left.prompt_tokens = 100;
  left.prefilled_tokens = 30;
  metrics.count_reply(left);
  metrics.set_running(1);
  metrics.set_kept(2, uint64_t{5} << 32);
  const std::string text = metrics.text(3);
  for (const char* line : {
           "# TYPE specbound_requests_total counter",
           "specbound_requests_total{route=\"/health\",status=\"200\"} 2",
           "specbound_requests_total{route=\"other\",status=\"404\"} 1",
           "specbound_disconnects_total 1",
           "# TYPE specbound_queue_depth gauge",
           "specbound_queue_depth 3",
           "specbound_requests_running 1",
           "# TYPE specbound_kept_kv_bytes gauge",
           "specbound_kept_conversations 2",
           "specbound_kept_kv_bytes 21474836480",
           "specbound_replies_total 3",
           "specbound_prompt_tokens_total 50",
           "specbound_cached_tokens_total 8",
           "specbound_generated_tokens_total 40",
           "specbound_prefill_seconds_total 1.000000",
           "specbound_decode_seconds_total 4.000000",
           "specbound_rounds_total 16",
           "specbound_rounds_side_by_side_total 6",
           "specbound_drafted_tokens_total 30",
           "specbound_accepted_tokens_total 24",
           "specbound_accepted_by_exit_layer_total{layer=\"2\"} 10",
           "specbound_accepted_by_exit_layer_total{layer=\"4\"} 14",
       }) {
    CAPTURE(line);
    CHECK(("\n" + text).find("\n" + std::string(line) + "\n") != std::string::npos);
  }
}

TEST_CASE("server keys: one of them and nothing like it") {
  CHECK(ApiKeys().accept(""));
  CHECK(ApiKeys().accept("anything"));
  const ApiKeys keys({"secret", "other"});
  CHECK(keys.accept("secret"));
  CHECK(keys.accept("other"));
  for (const char* wrong : {"", "s", "secre", "secrets", "Secret", "secretsecret", "otherother"}) {
    CAPTURE(wrong);
    CHECK_FALSE(keys.accept(wrong));
  }
  CHECK_FALSE(keys.accept(std::string("secret\0", 7)));
}

TEST_CASE("server keys: a file of them") {
  CHECK(parse_key_file("# mine\n a \r\n\n\tb\n", "f") == std::vector<std::string>{"a", "b"});
  CHECK(parse_key_file("a", "f") == std::vector<std::string>{"a"});
  const auto refused = [](const auto& action) {
    return test::expect_error(ErrorCode::kUsage, action);
  };
  test::check_mentions(refused([] { parse_key_file("# none\n", "f"); }), {"f", "one key a line"});
  test::check_mentions(refused([] { parse_key_file("a b\n", "f"); }), {"f", "visible ASCII"});
  test::check_mentions(refused([] { check_key("", "--api-key"); }), {"--api-key"});
  test::check_mentions(refused([] { check_key("\xC3\xA4", "--api-key"); }), {"--api-key"});
}

}  // namespace server_reply_test
