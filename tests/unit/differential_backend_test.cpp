// The differential backend of `verify --bits` must see what it is there to see: faults planted in a
// backend under it are found where they are, and nothing is found where there is none.
#include "decode/differential_backend.h"

#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <optional>

#include "decode/side_by_side.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "model/exit_heads.h"
#include "temp_dir.h"

namespace differential_backend_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 6, kVocab = 97;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

// Where a fault was first planted.
struct Planted {
  int pos, rows, slot, from, to;
};

// Hands everything on; faults override parts of it.
class Faulty : public ForwardingBackend {
 public:
  explicit Faulty(int n_ctx = 0) : ForwardingBackend(model().backend(best_isa(), 1, true, n_ctx)) {}

  std::optional<Planted> planted;

 protected:
  void plant(int pos, int rows, int slot, int from, int to) {
    if (!planted) planted = {pos, rows, slot, from, to};
  }
};

// One bit of one hidden value of the third row, after layer 3, where three rows or more run.
class FlippedBit final : public Faulty {
 public:
  void run_layers(int slot, int n, int pos, int from, int to) override {
    constexpr int kLayer = 3;
    if (n < 3 || from > kLayer || to < kLayer) return inner_->run_layers(slot, n, pos, from, to);
    inner_->run_layers(slot, n, pos, from, kLayer);
    float* h = const_cast<float*>(inner_->inspect().hidden(slot + 2).data());
    h[5] = std::bit_cast<float>(std::bit_cast<uint32_t>(h[5]) ^ 1u);
    plant(pos + 2, n, slot + 2, from, to);
    if (to > kLayer) inner_->run_layers(slot, n, pos, kLayer + 1, to);
  }
};

// The logits of slot 2 are the next float.
class NudgedLogits final : public Faulty {
 public:
  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
    for (int i = 0; i < n; ++i) pos_[slot + i] = pos + i;
  }
  void logits(int slot, int n, float* out) override {
    inner_->logits(slot, n, out);
    if (slot > 2 || slot + n <= 2) return;
    float& z = out[(2 - slot) * kVocab + 11];
    z = std::bit_cast<float>(std::bit_cast<uint32_t>(z) + 1);
    plant(pos_[2], n, 2, kLayers, kLayers);
  }

 private:
  std::map<int, int> pos_;
};

// The K/V of one row more than asked for are kept.
class LaxTruncation final : public Faulty {
 public:
  void truncate(int len) override {
    int deepest = 0;
    for (int l = 1; l <= kLayers; ++l) deepest = std::max(deepest, inner_->kv_len(l));
    // Not at the beginning of a reply: the cache would not fit the prompt.
    const bool after_round = rows_ > 1 && deepest > len;
    inner_->truncate(after_round ? len + 1 : len);
    if (after_round) plant(len, rows_, len - 1 - root_, 1, 1);
    rows_ = 0;
  }
  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
    rows_ = slot + n;
    root_ = pos - slot;
  }

 private:
  int rows_ = 0, root_ = 0;
};

// One bit of one value in the cache, at a position where rows ran together.
class WrongValue final : public Faulty {
 public:
  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
    if (n < 2 || from > 4 || to < 4) return;
    plant(pos + 1, n, slot + 1, 4, 4);
  }
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override {
    inner_->inspect().read_kv(layer, pos, k, v);
    if (planted && layer == 4 && pos == planted->pos) v[3] ^= 0x8000;
  }
};

// A check that changes the row it looks at.
class MeddlingCheck final : public Faulty {
 public:
  ExitPeak exit_check(int head, int slot, float temperature) override {
    const ExitPeak peak = inner_->exit_check(head, slot, temperature);
    float* h = const_cast<float*>(inner_->inspect().hidden(slot).data());
    h[5] = std::bit_cast<float>(std::bit_cast<uint32_t>(h[5]) ^ 1u);
    return peak;
  }
};

SpecBoundParams wide() {
  SpecBoundParams params;
  params.w_max = 8;
  return params;
}

SamplingParams sampling(float temperature = 0.9f) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = 5;
  return params;
}

GenerateOptions tokens(int n) {
  GenerateOptions options;
  options.max_tokens = n;
  return options;
}

