// Logarithms of probabilities: against libm, for hostile rows, and as the loop hands over the rows
// that they are of, whatever drafts and wherever tokens are drawn.
#include "decode/row_logprobs.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "decode/generate.h"
#include "drafters/ngram.h"
#include "drawing_backend.h"
#include "engine_rig.h"

namespace row_logprobs_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> ids(const RowLogprobs& row) {
  std::vector<int32_t> ids;
  for (const TokenLogprob& entry : row.top) ids.push_back(entry.id);
  return ids;
}

}  // namespace

TEST_CASE("row logprobs: the log softmax, and the likeliest in greedy's order") {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 4);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<float> logits(1 + rng() % 700);
    for (float& l : logits) l = normal(rng);
    long double z = 0;
    for (const float l : logits) z += std::exp(static_cast<long double>(l));
    const int32_t drawn = static_cast<int32_t>(rng() % logits.size());
    const RowLogprobs row = row_logprobs(logits, drawn, 20);
    CHECK(row.drawn.id == drawn);
    CHECK(row.drawn.logprob ==
          doctest::Approx(static_cast<double>(logits[drawn] - std::log(z))).epsilon(1e-12));
    REQUIRE(row.top.size() == std::min<size_t>(20, logits.size()));
    for (size_t i = 0; i < row.top.size(); ++i) {
      const TokenLogprob& entry = row.top[i];
      CHECK(entry.logprob == row_logprobs(logits, entry.id, 0).drawn.logprob);
      if (i > 0) CHECK(entry.logprob <= row.top[i - 1].logprob);
    }
    CHECK(row.top[0].logprob >= row.drawn.logprob);
  }
}

TEST_CASE("row logprobs: ties, NaN and infinities") {
  const std::vector<float> ties = {1, 3, 3, 2, 3};
  CHECK(ids(row_logprobs(ties, 0, 4)) == std::vector<int32_t>{1, 2, 4, 3});
  CHECK(row_logprobs(ties, 0, 0).top.empty());
  CHECK(row_logprobs(ties, 0, 9).top.size() == 5);
  const RowLogprobs holes = row_logprobs(std::vector<float>{-kInf, 0, -kInf, 0}, 0, 3);
  CHECK(holes.drawn.logprob == kLeastLogprob);
  CHECK(ids(holes) == std::vector<int32_t>{1, 3, 0});
  CHECK(holes.top[0].logprob == doctest::Approx(-std::log(2.0)));
  CHECK(holes.top[2].logprob == kLeastLogprob);
  for (const std::vector<float>& odd :
       {std::vector<float>{kNan, 2, 3}, {kInf, 3e38f, kInf}, {kNan, -kInf}, {-kInf, -kInf}}) {
    const RowLogprobs row = row_logprobs(odd, 1, 2);  // no numbers
    CHECK(row.drawn.logprob == kLeastLogprob);
    for (const TokenLogprob& entry : row.top) CHECK(entry.logprob == kLeastLogprob);
  }
  CHECK(ids(row_logprobs(std::vector<float>{kNan, 2, 3, kInf}, 0, 4)) ==
        std::vector<int32_t>{3, 2, 1, 0});
  CHECK(row_logprobs(std::vector<float>{-3e38f, 3e38f}, 0, 1).drawn.logprob == kLeastLogprob);
  CHECK(row_logprobs(std::vector<float>{7}, 0, 1).drawn.logprob == 0);
}

TEST_CASE("row logprobs: the loop hands over the logits that each token was drawn from") {
  static const TinyModel model(q8_0_spec());
  const int vocab_size = model.config.vocab_size;
  std::vector<int32_t> prompt = token_ids(12, 5);  // much repeats itself
  for (int i = 0; i < 12; ++i) prompt.push_back(prompt[i]);

  struct Heard {
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // (tokens, vocab_size)
    int accepted = 0;
  };
  const auto hear = [&](Backend& backend, Speculator* speculator, const SamplingParams& params) {
    Heard heard;
    backend.truncate(0);
    Session session(backend, Sampler(params));
    session.set_speculator(speculator);
    GenerateOptions options;
    options.max_tokens = 40;
    options.on_logits = [&](const TokenEvent& event, std::span<const float> logits) {
      REQUIRE(logits.size() == static_cast<size_t>(vocab_size));
      heard.tokens.push_back(event.token);
      heard.logits.insert(heard.logits.end(), logits.begin(), logits.end());
    };
    options.on_token = [&](const TokenEvent& event) {
      CHECK(heard.tokens.back() == event.token);  // before it
    };
    heard.accepted = session.generate(prompt, options).counters.accepted_tokens;
    CHECK(heard.tokens.size() == 40);
    return heard;
  };
  for (const uint64_t seed : {0, 1, 2}) {
    SamplingParams params;
    params.temperature = 0.4f * static_cast<float>(seed);
    params.seed = seed;
    params.frequency_penalty = seed == 2 ? -0.5f : 0;
    const auto engine = model.backend(best_isa(), 1);
    const Heard plain = hear(*engine, nullptr, params);
    Sampler sampler(params);
    sampler.begin_reply(prompt.size());
    std::vector<int32_t> text = prompt;
    for (size_t i = 0; i < plain.tokens.size(); ++i) {
      const auto row = std::span(plain.logits).subspan(i * vocab_size, vocab_size);
      REQUIRE(sampler.sample(row, text, {seed, 0, static_cast<uint32_t>(text.size())}) ==
              plain.tokens[i]);
      text.push_back(plain.tokens[i]);
    }
    NgramSpeculator ngrams(3, 8);
    DrawingBackend drawing(model.backend(best_isa(), 1));
    for (Backend* backend : {engine.get(), static_cast<Backend*>(&drawing)}) {
      for (Speculator* speculator :
           {static_cast<Speculator*>(nullptr), static_cast<Speculator*>(&ngrams)}) {
        const Heard heard = hear(*backend, speculator, params);
        REQUIRE(heard.tokens == plain.tokens);
        CHECK(same_bits(heard.logits.data(), plain.logits.data(), plain.logits.size()));
        if (speculator && seed == 0) CHECK(heard.accepted > 0);
      }
    }
  }
}

}  // namespace row_logprobs_test
