// What a comparison is made of: one timed reply, the order of pairs, statistics, the figures of
// replies whose times are known.
#include "tools/paired_replies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine_rig.h"
#include "runtime/timed_reply.h"
#include "test_speculators.h"
#include "trace/statistics.h"

namespace paired_replies_test {

using namespace specbound;
using namespace specbound::test;

namespace {

TimedReply reply_of(std::vector<int32_t> tokens, double prefill, double ttft, double decode) {
  TimedReply reply;
  reply.tokens = std::move(tokens);
  reply.stats.prompt_tokens = 11;
  reply.stats.prefilled_tokens = 10;
  reply.stats.counters.rounds = 2;
  reply.stats.counters.decoded_tokens = reply.n_tokens();
  reply.prefill_seconds = prefill;
  reply.ttft_seconds = ttft;
  reply.decode_seconds = decode;
  reply.total_seconds = prefill + decode;
  return reply;
}

// A pair of replies of three tokens, plain seconds and speculative ones.
PairedPrompt pair_of(double plain, double speculative) {
  PairedPrompt pairs;
  pairs.base = {reply_of({1, 2, 3}, 0, 0, plain)};
  pairs.other = {reply_of({1, 2, 3}, 0, 0, speculative)};
  return pairs;
}

}  // namespace

TEST_CASE("the median and the spread of samples") {
  CHECK(median({}) == 0);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  const Spread spread = spread_of({3, 1, 5, 2});
  CHECK(spread.median == 2.5);
  CHECK(spread.min == 1);
  CHECK(spread.max == 5);
  CHECK(spread_of({}).max == 0);
}

TEST_CASE("weights are held against what gives them: a cache, memory, or neither") {
  std::vector<size_t> read;
  BenchMachine machine;
  machine.cache_bytes = size_t{32} << 20;
  machine.read_bandwidth = [&read](size_t bytes) {
    read.push_back(bytes);
    return bytes < size_t{32} << 20 ? 100e9 : 20e9;
  };
  const auto measured = [&](double bytes) {
    BandwidthSamples samples(machine, bytes);
    samples.take();
    return samples.result();
  };
  // A model in the cache is no faster than the cache.
  const ReadBandwidth small = measured(24e6);
  CHECK(read == std::vector<size_t>(4, 24000000));
  CHECK(small.cached);
  CHECK(small.share(45e9) == 0.45);
  CHECK(small.text().find("of the 24.0 MB that a token reads: a cache") != std::string::npos);
  CHECK(small.json()["buffer_bytes"] == 24000000);
  // Of a large one a part stands for all of it.
  const ReadBandwidth large = measured(7e9);
  CHECK(read.back() == size_t{64} << 20);
  CHECK(!large.cached);
  CHECK(large.share(18e9) == 0.9);
  CHECK(large.text().find("cache") == std::string::npos);
  // A GPU's own buffer is no match for a cache.
  machine.gpu = true;
  CHECK(!measured(24e6).share(45e9));
  CHECK(measured(7e9).share(18e9) == 0.9);
  CHECK(!ReadBandwidth{}.share(1));
  machine.read_bandwidth = [](size_t) { return std::nullopt; };
  CHECK(!measured(7e9).share(18e9));
  CHECK(measured(7e9).json().is_null());
  CHECK(measured(7e9).text().starts_with("read bandwidth unknown"));
}

TEST_CASE("mean and deviation of a sample") {
  const MeanDeviation some = mean_deviation(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(some.mean == 5);
  CHECK(some.deviation == doctest::Approx(std::sqrt(32.0 / 7)));
  CHECK(mean_deviation(std::vector<double>{3}).mean == 3);
  CHECK(mean_deviation(std::vector<double>{3}).deviation == 0);
  CHECK(mean_deviation({}).mean == 0);
}

TEST_CASE("a ratio of sums has the interval of its pairs") {
  SUBCASE("pairs that agree leave no doubt, however large they are") {
    const std::vector<double> a = {2, 20, 200, 4}, b = {1, 10, 100, 2};
    const RatioInterval r = ratio_of_sums(a, b);
    CHECK(r.ratio == doctest::Approx(2));
    CHECK(r.low == doctest::Approx(2));
    CHECK(r.high == doctest::Approx(2));
  }
  SUBCASE("an interval lies within the pairs' own ratios and around the ratio") {
    std::vector<double> a, b;
    for (int i = 0; i < 20; ++i) {
      a.push_back(1 + 0.1 * (i % 5));
      b.push_back(1);
    }
    const RatioInterval r = ratio_of_sums(a, b);
    CHECK(r.ratio == doctest::Approx(1.2));
    // The standard error of the mean is 0.1414 / sqrt(20): 95 % is 1.96 of it to each side.
    CHECK(r.low == doctest::Approx(1.2 - 0.062).epsilon(0.01));
    CHECK(r.high == doctest::Approx(1.2 + 0.062).epsilon(0.01));
    const RatioInterval again = ratio_of_sums(a, b);
    CHECK(again.low == r.low);
    CHECK(again.high == r.high);
  }
  SUBCASE("pairs stay together: prompts of different lengths do not widen it") {
    const std::vector<double> a = {1, 100, 3, 50}, b = {1, 100, 3, 50};
    CHECK(ratio_of_sums(a, b).low == doctest::Approx(1));
  }
  SUBCASE("next to nothing") {
    CHECK(ratio_of_sums({}, {}).ratio == 0);
    const std::vector<double> one = {3}, two = {2}, none = {0};
    const RatioInterval r = ratio_of_sums(one, two);
    CHECK(r.ratio == 1.5);
    CHECK(r.low == 1.5);
    CHECK(r.high == 1.5);
    CHECK(ratio_of_sums(one, none).ratio == 0);
  }
}

TEST_CASE("pairs run in turn, AB then BA, all prompts before the next repetition") {
  std::vector<std::string> calls;
  const auto side = [&](const char* name) {
    return [&calls, name](size_t prompt) {
      calls.push_back(name + std::to_string(prompt));
      return reply_of({static_cast<int32_t>(calls.size())}, 0, 0, 1);
    };
  };
  const std::vector<PairedPrompt> pairs = time_pairs(3, 2, {side("a"), side("b")});
  CHECK(calls == std::vector<std::string>{"a0", "b0",                          // to warm up
                                          "a0", "b0", "b1", "a1", "a2", "b2",  //
                                          "b0", "a0", "a1", "b1", "b2", "a2"});
  REQUIRE(pairs.size() == 3);
  for (const PairedPrompt& p : pairs) {
    CHECK(p.base.size() == 2);
    CHECK(p.other.size() == 2);
  }
  CHECK(pairs[0].base[0].tokens == std::vector<int32_t>{3});  // what warmed up is not among them
  CHECK(pairs[1].other[0].tokens == std::vector<int32_t>{5});
  CHECK(pairs[1].other[1].tokens == std::vector<int32_t>{12});
  CHECK(time_pairs(0, 2, {side("a"), side("b")}).empty());
}

TEST_CASE("identical means every token and the end of every reply of both sides") {
  PairedPrompt pairs;
  pairs.base = {reply_of({1, 2}, 0, 0, 1), reply_of({1, 2}, 0, 0, 1)};
  pairs.other = pairs.base;
  CHECK(pairs.identical());
  SUBCASE("another token") {
    pairs.other[1].tokens[1] = 3;
  }
  SUBCASE("one more") {
    pairs.other[0].tokens.push_back(3);
  }
  SUBCASE("another end") {
    pairs.other[1].stats.stop = StopReason::kContext;
  }
  SUBCASE("of the plain side") {
    pairs.base[1].tokens[0] = 3;
  }
  SUBCASE("nothing") {
    pairs.other[0].tokens.clear();
  }
  CHECK_FALSE(pairs.identical());
}

TEST_CASE("figures of a prompt: medians, seconds end to end, what its bytes are") {
  PairedPrompt pairs;
  for (const double decode : {4.0, 2.0, 3.0}) {
    pairs.base.push_back(reply_of({1, 2, 3, 4}, 1, 1.5, decode));
    pairs.other.push_back(reply_of({1, 2, 3, 4}, 1, 1.25, decode / 2));
  }
  ModelBytes bytes;
  bytes.n_layers = 2;
  bytes.layer = 100;
  bytes.lm_head = 50;
  bytes.kv_position = 10;
  const PromptFigures figures = prompt_figures("p", pairs, bytes);
  CHECK(figures.prompt_tokens == 11);
  CHECK(figures.tokens == 4);
  CHECK(figures.identical);
  CHECK(figures.plain.decode_seconds == 3);
  CHECK(figures.plain.total_seconds == 4);
  CHECK(figures.plain.prefill_rate() == 10);
  CHECK(figures.plain.decode_rate() == doctest::Approx(4.0 / 3));
  CHECK(figures.plain.total_rate() == 1);
  CHECK(figures.plain.ttft_seconds == 1.5);
  CHECK(figures.plain.tpot_seconds == doctest::Approx((4 - 1.5) / 3));
  CHECK(figures.plain.bytes == 4 * bytes.token(10 + 1.5));  // the first row is the prompt's last
  CHECK(figures.decode_speedup.median == 2);
  // (1 + d) / (1 + d / 2) of 4, 2, 3
  CHECK(figures.speedup.median == doctest::Approx(4 / 2.5));
  CHECK(figures.speedup.min == doctest::Approx(3 / 2.0));
  CHECK(figures.speedup.max == doctest::Approx(5 / 3.0));
  CHECK(figures.speculative.counters.rounds == 6);
  CHECK(figures.speculative.compression_rate() == 2);
}

TEST_CASE("figures of all prompts: losses count like gains") {
  std::vector<PromptFigures> prompts;
  for (const auto& [plain, speculative] : {std::pair(10.0, 5.0), std::pair(1.0, 2.0)}) {
    prompts.push_back(prompt_figures("p", pair_of(plain, speculative), {}));
  }
  const OverallFigures all = overall_figures(prompts);
  CHECK(all.prompts == 2);
  CHECK(all.slower == 1);
  CHECK(all.identical);
  CHECK(all.speedup.ratio == doctest::Approx(11.0 / 7));
  CHECK(all.speedup.low == doctest::Approx(0.5));  // both draws the one that lost
  CHECK(all.speedup.high == doctest::Approx(2));
  CHECK(all.median_speedup == doctest::Approx(1.25));
  // Means of tokens a second: (3/5 + 3/2) over (3/10 + 3/1).
  CHECK(all.spec_bench_speedup.ratio == doctest::Approx(2.1 / 3.3));
  prompts[1].identical = false;
  CHECK_FALSE(overall_figures(prompts).identical);

  const nlohmann::ordered_json one = prompt_record(prompts[0], {}), whole = overall_record(all, {});
  CHECK(one["plain"]["share_of_read_bandwidth"].is_null());  // nothing divides by nothing
  for (const auto& [key, value] : one.items()) CHECK(whole.contains(key));
  CHECK(one["speculative"]["mean_exit_layer"].is_null());
}

TEST_CASE("an end token counts where its time does, and TPOT is of replies that have one") {
  // One token and the end in 3 s, the first after 1 s; then a reply that ends at once.
  TimedReply ended = reply_of({7}, 0.5, 1, 2.5), silent = reply_of({}, 0.5, 1, 0.5);
  ended.stats.counters.decoded_tokens = 2;
  silent.stats.counters.decoded_tokens = 1;
  CHECK(ended.tpot_seconds() == 2);
  CHECK(silent.tpot_seconds() == 0);
  std::vector<PromptFigures> prompts;
  for (const TimedReply& reply : {ended, silent}) {
    PairedPrompt pairs;
    pairs.base = pairs.other = {reply};
    prompts.push_back(prompt_figures("p", pairs, {}));
  }
  CHECK(prompts[0].tokens == 2);
  CHECK(prompts[1].plain.total_rate() == 1);
  const OverallFigures all = overall_figures(prompts);
  CHECK(all.plain.tokens == 3);
  CHECK(all.plain.decode_rate() == 1);
  CHECK(all.plain.tpot_seconds == 2);  // not the mean of 2 and 0
  CHECK(all.plain.ttft_seconds == 1);
  CHECK(all.spec_bench_speedup.ratio == 1);
  CHECK(overall_figures({}).plain.tpot_seconds == 0);
}

TEST_CASE("a timed reply starts from an empty cache and counts what it shows") {
  const TinyModel model(q8_0_spec());
  const auto backend = model.backend(best_isa(), 1);
  const std::vector<int32_t> prompt = token_ids(40, model.config.vocab_size);
  Session session(*backend, Sampler(greedy_sampling()));
  TimedRequest request;
  request.prompt = prompt;
  request.max_tokens = 12;
  int told = 0;
  request.on_progress = [&](int tokens) { CHECK(tokens == ++told); };
  const TimedReply first = timed_reply(session, request);
  CHECK(first.n_tokens() == 12);
  CHECK(told == 12);
  CHECK(first.stats.generated_tokens == 12);
  CHECK(first.stats.prefilled_tokens == 39);
  CHECK(first.ttft_seconds >= first.prefill_seconds);
  CHECK(first.total_seconds == first.prefill_seconds + first.decode_seconds);
  CHECK(first.rounds() == 12);
  CHECK(first.timed_tokens() == 12);

  request.on_progress = nullptr;
  SUBCASE("the same prompt is read again") {
    const TimedReply second = timed_reply(session, request);
    CHECK(second.stats.prefilled_tokens == 39);
    CHECK(second.same_text(first));
  }
  SUBCASE("drafts are counted in fewer rounds, tokens the same") {
    OutsideDrafts drafts(4, [&](const Round& round) {
      const size_t at = round.history(round.newest()).size() - prompt.size();
      return at < first.tokens.size() ? first.tokens[at] : 0;
    });
    session.set_speculator(&drafts);
    const TimedReply second = timed_reply(session, request);
    CHECK(second.same_text(first));
    CHECK(second.rounds() < first.rounds());
    CHECK(second.timed_tokens() > 2 * second.rounds());
  }
  SUBCASE("an end token ends it and is no part of the text, though its time and round count") {
    const int32_t end = first.tokens[5];
    const auto at = std::find(first.tokens.begin(), first.tokens.end(), end);
    request.ends = [end](int32_t id) { return id == end; };
    const TimedReply cut = timed_reply(session, request);
    CHECK(cut.n_tokens() == static_cast<int>(at - first.tokens.begin()));
    CHECK(cut.stats.stop == StopReason::kEnd);
    CHECK(cut.rounds() == cut.n_tokens() + 1);
    CHECK(cut.timed_tokens() == cut.n_tokens() + 1);
    CHECK_FALSE(cut.same_text(first));
  }
  SUBCASE("an interrupted one says so") {
    const std::atomic<bool> abort = true;
    request.abort = &abort;
    CHECK(timed_reply(session, request).aborted());
  }
}

}  // namespace paired_replies_test
