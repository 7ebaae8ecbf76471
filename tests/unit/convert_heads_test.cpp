// Draft heads as their authors publish them (tests/golden/drafters) become heads files that say and
// draft what plain PyTorch makes of them; broken checkpoints and ones that lie are one Error each.
// make_drafters_golden.py says how the files were made.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broken_heads.h"
#include "convert/published_heads.h"
#include "drafters/head_tree.h"
#include "drafters/kangaroo.h"
#include "engine/cpu/cpu_backend.h"
#include "expect_error.h"
#include "farther.h"
#include "json/json_reader.h"
#include "temp_dir.h"

namespace specbound::convert_heads_test {
namespace {

using nlohmann::json;
using published::Broken;
using published::case_named;
using published::contents;
using published::golden_cases;
using published::kDrafters;
using published::kGolden;
using published::Part;
using published::refused;
using test::check_mentions;
using test::expect_error;
using test::TempDir;

constexpr double kNear = 1e-4;  // of the largest logit, as in golden_test.cpp

// One golden case: its model, its heads as they were converted, and the engine with both.
struct Subject {
  TempDir folder;
  json golden;
  HeadKind kind;
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  std::optional<ExitHeads> heads;
  std::vector<float> logits;  // (rows, tokens that the heads say)
  size_t row_size = 0;
  std::vector<int32_t> ids;
  std::unique_ptr<Backend> backend;

  Subject(const json& entry, std::optional<DType> type = {}, int threads = 1)
      : golden(entry),
        kind(*parse_head_kind(entry.at("kind").get<std::string>())),
        gguf(Gguf::open(kGolden + entry.at("base").get<std::string>() + ".gguf")),
        config(read_config(gguf)),
        weights(map_weights(gguf, config)),
        ids(entry.at("ids")) {
    const std::string name = entry.at("name");
    const ConvertHeadsOptions options = {kDrafters + name, gguf.path(), folder / "out.gguf", type};
    CHECK(convert_heads(options).kind == kind);
    heads.emplace(ExitHeads::open(options.output, gguf, config));
    const std::string dump = contents(kDrafters + name + ".f32");
    logits.resize(dump.size() / sizeof(float));
    std::memcpy(logits.data(), dump.data(), dump.size());
    row_size = logits.size() / entry.at("rows").get<size_t>();
    CpuOptions cpu;
    cpu.n_threads = threads;
    backend = make_cpu_backend(config, weights, cpu);
    backend->set_exit_heads(&*heads, 0);
    backend->prefill(std::span(ids).first(ids.size() - 2));
    run_row_before();
    backend->keep_state(0);
  }

  // The row before the root, in slot 0: a round that is over.
  void run_row_before() {
    const int before = static_cast<int>(ids.size()) - 2;
    backend->truncate(before);
    backend->embed(0, ids[before]);
    backend->run_layers(0, 1, before, 1, config.n_layers);
  }

  // Row `slot` of the round behind it, done to the layer that the head stands behind.
  void bring(int slot, int32_t token) {
    backend->embed(slot, token);
    const int layer = heads->heads()[0].layer;
    if (layer > 0) {
      backend->run_layers(slot, 1, static_cast<int>(ids.size()) - 1 + slot, 1, layer);
    }
  }

  // Of row `row` of the dump.
  double distance(std::span<const float> found, int row) const {
    REQUIRE(found.size() == row_size);
    const size_t at = static_cast<size_t>(row) * row_size;
    return test::relative_difference(found, std::span(logits).subspan(at, row_size));
  }

  // The rows behind the root, as the golden file has them.
  std::vector<std::pair<int, int32_t>> tree(int width,
                                            const SamplingParams& sampling = greedy_sampling(),
                                            const HeadTree::Rules& rules = {}) {
    if (kind == HeadKind::kKangaroo) {
      Kangaroo drafter(*heads, {.w_max = width, .eta = 0});
      return rows_of(drafter, sampling);
    }
    HeadTree drafter(*heads, kind, width, rules);
    return rows_of(drafter, sampling);
  }

