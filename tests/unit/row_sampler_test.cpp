// Draws that are left to the backend: the loop's events are those of a backend that hands its
// logits over, whatever the sampling, the heads and the logits; and logits come over only where the
// head of a row does not decide.
#include "decode/row_sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "decode/side_by_side.h"
#include "drafters/draft_model.h"
#include "drafters/exit_head.h"
#include "drafters/specbound.h"
#include "drawing_backend.h"
#include "engine_rig.h"
#include "loop_events.h"
#include "temp_dir.h"
#include "test_speculators.h"
#include "tiny_heads.h"

namespace row_sampler_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 4, kVocab = 700, kList = 480;  // more than the head of a row

const TinyModel& model() {
  static const TinyModel model([] {
    TinySpec spec = q8_0_spec(kLayers);
    spec.vocab_size = kVocab;
    return spec;
  }());
  return model;
}

const ExitHeads& heads() {
  static const ExitHeads heads = [] {
    const TempDir folder;
    const std::string path = folder / "m.heads.gguf";
    write_exit_heads(path, random_heads(heads_base(model().gguf, model().config), kList));
    return ExitHeads::open(path, model().gguf, model().config);
  }();
  return heads;
}

SamplingParams sampling(float temperature, int top_k = 0, float top_p = 1, float min_p = 0,
                        float penalty = 1, int last_n = 64) {
  return {temperature, top_k, top_p, min_p, penalty, last_n, 11};
}

// Of every kind: to the end in the backend, by the head of the row, with weights or without, and
// some that the head does not decide (a flat model: 0.999 of the weight is more than 256 tokens).
const std::vector<SamplingParams> kSamplings = {
    sampling(0),
    sampling(0, 40, 0.9f, 0.1f, 1.3f),
    sampling(0.8f),
    sampling(1.3f, 0, 1, 0, 1.2f, -1),
    sampling(0.8f, 40, 0.95f, 0.05f),
    sampling(1, 0, 0.3f, 0),
    sampling(1, 0, 0.999f, 0),
    sampling(1, 300, 0.9f, 0.5f, 0.8f, 3),
    sampling(1.5f, 0, 1, 0.3f, 1.1f),
    sampling(1.5f, 256, 0.999f, 0),
};

std::vector<std::string> events(Backend& backend, Speculator* speculator,
                                const SamplingParams& params) {
  return loop_events(backend, speculator, params, token_ids(9, kVocab), 24);
}

struct Drawing {
  DrawingBackend backend{model().backend(best_isa(), 1)};
  Drawing() { backend.set_exit_heads(&heads(), kList); }
};

}  // namespace

TEST_CASE("device sampling: what the sampler asks for") {
  const auto rule = [](const SamplingParams& params) { return Sampler(params).rule(3); };
  const DrawRule plain = rule(sampling(0.5f, 0, 1, 0, 1.5f, 7));
  CHECK(plain.seed == 11);
  CHECK(plain.reply == 3);
  CHECK(plain.temperature == 0.5f);
  CHECK(plain.repeat_penalty == 1.5f);
  CHECK(plain.repeat_last_n == 7);
  CHECK(!plain.filtered);
  CHECK(!plain.weigh);
  CHECK(!rule(sampling(0, 40, 0.9f, 0.1f)).filtered);  // the filters keep the best
  CHECK(rule(sampling(1, 40)).filtered);
  CHECK(rule(sampling(1, 0, 0.9f)).filtered);
  CHECK(rule(sampling(1, 0, 1, 0.1f)).filtered);
  CHECK(!rule(sampling(1, 40)).weigh);
  CHECK(!rule(sampling(1, 256, 0.9f)).weigh);
  CHECK(rule(sampling(1, 257, 0.9f)).weigh);
  CHECK(rule(sampling(1, 0, 0.9f)).weigh);
  CHECK(!rule(sampling(1, 0, 1, 0.1f)).weigh);
  const auto without_text = [](const SamplingParams& params) {
    return Sampler(params).rule_without_text(3).has_value();
  };
  CHECK(without_text(sampling(0, 300)));
  CHECK(without_text(sampling(1, 256, 0.9f)));
  CHECK(without_text(sampling(1, 0, 0.9f)));
  CHECK(!without_text(sampling(1, 257, 0.9f)));  // the head of a row has 256 tokens
  CHECK(!without_text(sampling(1)));
  CHECK(!without_text(sampling(0, 0, 1, 0, 1.1f)));
}

