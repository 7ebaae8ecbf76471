// The decode loop on the CUDA engine, which draws: the same events as on the CPU backend, and as on
// the engine when its logits come over; one wait for a check, one for a round's draws, none else.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "decode/side_by_side.h"
#include "drafters/draft_verify.h"
#include "drafters/space.h"
#include "drafters/specbound.h"
#include "simt/cuda_rig.h"
#include "simt/reply_rig.h"
#include "unit/forwarding_backend.h"
#include "unit/loop_events.h"
#include "unit/temp_dir.h"
#include "unit/test_speculators.h"
#include "unit/tiny_heads.h"

namespace cuda_loop_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// The list is the vocabulary: beside a shorter one the CPU also says tokens of the text.
constexpr int kLayers = 3, kVocab = 403, kList = kVocab, kTokens = 8;

TinyModel make_model(DType type) {
  TinySpec spec = q8_0_spec(kLayers);
  spec.type = type;
  spec.vocab_size = kVocab;
  return TinyModel(spec);
}

ExitHeads heads_for(const TinyModel& model) {
  const TempDir folder;
  const std::string path = folder / "heads.gguf";
  write_exit_heads(path, random_heads(heads_base(model.gguf, model.config), kList));
  return ExitHeads::open(path, model.gguf, model.config);
}

SamplingParams sampling(float temperature, int top_k = 0, float top_p = 1, float penalty = 1) {
  return {temperature, top_k, top_p, 0, penalty, 64, 5};
}

// Counts what each kind of call waits for.
class WaitCounter final : public ForwardingBackend {
 public:
  WaitCounter(std::unique_ptr<Backend> inner, const simt::DeviceLog& log, bool draws)
      : ForwardingBackend(std::move(inner)), log_(log), draws_(draws) {}

  int draw_calls = 0, checks = 0, passes = 0, logits_calls = 0;
  int draw_waits = 0, check_waits = 0, pass_waits = 0;

  DeviceSampling* device_sampling() override { return draws_ ? this : nullptr; }
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override {
    ++draw_calls;
    count(draw_waits, [&] { inner_->device_sampling()->draw(slot, n, rule, text, draws); });
  }
  ExitPeak exit_check(int head, int slot, float temperature) override {
    ++checks;
    return count(check_waits, [&] { return inner_->exit_check(head, slot, temperature); });
  }
  ExitPeak exit_draw(int head, int slot, float temperature, float least, const DrawRule& rule,
                     std::span<const int32_t> text, std::optional<RowDraw>& draw) override {
    ++checks;
    return count(check_waits, [&] {
      return inner_->device_sampling()->exit_draw(head, slot, temperature, least, rule, text, draw);
    });
  }
  void run_layers(int slot, int n, int pos, int from, int to) override {
    ++passes;
    count(pass_waits, [&] { inner_->run_layers(slot, n, pos, from, to); });
  }
  void embed(int slot, int32_t token) override {
    count(pass_waits, [&] { inner_->embed(slot, token); });
  }
  void keep_state(int slot) override {
    count(pass_waits, [&] { inner_->keep_state(slot); });
  }
  void truncate(int len) override {
    count(pass_waits, [&] { inner_->truncate(len); });
  }
  void logits(int slot, int n, float* out) override {
    ++logits_calls;
    inner_->logits(slot, n, out);
  }

 private:
  template <class Call>
  std::invoke_result_t<Call> count(int& waits, const Call& call) {
    struct Counted {
      const simt::DeviceLog& log;
      int& waits;
      int before = log.synchronizations;
      ~Counted() { waits += log.synchronizations - before; }
    } counted{log_, waits};
    return call();
  }

  const simt::DeviceLog& log_;
  const bool draws_;
};

}  // namespace

namespace {

struct Case {
  DType type;
  HeadKind kind;
  ConfidenceRule rule;
  SamplingParams params;
};

}  // namespace

