// Replay against the real loop: the same rounds, rows, passes and checks, and so the same price.
#include "tune/replay.h"

#include <doctest/doctest.h>

#include <map>

#include "decode/generate.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "sanitized.h"
#include "temp_dir.h"
#include "tiny_heads.h"

namespace replay_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 8, kVocab = 97;

const TinyModel& model() {
  static const TinyModel model([] {
    TinySpec spec;
    spec.n_layers = kLayers;
    spec.type = DType::kQ8_0;
    spec.max_seq_len = 160;
    return spec;
  }());
  return model;
}

SamplingParams sampling(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = 3;
  return params;
}

// What the trace says, said in the real loop.
class TracedHead final : public ExitHead {
 public:
  TracedHead(const TuningTrace& trace, HeadKind kind, int reply, const std::vector<int32_t>& text,
             int prompt_tokens, int32_t end)
      : trace_(trace),
        kind_(kind),
        reply_(trace.replies()[reply]),
        text_(text),
        prompt_tokens_(prompt_tokens),
        end_(end) {}

  const char* name() const override { return "traced"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override {
    const int row = static_cast<int>(round.history(round.newest()).size()) - prompt_tokens_;
    // Two recorded alphas, 0 and 1, and a setting at one of them.
    const int column = temperature > 1 ? 1 : 0;
    const int head = trace_.find(kind_, layer);
    const int depth = std::min(round.newest(), trace_.heads()[head].depths - 1);
    const size_t cell = static_cast<size_t>(depth) * trace_.n_rows() + reply_.first +
                        std::min(row, reply_.tokens - 1);
    if (!should_exit(trace_.confidence(head, 0, column)[cell])) return std::nullopt;
    const Outcome outcome = trace_.outcome(head, 0)[cell];
    if (outcome == Outcome::kEnd) return end_;
    const size_t at = static_cast<size_t>(prompt_tokens_) + row;
    const int32_t right = at < text_.size() ? text_[at] : 0;
    if (outcome == Outcome::kRight && at < text_.size()) return right;
    int32_t wrong = (right + 1) % kVocab;
    return wrong == end_ ? (wrong + 1) % kVocab : wrong;
  }
  void begin() override { state_ = false; }
  void on_commit(Backend&, int) override { state_ = true; }
  bool ready(const Round&) const override { return kind_ != HeadKind::kChained || state_; }

 private:
  const TuningTrace& trace_;
  HeadKind kind_;
  TracedReply reply_;
  const std::vector<int32_t>& text_;
  int prompt_tokens_;
  int32_t end_;
  bool state_ = false;
};

// Looks as trained heads do and drafts the text all the same, so that rounds become wide.
class TruthfulHead final : public ExitHead {
 public:
  struct Look {
    int slot, row;
    float confidence;
    bool right;  // what it would have drafted
  };
  std::vector<Look> looks;

  TruthfulHead(const ExitHeads& heads, HeadKind kind, const TuningText& text)
      : trained_(heads, kind), text_(text) {}

