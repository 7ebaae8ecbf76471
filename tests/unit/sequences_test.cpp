// Several texts in one backend (docs/architecture.md 3.6): whatever runs beside a row, its bits are
// those it has alone, by memcmp; and whole replies written side by side are those of Session.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "decode/generate.h"
#include "decode/reply_batch.h"
#include "decode/sessions.h"
#include "engine_rig.h"
#include "expect_error.h"

namespace sequences_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kTexts = 20;    // more than a pass has rows
constexpr int kLongest = 70;  // crosses an attention chunk (64)
constexpr int kShared = 37;   // tokens that all texts begin with

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
  return {llama, grouped, gemma2_spec(), qwen2};
}

std::unique_ptr<Backend> with_sequences(const TinyModel& model, Isa isa, int threads, int n,
                                        int n_ctx = 0) {
  CpuOptions options;
  options.isa = isa;
  options.n_threads = threads;
  options.n_sequences = n;
  options.n_ctx = n_ctx;
  return make_cpu_backend(model.config, model.weights, options);
}

// What each text must leave behind: one row at a time, alone.
struct Text {
  std::vector<int32_t> ids;
  Record expected;
  int done = 0;

  Text(const TinyModel& model, int number)
      : ids(token_ids(kLongest, model.config.vocab_size, 100 + number)),
        expected(model.config, kLongest) {
    std::ranges::copy(token_ids(kShared, model.config.vocab_size, 99), ids.begin());
    auto backend = model.backend(Isa::kPortable, 1);
    run_positions(*backend, ids, 0, kLongest, 1, 0, expected);
  }
};

// The rows that a pass left in slots 0..of.size()-1 are the newest of these texts.
void check_rows(Backend& backend, std::vector<Text>& texts, const std::vector<int>& of) {
  const ModelConfig& c = backend.config();
  std::vector<float> logits(of.size() * c.vocab_size);
  backend.logits(0, static_cast<int>(of.size()), logits.data());
  for (size_t row = 0; row < of.size(); ++row) {
    Text& text = texts[of[row]];
    const int pos = text.done++;
    CHECK(same_bits(backend.inspect().hidden(static_cast<int>(row)).data(),
                    text.expected.hidden_at(pos, c.n_layers), c.dim));
    CHECK(same_bits(&logits[row * c.vocab_size], text.expected.logits_at(pos), c.vocab_size));
  }
}

void check_kv(Backend& backend, const Text& text) {
  const size_t kv_dim = backend.config().kv_dim();
  std::vector<uint16_t> k(kv_dim), v(kv_dim);
  for (int l = 1; l <= backend.config().n_layers; ++l) {
    REQUIRE(backend.kv_len(l) == text.done);
    for (int pos = 0; pos < text.done; ++pos) {
      backend.inspect().read_kv(l, pos, k, v);
      const size_t at = (size_t(pos) * backend.config().n_layers + l - 1) * kv_dim;
      CHECK(same_bits(k.data(), &text.expected.k[at], kv_dim));
      CHECK(same_bits(v.data(), &text.expected.v[at], kv_dim));
    }
  }
}

// Texts come and go, are cut back, prefilled, run alone and in random companies.
void run_at_random(const TinyModel& model, Isa isa, int threads, uint64_t seed) {
  std::vector<Text> texts;
  for (int i = 0; i < kTexts; ++i) texts.emplace_back(model, i);
  auto backend = with_sequences(model, isa, threads, kTexts);
  Sequences* sequences = backend->sequences();
  REQUIRE(sequences);
  REQUIRE(sequences->n_sequences() == kTexts);
  TinyRandom random(seed);
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  for (int turn = 0; turn < 75; ++turn) {
    const int sequence = below(kTexts);
    Text& text = texts[sequence];
    switch (below(5)) {
      case 0: {  // a part of it by prefill
        const int n = below(kLongest - text.done + 1);
        sequences->select(sequence);
        if (n > 0) backend->prefill(std::span(text.ids).subspan(text.done, n));
        text.done += n;
        break;
      }
      case 1:  // cut back
        text.done = below(text.done + 1);
        sequences->select(sequence);
        backend->truncate(text.done);
        break;
      case 2:  // alone
        if (text.done == kLongest) break;
        sequences->select(sequence);
        backend->embed(0, text.ids[text.done]);
        backend->run_layers(0, 1, text.done, 1, model.config.n_layers);
        check_rows(*backend, texts, {sequence});
        break;
      case 3: {  // what another one begins with
        const int other = below(kTexts), most = std::min(texts[other].done, kShared);
        if (other == sequence) break;
        text.done = below(most + 1);
        sequences->select(sequence);
        sequences->copy_prefix(other, text.done);
        break;
      }
      default: {  // in company
        std::vector<int> of;
        for (int i = 0; i < kTexts; ++i) of.push_back(i);
        for (int i = kTexts - 1; i > 0; --i) std::swap(of[i], of[below(i + 1)]);
        std::erase_if(of, [&](int i) { return texts[i].done == kLongest; });
        of.resize(std::min<size_t>(of.size(), 1 + below(kMaxRows)));
        if (of.empty()) break;
        for (size_t row = 0; row < of.size(); ++row) {
          const Text& t = texts[of[row]];
          backend->embed(static_cast<int>(row), t.ids[t.done]);
        }
        sequences->run_side_by_side(of);
        check_rows(*backend, texts, of);
      }
    }
  }
  for (int i = 0; i < kTexts; ++i) {
    sequences->select(i);
    check_kv(*backend, texts[i]);
  }
}

SamplingParams sampling(float temperature, uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  params.repeat_penalty = 1.1f;
  return params;
}

}  // namespace

