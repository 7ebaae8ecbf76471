// Replies written side by side are, to the byte, what Session writes alone: in random companies,
// with drafts alone and in passes that they share, and with errors, aborts and long prompts beside
// them.
#include "decode/reply_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "decode/row_logprobs.h"
#include "decode/text_embedding.h"
#include "drafters/space.h"
#include "drafters/tree_speculator.h"
#include "drawing_backend.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "grammar/grammar.h"
#include "grammar/token_grammar.h"
#include "piece_tokenizer.h"
#include "sequences_rig.h"
#include "test_speculators.h"

namespace reply_batch_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kVocabulary = 97;  // of the tiny models

BatchRequest greedy_request(std::vector<int32_t> prompt, int max_tokens) {
  BatchRequest request;
  request.prompt = std::move(prompt);
  request.sampling = greedy_sampling();
  request.options.max_tokens = max_tokens;
  return request;
}

// Over letters, of which the vocabulary has some, and one that it lacks.
std::shared_ptr<const TokenGrammar> grammar_of(const char* gbnf) {
  std::vector<PieceTokenizer::Piece> pieces;
  for (char c = 'a'; c <= 'y'; ++c) pieces.push_back({std::string(1, c)});
  while (pieces.size() < kVocabulary) pieces.push_back({format("a%zu", pieces.size())});
  const PieceTokenizer tokenizer(pieces);
  return std::make_shared<const TokenGrammar>(Grammar::from_gbnf(gbnf), trie_of(tokenizer));
}

// What one reply is heard to be: its tokens and the bits of what it is told of their logits.
struct Heard {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  StopReason stop = StopReason::kAborted;

  void listen(GenerateOptions& options) {
    options.on_token = [this](const TokenEvent& event) { tokens.push_back(event.token); };
    options.on_logits = [this](const TokenEvent& event, std::span<const float> logits) {
      logprobs.push_back(static_cast<float>(row_logprobs(logits, event.token, 3).drawn.logprob));
    };
  }
};

// One of everything that a request may ask for.
BatchRequest random_request(TinyRandom& random, uint64_t seed) {
  static const auto held = grammar_of("root ::= ([a-m]{1,3} [n-y]{2,5})*");
  static const auto short_one = grammar_of("root ::= [a-f]{2,6} \"x\" [a-c]{0,2}");
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  BatchRequest request;
  std::vector<int32_t> prompt = token_ids(1 + below(30), kVocabulary, 40 + below(3));
  for (const int32_t id : token_ids(below(20), kVocabulary, seed)) prompt.push_back(id);
  request.prompt = std::move(prompt);
  SamplingParams& sampling = request.sampling;
  sampling.temperature = below(3) == 0 ? 0.0f : 0.3f * static_cast<float>(1 + below(5));
  sampling.seed = seed;
  if (below(3) == 0) sampling.top_k = 0;
  if (below(3) == 0) sampling.repeat_penalty = 1.2f;
  if (below(3) == 0) sampling.frequency_penalty = 0.7f;
  if (below(4) == 0) sampling.presence_penalty = -1.1f;
  if (below(4) == 0) sampling.logit_bias = {{1, 2}, {5, -100}};
  if (const int which = below(6); which < 2) sampling.grammar = which ? held : short_one;
  GenerateOptions& options = request.options;
  options.reply = static_cast<uint32_t>(below(4));
  options.max_tokens = below(5) == 0 ? -1 : below(40);
  options.measure_plain = below(2) == 0;
  if (below(2) == 0) options.is_end = [](int32_t token) { return token == 7; };
  if (below(3) == 0) {
    options.is_stop = [](std::span<const int32_t> reply) {
      return reply.size() > 2 && (reply.back() + reply[reply.size() - 2]) % 23 == 0;
    };
  }
  return request;
}

// Drafts that are often right: of a greedy model that repeats itself, and wrong ones.
OutsideDrafts repeating() {
  return {6, [](const Round& round) {
            const std::span<const int32_t> text = round.history(round.newest());
            for (size_t at = text.size() - 1; at-- > 0;) {
              if (text[at] == text.back()) return text[at + 1];
            }
            return text.back();
          }};
}

