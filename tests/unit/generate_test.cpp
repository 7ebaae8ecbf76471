// The decode loop: its invariant, what it reuses, where it stops, and that all of it leaves the
// text alone.
#include "decode/generate.h"

#include <doctest/doctest.h>

#include <map>

#include "engine_rig.h"

namespace generate_test {

using namespace specbound;
using namespace specbound::test;

namespace {

SamplingParams params(float temperature, uint64_t seed = 11) {
  SamplingParams p;
  p.temperature = temperature;
  p.seed = seed;
  return p;
}

const TinyModel& model() {
  static const TinyModel model(q8_0_spec());
  return model;
}

std::vector<int32_t> reply(Session& session, const std::vector<int32_t>& prompt,
                           GenerateOptions options, GenerateStats* stats = nullptr) {
  std::vector<int32_t> tokens;
  options.on_token = [&](const TokenEvent& event) { tokens.push_back(event.token); };
  const GenerateStats s = session.generate(prompt, options);
  CHECK(s.generated_tokens == static_cast<int>(tokens.size()));
  CHECK(s.prompt_tokens == static_cast<int>(prompt.size()));
  // Between replies: N tokens committed, N-1 in the cache at every layer.
  if (s.stop != StopReason::kAborted) {
    const Backend& backend = session.backend();
    for (int l = 1; l <= backend.config().n_layers; ++l) {
      CHECK(backend.kv_len(l) == static_cast<int>(session.tokens().size()) - 1);
    }
  }
  if (stats) *stats = s;
  return tokens;
}

// The reply by the longest way round: no cache kept, every row through every layer for each token.
std::vector<int32_t> plain_reply(const std::vector<int32_t>& prompt, const SamplingParams& p,
                                 uint32_t number, int n) {
  auto backend = model().backend(Isa::kPortable, 1);
  Sampler sampler(p);
  std::vector<int32_t> text = prompt;
  std::vector<float> logits(model().config.vocab_size);
  for (int i = 0; i < n; ++i) {
    backend->truncate(0);
    for (int pos = 0; pos < static_cast<int>(text.size()); ++pos) {
      backend->embed(0, text[pos]);
      backend->run_layers(0, 1, pos, 1, model().config.n_layers);
    }
    backend->logits(0, 1, logits.data());
    text.push_back(
        sampler.sample(logits, text, {p.seed, number, static_cast<uint32_t>(text.size())}));
  }
  return {text.begin() + static_cast<long>(prompt.size()), text.end()};
}

}  // namespace

TEST_CASE("generation equals recomputing everything for each token, at any temperature") {
  const std::vector<int32_t> prompt = token_ids(9, model().config.vocab_size);
  for (float temperature : {0.0f, 0.7f, 1.5f}) {
    const std::vector<int32_t> expected = plain_reply(prompt, params(temperature), 3, 24);
    for (int threads : {1, 2}) {
      auto backend = model().backend(best_isa(), threads);
      Session session(*backend, Sampler(params(temperature)));
      GenerateOptions options;
      options.max_tokens = 24;
      options.reply = 3;
      CHECK(reply(session, prompt, options) == expected);
    }
  }
}

TEST_CASE("a prompt of one token, and no tokens asked for") {
  auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0)));
  GenerateOptions options;
  options.max_tokens = 0;
  GenerateStats stats;
  CHECK(reply(session, {5}, options, &stats).empty());
  CHECK(stats.stop == StopReason::kLength);
  CHECK(stats.prefilled_tokens == 0);
  options.max_tokens = 4;
  CHECK(reply(session, {5}, options) == plain_reply({5}, params(0), 0, 4));
}

TEST_CASE("regenerating: the same number gives the same reply, the next number another") {
  const std::vector<int32_t> prompt = token_ids(30, model().config.vocab_size);
  auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(1.5f)));
  GenerateOptions options;
  options.max_tokens = 20;
  GenerateStats stats;
  const auto first = reply(session, prompt, options, &stats);
  CHECK(stats.prefilled_tokens == 29);
  const auto again = reply(session, prompt, options, &stats);
  CHECK(again == first);
  CHECK(stats.prefilled_tokens == 0);  // all but the last prompt token was still there
  options.reply = 1;
  CHECK(reply(session, prompt, options) != first);
}

