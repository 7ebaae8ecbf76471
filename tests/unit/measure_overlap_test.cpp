// What drafters share with the model: every figure against one worked out by hand from logits, one
// row at a time in rounds of a backend that has seen nothing of the text behind them.
#include "tune/measure_overlap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "decode/rejection.h"
#include "drafters/draft_verify.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "tiny_heads.h"
#include "token_distribution.h"

namespace measure_overlap_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Logits = std::vector<float>;
constexpr int kLayers = 4, kVocab = 97, kShortlist = 32, kSteps = 5;
constexpr float kUnhurried = 1000;  // seconds

// What a drafter says of a row: logits, and the tokens that they are of.
struct Says {
  Logits z;
  std::vector<int32_t> ids;
};

std::vector<double> softmax(const Says& said, double temperature) {
  double max = -INFINITY, total = 0;
  for (const float z : said.z) max = std::max(max, double{z});
  std::vector<double> p(kVocab);
  for (size_t i = 0; i < said.z.size(); ++i) {
    const double weight = std::exp((said.z[i] - max) / temperature);
    p[said.ids.empty() ? i : static_cast<size_t>(said.ids[i])] += weight;
    total += weight;
  }
  for (double& one : p) one /= total;
  return p;
}

double total_variation(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::fabs(p[i] - q[i]);
  return sum / 2;
}

int32_t likeliest(const std::vector<double>& p) {
  return static_cast<int32_t>(std::ranges::max_element(p) - p.begin());
}

// Over the whole vocabulary.
Logits padded(const Says& said) {
  if (said.ids.empty()) return said.z;
  Logits z(kVocab, -INFINITY);
  for (size_t i = 0; i < said.z.size(); ++i) z[static_cast<size_t>(said.ids[i])] = said.z[i];
  return z;
}

// argmax(ln q + G), whatever filters left.
int32_t drawn(const std::vector<double>& q, const DrawPlace& place) {
  std::pair<double, int32_t> best = {-INFINITY, 0};
  for (int32_t id = 0; id < kVocab; ++id) {
    best = std::max(best, {std::log(q[static_cast<size_t>(id)]) + gumbel(place, id), id});
  }
  return best.second;
}

struct Means {
  int64_t tokens = 0;
  double greedy = 0, drawn = 0, overlap = 0, unfiltered = 0;
};
// By drafter, layer and step; -1: none.
using Key = std::tuple<std::string, int, int>;
using Table = std::map<Key, Means>;

// Of one temperature.
Table table_of(const OverlapReport& report, float temperature) {
  Table table;
  for (const DrafterOverlap& one : report.drafters) {
    if (one.temperature != temperature) continue;
    const Key key = {one.drafter, one.layer.value_or(-1), one.step.value_or(-1)};
    CHECK(table.count(key) == 0);
    table[key] = {one.tokens, one.greedy, one.drawn, one.overlap, one.unfiltered};
  }
  return table;
}

// Every place of `text` by itself. `ask(step)` is what the drafter says of the row in slot `step`
// of the round whose root is at root(); rows before it are there.
class ByHand {
 public:
  ByHand(Backend& backend, Backend& plain, const ExitHeads* heads, const TuningText& text)
      : backend_(backend), plain_(plain), heads_(heads), text_(text) {}

  template <class Ask>
  void look(const std::string& name, int layer, int steps, const Ask& ask) {
    const SamplingParams& sampling = text_.sampling;
    for (int root = text_.prompt_tokens; root + 1 < std::ssize(text_.tokens); ++root) {
      begin(root);
      for (int step = 0; step < std::max(steps, 1); ++step) {
        const int at = root + step;
        if (at + 1 >= std::ssize(text_.tokens)) break;
        const Says said = ask(*this, step);
        const Says model{model_says(at), {}};
        Means& sums = table_[{name, layer, steps > 0 ? step + 1 : -1}];
        ++sums.tokens;
        const auto p = softmax(model, 1), q = softmax(said, 1);
        sums.unfiltered += 1 - total_variation(p, q);
        sums.greedy += likeliest(p) == likeliest(q);
        const auto next = text_.tokens.begin() + at + 1;
        if (sampling.temperature == 0) {
          const bool right = likeliest(q) == *next;
          sums.drawn += right;
          sums.overlap += right;
          if (!right) break;
          continue;
        }
        const Logits z = padded(said);
        const std::vector<int32_t> history(text_.tokens.begin(), next);
        const auto model_draws = distribution(sampling, model.z, history);
        const auto draws = distribution(sampling, z, history);
        const DrawPlace place{sampling.seed, 0, static_cast<uint32_t>(at + 1)};
        const bool right = drawn(draws, place) == *next;
        sums.drawn += right;
        sums.overlap += 1 - total_variation(model_draws, draws);
        if (!right) break;
      }
    }
  }