Heard alone(Backend& backend, const BatchRequest& request) {
  Heard heard;
  Session session(backend, Sampler(request.sampling));
  session.forget();
  GenerateOptions options = request.options;
  heard.listen(options);
  heard.stop = session.generate(request.prompt, options).stop;
  return heard;
}

}  // namespace

TEST_CASE("reply batch: every reply is the one that Session writes alone") {
  const TinyModel model(q8_0_spec());
  constexpr int kContext = 60;
  const std::vector<BatchRequest> wanted = batch_requests(model, 40, kContext);
  for (const int n : {1, 3, 20}) {
    CAPTURE(n);
    auto together = with_sequences(model, best_isa(), 2, n, kContext);
    auto alone = model.backend(best_isa(), 2, true, kContext);
    check_replies(*together, *alone, wanted);
  }
}

TEST_CASE("reply batch: a device draws for the rows of several texts, where no rule looks back") {
  const TinyModel model(q8_0_spec());
  constexpr int kContext = 60, kOpen = 7;
  auto alone = model.backend(best_isa(), 1, true, kContext);
  for (const bool back : {false, true}) {
    CAPTURE(back);
    std::vector<BatchRequest> wanted = batch_requests(model, 24, kContext);
    for (size_t i = 0; i < wanted.size(); ++i) {
      SamplingParams& sampling = wanted[i].sampling;
      sampling.repeat_penalty = back && i % 4 == 3 ? 1.1f : 1;
      sampling.frequency_penalty = 0;
      if (i % 5 == 2) sampling.top_k = 0;  // by weights
    }
    DrawingBackend together(with_sequences(model, best_isa(), 1, 5, kContext));
    together.every_open = kOpen;
    check_replies(together, *alone, wanted);
    CHECK(together.filtered_rows > 60);
    // A row that was left open comes over alone, and no other.
    CHECK((together.logits_calls <= together.filtered_rows / kOpen) == !back);
  }
}