struct Result {
  SideBySide reply;
  int64_t rows_compared, kv_compared;
  std::array<int64_t, kMaxRows + 1> rows_in_passes_of;
};

// 40 tokens after 9, with drafts by chance.
Result watch(Backend& backend, double right, const GenerateOptions& options = tokens(40)) {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  DifferentialBackend differential(backend, 9 + 40, 40);
  std::optional<ForcedHead> head;
  std::optional<SpecBound> speculator;
  const auto make = [&](std::span<const int32_t> text) {
    head.emplace(forced_by_chance(text, {1, 2, 3, 4, 5}, kVocab, {0.9, right}, 3));
    speculator.emplace(*head, wide(), kLayers);
    return &*speculator;
  };
  Result result{
      decode_side_by_side(backend, &differential, sampling(), prompt, options, make), 0, 0, {}};
  result.rows_compared = differential.rows_compared();
  result.kv_compared = differential.kv_compared();
  result.rows_in_passes_of = differential.rows_in_passes_of();
  return result;
}

// The first difference is the planted fault.
const Difference& check_found(const Faulty& backend, const Result& result) {
  REQUIRE(backend.planted);
  REQUIRE(result.reply.difference);
  const Difference& found = *result.reply.difference;
  CAPTURE(describe(found));
  CHECK(found.pos == backend.planted->pos);
  CHECK(found.rows == backend.planted->rows);
  CHECK(found.slot == backend.planted->slot);
  CHECK(found.from == backend.planted->from);
  CHECK(found.to == backend.planted->to);
  CHECK(found.expected != found.found);
  return found;
}

}  // namespace

TEST_CASE(
    "differential backend: a sound backend is found sound, and what was compared is counted") {
  Faulty backend;
  const Result result = watch(backend, 0.8);
  CHECK_FALSE(result.reply.difference);
  CHECK_FALSE(result.reply.aborted);
  CHECK(result.reply.speculative.counters.rounds < 25);
  CHECK(result.reply.speculative.counters.accepted_tokens > 10);
  // Every row of the reply at the last layer and its logits; every position at every layer, in its
  // pass and after the reply.
  CHECK(result.rows_compared >= 2 * 40);
  CHECK(result.kv_compared == (40 + 48) * kLayers);
  int64_t together = 0;
  for (int n = 2; n <= 8; ++n) together += result.rows_in_passes_of[n];
  CHECK(together >= 30);
}

namespace {

// Heads of random values after layers 1..5.
ExitHeads random_heads(const TempDir& folder) {
  TinyRandom random(8);
  const auto tensor = [&](int n_out, int n_in) {
    HeadTensor t{n_out, n_in, std::vector<float>(size_t(n_out) * n_in)};
    for (float& v : t.values) v = random.normal() / 4;
    return t;
  };
  const int dim = model().config.dim;
  NewHeads file;
  file.base = heads_base(model().gguf, model().config);
  for (int i = 0; i < 48; ++i) file.shortlist.push_back(2 * i + 1);
  for (HeadKind kind : {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained}) {
    for (int l = 1; l < kLayers; ++l) {
      NewHead& head = file.heads.emplace_back();
      head.layer = l;
      head.kind = kind;
      if (kind == HeadKind::kFull) head.map = tensor(dim, dim);
      if (kind == HeadKind::kFolded) head.folded = tensor(48, dim);
      if (kind != HeadKind::kChained) continue;
      head.map = tensor(dim, 2 * dim);
      head.inner = tensor(dim, 2 * dim);
      head.outer = tensor(dim, dim);
    }
  }
  write_exit_heads(folder / "heads.gguf", file);
  return ExitHeads::open(folder / "heads.gguf", model().gguf, model().config);
}

// 40 tokens after 9, drafted by a trained head at every layer it may leave at.
SideBySide watch_heads(Backend& backend, const ExitHeads& heads, HeadKind kind, float temperature) {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  DifferentialBackend differential(backend, 9 + 40, 40);
  differential.set_exit_heads(&heads, 48);
  SpecBoundParams params = wide();
  params.tau = 0.1f;
  TrainedHead head(heads, kind);
  SpecBound speculator(head, params, kLayers);
  return decode_side_by_side(backend, &differential, sampling(temperature), prompt, tokens(40),
                             [&](std::span<const int32_t>) { return &speculator; });
}

}  // namespace

