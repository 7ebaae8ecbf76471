// What clients ask of /v1/embeddings, and the form of the answer.
#include "server/embedding_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error.h"
#include "server/api_error.h"
#include "test_connection.h"

namespace embedding_request_test {

using namespace specbound;
using namespace specbound::server;
using nlohmann::json;

namespace {

constexpr int kVocab = 512, kDim = 64;

EmbeddingRequest parse(const std::string& fields) {
  return parse_embeddings("{" + fields + "}", kVocab, kDim);
}

ApiError error_of(const std::string& fields) {
  CAPTURE(fields);
  return test::error_of([&] { parse(fields); });
}

}  // namespace

TEST_CASE("embedding request: a text, texts, ids, lists of ids") {
  EmbeddingRequest one = parse(R"("input": "abc", "model": "m", "user": "u")");
  REQUIRE(one.inputs.size() == 1);
  CHECK(one.inputs[0].text == "abc");
  CHECK(one.inputs[0].name == "input");
  CHECK(one.model == "m");
  CHECK_FALSE(one.base64);
  CHECK(parse(R"("input": "", "encoding_format": "base64", "dimensions": 64)").base64);
  const EmbeddingRequest texts = parse(R"("input": ["a", "b"], "encoding_format": "float")");
  REQUIRE(texts.inputs.size() == 2);
  CHECK(texts.inputs[1].text == "b");
  CHECK(texts.inputs[1].name == "input[1]");
  const EmbeddingRequest ids = parse(R"("input": [1, 511])");
  REQUIRE(ids.inputs.size() == 1);
  CHECK(ids.inputs[0].tokens == std::vector<int32_t>{1, 511});
  const EmbeddingRequest lists = parse(R"("input": [[1, 2], [3], "a"])");
  REQUIRE(lists.inputs.size() == 3);
  CHECK(lists.inputs[1].tokens == std::vector<int32_t>{3});
  CHECK(lists.inputs[2].text == "a");
}

TEST_CASE("embedding request: what is none names its place") {
  struct Case {
    const char *fields, *param, *message;
  };
  for (const auto& [fields, param, message] : {
           Case{R"("model": "m")", "input", "a string, an array"},
           Case{R"("input": null)", "input", "a string, an array"},
           Case{R"("input": 1)", "input", "a string, an array"},
           Case{R"("input": {})", "input", "a string, an array"},
           Case{R"("input": [])", "input", "a string, an array"},
           Case{R"("input": [512])", "input", "input[0]: expected a token id from 0 to 511"},
           Case{R"("input": [1, "a"])", "input", "input[1]: expected a token id"},
           Case{R"("input": ["a", 1])", "input[1]", "a string or an array of token ids, found 1"},
           Case{R"("input": ["a", []])", "input[1]", "found an empty array"},
           Case{R"("input": [[1], [1, -1]])", "input[1]", "input[1][1]: expected a token id"},
           Case{R"("input": [null])", "input[0]", "found null"},
           Case{R"("input": "a", "encoding_format": "hex")", "encoding_format", "float or base64"},
           Case{R"("input": "a", "encoding_format": 1)", "encoding_format", "a string"},
           Case{R"("input": "a", "dimensions": 32)", "dimensions", "expected 64"},
           Case{R"("input": "a", "dimensions": "64")", "dimensions", "a number"},
           Case{R"("input": "a", "model": 1)", "model", "a string"},
       }) {
    const ApiError e = error_of(fields);
    CAPTURE(e.what());
    CHECK(e.param() == param);
    CHECK(std::string(e.what()).find(message) != std::string::npos);
  }
  const auto texts = [](size_t n) {
    return json{{"input", std::vector<std::string>(n, "a")}}.dump();
  };
  CHECK(parse_embeddings(texts(kMaxInputs), kVocab, kDim).inputs.size() == kMaxInputs);
  CHECK_THROWS_AS(parse_embeddings(texts(kMaxInputs + 1), kVocab, kDim), ApiError);
}

TEST_CASE("embedding answer: lists of numbers, or their bytes in base64") {
  const std::vector<std::vector<float>> embeddings = {{1, 0.1f, -1e-20f}, {0.5f, -2}, {1}};
  const json answer = json::parse(embeddings_json("m", embeddings, false, 7));
  CHECK(answer["object"] == "list");
  CHECK(answer["model"] == "m");
  CHECK(answer["usage"] == json{{"prompt_tokens", 7}, {"total_tokens", 7}});
  REQUIRE(answer["data"].size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(answer["data"][i]["object"] == "embedding");
    CHECK(answer["data"][i]["index"] == i);
    CHECK(answer["data"][i]["embedding"].get<std::vector<float>>() == embeddings[i]);
  }
  CHECK(embeddings_json("m", embeddings, false, 7).find("[1,0.1,-1e-20]") != std::string::npos);
  const json bytes = json::parse(embeddings_json("m", embeddings, true, 7));
  CHECK(bytes["data"][0]["embedding"] == "AACAP83MzD0I5Tye");
  CHECK(bytes["data"][1]["embedding"] == "AAAAPwAAAMA=");
  CHECK(bytes["data"][2]["embedding"] == "AACAPw==");
}

}  // namespace embedding_request_test
