// Conversations kept between their replies by how much memory their K and V take: whole blocks
// that really go back, the one used longest ago first, none that is in use, and the same texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "decode/generate.h"
#include "decode/sessions.h"
#include "decode/text_embedding.h"
#include "engine/cpu/kv_cache.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "sequences_rig.h"

namespace kept_conversations_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Conversations of one block each at first, and what each reply is alone.
class Rig {
 public:
  static constexpr int kAsked = 40, kContext = 200;

  Rig(int n_sequences, uint64_t blocks)
      : backend(with_sequences(model_, best_isa(), 1, n_sequences, kContext)),
        alone_(model_.backend(best_isa(), 1, true, kContext)),
        most_(blocks == Sessions::kAnyBytes ? blocks : blocks * block),
        sessions(*backend, most_) {
    for (int i = 0; i < 4; ++i) {
      chats_.push_back(token_ids(kAsked, model_.config.vocab_size, 50 + i));
    }
  }

  // Another reply to chat i, under way until end().
  int begin(int i) {
    std::vector<int32_t>& text = chats_[i];
    Session& session = sessions.for_prompt(text);
    const int sequence = sessions.selected();
    sessions.hold(sequence, true);
    GenerateOptions options;
    options.max_tokens = 6;
    read = session.generate(text, options).prefilled_tokens;
    Session expected(*alone_, Sampler(greedy_sampling()));
    alone_->truncate(0);
    expected.generate(text, options);
    CHECK(std::ranges::equal(session.tokens(), expected.tokens()));
    text.assign(session.tokens().begin(), session.tokens().end());
    return sequence;
  }
  void end(int sequence) {
    sessions.hold(sequence, false);
    CHECK(sessions.idle().bytes <= most_);
  }
  // A whole one, after which the client says `more` tokens; those that had to be read for it.
  int turn(int i, int more = 5) {
    end(begin(i));
    for (const int32_t id : token_ids(more, model_.config.vocab_size, chats_[i].size())) {
      chats_[i].push_back(id);
    }
    return read;
  }
  std::span<const float> norm() const {
    return {model_.weights.output_norm, static_cast<size_t>(model_.config.dim)};
  }
  int length(int i) const { return static_cast<int>(chats_[i].size()); }

 private:
  const TinyModel model_{q8_0_spec()};
  std::vector<std::vector<int32_t>> chats_;

 public:
  const uint64_t block = KvCache::bytes_needed(model_.config, kAttentionChunk, 0);
  const std::unique_ptr<Backend> backend;
  int read = 0;  // tokens of the newest prompt

 private:
  const std::unique_ptr<Backend> alone_;
  const uint64_t most_;

 public:
  Sessions sessions;
};

}  // namespace

TEST_CASE("K/V cache: memory is held by whole blocks, and given back") {
  ModelConfig config = TinyModel(q8_0_spec()).config;
  config.head_dim = 64;  // two pages a block
  constexpr int kPositions = 5 * kAttentionChunk;
  KvType kv = KvType::kFp16;
  SUBCASE("FP16") {}
  SUBCASE("INT8") {
    kv = KvType::kInt8;
    config.head_dim = 128;  // the same
  }
  const size_t of_a_head = size_t{kPositions} * (kv == KvType::kInt8 ? 128 + 8 : 2 * 64);
  KvCache cache(config, kPositions, 0, kv);
  CHECK(cache.bytes() == 2 * of_a_head * config.n_kv_heads * config.n_layers);
  const size_t block = KvCache::bytes_needed(config, kAttentionChunk, 0, kv);
  CHECK(cache.bytes() == 5 * block);
  CHECK(cache.bytes_held() == 0);
  for (const int n : {1, kAttentionChunk}) {
    cache.reach(n);
    CHECK(cache.bytes_held() == block);
  }
  cache.reach(kAttentionChunk + 1);
  CHECK(cache.bytes_held() == 2 * block);

  const auto each_head = [&](auto visit) {  // with its V
    for (int l = 1; l <= config.n_layers; ++l) {
      for (int h = 0; h < config.n_kv_heads; ++h) {
        visit(std::span(static_cast<uint8_t*>(cache.head(l, h).v), of_a_head));
      }
    }
  };
  cache.reach(kPositions);
  each_head([](std::span<uint8_t> v) { std::ranges::fill(v, uint8_t{7}); });
  cache.give_back(kPositions - 1);  // of a block that stays
  CHECK(cache.bytes_held() == 5 * block);
  cache.give_back(2 * kAttentionChunk - 3);
  CHECK(cache.bytes_held() == 2 * block);
  each_head([&](std::span<uint8_t> v) {
    const auto kept = v.first(of_a_head * 2 / 5);
    CHECK(std::ranges::count(kept, 7) == std::ssize(kept));
    // Pages that come anew are zero; of what INT8 takes, two may be half in what stays.
    CHECK(std::ranges::count(v, 7) - std::ssize(kept) < (kv == KvType::kInt8 ? 2 * 4096 : 1));
  });
  cache.give_back(0);
  CHECK(cache.bytes_held() == 0);
  each_head([](std::span<uint8_t> v) { CHECK(std::ranges::count(v, 0) == std::ssize(v)); });
}

