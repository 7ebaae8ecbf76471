// SPACE: its drafts against what the model says behind mask rows alone, round after round, and what
// its files and flags are refused for.
#include "drafters/space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "speculation_rig.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"
#include "tiny_heads.h"

namespace specbound::space_test {
namespace {

using test::check_mentions;
using test::expect_error;
using test::HeadsFile;
using test::TempDir;
using Tokens = std::vector<int32_t>;

const test::TinyModel& model() {
  static const test::TinyModel model(test::q8_0_spec(3));
  return model;
}

NewHeads file_of(const HeadsBase& base, int count, uint64_t seed = 3) {
  NewHeads file;
  file.base = base;
  file.masks.rows = test::random_head_tensor(count, base.dim, seed, 0.7f);
  return file;
}

struct Masks {
  std::vector<std::byte> bytes;
  ExitHeads heads;

  explicit Masks(const NewHeads& file)
      : bytes(exit_heads_file("masks", file)),
        heads(ExitHeads::from_gguf(Gguf::parse(bytes, "masks"), &file.base)) {}
};

struct Seen {
  Tokens text;    // up to the root
  Tokens drafts;  // a chain behind it
  DraftEnd end;
  size_t emitted;
};

std::vector<Seen> rounds_of(Space& space, int max_tokens, bool with_plain) {
  const auto engine = model().backend(best_isa(), 1);
  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*engine, Sampler(greedy));
  session.set_speculator(&space);
  std::vector<Seen> seen;
  Tokens text = test::token_ids(9, 97);
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.measure_plain = with_plain;
  options.on_round = [&](const RoundEvent& round) {
    Seen one{text, {}, round.draft_end, round.tokens.size()};
    for (size_t i = 1; i < round.rows.size(); ++i) {
      CHECK(round.rows[i].parent == static_cast<int>(i) - 1);
      one.drafts.push_back(round.rows[i].token);
    }
    for (const LayerPass& pass : round.passes) {
      CHECK(pass.rows == static_cast<int>(round.rows.size()));
    }
    seen.push_back(one);
    for (const TokenEvent& event : round.tokens) text.push_back(event.token);
  };
  session.generate(text, options);
  return seen;
}

// What the model says behind k masks that stand where the last token of `text` does.
Tokens said(Backend& engine, const MaskTokens& masks, int k, const Tokens& text) {
  const int pos = static_cast<int>(text.size()) - 1;
  const auto dim = static_cast<size_t>(engine.config().dim);
  engine.truncate(0);
  engine.prefill(std::span(text).first(text.size() - 1));
  Tokens out;
  std::vector<float> z(static_cast<size_t>(engine.config().vocab_size));
  for (int i = 0; i < k; ++i) {
    if (masks.rows) {
      engine.set_row(i, {masks.rows + static_cast<size_t>(i) * dim, dim});
    } else {
      engine.embed(i, masks.token);
    }
    engine.run_layers(i, 1, pos + i, 1, engine.config().n_layers);
    engine.logits(i, 1, z.data());
    out.push_back(static_cast<int32_t>(std::ranges::max_element(z) - z.begin()));
  }
  return out;
}

// Asks for an end as soon as several rows go through layers.
struct Impatient final : test::ForwardingBackend {
  using ForwardingBackend::ForwardingBackend;
  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
    if (n > 1) abort = true;
  }
  std::atomic<bool> abort = false;
};

}  // namespace