TEST_CASE("device sampling: plain replies are the sampler's, and rows stay where they are") {
  const auto plain = model().backend(best_isa(), 1);
  int undecided = 0;
  for (const SamplingParams& params : kSamplings) {
    for (const int every_open : {0, 3}) {
      CAPTURE(params.temperature);
      CAPTURE(params.top_p);
      CAPTURE(every_open);
      Drawing drawing;
      drawing.backend.every_open = every_open;
      plain->truncate(0);
      REQUIRE(events(drawing.backend, nullptr, params) == events(*plain, nullptr, params));
      CHECK(drawing.backend.draw_calls == 24);
      if (!Sampler(params).rule(0).filtered) CHECK(drawing.backend.logits_calls == 0);
      if (every_open) CHECK(drawing.backend.logits_calls >= drawing.backend.filtered_rows / 3);
      if (every_open) continue;
      undecided += drawing.backend.logits_calls;
      if (params.top_p < 0.5f) CHECK(drawing.backend.logits_calls == 0);  // weights tell
    }
  }
  CHECK(undecided > 24);
}

TEST_CASE("device sampling: drafts by every head and rule are the sampler's") {
  const auto plain = model().backend(best_isa(), 1);
  plain->set_exit_heads(&heads(), kList);
  int drawn = 0, not_drawn = 0, undecided = 0;
  struct Rule {
    ConfidenceRule rule;
    float tau;
  };
  for (const HeadKind kind : {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained}) {
    // Peaks of so many tokens are lower than 0.05: most rows stay, and nothing is drawn.
    for (const Rule& rule : {Rule{ConfidenceRule::kPeak, 0.002f},
                             {ConfidenceRule::kPeak, 0.05f},
                             {ConfidenceRule::kMargin, 0}}) {
      for (const SamplingParams& params : kSamplings) {
        CAPTURE(std::string(head_kind_name(kind)));
        CAPTURE(rule.tau);
        CAPTURE(params.temperature);
        CAPTURE(params.top_p);
        SpecBoundParams settings;
        settings.check_layers = heads().layers(kind);
        settings.tau = rule.tau;
        settings.w_max = 5;
        const auto found = [&](Backend& backend) {
          TrainedHead head(heads(), kind, rule.rule);
          SpecBound speculator(head, settings, kLayers);
          backend.truncate(0);
          return events(backend, &speculator, params);
        };
        Drawing drawing;
        drawing.backend.every_open = 7;
        REQUIRE(found(drawing.backend) == found(*plain));
        drawn += drawing.backend.exit_draws - drawing.backend.exits_not_drawn;
        not_drawn += drawing.backend.exits_not_drawn;
        undecided += drawing.backend.exit_logits_calls;
        if (rule.tau < 0.05f) CHECK(drawing.backend.exits_not_drawn == 0);
        if (!Sampler(params).rule(0).filtered) CHECK(drawing.backend.exit_logits_calls == 0);
        // A greedy draft without a penalty is the check's own peak.
        const bool by_peak = rule.rule == ConfidenceRule::kPeak && params.temperature == 0 &&
                             params.repeat_penalty == 1;
        if (by_peak) CHECK(drawing.backend.exit_draws == 0);
        if (!by_peak) CHECK(drawing.backend.exit_checks == 0);
      }
    }
  }
  CHECK(drawn > 500);
  CHECK(not_drawn > 500);
  CHECK(undecided > 50);
}

TEST_CASE("device sampling: a bias and penalties of the reply leave nothing to the device") {
  const auto plain = model().backend(best_isa(), 1);
  plain->set_exit_heads(&heads(), kList);
  for (int kind = 0; kind < 3; ++kind) {
    for (const float temperature : {0.0f, 0.8f}) {
      CAPTURE(kind);
      CAPTURE(temperature);
      const SamplingParams unchanged = sampling(temperature);
      SamplingParams params = unchanged;
      if (kind == 0) params.frequency_penalty = -2;
      if (kind == 1) params.presence_penalty = -2;
      if (kind == 2) params.logit_bias = {{3, 4}, {600, -2}, {7, 0.5f}};
      for (const bool drafts : {false, true}) {
        SpecBoundParams settings;
        settings.check_layers = heads().layers(HeadKind::kFolded);
        settings.tau = 0;
        const auto found = [&](Backend& backend, const SamplingParams& p) {
          TrainedHead head(heads(), HeadKind::kFolded);
          SpecBound speculator(head, settings, kLayers);
          backend.truncate(0);
          return events(backend, drafts ? &speculator : nullptr, p);
        };
        Drawing drawing;
        const std::vector<std::string> expected = found(*plain, params);
        REQUIRE(found(drawing.backend, params) == expected);
        CHECK(drawing.backend.draw_calls == 0);
        CHECK(drawing.backend.exit_draws == 0);
        CHECK(drawing.backend.logits_calls > 0);
        CHECK((drawing.backend.exit_logits_calls > 0) == drafts);
        CHECK(expected != found(*plain, unchanged));
      }
    }
  }
}

