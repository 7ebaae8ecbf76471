// Several texts in one backend (docs/architecture.md 3.6): whatever runs beside a row, its bits are
// those it has alone, by memcmp; and which session goes on with a prompt.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>

#include "decode/generate.h"
#include "decode/sessions.h"
#include "engine_rig.h"
#include "sequences_rig.h"

namespace sequences_test {

using namespace specbound;
using namespace specbound::test;

namespace {

std::vector<TinySpec> specs() {
  TinySpec llama = q8_0_spec();
  TinySpec grouped = q8_0_spec();  // one task of queries holds not even one row's of a head
  grouped.n_heads = 10;
  grouped.n_kv_heads = 1;
  TinySpec qwen2;  // heads that threads cannot own
  qwen2.architecture = "qwen2";
  qwen2.type = DType::kF16;
  qwen2.dim = 72;
  qwen2.head_dim = 24;
  qwen2.n_kv_heads = 1;
  return {llama, grouped, gemma2_spec(), gemma3_spec(), qwen2};
}

}  // namespace

TEST_CASE("sequences: a row has the bits that it has alone, whatever runs beside it") {
  uint64_t seed = 1;
  std::deque<TinyModel> models;
  for (const TinySpec& spec : specs()) {
    for (const KvType kv : kKvTypesTested) models.emplace_back(spec, kv);
  }
  for (const TinyModel& model : models) {
    const std::vector<ExpectedText> texts = expected_texts(model);
    for (const Isa isa : supported_isas()) {
      for (const int threads : {1, 2, 3}) {
        CAPTURE(model.config.architecture);
        CAPTURE(static_cast<int>(model.kv));
        CAPTURE(isa_name(isa));
        CAPTURE(threads);
        auto backend = with_sequences(model, isa, threads, kTexts);
        run_texts_at_random(texts, *backend, seed++);
      }
    }
  }
}

TEST_CASE("sequences: as many as there is memory for, one where none was asked for") {
  const TinyModel model(q8_0_spec());
  CHECK(model.backend(best_isa(), 1)->sequences()->n_sequences() == 1);
  TinySpec wide = q8_0_spec();
  wide.max_seq_len = 1 << 24;
  const TinyModel large(wide);
  const auto backend = with_sequences(large, best_isa(), 1, 1 << 20, 1 << 20);
  const int n = backend->sequences()->n_sequences();
  CHECK(n >= 1);
  CHECK(n < (1 << 20));
}

TEST_CASE("sessions: interleaved conversations go on where they were, the oldest makes room") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 3, 200);
  Sessions sessions(*backend);
  auto fresh = model.backend(best_isa(), 1, true, 200);
  std::vector<std::vector<int32_t>> chats;
  for (int i = 0; i < 4; ++i) chats.push_back(token_ids(40, model.config.vocab_size, 50 + i));
  GenerateOptions options;
  options.max_tokens = 6;
  // Another turn of a conversation; the tokens that had to be read for it.
  const auto turn = [&](int i) {
    std::vector<int32_t>& text = chats[i];
    Session& session = sessions.for_prompt(text);
    const GenerateStats stats = session.generate(text, options);
    Session alone(*fresh, Sampler(greedy_sampling()));
    fresh->truncate(0);
    alone.generate(text, options);
    CHECK(std::ranges::equal(session.tokens(), alone.tokens()));
    text.assign(session.tokens().begin(), session.tokens().end());
    for (const int32_t id : token_ids(5, model.config.vocab_size, text.size())) text.push_back(id);
    return stats.prefilled_tokens;
  };
  for (const int i : {0, 1, 2}) CHECK(turn(i) == 39);
  for (const int i : {2, 0, 1, 1, 0, 2}) CHECK(turn(i) == 5);
  // The same once more, as often as it is asked for, is nobody's place but its own.
  for (int reply = 0; reply < 4; ++reply) {
    const std::vector<int32_t> asked = chats[2];
    sessions.for_prompt(asked).generate(asked, options);
  }
  CHECK(turn(2) == 0);
  for (const int i : {1, 0, 2}) CHECK(turn(i) == 5);
  CHECK(turn(3) == 39);  // in the place of 1, which waited longest
  for (const int i : {0, 2, 3}) CHECK(turn(i) == 5);
  CHECK(turn(1) > 39);
  // Answered again from an earlier place: a copy goes on, and the other way is still there.
  const std::vector<int32_t> before = chats[1];
  chats[1].resize(30);
  CHECK(turn(1) == 0);
  chats[1] = before;
  CHECK(turn(1) == 5);
  // What is no conversation takes the oldest one's place, again and again.
  Session& other = sessions.for_other_text();
  CHECK(&other == &sessions.for_other_text());
  for (const int i : {1, 3}) CHECK(turn(i) <= 6);
  // One that is held is nobody else's, but what it has may be copied.
  const auto there = sessions.for_prompt(chats[3]).tokens();
  const std::vector<int32_t> held(there.begin(), there.end());
  const int sequence = sessions.selected();
  sessions.hold(sequence, true);
  CHECK(turn(3) <= 6);
  CHECK(sessions.selected() != sequence);
  for (const int i : {0, 1, 2}) turn(i);
  CHECK(std::ranges::equal(sessions.select(sequence).tokens(), held));
  // Until then it was used: two other texts later its own is still there.
  sessions.hold(sequence, false);
  for (const uint64_t seed : {60, 61}) {
    const std::vector<int32_t> text = token_ids(20, model.config.vocab_size, seed);
    sessions.for_prompt(text).generate(text, options);
  }
  CHECK(std::ranges::equal(sessions.select(sequence).tokens(), held));
  // One text: what it always was.
  Sessions one(*fresh);
  CHECK(&one.for_prompt(chats[0]) == &one.for_prompt(chats[1]));
}

TEST_CASE("sessions: one that nobody holds any more has no speculator") {
  class Counting final : public Speculator {
   public:
    const char* name() const override { return "counting"; }
    int width() const override { return 1; }
    void begin(std::span<const int32_t>) override { ++begun; }
    DraftEnd draft(Round&) override { return DraftEnd::kPlain; }
    int begun = 0;
  };
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 2, 100);
  Sessions sessions(*backend);
  GenerateOptions options;
  options.max_tokens = 2;
  const std::vector<int32_t> text = token_ids(20, model.config.vocab_size, 70);
  Counting counting;
  Session& session = sessions.for_prompt(text);
  sessions.hold(sessions.selected(), true);
  session.set_speculator(&counting);
  session.generate(text, options);
  CHECK(counting.begun == 1);
  sessions.hold(sessions.selected(), false);
  sessions.for_prompt(text).generate(text, options);
  CHECK(counting.begun == 1);
}

}  // namespace sequences_test
