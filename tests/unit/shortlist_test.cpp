// Tokens of the text beside a short list: what heads may say, and that its logits are, bit for bit,
// those of a list that has every token.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "engine/cpu/shortlist.h"
#include "engine_rig.h"
#include "tiny_heads.h"

namespace shortlist_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
constexpr int kShort = 16, kMost = Shortlist::kMostMet;

// A model with a draft layer and a chained head, whose file lists every token.
struct Subject {
  TinyModel model;
  std::vector<std::byte> bytes;
  std::optional<ExitHeads> heads;

  explicit Subject(int vocab_size, DType lm_head = DType::kQ8_0)
      : model([&] {
          TinySpec spec = q8_0_spec(3);
          spec.vocab_size = vocab_size;
          spec.max_seq_len = 4 * kMost;
          spec.types["output.weight"] = lm_head;
          return spec;
        }()) {
    const HeadsBase base = heads_base(model.gguf, model.config);
    NewHeads file;
    file.base = base;
    file.shortlist.resize(vocab_size);
    for (int i = 0; i < vocab_size; ++i) file.shortlist[i] = (i * 7 + 5) % vocab_size;
    file.heads = {random_head(HeadKind::kChained, 0, base.dim, vocab_size, 32, 9),
                  random_layer(base, 64, 3)};
    file.defaults.kind = HeadKind::kLayer;
    bytes = exit_heads_file("heads", file);
    heads.emplace(ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base));
  }

  std::unique_ptr<Backend> backend(int shortlist, int threads = 1, bool repack = true) const {
    auto made = model.backend(best_isa(), threads, repack, 2 * kMost);
    made->set_exit_heads(&*heads, shortlist);
    return made;
  }
  int all() const { return static_cast<int>(heads->shortlist().size()); }
  int head(HeadKind kind) const { return heads->find(kind, 0); }
};

void read(Backend& backend, const Text& text) {
  backend.prefill(std::span(text).first(text.size() - 1));
  backend.embed(0, text.back());
  backend.keep_state(0);
}

struct Looked {
  ExitPeak peak;
  std::vector<float> z;
  Text ids;
};

Looked look(Backend& backend, int head) {
  Looked looked;
  looked.peak = backend.exit_check(head, 0, 1.3f);
  looked.z.assign(backend.exit_logits().begin(), backend.exit_logits().end());
  looked.ids.assign(backend.exit_ids().begin(), backend.exit_ids().end());
  REQUIRE(looked.z.size() == looked.ids.size());
  return looked;
}

bool has(const Looked& looked, int32_t token) {
  return std::ranges::find(looked.ids, token) != looked.ids.end();
}

// Of a list with every token: z by token.
std::vector<float> by_token(const Looked& whole) {
  std::vector<float> z(whole.z.size());
  for (size_t i = 0; i < z.size(); ++i) z[whole.ids[i]] = whole.z[i];
  return z;
}

void check_looked(const Looked& looked, const std::vector<float>& all) {
  size_t best = 0;
  for (size_t i = 0; i < looked.z.size(); ++i) {
    REQUIRE(same_bits(&looked.z[i], &all[looked.ids[i]], 1));
    if (looked.z[i] > looked.z[best]) best = i;
  }
  CHECK(looked.peak.token == looked.ids[best]);
  double total = 0;
  for (float z : looked.z) total += std::exp((double{z} - looked.z[best]) / 1.3);
  CHECK(std::fabs(looked.peak.confidence * total - 1) < 1e-5);
}

}  // namespace