TEST_CASE("device sampling: rows of a tree are drawn for, but where the rule looks back") {
  const auto plain = model().backend(best_isa(), 1);
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  for (const SamplingParams& params : kSamplings) {
    CAPTURE(params.temperature);
    CAPTURE(params.top_p);
    CAPTURE(params.repeat_penalty);
    plain->truncate(0);
    Session session(*plain, Sampler(params));
    GenerateOptions options;
    options.max_tokens = 24;
    options.reply = 2;  // as loop_events has it
    session.generate(prompt, options);
    const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
    // Two rows behind the root and two behind the first of them; one of each two is right.
    TreeDrafts tree(5, [&](const Round& round) {
      const int parent = round.rows() <= 2 ? 0 : 1;
      const size_t next = round.history(parent).size();
      const int32_t right = next < text.size() ? text[next] : 0;
      return TreeDrafts::Draft{parent, (right + (round.rows() % 2 == 0)) % kVocab, 0};
    });
    Drawing drawing;
    plain->truncate(0);
    const std::vector<std::string> expected = events(*plain, &tree, params);
    REQUIRE(events(drawing.backend, &tree, params) == expected);
    const bool back = params.repeat_penalty != 1 || !(params.temperature == 0 || params.top_k > 0 ||
                                                      params.top_p < 1 || params.min_p > 0);
    CHECK(Sampler(params).rule(2).looks_back() == back);
    CHECK(drawing.backend.draw_calls >= (back ? 0 : 8));
    CHECK((drawing.backend.logits_calls > 0) >= back);
    if (!back && params.top_p < 0.5f) CHECK(drawing.backend.logits_calls == 0);
  }
}

namespace {

// A chain that stays by typical acceptance.
class TypicalChain final : public Speculator {
 public:
  const char* name() const override { return "typical"; }
  int width() const override { return 5; }
  bool decides_text() const override { return true; }
  DraftEnd draft(Round& round) override {
    if (round.sampler().params().temperature > 0) round.accept_typical();
    while (!round.full()) round.append((round.token(round.newest()) * 7 + 3) % kVocab, 0);
    return DraftEnd::kWidth;
  }
};

}  // namespace

TEST_CASE("device sampling: other rules judge by logits, which come over once a round") {
  const TinyModel near([] {
    TinySpec spec = q8_0_spec(2);
    spec.vocab_size = kVocab;
    return spec;
  }());
  const auto drafter = near.backend(best_isa(), 1), plain = model().backend(best_isa(), 1);
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  int judged = 0;
  for (size_t i = 0; i < 2 * std::size(kSamplings); ++i) {
    const SamplingParams& params = kSamplings[i / 2];
    const bool typical = i % 2 == 1;
    CAPTURE(params.temperature);
    CAPTURE(params.top_p);
    CAPTURE(typical);
    GenerateStats stats;
    const auto found = [&](Backend& backend) {
      DraftModel draft(*drafter, 5, 0, Acceptance::kRejection);
      TypicalChain chain;
      backend.truncate(0);
      Session session(backend, Sampler(params));
      session.set_speculator(typical ? static_cast<Speculator*>(&chain) : &draft);
      GenerateOptions options;
      options.max_tokens = 24;
      stats = session.generate(prompt, options);
      return std::vector<int32_t>(session.tokens().begin(), session.tokens().end());
    };
    const std::vector<int32_t> expected = found(*plain);
    Drawing drawing;
    REQUIRE(found(drawing.backend) == expected);
    // The last round drafts nothing: its row may be one that the head does not decide.
    const int calls = drawing.backend.draw_calls + drawing.backend.logits_calls;
    CHECK(calls >= stats.counters.rounds);
    CHECK(calls <= stats.counters.rounds + 1);
    if (params.temperature > 0) judged += stats.counters.drafted_tokens;
  }
  CHECK(judged > 100);
}