TEST_CASE("reply batch: random companies, drafts between them, and the same bytes") {
  const TinyModel model(q8_0_spec());
  constexpr int kContext = 90, kReplies = 60;
  auto reference = model.backend(best_isa(), 1, true, kContext);
  int unshared = 0, drafted = 0;  // rounds, tokens
  int drafted_together = 0, accepted_together = 0;
  int guessed_alone = 0, guessing_together = 0;  // behind mask rows: drafts, rounds
  const std::vector<int32_t> embedded = token_ids(20, kVocabulary);
  const std::span norm(model.weights.output_norm, static_cast<size_t>(model.config.dim));
  for (const uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    TinyRandom random(seed);
    const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
    auto backend = with_sequences(model, best_isa(), 1 + below(2), 2 + below(9), kContext);
    OutsideDrafts drafts = repeating();
    LookupMemory memory;
    TreeSpeculator tree(nullptr, &memory, 2 + below(kMaxRows - 1), below(2) == 0);
    Space space({.count = 3, .token = 41}, kMaxRows);
    Sessions sessions(*backend);
    ReplyBatch batch(sessions, 1 + below(kMaxRows));
    std::map<int64_t, BatchRequest> wanted;
    std::map<int64_t, Heard> heard;
    int64_t next = 0, ended = 0, dropped = 0;
    int shared = 0;
    std::optional<TextEmbedding> embedding;
    std::set<std::vector<float>> vectors;
    const auto take = [&](std::vector<WrittenReply> written) {
      for (const WrittenReply& reply : written) {
        CHECK_FALSE(reply.error);
        heard[reply.id].stop = reply.stats.stop;
        shared += reply.stats.side_by_side;
        drafted += reply.stats.counters.drafted_tokens;
        unshared += reply.stats.counters.rounds - reply.stats.side_by_side;
        CHECK(reply.stats.generated_tokens == std::ssize(heard[reply.id].tokens));
        ++ended;
      }
    };
    bool crowd = true;  // else nobody joins for a while, and the last one is alone
    while (ended + dropped < kReplies) {
      if (below(20) == 0) crowd = !crowd;
      while (next < kReplies && !batch.full() &&
             batch.size() + embedding.has_value() < sessions.size() &&
             (batch.size() == 0 || (crowd && below(3) > 0))) {
        const int64_t id = next++;
        BatchRequest request = random_request(random, 100 * seed + static_cast<uint64_t>(id));
        wanted[id] = request;
        heard[id].listen(request.options);
        Speculator* const drafter =
            std::array<Speculator*, 5>{nullptr, &drafts, &space, &tree, &tree}[below(5)];
        if (drafter) request.speculator = [drafter] { return drafter; };
        request.options.on_round = [&, guesses = drafter == &space](const RoundEvent& round) {
          if (guesses && batch.size() == 1) guessed_alone += round.drafted();
          if (batch.size() == 1) return;
          if (guesses) {  // they need the pass to themselves
            CHECK(round.rows.size() == 1);
            ++guessing_together;
          }
          drafted_together += round.drafted();
          accepted_together += static_cast<int>(round.tokens.size()) - 1;
        };
        batch.add(id, std::move(request));
      }
      if (below(40) == 0 && batch.size() > 1) {  // one that nobody wants any more
        const int64_t id = next - 1;
        const int before = batch.size();
        batch.drop(id);
        if (batch.size() < before) {
          wanted.erase(id);
          ++dropped;
        }
      }
      if (!embedding && below(20) == 0 && batch.size() < sessions.size()) {  // other work beside
        embedding.emplace(sessions, norm, embedded);
      } else if (embedding && below(5) == 0) {
        vectors.insert(*embedding->go_on());
        embedding.reset();
      }
      take(batch.step());
    }
    CHECK(batch.size() == 0);
    CHECK(batch.tokens_under_way() == 0);
    if (batch.places() > 1) CHECK(shared > 100);
    CHECK(vectors.size() == 1);
    for (const auto& one : wanted) {
      const auto id = one.first;
      CAPTURE(id);
      const Heard expected = alone(*reference, one.second);
      CHECK(heard[id].tokens == expected.tokens);
      REQUIRE(heard[id].logprobs.size() == expected.logprobs.size());
      CHECK(
          same_bits(heard[id].logprobs.data(), expected.logprobs.data(), expected.logprobs.size()));
      CHECK(stop_reason_name(heard[id].stop) == std::string(stop_reason_name(expected.stop)));
    }
  }
  CHECK(unshared > 50);
  CHECK(drafted > 50);
  CHECK(guessed_alone > 20);
  CHECK(guessing_together > 50);
  CHECK(drafted_together > 500);
  CHECK(accepted_together > 50);
}

TEST_CASE("reply batch: what cannot be read is refused, and the others go on") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 2, 1100);
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  CHECK(batch.places() == 2);
  batch.add(0, greedy_request({1, 2, 3}, 3));
  expect_error(ErrorCode::kLimit, [&] { batch.add(1, greedy_request({}, 3)); });
  expect_error(ErrorCode::kLimit,
               [&] { batch.add(1, greedy_request(token_ids(1101, kVocabulary), 3)); });
  expect_error(ErrorCode::kUsage, [&] { batch.add(1, greedy_request({kVocabulary}, 3)); });
  BatchRequest cold = greedy_request({1}, 3);
  cold.sampling.temperature = -1;
  expect_error(ErrorCode::kUsage, [&] { batch.add(1, cold); });
  CHECK(batch.size() == 1);
  batch.add(1, greedy_request({1, 2, 3}, 3));
  CHECK(batch.full());
  std::vector<WrittenReply> ended;
  while (batch.size() > 0) {
    for (WrittenReply& reply : batch.step()) ended.push_back(std::move(reply));
  }
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].tokens == ended[1].tokens);
  CHECK(ended[0].tokens.size() == 6);
  CHECK(batch.step().empty());
}

