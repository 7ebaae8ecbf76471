// Kangaroo: which layers run which rows, where its drafts end, and what its files and checkpoints
// are refused for. What an adapter says is in convert_heads_test.cpp and draft_layer_test.cpp.
#include "drafters/kangaroo.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "broken_heads.h"
#include "decode/generate.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "seen_round.h"
#include "speculation_rig.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"
#include "tiny_heads.h"

namespace specbound::kangaroo_test {
namespace {

using nlohmann::json;
using published::Broken;
using published::case_named;
using published::refused;
using test::check_mentions;
using test::expect_error;
using test::HeadsFile;
using test::TempDir;

constexpr int kModelLayers = 6, kLayer = 2;
constexpr auto kDraft = Phase::kDraft, kVerify = Phase::kVerify;

struct Subject {
  test::TinyModel model{test::q8_0_spec(kModelLayers)};
  HeadsBase base = heads_base(model.gguf, model.config);
  std::vector<std::byte> bytes;
  ExitHeads heads = [this] {
    NewHeads file;
    file.base = base;
    file.heads = {test::random_kangaroo(base, kLayer, 3)};
    file.defaults.kind = HeadKind::kKangaroo;
    bytes = exit_heads_file("heads", file);
    return ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);
  }();
};

const Subject& subject() {
  static const Subject subject;
  return subject;
}

struct Seen : test::SeenRound {
  explicit Seen(const RoundEvent& round) : SeenRound(round) {
    for (const RowEvent& row : round.rows) {
      for (const ExitCheck& check : row.checks) {
        CHECK(check.layer == kLayer);
        shares.push_back(check.confidence);
      }
    }
  }
  std::vector<float> shares;  // of each row that was looked at
};

std::vector<Seen> rounds_of(const KangarooParams& params) {
  const Subject& s = subject();
  const auto engine = s.model.backend(best_isa(), 1);
  engine->set_exit_heads(&s.heads, 0);
  Kangaroo speculator(s.heads, params);
  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*engine, Sampler(greedy));
  session.set_speculator(&speculator);
  std::vector<Seen> seen;
  GenerateOptions options;
  options.max_tokens = 60;
  options.on_round = [&](const RoundEvent& round) { seen.emplace_back(round); };
  session.generate(test::token_ids(9, 97), options);
  return seen;
}

}  // namespace

TEST_CASE("kangaroo: drafts run the first layers, verification what is left of them") {
  const Seen round = rounds_of({.w_max = 4, .eta = 0}).at(0);
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.exits == std::vector<int>{kLayer, kLayer, kLayer, kNoDraft});
  CHECK(round.checks == std::vector<int>{1, 1, 1, 0});
  CHECK(round.passes == std::vector<LayerPass>{{1, kLayer, 0, 1, kDraft},
                                               {1, kLayer, 1, 1, kDraft},
                                               {1, kLayer, 2, 1, kDraft},
                                               {1, kLayer, 3, 1, kVerify},
                                               {kLayer + 1, kModelLayers, 0, 4, kVerify}});
}

TEST_CASE("kangaroo: the first draft below the threshold is the last one") {
  // Among shares of random weights.
  std::vector<float> shares;
  for (const Seen& round : rounds_of({.w_max = 7, .eta = 0})) {
    shares.insert(shares.end(), round.shares.begin(), round.shares.end());
  }
  REQUIRE(shares.size() > 100);
  std::ranges::sort(shares);
  const float eta = shares[shares.size() / 4];
  bool unsure = false, whole = false, went_on = false;
  for (const Seen& round : rounds_of({.w_max = 7, .eta = eta})) {
    const std::vector<float>& found = round.shares;
    const size_t drafts = static_cast<size_t>(round.rows) - 1;
    if (round.draft_end == DraftEnd::kPlain) continue;
    CHECK(found.size() == drafts);
    for (size_t i = 0; i + 1 < found.size(); ++i) {
      CHECK(found[i] >= eta);
      went_on = true;
    }
    if (round.draft_end == DraftEnd::kDifficult) {
      unsure = true;
      CHECK(found.back() < eta);
    } else if (drafts == 6) {
      whole = true;
    }
  }
  CHECK(unsure);
  CHECK(whole);
  CHECK(went_on);
}