namespace {

// Logits of every kind in place of the model's.
class OddLogits final : public ForwardingBackend {
 public:
  explicit OddLogits(int kind) : ForwardingBackend(model().backend(best_isa(), 1)), kind_(kind) {
    TinyRandom random(kind + 1);
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (float& z : row_) {
      const uint64_t r = random.next() % 60;
      z = 3 * random.normal();
      if (kind_ == 0) z = -2.5f;
      if (kind_ == 1) z = r % 2 ? kNan : -kInf;
      if (kind_ == 2) z = r % 2 ? 0.0f : -0.0f;
      if (kind_ == 3) z = std::round(z);
      if (kind_ == 4 && r < 3) z = r == 0 ? kNan : r == 1 ? kInf : -kInf;
      if (kind_ == 5 && r < 40) z = r % 2 ? kNan : -kInf;
      if (kind_ == 6) z = r % 2 ? 3e38f : -3e38f;
    }
  }
  void logits(int, int n, float* out) override {
    for (int i = 0; i < n; ++i) std::copy_n(row_, kVocab, out + static_cast<size_t>(i) * kVocab);
  }
  ExitPeak exit_check(int head, int, float temperature) override {
    n_ = heads().heads()[head].kind == HeadKind::kFull ? kVocab : kList;
    return {confidence({row_, n_}, temperature), 0};
  }
  std::span<const float> exit_logits() const override { return {row_, n_}; }
  std::span<const int32_t> exit_ids() const override {
    if (n_ == kVocab) return {};
    return std::span(heads().shortlist()).first(n_);
  }

 private:
  int kind_;
  size_t n_ = 0;
  float row_[kVocab];
};

}  // namespace

TEST_CASE("device sampling: ties, NaN, infinities and rows of nothing at all") {
  for (int kind = 0; kind < 7; ++kind) {
    for (const SamplingParams& params : kSamplings) {
      CAPTURE(kind);
      CAPTURE(params.temperature);
      CAPTURE(params.top_p);
      OddLogits plain(kind);
      DrawingBackend drawing(std::make_unique<OddLogits>(kind));
      Sampler sampler(params);
      RowSampler expected(plain, sampler), found(drawing, sampler);
      const std::vector<int32_t> text = token_ids(30, kVocab);
      expected.start(3, 1, text, {});
      found.start(3, 1, text, {});
      for (int slot = 0; slot < 3; ++slot) {
        const auto history = std::span(text).first(28 + slot);
        REQUIRE(found.token(slot, 1, history) == expected.token(slot, 1, history));
      }
      for (const HeadKind head_kind : {HeadKind::kFull, HeadKind::kFolded}) {
        const int head = heads().find(head_kind, 1);
        const RowSampler::Row row{0, 1, text};
        double a = 0, b = 0;
        const int32_t token = expected.check(head, row, 1.2f, {.margin = true}).token(&b);
        REQUIRE(found.check(head, row, 1.2f, {.margin = true}).token(&a) == token);
        REQUIRE(a == b);
      }
    }
  }
}

TEST_CASE("device sampling: a differential backend sees the logits behind them, and a wrong draw") {
  const auto watch = [](Backend& backend, const SamplingParams& params) {
    DifferentialBackend differential(backend, 9 + 40, 40);
    CHECK(differential.samples_on_device());
    TrainedHead head(heads(), HeadKind::kFolded);
    SpecBoundParams settings;
    settings.check_layers = heads().layers(HeadKind::kFolded);
    settings.tau = 0;
    SpecBound speculator(head, settings, kLayers);
    GenerateOptions options;
    options.max_tokens = 40;
    const SideBySide reply =
        decode_side_by_side(backend, &differential, params, token_ids(9, kVocab), options,
                            [&](std::span<const int32_t>) { return &speculator; });
    // Rows after the last layer, and their logits.
    if (!reply.difference) CHECK(differential.rows_compared() >= 2 * 40);
    return reply;
  };
  for (const SamplingParams& params : {sampling(0), sampling(0.8f), sampling(1, 0, 0.999f)}) {
    Drawing drawing;
    CHECK(!watch(drawing.backend, params).difference);
    CHECK(drawing.backend.draw_calls > 40);
    CHECK(drawing.backend.exit_checks + drawing.backend.exit_draws > 40);
  }
  // In one of the two replies alone.
  class Fickle final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
              RowDraw* draws) override {
      inner_->device_sampling()->draw(slot, n, rule, text, draws);
      if (n > 1) draws[0].token = (draws[0].token + 1) % kVocab;
    }
  };
  auto inner = std::make_unique<DrawingBackend>(model().backend(best_isa(), 1));
  inner->set_exit_heads(&heads(), kList);
  Fickle fickle(std::move(inner));
  const SideBySide reply = watch(fickle, sampling(0));
  REQUIRE(reply.difference);
  CHECK(reply.difference->what == Difference::What::kToken);
}

}  // namespace row_sampler_test