  std::vector<std::pair<int, int32_t>> rows_of(Speculator& drafter,
                                               const SamplingParams& sampling) {
    const TokenEvent before{};  // of row 0
    RoundEvent seen;
    seen.tokens = std::span(&before, 1);
    drafter.begin(ids);
    run_row_before();
    drafter.accept(*backend, seen);
    Sampler sampler(sampling);
    Round round(*backend, sampler, ids);
    Round::Limits limits;
    limits.width = drafter.width();
    round.start(limits);
    CHECK(drafter.draft(round) == DraftEnd::kWidth);
    std::vector<std::pair<int, int32_t>> rows;
    const RoundEvent event = round.event(DraftEnd::kWidth);
    for (const RowEvent& row : event.rows) rows.emplace_back(row.parent - 1, row.token);
    rows.erase(rows.begin());
    round.undo();
    return rows;
  }
};

}  // namespace

TEST_CASE("published heads say what plain PyTorch says, and draft its tree") {
  std::map<HeadKind, int> seen;
  for (const json& entry : golden_cases()) {
    CAPTURE(entry.at("name").get<std::string>());
    for (const int threads : {1, 3}) {
      Subject s(entry, std::nullopt, threads);
      ++seen[s.kind];
      if (s.kind == HeadKind::kMedusa) {
        s.backend->embed(0, s.ids.back());
        for (int k = 0; k < entry.at("rows").get<int>(); ++k) {
          if (k > 0) s.backend->embed(k, 7 + k);  // whatever stands between
          const ExitPeak peak = s.backend->exit_check(0, k, 1);
          const std::span<const float> z = s.backend->exit_logits();
          CHECK(s.distance(z, k) < kNear);
          CHECK(peak.token == std::ranges::max_element(z) - z.begin());
          CHECK(s.backend->exit_ids().empty());
        }
      }
      if (is_layer(s.kind) || s.kind == HeadKind::kHydra) {
        for (int slot = 0; slot < entry.at("rows").get<int>(); ++slot) {
          const std::vector<int32_t> chain = entry.at("chain");
          s.bring(slot, slot > 0 ? chain[slot - 1] : s.ids.back());
          const ExitPeak peak = s.backend->exit_check(0, slot, 1);
          CHECK(s.distance(s.backend->exit_logits(), slot) < kNear);
          CHECK(peak.token == chain[slot]);
        }
      }
      if (s.kind == HeadKind::kKangaroo) {
        std::vector<std::pair<int, int32_t>> chain;
        for (const int32_t token : entry.at("chain")) {
          chain.emplace_back(static_cast<int>(chain.size()) - 1, token);
        }
        CHECK(s.tree(static_cast<int>(chain.size()) + 1) == chain);
        continue;
      }
      const auto rows = s.tree(kMaxRows);
      CHECK(rows == s.golden.at("tree").get<std::vector<std::pair<int, int32_t>>>());
      // Fewer rows are the best of them.
      const auto some = s.tree(6);
      REQUIRE(some.size() == 5);
      CHECK(std::ranges::equal(some, std::span(rows).first(5)));
    }
  }
  for (const HeadKind kind : kHeadKinds) CHECK(seen[kind] == (is_published(kind) ? 4 : 0));
}

TEST_CASE("published trees above temperature 0 hold what the target's noise makes likely") {
  const SamplingParams sampling{.temperature = 1.5f, .top_p = 1, .min_p = 0, .seed = 5};
  int others = 0;
  for (const json& entry : golden_cases()) {
    CAPTURE(entry.at("name").get<std::string>());
    Subject asked(entry), drafting(entry);
    if (asked.kind == HeadKind::kKangaroo) continue;
    const auto rows = drafting.tree(kMaxRows, sampling);
    REQUIRE(!rows.empty());
    std::vector<LikelyToken> likely;
    const auto check_children = [&](int slot, int parent) {
      asked.backend->exit_check(0, slot, 1);
      const auto pos = static_cast<uint32_t>(asked.ids.size()) + static_cast<uint32_t>(slot);
      likeliest_tokens(asked.backend->exit_logits(), asked.backend->exit_ids(), sampling,
                       {sampling.seed, 0, pos}, kMaxRows, likely);
      size_t next = 0;
      for (const auto& [of, token] : rows) {
        if (of == parent) CHECK(token == likely.at(next++).token);
      }
      return next;
    };
    const bool by_place = asked.kind == HeadKind::kMedusa;
    if (by_place) {
      asked.backend->embed(0, asked.ids.back());
    } else {
      asked.bring(0, asked.ids.back());
    }
    CHECK(check_children(0, -1) > 0);
    if (!by_place) {
      asked.bring(1, rows[0].second);
      check_children(1, 0);
    }
    others += rows != drafting.golden.at("tree").get<std::vector<std::pair<int, int32_t>>>();
  }
  CHECK(others > 0);
}

// The first of mc_sim_7b_63 (Medusa's medusa_choices.py): by how likely each token of a path is
// behind the one before.
const std::vector<std::vector<int>> kMedusaPaths = {{0},       {0, 0}, {1},    {0, 1}, {2},
                                                    {0, 0, 0}, {1, 0}, {0, 2}, {3},    {0, 3},
                                                    {4},       {0, 4}, {2, 0}, {0, 5}, {0, 0, 1}};

TEST_CASE("published heads draft at the places of Medusa's fixed tree") {
  int deep = 0;
  for (const json& entry : golden_cases()) {
    CAPTURE(entry.at("name").get<std::string>());
    Subject drafting(entry), asked(entry);
    if (!is_by_place(asked.kind)) continue;
    const int levels = HeadTree(*asked.heads, asked.kind, kMaxRows).levels();
    const SamplingParams warm{.temperature = 1.5f, .top_p = 1, .min_p = 0, .seed = 5};
    for (const auto& [sampling, by_entropy] :
         {std::pair(greedy_sampling(), false), {warm, false}, {warm, true}}) {
      const bool typical = by_entropy;
      CAPTURE(typical);
      const auto rows = drafting.tree(kMaxRows, sampling, {.fixed = true, .typical = typical});
      std::map<std::vector<int>, int> slots = {{{}, 0}};
      std::vector<LikelyToken> likely;
      asked.bring(0, asked.ids.back());
      size_t next = 0;
      for (const std::vector<int>& path : kMedusaPaths) {
        if (static_cast<int>(path.size()) > levels) continue;
        const int parent = slots.at({path.begin(), path.end() - 1});
        asked.backend->exit_check(0, parent, 1);
        const auto pos = static_cast<uint32_t>(asked.ids.size() + path.size() - 1);
        likeliest_tokens(asked.backend->exit_logits(), asked.backend->exit_ids(),
                         typical ? greedy_sampling() : sampling, {sampling.seed, 0, pos}, 10,
                         likely);
        const int32_t token = likely.at(static_cast<size_t>(path.back())).token;
        REQUIRE(next < rows.size());
        CHECK(rows[next] == std::pair(parent - 1, token));
        const int slot = static_cast<int>(++next);
        slots[path] = slot;
        asked.bring(slot, token);
        asked.backend->follow(slot, parent);
        deep += path.size() > 2;
      }
      CHECK(rows.size() == next);
      const auto narrow = drafting.tree(5, sampling, {.fixed = true, .typical = typical});
      CHECK(std::ranges::equal(narrow, std::span(rows).first(4)));
    }
    CHECK(drafting.tree(kMaxRows, warm, {.typical = true}) == drafting.tree(kMaxRows));
  }
  CHECK(deep > 0);
}

TEST_CASE("published heads in another type say nearly the same") {
  for (const json& entry : golden_cases()) {
    for (const auto& [type, near] : {std::pair(DType::kF32, kNear),
                                     {DType::kF16, 0.02},
                                     {DType::kBF16, 0.05},
                                     {DType::kQ8_0, 0.1}}) {
      Subject s(entry, type);
      const char* name = dtype_info(type)->name;
      CAPTURE(name);
      for (const Matrix* m : s.heads->heads()[0].matrices()) CHECK(m->type == type);
      s.bring(0, s.ids.back());
      s.backend->exit_check(0, 0, 1);
      CHECK(s.distance(s.backend->exit_logits(), 0) < near);
    }
  }
}

// ---- checkpoints that are broken or lie ----

TEST_CASE("medusa checkpoints that do not fit are refused") {
  Broken(case_named("medusa")).convert();
  const auto config = [](const char* key, const json& value) {
    return refused("medusa", [&](Broken& b) { b.config[key] = value; });
  };
  check_mentions(config("medusa_num_heads", 0), {"dir/config.json", "1 to 15", "found 0"});
  check_mentions(config("medusa_num_heads", 16), {"1 to 15", "found 16"});
  check_mentions(config("medusa_num_heads", -3), {"medusa_num_heads", "found -3"});
  check_mentions(config("medusa_num_heads", 1e300), {"medusa_num_heads", "whole number"});
  check_mentions(config("medusa_num_heads", "3"), {"medusa_num_heads", "found \"3\""});
  check_mentions(config("medusa_num_layers", 18446744073709551615u), {"0 to 8", "found 1844"});
  check_mentions(config("medusa_num_heads", 4), {"'3.0.linear.weight'", "found none"});
  check_mentions(config("medusa_num_heads", 2),
                 {"'2.", "no more than 2 heads of 1 layers", "write medusa_num_heads"});
  check_mentions(config("medusa_num_layers", 2), {"'0.1.linear.weight'", "found none"});
  check_mentions(config("hidden_size", 65), {"hidden_size", "expected 64", "found 65"});
  check_mentions(config("vocab_size", 81), {"vocab_size", "expected 80", "found 81"});
  check_mentions(
      refused(
          "medusa", [](Broken& b) { b.config.erase("medusa_num_heads"); }, ErrorCode::kUnsupported),
      {"dir/config.json", "medusa_num_heads", "fc.weight"});
  for (const char* name : {"0.0.linear.weight", "1.0.linear.bias", "2.1.weight"}) {
    CAPTURE(name);
    const auto tensor = [&](const std::function<void(Part&)>& change) {
      return refused("medusa", [&](Broken& b) { change(b.tensors.at(name)); });
    };
    check_mentions(refused("medusa", [&](Broken& b) { b.tensors.erase(name); }),
                   {name, "found none"});
    check_mentions(tensor([](Part& p) {
                     p.shape[0] -= 1;
                     p.bytes.resize(p.bytes.size() / (p.shape[0] + 1) * p.shape[0]);
                   }),
                   {name, "expected the shape (", "found ("});
    check_mentions(tensor([](Part& p) { p.shape.push_back(1); }), {name, "expected the shape"});
    check_mentions(tensor([](Part& p) { p.dtype = "I32"; }),
                   {name, "expected F32, F16 or BF16, found I32"});
    for (const uint32_t bits : {0x7fc00000u, 0x7f800000u, 0xff800000u}) {
      check_mentions(tensor([&](Part& p) { std::memcpy(p.bytes.data() + 8, &bits, 4); }),
                     {"out.gguf", "exit.0.medusa.", "expected finite values"});
    }
  }
  // Too large for half precision, not for what it comes in.
  const float large = 1e20f;
  check_mentions(
      refused(
          "medusa",
          [&](Broken& b) { std::memcpy(b.tensors.at("0.1.weight").bytes.data(), &large, 4); },
          ErrorCode::kFormat, DType::kF16),
      {"exit.0.medusa.1.lm_head.weight", "finite"});
  check_mentions(refused("medusa_bf16",
                         [](Broken& b) {
                           b.tensors.at("0.0.linear.weight").bytes[1] = '\x7f';
                           b.tensors.at("0.0.linear.weight").bytes[0] = '\x80';
                         }),
                 {"exit.0.medusa.1.0.weight", "finite"});
}

TEST_CASE("eagle checkpoints that do not fit are refused") {
  Broken(case_named("eagle")).convert();
  const auto config = [](const char* key, const json& value, ErrorCode code = ErrorCode::kFormat) {
    return refused(
        "eagle", [&](Broken& b) { b.config[key] = value; }, code);
  };
  check_mentions(config("hidden_size", 32), {"hidden_size", "expected 64", "found 32"});
  check_mentions(config("num_attention_heads", 8), {"num_attention_heads", "expected 4", "8"});
  check_mentions(config("num_key_value_heads", 4), {"num_key_value_heads", "expected 2", "4"});
  check_mentions(config("num_hidden_layers", 2), {"num_hidden_layers", "expected 1", "2"});
  check_mentions(config("intermediate_size", -64), {"intermediate_size", "found -64"});
  check_mentions(config("intermediate_size", 1u << 30), {"intermediate_size", "32 to 1048576"});
  check_mentions(config("intermediate_size", 100), {"intermediate_size", "a multiple of 32"});
  check_mentions(config("intermediate_size", 128), {"gate_proj.weight", "expected the shape"});
  check_mentions(config("rms_norm_eps", 1e-6), {"rms_norm_eps", "expected 0.001"});
  check_mentions(config("rope_theta", 500000.0), {"rope_theta", "expected 10000"});
  check_mentions(config("rope_scaling", {{"type", "linear"}}, ErrorCode::kUnsupported),
                 {"rope_scaling", "expected none"});
  check_mentions(config("hidden_act", "gelu", ErrorCode::kUnsupported), {"hidden_act", "'gelu'"});
  check_mentions(config("bias", false), {"'fc.bias'", "no more than an EAGLE layer has"});
  check_mentions(config("qkv_bias", true), {"q_proj.bias", "found none"});
  check_mentions(config("bias", 1), {"bias", "true or false"});
  for (const auto& [name, part] : Broken(case_named("eagle")).tensors) {
    if (name == "fc.bias" || name == "fc.weight" || name == "embed_tokens.weight") continue;
    const std::string lost = name;
    CAPTURE(lost);
    check_mentions(refused("eagle", [&](Broken& b) { b.tensors.erase(lost); }),
                   {lost, "found none"});
    check_mentions(refused("eagle", [&](Broken& b) { b.tensors.at(lost).shape.push_back(1); }),
                   {lost, "expected the shape"});
    const uint16_t bits = 0x7e00;
    check_mentions(
        refused("eagle",
                [&](Broken& b) { std::memcpy(b.tensors.at(lost).bytes.data() + 8, &bits, 2); }),
        {"out.gguf", "exit.0.eagle.", "expected finite values"});
  }
  check_mentions(refused("eagle",
                         [](Broken& b) {
                           std::string& bytes = b.tensors.at("embed_tokens.weight").bytes;
                           std::ranges::reverse(bytes);
                         }),
                 {"embed_tokens.weight", "expected the model's own"});
  // The model's rotation must be one that the layer has too.
  json other = case_named("eagle");
  other["base"] = "llama_rope_llama3_tied";
  check_mentions(expect_error(ErrorCode::kFormat, [&] { Broken(other).convert(); }),
                 {"vocab_size"});
}

TEST_CASE("published heads turn as rope_parameters says, where transformers 5 wrote it") {
  const auto theta = [](const Broken& broken) {
    const std::string bytes = broken.file();
    const Checkpoint checkpoint = Checkpoint::of(
        Safetensors::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "x"), "dir");
    return read_published_heads(broken.config, "config.json", checkpoint, broken.model, {})
        .heads[0]
        .rope_theta;
  };
  for (const char* name : {"eagle3", "kangaroo"}) {
    CAPTURE(name);
    Broken broken(case_named(name));
    CHECK(theta(broken) == 10000);
    broken.config["rope_theta"] = 7000;
    CHECK(theta(broken) == 7000);
    broken.config["rope_parameters"] = {{"rope_type", "default"}};
    CHECK(theta(broken) == 7000);
    broken.config["rope_parameters"]["rope_theta"] = 500000;
    CHECK(theta(broken) == 500000);
  }
  const auto config = [](const char* name, const json& value,
                         ErrorCode code = ErrorCode::kUnsupported) {
    return refused(
        name, [&](Broken& b) { b.config["rope_parameters"] = value; }, code);
  };
  for (const char* name : {"eagle", "eagle3", "kangaroo"}) {
    CAPTURE(name);
    check_mentions(config(name, {{"rope_type", "yarn"}, {"factor", 4}}),
                   {"rope_type", "expected default", "'yarn'"});
    check_mentions(config(name, {{"partial_rotary_factor", 0.5}}),
                   {"partial_rotary_factor", "expected 1", "0.5"});
    check_mentions(config(name, {{"full_attention", json::object()}}), {"one rotation"});
    check_mentions(config(name, {{"rope_theta", 0.5}}, ErrorCode::kFormat), {"rope_theta", "0.5"});
  }
  check_mentions(config("eagle", {{"rope_theta", 500000}}, ErrorCode::kFormat), {"expected 10000"});
  check_mentions(config("mtp", {{"rope_theta", 5}}, ErrorCode::kFormat), {"expected 1e+06"});
}

