// Rounds that can be replayed: read from traces, however broken, drawn from published figures, cut
// to the depth of another model; and replayed, they come out as recorded.
#include "trace/recorded_rounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "decode/generate.h"
#include "decode/replayed_head.h"
#include "decode/specbound.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "model/random_heads.h"
#include "model/random_weights.h"
#include "trace/cost_model.h"

using namespace specbound;
using namespace specbound::test;

namespace {

const std::string kHeader = R"({"type":"header","version":1,"n_layers":16})"
                            "\n";
const std::string kReply =
    R"({"type":"reply","speculator":"specbound","settings":{"w_max":4,"check_layers":[2,5]}})"
    "\n";
// Three rows: drafts at 2 and 5, the first right.
const std::string kRound =
    R"({"type":"token","accepted":true})"
    "\n"
    R"({"type":"token","accepted":false})"
    "\n"
    R"({"type":"round","draft_end":"difficult","slots":[{"exit_layer":2},{"exit_layer":5},)"
    R"({"exit_layer":null}]})"
    "\n";
const std::string kPlainRound =
    R"({"type":"token","accepted":false})"
    "\n"
    R"({"type":"round","draft_end":"plain","slots":[{"exit_layer":null}]})"
    "\n";

RecordedRounds read(const std::string& text) {
  std::istringstream in(text);
  return read_recorded_rounds(in, "t.jsonl");
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

ModelConfig small_config() {
  ModelConfig c;
  c.architecture = "llama";
  c.dim = 64;
  c.ffn_dim = 96;
  c.n_layers = 8;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = 16;
  c.vocab_size = 96;
  c.max_seq_len = 1024;
  c.norm_eps = 1e-5f;
  return c;
}

}  // namespace

TEST_CASE("the acceptance of a compression rate gives that rate") {
  for (const double rate : {1.0, 1.5, 3.05, 3.78, 6.41, 7.99}) {
    const double a = acceptance_for(rate, 8);
    CHECK(expected_tokens(a, 8) == doctest::Approx(rate).epsilon(1e-9));
    if (a < 0.999) CHECK((1 - std::pow(a, 8)) / (1 - a) == doctest::Approx(rate).epsilon(1e-9));
  }
  CHECK(acceptance_for(8, 8) == doctest::Approx(1));
}

TEST_CASE("a trace is read round by round; plain rounds and plain replies are left out") {
  const RecordedRounds found =
      read(kHeader + kReply + kPlainRound + kRound +
           R"({"type":"reply","speculator":"none","settings":null})"
           "\n" +
           kPlainRound + kReply + kRound + R"({"type":"end","anything":1})" + "\n");
  CHECK(found.n_layers == 16);
  CHECK(found.w_max == 4);
  CHECK(found.check_layers == std::vector<int>{2, 5});
  REQUIRE(found.rounds.size() == 2);
  CHECK(found.rounds[0] == RecordedRound{{2, 5}, 1});
  CHECK(found.rounds[0] == found.rounds[1]);
  CHECK(found.compression_rate() == doctest::Approx(2));
  CHECK(found.mean_exit_layer() == doctest::Approx(3.5));
  CHECK(found.acceptance() == doctest::Approx(0.5));
}

TEST_CASE("broken traces are refused with the line and what was expected") {
  const auto refused = [](const std::string& text, std::initializer_list<std::string_view> words,
                          ErrorCode code = ErrorCode::kFormat) {
    check_mentions(expect_error(code, [&] { read(text); }), words);
  };
  refused("", {"t.jsonl", "expected rounds", "--trace"});
  refused(kHeader + kReply, {"expected rounds"});
  refused("\n", {"line 1", "a JSON object"});
  refused("[1]\n", {"line 1", "a JSON object", "array"});
  refused(kReply, {"line 1", "header"});
  refused(kHeader + kReply + kRound.substr(0, kRound.size() - 30), {"line 5", "a JSON object"});
  refused(std::string(100000, '['), {"line 1"});
  refused(replaced(kHeader, "1,", "2,"), {"line 1", "version"});
  refused(R"({"type":"header","version":1})", {"n_layers", "--trace"});
  for (const char* n : {"0", "-3", "1e9", "5000", "18446744073709551615", "1e999", "\"16\"", "16.5",
                        "null", "[16]"}) {
    CAPTURE(n);
    refused(replaced(kHeader, "16", n), {"line 1"});
  }
  refused(kHeader + replaced(kReply, "[2,5]", "[5,2]"), {"line 2", "check_layers", "6 to 15"});
  refused(kHeader + replaced(kReply, "[2,5]", "[2,16]"), {"line 2", "check_layers", "16"});
  refused(kHeader + replaced(kReply, "[2,5]", "[]"), {"line 2", "check layer"});
  refused(kHeader + replaced(kReply, "[2,5]", "{}"), {"line 2", "a list"});
  refused(kHeader + replaced(kReply, "4", "17"), {"line 2", "w_max", "1 to 16"});
  const std::string start = kHeader + kReply;
  refused(start + replaced(kRound, ":2}", ":3}"), {"line 5", "check layers", "layer 3"});
  refused(start + replaced(kRound, ":2}", ":null}"), {"line 5", "exit_layer", "null"});
  refused(start + replaced(kRound, "false", "7"), {"line 4", "accepted"});
  refused(start + replaced(kRound, "[{", "[3,{"), {"line 5", "exit_layer"});
  // Three drafts accepted of two; four drafts in four rows at most.
  const std::string right = "{\"type\":\"token\",\"accepted\":true}\n";
  refused(start + right + right + kRound, {"2 drafts, 3 accepted"});
  refused(start + replaced(kRound, "[{", R"([{"exit_layer":2},{"exit_layer":2},{)"),
          {"4 drafts", "at most 4 rows"});
  refused(kHeader + R"({"type":"reply","speculator":"ngram","settings":null})" + "\n",
          {"line 2", "exit heads", "ngram"}, ErrorCode::kUnsupported);
  refused(start + kRound + replaced(kReply, "[2,5]", "[2]") + kRound, {"line 6", "others"},
          ErrorCode::kUnsupported);
}

TEST_CASE("rounds scale with the depth, and stay within the model") {
  RecordedRounds from;
  from.n_layers = 16;
  from.w_max = 4;
  from.check_layers = {0, 1, 2, 8, 15};
  from.rounds = {{{0, 2, 15}, 2}, {{1, 8}, 0}};
  const RecordedRounds deep = from.scaled(32);
  CHECK(deep.n_layers == 32);
  CHECK(deep.check_layers == std::vector<int>{0, 2, 4, 16, 30});
  CHECK(deep.rounds[0] == RecordedRound{{0, 4, 30}, 2});
  // Layers that meet become one; none comes to the last layer or before the first.
  const RecordedRounds shallow = from.scaled(4);
  CHECK(shallow.check_layers == std::vector<int>{0, 1, 2, 3});
  CHECK(shallow.rounds[0] == RecordedRound{{0, 1, 3}, 2});
  CHECK(shallow.rounds[1] == RecordedRound{{1, 2}, 0});
  CHECK(from.scaled(16).rounds == from.rounds);
}

TEST_CASE("drawn rounds have the compression rate and the mean exit that were asked for") {
  for (const double rate : {1.0, 3.05, 3.78, 6.41, 8.0}) {
    for (const double exit : {4.0, 4.5, 6.0, 10.0}) {
      for (int checks = 1; checks <= 4; ++checks) {
        CAPTURE(rate);
        CAPTURE(exit);
        CAPTURE(checks);
        const RecordedRounds drawn = drawn_rounds({rate, exit, checks, 8}, 64, 32);
        REQUIRE(drawn.rounds.size() == 64);
        CHECK(drawn.w_max == 8);
        CHECK(drawn.check_layers.size() == static_cast<size_t>(checks));
        CHECK(std::abs(drawn.compression_rate() - rate) < 0.05);
        // One check layer cannot lie between two layers.
        CHECK(std::abs(drawn.mean_exit_layer() - exit) < (checks == 1 ? 0.51 : 0.02));
        for (const RecordedRound& round : drawn.rounds) {
          CHECK(round.exits.size() == 7);
          CHECK(round.accepted >= 0);
          CHECK(round.accepted <= 7);
        }
      }
    }
  }
  CHECK(drawn_rounds({3.78, 4, 2, 8}, 32, 32).rounds ==
        drawn_rounds({3.78, 4, 2, 8}, 32, 32).rounds);
  CHECK(check_layers_around(4, 1, 32) == std::vector<int>{4});
  CHECK(check_layers_around(4, 2, 32) == std::vector<int>{3, 5});
  CHECK(check_layers_around(4, 4, 32) == std::vector<int>{1, 3, 5, 7});
  CHECK(check_layers_around(1, 3, 4) == std::vector<int>{1, 3});
  const auto refused = [](const RoundFigures& figures, const char* what) {
    check_mentions(expect_error(ErrorCode::kUsage, [&] { drawn_rounds(figures, 8, 8); }),
                   {what, "expected"});
  };
  refused({8.5, 4, 2, 8}, "compression rate");
  refused({0.5, 4, 2, 8}, "compression rate");
  refused({std::nan(""), 4, 2, 8}, "compression rate");
  refused({3, 8, 2, 8}, "mean exit");
  refused({3, 4, 8, 8}, "check layers");
}

TEST_CASE("replayed rounds come out as recorded, and the text is that of plain decoding") {
  const ModelConfig config = small_config();
  const RandomWeights weights(config, DType::kQ8_0, 3);
  CpuOptions options;
  options.n_ctx = 256;
  options.n_threads = 1;
  const auto backend = make_cpu_backend(config, weights.weights(), options);
  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*backend, Sampler(greedy));
  GenerateOptions generate;
  generate.max_tokens = 120;
  const std::vector<int32_t> prompt = {1, 2, 3};
  session.generate(prompt, generate);
  const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());

  for (const HeadKind kind : {HeadKind::kFolded, HeadKind::kChained, HeadKind::kFull}) {
    CAPTURE(head_kind_name(kind));
    const RecordedRounds drawn = drawn_rounds({3, 4, 2, 6}, 12, config.n_layers);
    std::vector<RandomHeads::Head> wanted;
    for (const int layer : drawn.check_layers) wanted.push_back({kind, layer});
    const RandomHeads random(config, wanted, 48);
    backend->set_exit_heads(&random.heads(), random.shortlist());
    ReplayedHead head(random.heads(), kind, recorded_script(drawn.rounds, text, config.vocab_size));
    SpecBoundParams params;
    params.check_layers = drawn.check_layers;
    params.d_max = config.n_layers;
    params.w_max = drawn.w_max;
    SpecBound speculator(head, params, config.n_layers);
    session.set_speculator(&speculator);
    // A chained head has nothing to look back at in the first round, which is plain.
    const int first = kind == HeadKind::kChained ? 1 : 0;
    generate.max_tokens = 80;
    int checked = 0;
    generate.on_round = [&](const RoundEvent& event) {
      if (event.round < first || event.round >= first + 12) return;
      const RecordedRound& round = drawn.rounds[static_cast<size_t>(event.round - first)];
      ++checked;
      REQUIRE(event.drafted() == 5);
      CHECK(static_cast<int>(event.tokens.size()) == round.accepted + 1);
      for (int i = 0; i < event.drafted(); ++i) CHECK(event.rows[i].exit_layer == round.exits[i]);
    };
    session.generate(prompt, generate);
    session.set_speculator(nullptr);
    CHECK(checked == 12);
    REQUIRE(session.tokens().size() == prompt.size() + 80);
    CHECK(std::equal(session.tokens().begin(), session.tokens().end(), text.begin()));
    backend->set_exit_heads(nullptr, 0);
  }
}

TEST_CASE("random weights are the same for the same seed, and finite all the way") {
  const ModelConfig config = small_config();
  for (const DType type : {DType::kQ8_0, DType::kF16}) {
    const RandomWeights a(config, type, 3), b(config, type, 3), c(config, type, 4);
    const Matrix &x = a.weights().layers[7].w_down, &y = b.weights().layers[7].w_down;
    REQUIRE(x.bytes() == y.bytes());
    CHECK(same_bits(x.data, y.data, x.bytes()));
    CHECK_FALSE(same_bits(x.data, c.weights().layers[7].w_down.data, x.bytes()));
    CpuOptions options;
    options.n_threads = 1;
    options.n_ctx = 16;
    const auto backend = make_cpu_backend(config, a.weights(), options);
    backend->embed(0, 5);
    backend->run_layers(0, 1, 0, 1, config.n_layers);
    float largest = 0;
    for (const float h : backend->hidden(0)) {
      CHECK(std::isfinite(h));
      largest = std::max(largest, std::abs(h));
    }
    CHECK(largest > 0.01f);
    CHECK(largest < 1e4f);
  }
}
