// The trace file: each line is the JSON object that recorder.h promises, whatever the events hold,
// and a file that cannot be written is told without a word lost elsewhere.
#include "trace/recorder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "chain_rows.h"
#include "error.h"
#include "expect_error.h"
#include "system/file_output.h"
#include "temp_dir.h"
#include "text/utf8.h"

namespace recorder_test {

using namespace specbound;
using namespace specbound::test;
using Json = nlohmann::ordered_json;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<Json> lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Json> out;
  for (std::string line; std::getline(file, line);) out.push_back(Json::parse(line));
  return out;
}

TraceHeader header() {
  TraceHeader h;
  h.specbound = "1.2.3";
  h.model = "a \"model\".gguf";
  h.n_layers = 4;
  h.vocab_size = 97;
  h.n_ctx = 64;
  h.backend = "CPU";
  return h;
}

std::string piece(int32_t token) {
  switch (token) {
    case 1:
      return " hello";
    case 2:
      return "\xE2\x82";  // the start of a character
    case 3:
      return std::string("\0\x1b[31m\"\\\n", 9);
    case 4:
      return "\xF0\x9F\xA6\x99";
  }
  return "";
}

// A round of three rows: an accepted draft, a rejected one, and what the last row gave.
struct ThreeRows {
  std::vector<ExitCheck> first{{1, 0.25f}, {2, 0.75f}};
  std::vector<ExitCheck> second{{1, kNan}, {2, kInf}, {3, 1.0f}};
  std::vector<RowEvent> rows{{7, 2, first}, {1, 3, second}, {5, kNoDraft, {}}};
  std::vector<TokenEvent> tokens{{4, 3, 0, 11, 1, 1, 2, false, first},
                                 {4, 3, 1, 12, 3, 5, 3, false, second}};
  std::vector<LayerPass> passes{{1, 2, 0, 1, Phase::kDraft}, {3, 4, 0, 3, Phase::kVerify}};
  RoundEvent event{4, 10, DraftEnd::kWidth, rows, tokens, passes, {1, 2, 3, 4, 5}};

  ThreeRows() { make_chain(rows); }
};

}  // namespace

TEST_CASE("a trace holds what its schema says, to the field") {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::ofstream(path) << "what was there before\n";
  Recorder recorder(path, open_output(path));
  CHECK(std::filesystem::file_size(path) == 0);
  recorder.header(header(), piece);
  TraceReply reply;
  reply.prompt_tokens = 9;
  reply.stop_strings = {"\n\n", "\xFF"};
  reply.seed = std::numeric_limits<uint64_t>::max();
  reply.temperature = 0.7f;
  reply.top_k = 40;
  reply.top_p = 0.9f;
  reply.repeat_penalty = 1;
  reply.repeat_last_n = 64;
  recorder.begin_reply(reply);
  const ThreeRows round;
  recorder.round(round.event);
  TraceEnd end;
  end.stop = "stop";
  end.generated_tokens = 2;
  end.prefilled_tokens = 8;
  end.prefill_seconds = 0.5;
  end.ttft_seconds = 0.25;
  end.decode_seconds = kInf;
  end.counters.add(round.event);
  recorder.end_reply(end);

  // Complete on the disk once the reply is over, with the file still open.
  const std::vector<Json> trace = lines(path);
  REQUIRE(trace.size() == 6);
  CHECK(trace[0] == Json::parse(R"({"type":"header","version":1,"specbound":"1.2.3",
    "model":"a \"model\".gguf","n_layers":4,"vocab_size":97,"n_ctx":64,"backend":"CPU"})"));
  CHECK(trace[1] == Json::parse(R"({"type":"reply","reply":0,"regen":0,"prompt_tokens":9,
    "max_tokens":null,"stop_strings":["\n\n","\uFFFD"],"seed":18446744073709551615,
    "temperature":0.7,"top_k":40,"top_p":0.9,"min_p":0.0,"repeat_penalty":1.0,"repeat_last_n":64,
    "speculator":"none","settings":null})"));
  CHECK(trace[2] == Json::parse(R"({"type":"token","reply":0,"round":4,"rows":3,"slot":0,"pos":11,
    "token":1,"text":" hello","draft":1,"exit_layer":2,"accepted":true,"ends_reply":false,
    "checks":[{"layer":1,"confidence":0.25},{"layer":2,"confidence":0.75}]})"));
  CHECK(trace[3] == Json::parse(R"({"type":"token","reply":0,"round":4,"rows":3,"slot":1,"pos":12,
    "token":3,"text":"\u0000\u001b[31m\"\\\n","draft":5,"exit_layer":3,"accepted":false,
    "ends_reply":false,"checks":[{"layer":1,"confidence":null},{"layer":2,"confidence":null},
    {"layer":3,"confidence":1.0}]})"));
  CHECK(trace[4] == Json::parse(R"({"type":"round","reply":0,"round":4,"pos":10,"rows":3,
    "emitted":2,"draft_end":"width","slots":[
      {"token":7,"text":"","exit_layer":2,"checks":[{"layer":1,"confidence":0.25},
        {"layer":2,"confidence":0.75}]},
      {"token":1,"text":" hello","exit_layer":3,"checks":[{"layer":1,"confidence":null},
        {"layer":2,"confidence":null},{"layer":3,"confidence":1.0}]},
      {"token":5,"text":"","exit_layer":null,"checks":[]}],
    "passes":[{"from":1,"to":2,"slot":0,"rows":1,"phase":"draft"},
      {"from":3,"to":4,"slot":0,"rows":3,"phase":"verify"}],
    "ns":{"draft":1,"check":2,"verify":3,"logits":4,"sample":5}})"));
  CHECK(trace[5] == Json::parse(R"({"type":"end","reply":0,"stop":"stop","generated_tokens":2,
    "prefilled_tokens":8,"prefill_seconds":0.5,"ttft_seconds":0.25,"decode_seconds":null,
    "rounds":1,"decoded_tokens":2,"drafted_tokens":2,"accepted_tokens":1,"checks":5,
    "accepted_at":[0,0,1],"mean_exit_layer":2.0,
    "ns":{"draft":1,"check":2,"verify":3,"logits":4,"sample":5},"plain_token_seconds":null,
    "plain_rounds":0})"));
}