TEST_CASE("differential backend: drafts of trained heads change no bit, whatever the heads say") {
  const TempDir folder;
  const ExitHeads heads = random_heads(folder);
  for (HeadKind kind : {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained}) {
    for (float temperature : {0.0f, 0.9f}) {
      CAPTURE(head_kind_name(kind));
      Faulty backend;
      const SideBySide reply = watch_heads(backend, heads, kind, temperature);
      CHECK_FALSE(reply.difference);
      CHECK(reply.speculative.counters.drafted_tokens > 20);
      MeddlingCheck meddling;
      const SideBySide harmed = watch_heads(meddling, heads, kind, temperature);
      REQUIRE(harmed.difference);
      CHECK(harmed.difference->what != Difference::What::kMissing);
    }
  }
}

TEST_CASE("differential backend: one flipped bit of a hidden row") {
  FlippedBit backend;
  const Result result = watch(backend, 1.0);
  const Difference& found = check_found(backend, result);
  CHECK(found.what == Difference::What::kHidden);
  CHECK(found.from <= 3);
  CHECK(found.to >= 3);
  if (found.to == 3) {
    CHECK(found.element == 5);
    CHECK((found.expected ^ found.found) == 1u);
  }
}

TEST_CASE("differential backend: logits that are off by one in slot 2") {
  NudgedLogits backend;
  const Result result = watch(backend, 1.0);
  const Difference& found = check_found(backend, result);
  CHECK(found.what == Difference::What::kLogits);
  CHECK(found.element == 11);
  CHECK(found.found - found.expected == 1u);
}

TEST_CASE("differential backend: a cache that keeps a rejected row") {
  LaxTruncation backend;
  const Result result = watch(backend, 0.5);
  const Difference& found = check_found(backend, result);
  CHECK(found.what == Difference::What::kKvLen);
  CHECK(found.found == found.expected + 1);
}

TEST_CASE("differential backend: one flipped bit of a value in the cache") {
  WrongValue backend;
  const Result result = watch(backend, 1.0);
  const Difference& found = check_found(backend, result);
  CHECK(found.what == Difference::What::kValue);
  CHECK(found.element == 3);
  CHECK((found.expected ^ found.found) == 0x8000u);
}

TEST_CASE(
    "differential backend: rows behind a wrong draft have no counterpart and are not compared") {
  // The fault sits in slot 2, which no right text ever reaches.
  NudgedLogits backend;
  const Result result = watch(backend, 0.0);
  CHECK(backend.planted);
  CHECK_FALSE(result.reply.difference);
}

TEST_CASE(
    "differential backend: a row that never went through all layers, or another text's, is "
    "missed") {
  const auto backend = model().backend(best_isa(), 1);
  const std::vector<int32_t> text = token_ids(6, kVocab);
  std::vector<float> z(kVocab);
  // Position 3 goes without its logits, or with another token. The reply may be the plain one to
  // its end (6 tokens), or up to position 4, which that row gave; before that it is not to blame.
  for (const bool other_text : {false, true}) {
    for (const int same : {6, 4, 3}) {
      DifferentialBackend differential(*backend, 6, 6);
      const auto run = [&](int pos, int32_t token, bool logits) {
        differential.embed(0, token);
        differential.run_layers(0, 1, pos, 1, kLayers);
        if (logits) differential.logits(0, 1, z.data());
      };
      differential.truncate(0);
      differential.record(0);
      for (int pos = 0; pos < 5; ++pos) run(pos, text[pos], true);
      differential.compare(text);
      differential.truncate(0);
      for (int pos = 0; pos < 5; ++pos) {
        run(pos, other_text && pos == 3 ? (text[pos] + 1) % kVocab : text[pos],
            other_text || pos != 3);
      }
      CHECK_FALSE(differential.difference());
      differential.finish(same);
      CHECK(differential.difference().has_value() == (same > 3));
      if (!differential.difference()) continue;
      CHECK(differential.difference()->what == Difference::What::kMissing);
      CHECK(differential.difference()->pos == 3);
    }
  }
}