  // Row `slot` of the round, behind those before it, through the layers up to `layer`.
  void put(int slot, int layer) {
    backend_.embed(slot, text_.tokens[root_ + slot]);
    if (layer > 0) backend_.run_layers(slot, 1, root_ + slot, 1, layer);
  }
  Backend& backend() { return backend_; }
  int root() const { return root_; }
  Table table() const {
    Table means = table_;
    for (auto& [key, one] : means) {
      const auto n = static_cast<double>(one.tokens);
      for (double* sum : {&one.greedy, &one.drawn, &one.overlap, &one.unfiltered}) *sum /= n;
    }
    return means;
  }

 private:
  // Nothing but the text before the root is known.
  void begin(int root) {
    root_ = root;
    backend_.truncate(0);
    if (heads_) backend_.set_exit_heads(heads_, kShortlist);
    backend_.prefill(std::span(text_.tokens).first(static_cast<size_t>(root) - 1));
    backend_.embed(0, text_.tokens[root - 1]);
    backend_.run_layers(0, 1, root - 1, 1, kLayers);
    if (heads_) backend_.keep_state(0);
  }
  const Logits& model_says(int at) {
    Logits& z = model_[at];
    if (!z.empty()) return z;
    z.resize(kVocab);
    plain_.truncate(0);
    plain_.prefill(std::span(text_.tokens).first(static_cast<size_t>(at)));
    plain_.embed(0, text_.tokens[at]);
    plain_.run_layers(0, 1, at, 1, kLayers);
    plain_.logits(0, 1, z.data());
    return z;
  }

  Backend &backend_, &plain_;  // the other one decodes without drafts
  const ExitHeads* heads_;
  const TuningText& text_;
  std::map<int, Logits> model_;  // by the position of the row
  int root_ = 0;
  Table table_;
};

Says lens(Backend& backend, int slot) {
  Says said{Logits(kVocab), {}};
  backend.logits(slot, 1, said.z.data());
  return said;
}

void check_same(const Table& measured, const Table& expected) {
  for (const auto& one : expected) {
    const Key& key = one.first;
    const Means& want = one.second;
    CAPTURE(std::get<0>(key));
    CAPTURE(std::get<1>(key));
    CAPTURE(std::get<2>(key));
    REQUIRE(measured.count(key) == 1);
    const Means& found = measured.at(key);
    CHECK(found.tokens == want.tokens);
    CHECK(found.greedy == doctest::Approx(want.greedy).epsilon(1e-9));
    CHECK(found.drawn == doctest::Approx(want.drawn).epsilon(1e-9));
    CHECK(found.overlap == doctest::Approx(want.overlap).epsilon(1e-6));
    CHECK(found.unfiltered == doctest::Approx(want.unfiltered).epsilon(1e-6));
  }
  for (const auto& one : measured) {
    const Key& key = one.first;
    CAPTURE(std::get<0>(key));
    CHECK(expected.count(key) == 1);
  }
}

SamplingParams filtered() {
  SamplingParams params = open_params(1.5f);
  params.top_k = 4;
  params.top_p = 0.95f;
  params.min_p = 0.1f;
  params.repeat_penalty = 1.4f;
  return params;
}

const TinyModel& tiny() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

