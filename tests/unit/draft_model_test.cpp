// A draft model in the loop: everything accepted from the model itself, and K/V that stay in step
// with the text through rejected drafts, other prompts, aborts and failures.
#include "drafters/draft_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "decode/generate.h"
#include "drafters/tree_speculator.h"
#include "engine_rig.h"
#include "error.h"
#include "forwarding_backend.h"
#include "in_step.h"

namespace draft_model_test {

using namespace specbound;
using namespace specbound::test;

namespace {

TinySpec spec(int n_layers, uint64_t seed = 1) {
  TinySpec spec = q8_0_spec(n_layers);
  spec.dim = spec.ffn_dim = 32;
  spec.n_heads = spec.n_kv_heads = 2;
  spec.seed = seed;
  return spec;
}

const TinyModel& target() {
  static const TinyModel model(spec(3));
  return model;
}
// The target's first two layers: often right, often not.
const TinyModel& near() {
  static const TinyModel model(spec(2));
  return model;
}

SamplingParams sampling(float temperature, uint64_t seed, float penalty = 1) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  params.repeat_penalty = penalty;
  return params;
}

// A drafter's backend to which things happen.
class Troubled final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::function<void()> before_layers = [] {};
  std::function<void()> in_prefill = [] {};

  void run_layers(int slot, int n, int pos, int from, int to) override {
    before_layers();
    ForwardingBackend::run_layers(slot, n, pos, from, to);
    rows_run += n;
  }
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override {
    constexpr size_t kChunk = 16;  // a backend's own are longer than these texts
    for (size_t done = 0; done < tokens.size();) {
      in_prefill();
      const auto chunk = tokens.subspan(done, std::min(kChunk, tokens.size() - done));
      ForwardingBackend::prefill(chunk, nullptr, nullptr);
      done += chunk.size();
      rows_prefilled += static_cast<int>(chunk.size());
      if (progress && !progress(context, static_cast<int>(done))) return;
    }
  }
  int rows_run = 0, rows_prefilled = 0;
};

GenerateOptions options(int max_tokens, uint32_t reply = 0) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.reply = reply;
  options.is_end = [](int32_t token) { return token == 5; };
  return options;
}

std::vector<int32_t> text_of(const Session& session) {
  return {session.tokens().begin(), session.tokens().end()};
}

std::vector<int32_t> plain(std::span<const int32_t> prompt, const SamplingParams& params,
                           const GenerateOptions& options) {
  const auto engine = target().backend(best_isa(), 1);
  Session session(*engine, Sampler(params));
  session.generate(prompt, options);
  return text_of(session);
}

}  // namespace

TEST_CASE("the model itself as drafter: everything is accepted, and no row is read twice") {
  const std::vector<int32_t> prompt = token_ids(40, 97);
  for (const SamplingParams& params : {sampling(0, 1), sampling(0.8f, 2), sampling(1, 3, 1.3f)}) {
    const auto engine = target().backend(best_isa(), 1);
    Troubled drafter(target().backend(best_isa(), 1));
    DraftModel draft(drafter, 8, 0, Acceptance::kCoupled);
    Session session(*engine, Sampler(params));
    session.set_speculator(&draft);
    GenerateOptions whole = options(64);
    whole.is_end = nullptr;
    const GenerateStats stats = session.generate(prompt, whole);
    CHECK(stats.counters.rounds == 8);
    CHECK(stats.counters.drafted_tokens == 56);
    CHECK(stats.counters.accepted_tokens == 56);
    CHECK(stats.counters.accepted_at == std::vector<int>{56});  // before any layer
    CHECK(stats.counters.checks == 56);
    CHECK(drafter.rows_prefilled == 39);
    // A row a draft, and after each round the last draft too, which was not read then.
    CHECK(drafter.rows_run == 56 + 7);
    CHECK(text_of(session) == plain(prompt, params, whole));
  }
}

TEST_CASE("a drafter catches up with other prompts, other replies and plain stretches") {
  const auto engine = target().backend(best_isa(), 1);
  Troubled drafter(near().backend(best_isa(), 1));
  DraftModel draft(drafter, 4, 0, Acceptance::kCoupled);
  InStep watched(draft, drafter, near());
  const SamplingParams params = sampling(0.8f, 7);
  Session session(*engine, Sampler(params));
  session.set_speculator(&watched);
  const std::vector<int32_t> first = token_ids(30, 97), second = token_ids(22, 97, 8);
  const auto reply = [&](std::vector<int32_t> prompt, uint32_t number) {
    session.generate(prompt, options(24, number));
    CHECK(text_of(session) == plain(prompt, params, options(24, number)));
    return text_of(session);
  };
  reply(first, 0);
  reply(first, 1);                                                                  // once more
  reply(second, 2);                                                                 // another one
  const std::vector<int32_t> begun = reply({first.begin(), first.begin() + 9}, 3);  // a part
  session.set_speculator(nullptr);
  const std::vector<int32_t> more = reply(begun, 4);  // it goes on without the drafter
  session.set_speculator(&watched);
  drafter.rows_prefilled = drafter.rows_run = 0;
  reply(more, 5);
  CHECK(drafter.rows_prefilled < static_cast<int>(more.size()) - 9);  // what it knew is kept
  reply({42}, 6);
  CHECK(watched.looked > 20);
}