TEST_CASE("eagle-3 checkpoints that do not fit are refused") {
  Broken(case_named("eagle3")).convert();
  const auto config = [](const char* key, const json& value, ErrorCode code = ErrorCode::kFormat) {
    return refused(
        "eagle3", [&](Broken& b) { b.config[key] = value; }, code);
  };
  check_mentions(config("draft_vocab_size", 49), {"lm_head.weight", "expected the shape (49"});
  check_mentions(config("draft_vocab_size", 76), {"draft_vocab_size", "1 to 75", "found 76"});
  check_mentions(config("draft_vocab_size", 0), {"draft_vocab_size", "1 to 75", "found 0"});
  check_mentions(config("draft_vocab_size", 75), {"lm_head.weight", "expected the shape (75"});
  check_mentions(config("rope_theta", 0.5), {"rope_theta", "found 0.5"});
  check_mentions(config("rope_scaling", {{"type", "linear"}}, ErrorCode::kUnsupported),
                 {"rope_scaling", "expected none"});
  check_mentions(config("num_attention_heads", 4), {"num_attention_heads", "expected 2", "4"});
  check_mentions(config("eagle_config", 3), {"eagle_config", "found 3"});
  const char* const ids = "eagle_aux_hidden_state_layer_ids";
  for (const json& layers :
       {json(7), json::array(), json({1, 2}), json({2, 2, 3}), json({3, 2, 4}), json({1, 2, 8}),
        json({-1, 2, 3}), json({1, 2, 1e30}), json({"1", 2, 3}), json({1, 2, 3, 4})}) {
    CAPTURE(layers.dump());
    check_mentions(config("eagle_config", {{ids, layers}}),
                   {ids, "3 ascending layers from 0 to 7", "found "});
  }
  for (const auto& entry : Broken(case_named("eagle3")).tensors) {
    const std::string lost = entry.first;
    if (lost == "t2d") continue;
    CAPTURE(lost);
    check_mentions(refused("eagle3", [&](Broken& b) { b.tensors.erase(lost); }),
                   {lost, "found none"});
    check_mentions(refused("eagle3", [&](Broken& b) { b.tensors.at(lost).shape.push_back(1); }),
                   {lost, "expected the shape"});
    if (lost == "d2t") continue;
    const uint16_t bits = 0x7e00;
    check_mentions(
        refused("eagle3",
                [&](Broken& b) { std::memcpy(b.tensors.at(lost).bytes.data() + 8, &bits, 2); }),
        {"out.gguf", "exit.0.eagle3.", "expected finite values"});
  }
  const auto offset = [](int at, int64_t value) {
    return refused("eagle3", [&](Broken& b) {
      std::memcpy(b.tensors.at("d2t").bytes.data() + at * sizeof(value), &value, sizeof(value));
    });
  };
  check_mentions(offset(5, -6), {"'d2t'", "from 0 to 74", "found d2t[5] = -6"});
  check_mentions(offset(5, 70), {"'d2t'", "found d2t[5] = 70"});
  check_mentions(offset(0, INT64_MAX), {"'d2t'", "found d2t[0] = 9223372036854775807"});
  check_mentions(offset(1, INT64_MIN), {"'d2t'", "found d2t[1] = -9223372036854775808"});
  int64_t first = 0, second = 0;
  const Broken good(case_named("eagle3"));
  std::memcpy(&first, good.tensors.at("d2t").bytes.data(), sizeof(first));
  std::memcpy(&second, good.tensors.at("d2t").bytes.data() + sizeof(first), sizeof(second));
  check_mentions(offset(0, second + 1), {"'d2t'", "each token once", "again at 1"});
  check_mentions(refused("eagle3", [](Broken& b) { b.tensors.at("d2t").dtype = "U64"; }),
                 {"'d2t'", "expected I64, found U64"});
  check_mentions(refused("eagle3", [](Broken& b) { b.tensors.at("t2d").dtype = "U8"; }),
                 {"'t2d'", "expected BOOL, found U8"});
  check_mentions(refused("eagle3",
                         [&](Broken& b) {
                           char& known = b.tensors.at("t2d").bytes[static_cast<size_t>(first)];
                           known = static_cast<char>(1 - known);
                         }),
                 {"'t2d'", "the tokens of d2t alone"});
  check_mentions(refused("eagle3",
                         [](Broken& b) {
                           b.tensors["more"] = {"F32", {1}, "1234"};
                         }),
                 {"'more'", "no more than an EAGLE-3 layer has"});
  // Three layers are too few, unless the file says which.
  json shallow = case_named("eagle3");
  shallow["base"] = "llama_gqa";
  Broken other(shallow);
  for (const char* key : {"hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads",
                          "draft_vocab_size"}) {
    other.config.erase(key);
  }
  check_mentions(expect_error(ErrorCode::kUnsupported, [&] { other.convert(); }),
                 {"eagle_config", "7 layers", "for 3 layers"});
}