TEST_CASE("reply batch: what goes wrong with one reply ends that one") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 4, 200);
  auto reference = model.backend(best_isa(), 1, true, 200);
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  const std::vector<int32_t> prompt = token_ids(12, kVocabulary);
  BatchRequest dead = greedy_request(prompt, 20);  // no token has a z
  dead.sampling.grammar = grammar_of("root ::= [a-e]{3} \"z\" [a-e]");
  BatchRequest broken = greedy_request(prompt, 20);
  broken.options.on_token = [n = 0](const TokenEvent&) mutable {
    if (++n == 5) throw std::runtime_error("broken");
  };
  BatchRequest lone = greedy_request(prompt, 20);  // nothing can be made to draft for it
  lone.speculator = []() -> Speculator* { throw std::runtime_error("no drafts"); };
  const BatchRequest fine = greedy_request(prompt, 30);
  batch.add(0, fine);
  batch.add(1, dead);
  batch.add(2, broken);
  std::map<int64_t, WrittenReply> ended;
  while (batch.size() > 0) {
    for (WrittenReply& reply : batch.step()) ended[reply.id] = std::move(reply);
  }
  const auto message = [&](int64_t id) -> std::string {
    REQUIRE(ended[id].error);
    try {
      std::rethrow_exception(ended[id].error);
    } catch (const std::exception& e) {
      return e.what();
    }
  };
  CHECK(message(1).find("0x7a") != std::string::npos);
  CHECK(message(2) == "broken");
  CHECK_FALSE(ended[0].error);
  CHECK(ended[0].stats.generated_tokens == 30);
  batch.add(3, lone);
  CHECK(batch.step().front().error);
  // What failed leaves a session that goes on, its text being what was written.
  const Heard expected = alone(*reference, fine);
  CHECK(std::ranges::equal(std::span(ended[0].tokens).subspan(prompt.size()), expected.tokens));
  CHECK(std::ranges::equal(ended[2].tokens, std::span(ended[0].tokens).first(prompt.size() + 5)));
  for (int64_t id = 4; id < 8; ++id) batch.add(id, fine);
  while (batch.size() > 0) {
    for (const WrittenReply& reply : batch.step()) CHECK(reply.tokens == ended[0].tokens);
  }
}

TEST_CASE("reply batch: a pass that fails ends all that share it, and the next ones are written") {
  class Failing final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    int good_passes = 1 << 30;
    Sequences* sequences() override { return inner_->sequences(); }
    void logits(int slot, int n, float* out) override {
      if (n > 1 && good_passes-- <= 0) throw std::runtime_error("no more");
      ForwardingBackend::logits(slot, n, out);
    }
  };
  const TinyModel model(q8_0_spec());
  auto reference = model.backend(best_isa(), 1, true, 200);
  BatchRequest request = greedy_request(token_ids(12, kVocabulary), 20);
  const Heard expected = alone(*reference, request);
  const std::vector<int32_t> repeated(expected.tokens.begin(), expected.tokens.begin() + 8);
  for (const bool drafts : {false, true}) {
    CAPTURE(drafts);
    Failing backend(with_sequences(model, best_isa(), 1, 3, 200));
    LookupMemory memory;
    memory.add(repeated);
    TreeSpeculator tree(nullptr, &memory, kMaxRows, false);
    if (drafts) request.speculator = [&tree] { return &tree; };
    Sessions sessions(backend);
    ReplyBatch batch(sessions);
    for (int64_t id = 0; id < 3; ++id) batch.add(id, request);
    backend.good_passes = 3;
    for (int i = 0; i < 3; ++i) CHECK(batch.step().empty());
    const std::vector<WrittenReply> failed = batch.step();
    REQUIRE(failed.size() == 3);
    int accepted = 0;
    for (const WrittenReply& reply : failed) {
      CHECK(reply.error);
      const auto written = std::span(reply.tokens).subspan(12);
      CHECK(written.size() >= 3);
      CHECK(std::ranges::equal(written, std::span(expected.tokens).first(written.size())));
      accepted += static_cast<int>(written.size()) - 3;
    }
    CHECK((accepted > 0) == drafts);
    backend.good_passes = 1 << 30;
    for (int64_t id = 0; id < 3; ++id) batch.add(id, request);
    int ended = 0;
    while (batch.size() > 0) {
      for (const WrittenReply& reply : batch.step()) {
        CHECK_FALSE(reply.error);
        CHECK(std::ranges::equal(std::span(reply.tokens).subspan(12), expected.tokens));
        ++ended;
      }
    }
    CHECK(ended == 3);
  }
}