  const char* name() const override { return "truthful"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override {
    float confidence = 0;
    const auto token = trained_.check(round, layer, temperature, [&](float p) {
      confidence = p;
      return should_exit(1);
    });
    if (!token) return std::nullopt;
    const size_t at = round.history(round.newest()).size();
    const int32_t truth = text_.tokens[at];
    looks.push_back(
        {round.newest(), static_cast<int>(at) - text_.prompt_tokens, confidence, *token == truth});
    return truth;
  }
  void begin() override { trained_.begin(); }
  void on_commit(Backend& backend, int slot) override { trained_.on_commit(backend, slot); }
  bool ready(const Round& round) const override { return trained_.ready(round); }

 private:
  TrainedHead trained_;
  const TuningText& text_;
};

// Powers of two and their sums: added in any order they give the same.
CostModel dyadic_costs() {
  CostModel costs;
  costs.n_layers = kLayers;
  costs.vocab_size = kVocab;
  for (int m = 1; m <= CostModel::kRows; ++m) {
    costs.layer[m] = 1 + m * 0.25;
    costs.logits[m] = 2 + m * 0.5;
  }
  costs.pass = 0.125;
  costs.checks = {{"folded", 64, 0.75}, {"chained", 64, 0.375}};
  costs.argmax = 0.0625;
  costs.row = 0.5;
  costs.round = 4;
  costs.plain_token = 32;
  return costs;
}

// A synthetic trace over one reply: chance decides what heads say.
TuningTrace random_trace(int tokens, int budget, bool ends, TinyRandom& random) {
  std::vector<TraceHead> heads;
  for (const int layer : {1, 3, 4, 7}) heads.push_back({HeadKind::kFolded, layer, 1, 1});
  for (const int layer : {0, 2, 5}) {
    heads.push_back({HeadKind::kChained, layer, TuningTrace::kDepths, 1});
  }
  TuningTrace trace(kLayers, {0, 1}, {64}, heads, {{0, tokens, budget, 0}});
  for (size_t h = 0; h < heads.size(); ++h) {
    for (int column = 0; column < 2; ++column) {
      for (float& p : trace.confidence(static_cast<int>(h), 0, column)) p = random.uniform();
    }
    const auto outcome = trace.outcome(static_cast<int>(h), 0);
    for (size_t cell = 0; cell < outcome.size(); ++cell) {
      const float u = random.uniform();
      outcome[cell] = u < 0.7f ? Outcome::kRight : u < 0.95f ? Outcome::kWrong : Outcome::kEnd;
      // A right draft of the end token is an end.
      const bool last = static_cast<int>(cell % tokens) == tokens - 1;
      if (ends && last && outcome[cell] == Outcome::kRight) outcome[cell] = Outcome::kEnd;
    }
  }
  return trace;
}

// The reply in the real loop, counted and priced from what its rounds tell.
ReplayResult run_real(const TuningTrace& trace, const ReplaySettings& settings,
                      const std::vector<int32_t>& text, int prompt_tokens, int32_t end,
                      const CostModel& costs) {
  TracedHead head(trace, settings.heads.kind, 0, text, prompt_tokens, end);
  SpecBoundParams params;
  params.w_max = settings.heads.w_max;
  params.d_max = settings.heads.d_max;
  params.alpha = settings.heads.alpha;
  params.tau = settings.heads.tau;
  params.check_layers = settings.heads.check_layers;
  SpecBound speculator(head, params, kLayers);
  const auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(sampling(1)));
  session.set_speculator(&speculator);
  ReplayResult out;
  GenerateOptions options;
  options.max_tokens = trace.replies()[0].budget;
  options.is_end = [&](int32_t id) { return id == end; };
  options.on_round = [&](const RoundEvent& round) {
    ++out.rounds;
    out.rows += static_cast<int64_t>(round.rows.size());
    out.tokens += static_cast<int64_t>(round.tokens.size());
    out.passes += static_cast<int64_t>(round.passes.size());
    out.drafted += round.drafted();
    double seconds = costs.round + costs.logits[round.rows.size()] +
                     costs.row * static_cast<double>(round.rows.size()) +
                     costs.argmax * static_cast<double>(round.tokens.size());
    for (const RowEvent& row : round.rows) {
      out.checks += static_cast<int64_t>(row.checks.size());
    }
    for (const LayerPass& pass : round.passes) {
      seconds += costs.pass + (pass.to - pass.from + 1) * costs.layer[pass.rows];
    }
    for (const TokenEvent& token : round.tokens) {
      if (!token.accepted()) continue;
      ++out.accepted;
      out.exit_layers += token.exit_layer;
    }
    out.total_seconds += seconds;
  };
  session.generate(std::span(text).first(prompt_tokens), options);
  out.total_seconds +=
      static_cast<double>(out.checks) * costs.check(head_kind_name(settings.heads.kind), 64);
  REQUIRE(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
  return out;
}

void check_same(const ReplayResult& replayed, const ReplayResult& real) {
  CHECK(replayed.rounds == real.rounds);
  CHECK(replayed.rows == real.rows);
  CHECK(replayed.tokens == real.tokens);
  CHECK(replayed.passes == real.passes);
  CHECK(replayed.checks == real.checks);
  CHECK(replayed.drafted == real.drafted);
  CHECK(replayed.accepted == real.accepted);
  CHECK(replayed.exit_layers == real.exit_layers);
  CHECK(replayed.total_seconds == real.total_seconds);
}

struct Plain {
  std::vector<int32_t> text;
  int prompt_tokens;
  int32_t end;  // the token that ends it, or none of the vocabulary
};

// A text of `n` tokens at most, ended by a token of its own if asked for.
Plain plain_text(int n, bool ends) {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  const auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(sampling(1)));
  GenerateOptions options;
  options.max_tokens = n;
  session.generate(prompt, options);
  Plain plain{{session.tokens().begin(), session.tokens().end()}, 9, kVocab};
  if (!ends) return plain;
  // The token that shows up last for the first time.
  std::map<int32_t, size_t> first;
  for (size_t i = 9; i < plain.text.size(); ++i) first.emplace(plain.text[i], i);
  size_t last = 0;
  for (const auto& [token, at] : first) {
    if (at > last) {
      last = at;
      plain.end = token;
    }
  }
  plain.text.resize(last + 1);
  return plain;
}

}  // namespace