TEST_CASE("a longer conversation keeps the cached prefix and changes no token") {
  std::vector<int32_t> prompt = token_ids(20, model().config.vocab_size);
  auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0.8f)));
  GenerateOptions options;
  options.max_tokens = 10;
  const auto first = reply(session, prompt, options);
  prompt.insert(prompt.end(), first.begin(), first.end());
  const auto more = token_ids(6, model().config.vocab_size, 8);
  prompt.insert(prompt.end(), more.begin(), more.end());
  GenerateStats stats;
  options.reply = 1;
  const auto second = reply(session, prompt, options, &stats);
  CHECK(stats.prefilled_tokens == 6);  // the last reply token had been pending, the last word is
  CHECK(second == plain_reply(prompt, params(0.8f), 1, 10));

  prompt[3] = (prompt[3] + 1) % model().config.vocab_size;  // edited early: all after it runs again
  const auto third = reply(session, prompt, options, &stats);
  CHECK(stats.prefilled_tokens == static_cast<int>(prompt.size()) - 1 - 3);
  CHECK(third == plain_reply(prompt, params(0.8f), 1, 10));
}

TEST_CASE("frequency and presence penalty count the reply and not the prompt") {
  const std::vector<int32_t> prompt = token_ids(40, 5);  // whose tokens would count for much
  SamplingParams p = params(0.8f);
  p.frequency_penalty = 0.5f;
  p.presence_penalty = 0.25f;
  // What they are, said as a bias of each single draw.
  auto backend = model().backend(best_isa(), 1);
  std::vector<int32_t> text = prompt;
  std::map<int32_t, int> counts;
  for (int i = 0; i < 24; ++i) {
    SamplingParams one = params(0.8f);
    for (const auto& [id, n] : counts) {
      one.logit_bias.push_back({id, -0.5f * static_cast<float>(n) - 0.25f});
    }
    Session session(*backend, Sampler(one));
    GenerateOptions options;
    options.max_tokens = 1;
    text.push_back(reply(session, text, options)[0]);
    ++counts[text.back()];
  }
  const std::vector<int32_t> expected(text.begin() + 40, text.end());
  GenerateOptions options;
  options.max_tokens = 24;
  Session session(*backend, Sampler(p));
  CHECK(reply(session, prompt, options) == expected);
  CHECK(reply(session, prompt, options) == expected);
  CHECK(plain_reply(prompt, params(0.8f), 0, 24) != expected);
  // Settings that come within a reply leave its beginning where it is.
  options.on_round = [&](const RoundEvent& round) {
    if (round.round == 0) session.set_sampling(p);
  };
  CHECK(reply(session, prompt, options) == expected);
}

TEST_CASE("the end token stops the reply and is not emitted") {
  const std::vector<int32_t> prompt = token_ids(9, model().config.vocab_size);
  auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0)));
  GenerateOptions options;
  options.max_tokens = 12;
  const auto all = reply(session, prompt, options);
  const int32_t end = all[5];
  const auto until = std::find(all.begin(), all.end(), end);
  options.is_end = [end](int32_t token) { return token == end; };
  GenerateStats stats;
  CHECK(reply(session, prompt, options, &stats) == std::vector<int32_t>(all.begin(), until));
  CHECK(stats.stop == StopReason::kEnd);
  CHECK(session.tokens().back() == end);
}

TEST_CASE("the context's end stops the reply with every position used") {
  auto backend = model().backend(best_isa(), 1, true, 24);
  Session session(*backend, Sampler(params(0)));
  const std::vector<int32_t> prompt = token_ids(20, model().config.vocab_size);
  GenerateStats stats;
  reply(session, prompt, {}, &stats);
  CHECK(stats.stop == StopReason::kContext);
  CHECK(session.tokens().size() == 25);  // the last one is pending, it needs no position yet
  const std::vector<int32_t> full = token_ids(24, model().config.vocab_size);
  CHECK(reply(session, full, {}, &stats).size() == 1);
  CHECK(stats.stop == StopReason::kContext);
  CHECK_THROWS_WITH_AS(session.generate(token_ids(25, 97), {}),
                       doctest::Contains("25 tokens, the context holds 24"), Error);
}