TEST_CASE("hydra checkpoints that do not fit are refused") {
  Broken(case_named("hydra")).convert();
  const auto config = [](const char* key, const json& value, ErrorCode code = ErrorCode::kFormat) {
    return refused(
        "hydra", [&](Broken& b) { b.config[key] = value; }, code);
  };
  const ErrorCode unsupported = ErrorCode::kUnsupported;
  check_mentions(config("hydra_num_heads", 0), {"hydra_num_heads", "1 to 15", "found 0"});
  check_mentions(config("hydra_num_heads", 16), {"hydra_num_heads", "1 to 15", "found 16"});
  check_mentions(config("hydra_num_heads", 5), {"'hydra_mlp.4.0.linear.weight'", "found none"});
  check_mentions(config("hydra_num_heads", 3), {"no more than 3 heads of 1 layers"});
  check_mentions(config("hydra_num_layers", 0), {"hydra_num_layers", "1 to 8", "found 0"});
  check_mentions(config("hydra_num_layers", 2), {"'hydra_mlp.0.1.linear.weight'", "found none"});
  check_mentions(config("hydra_head_arch", "prefix-mlp", unsupported),
                 {"hydra_head_arch", "expected mlp", "'prefix-mlp'"});
  check_mentions(config("grounded_heads", false, unsupported), {"grounded_heads", "expected true"});
  check_mentions(config("hidden_state_offset", 1, unsupported), {"hidden_state_offset", "found 1"});
  check_mentions(config("hidden_size", 64), {"hidden_size", "expected 32", "found 64"});
  for (const auto& entry : Broken(case_named("hydra")).tensors) {
    const std::string lost = entry.first;
    CAPTURE(lost);
    check_mentions(refused("hydra", [&](Broken& b) { b.tensors.erase(lost); }),
                   {lost, "found none"});
    check_mentions(refused("hydra", [&](Broken& b) { b.tensors.at(lost).shape.push_back(1); }),
                   {lost, "expected the shape"});
    const uint32_t bits = 0x7f800000;
    check_mentions(
        refused("hydra",
                [&](Broken& b) { std::memcpy(b.tensors.at(lost).bytes.data() + 4, &bits, 4); }),
        {"out.gguf", "exit.0.hydra.", "expected finite values"});
  }
}