// The reply to a prompt of `n` tokens.
TuningText text_of(SamplingParams params, int n, int reply) {
  constexpr uint64_t seed = 3;
  params.seed = seed;
  const auto backend = tiny().backend(best_isa(), 1);
  Session session(*backend, Sampler(params));
  return *write_text(session, token_ids(n, kVocab, seed), reply, nullptr, nullptr);
}

// The hotter, the more drafts with the same noise are right.
TuningText text_of(float temperature, int n, int reply) {
  return text_of(open_params(temperature), n, reply);
}

// Draft & Verify as it drafts: one row after the other.
void look_without_layers(ByHand& hand) {
  const std::vector<int> skipped = default_skipped_layers(kLayers);
  hand.look("draft-verify", -1, kSteps, [&](ByHand& at, int step) {
    at.put(step, 0);
    for (int l = 1; l <= kLayers; ++l) {
      const bool skips = std::ranges::count(skipped, l) > 0;
      const auto run = skips ? &Backend::skip_layers : &Backend::run_layers;
      (at.backend().*run)(step, 1, at.root() + step, l, l);
    }
    return lens(at.backend(), step);
  });
}

// Takes 5 ms for what the model says at a place.
class SlowBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void logits(int slot, int n, float* out) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ForwardingBackend::logits(slot, n, out);
  }
};

Logits random_row(int n, uint64_t seed) {
  TinyRandom random(seed);
  Logits row(static_cast<size_t>(n));
  for (float& z : row) z = 2 * random.normal();
  return row;
}

TokenDistribution distribution_of(const SamplingParams& params, const Logits& row,
                                  const std::vector<int32_t>& history = {}) {
  TokenDistribution out;
  Sampler(params).distribution(row, history, out);
  return out;
}

}  // namespace

TEST_CASE("the overlap of two distributions is what total variation leaves") {
  const TokenDistribution p = {{1, 2, 5}, {0.5, 0.3, 0.2}}, q = {{2, 5, 7}, {0.6, 0.1, 0.3}};
  CHECK(overlap(p, q) == doctest::Approx(0.4));
  CHECK(overlap(q, p) == overlap(p, q));
  CHECK(overlap(p, p) == doctest::Approx(1));
  CHECK(overlap(p, {{0, 3, 9}, {0.2, 0.3, 0.5}}) == 0);
  for (const SamplingParams& params : {open_params(1), filtered()}) {
    const TokenDistribution one = distribution_of(params, random_row(40, 1));
    const TokenDistribution other = distribution_of(params, random_row(40, 2));
    double tv = 0;
    for (int id = 0; id < 40; ++id) tv += 0.5 * std::fabs(one.of(id) - other.of(id));
    CHECK(overlap(one, other) == doctest::Approx(1 - tv));
  }
}

TEST_CASE("the distribution of a row that speaks of some tokens is that without the others") {
  for (const SamplingParams& params : {open_params(1), filtered()}) {
    const Logits few = random_row(12, 3);
    Logits all(40, -INFINITY);
    std::vector<int32_t> ids;
    for (size_t i = 0; i < few.size(); ++i) {
      ids.push_back(static_cast<int32_t>(i * 17 % 40));  // in no order
      all[ids.back()] = few[i];
    }
    const std::vector<int32_t> history = {ids[3], 39, ids[0]};
    TokenDistribution out;
    Sampler(params).distribution(few, history, out, ids);
    const TokenDistribution expected = distribution_of(params, all, history);
    CHECK(out.ids == expected.ids);
    CHECK(out.probabilities == expected.probabilities);
  }
}

TEST_CASE("lenses share with the model what their logits say, worked out by hand") {
  const std::vector<TuningText> texts = {text_of(0.9f, 6, 30), text_of(0, 9, 20)};
  const auto backend = tiny().backend(best_isa(), 1), other = tiny().backend(best_isa(), 1),
             plain = tiny().backend(best_isa(), 1);
  OverlapOptions options;
  options.seconds = kUnhurried;
  const OverlapReport report = measure_overlap(*backend, texts, options);
  CHECK(report.complete);
  CHECK(report.replies == 2);
  CHECK(report.places == 29 + 19);
  CHECK(backend->kv_len(1) == 0);
  for (const TuningText& text : texts) {
    ByHand hand(*other, *plain, nullptr, text);
    for (int layer = 1; layer < kLayers; ++layer) {
      hand.look("lens", layer, 0, [&](ByHand& at, int step) {
        at.put(step, layer);
        return lens(at.backend(), step);
      });
    }
    look_without_layers(hand);
    check_same(table_of(report, text.sampling.temperature), hand.table());
  }
}