TEST_CASE("reply batch: a long prompt holds nobody up for longer than a chunk") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 4, 2000);
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  int written = 0;
  BatchRequest first = greedy_request(token_ids(9, kVocabulary, 1), -1);
  first.options.on_token = [&](const TokenEvent&) { ++written; };
  batch.add(0, first);
  while (written < 3) batch.step();
  const int n = 3 * kPrefillChunk + 100;
  std::vector<int> read;
  BatchRequest large = greedy_request(token_ids(n, kVocabulary, 2), 5);
  large.options.on_prefill = [&](int done, int total) {
    CHECK(total == n - 1);
    read.push_back(done);
  };
  batch.add(1, large);
  large.options.on_prefill = nullptr;
  std::atomic<bool> left{false};
  BatchRequest waits = large;  // behind it, and soon not any more
  waits.options.abort = &left;
  batch.add(2, waits);
  for (int step = 1; step <= 3; ++step) {
    const int before = written;
    CHECK(batch.step().empty());
    CHECK(written == before + 1);
    CHECK(read.size() == static_cast<size_t>(step));
    CHECK(read.back() == step * kPrefillChunk);
  }
  left = true;
  const std::vector<WrittenReply> gone = batch.step();
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].id == 2);
  CHECK(gone[0].stats.stop == StopReason::kAborted);
  CHECK(read.back() == n - 1);
  // Who comes later begins with a copy of what is there.
  batch.add(3, large);
  std::optional<int> prefilled;
  while (!prefilled) {
    for (const WrittenReply& reply : batch.step()) {
      if (reply.id == 3) prefilled = reply.stats.prefilled_tokens;
    }
  }
  CHECK(*prefilled == 0);
}

TEST_CASE("reply batch: who comes behind a long prompt is not kept until it is read") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 4, 4000);
  const BatchRequest small = greedy_request(token_ids(20, kVocabulary, 5), 3);
  const std::vector<int32_t> expected = alone(*backend, small).tokens;
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  const int n = 7 * kPrefillChunk;
  std::vector<int> read;
  BatchRequest large = greedy_request(token_ids(n, kVocabulary, 6), 2);
  large.options.on_prefill = [&](int done, int) { read.push_back(done); };
  batch.add(0, large);
  batch.add(1, large);  // as long, and there are others
  batch.add(2, small);
  std::vector<int64_t> order;
  int steps = 0;
  for (; batch.size() > 0; ++steps) {
    for (const WrittenReply& reply : batch.step()) {
      order.push_back(reply.id);
      if (reply.id != 2) continue;
      CHECK(std::ranges::equal(std::span(reply.tokens).subspan(20), expected));
      CHECK(read.back() < n / 2);
    }
  }
  CHECK(order == std::vector<int64_t>{2, 0, 1});
  CHECK(read.size() == 7);  // the other one found them
  CHECK(steps <= 14 + 4);
}