TEST_CASE("kangaroo: what is asked of it, and what it says of itself") {
  using test::kLayers;
  const TempDir folder;
  const std::string path = folder / "m.gguf", heads = folder / "m.heads.gguf";
  const test::TinyModel& model = test::tiny(kLayers);
  NewHeads file;
  file.base = heads_base(model.gguf, model.config);
  file.heads = {test::random_kangaroo(file.base, 3, 1)};
  file.defaults.kind = HeadKind::kKangaroo;
  write_exit_heads(heads, file);
  const auto make = [&](std::vector<std::string> flags, const std::string& at) {
    flags.insert(flags.begin(), {"--speculator", "kangaroo"});
    const test::Parsed parsed = test::parse(flags);
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return test::speculation(parsed.flags, kLayers, at);
  };
  CHECK(make({}, path)->description() ==
        "speculation on: kangaroo, 3 of 16 layers and an adapter "
        "of " +
            heads + ", up to 7 rows, threshold 0.6");
  const auto other = make({"--w-max", "16", "--tau", "0.25"}, path);
  REQUIRE(other->kangaroo() != nullptr);
  CHECK(other->kangaroo()->width() == 16);
  CHECK(other->kangaroo()->params().eta == 0.25f);
  check_mentions(
      with_flags(expect_error(ErrorCode::kUsage, [&] { make({}, folder / "none.gguf"); })),
      {"--speculator kangaroo: expected kangaroo heads", "found no heads", "convert --heads"});
  check_mentions(expect_error(ErrorCode::kUsage,
                              [] {
                                validate(KangarooParams{7, 1.5f});
                              }),
                 {"--tau", "expected 0 to 1"});
  check_mentions(expect_error(ErrorCode::kUsage,
                              [] {
                                validate(KangarooParams{17, 0.5f});
                              }),
                 {"--w-max", "expected 1 to 16"});
}

TEST_CASE("hostile heads: kangaroo") {
  const Subject& s = subject();
  const auto refuse = [&](auto&& change, const std::vector<std::string>& parts) {
    HeadsFile file(Gguf::parse(s.bytes, "heads"));
    change(file);
    const std::vector<std::byte> bytes = file.bytes();
    for (const HeadsBase* base : {static_cast<const HeadsBase*>(nullptr), &s.base}) {
      const std::string said = expect_error(
          ErrorCode::kFormat, [&] { ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), base); });
      for (const std::string& part : parts) CHECK_MESSAGE(said.find(part) != said.npos, said);
    }
  };
  for (const int32_t layer : {0, kModelLayers, -1, INT32_MAX}) {
    refuse([&](HeadsFile& f) { f.integers["specbound.head_layers"] = {layer}; },
           {"specbound.head_layers", "layers from 1 to 5 for kangaroo heads",
            "found " + std::to_string(layer)});
  }
  refuse(
      [](HeadsFile& f) {
        f.integers["specbound.head_layers"] = {2, 3};
        f.text_arrays["specbound.head_kinds"].push_back("kangaroo");
        for (const char* key : {"specbound.margin_scale", "specbound.margin_offset"}) {
          f.real_arrays[key].assign(2, 1.0f);
        }
      },
      {"specbound.head_layers", "one kangaroo head", "found 2"});
  for (const float theta : {0.0f, -1.0f, std::nanf(""), HUGE_VALF}) {
    refuse([&](HeadsFile& f) { f.reals[kKangarooThetaKey] = theta; },
           {kKangarooThetaKey, "expected 1 to 1e+12"});
  }
  refuse([](HeadsFile& f) { f.without = {kKangarooThetaKey}; }, {kKangarooThetaKey, "no such key"});
  for (const char* name : {"q", "k", "v", "o", "attn_norm", "norm"}) {
    const std::string tensor = format("exit.%d.kangaroo.%s.weight", kLayer, name);
    CAPTURE(tensor);
    refuse([&](HeadsFile& f) { f.remove(tensor); }, {tensor, "found none"});
    refuse([&](HeadsFile& f) { f.tensor(tensor).shape.push_back(1); }, {tensor, "expected shape"});
    const float nan = std::nanf("");
    refuse([&](HeadsFile& f) { std::memcpy(f.tensor(tensor).bytes.data(), &nan, sizeof(nan)); },
           {tensor, "finite values"});
  }
  refuse(
      [&](HeadsFile& f) {
        f.tensors.push_back({format("exit.%d.kangaroo.gate.weight", kLayer),
                             DType::kF32,
                             {32},
                             std::vector<std::byte>(128)});
      },
      {"kangaroo.gate.weight", "only tensors of the heads"});
}