TEST_CASE("heads of every kind share with the model what their logits say, worked out by hand") {
  const HeadsBase base = heads_base(tiny().gguf, tiny().config);
  NewHeads file = random_heads(base, kShortlist);
  file.heads.push_back(random_layer(base, 64, 5));
  file.heads.push_back(random_medusa(base, 3, 1, 50));
  file.heads.push_back(random_eagle(base, 64, true, 60));
  file.heads.push_back(random_eagle3(base, 64, 90));
  file.heads.push_back(random_hydra(base, 2, 2, 120));
  file.heads.push_back(random_mtp(base, 64, true, 150));
  file.heads.push_back(random_kangaroo(base, 2, 190));
  const auto bytes = exit_heads_file("heads", file);
  const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);

  const std::vector<TuningText> texts = {text_of(6, 4, 40), text_of(0, 5, 16),
                                         text_of(filtered(), 4, 30)};
  const auto backend = tiny().backend(best_isa(), 1), other = tiny().backend(best_isa(), 1),
             plain = tiny().backend(best_isa(), 1);
  backend->set_exit_heads(&heads, kShortlist);
  OverlapOptions options;
  options.heads = &heads;
  options.shortlist = kShortlist;
  options.seconds = kUnhurried;
  const OverlapReport report = measure_overlap(*backend, texts, options);
  for (const TuningText& text : texts) {
    ByHand hand(*other, *plain, &heads, text);
    for (size_t i = 0; i < heads.heads().size(); ++i) {
      const HeadWeights& head = heads.heads()[i];
      const int steps = is_by_place(head.kind) ? static_cast<int>(head.medusa.size())
                        : has_state(head.kind) ? kSteps
                                               : 0;
      hand.look(head_kind_name(head.kind), head.layer, steps, [&](ByHand& at, int step) {
        at.put(step, head.layer);
        at.backend().exit_check(static_cast<int>(i), step, 1);
        const auto z = at.backend().exit_logits();
        const auto ids = at.backend().exit_ids();
        return Says{{z.begin(), z.end()}, {ids.begin(), ids.end()}};
      });
    }
    const Table expected = hand.table();
    check_same(table_of(report, text.sampling.temperature), expected);
    if (text.sampling.temperature != 6) continue;
    // Chains were right for a while, so that later steps are there too.
    for (const char* kind : {"chained", "layer", "eagle", "eagle3", "mtp"}) {
      CAPTURE(kind);
      CHECK(expected.count({kind, 0, 3}) == 1);
    }
    CHECK(expected.count({"medusa", 0, 3}) == 1);
    CHECK(expected.count({"medusa", 0, 4}) == 0);
  }
}

TEST_CASE("a drafter that is the model itself shares all with it, filters or not") {
  SamplingParams usual;
  usual.seed = 5;
  const auto backend = tiny().backend(best_isa(), 1), same = tiny().backend(best_isa(), 1);
  Session session(*backend, Sampler(usual));
  std::vector<TuningText> texts = {
      *write_text(session, token_ids(7, kVocab, 5), 24, nullptr, nullptr)};
  texts.push_back(text_of(0, 6, 12));
  OverlapOptions options;
  options.seconds = kUnhurried;
  options.draft_model = &*same;
  const OverlapReport report = measure_overlap(*backend, texts, options);
  int looked = 0;
  for (const DrafterOverlap& one : report.drafters) {
    CHECK(one.overlap <= 1 + 1e-12);
    if (one.drafter != "draft") continue;
    ++looked;
    CHECK_FALSE(one.layer);
    CHECK_FALSE(one.step);
    CHECK(one.tokens == (one.temperature > 0 ? 23 : 11));
    CHECK(one.greedy == 1);
    CHECK(one.drawn == 1);
    CHECK(one.overlap == doctest::Approx(1).epsilon(1e-12));
    CHECK(one.unfiltered == doctest::Approx(1).epsilon(1e-12));
  }
  CHECK(looked == 2);

  // Its context may be shorter; behind it there are no drafts.
  const auto brief = tiny().backend(best_isa(), 1, true, 12);
  options.draft_model = &*brief;
  for (const DrafterOverlap& one : measure_overlap(*backend, texts, options).drafters) {
    if (one.drafter == "draft" && one.temperature > 0) CHECK(one.tokens == 12 - 7);
  }
}

