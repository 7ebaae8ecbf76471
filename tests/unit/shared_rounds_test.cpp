// Rounds of replies that share passes, with random trees of drafts behind the roots of all of them,
// while replies come, go, stop, fail and are alone for a while. After each round the K/V of its
// positions, kv_len at every layer and the logits are, bit for bit, those of a shadow that decodes
// plainly. docs/architecture.md 3.5, 3.6, 4.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "coverage.h"
#include "decode/reply_batch.h"
#include "plain_shadow.h"
#include "random_conversation.h"
#include "sequences_rig.h"

namespace shared_rounds_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kMostTexts = 6;

struct Setting {
  const char* name;
  int rounds;  // shared ones
  const char* architecture = "llama";
  KvType kv = KvType::kFp16;
  int threads = 1;
  SamplingParams sampling = {};
};

// What one reply must be, and what befalls it.
struct Expected {
  std::vector<int32_t> prompt;
  PlainShadow shadow;
  int32_t end_token = kNone;
  std::vector<int32_t> stop;
  int max_tokens = kNone, fails_after = kNone, aborts_after = kNone;
  std::atomic<bool> abort{false};
  std::vector<int32_t> tokens;
  float right = 0;  // share of its drafts

  Expected(std::unique_ptr<Backend> backend, const SamplingParams& params)
      : shadow(std::move(backend), params) {}

  bool stops(std::span<const int32_t> reply) const {
    return !stop.empty() && reply.size() >= stop.size() &&
           std::equal(stop.begin(), stop.end(), reply.end() - std::ssize(stop));
  }
};

// Random trees for all replies, of which it knows the text that is to come.
class RandomTrees final : public SharedDrafter {
 public:
  RandomTrees(TinyRandom& random, Coverage& coverage) : random_(random), coverage_(coverage) {}

  struct Known final : Text {
    explicit Known(Expected& of) : of(of) {}
    Expected& of;
  };
  Expected* next = nullptr;  // of which a reply begins

  std::unique_ptr<Text> begin(std::span<const int32_t> text) override {
    CHECK(std::ranges::equal(text, next->shadow.text(static_cast<int>(text.size()))));
    return std::make_unique<Known>(*next);
  }
  void draft(std::span<const Reply> replies, int room) override {
    REQUIRE(room == kMaxRows - std::ssize(replies));
    if (below(12) == 0) throw std::runtime_error("nothing can be drafted");
    room = below(4) ? room : below(room + 1);
    int rows = static_cast<int>(replies.size());
    for (int tries = 0; tries < 3 * kMaxRows && room > 0; ++tries) {
      const Reply& reply = replies[random_.next() % replies.size()];
      if (!reply.text || reply.round->full()) continue;
      if (!add(*reply.round, static_cast<Known&>(*reply.text).of)) continue;
      ++rows;
      --room;
    }
    coverage_.met("texts in a pass", static_cast<int>(replies.size()));
    coverage_.met("rows in a pass", rows);
  }
  void accept(Text& text, const RoundEvent& round) override {
    const Known& known = static_cast<Known&>(text);
    CHECK(round.tokens.back().token == known.of.shadow.token(round.tokens.back().pos));
  }
  bool add(Round& round, Expected& of) {
    const int parent = below(5) < 3 ? round.newest() : below(round.rows());
    const int pos = static_cast<int>(round.history(parent).size());
    int32_t token = below(kVocabulary);
    const int wrong = below(3);
    if (random_.uniform() < of.right) {
      token = of.shadow.token(pos);
    } else if (wrong == 0 && of.end_token != kNone) {
      token = of.end_token;
    } else if (wrong == 1 && !of.stop.empty()) {
      token = of.stop.back();
    }
    if (round.child(parent, token) >= 0) return false;
    round.append_to(parent, token, 0);
    return true;
  }

 private:
  int below(int n) { return static_cast<int>(random_.next() % n); }

  TinyRandom& random_;
  Coverage& coverage_;
};

// Drafts such trees alone too.
class AloneOrShared final : public Speculator {
 public:
  explicit AloneOrShared(RandomTrees& trees) : trees_(trees) {}
  const char* name() const override { return "trees"; }
  int width() const override { return 7; }
  DraftEnd draft(Round& round) override {
    for (int tries = 0; tries < 20 && !round.full(); ++tries) trees_.add(round, *of);
    return DraftEnd::kWidth;
  }
  SharedDrafter* shared() override {
    trees_.next = of;
    return &trees_;
  }
  Expected* of = nullptr;

 private:
  RandomTrees& trees_;
};