TEST_CASE("reply batch: a conversation that goes on keeps its session from who comes behind it") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 2, 2000);
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  const auto ended = [&] {
    std::map<int64_t, WrittenReply> all;
    while (batch.size() > 0) {
      for (WrittenReply& reply : batch.step()) all[reply.id] = std::move(reply);
    }
    return all;
  };
  batch.add(0, greedy_request(token_ids(3 * kPrefillChunk, kVocabulary, 1), 4));
  std::vector<int32_t> talk = ended()[0].tokens;
  batch.add(1, greedy_request(token_ids(30, kVocabulary, 2), 4));  // in the other session
  ended();
  const std::vector<int32_t> more = token_ids(20, kVocabulary, 3);
  talk.insert(talk.end(), more.begin(), more.end());
  batch.add(2, greedy_request(talk, 4));
  batch.add(3, greedy_request(token_ids(30, kVocabulary, 4), 4));
  CHECK(ended()[2].stats.prefilled_tokens <= 21);
}

TEST_CASE("reply batch: of a reply that is over nothing stays but its tokens and their K/V") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 2, 2000);
  const BatchRequest fine = greedy_request(token_ids(30, kVocabulary, 7), 10);
  const std::vector<int32_t> expected = alone(*backend, fine).tokens;
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  for (const bool dropped : {false, true}) {
    std::weak_ptr<const TokenGrammar> kept;
    {
      const auto grammar = grammar_of("root ::= [a-y]*");
      kept = grammar;
      BatchRequest held = greedy_request(token_ids(9, kVocabulary, 8), 20);
      held.sampling.grammar = grammar;
      batch.add(0, std::move(held));
    }
    for (int step = 0; step < 3; ++step) batch.step();
    CHECK_FALSE(kept.expired());
    if (dropped) batch.drop(0);
    while (batch.size() > 0) batch.step();
    CHECK(kept.expired());
    // And the session writes on as ever.
    batch.add(1, fine);
    std::vector<int32_t> found;
    while (batch.size() > 0) {
      for (const WrittenReply& reply : batch.step()) found = reply.tokens;
    }
    CHECK(std::ranges::equal(std::span(found).subspan(30), expected));
  }
}

TEST_CASE("reply batch: those that leave in the middle change no byte of the others") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 4, 2000);
  const BatchRequest stays = greedy_request(token_ids(30, kVocabulary, 7), 40);
  const std::vector<int32_t> expected = alone(*backend, stays).tokens;
  // While its prompt waits, while it is read, while it writes, and in the step that it is alone.
  for (const int leaves : {0, 1, 3, 9}) {
    CAPTURE(leaves);
    Sessions sessions(*backend);
    ReplyBatch batch(sessions, 3);
    std::atomic<bool> left{false};
    BatchRequest goes = greedy_request(token_ids(2 * kPrefillChunk, kVocabulary, 8), -1);
    goes.options.abort = &left;
    batch.add(0, goes);
    batch.add(1, stays);
    batch.add(2, goes);
    int gone = 0;
    std::vector<int32_t> found;
    for (int step = 0; batch.size() > 0 && step < 200; ++step) {
      left = step >= leaves;
      for (const WrittenReply& reply : batch.step()) {
        if (reply.id == 1) {
          found = reply.tokens;
          continue;
        }
        CHECK(reply.stats.stop == StopReason::kAborted);
        ++gone;
        if (gone == 2) CHECK_FALSE(batch.full());
      }
    }
    CHECK(gone == 2);
    REQUIRE(found.size() > 30);
    CHECK(std::ranges::equal(std::span(found).subspan(30), expected));
  }
}

TEST_CASE("reply batch: those that begin alike read that once") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 6, 400);
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  for (int64_t id = 0; id < 6; ++id) {
    std::vector<int32_t> prompt = token_ids(200, kVocabulary, 1);
    for (const int32_t token : token_ids(10, kVocabulary, 10 + static_cast<uint64_t>(id))) {
      prompt.push_back(token);
    }
    batch.add(id, greedy_request(prompt, 8));
  }
  int prefilled = 0;
  while (batch.size() > 0) {
    for (const WrittenReply& reply : batch.step()) prefilled += reply.stats.prefilled_tokens;
  }
  CHECK(prefilled <= 209 + 5 * 10);
}

}  // namespace reply_batch_test
