// What can be done to a session besides generating: other settings between rounds, and a second
// look at the rows of a reply. Neither may leave a trace in what comes after.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "decode/generate.h"
#include "decode/layer_guesses.h"
#include "drafters/exit_head.h"
#include "drafters/ngram.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "forwarding_backend.h"

namespace session_changes_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 5, kVocab = 97;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

SamplingParams params(float temperature, uint64_t seed = 11) {
  SamplingParams p;
  p.temperature = temperature;
  p.seed = seed;
  return p;
}

SpecBoundParams eager() {
  SpecBoundParams p;
  p.tau = 0.02f;  // a random model is sure of nothing
  return p;
}

GenerateOptions budget(int tokens, uint32_t reply = 0) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.reply = reply;
  return options;
}

std::vector<int32_t> text_of(const Session& session) {
  return {session.tokens().begin(), session.tokens().end()};
}

// Hidden rows, logits, K and V of a text, by one row a pass.
Record record_of(const std::vector<int32_t>& text, int positions) {
  const auto backend = model().backend(Isa::kPortable, 1);
  Record record(model().config, positions);
  run_positions(*backend, text, 0, positions, 1, 0, record);
  return record;
}

Record kv_of(const Backend& backend, int positions) {
  Record record(model().config, positions);
  for (int pos = 0; pos < positions; ++pos) record.read_kv(backend, pos);
  return record;
}

}  // namespace

TEST_CASE("sampling that changes within a reply holds from the next round on, drafts or none") {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  const SamplingParams first = params(0.7f), second = params(1.4f, 99);
  std::vector<int32_t> texts[2];
  for (const bool speculate : {false, true}) {
    const auto backend = model().backend(best_isa(), 1);
    LensHead head;
    SpecBound speculator(head, eager(), kLayers);
    Session session(*backend, Sampler(first));
    if (speculate) session.set_speculator(&speculator);
    GenerateOptions options;
    options.max_tokens = 40;
    int changed_at = -1;
    options.on_round = [&](const RoundEvent& event) {
      if (changed_at >= 0 || event.pos + static_cast<int>(event.tokens.size()) < 20) return;
      changed_at = static_cast<int>(session.tokens().size());
      session.set_sampling(second);
    };
    session.generate(prompt, options);
    REQUIRE(changed_at > 0);
    texts[speculate] = text_of(session);

    // By hand: the first tokens with one sampler, the rest with the other.
    const Record record =
        record_of(texts[speculate], static_cast<int>(texts[speculate].size()) - 1);
    Sampler before(first), after(second);
    for (size_t pos = prompt.size(); pos < texts[speculate].size(); ++pos) {
      const bool changed = static_cast<int>(pos) >= changed_at;
      Sampler& sampler = changed ? after : before;
      const std::span<const float> z(record.logits.data() + (pos - 1) * kVocab, kVocab);
      const std::span<const int32_t> history(texts[speculate].data(), pos);
      CHECK(sampler.sample(z, history,
                           {changed ? second.seed : first.seed, 0, static_cast<uint32_t>(pos)}) ==
            texts[speculate][pos]);
    }
  }
}

TEST_CASE("sampling that makes no sense is refused, and what was stays") {
  const auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0.7f)));
  for (const float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    SamplingParams p = params(bad, 5);
    check_mentions(expect_error(ErrorCode::kUsage, [&] { session.set_sampling(p); }), {"--temp"});
    CHECK(session.sampler().params().temperature == 0.7f);
    CHECK(session.sampler().params().seed == 11);
  }
}

TEST_CASE("drafting that is switched, changed and exchanged between rounds changes no token") {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  for (const float temperature : {0.0f, 0.9f}) {
    const auto plain_backend = model().backend(best_isa(), 1);
    Session plain(*plain_backend, Sampler(params(temperature)));
    GenerateOptions options;
    options.max_tokens = 120;
    plain.generate(prompt, options);

    const auto backend = model().backend(best_isa(), 1);
    LensHead head;
    SpecBound speculator(head, eager(), kLayers);
    NgramSpeculator ngram(2, 5);
    Session session(*backend, Sampler(params(temperature)));
    TinyRandom random(3);
    int width = 1, deepest = kLayers - 1, drafted = 0, shallow = 0;
    options.on_round = [&](const RoundEvent& event) {
      // What was asked for after the round before.
      CHECK(static_cast<int>(event.rows.size()) <= width);
      drafted += event.drafted();
      for (const RowEvent& row : event.rows) {
        for (const ExitCheck& check : row.checks) CHECK(check.layer <= deepest);
        if (width == 3 && row.exit_layer == 1) ++shallow;
      }
      SpecBoundParams next = eager();
      width = 1;
      deepest = kLayers - 1;
      switch (random.next() % 4) {
        case 0:
          session.set_speculator(nullptr);
          break;
        case 1:
          session.set_speculator(&ngram);
          width = 5;
          break;
        case 2:
          next.w_max = width = 3;
          next.check_layers = {1};
          deepest = 1;
          speculator.set_params(next);
          session.set_speculator(&speculator);
          break;
        case 3:
          next.d_max = deepest = 2;
          width = 8;
          speculator.set_params(next);
          session.set_speculator(&speculator);
      }
    };
    const GenerateStats stats = session.generate(prompt, options);
    CHECK(text_of(session) == text_of(plain));
    CHECK(stats.speculated);  // later on
    CHECK(drafted > 20);
    CHECK(shallow > 0);
  }
}