TEST_CASE("what a drafter has read is forgotten with the session's cache, through the tree too") {
  const auto engine = target().backend(best_isa(), 1);
  Troubled drafter(near().backend(best_isa(), 1));
  DraftModel draft(drafter, 4, 0, Acceptance::kCoupled);
  Session session(*engine, Sampler(sampling(0, 1)));
  session.set_speculator(&draft);
  const std::vector<int32_t> prompt = token_ids(30, 97);
  const auto prefilled = [&] {  // by the session, and by the drafter
    drafter.rows_prefilled = 0;
    const int rows = session.generate(prompt, options(8)).prefilled_tokens;
    CHECK(text_of(session) == plain(prompt, sampling(0, 1), options(8)));
    return std::pair(rows, drafter.rows_prefilled);
  };
  CHECK(prefilled() == std::pair(29, 29));
  CHECK(prefilled() == std::pair(0, 0));
  session.forget();
  CHECK(prefilled() == std::pair(29, 29));
  TreeSpeculator(&draft, nullptr, 4, true).forget();
  CHECK(prefilled() == std::pair(0, 29));
}

TEST_CASE("aborts and failures in the drafter leave text and K/V right") {
  const SamplingParams params = sampling(0.8f, 11);
  const std::vector<int32_t> prompt = token_ids(40, 97);
  for (int when = 1; when <= 12; ++when) {
    for (const bool fails : {false, true}) {
      CAPTURE(when);
      CAPTURE(fails);
      const auto engine = target().backend(best_isa(), 1);
      Troubled drafter(near().backend(best_isa(), 1));
      DraftModel draft(drafter, 4, 0, Acceptance::kCoupled);
      InStep watched(draft, drafter, near());
      Session session(*engine, Sampler(params));
      session.set_speculator(&watched);
      std::atomic<bool> abort = false;
      GenerateOptions stopped = options(40);
      stopped.is_end = nullptr;
      stopped.abort = &abort;
      int calls = 0;
      const auto trouble = [&] {
        if (++calls != when) return;
        if (fails) throw Error(ErrorCode::kDevice, "planted");
        abort = true;
      };
      drafter.in_prefill = drafter.before_layers = trouble;
      bool thrown = false;
      try {
        const GenerateStats stats = session.generate(prompt, stopped);
        CHECK(stats.stop == StopReason::kAborted);
      } catch (const Error&) {
        thrown = true;
      }
      CHECK(thrown == fails);
      CHECK(calls >= when);
      abort = false;
      const std::vector<int32_t> so_far = text_of(session);
      GenerateOptions whole = options(40);
      whole.is_end = nullptr;
      const std::vector<int32_t> all = plain(prompt, params, whole);
      REQUIRE(so_far.size() <= all.size());
      CHECK(std::equal(so_far.begin(), so_far.end(), all.begin()));
      session.generate(prompt, whole);
      CHECK(text_of(session) == all);
    }
  }
}

TEST_CASE("behind the drafter's own context nothing is drafted") {
  const SamplingParams params = sampling(0, 1);
  const std::vector<int32_t> prompt = token_ids(20, 97);
  const auto engine = target().backend(best_isa(), 1);
  const auto drafter = near().backend(best_isa(), 1, true, 32);
  DraftModel draft(*drafter, 8, 0, Acceptance::kCoupled);
  Session session(*engine, Sampler(params));
  session.set_speculator(&draft);
  GenerateOptions whole = options(60);
  whole.is_end = nullptr;
  int last_drafted = 0;
  whole.on_round = [&](const RoundEvent& round) {
    if (round.drafted() > 0) last_drafted = round.pos + round.drafted();
    if (round.pos >= 32) CHECK(round.draft_end == DraftEnd::kPlain);
  };
  session.generate(prompt, whole);
  CHECK(text_of(session) == plain(prompt, params, whole));
  CHECK(last_drafted <= 32);
  CHECK(last_drafted > 24);
}

TEST_CASE("a drafter that is not sure enough drafts nothing, and time is booked where it goes") {
  const std::vector<int32_t> prompt = token_ids(20, 97);
  const auto engine = target().backend(best_isa(), 1);
  const auto drafter = near().backend(best_isa(), 1);
  Session session(*engine, Sampler(sampling(0, 1)));
  const auto counters = [&](float tau) {
    DraftModel draft(*drafter, 8, tau, Acceptance::kCoupled);
    session.set_speculator(&draft);
    return session.generate(prompt, options(30)).counters;
  };
  const Counters sure = counters(1), any = counters(0);
  CHECK(sure.drafted_tokens == 0);
  CHECK(sure.checks > 0);
  CHECK(any.drafted_tokens > 0);
  CHECK(any.ns[static_cast<int>(Phase::kDraft)] > 0);
}

TEST_CASE("rejection: at temperature 0 the plain text, above it other texts that can be repeated") {
  const std::vector<int32_t> prompt = token_ids(24, 97);
  const auto reply = [&](const SamplingParams& params, Counters* counters = nullptr) {
    const auto engine = target().backend(best_isa(), 1);
    const auto drafter = near().backend(best_isa(), 1);
    DraftModel draft(*drafter, 6, 0, Acceptance::kRejection);
    InStep watched(draft, *drafter, near());
    Session session(*engine, Sampler(params));
    session.set_speculator(&watched);
    const GenerateStats stats = session.generate(prompt, options(40));
    if (counters) counters->add(stats.counters);
    return text_of(session);
  };
  CHECK(reply(sampling(0, 1)) == plain(prompt, sampling(0, 1), options(40)));
  int other = 0;
  Counters counters;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const SamplingParams params = sampling(1, seed);
    const std::vector<int32_t> text = reply(params, &counters);
    CHECK(reply(params) == text);
    other += text != plain(prompt, params, options(40));
  }
  CHECK(other > 0);
  CHECK(counters.accepted_tokens > 0);
  CHECK(counters.accepted_tokens < counters.drafted_tokens);
}

}  // namespace draft_model_test