TEST_CASE("space: drafts are what the model says behind masks, round after round") {
  NewHeads by_token;
  by_token.base = heads_base(model().gguf, model().config);
  by_token.masks.token = 41;
  by_token.masks.count = 3;
  const auto engine = model().backend(best_isa(), 1);
  int accepted = 0, plain = 0;
  for (const NewHeads& file : {file_of(by_token.base, 3), file_of(by_token.base, 1),
                               file_of(by_token.base, 5), by_token}) {
    const Masks masks(file);
    const int count = masks.heads.masks().count;
    CAPTURE(count);
    for (const auto& [w_max, most] : {std::pair(kMaxRows, 3), {9, 2}, {8, 1}}) {
      Space space(masks.heads.masks(), w_max);
      CHECK(space.drafts() == std::min(count, most));
      const std::vector<Seen> rounds = rounds_of(space, 60, w_max == 9);
      REQUIRE(rounds.size() > 3);
      CHECK(rounds[0].drafts.empty());
      for (size_t r = 1; r < rounds.size(); ++r) {
        CAPTURE(r);
        const Seen& round = rounds[r];
        accepted += static_cast<int>(round.emitted) - 1;
        if (round.end == DraftEnd::kPlain || rounds[r - 1].end == DraftEnd::kPlain) {
          ++plain;
          CHECK(round.drafts.empty());
          continue;
        }
        Tokens expected = said(*engine, masks.heads.masks(), space.drafts(), round.text);
        // At the end of a reply there are fewer rows.
        const size_t left = 9 + 60 - round.text.size();
        expected.resize(std::min({expected.size(), left - 1}));
        if (left > static_cast<size_t>(w_max)) CHECK(round.drafts == expected);
        CHECK(std::ranges::equal(round.drafts, std::span(expected).first(round.drafts.size())));
      }
    }
  }
  CHECK(accepted > 0);
  CHECK(plain > 0);
}

TEST_CASE("space: nothing is guessed behind masks of a round that was broken off") {
  const Masks masks(file_of(heads_base(model().gguf, model().config), 3));
  Impatient engine(model().backend(best_isa(), 1));
  Space space(masks.heads.masks(), kMaxRows);
  Session session(engine, Sampler({}));
  session.set_speculator(&space);
  GenerateOptions options;
  options.max_tokens = 8;
  options.abort = &engine.abort;
  CHECK(session.generate(test::token_ids(9, 97), options).stop == StopReason::kAborted);
  options.abort = nullptr;
  options.measure_plain = true;  // the first round has no masks of its own
  std::vector<size_t> rows;
  options.on_round = [&](const RoundEvent& round) { rows.push_back(round.rows.size()); };
  session.generate(test::token_ids(9, 97), options);
  REQUIRE(rows.size() > 2);
  CHECK(rows[0] == 1);
  CHECK(rows[1] == 1);
  CHECK(rows[2] > 1);
}

TEST_CASE("space: what is asked of it, and what it says of itself") {
  using test::kLayers;
  const TempDir folder;
  const std::string path = folder / "m.gguf", heads = folder / "m.heads.gguf";
  const test::TinyModel& tiny = test::tiny(kLayers);
  const HeadsBase base = heads_base(tiny.gguf, tiny.config);
  write_exit_heads(heads, file_of(base, 3));
  const auto make = [&](std::vector<std::string> flags, const std::string& at) {
    flags.insert(flags.begin(), {"--speculator", "space"});
    const test::Parsed parsed = test::parse(flags);
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return test::speculation(parsed.flags, kLayers, at);
  };
  const auto all = make({}, path);
  CHECK(all->description() == "speculation on: space, 3 of 3 mask tokens of " + heads +
                                  " behind each row, up to 16 rows");
  CHECK(make({"--w-max", "9"}, path)->description() ==
        "speculation on: space, 2 of 3 mask tokens of " + heads + " behind each row, up to 9 rows");
  check_mentions(with_flags(expect_error(ErrorCode::kUsage,
                                         [&] {
                                           make({"--w-max", "3"}, path);
                                         })),
                 {"--w-max: expected the 4 rows", "found 3"});
  check_mentions(
      with_flags(expect_error(ErrorCode::kUsage, [&] { make({}, folder / "none.gguf"); })),
      {"--speculator space: expected mask tokens in", "found none", "make_space_masks.py"});
  NewHeads by_token;
  by_token.base = base;
  by_token.masks = {.token = 96, .count = 2};
  write_exit_heads(heads, by_token);
  CHECK(make({}, path)->description() == "speculation on: space, 2 of 2 mask tokens of " + heads +
                                             " behind each row, up to 16 rows");
  // The tree of all sources has no use for them.
  const test::Parsed parsed = test::parse({"--speculator", "auto"});
  CHECK(test::speculation(parsed.flags, kLayers, path)->drafter() == "lookup");
  const test::Parsed headed = test::parse({"--speculator", "auto", "--head", "chained"});
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { test::speculation(headed.flags, kLayers, path); }),
      {"--head chained", heads + " holds no heads"});
}