TEST_CASE("a speculator that is set within a reply begins with the text so far, once") {
  class Watched final : public Speculator {
   public:
    const char* name() const override { return "watched"; }
    int width() const override { return 4; }
    void begin(std::span<const int32_t> text) override { begun.push_back(text.size()); }
    DraftEnd draft(Round&) override { return DraftEnd::kPlain; }
    std::vector<size_t> begun;
  };
  const auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0)));
  Watched a, b;
  session.set_speculator(&a);
  GenerateOptions options;
  options.max_tokens = 12;
  options.on_round = [&](const RoundEvent& event) {
    if (event.round == 2) session.set_speculator(&b);
    if (event.round == 3) session.set_speculator(&b);  // may be another one where that was
    if (event.round == 5) session.set_speculator(nullptr);
    if (event.round == 6) session.set_speculator(&a);
  };
  session.generate(token_ids(9, kVocab), options);
  CHECK(a.begun == std::vector<size_t>{9, 16});
  CHECK(b.begun == std::vector<size_t>{12, 13});
  session.generate(token_ids(9, kVocab), budget(1));
  CHECK(a.begun.back() == 9);
}

TEST_CASE("a second look shows the rows that decoding had, and leaves the cache to the bit") {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  const auto backend = model().backend(best_isa(), 2);
  LensHead head;
  SpecBound speculator(head, eager(), kLayers);
  Session session(*backend, Sampler(params(0.8f)));
  session.set_speculator(&speculator);
  session.generate(prompt, budget(50));
  const std::vector<int32_t> text = text_of(session);
  const int n = static_cast<int>(text.size()) - 1;
  REQUIRE(session.first_decoded() == 8);
  const Record expected = record_of(text, n), before = kv_of(*backend, n);
  CHECK(Record::difference(before, kv_of(*backend, n), 0, n).empty());

  struct Range {
    int from, to;
  };
  for (const Range& range :
       {Range{8, n}, {8, 9}, {n - 1, n}, {20, 37}, {12, 28}, {30, 30}, {n, n}}) {
    CAPTURE(range.from);
    CAPTURE(range.to);
    int next = range.from, layer_before = 0;
    std::vector<float> logits(size_t(kMaxRows) * kVocab);
    CHECK(session.revisit(range.from, range.to, [&](int layer, int pos, int rows) {
      CHECK(layer == layer_before % kLayers + 1);
      layer_before = layer;
      CHECK(pos == next);
      CHECK(rows >= 1);
      CHECK(rows <= kMaxRows);
      CHECK(pos + rows <= range.to);
      for (int i = 0; i < rows; ++i) {
        const size_t at = (size_t(pos + i) * kLayers + layer - 1) * model().config.dim;
        CHECK(same_bits(backend->inspect().hidden(i).data(), &expected.hidden[at],
                        model().config.dim));
      }
      if (layer == kLayers) {
        backend->logits(0, rows, logits.data());
        CHECK(same_bits(logits.data(), &expected.logits[size_t(pos) * kVocab],
                        size_t(rows) * kVocab));
        next += rows;
      }
      return true;
    }));
    CHECK(next == range.to);
    for (int l = 1; l <= kLayers; ++l) CHECK(backend->kv_len(l) == n);
    CHECK(Record::difference(before, kv_of(*backend, n), 0, n).empty());
  }
}

TEST_CASE("looks between replies, ended wherever, leave no trace in the conversation") {
  const auto conversation = [&](bool look) {
    const auto backend = model().backend(best_isa(), 1);
    LensHead head;
    SpecBound speculator(head, eager(), kLayers);
    Session session(*backend, Sampler(params(0.9f)));
    session.set_speculator(&speculator);
    TinyRandom random(5);
    std::vector<int32_t> prompt = token_ids(7, kVocab);
    for (int turn = 0; turn < 6; ++turn) {
      // A message is answered again, or another one follows.
      session.generate(prompt, budget(21, static_cast<uint32_t>(turn)));
      if (look) {
        const int from = session.first_decoded();
        const int to = static_cast<int>(session.tokens().size()) - 1;
        for (int i = 0; i < 3; ++i) {
          int left = i == 0 ? 1000 : static_cast<int>(random.next() % 12);
          const bool all = session.revisit(from, to, [&](int, int, int) { return left-- > 0; });
          CHECK(all == (left >= 0));
          for (int l = 1; l <= kLayers; ++l) CHECK(backend->kv_len(l) == to);
        }
      }
      if (turn % 3 != 2) continue;
      prompt.assign(session.tokens().begin(), session.tokens().end());
      prompt.push_back(7 + turn);
    }
    return text_of(session);
  };
  CHECK(conversation(true) == conversation(false));
}