TEST_CASE("sequences: one is cut, selected or not, and the others stay") {
  const TinyModel model(q8_0_spec());
  const auto backend = with_sequences(model, best_isa(), 1, 2, 200);
  Sequences& sequences = *backend->sequences();
  for (const int s : {0, 1}) {
    sequences.select(s);
    backend->prefill(token_ids(150, model.config.vocab_size, 7));
  }
  const size_t block = KvCache::bytes_needed(model.config, kAttentionChunk, 0);
  CHECK(sequences.kv_bytes(0) == 3 * block);
  sequences.cut(0, 70);
  CHECK(sequences.kv_bytes(0) == 2 * block);
  CHECK(backend->kv_len(1) == 150);
  backend->truncate(10);
  CHECK(sequences.kv_bytes(1) == 3 * block);  // it may come again at once
  sequences.cut(1, 200);
  CHECK(sequences.kv_bytes(1) == block);
  CHECK(backend->kv_len(1) == 10);
  sequences.select(0);
  CHECK(backend->kv_len(model.config.n_layers) == 70);
  sequences.cut(0, 0);
  CHECK(backend->kv_len(1) == 0);
  CHECK(sequences.kv_bytes(0) == 0);
  sequences.copy_prefix(1, 5);
  CHECK(sequences.kv_bytes(0) == block);
}

TEST_CASE("kept conversations: the one used longest ago goes first") {
  Rig rig(4, 2);
  CHECK(rig.turn(0) == Rig::kAsked - 1);
  CHECK(rig.sessions.idle().conversations == 1);
  CHECK(rig.sessions.idle().bytes == rig.block);
  CHECK(rig.turn(1) == Rig::kAsked - 1);
  CHECK(rig.turn(0, 0) == 5);
  CHECK(rig.turn(2) == Rig::kAsked - 1);  // in place of 1
  CHECK(rig.sessions.idle().conversations == 2);
  CHECK(rig.sessions.idle().bytes == 2 * rig.block);
  CHECK(rig.turn(0, 0) == 0);
  CHECK(rig.turn(2, 0) == 5);
  const int length = rig.length(1);
  CHECK(rig.turn(1) == length - 1);
  CHECK(rig.turn(2, 0) == 0);
}

TEST_CASE("kept conversations: one that grows takes the place of others, one too long takes none") {
  Rig rig(4, 2);
  rig.turn(0);
  rig.turn(1, 30);
  CHECK(rig.sessions.idle().conversations == 2);
  CHECK(rig.turn(1, 60) == 30);  // two blocks now
  CHECK(rig.sessions.idle().conversations == 1);
  CHECK(rig.sessions.idle().bytes == 2 * rig.block);
  CHECK(rig.turn(1) == 60);  // three
  CHECK(rig.sessions.idle().conversations == 0);
  CHECK(rig.sessions.idle().bytes == 0);
  for (int i = 0; i < 4; ++i) CHECK(rig.backend->sequences()->kv_bytes(i) == 0);
  const int length = rig.length(1);
  CHECK(rig.turn(1) == length - 1);
}

TEST_CASE("kept conversations: one too long goes alone, those that fit stay") {
  Rig rig(4, 2);
  rig.turn(2, 100);
  rig.turn(0);
  rig.turn(1);  // in place of 2
  for (int turn = 0; turn < 2; ++turn) {
    const int length = rig.length(2);
    CHECK(rig.turn(2) == length - 1);  // three blocks
    CHECK(rig.sessions.idle().conversations == 2);
    CHECK(rig.sessions.idle().bytes == 2 * rig.block);
  }
  CHECK(rig.turn(0) == 5);
  CHECK(rig.turn(1) == 5);
}