class Companies {
 public:
  Companies(const Setting& setting, uint64_t seed, Coverage& coverage)
      : setting_(setting),
        random_(seed),
        coverage_(coverage),
        model_(stress_model(setting.architecture, setting.kv)),
        backend_(with_sequences(model_, best_isa(), setting.threads, kMostTexts, kContext)),
        sessions_(*backend_),
        batch_(sessions_),
        trees_(random_, coverage) {}

  void run() {
    while (rounds_ < setting_.rounds) {
      const bool crowd = below(9) > 0;  // else the last one is alone for a while
      while (!batch_.full() && (batch_.size() == 0 || (crowd && below(2)))) add();
      if (below(60) == 0 && batch_.size() > 1) drop();
      for (const WrittenReply& written : batch_.step()) check_end(written);
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_.next() % n); }

  std::vector<int32_t> prompt() {
    // Some begin alike; of all lengths, near edges of chunks and near the end of the context too.
    std::vector<int32_t> text = token_ids(1 + below(30), kVocabulary, 3 + below(2));
    const int size = below(3) == 0
                         ? 1 + below(kContext)
                         : 64 * (1 + below(2)) - below(24) + static_cast<int>(random_.next() % 8);
    while (std::ssize(text) < size) text.push_back(below(kVocabulary));
    text.resize(size);
    return text;
  }

  void add() {
    const int64_t id = next_id_++;
    SamplingParams sampling = setting_.sampling;
    sampling.seed = static_cast<uint64_t>(id);
    Expected& of = *(expected_[id] = std::make_unique<Expected>(
                         model_.backend(best_isa(), 1, true, kContext), sampling));
    of.prompt = prompt();
    const auto number = static_cast<uint32_t>(below(3));
    of.shadow.begin(of.prompt, number);
    of.right = below(3) == 0 ? 1.0f : 0.3f + 0.6f * random_.uniform();
    const int first = static_cast<int>(of.prompt.size()),
              last = std::min(first + below(30), kContext);
    const int kind = below(8);
    if (kind < 2) of.end_token = of.shadow.token(last);
    if (kind == 2 || kind == 3) {
      if (last > first) of.stop.push_back(of.shadow.token(last - 1));
      of.stop.push_back(of.shadow.token(last));
    }
    if (kind == 4) of.fails_after = 1 + below(20);
    if (kind == 5) of.aborts_after = 1 + below(20);

    BatchRequest request;
    request.prompt = of.prompt;
    request.sampling = sampling;
    GenerateOptions& options = request.options;
    options.reply = number;
    of.max_tokens = below(3) == 0 ? 1 + below(40) : kNone;
    options.max_tokens = of.max_tokens;
    options.abort = &of.abort;
    options.is_end = [&of](int32_t token) { return token == of.end_token; };
    options.is_stop = [&of](std::span<const int32_t> reply) { return of.stops(reply); };
    options.on_logits = [&of](const TokenEvent& event, std::span<const float> logits) {
      const int at = event.pos - 1;
      REQUIRE(same_bits(logits.data(), of.shadow.through(at).logits_at(at), logits.size()));
    };
    options.on_token = [&of](const TokenEvent& event) {
      REQUIRE(event.token == of.shadow.token(event.pos));
      of.tokens.push_back(event.token);
      const int n = static_cast<int>(of.tokens.size());
      if (n == of.fails_after) throw Failure("a reader failed");
      if (n == of.aborts_after) of.abort = true;
    };
    options.on_round = [this, &of](const RoundEvent& round) { check_round(of, round); };
    if (below(8) > 0) {
      request.speculator = [this, &of]() -> Speculator* {
        speculator_.of = &of;
        return &speculator_;
      };
    }
    batch_.add(id, std::move(request));
  }

  void drop() {
    const int64_t id = next_id_ - 1;
    if (!expected_.contains(id)) return;
    batch_.drop(id);
    expected_.erase(id);
  }

  void check_round(Expected& of, const RoundEvent& round) {
    const int p = round.pos, n = static_cast<int>(round.tokens.size());
    CAPTURE(p);
    for (int l = 1; l <= kLayers; ++l) REQUIRE(backend_->kv_len(l) == p + n);
    check_kv(of, p, p + n);
    if (batch_.size() == 1) return;
    ++rounds_;
    const int last = round.tokens.back().slot;
    coverage_.met("tokens of a round", n);
    if (!is_chain(round.rows)) coverage_.met("tree");
    if (last >= n) coverage_.met("path moved");
    if (n > 1 && p / 64 < (p + n - 1) / 64) coverage_.met("chunk edge within the path");
    if (p + static_cast<int>(round.rows.size()) == kContext) coverage_.met("context filled");
    if (round.tokens.back().accepted()) {
      coverage_.met("over at an accepted draft");
      if (round.tokens.back().ends_reply) coverage_.met("end token from an accepted draft");
      if (of.abort) coverage_.met("abort at an accepted draft");
    }
  }