TEST_CASE("replies are counted, budgets and settings told, plain tokens have no draft") {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  {
    Recorder recorder(path, open_output(path));
    recorder.header(header(), piece);
    for (int i = 0; i < 2; ++i) {
      TraceReply reply;
      reply.regen = 3;
      reply.max_tokens = 0;
      reply.speculator = "specbound";
      reply.settings = TraceSettings{8, 10, 0.2f, 0.55f, {2, 4}, false, true, false};
      reply.settings->anneal_learned = i == 1;
      recorder.begin_reply(reply);
      const std::vector<RowEvent> rows{{7, kNoDraft, {}}};
      const std::vector<TokenEvent> tokens{{0, 1, 0, 5, 4, -1, kNoDraft, true, {}}};
      recorder.round({0, 4, DraftEnd::kPlain, rows, tokens, {}, {}});
    }
  }  // closed without an end: as after a failure
  const std::vector<Json> trace = lines(path);
  REQUIRE(trace.size() == 7);
  CHECK(trace[1]["max_tokens"] == 0);
  CHECK(trace[1]["regen"] == 3);
  CHECK(trace[1]["settings"] ==
        Json::parse(R"({"w_max":8,"d_max":10,"alpha":0.2,"tau":0.55,"check_layers":[2,4],
          "anneal":false,"depth_bound":true,"width_bound":false})"));
  CHECK(trace[1]["reply"] == 0);
  CHECK(trace[4]["reply"] == 1);
  CHECK(trace[4]["settings"]["anneal_learned"] == true);
  CHECK(trace[5]["reply"] == 1);
  CHECK(trace[2]["draft"].is_null());
  CHECK(trace[2]["exit_layer"].is_null());
  CHECK(trace[2]["accepted"] == false);
  CHECK(trace[2]["ends_reply"] == true);
  CHECK(trace[2]["text"] == "\xF0\x9F\xA6\x99");
  CHECK(trace[3]["passes"] == Json::array());
}