TEST_CASE("replay makes the very rounds of the real loop") {
  const CostModel costs = dyadic_costs();
  TinyRandom random(11);
  constexpr int kTexts = some_of(60);
  int ended = 0, rejected = 0;
  for (int i = 0; i < kTexts; ++i) {
    const bool ends = i % 2 == 1;
    const int n = 20 + static_cast<int>(random.next() % 40);
    const Plain plain = plain_text(n, ends);
    const int tokens = static_cast<int>(plain.text.size()) - plain.prompt_tokens;
    REQUIRE(tokens >= 5);
    // An ended reply had a budget to spare, or none.
    const int budget = ends ? tokens + static_cast<int>(random.next() % 5) : tokens;
    const TuningTrace trace = random_trace(tokens, budget, ends, random);
    const Replay replay(trace, costs);
    for (int k = 0; k < 8; ++k) {
      ReplaySettings settings;
      HeadDefaults& h = settings.heads;
      h.kind = k % 2 ? HeadKind::kChained : HeadKind::kFolded;
      const std::vector<int> layers =
          k % 2 ? std::vector<int>{0, 2, 5} : std::vector<int>{1, 3, 4, 7};
      h.check_layers.clear();
      for (const int layer : layers) {
        if (random.next() % 3) h.check_layers.push_back(layer);
      }
      if (h.check_layers.empty()) h.check_layers = layers;
      h.shortlist = 64;
      h.alpha = random.next() % 2;
      h.tau = random.uniform() * 0.9f;
      h.d_max = 1 + static_cast<int>(random.next() % kLayers);
      h.w_max = 1 + static_cast<int>(random.next() % 16);
      INFO("text ", i, " setting ", k);
      const ReplayResult replayed = replay.run(settings);
      const ReplayResult real =
          run_real(trace, settings, plain.text, plain.prompt_tokens, plain.end, costs);
      check_same(replayed, real);
      CHECK(replayed.plain_seconds == tokens * 32.0);
      CHECK(replay.run_reply(settings, 0).total_seconds == replayed.total_seconds);
      ended += ends;
      rejected += real.accepted < real.drafted;
    }
  }
  CHECK(ended >= kTexts);
  CHECK(rejected >= kTexts);
}

TEST_CASE("replay interpolates alpha, gives up in time, refuses what was not recorded") {
  TuningTrace trace(kLayers, {0, 1}, {64}, {{HeadKind::kFolded, 2, 1, 1}}, {{0, 20, 20, 0}});
  const CostModel costs = dyadic_costs();
  const Replay replay(trace, costs);
  for (float& p : trace.confidence(0, 0, 0)) p = 0.75f;
  for (float& p : trace.confidence(0, 0, 1)) p = 0.25f;
  for (float& p : trace.confidence(0, 0, trace.margin_column())) p = 0.875f;
  for (Outcome& o : trace.outcome(0, 0)) o = Outcome::kRight;
  ReplaySettings settings;
  settings.heads = {HeadKind::kFolded, {2}, 64, 0.5f, 0.5f, 7, 5};
  CHECK(replay.run(settings).compression_rate() == 5);
  settings.heads.tau = 0.51f;
  CHECK(replay.run(settings).compression_rate() == 1);
  settings.heads.alpha = 0.25f;
  CHECK(replay.run(settings).compression_rate() == 5);
  settings.heads.alpha = 9;
  CHECK(replay.run(settings).compression_rate() == 1);
  settings.margin = true;
  settings.heads.tau = 0.875f;
  CHECK(replay.run(settings).compression_rate() == 5);
  CHECK(replay.run(settings).mean_exit_layer() == 2);
  CHECK(replay.run(settings).acceptance() == 1);
  // No head up to the depth bound: plain decoding.
  settings.heads.d_max = 1;
  CHECK(replay.run(settings).rows == 20);

  CHECK(replay.run(settings, 1).complete);  // looked at between replies
  const TuningTrace two(kLayers, {0}, {64}, {{HeadKind::kFolded, 2, 1, 1}},
                        {{0, 20, 20, 0}, {0, 20, 20, 0}});
  const ReplayResult stopped = Replay(two, costs).run(settings, 1);
  CHECK_FALSE(stopped.complete);
  CHECK(stopped.tokens == 20);

  settings.heads.d_max = 7;
  settings.heads.check_layers = {2, 3};
  CHECK_THROWS_WITH_AS(replay.run(settings), "no folded head at layer 3 was recorded", Error);
  settings.heads.check_layers = {2};
  settings.heads.shortlist = 32;
  CHECK_THROWS_WITH_AS(replay.run(settings), "a shortlist of 32 tokens was not recorded", Error);
}