TEST_CASE("kangaroo checkpoints that do not fit are refused") {
  Broken(case_named("kangaroo")).convert();
  const auto config = [](const char* key, const json& value, ErrorCode code = ErrorCode::kFormat) {
    return refused(
        "kangaroo", [&](Broken& b) { b.config[key] = value; }, code);
  };
  const char* const layer = "exit_layer";
  check_mentions(refused("kangaroo", [&](Broken& b) { b.config.erase(layer); }),
                 {"dir/config.json", layer, "--exitlayer", "write it there"});
  check_mentions(config(layer, 0), {layer, "1 to 7", "found 0"});
  check_mentions(config(layer, 8), {layer, "1 to 7", "found 8"});
  check_mentions(config(layer, "2"), {layer, "found \"2\""});
  check_mentions(config("num_hidden_layers", 2), {"num_hidden_layers", "expected 1", "found 2"});
  check_mentions(config("hidden_size", 33), {"hidden_size", "found 33"});
  check_mentions(config("vocab_size", 76), {"vocab_size", "expected 75", "found 76"});
  check_mentions(config("num_attention_heads", 4), {"num_attention_heads", "expected 2", "4"});
  check_mentions(config("rms_norm_eps", 0.5), {"rms_norm_eps", "found 0.5"});
  check_mentions(config("rope_theta", 0.5), {"rope_theta", "found 0.5"});
  check_mentions(config("rope_scaling", {{"type", "linear"}}, ErrorCode::kUnsupported),
                 {"rope_scaling", "expected none"});
  for (const auto& entry : Broken(case_named("kangaroo")).tensors) {
    const std::string lost = entry.first;
    CAPTURE(lost);
    if (lost != "layers.0.input_layernorm.weight") {  // by which an adapter is known
      check_mentions(refused("kangaroo", [&](Broken& b) { b.tensors.erase(lost); }),
                     {lost, "found none"});
    }
    check_mentions(refused("kangaroo", [&](Broken& b) { b.tensors.at(lost).shape.push_back(1); }),
                   {lost, "expected the shape"});
    const uint16_t bits = 0x7e00;
    check_mentions(
        refused("kangaroo",
                [&](Broken& b) { std::memcpy(b.tensors.at(lost).bytes.data() + 8, &bits, 2); }),
        {"out.gguf", "exit.2.kangaroo.", "expected finite values"});
  }
  check_mentions(
      refused(
          "kangaroo", [](Broken& b) { b.tensors.erase("layers.0.input_layernorm.weight"); },
          ErrorCode::kUnsupported),
      {"'layers.0.input_layernorm.weight', of a Kangaroo adapter"});
  check_mentions(refused("kangaroo",
                         [](Broken& b) {
                           b.tensors["layers.0.mlp.up_proj.weight"] = {"F32", {1}, "1234"};
                         }),
                 {"up_proj.weight", "no more than a Kangaroo adapter has"});
}

}  // namespace specbound::kangaroo_test