TEST_CASE("sequences: a row has the bits that it has alone, whatever runs beside it") {
  uint64_t seed = 1;
  for (const TinySpec& spec : specs()) {
    const TinyModel model(spec);
    for (const Isa isa : supported_isas()) {
      for (const int threads : {1, 2, 3}) {
        CAPTURE(spec.architecture);
        CAPTURE(isa_name(isa));
        CAPTURE(threads);
        run_at_random(model, isa, threads, seed++);
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

TEST_CASE("reply batch: every reply is the one that Session writes alone") {
  const TinyModel model(q8_0_spec());
  constexpr int kContext = 60;
  const auto is_end = [](int32_t token) { return token < 4; };
  // (prompt, temperature, most tokens): prompts that begin alike, one of a token, one that fills.
  std::vector<BatchRequest> wanted;
  for (int i = 0; i < 40; ++i) {
    BatchRequest request;
    request.prompt = token_ids(i % 7 == 0    ? 1
                               : i % 11 == 0 ? kContext
                                             : 5 + i % 13,
                               model.config.vocab_size, 3 + i / 8);
    request.sampling = sampling(i % 3 == 0 ? 0.0f : 0.9f, i);
    if (i % 4 == 1) request.sampling.frequency_penalty = 1.5f;
    request.reply = static_cast<uint32_t>(i % 5);
    request.max_tokens = i % 4 == 0 ? -1 : 1 + i;
    request.is_end = is_end;
    wanted.push_back(request);
  }
  for (const int n : {1, 3, 20}) {
    CAPTURE(n);
    auto together = with_sequences(model, best_isa(), 2, n, kContext);
    ReplyBatch batch(*together);
    std::vector<WrittenReply> written(wanted.size());
    size_t next = 0, ended = 0;
    while (ended < wanted.size()) {
      // Not always as soon as there is room: companies of every size.
      while (next < wanted.size() && !batch.full() && (batch.size() == 0 || next % 5 != 4)) {
        REQUIRE(batch.add(static_cast<int64_t>(next), wanted[next]));
        ++next;
      }
      if (next % 5 == 4 && next < wanted.size() && !batch.full()) {
        REQUIRE(batch.add(static_cast<int64_t>(next), wanted[next]));
        ++next;
      }
      CHECK(batch.size() <= std::min(n, kMaxRows));
      for (WrittenReply& reply : batch.step()) {
        const auto at = static_cast<size_t>(reply.id);
        REQUIRE(at < written.size());
        CHECK(written[at].tokens.empty());
        written[at] = std::move(reply);
        ++ended;
      }
    }
    CHECK(batch.size() == 0);
    CHECK(batch.tokens_under_way() == 0);
    CHECK(batch.step().empty());
    auto alone = model.backend(best_isa(), 2, true, kContext);
    for (size_t i = 0; i < wanted.size(); ++i) {
      CAPTURE(i);
      Session session(*alone, Sampler(wanted[i].sampling));
      session.forget();
      GenerateOptions options;
      options.max_tokens = wanted[i].max_tokens;
      options.reply = wanted[i].reply;
      options.is_end = is_end;
      const GenerateStats stats = session.generate(wanted[i].prompt, options);
      const auto tokens = session.tokens();
      CHECK(written[i].tokens == std::vector<int32_t>(tokens.begin(), tokens.end()));
      CHECK(stop_reason_name(written[i].stop) == std::string(stop_reason_name(stats.stop)));
    }
  }
}

TEST_CASE("reply batch: what cannot be read is refused, and the others go on") {
  const TinyModel model(q8_0_spec());
  auto backend = with_sequences(model, best_isa(), 1, 2, 1100);
  ReplyBatch batch(*backend);
  const auto request = [](std::vector<int32_t> prompt) {
    BatchRequest wanted;
    wanted.prompt = std::move(prompt);
    wanted.sampling = greedy_sampling();
    wanted.max_tokens = 3;
    return wanted;
  };
  REQUIRE(batch.add(0, request({1, 2, 3})));
  expect_error(ErrorCode::kLimit, [&] { batch.add(1, request({})); });
  expect_error(ErrorCode::kLimit, [&] { batch.add(1, request(token_ids(1101, 97))); });
  expect_error(ErrorCode::kUsage, [&] { batch.add(1, request({97})); });
  const std::atomic<bool> raised{true};
  CHECK(!batch.add(1, request(token_ids(1000, 97)), &raised));
  CHECK(batch.size() == 1);
  REQUIRE(batch.add(1, request({1, 2, 3})));
  CHECK(batch.full());
  std::vector<WrittenReply> ended;
  while (batch.size() > 0) {
    for (WrittenReply& reply : batch.step()) ended.push_back(std::move(reply));
  }
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].tokens == ended[1].tokens);
  CHECK(ended[0].tokens.size() == 6);
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
  // One text: what it always was.
  Sessions one(*fresh);
  CHECK(&one.for_prompt(chats[0]) == &one.for_prompt(chats[1]));
}

TEST_CASE("sessions: another speculator is that of all of them") {
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
  const auto reply_in_each = [&](uint64_t seed) {
    for (const uint64_t i : {seed, seed + 1}) {
      const std::vector<int32_t> text = token_ids(20, model.config.vocab_size, i);
      sessions.for_prompt(text).generate(text, options);
    }
  };
  Counting counting;
  sessions.set_speculator(&counting);
  reply_in_each(70);
  CHECK(counting.begun == 2);
  sessions.set_speculator(nullptr);
  reply_in_each(80);
  CHECK(counting.begun == 2);
}

}  // namespace sequences_test
