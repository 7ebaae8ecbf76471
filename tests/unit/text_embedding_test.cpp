// The embedding of a text: what its definition says, whatever was read before, and nothing left
// behind for the reply after it.
#include "decode/text_embedding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "drafters/ngram.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "sequences_rig.h"

namespace text_embedding_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Shows rows of several texts in slots alone, as a GPU does.
class InSlots final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Sequences* sequences() override { return inner_->sequences(); }
};

constexpr int kContext = kPrefillChunk + 100;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec());
  return model;
}

std::span<const float> norm() {
  return {model().weights.output_norm, static_cast<size_t>(model().config.dim)};
}

// By the longest way round: one row after the other, in long double.
std::vector<double> expected(const std::vector<int32_t>& text) {
  const ModelConfig& config = model().config;
  const auto backend = model().backend(Isa::kPortable, 1, true, kContext);
  std::vector<long double> mean(config.dim);
  for (int pos = 0; pos < static_cast<int>(text.size()); ++pos) {
    backend->embed(0, text[pos]);
    backend->run_layers(0, 1, pos, 1, config.n_layers);
    const std::span<const float> h = backend->inspect().hidden(0);
    long double squares = 0;
    for (const float x : h) squares += static_cast<long double>(x) * x;
    const long double rms = std::sqrt(squares / config.dim + config.norm_eps);
    for (int i = 0; i < config.dim; ++i) mean[i] += h[i] / rms * norm()[i] / text.size();
  }
  long double squares = 0;
  for (const long double x : mean) squares += x * x;
  std::vector<double> out;
  for (const long double x : mean) out.push_back(static_cast<double>(x / std::sqrt(squares)));
  return out;
}

std::vector<float> embed(Sessions& sessions, const std::vector<int32_t>& text) {
  TextEmbedding embedding(sessions, norm(), text);
  for (;;) {
    if (auto found = embedding.go_on()) return *found;
  }
}

}  // namespace

TEST_CASE("embedding: the mean of the normed states, of length 1") {
  const auto backend = model().backend(best_isa(), 2, true, kContext);
  Sessions sessions(*backend);
  // One that shows rows in slots alone.
  ForwardingBackend in_slots(model().backend(best_isa(), 1, true, kContext));
  REQUIRE(backend->chunk_rows());
  REQUIRE_FALSE(in_slots.chunk_rows());
  Sessions others(in_slots);
  std::vector<std::vector<float>> found;
  for (const int n : {1, 2, kMaxRows, kMaxRows + 1, 3 * kMaxRows + 5, kPrefillChunk + 9}) {
    CAPTURE(n);
    const std::vector<int32_t> text = token_ids(n, model().config.vocab_size, n);
    const std::vector<double> wanted = expected(text);
    found.push_back(embed(sessions, text));
    REQUIRE(found.back().size() == wanted.size());
    double squares = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      CHECK(found.back()[i] == doctest::Approx(wanted[i]).epsilon(1e-6).scale(1));
      squares += static_cast<double>(found.back()[i]) * found.back()[i];
    }
    CHECK(squares == doctest::Approx(1).epsilon(1e-6));
    CHECK(embed(others, text) == found.back());
    // The same bits again, behind other texts.
    embed(sessions, token_ids(7, 50));
    CHECK(embed(sessions, text) == found.back());
  }
  CHECK(found[2] != found[3]);
}

TEST_CASE("embedding: a chunk at a time, so that others come in between") {
  std::vector<int32_t> prompt = token_ids(20, 6), reply;
  GenerateOptions options;
  options.max_tokens = 12;
  options.on_token = [&](const TokenEvent& event) { reply.push_back(event.token); };
  const std::vector<int32_t> text = token_ids(kPrefillChunk + 1, model().config.vocab_size);
  for (const bool in_slots : {false, true}) {
    CAPTURE(in_slots);
    std::unique_ptr<Backend> backend = with_sequences(model(), best_isa(), 1, 2, kContext);
    if (in_slots) backend = std::make_unique<InSlots>(std::move(backend));
    Sessions sessions(*backend);
    sessions.for_prompt(prompt).generate(prompt, options);
    const std::vector<int32_t> alone = std::exchange(reply, {});
    const std::vector<float> whole = embed(sessions, text);
    TextEmbedding embedding(sessions, norm(), text);
    CHECK_FALSE(embedding.go_on());
    CHECK(backend->kv_len(1) == kPrefillChunk);
    Session& beside = sessions.for_prompt(prompt);
    beside.forget();
    beside.generate(prompt, options);
    CHECK(std::exchange(reply, {}) == alone);
    const auto found = embedding.go_on();
    REQUIRE(found);
    CHECK(*found == whole);
    // Nor has the reply's text changed.
    CHECK(std::ranges::equal(sessions.for_prompt(beside.tokens()).tokens(), beside.tokens()));
  }
}

TEST_CASE("embedding: replies before and after it are what they are without") {
  const auto backend = model().backend(best_isa(), 1, true, kContext);
  std::vector<int32_t> prompt = token_ids(20, 6), reply;
  GenerateOptions options;
  options.max_tokens = 24;
  options.on_token = [&](const TokenEvent& event) { reply.push_back(event.token); };
  NgramSpeculator ngrams(3, 8);
  Sessions sessions(*backend);
  Session& session = sessions.for_prompt(prompt);
  session.set_speculator(&ngrams);
  session.generate(prompt, options);
  const std::vector<int32_t> alone = std::exchange(reply, {});
  const std::vector<int32_t> text = token_ids(kPrefillChunk + 33, model().config.vocab_size);
  embed(sessions, text);
  CHECK(session.tokens().empty());
  CHECK(backend->kv_len(1) == 0);
  CHECK(session.generate(prompt, options).prefilled_tokens == 19);  // read anew
  CHECK(std::exchange(reply, {}) == alone);
  {
    TextEmbedding given_up(sessions, norm(), text);
    CHECK_FALSE(given_up.go_on());
  }
  CHECK(backend->kv_len(1) == 0);
  session.generate(prompt, options);
  CHECK(reply == alone);
}

}  // namespace text_embedding_test