TEST_CASE("a recorded trace says what the heads say in the real loop") {
  const TempDir folder;
  const std::string path = folder / "heads.gguf";
  write_exit_heads(path, random_heads(heads_base(model().gguf, model().config), 64));
  const ExitHeads heads = ExitHeads::open(path, model().gguf, model().config);
  const auto backend = model().backend(best_isa(), 1);
  for (const float temperature : {0.0f, 0.7f}) {
    backend->set_exit_heads(&heads, 64);
    std::vector<TuningText> texts;
    for (const int n : {9, 1}) {
      backend->truncate(0);
      Session session(*backend, Sampler(sampling(temperature)));
      const auto text = write_text(session, token_ids(n, kVocab, 4), 30, nullptr, nullptr);
      REQUIRE(text);
      texts.push_back(*text);
    }
    TracePlan plan;
    plan.alphas = {0, 0.5f};
    plan.shortlists = {32, 64};
    bool complete = false;
    const TuningTrace trace = record_trace(*backend, heads, texts, plan, complete);
    CHECK(complete);
    CHECK(trace.n_rows() == 60);
    REQUIRE(trace.heads().size() == heads.heads().size());

    int compared = 0, deep = 0, right = 0;
    for (const int shortlist : {32, 64}) {
      backend->set_exit_heads(&heads, shortlist);
      for (const HeadWeights& kind : heads.heads()) {
        for (size_t t = 0; t < texts.size(); ++t) {
          const TuningText& text = texts[t];
          TruthfulHead head(heads, kind.kind, text);
          SpecBoundParams params;
          params.check_layers = {kind.layer};
          params.tau = 0;
          params.alpha = 0.5f;
          params.w_max = 12;
          SpecBound speculator(head, params, kLayers);
          Session session(*backend, Sampler(sampling(temperature)));
          backend->truncate(0);
          session.set_speculator(&speculator);
          const int index = trace.find(kind.kind, kind.layer);
          const int size = kind.kind == HeadKind::kFull || shortlist == 32 ? 0 : 1;
          GenerateOptions options;
          options.max_tokens = text.budget;
          session.generate(std::span(text.tokens).first(text.prompt_tokens), options);
          for (const auto& look : head.looks) {
            const int depth = kind.kind == HeadKind::kChained ? look.slot : 0;
            if (depth >= TuningTrace::kDepths) continue;
            const size_t cell =
                static_cast<size_t>(depth) * trace.n_rows() + trace.replies()[t].first + look.row;
            CHECK(look.confidence ==
                  doctest::Approx(trace.confidence(index, size, 1)[cell]).epsilon(1e-5));
            CHECK(trace.outcome(index, size)[cell] ==
                  (look.right ? Outcome::kRight : Outcome::kWrong));
            ++compared;
            deep += depth > 0;
            right += look.right;
          }
        }
      }
    }
    CHECK(compared > 500);
    CHECK(deep > 200);
    CHECK(right > 0);
  }
}

TEST_CASE("prefixes of a shortlist") {
  CHECK(shortlist_prefixes(1024) == std::vector<int>{256, 512, 1024});
  CHECK(shortlist_prefixes(1536) == std::vector<int>{384, 768, 1536});
  CHECK(shortlist_prefixes(300) == std::vector<int>{300});
  CHECK(shortlist_prefixes(64) == std::vector<int>{64});
  CHECK(shortlist_prefixes(1) == std::vector<int>{1});
  CHECK(shortlist_prefixes(0) == std::vector<int>{0});
}

}  // namespace replay_test