TEST_CASE("hostile heads: mask tokens") {
  const HeadsBase base = heads_base(model().gguf, model().config);
  NewHeads by_token;
  by_token.base = base;
  by_token.masks = {.token = 3, .count = 2};
  const HeadsFile rows(Gguf::parse(exit_heads_file("m", file_of(base, 2)), "m"));
  const HeadsFile token(Gguf::parse(exit_heads_file("m", by_token), "m"));
  const auto refuse = [&](HeadsFile file, auto&& change, const std::vector<std::string>& parts) {
    change(file);
    const std::vector<std::byte> bytes = file.bytes();
    const std::string said = expect_error(
        ErrorCode::kFormat, [&] { ExitHeads::from_gguf(Gguf::parse(bytes, "masks"), &base); });
    for (const std::string& part : parts) CHECK_MESSAGE(said.find(part) != said.npos, said);
  };
  const std::string name = "exit.masks.weight";
  const auto resize = [&](int n_in, int n_out) {
    return [=](HeadsFile& f) {
      test::TinyTensor& t = f.tensor("exit.masks.weight");
      t.shape = {static_cast<uint64_t>(n_in), static_cast<uint64_t>(n_out)};
      t.bytes.resize(sizeof(float) * static_cast<size_t>(n_in) * static_cast<size_t>(n_out));
    };
  };
  refuse(rows, resize(base.dim, 16), {name, "up to 15 rows", "found 16"});
  refuse(rows, resize(base.dim - 1, 2), {name, "expected shape"});
  const float nan = std::nanf("");
  refuse(rows, [&](HeadsFile& f) { std::memcpy(f.tensor(name).bytes.data(), &nan, sizeof(nan)); },
         {name, "finite values"});
  refuse(rows,
         [&](HeadsFile& f) {
           f.tensor(name).type = DType::kF16;
           f.tensor(name).bytes.resize(f.tensor(name).bytes.size() / 2);
         },
         {name, "expected F32"});
  refuse(rows, [](HeadsFile& f) { f.numbers[kMaskTokenKey] = 3; }, {kMaskTokenKey, "found both"});
  refuse(rows, [&](HeadsFile& f) { f.remove(name); }, {"mask tokens", "found none"});
  for (const uint32_t id : {97u, UINT32_MAX}) {
    refuse(token, [&](HeadsFile& f) { f.numbers[kMaskTokenKey] = id; },
           {kMaskTokenKey, "expected 0 to 96", "found " + std::to_string(id)});
  }
  for (const uint32_t n : {0u, 16u, UINT32_MAX}) {
    refuse(token, [&](HeadsFile& f) { f.numbers[kMaskCountKey] = n; },
           {kMaskCountKey, "expected 1 to 15", "found " + std::to_string(n)});
  }
  refuse(token, [](HeadsFile& f) { f.without = {kMaskCountKey}; }, {kMaskCountKey, "no such key"});
  refuse(token,
         [](HeadsFile& f) {
           f.numbers.erase(kMaskTokenKey);
           f.texts[kMaskTokenKey] = "3";
         },
         {kMaskTokenKey, "expected a whole number, zero or more, found string"});
}

}  // namespace specbound::space_test