TEST_CASE("without time each reply has one place, and who says stop has no report") {
  const std::vector<TuningText> texts = {text_of(0.9f, 6, 30), text_of(0, 9, 20), text_of(0, 5, 1)};
  const auto backend = tiny().backend(best_isa(), 1);
  OverlapOptions options;
  options.seconds = 0;
  const OverlapReport report = measure_overlap(*backend, texts, options);
  CHECK(report.complete);
  CHECK(report.places == 2);  // no token follows a reply's only one
  for (const DrafterOverlap& one : report.drafters) CHECK(one.tokens == 1);

  int asked = 0;
  options.seconds = kUnhurried;
  options.progress = [&](int, int total) { return total == 3 && ++asked < 5; };
  CHECK_FALSE(measure_overlap(*backend, texts, options).complete);
  CHECK(asked == 5);
}

TEST_CASE("with little time places are left out evenly, and what stands between them is read") {
  const HeadsBase base = heads_base(tiny().gguf, tiny().config);
  const auto bytes = exit_heads_file("heads", random_heads(base, kShortlist));
  const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);
  const std::vector<TuningText> texts = {text_of(0.9f, 6, 60)};
  SlowBackend backend(tiny().backend(best_isa(), 1));
  const auto same = tiny().backend(best_isa(), 1);
  backend.set_exit_heads(&heads, kShortlist);
  OverlapOptions options;
  options.heads = &heads;
  options.shortlist = kShortlist;
  options.draft_model = &*same;
  options.seconds = 0.1;  // for 20 places at most
  const OverlapReport report = measure_overlap(backend, texts, options);
  CHECK(report.complete);
  CHECK(report.places <= 21);
  int looked = 0;
  for (const DrafterOverlap& one : report.drafters) {
    if (one.drafter != "draft") continue;
    ++looked;
    CHECK(one.tokens == report.places);
    CHECK(one.drawn == 1);
    CHECK(one.overlap == doctest::Approx(1).epsilon(1e-12));
  }
  CHECK(looked == 1);
}

TEST_CASE("lookups are counted where they find something, and where the likeliest is right") {
  TuningText text;
  text.tokens = {1, 2, 3, 4, 1, 2, 3, 4, 9, 8, 7, 1};
  text.prompt_tokens = 5;
  text.sampling = greedy_sampling();
  const auto backend = tiny().backend(best_isa(), 1);
  OverlapOptions options;
  options.seconds = 0;
  const OverlapReport report = measure_overlap(*backend, std::span(&text, 1), options);
  REQUIRE(report.lookups.size() == 1);
  CHECK(report.lookups[0].temperature == 0);
  CHECK(report.lookups[0].tokens == 7);
  CHECK(report.lookups[0].found == 4);  // behind 1, 2, 3 and 4; nothing stood behind 9, 8 and 7
  CHECK(report.lookups[0].right == 3);  // 2, 3, 4, but then 9
}

TEST_CASE("lenses are about a dozen, all below the last layer") {
  CHECK(lens_layers(1).empty());
  CHECK(lens_layers(2) == std::vector<int>{1});
  CHECK(lens_layers(4) == std::vector<int>{1, 2, 3});
  for (const int n : {12, 30, 80}) {
    const std::vector<int> layers = lens_layers(n);
    CHECK(layers.size() >= 8);
    CHECK(layers.size() <= 12);
    CHECK(layers.front() >= 1);
    CHECK(layers.back() < n);
  }
}

}  // namespace measure_overlap_test