TEST_CASE("CUDA engine, the loop: the CPU's events under every sampling, one wait a check") {
  constexpr auto kPeak = ConfidenceRule::kPeak, kMargin = ConfidenceRule::kMargin;
  const SamplingParams penalized = sampling(0.8f, 0, 1, 1.2f), filtered = sampling(0.9f, 40, 0.95f),
                       open = sampling(1.5f, 0, 0.999f);  // more tokens than the head of a row
  for (const Case& c : std::vector<Case>{{DType::kQ8_0, HeadKind::kChained, kPeak, sampling(0)},
                                         {DType::kQ8_0, HeadKind::kFolded, kMargin, sampling(0)},
                                         {DType::kQ8_0, HeadKind::kFolded, kPeak, penalized},
                                         {DType::kQ8_0, HeadKind::kChained, kPeak, filtered},
                                         {DType::kQ8_0, HeadKind::kFolded, kMargin, open},
                                         {DType::kQ8_0, HeadKind::kFull, kPeak, open},
                                         {DType::kF16, HeadKind::kChained, kMargin, penalized},
                                         {DType::kF16, HeadKind::kFull, kPeak, filtered}}) {
    CAPTURE(std::string(dtype_info(c.type)->name));
    CAPTURE(std::string(head_kind_name(c.kind)));
    CAPTURE(c.params.temperature);
    const TinyModel model = make_model(c.type);
    const ExitHeads heads = heads_for(model);
    const auto found = [&](Backend& backend) {
      backend.set_exit_heads(&heads, kList);
      TrainedHead head(heads, c.kind, c.rule);
      SpecBoundParams settings;
      settings.check_layers = heads.layers(c.kind);
      settings.tau = c.rule == kMargin ? 0.4f : 0.0f;
      settings.w_max = 4;
      SpecBound speculator(head, settings, kLayers);
      // Without prefill, whose attention has other bits than the CPU's.
      return loop_events(backend, &speculator, c.params, std::vector<int32_t>{7}, kTokens);
    };
    simt::DeviceLog log, other_log;
    WaitCounter cuda(cuda_backend(model, {}, &log), log, true);
    WaitCounter host(cuda_backend(model, {}, &other_log), other_log, false);
    const std::vector<std::string> events = found(cuda);
    REQUIRE(events == found(host));
    // Full heads have FP16 maps.
    const bool int8 = c.type == DType::kQ8_0 && c.kind != HeadKind::kFull;
    if (int8) REQUIRE(events == found(*model.backend(best_isa(), 1)));
    CHECK(cuda.draw_calls >= 2);
    CHECK(cuda.checks >= 5);
    CHECK(cuda.draw_waits == cuda.draw_calls);
    CHECK(cuda.check_waits == cuda.checks);
    CHECK(cuda.pass_waits <= 1);  // for the angles of the first positions
    CHECK((cuda.logits_calls > 0) == (c.params.top_p > 0.99f && c.params.top_p < 1));
    CHECK(host.draw_calls == 0);
  }
}

TEST_CASE("CUDA engine, the loop: masks, of the vocabulary and learnt ones, the CPU's events") {
  const TinyModel model = make_model(DType::kQ8_0);
  const HeadTensor learnt = random_head_tensor(3, model.config.dim, 210, 0.7f);
  const MaskTokens of_vocabulary{.count = 3, .token = 41};
  const MaskTokens rows{.count = 3, .rows = learnt.values.data()};
  for (const auto& c : {std::pair(of_vocabulary, sampling(0)),
                        {of_vocabulary, sampling(0.9f, 40, 0.95f)},
                        {rows, sampling(0)},
                        {rows, sampling(0.9f, 40, 0.95f)}}) {
    const MaskTokens& masks = c.first;
    const SamplingParams& params = c.second;
    CAPTURE(masks.token);
    CAPTURE(params.temperature);
    const auto found = [&](Backend& backend) {
      Space space(masks, 9);
      return loop_events(backend, &space, params, std::vector<int32_t>{7}, kTokens);
    };
    simt::DeviceLog log, other_log;
    WaitCounter cuda(cuda_backend(model, {}, &log), log, true);
    WaitCounter host(cuda_backend(model, {}, &other_log), other_log, false);
    const std::vector<std::string> events = found(*model.backend(best_isa(), 1));
    CHECK(std::ranges::any_of(events, [](const std::string& line) {  // some were drafted
      return line.find(" row ") != line.rfind(" row ");
    }));
    CHECK(found(cuda) == events);
    CHECK(found(host) == events);
    CHECK(cuda.draw_calls > 0);
  }
}