TEST_CASE("directories of heads that cannot be read are refused") {
  const TempDir folder;
  const auto refuse = [&](ErrorCode code) {
    return expect_error(code, [&] {
      convert_heads({folder.path().string(), kGolden + "llama_gqa.gguf", folder / "out.gguf", {}});
    });
  };
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  check_mentions(refuse(ErrorCode::kFile), {"config.json"});
  write("config.json", "{\"medusa_num_heads\": 1");
  check_mentions(refuse(ErrorCode::kFormat), {"config.json", "expected JSON"});
  write("config.json", "[]");
  check_mentions(refuse(ErrorCode::kFile), {"model.safetensors"});
  write("medusa_lm_head.pt", "PK");
  check_mentions(refuse(ErrorCode::kFile), {"medusa_lm_head.pt", "programs", "safetensors"});
  write("medusa_lm_head.safetensors", "short");
  check_mentions(refuse(ErrorCode::kFormat), {"medusa_lm_head.safetensors"});
  write("medusa_lm_head.safetensors", Broken(case_named("medusa")).file());
  check_mentions(refuse(ErrorCode::kFormat), {"config.json", "an object"});
  write("config.json", "{\"medusa_num_heads\": 3}");
  ConvertHeadsOptions options{
      folder.path().string(), kGolden + "llama_gqa.gguf", folder / "out.gguf", {}};
  options.reserve = [](size_t bytes) {  // two of the tensors, and the largest
    CHECK(bytes >= 2 * 110000);
    CHECK(bytes < 3 * 112088);
    throw Error(ErrorCode::kLimit, "no room");
  };
  check_mentions(expect_error(ErrorCode::kLimit, [&] { convert_heads(options); }), {"no room"});
  CHECK(!std::filesystem::exists(folder / "out.gguf"));
}

}  // namespace specbound::convert_heads_test
