// Heads that draft from a table, in the real loop: the chained head behind a hybrid sees what it
// would have seen of every row.
#include "decode/table_head.h"

#include <doctest/doctest.h>

#include "decode/generate.h"
#include "decode/specbound.h"
#include "engine_rig.h"
#include "temp_dir.h"
#include "text_table.h"
#include "tiny_heads.h"
#include "trace/counters.h"

namespace table_head_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kVocab = 97, kPrompt = 7, kTokens = 60;

const TinyModel& model() {
  static const TinyModel model([] {
    TinySpec spec;
    spec.n_layers = 3;
    spec.type = DType::kQ8_0;
    spec.vocab_size = kVocab;
    spec.max_seq_len = 160;
    return spec;
  }());
  return model;
}

SamplingParams sampling(float temperature, float repeat_penalty = 1) {
  SamplingParams params;
  params.temperature = temperature;
  params.repeat_penalty = repeat_penalty;
  params.seed = 5;
  return params;
}

std::vector<int32_t> write(Backend& backend, Speculator* speculator, const SamplingParams& params,
                           Counters* counters = nullptr) {
  backend.truncate(0);
  Session session(backend, Sampler(params));
  session.set_speculator(speculator);
  GenerateOptions options;
  options.max_tokens = kTokens;
  options.on_round = [&](const RoundEvent& round) {
    if (counters) counters->add(round);
  };
  session.generate(token_ids(kPrompt, kVocab), options);
  return {session.tokens().begin(), session.tokens().end()};
}

SpecBoundParams settings(float tau, int w_max = 8) {
  SpecBoundParams params;
  params.check_layers = {0};
  params.tau = tau;
  params.w_max = w_max;
  params.alpha = 0;
  return params;
}

using Log = std::vector<std::pair<size_t, std::vector<float>>>;  // length of history, z

// A hybrid that keeps what its chained head saw.
class LoggedHybrid final : public ExitHead {
 public:
  Log log;
  LoggedHybrid(const DraftTable& table, const ExitHeads& heads, float tau)
      : table_(table), hybrid_(table, heads, tau), tau_(tau) {}
  const char* name() const override { return "logged"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override {
    const auto history = round.history(round.newest());
    const bool by_table = table_.lookup(history).confidence(temperature) >= tau_;
    const auto token = hybrid_.check(round, layer, temperature, should_exit);
    if (!by_table && has_state_) {
      const auto z = round.backend().exit_logits();
      log.emplace_back(history.size(), std::vector<float>(z.begin(), z.end()));
    }
    return token;
  }
  void begin() override {
    hybrid_.begin();
    has_state_ = false;
  }
  void on_commit(Backend& backend, int slot) override {
    hybrid_.on_commit(backend, slot);
    has_state_ = true;
  }

 private:
  const DraftTable& table_;
  TableOrChainedHead hybrid_;
  float tau_;
  bool has_state_ = false;
};

// The same decisions, the chained head looking at every row.
class EveryRow final : public ExitHead {
 public:
  Log log;
  EveryRow(const DraftTable& table, const ExitHeads& heads, float tau)
      : table_head_(table), chained_(heads, HeadKind::kChained), tau_(tau) {}
  const char* name() const override { return "every row"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override {
    float p = 0, q = 0;
    std::optional<int32_t> drafted;
    const auto always = [](float& confidence) {
      return [&](float found, std::optional<float>) {
        confidence = found;
        return true;
      };
    };
    if (chained_.ready()) drafted = chained_.check(round, layer, temperature, always(q));
    const auto listed = table_head_.check(round, layer, temperature, always(p));
    if (p >= tau_ || !chained_.ready()) return should_exit(p, tau_) ? listed : std::nullopt;
    const auto z = round.backend().exit_logits();
    log.emplace_back(round.history(round.newest()).size(), std::vector<float>(z.begin(), z.end()));
    return should_exit(q, {}) ? drafted : std::nullopt;
  }
  void begin() override { chained_.begin(); }
  void on_commit(Backend& backend, int slot) override { chained_.on_commit(backend, slot); }

 private:
  TableHead table_head_;
  TrainedHead chained_;
  float tau_;
};

}  // namespace

TEST_CASE("a hybrid leaves the text alone and makes up for the states of rows it skipped") {
  const TempDir folder;
  const std::string path = folder / "heads.gguf";
  write_exit_heads(path, random_heads(heads_base(model().gguf, model().config), 64));
  const ExitHeads heads = ExitHeads::open(path, model().gguf, model().config);
  const auto backend = model().backend(best_isa(), 1);
  backend->set_exit_heads(&heads, 64);
  size_t compared = 0;
  for (const float temperature : {0.0f, 0.7f}) {
    const SamplingParams params = sampling(temperature);
    const std::vector<int32_t> plain = write(*backend, nullptr, params);
    for (const double wrong : {0.1, 0.5}) {
      // Half of the contexts are not sure.
      NewDraftTable made = table_of(plain, kPrompt, kVocab, wrong, 4);
      TinyRandom random(8);
      for (uint16_t& log_p : made.log_p) {
        if (random.next() % 2) log_p = 0xd000;  // -32
      }
      const DraftTable table(made.arrays());
      // A threshold that the random chained head passes often.
      const float tau = 0.02f, table_tau = 0.9f;
      LoggedHybrid hybrid(table, heads, table_tau);
      SpecBound speculator(hybrid, settings(tau, 12), model().config.n_layers);
      CHECK(write(*backend, &speculator, params) == plain);
      EveryRow every(table, heads, table_tau);
      SpecBound reference(every, settings(tau, 12), model().config.n_layers);
      CHECK(write(*backend, &reference, params) == plain);
      REQUIRE(hybrid.log.size() == every.log.size());
      for (size_t i = 0; i < every.log.size(); ++i) {
        CHECK(hybrid.log[i].first == every.log[i].first);
        REQUIRE(hybrid.log[i].second.size() == 64);
        CHECK(same_bits(hybrid.log[i].second.data(), every.log[i].second.data(), 64));
      }
      compared += every.log.size();
    }
  }
  CHECK(compared > 60);
}

}  // namespace table_head_test