TEST_CASE("prompts that cannot be run are refused and leave the session usable") {
  auto backend = model().backend(best_isa(), 1);
  Session session(*backend, Sampler(params(0)));
  CHECK_THROWS_AS(session.generate({}, {}), Error);
  const std::vector<int32_t> bad = {1, 97}, negative = {-1};
  CHECK_THROWS_WITH_AS(session.generate(bad, {}), doctest::Contains("token 97"), Error);
  CHECK_THROWS_AS(session.generate(negative, {}), Error);
  GenerateOptions options;
  options.max_tokens = 3;
  CHECK(reply(session, {5}, options) == plain_reply({5}, params(0), 0, 3));
}

TEST_CASE("an abort stops prefill or decoding, and the next reply is as if it had not been") {
  TinySpec spec;
  spec.max_seq_len = 2000;
  const TinyModel long_model(spec);
  auto backend = long_model.backend(best_isa(), 2);
  Session session(*backend, Sampler(params(0)));
  const std::vector<int32_t> prompt = token_ids(1200, long_model.config.vocab_size);
  std::atomic<bool> abort{false};
  GenerateOptions options;
  options.max_tokens = 6;
  options.abort = &abort;
  options.on_prefill = [&](int done, int total) {
    CHECK(total == 1199);
    if (done >= kPrefillChunk) abort = true;
  };
  GenerateStats stats;
  CHECK(reply(session, prompt, options, &stats).empty());
  CHECK(stats.stop == StopReason::kAborted);
  CHECK(stats.prefilled_tokens == kPrefillChunk);

  abort = false;
  options.on_prefill = nullptr;
  const auto whole = reply(session, prompt, options, &stats);
  CHECK(stats.prefilled_tokens == 1199 - kPrefillChunk);  // what the abort left is used
  auto fresh_backend = long_model.backend(best_isa(), 1);
  Session fresh(*fresh_backend, Sampler(params(0)));
  GenerateOptions plain;
  plain.max_tokens = 6;
  CHECK(reply(fresh, prompt, plain) == whole);

  int emitted = 0;
  GenerateOptions stopping;
  stopping.abort = &abort;
  stopping.on_token = [&](const TokenEvent&) { abort = ++emitted == 4; };
  CHECK(session.generate(prompt, stopping).stop == StopReason::kAborted);
  CHECK(emitted == 4);
}

TEST_CASE("options that make no sense are refused") {
  CpuOptions options;
  options.n_threads = -1;
  CHECK_THROWS_AS(make_cpu_backend(model().config, model().weights, options), Error);
  options.n_threads = 100000;
  CHECK_THROWS_AS(make_cpu_backend(model().config, model().weights, options), Error);
  options.n_threads = 1;
  options.n_ctx = -5;
  CHECK_THROWS_AS(make_cpu_backend(model().config, model().weights, options), Error);
  options.n_ctx = (1 << 24) + 1;
  CHECK_THROWS_AS(make_cpu_backend(model().config, model().weights, options), Error);
}

TEST_CASE("a context that no memory holds is refused with the numbers") {
  TinySpec spec;
  spec.n_layers = 40;
  spec.n_kv_heads = spec.n_heads = 4;
  spec.head_dim = 256;
  const TinyModel wide(spec);
  CpuOptions options;
  options.n_threads = 1;
  options.n_ctx = 1 << 24;  // 2.7 TB of K and V
  CHECK_THROWS_WITH_AS(make_cpu_backend(wide.config, wide.weights, options),
                       doctest::Contains("2748779.1 MB needed (K/V cache 2748779.1 MB"), Error);
}

}  // namespace generate_test