TEST_CASE("settings that change within a reply are told with the round they hold from") {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  Recorder recorder(path, open_output(path));
  recorder.header(header(), piece);
  TraceReply reply;
  recorder.begin_reply(reply);
  reply.seed = 5;
  reply.temperature = 0.5f;
  recorder.settings(reply);
  recorder.round(ThreeRows().event);
  reply.speculator = "specbound";
  reply.settings = TraceSettings{4, 3, 0.5f, 0.25f, {1, 3}};
  recorder.settings(reply);
  recorder.begin_reply({});
  recorder.settings({});
  recorder.close();
  const std::vector<Json> trace = lines(path);
  REQUIRE(trace.size() == 9);
  CHECK(trace[2] == Json::parse(R"({"type":"settings","reply":0,"round":0,"seed":5,
    "temperature":0.5,"top_k":0,"top_p":0.0,"min_p":0.0,"repeat_penalty":0.0,"repeat_last_n":0,
    "speculator":"none","settings":null})"));
  CHECK(trace[6]["type"] == "settings");
  CHECK(trace[6]["round"] == 5);
  CHECK(trace[6]["settings"]["check_layers"] == Json::array({1, 3}));
  CHECK(trace[8]["reply"] == 1);
  CHECK(trace[8]["round"] == 0);
}

TEST_CASE("a reply without a token has no time to its first") {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  Recorder recorder(path, open_output(path));
  recorder.header(header(), piece);
  recorder.begin_reply({});
  recorder.end_reply({});
  CHECK(lines(path).back()["ttft_seconds"].is_null());
}

TEST_CASE("counters of several replies add up as one reply with all their rounds") {
  const ThreeRows round;
  Counters one, two, both;
  one.add(round.event);
  two.add(round.event);
  two.add(round.event);
  both.add(one);
  both.add(two);
  one.add(round.event);
  one.add(round.event);
  CHECK(both == one);
  CHECK(both.rounds == 3);
  CHECK(both.mean_exit_layer() == 2.0);
}

TEST_CASE("a long reply does not wait in memory") {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  Recorder recorder(path, open_output(path));
  recorder.header(header(), piece);
  recorder.begin_reply({});
  const ThreeRows round;
  for (int i = 0; i < 2000; ++i) recorder.round(round.event);
  CHECK(std::filesystem::file_size(path) > 1000000);
  recorder.close();
  CHECK(lines(path).size() == 2 + 3 * 2000);
  CHECK(recorder.error() == 0);
}

TEST_CASE("a trace that stops being written keeps the first failure and goes on") {
  Recorder recorder("/dev/full", open_output("/dev/full"));
  recorder.header(header(), piece);
  const ThreeRows round;
  for (int i = 0; i < 3; ++i) {
    recorder.begin_reply({});
    recorder.round(round.event);
    recorder.end_reply({});
    CHECK(recorder.error() == ENOSPC);
  }
  recorder.close();
  recorder.close();
  CHECK(recorder.error() == ENOSPC);
}

TEST_CASE("hostile tokens: every line is UTF-8 and JSON, numbers survive exactly") {
  std::mt19937 random(9);
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::vector<std::string> texts;
  std::vector<float> confidences;
  {
    Recorder recorder(path, open_output(path));
    recorder.header(header(), [&](int32_t token) { return texts.at(static_cast<size_t>(token)); });
    recorder.begin_reply({});
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (int n = static_cast<int>(random() % 6); n > 0; --n) {
        text +=
            random() % 2 ? static_cast<char>(random()) : "\n\"\\\xE2\x80\xA8\xF0\x9F"[random() % 8];
      }
      texts.push_back(text);
      const auto bits = static_cast<uint32_t>(random());
      float confidence;
      static_assert(sizeof(confidence) == sizeof(bits));
      std::memcpy(&confidence, &bits, sizeof(bits));
      confidences.push_back(confidence);
      const std::vector<ExitCheck> checks{{1, confidence}};
      const std::vector<RowEvent> rows{{i, 0, checks}};
      const std::vector<TokenEvent> tokens{{i, 1, 0, i, i, -1, 0, false, checks}};
      recorder.round({i, i, DraftEnd::kDifficult, rows, tokens, {}, {}});
    }
  }
  const std::vector<Json> trace = lines(path);
  REQUIRE(trace.size() == 2 + 2 * 3000);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Json& token = trace[2 + 2 * i];
    Utf8Stream stream;
    const std::string shown = stream.push(texts[i]);
    REQUIRE(token["text"] == shown + stream.finish());  // the same bytes replaced as on stdout
    const Json& confidence = token["checks"][0]["confidence"];
    if (std::isfinite(confidences[i])) {
      REQUIRE(confidence.get<float>() == confidences[i]);
    } else {
      REQUIRE(confidence.is_null());
    }
  }
}

}  // namespace recorder_test