  // Positions [begin, end).
  void check_kv(Expected& of, int begin, int end) {
    if (begin == end) return;
    const Record& plain = of.shadow.through(end - 1);
    Record found(model_.config, end);
    const size_t size = size_t(kLayers) * found.kv_dim;
    for (int pos = begin; pos < end; ++pos) {
      found.read_kv(*backend_, pos);
      const size_t at = size * pos;
      CAPTURE(pos);
      REQUIRE(same_bits(&found.k[at], &plain.k[at], size));
      REQUIRE(same_bits(&found.v[at], &plain.v[at], size));
    }
  }

  void check_end(const WrittenReply& written) {
    Expected& of = *expected_.at(written.id);
    const int n = static_cast<int>(written.tokens.size()),
              first = static_cast<int>(of.prompt.size());
    REQUIRE(std::ranges::equal(written.tokens, of.shadow.text(n)));
    const bool ended = !written.error && written.stats.stop == StopReason::kEnd;
    REQUIRE(std::ranges::equal(of.tokens, of.shadow.text(n).subspan(first, n - first - ended)));
    if (written.error) {
      REQUIRE(std::ssize(of.tokens) == of.fails_after);
      coverage_.met("reader failed");
    } else if (written.stats.stop == StopReason::kAborted) {
      REQUIRE(std::ssize(of.tokens) == of.aborts_after);
    } else {
      REQUIRE(written.stats.stop == plain_stop(of, written));
      if (written.stats.stop == StopReason::kContext) coverage_.met("context end");
      if (written.stats.stop == StopReason::kStopString) coverage_.met("stop string");
    }
    // All of it, not only what the last rounds brought: no round may touch what was there.
    for (int sequence = 0; sequence < kMostTexts; ++sequence) {
      if (!std::ranges::equal(sessions_.select(sequence).tokens(), written.tokens)) continue;
      REQUIRE(backend_->kv_len(1) == n - 1);
      check_kv(of, 0, n - 1);
    }
    expected_.erase(written.id);
  }

  StopReason plain_stop(Expected& of, const WrittenReply& written) {
    if (of.end_token != kNone && written.tokens.back() == of.end_token) return StopReason::kEnd;
    if (of.stops(of.tokens)) return StopReason::kStopString;
    if (std::ssize(of.tokens) == of.max_tokens) return StopReason::kLength;
    REQUIRE(std::ssize(written.tokens) == kContext + 1);
    return StopReason::kContext;
  }

  const Setting& setting_;
  TinyRandom random_;
  Coverage& coverage_;
  const TinyModel& model_;
  std::unique_ptr<Backend> backend_;
  std::map<int64_t, std::unique_ptr<Expected>> expected_;
  Sessions sessions_;
  ReplyBatch batch_;
  RandomTrees trees_;
  AloneOrShared speculator_{trees_};
  int64_t next_id_ = 0;
  int rounds_ = 0;
};

SamplingParams sampled(float temperature, float penalty = 1, bool filters = false) {
  SamplingParams p;
  p.temperature = temperature;
  p.repeat_penalty = penalty;
  if (!filters) p.top_k = 0, p.top_p = 1, p.min_p = 0;
  return p;
}

}  // namespace

TEST_CASE(
    "4,000 shared rounds of random trees leave the K/V, kv_len and logits of plain decoding") {
  Coverage coverage;
  coverage.expect("texts in a pass", 1, kMostTexts);
  coverage.expect("rows in a pass", 2, kMaxRows);
  coverage.expect("tokens of a round", 1, 8);
  for (const char* what :
       {"tree", "path moved", "chunk edge within the path", "context filled", "context end",
        "stop string", "over at an accepted draft", "end token from an accepted draft",
        "abort at an accepted draft", "reader failed"}) {
    coverage.expect(what);
  }
  const std::vector<Setting> settings = {
      {.name = "greedy", .rounds = 1000, .sampling = sampled(0)},
      {.name = "sampled, INT8", .rounds = 1000, .kv = KvType::kInt8, .sampling = sampled(0.7f)},
      {.name = "windows, penalized",
       .rounds = 1000,
       .architecture = "gemma2",
       .sampling = sampled(0, 1.3f)},
      {.name = "two threads, all",
       .rounds = 1000,
       .architecture = "phi3",
       .threads = 2,
       .sampling = sampled(0.7f, 1.3f, true)},
  };
  uint64_t seed = 1;
  for (const Setting& setting : settings) {
    CAPTURE(setting.name);
    Companies(setting, seed++, coverage).run();
  }
  coverage.require_all();
}

}  // namespace shared_rounds_test