TEST_CASE("side by side: what plain decoding left in the cache is overwritten in between") {
  class Prefills final : public Faulty {
   public:
    void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
                 void* context) override {
      begin = inner_->kv_len(1);
      last.assign(tokens.begin(), tokens.end());
      inner_->prefill(tokens, progress, context);
    }
    int begin = -1;
    std::vector<int32_t> last;
  } backend;
  NoSpeculator none;
  const auto check = [&](std::span<const int32_t> text) {
    REQUIRE(text.size() == 49);
    CHECK(backend.begin == 0);
    REQUIRE(backend.last.size() >= 49);
    for (size_t pos = 0; pos < 49; ++pos) CHECK(backend.last[pos] != text[pos]);
    CHECK(backend.kv_len(1) == 0);
    return &none;
  };
  const std::vector<int32_t> reply_prompt = token_ids(9, kVocab);
  const SideBySide reply =
      decode_side_by_side(backend, nullptr, sampling(), reply_prompt, tokens(40), check);
  CHECK_FALSE(reply.difference);
  CHECK(backend.last == std::vector<int32_t>(reply_prompt.begin(), reply_prompt.end() - 1));
}

TEST_CASE("side by side: a draw that differs is told from bits that differ") {
  // Draws with another seed once it has drafted.
  class Reseeding final : public Speculator {
   public:
    const char* name() const override { return "reseeding"; }
    int width() const override { return 2; }
    DraftEnd draft(Round& round) override {
      SamplingParams params = round.sampler().params();
      params.seed += 1;
      round.sampler() = Sampler(params);
      return DraftEnd::kDifficult;
    }
  } speculator;
  Faulty backend;
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  DifferentialBackend differential(backend, 49, 40);
  for (DifferentialBackend* watching :
       {&differential, static_cast<DifferentialBackend*>(nullptr)}) {
    const SideBySide reply =
        decode_side_by_side(backend, watching, sampling(1.5f), prompt, tokens(40),
                            [&](std::span<const int32_t>) { return &speculator; });
    REQUIRE(reply.difference);
    CHECK(reply.difference->what == Difference::What::kToken);
    CHECK(reply.difference->pos >= 9);
    CHECK(reply.difference->pos < 20);
    CHECK(reply.difference->rows == 1);
    CHECK(reply.difference->slot == 0);
    CHECK(reply.difference->expected != reply.difference->found);
  }
}

TEST_CASE("side by side: another end of the reply is a difference") {
  // Ends the second reply early, or in another way at the same place.
  for (const bool early : {true, false}) {
    Faulty backend;
    GenerateOptions options = tokens(40);
    const std::vector<int32_t> prompt = token_ids(9, kVocab);
    NoSpeculator none;
    bool second = false;
    options.is_stop = [&](std::span<const int32_t> reply) {
      return second && reply.size() == (early ? 7u : 40u);
    };
    const SideBySide reply = decode_side_by_side(backend, nullptr, sampling(), prompt, options,
                                                 [&](std::span<const int32_t>) {
                                                   second = true;
                                                   return &none;
                                                 });
    REQUIRE(reply.difference);
    CAPTURE(describe(*reply.difference));
    CHECK(reply.difference->what == (early ? Difference::What::kCount : Difference::What::kStop));
    CHECK(reply.difference->pos == (early ? 9 + 7 : 9 + 40));
  }
}

TEST_CASE("side by side: an abort proves nothing") {
  for (const int after : {3, 43}) {  // in the plain reply, in the other one
    Faulty backend;
    std::atomic<bool> abort = false;
    GenerateOptions options = tokens(40);
    options.abort = &abort;
    int seen = 0;
    options.on_token = [&](const TokenEvent&) { abort = ++seen == after; };
    const Result result = watch(backend, 0.8, options);
    CHECK(result.reply.aborted);
    CHECK_FALSE(result.reply.difference);
  }
}

TEST_CASE("differential backend: memory that cannot be had is refused") {
  const auto backend = model().backend(best_isa(), 1);
  CHECK(DifferentialBackend::bytes_needed(model().config, 48, 40) ==
        40u * (kLayers * 64 + kVocab) * 4 + 48u * kLayers * 2 * 32 * 2);
  CHECK_THROWS_AS(DifferentialBackend(*backend, 1 << 30, 1 << 30), Error);
}

}  // namespace differential_backend_test