TEST_CASE("shortlist: a token of the text can be guessed, another one beside the list cannot") {
  const Subject s(97);
  int guessed = 0, missed = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Text text = token_ids(1 + static_cast<int>(seed), 97, seed);
    const auto few = s.backend(kShort), every = s.backend(s.all());
    read(*few, text);
    read(*every, text);
    std::set<int32_t> may(s.heads->shortlist().begin(), s.heads->shortlist().begin() + kShort);
    const std::set<int32_t> listed = may;
    may.insert(text.begin(), text.end());
    for (const HeadKind kind : {HeadKind::kChained, HeadKind::kLayer}) {
      const Looked whole = look(*every, s.head(kind)), looked = look(*few, s.head(kind));
      REQUIRE(std::set<int32_t>(looked.ids.begin(), looked.ids.end()) == may);
      REQUIRE(looked.ids.size() == may.size());
      check_looked(looked, by_token(whole));
      CHECK(may.contains(looked.peak.token));
      guessed += !listed.contains(looked.peak.token);
      missed += !may.contains(whole.peak.token);
    }
  }
  CHECK(guessed >= 10);
  CHECK(missed >= 10);
}

TEST_CASE("shortlist: the same bits on any number of threads, with tiles and without") {
  for (DType type :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ5_0, DType::kIQ4_NL, DType::kF16, DType::kBF16}) {
    CAPTURE(std::string(dtype_info(type)->name));
    const Subject s(403, type);
    const Text text = token_ids(150, 403);
    for (const HeadKind kind : {HeadKind::kChained, HeadKind::kLayer}) {
      std::optional<Looked> first;
      for (int threads : {1, 2, 3}) {
        for (bool repack : {true, false}) {
          CAPTURE(threads);
          CAPTURE(repack);
          // A list that ends within a chunk of peaks and a tile of the text's that is not full.
          const auto backend = s.backend(80, threads, repack), every = s.backend(s.all(), threads);
          read(*backend, text);
          read(*every, text);
          const Looked looked = look(*backend, s.head(kind));
          check_looked(looked, by_token(look(*every, s.head(kind))));
          if (!first) first = looked;
          CHECK(looked.ids == first->ids);
          CHECK(same_bits(looked.z.data(), first->z.data(), first->z.size()));
          CHECK(same_bits(&looked.peak.confidence, &first->peak.confidence, 1));
        }
      }
    }
  }
}

TEST_CASE("shortlist: of more tokens than it holds the newest stay") {
  constexpr int kVocab = kShort + kMost + 300;
  const Subject s(kVocab);
  const auto backend = s.backend(kShort, 2), every = s.backend(s.all(), 2);
  // Every token that the list lacks, once.
  const Text text(s.heads->shortlist().begin() + kShort, s.heads->shortlist().end());
  read(*backend, text);
  read(*every, text);
  for (const HeadKind kind : {HeadKind::kChained, HeadKind::kLayer}) {
    const Looked looked = look(*backend, s.head(kind));
    CHECK(looked.ids.size() == kShort + kMost);
    for (size_t i = 0; i < text.size(); ++i) {
      REQUIRE(has(looked, text[i]) == (i >= text.size() - kMost));
    }
    check_looked(looked, by_token(look(*every, s.head(kind))));
  }
  // One that had to go comes again, and the next oldest goes.
  const int layer = s.head(HeadKind::kLayer);
  backend->embed(0, text[0]);
  const Looked again = look(*backend, layer);
  CHECK(again.ids.size() == kShort + kMost);
  CHECK(has(again, text[0]));
  CHECK(!has(again, text[text.size() - kMost]));
  CHECK(has(again, text[text.size() - kMost + 1]));
  every->embed(0, text[0]);
  check_looked(again, by_token(look(*every, layer)));
}

TEST_CASE("shortlist: a token stays when its position goes, and goes with the text") {
  const Subject s(97);
  const auto backend = s.backend(kShort);
  const int32_t token = s.heads->shortlist()[40], other = s.heads->shortlist()[41];
  const int layer = s.head(HeadKind::kLayer);
  backend->prefill(Text{other, token, other});
  backend->truncate(1);
  backend->embed(0, other);
  CHECK(has(look(*backend, layer), token));
  backend->embed(0, other);  // known already
  CHECK(look(*backend, layer).ids.size() == kShort + 2);
  backend->truncate(0);
  CHECK(backend->exit_ids().empty());
  backend->embed(0, other);
  const Looked looked = look(*backend, layer);
  CHECK(!has(looked, token));
  CHECK(has(looked, other));
  CHECK(looked.ids.size() == kShort + 1);
}

}  // namespace shortlist_test
