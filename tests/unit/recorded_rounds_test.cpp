// Rounds that can be replayed: read from traces, however broken, drawn from published figures, cut
// to the depth of another model; and replayed, they come out as recorded.
#include "trace/recorded_rounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "model/random_model.h"
#include "trace/cost_model.h"
#include "trace_text.h"

namespace recorded_rounds_test {

using namespace specbound;
using namespace specbound::test;

namespace {

RecordedRounds read(const std::string& text) {
  std::istringstream in(text);
  return read_recorded_rounds(in, "t.jsonl");
}

ModelConfig small_config() {
  ModelConfig c;
  c.architecture = "llama";
  c.dim = 64;
  c.ffn_dim = 96;
  c.n_layers = 8;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = c.rope_dim = 16;
  c.score_scale = 0.25f;
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
  TraceText trace;
  trace.reply(TraceText::drafting(4, {2, 5}));
  trace.plain_round();
  trace.round({2, 5}, 1);
  trace.end();
  trace.reply(TraceText::plain());
  trace.plain_round();
  trace.reply(TraceText::drafting(4, {2, 5}));
  trace.settings(TraceText::plain());
  trace.plain_round();
  trace.settings(TraceText::drafting(4, {2, 5}));
  trace.round({2, 5}, 1);
  trace.end();
  const RecordedRounds found = read(trace.text());
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

TEST_CASE("without a width bound rounds have as many rows as there can be") {
  TraceText trace;
  TraceReply reply = TraceText::drafting(4, {2});
  reply.settings->width_bound = false;
  trace.reply(reply);
  trace.round(std::vector<int>(15, 2), 3);
  CHECK(read(trace.text()).w_max == 16);
}

TEST_CASE("traces whose rounds cannot be replayed are refused with the line") {
  const auto refused = [](TraceText& trace, std::initializer_list<std::string_view> words,
                          ErrorCode code = ErrorCode::kFormat) {
    const std::string text = trace.text();
    check_mentions(expect_error(code, [&] { read(text); }), words);
  };
  check_mentions(expect_error(ErrorCode::kFormat, [] { read(""); }),
                 {"t.jsonl", "lines of a trace, found none"});
  {
    TraceText trace(1);
    refused(trace, {"line 1", "two layers"});
  }
  {
    TraceText trace;
    trace.reply(TraceText::drafting(4, {2, 5}));
    trace.plain_round();
    refused(trace, {"t.jsonl", "expected rounds", "--trace"});
  }
  {
    TraceText trace;
    trace.reply(TraceText::drafting(4, {}));
    refused(trace, {"line 2", "check layer"});
  }
  {
    TraceText trace;
    trace.reply(TraceText::drafting(4, {2, 5}));
    trace.round({3, 5}, 1);
    refused(trace, {"line 5", "check layers", "layer 3"});
  }
  {
    TraceText trace;
    trace.reply(TraceText::drafting(4, {2, 5}));
    trace.round({2, kNoDraft, 5}, 0);
    refused(trace, {"line 4", "exit_layer", "before a draft"});
  }
  {
    TraceText trace;
    trace.reply(TraceText::drafting(4, {2, 5}));
    trace.round({2, 2, 2, 5}, 1);
    refused(trace, {"line 5", "4 drafts", "at most 4 rows"});
  }
  for (const bool within : {false, true}) {
    TraceText trace;
    TraceReply ngram = TraceText::plain();
    ngram.speculator = "ngram";
    if (within) trace.reply(TraceText::drafting(4, {2, 5}));
    within ? trace.settings(ngram) : trace.reply(ngram);
    refused(trace, {within ? "line 3" : "line 2", "exit heads", "ngram"}, ErrorCode::kUnsupported);
  }
  for (const bool within : {false, true}) {
    TraceText trace;
    trace.reply(TraceText::drafting(4, {2, 5}));
    trace.round({2, 5}, 1);
    const TraceReply other = TraceText::drafting(4, {2});
    within ? trace.settings(other) : trace.reply(other);
    refused(trace, {"line 6", "others"}, ErrorCode::kUnsupported);
  }
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
    for (const float h : backend->inspect().hidden(0)) {
      CHECK(std::isfinite(h));
      largest = std::max(largest, std::abs(h));
    }
    CHECK(largest > 0.01f);
    CHECK(largest < 1e4f);
  }
}

}  // namespace recorded_rounds_test