TEST_CASE(
    "CUDA engine, the loop: rows of trees are drawn for, and come as logits where they must") {
  const TinyModel model = make_model(DType::kQ8_0);
  for (const SamplingParams& params :
       {sampling(0), sampling(0.9f, 40, 0.95f), sampling(0.8f), sampling(0.9f, 40, 0.95f, 1.2f)}) {
    CAPTURE(params.temperature);
    CAPTURE(params.repeat_penalty);
    // Behind the root and behind its first draft two rows each, tokens of the text among them.
    const auto found = [&](Backend& backend, const std::vector<int32_t>& text) {
      TreeDrafts tree(5, [&](const Round& round) {
        const int parent = round.rows() <= 2 ? 0 : 1;
        const size_t next = round.history(parent).size();
        const int32_t right = next < text.size() ? text[next] : 0;
        return TreeDrafts::Draft{parent, (right + (round.rows() % 2 == 0)) % kVocab, 0};
      });
      return loop_events(backend, &tree, params, std::vector<int32_t>{7}, kTokens);
    };
    const auto cpu = model.backend(best_isa(), 1);
    Session session(*cpu, Sampler(params));
    GenerateOptions options;
    options.max_tokens = kTokens;
    options.reply = 2;  // loop_events' too
    session.generate(std::vector<int32_t>{7}, options);
    const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
    cpu->truncate(0);
    const std::vector<std::string> expected = found(*cpu, text);
    CHECK(expected.size() < 2 * kTokens);  // lines: some drafts were right
    simt::DeviceLog log;
    WaitCounter cuda(cuda_backend(model, {}, &log), log, true);
    CHECK(found(cuda, text) == expected);
    const bool back = Sampler(params).rule(2).looks_back();
    CHECK((cuda.logits_calls > 0) == back);
    if (!back) CHECK(cuda.draw_calls >= 2);
    CHECK(cuda.draw_waits == cuda.draw_calls);
  }
}

TEST_CASE("CUDA engine, the loop: the CPU's logits for who asks, and its tokens behind a bias") {
  const TinyModel model = make_model(DType::kQ8_0);
  const ExitHeads heads = heads_for(model);
  struct Heard {
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // (tokens, vocab_size)
  };
  SamplingParams changing = sampling(0.8f, 40, 0.95f);
  changing.frequency_penalty = -1;
  changing.logit_bias = {{3, 2}, {40, -100}};
  for (const SamplingParams& params : {sampling(0), sampling(0.8f, 40, 0.95f), changing}) {
    const bool changes = Sampler(params).changes_logits();
    CAPTURE(changes);
    const auto hear = [&](Backend& backend, bool drafts) {
      backend.set_exit_heads(&heads, kList);
      TrainedHead head(heads, HeadKind::kFolded);
      SpecBoundParams settings;
      settings.check_layers = heads.layers(HeadKind::kFolded);
      settings.tau = 0;
      settings.w_max = 4;
      SpecBound speculator(head, settings, kLayers);
      Session session(backend, Sampler(params));
      if (drafts) session.set_speculator(&speculator);
      Heard heard;
      GenerateOptions options;
      options.max_tokens = kTokens;
      options.on_logits = [&](const TokenEvent& event, std::span<const float> logits) {
        heard.tokens.push_back(event.token);
        heard.logits.insert(heard.logits.end(), logits.begin(), logits.end());
      };
      backend.truncate(0);
      session.generate(std::vector<int32_t>{7}, options);  // without prefill, as above
      return heard;
    };
    const Heard expected = hear(*model.backend(best_isa(), 1), false);
    CHECK(expected.tokens.size() == kTokens);
    simt::DeviceLog log;
    WaitCounter cuda(cuda_backend(model, {}, &log), log, true);
    for (const bool drafts : {false, true}) {
      const Heard heard = hear(cuda, drafts);
      REQUIRE(heard.tokens == expected.tokens);
      CHECK(same_bits(heard.logits.data(), expected.logits.data(), expected.logits.size()));
    }
    CHECK((cuda.draw_calls == 0) == changes);
  }
}