TEST_CASE("kept conversations: one that was aborted before any of it was read is none") {
  const std::atomic<bool> abort{true};
  GenerateOptions options;
  options.abort = &abort;
  for (const uint64_t blocks : {0, 4}) {
    Rig rig(2, blocks);
    rig.turn(0);
    const std::vector<int32_t> prompt = token_ids(30, 97, 3);
    Session& session = rig.sessions.for_prompt(prompt);
    const int sequence = rig.sessions.selected();
    rig.sessions.hold(sequence, true);
    REQUIRE(session.generate(prompt, options).stop == StopReason::kAborted);
    REQUIRE(session.tokens().size() == prompt.size());
    REQUIRE(rig.backend->kv_len(1) == 0);
    rig.end(sequence);
    CHECK(rig.sessions.idle().conversations == (blocks == 0 ? 0 : 1));
    CHECK(rig.sessions.idle().bytes == (blocks == 0 ? 0 : rig.block));
    CHECK(session.tokens().empty());
  }
}

TEST_CASE("kept conversations: what is in use is neither counted nor dropped") {
  Rig rig(4, 1);
  const int first = rig.begin(0), second = rig.begin(1);
  CHECK(rig.sessions.idle().conversations == 0);
  CHECK(rig.turn(2) == Rig::kAsked - 1);
  CHECK(rig.turn(3) == Rig::kAsked - 1);
  CHECK(rig.sessions.idle().conversations == 1);
  CHECK(rig.backend->sequences()->kv_bytes(first) == rig.block);
  CHECK(rig.backend->sequences()->kv_bytes(second) == rig.block);
  rig.end(first);  // the last that was used
  CHECK(rig.backend->sequences()->kv_bytes(first) == rig.block);
  CHECK(rig.sessions.idle().bytes == rig.block);
  CHECK(rig.turn(0, 0) == 0);
  rig.end(second);
  CHECK(rig.backend->sequences()->kv_bytes(first) == 0);
  CHECK(rig.turn(1) == 0);
}

TEST_CASE("kept conversations: none where nothing may be kept, all where anything may") {
  Rig none(2, 0);
  for (int turn = 0; turn < 2; ++turn) {
    const int length = none.length(0);
    CHECK(none.turn(0) == length - 1);
    CHECK(none.sessions.idle().conversations == 0);
    for (const int i : {0, 1}) CHECK(none.backend->sequences()->kv_bytes(i) == 0);
  }
  Rig any(4, Sessions::kAnyBytes);
  for (int i = 0; i < 4; ++i) any.turn(i);
  CHECK(any.sessions.idle().conversations == 4);
  for (int i = 0; i < 4; ++i) CHECK(any.turn(i) == 5);
}

TEST_CASE("kept conversations: another text leaves no memory behind") {
  Rig rig(2, 4);
  rig.turn(0);
  const std::vector<int32_t> text = token_ids(150, 97, 3);
  int other = 0;
  {
    TextEmbedding embedding(rig.sessions, rig.norm(), text);
    REQUIRE(embedding.go_on());
    other = rig.sessions.selected();
    CHECK(rig.backend->sequences()->kv_bytes(other) == 3 * rig.block);
  }
  CHECK(rig.backend->sequences()->kv_bytes(other) == 0);
  CHECK(rig.turn(0) == 5);
}

TEST_CASE("kept conversations: replies side by side are the same, however few are kept") {
  KvType kv = KvType::kFp16;
  SUBCASE("FP16") {}
  SUBCASE("INT8") {
    kv = KvType::kInt8;
  }
  const TinyModel model(q8_0_spec(), kv);
  constexpr int kContext = 200;
  const auto together = with_sequences(model, best_isa(), 1, 5, kContext);
  const auto alone = model.backend(best_isa(), 1, true, kContext);
  const std::vector<BatchRequest> wanted = batch_requests(model, 24, kContext);
  const uint64_t block = KvCache::bytes_needed(model.config, kAttentionChunk, 0, kv);
  for (const uint64_t blocks : {0, 1, 3}) check_replies(*together, *alone, wanted, blocks * block);
}

// A backend that keeps one text says nothing of its memory.
TEST_CASE("kept conversations: the only one goes where nothing may be kept") {
  const TinyModel model(q8_0_spec());
  class One final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    Sequences* sequences() override { return nullptr; }
  };
  const std::vector<int32_t> ids = token_ids(20, model.config.vocab_size);
  GenerateOptions options;
  options.max_tokens = 3;
  for (const uint64_t most : {uint64_t{0}, uint64_t{1}, Sessions::kAnyBytes}) {
    One backend(model.backend(best_isa(), 1));
    Sessions sessions(backend, most);
    for (const int read : {19, most == 0 ? 19 : 0}) {
      Session& session = sessions.for_prompt(ids);
      sessions.hold(0, true);
      CHECK(session.generate(ids, options).prefilled_tokens == read);
      sessions.hold(0, false);
      CHECK(sessions.idle().conversations == (most == 0 ? 0 : 1));
      CHECK((backend.kv_len(1) == 0) == (most == 0));
    }
  }
}

}  // namespace kept_conversations_test