TEST_CASE("there is nothing to look at where nothing was decoded") {
  const auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0)));
  const auto never = [](int, int, int) {
    FAIL_CHECK("no row was decoded");
    return true;
  };
  CHECK(session.first_decoded() == 0);
  CHECK(session.revisit(0, 0, never));
  session.generate(token_ids(9, kVocab), budget(0));
  CHECK(session.first_decoded() == 8);
  CHECK(session.revisit(8, 8, never));

  // Another prompt, stopped on the way through it.
  std::atomic<bool> abort{false};
  GenerateOptions options;
  options.abort = &abort;
  options.on_prefill = [&](int, int) { abort = true; };
  CHECK(session.generate(token_ids(200, kVocab, 9), options).stop == StopReason::kAborted);
  CHECK(session.first_decoded() == 199);
  CHECK(session.revisit(199, 199, never));
}

TEST_CASE("an exception within a look loses no text: the next reply is as if it had not been") {
  class Failing final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void run_layers(int slot, int n, int pos, int from, int to) override {
      ForwardingBackend::run_layers(slot, n, pos, from, to);
      if (left >= 0 && left-- == 0) throw Error(ErrorCode::kDevice, "planted");
    }
    int left = -1;
  };
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  std::vector<int32_t> expected;
  for (int left = -1; left < 2 * kLayers; ++left) {
    CAPTURE(left);
    Failing backend(model().backend(best_isa(), 1));
    Session session(backend, Sampler(params(0.8f)));
    session.generate(prompt, budget(30));
    backend.left = left;
    const auto look = [&] { session.revisit(8, 38, [](int, int, int) { return true; }); };
    if (left < 0) {
      look();
    } else {
      CHECK_THROWS_WITH_AS(look(), "planted", Error);
    }
    std::vector<int32_t> more = text_of(session);
    more.push_back(3);
    session.generate(more, budget(10));
    if (left < 0) expected = text_of(session);
    CHECK(text_of(session) == expected);
  }
}

TEST_CASE("the guesses of every layer are the logit lens's, the last one's the model's own") {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  const auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0)));
  session.generate(prompt, budget(37));
  const std::vector<int32_t> text = text_of(session);
  const int n = static_cast<int>(text.size()) - 1;

  // By hand, a row at a time.
  const auto other = model().backend(Isa::kPortable, 1);
  std::vector<float> z(kVocab);
  std::vector<std::vector<LayerTop>> expected(static_cast<size_t>(n));
  for (int pos = 0; pos < n; ++pos) {
    other->embed(0, text[pos]);
    for (int l = 1; l <= kLayers; ++l) {
      other->run_layers(0, 1, pos, l, l);
      other->logits(0, 1, z.data());
      const auto top = static_cast<int32_t>(std::max_element(z.begin(), z.end()) - z.begin());
      double sum = 0;
      for (const float value : z) sum += std::exp(double(value) - z[top]);
      expected[pos].push_back({top, static_cast<float>(1 / sum)});
    }
  }
  int rows = 0;
  const auto check = [&](int row, std::span<const LayerTop> layers) {
    ++rows;
    REQUIRE(layers.size() == kLayers);
    for (int l = 1; l <= kLayers; ++l) {
      CHECK(layers[l - 1].token == expected[row][l - 1].token);
      CHECK(layers[l - 1].probability == doctest::Approx(expected[row][l - 1].probability));
    }
    CHECK(layers.back().token == text[row + 1]);  // decoded greedily
  };
  CHECK(guess_layers(session, 8, n, check, [] { return true; }));
  CHECK(rows == n - 8);
  CHECK(guess_layers(session, 20, 20, check, [] { return true; }));
  CHECK(rows == n - 8);
  rows = 0;
  int asked = 0;
  CHECK(!guess_layers(session, 8, n, check, [&] { return ++asked <= kLayers + 2; }));
  CHECK(rows == kMaxRows);
  CHECK(asked == kLayers + 3);
}

TEST_CASE("logits of nothing but NaN and infinity give guesses all the same") {
  class Broken final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void logits(int slot, int n, float* out) override {
      ForwardingBackend::logits(slot, n, out);
      if (!broken) return;
      for (int i = 0; i < n * kVocab; ++i) out[i] = i % kVocab < at ? NAN : 0;
    }
    bool broken = false;
    int at = kVocab;
  };
  Broken backend(model().backend(best_isa(), 1));
  Session session(backend, Sampler(params(0)));
  session.generate(token_ids(9, kVocab), budget(5));
  backend.broken = true;
  for (const int at : {kVocab, 40}) {
    backend.at = at;
    guess_layers(
        session, 8, 12,
        [&](int, std::span<const LayerTop> layers) {
          for (const LayerTop& top : layers) {
            CHECK(top.token == (at == kVocab ? 0 : at));
            CHECK(top.probability >= 0);
            CHECK(top.probability <= 1);
          }
        },
        [] { return true; });
  }
}

}  // namespace session_changes_test