TEST_CASE("CUDA engine, the loop: a differential backend sees bits and draws") {
  const TinyModel model = make_model(DType::kQ8_0);
  const ExitHeads heads = heads_for(model);
  const auto cuda = cuda_backend(model);
  cuda->set_exit_heads(&heads, kList);
  for (const SamplingParams& params : {sampling(0), sampling(0.9f, 40, 0.95f)}) {
    TrainedHead head(heads, HeadKind::kChained);
    SpecBoundParams settings;
    settings.check_layers = heads.layers(HeadKind::kChained);
    settings.tau = 0;
    SpecBound speculator(head, settings, kLayers);
    check_plain_bits(*cuda, speculator, params, 9, kTokens, 10);
  }
}

TEST_CASE("CUDA engine, the loop: drafts with layers left out, the CPU's events, the plain bits") {
  const TinyModel model = make_model(DType::kQ8_0);
  for (const std::vector<int>& skipped : {std::vector<int>{1}, {2}, {1, 2, 3}}) {
    for (const SamplingParams& params : {sampling(0), sampling(0.9f, 40, 0.95f)}) {
      CAPTURE(skipped.size());
      CAPTURE(params.temperature);
      const DraftVerifyParams settings{skipped, 4, 0.003f};
      const auto found = [&](Backend& backend) {
        DraftVerify speculator(settings);
        return loop_events(backend, &speculator, params, std::vector<int32_t>{7}, kTokens);
      };
      const auto cuda = cuda_backend(model);
      CHECK(found(*cuda) == found(*model.backend(best_isa(), 1)));
      DraftVerify speculator(settings);
      check_plain_bits(*cuda, speculator, params, 9, kTokens, 3);
    }
  }
}

TEST_CASE("CUDA engine, the loop: a second look says what decoding said and leaves K and V") {
  const TinyModel model = make_model(DType::kQ8_0);
  const ExitHeads heads = heads_for(model);
  const auto cuda = cuda_backend(model);
  cuda->set_exit_heads(&heads, kList);
  TrainedHead head(heads, HeadKind::kChained);
  SpecBoundParams settings;
  settings.check_layers = heads.layers(HeadKind::kChained);
  settings.tau = 0;
  settings.w_max = 4;
  SpecBound speculator(head, settings, kLayers);
  Session session(*cuda, Sampler(sampling(0)));
  session.set_speculator(&speculator);
  GenerateOptions options;
  options.max_tokens = kMaxRows + 3;  // two groups
  session.generate(token_ids(9, kVocab), options);
  const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
  const int n = static_cast<int>(text.size()) - 1;
  const auto kv = [&] {
    Record record(model.config, n);
    for (int pos = 0; pos < n; ++pos) record.read_kv(*cuda, pos);
    return record;
  };
  const Record before = kv();
  std::vector<float> z(size_t(kMaxRows) * kVocab);
  int last_seen = 0;
  for (const int calls : {2 * kLayers, kLayers + 1, 1}) {  // that it goes on after
    CAPTURE(calls);
    int left = calls;
    session.revisit(session.first_decoded(), n, [&](int layer, int pos, int rows) {
      if (layer == kLayers) {
        cuda->logits(0, rows, z.data());
        for (int i = 0; i < rows; ++i) {
          const auto row = z.begin() + i * kVocab;
          CHECK(std::max_element(row, row + kVocab) - row == text[pos + i + 1]);
          ++last_seen;
        }
      }
      return left-- > 0;
    });
    for (int l = 1; l <= kLayers; ++l) CHECK(cuda->kv_len(l) == n);
    CHECK(Record::difference(before, kv(), 0, n).empty());
  }
  CHECK(last_seen == options.max_tokens + kMaxRows);
}

}  // namespace cuda_loop_host_test
