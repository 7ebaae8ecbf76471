// What clients ask, read from JSON: everything that OpenAI's clients send, and everything that
// nobody should.
#include "server/completion_request.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "error.h"
#include "server/api_error.h"
#include "server/json_body.h"
#include "server/loopback.h"
#include "test_connection.h"

namespace server_request_test {

using namespace specbound;
using namespace specbound::server;
using test::error_of;
using Role = ChatMessage::Role;

namespace {

constexpr int kVocab = 512;

// A chat of one message with more fields: R"("top_k": 3)".
std::string chat_with(const std::string& fields) {
  const std::string message = R"({"messages": [{"role": "user", "content": "hi"}])";
  return message + (fields.empty() ? "" : ", ") + fields + "}";
}

CompletionRequest chat(const std::string& fields) {
  return parse_chat(chat_with(fields), {}, kVocab);
}

ApiError chat_error(const std::string& fields) {
  CAPTURE(fields);
  return error_of([&] { compiled(chat(fields).format); });
}

ApiError body_error(const std::string& body) {
  return error_of([&] { parse_chat(body, {}, kVocab); });
}

ApiError prompt_error(const std::string& prompt) {
  CAPTURE(prompt);
  return error_of([&] { parse_completion(R"({"prompt": )" + prompt + "}", {}, kVocab); });
}

bool mentions(const ApiError& e, const std::string& part) {
  return std::string(e.what()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("server request: a chat with nothing but a message takes the defaults") {
  ReplySettings defaults;
  defaults.sampling.temperature = 0.25f;
  defaults.seed = 7;
  defaults.max_tokens = 11;
  const CompletionRequest request = parse_chat(chat_with(""), defaults, kVocab);
  CHECK(request.chat);
  REQUIRE(request.conversation.messages.size() == 1);
  CHECK(request.conversation.messages[0].role == Role::kUser);
  CHECK(request.conversation.messages[0].content == "hi");
  CHECK(request.settings.sampling.temperature == 0.25f);
  CHECK(request.settings.seed == 7);
  CHECK(request.settings.max_tokens == 11);
  CHECK_FALSE(request.stream);
  CHECK_FALSE(request.settings.speculation.has_value());
  CHECK(request.model.empty());
}

TEST_CASE("server request: every field arrives") {
  const CompletionRequest r = chat(
      R"("model": "m", "stream": true, "stream_options": {"include_usage": true},
         "max_completion_tokens": 5, "temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1,
         "repeat_penalty": 1.5, "repeat_last_n": -1, "seed": 18446744073709551615,
         "stop": ["a", "b"], "speculation": false, "ignore_eos": true,
         "n": 8, "user": "u", "store": true, "metadata": {"a": "b"}, "tools": [], "logprobs": false,
         "response_format": {"type": "text"}, "frequency_penalty": 0.5, "presence_penalty": -2,
         "logit_bias": {"0": -100, "511": 0.5, "7": 0}, "tool_choice": "none", "stream_extra": 1)");
  CHECK(r.model == "m");
  CHECK(r.stream);
  CHECK(r.n == 8);
  CHECK(r.include_usage);
  CHECK(r.settings.max_tokens == 5);
  CHECK(r.settings.sampling.temperature == 0);
  CHECK(r.settings.sampling.top_p == 0.5f);
  CHECK(r.settings.sampling.top_k == 3);
  CHECK(r.settings.sampling.min_p == 0.1f);
  CHECK(r.settings.sampling.repeat_penalty == 1.5f);
  CHECK(r.settings.sampling.repeat_last_n == -1);
  CHECK(r.settings.sampling.frequency_penalty == 0.5f);
  CHECK(r.settings.sampling.presence_penalty == -2);
  const std::vector<LogitBias>& bias = r.settings.sampling.logit_bias;
  REQUIRE(bias.size() == 2);  // 0 is none
  CHECK(bias[0].id == 0);
  CHECK(bias[0].bias == -100);
  CHECK(bias[1].id == 511);
  CHECK(bias[1].bias == 0.5f);
  CHECK(r.settings.seed == 18446744073709551615u);
  CHECK(r.settings.stop.strings() == std::vector<std::string>{"a", "b"});
  CHECK(r.settings.speculation == false);
  CHECK(r.settings.ignore_eos);
}

TEST_CASE("server request: null is nothing, and a seed of -1 is none") {
  ReplySettings defaults;
  defaults.seed = 7;
  const CompletionRequest r = parse_chat(
      chat_with(R"("max_tokens": null, "stop": null, "tools": null, "seed": -1, "audio": null)"),
      defaults, kVocab);
  CHECK(r.settings.max_tokens == -1);
  CHECK(r.settings.stop.empty());
  CHECK_FALSE(r.settings.seed.has_value());
}

TEST_CASE("server request: roles, parts of text, NUL and any UTF-8") {
  const CompletionRequest r = parse_chat(
      R"({"messages": [{"role": "developer", "content": "a\u0000b"},
                       {"role": "assistant", "content": "\ud83d\ude00"},
                       {"role": "user", "name": "n", "content":
                         [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}]})",
      {}, kVocab);
  REQUIRE(r.conversation.messages.size() == 3);
  CHECK(r.conversation.messages[0].role == Role::kDeveloper);
  CHECK(r.conversation.messages[0].content == std::string("a\0b", 3));
  CHECK(r.conversation.messages[1].role == Role::kAssistant);
  CHECK(r.conversation.messages[1].content == "\xF0\x9F\x98\x80");
  CHECK(r.conversation.messages[2].content == "x\ny");
}

TEST_CASE("server request: numbers out of range name the field and the range") {
  struct Case {
    const char *field, *value, *range;
  };
  for (const auto& [field, value, range] : {
           Case{"temperature", "-0.1", "from 0 to 100"},
           Case{"temperature", "1e300", "from 0 to 100"},
           Case{"temperature", "\"1\"", "found \"1\""},
           Case{"top_p", "1.01", "from 0 to 1"},
           Case{"min_p", "-1", "from 0 to 1"},
           Case{"repeat_penalty", "0", "from 0.01 to 100"},
           Case{"top_k", "-1", "from 0 to 2147483647"},
           Case{"top_k", "1.5", "found 1.5"},
           Case{"top_k", "99999999999999999999", "from 0 to 2147483647"},
           Case{"repeat_last_n", "-2", "from -1"},
           Case{"frequency_penalty", "2.1", "from -2 to 2"},
           Case{"frequency_penalty", "true", "found true"},
           Case{"presence_penalty", "-3", "from -2 to 2"},
           Case{"n", "0", "from 1 to 8"},
           Case{"n", "9", "from 1 to 8"},
           Case{"n", "\"1\"", "found \"1\""},
           Case{"max_tokens", "-2", "from -1"},
           Case{"max_completion_tokens", "4294967297", "from -1"},
           Case{"seed", "0.5", "of 64 bits"},
           Case{"seed", "18446744073709551616", "of 64 bits"},
           Case{"stream", "1", "true or false"},
           Case{"speculation", "\"on\"", "true or false"},
           Case{"model", "1", "a string"},
           Case{"stop", "1", "an array of strings"},
           Case{"stop", "[1]", "an array of strings"},
           Case{"stop", "\"\"", "1 to 256 bytes"},
           Case{"stop", R"(["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
                "at most 16"},
       }) {
    const ApiError e = chat_error('"' + std::string(field) + "\": " + value);
    CAPTURE(e.what());
    CHECK(e.param() == field);
    CHECK(mentions(e, range));
  }
  CHECK(chat(R"("top_k": 3.0)").settings.sampling.top_k == 3);
  CHECK(chat(R"("seed": 7.0)").settings.seed == 7);
  CHECK(chat(R"("seed": -7)").settings.seed == static_cast<uint64_t>(-7));
  CHECK(chat(R"("repeat_penalty": 0.01)").settings.sampling.repeat_penalty == 0.01f);
  CHECK(chat_error(R"("max_tokens": 3, "max_completion_tokens": 4)").param() ==
        "max_completion_tokens");
  CHECK(chat(R"("max_tokens": 3, "max_completion_tokens": 3)").settings.max_tokens == 3);
  CHECK(chat_error("\"model\": \"" + std::string(4097, 'm') + '"').param() == "model");
}

TEST_CASE("server request: what cannot be had is refused by name") {
  for (const char* field :
       {R"("functions": [{}])", R"("function_call": {"name": "f"})",
        R"("response_format": {"type": "json_object", "schema": {"not": {}}})",
        R"("json_schema": {"not": {}})", R"("audio": {})", R"("modalities": ["text", "audio"])",
        R"("echo": true)", R"("suffix": "s")", R"("best_of": 2)", R"("n_predict": 3)"}) {
    const ApiError e = chat_error(field);
    const std::string name = std::string(field).substr(1);
    CHECK(e.param() == name.substr(0, name.find('"')));
    CHECK(e.code() == "unsupported_value");
  }
  for (const auto& [name, value, instead] : std::vector<std::array<std::string, 3>>{
           {"repetition_penalty", "1.1", "repeat_penalty"},
           {"enable_thinking", "false", "chat_template_kwargs"},
           {"reasoning_effort", R"("low")", "chat_template_kwargs"},
           {"reasoning_format", R"("none")", "--reasoning-format"},
           {"options", R"({"temperature": 1})", "in the request itself"},
           {"continue_final_message", "true", "add_generation_prompt"},
           {"guided_json", R"({"type": "object"})", "response_format"},
           {"guided_regex", R"("a+")", "grammar"},
           {"guided_grammar", R"("root ::= x")", "grammar"},
           {"guided_choice", R"(["a", "b"])", "grammar"},
           {"structured_outputs", R"({"choice": ["a"]})", "response_format"},
           {"format", R"("json")", "response_format"},
           {"stop_token_ids", "[2]", "stop "},
           {"bad_words", R"(["x"])", "logit_bias"},
           {"allowed_token_ids", "[2]", "grammar"},
           {"min_tokens", "5", "ignore_eos"},
           {"samplers", R"(["top_k"])", "top_k"},
           {"typ_p", "0.9", "top_p"},
           {"typical_p", "0.9", "top_p"},
           {"top_n_sigma", "1.5", "top_p"},
           {"use_beam_search", "true", "beams"},
           {"lora", R"([{"id": 0, "scale": 1}])", "adapter"},
           {"max_new_tokens", "5", "max_tokens"},
           {"num_predict", "5", "max_tokens"},
           {"web_search_options", "{}", "searched"},
       }) {
    const ApiError e = chat_error('"' + name + "\": " + value);
    CHECK(e.param() == name);
    CHECK(e.code() == "unsupported_value");
    CHECK(mentions(e, name + ": "));
    CHECK(mentions(e, instead));
  }
  // Values that ask for nothing are sent by clients that say all that they have.
  CHECK_NOTHROW(
      chat(R"("repetition_penalty": 1.0, "guided_json": null, "guided_regex": "", "guided_choice":
             [], "structured_outputs": {}, "format": "", "stop_token_ids": [], "bad_words": [],
             "min_tokens": 0, "samplers": [], "typ_p": 1, "typical_p": 1.0, "top_n_sigma": -1.0,
             "use_beam_search": false, "lora": [], "max_new_tokens": null, "num_predict": null,
             "web_search_options": null, "allowed_token_ids": null)"));
  CHECK(chat_error(R"("stream_options": {})").param() == "stream_options");
  CHECK(chat_error(R"("stream": true, "stream_options": {"include_usage": 1})").param() ==
        "stream_options.include_usage");
}

TEST_CASE("server request: what replies must be, as a schema or a grammar") {
  const auto grammar = [](const std::string& fields) { return compiled(chat(fields).format); };
  for (const char* fields : {"", R"("response_format": null)", R"("grammar": "")",
                             R"("response_format": {"type": "text"})"}) {
    CHECK(grammar(fields) == nullptr);
  }
  const std::string schema = R"({"properties": {"b": {}, "a": {}}})";
  const Grammar::Shared named = grammar(
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": )" +
      schema + R"(, "strict": true}})");
  REQUIRE(named);
  CHECK(named->source() == Grammar::from_json_schema(schema)->source());  // keys in their order
  CHECK(grammar(R"("json_schema": )" + schema)->source() == named->source());
  const std::string marked = "\xEF\xBB\xBF" + chat_with(R"("json_schema": )" + schema);
  CHECK(compiled(parse_chat(marked, {}, kVocab).format)->source() == named->source());
  CHECK(grammar(R"("response_format": {"type": "json_object"})")->source() ==
        Grammar::any_json_object()->source());
  CHECK(grammar(R"("json_schema": {})")->source() == Grammar::from_json_schema("{}")->source());
  CHECK(chat_error(R"("grammar": {})").param() == "grammar");
  CHECK(mentions(chat_error(R"("response_format": {})"), "response_format.type"));
  CHECK(grammar(R"("grammar": "root ::= \"a\"")") != nullptr);
  CHECK(mentions(chat_error(R"("grammar": "root ::= x")"), "line 1"));
  CHECK(chat_error(R"("grammar": "root ::= x")").param() == "grammar");
  CHECK_NOTHROW(chat(R"("grammar": "root ::= x")"));  // reading it does not compile it
  CHECK(mentions(chat_error(R"("grammar": "root ::= \"a\"", "json_schema": {"type": "null"})"),
                 "give one of them"));
  CHECK(chat_error(R"("json_schema": {"type": "null"}, "ignore_eos": true)").param() ==
        "ignore_eos");
  CHECK(
      parse_completion(R"({"prompt": "a", "grammar": "root ::= \"a\""})", {}, kVocab).format.gbnf);
}

TEST_CASE("server request: logprobs, yes or no of chats and how many of completions") {
  const auto completion = [](const std::string& fields) {
    return parse_completion(R"({"prompt": "a", )" + fields + "}", {}, kVocab).logprobs;
  };
  const auto completion_error = [&](const std::string& fields) {
    return error_of([&] { completion(fields); });
  };
  CHECK_FALSE(chat("").logprobs.has_value());
  CHECK_FALSE(chat(R"("logprobs": false, "top_logprobs": 0)").logprobs.has_value());
  CHECK_FALSE(chat(R"("logprobs": null, "top_logprobs": null)").logprobs.has_value());
  CHECK(chat(R"("logprobs": true)").logprobs == 0);
  CHECK(chat(R"("logprobs": true, "top_logprobs": 20)").logprobs == 20);
  CHECK(chat_error(R"("logprobs": 2)").param() == "logprobs");
  CHECK(chat_error(R"("top_logprobs": 1)").param() == "top_logprobs");
  CHECK(mentions(chat_error(R"("logprobs": true, "top_logprobs": 21)"), "from 0 to 20, found 21"));
  CHECK_FALSE(completion(R"("logprobs": null)").has_value());
  CHECK_FALSE(completion(R"("logprobs": false)").has_value());
  CHECK(completion(R"("logprobs": 0)") == 0);
  CHECK(completion(R"("logprobs": 20)") == 20);
  CHECK(mentions(completion_error(R"("logprobs": -1)"), "from 0 to 20, found -1"));
  CHECK(mentions(completion_error(R"("logprobs": true)"), "found true"));
  CHECK(completion_error(R"("logprobs": 1, "top_logprobs": 1)").param() == "top_logprobs");
}

TEST_CASE("server request: a bias names tokens of the vocabulary, each once") {
  struct Case {
    const char *value, *param, *message;
  };
  for (const auto& [value, param, message] : {
           Case{"[]", "logit_bias", "expected an object"},
           Case{"1", "logit_bias", "expected an object"},
           Case{R"({"512": 1})", "logit_bias", "token ids from 0 to 511, found \"512\""},
           Case{R"({"-1": 1})", "logit_bias", "found \"-1\""},
           Case{R"({"01": 1})", "logit_bias", "found \"01\""},
           Case{R"({"1.0": 1})", "logit_bias", "found \"1.0\""},
           Case{R"({" 1": 1})", "logit_bias", "found \" 1\""},
           Case{R"({"": 1})", "logit_bias", "found \"\""},
           Case{R"({"the": 1})", "logit_bias", "found \"the\""},
           Case{R"({"4294967297": 1})", "logit_bias", "found \"4294967297\""},
           Case{R"({"1": 101})", "logit_bias.1", "from -100 to 100, found 101"},
           Case{R"({"1": "5"})", "logit_bias.1", "a number from -100 to 100"},
           Case{R"({"1": null})", "logit_bias.1", "a number from -100 to 100"},
       }) {
    const ApiError e = chat_error(R"("logit_bias": )" + std::string(value));
    CAPTURE(e.what());
    CHECK(e.param() == param);
    CHECK(mentions(e, message));
  }
  const auto of_many = [](size_t n) {
    std::string json = R"("logit_bias": {)";
    for (size_t i = 0; i < n; ++i) json += format("%s\"%zu\": 1", i ? ", " : "", i);
    return json + "}";
  };
  CHECK(chat(of_many(kMaxLogitBias)).settings.sampling.logit_bias.size() == kMaxLogitBias);
  CHECK(mentions(chat_error(of_many(kMaxLogitBias + 1)), "at most 300 tokens, found 301"));
}

TEST_CASE("server request: messages that are none name their place") {
  const auto messages = [](const std::string& json) {
    return body_error(R"({"messages": )" + json + "}").param();
  };
  CHECK(body_error("{}").param() == "messages");
  CHECK(messages("[]") == "messages");
  CHECK(messages(R"("hi")") == "messages");
  CHECK(messages("[1]") == "messages[0]");
  CHECK(messages(R"([{"content": "hi"}])") == "messages[0].role");
  CHECK(messages(R"([{"role": "function", "content": "hi"}])") == "messages[0].role");
  CHECK(messages(R"([{"role": "user"}])") == "messages[0].content");
  CHECK(messages(R"([{"role": "user", "content": 1}])") == "messages[0].content");
  CHECK(messages(R"([{"role": "user", "content": [1]}])") == "messages[0].content[0]");
  CHECK(messages(R"([{"role": "user", "content": [{"type": "text"}]}])") ==
        "messages[0].content[0].text");
  CHECK(messages(R"([{"role": "user", "content": [{"type": "image_url"}]}])") ==
        "messages[0].content[0].type");
}

TEST_CASE("server request: prompts are a string or ids, alone or in an array") {
  const auto prompt = [](const std::string& json) {
    return parse_completion(R"({"prompt": )" + json + "}", {}, kVocab);
  };
  CHECK(prompt(R"("abc")").text == "abc");
  CHECK(prompt(R"("")").text.empty());
  CHECK(prompt(R"(["abc"])").text == "abc");
  CHECK(prompt("[1, 511]").tokens == std::vector<int32_t>{1, 511});
  CHECK(prompt("[[1, 511]]").tokens == std::vector<int32_t>{1, 511});
  CHECK_FALSE(prompt("[1]").chat);
  for (const char* json :
       {"1", "null", "[]", R"(["a", "b"])", "[[1], [2]]", "[[]]", "[[[1]]]", "{}", "true"}) {
    CHECK(prompt_error(json).param() == "prompt");
  }
  CHECK(mentions(prompt_error("[1, 512]"), "prompt[1]: expected a token id from 0 to 511"));
  CHECK(mentions(prompt_error("[-1]"), "prompt[0]"));
  CHECK(mentions(prompt_error("[1, \"a\"]"), "prompt[1]"));
}

TEST_CASE("server request: bodies that are no JSON object") {
  for (const char* body : {"", " ", "{", "[]", "1", "null", "\"a\"", "{} {}", "{\"a\":}",
                           "{'a': 1}", "{\"a\": NaN}", "{\"a\": Infinity}", "{\"a\": 1e999}",
                           "\xEF\xBB\xBF{", "{\"a\": \"\\ud800\"}", "{\"a\": \"\n\"}"}) {
    CAPTURE(body);
    CHECK(mentions(body_error(body), "the body"));
  }
  CHECK(mentions(body_error("{\"a\": \"\xff\"}"), "UTF-8, found something else at byte 7"));
  CHECK(mentions(body_error(std::string("{\0}", 3)), "expected JSON"));
}

TEST_CASE("server request: JSON is bounded in depth and in values") {
  const auto nested = [](int depth) {
    return R"({"x": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  CHECK_NOTHROW(parse_body(nested(kMaxJsonDepth - 1)));
  CHECK(mentions(body_error(nested(kMaxJsonDepth)), "levels"));
  CHECK(mentions(body_error(std::string(1 << 20, '[')), "levels"));
  CHECK(mentions(body_error(R"({"x": )" + std::string(1 << 20, '{')), "expected JSON"));
  std::string many = "{\"x\": [0";
  for (size_t i = 0; i < kMaxJsonValues; ++i) many += ",0";
  CHECK(mentions(body_error(many + "]}"), "values"));
}

TEST_CASE("server request: tokenize and detokenize") {
  const TokenizeRequest request =
      parse_tokenize(R"({"content": "a", "add_special": true, "with_pieces": true})");
  CHECK(request.content == "a");
  CHECK(request.add_special);
  CHECK(request.with_pieces);
  CHECK_FALSE(parse_tokenize(R"({"content": ""})").add_special);
  CHECK(error_of([] { parse_tokenize("{}"); }).param() == "content");
  CHECK(parse_detokenize(R"({"tokens": [0, 511]})", kVocab) == std::vector<int32_t>{0, 511});
  CHECK(parse_detokenize(R"({"tokens": []})", kVocab).empty());
  for (const char* body : {"{}", R"({"tokens": "a"})", R"({"tokens": [512]})",
                           R"({"tokens": [0.5]})", R"({"tokens": [null]})"}) {
    CAPTURE(body);
    CHECK(error_of([&] { parse_detokenize(body, kVocab); }).param() == "tokens");
  }
}

TEST_CASE("server request: which hosts are this machine") {
  for (const char* host : {"localhost", "LocalHost", "localhost:8080", "127.0.0.1", "127.0.0.1:80",
                           "127.9.9.9", "::1", "[::1]", "[::1]:8080"}) {
    CAPTURE(host);
    CHECK(is_loopback(host));
  }
  for (const char* host : {"", ":80", "localhos", "localhost.example", "xlocalhost", "127.example",
                           "127.0.0.1.example:80", "10.0.0.1", "0.0.0.0", "[::2]:80"}) {
    CAPTURE(host);
    CHECK_FALSE(is_loopback(host));
  }
}

}  // namespace server_request_test
