// The drafters of other papers as --speculator makes them: their settings, what they say of
// themselves, what they refuse.
#include <doctest/doctest.h>

#include "decode/generate.h"
#include "expect_error.h"
#include "speculation_rig.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"
#include "tiny_datastore.h"

namespace other_drafters_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Arguments = std::vector<std::string>;
using Layers = std::vector<int>;
constexpr auto kDraft = Phase::kDraft, kVerify = Phase::kVerify;

std::unique_ptr<Speculation> make(Arguments arguments, int n_layers = kLayers,
                                  const std::string& path = kPath) {
  arguments.insert(arguments.begin(), "--speculator");
  const Parsed parsed = parse(std::move(arguments));
  REQUIRE_MESSAGE(!parsed.status, parsed.err);
  return speculation(parsed.flags, n_layers, path);
}

std::string described(Arguments arguments, int n_layers = kLayers,
                      const std::string& path = kPath) {
  return with_flags(make(std::move(arguments), n_layers, path)->description());
}

std::string refused(Arguments arguments, int n_layers = kLayers, const std::string& path = kPath) {
  return expect_error(ErrorCode::kUsage, [&] { make(arguments, n_layers, path); });
}

Layers checks(const Speculation& speculation) {
  return speculation.specbound()->check_layers();
}

}  // namespace

TEST_CASE("layerskip: one layer, seven rows, the model's own head") {
  CHECK(described({"layerskip"}) ==
        "speculation on: layerskip with the logit lens, up to 7 rows, check at layer 4 of 16 (no "
        "depth bound), no annealing, tau 0");
  CHECK(described({"layerskip", "--exit-layer", "9", "--w-max", "3"}) ==
        "speculation on: layerskip with the logit lens, up to 3 rows, check at layer 9 of 16 (no "
        "depth bound), no annealing, tau 0");
  for (const auto& [n_layers, layer] : {std::pair(2, 1), {3, 1}, {5, 1}, {6, 2}, {16, 4}}) {
    CHECK(checks(*make({"layerskip"}, n_layers)) == Layers{layer});
  }
  CHECK(described({"layerskip"}, 1) ==
        "speculation off: the model has 1 layer, and drafts leave below the last one");
  CHECK(refused({"layerskip", "--exit-layer", "16"}) ==
        "--exit-layer: expected a layer from 1 to 15 (the model has 16), found 16");
  check_mentions(refused({"layerskip", "--check-layers", "3"}), {"--check-layers", "--exit-layer"});
  check_mentions(refused({"specbound", "--exit-layer", "3"}),
                 {"--exit-layer: needs --speculator layerskip, found specbound"});
  check_mentions(refused({"layerskip", "--shortlist", "16"}), {"--shortlist: needs trained heads"});
  const Parsed parsed = parse({"--exit-layer", "0"});
  CHECK(parsed.status != 0);
  check_mentions(parsed.err, {"--exit-layer: expected a layer from 1 on, found \"0\""});
}

TEST_CASE("adadecode: three layers, one threshold, no bounds") {
  CHECK(described({"adadecode"}) ==
        "speculation on: adadecode with the logit lens, up to 16 rows (no width bound), checks at "
        "layers 4,8,12 of 16 (no depth bound), no annealing, tau 0.75");
  for (const auto& [n_layers, layers] :
       {std::pair(2, Layers{1}), {3, {1, 2}}, {4, {1, 2, 3}}, {6, {2, 3, 5}}, {16, {4, 8, 12}}}) {
    CHECK(checks(*make({"adadecode"}, n_layers)) == layers);
  }
  const auto bounded = make({"adadecode", "--w-max", "4", "--d-max", "9", "--alpha", "0.1", "--tau",
                             "0.5", "--check-layers", "3,8,11"});
  CHECK(bounded->speculator()->width() == 4);
  CHECK(checks(*bounded) == Layers{3, 8});
  CHECK(bounded->params().anneal);
  CHECK(bounded->params().tau == 0.5f);
  CHECK(checks(*make({"adadecode", "--check-layers", "all"}, 5)) == Layers{1, 2, 3, 4});
  check_mentions(refused({"adadecode", "--check-layers", "4,16"}),
                 {"--check-layers: expected layers from 1 to 15", "found 16"});
  CHECK(!make({"adadecode"}, 1)->active());
}

TEST_CASE("layerskip and adadecode take the heads of a file that are where they look") {
  const TempDir folder;
  const std::string path = folder / "m.gguf", file = folder / "m.heads.gguf";
  HeadDefaults shipped;
  shipped.kind = HeadKind::kFolded;
  shipped.check_layers = {4};
  shipped.tau = 0.1f;
  write_heads(
      file, {{HeadKind::kFull, {2, 8}}, {HeadKind::kFolded, {4, 8, 12}}, {HeadKind::kChained, {0}}},
      shipped);

  CHECK(described({"adadecode"}, kLayers, path) ==
        "speculation on: adadecode with folded heads of " + file +
            ", up to 16 rows (no width bound), checks at layers 4,8,12 of 16 (no depth bound), no "
            "annealing, tau 0.75, 48 tokens");
  const auto full = make({"adadecode", "--check-layers", "2,8"}, kLayers, path);
  CHECK(full->drafter() == "full heads");  // these come first
  CHECK(full->heads() != nullptr);
  const auto none = make({"adadecode", "--check-layers", "3,8"}, kLayers, path);
  CHECK(none->heads() == nullptr);
  check_mentions(none->description(), {"the logit lens (no kind of head at all of its layers)"});
  CHECK(make({"adadecode", "--head", "lens"}, kLayers, path)->drafter() == "the logit lens");
  // A kind that was asked for draws the layers to where it is.
  const auto near = make({"adadecode", "--head", "full"}, kLayers, path);
  CHECK(near->drafter() == "full heads");
  CHECK(checks(*near) == Layers{2, 8});
  check_mentions(refused({"adadecode", "--head", "full", "--check-layers", "4"}, kLayers, path),
                 {"--head full: adadecode needs such heads at layer 4, found them at 2,8 in"});

  const auto lens = make({"layerskip"}, kLayers, path);
  CHECK(lens->drafter() == "the logit lens");
  CHECK(lens->heads() == nullptr);
  const auto trained = make({"layerskip", "--head", "full"}, kLayers, path);
  CHECK(trained->drafter() == "full heads");
  CHECK(checks(*trained) == Layers{2});
  CHECK(checks(*make({"layerskip", "--head", "full", "--exit-layer", "8"}, kLayers, path)) ==
        Layers{8});
  check_mentions(refused({"layerskip", "--head", "full", "--exit-layer", "4"}, kLayers, path),
                 {"layerskip needs such heads at layer 4, found them at 2,8 in"});
  check_mentions(refused({"layerskip", "--head", "chained"}, kLayers, path),
                 {"--head chained: layerskip needs such heads", "layer 0 alone"});
}

TEST_CASE("lookahead says what it is, and what it takes") {
  CHECK(described({"lookahead"}) ==
        "speculation on: lookahead, a window of 3 columns of 3 levels, up to 2 4-grams, 15 rows");
  CHECK(described({"lookahead", "--lookahead", "1,2,1"}) ==
        "speculation on: lookahead, a window of 1 column of 1 level, up to 1 2-gram, 2 rows");
  CHECK(make({"lookahead"})->speculator()->width() == 15);
  CHECK(refused({"lookahead", "--w-max", "14"}) ==
        "--w-max: expected the 15 rows of --lookahead 3,4,2 or more, found 14");
  check_mentions(refused({"ngram", "--lookahead", "3,4,2"}),
                 {"--lookahead: needs --speculator lookahead, found ngram"});
  for (const char* text : {"", "3", "3,4", "3,4,2,", "3,4,2,1", "x,4,2", "3,,2", "-1,4,2", "3,4,17",
                           "99999999999999999999,4,2"}) {
    const Parsed parsed = parse({"--lookahead", text});
    CHECK(parsed.status != 0);
    check_mentions(parsed.err, {"--lookahead: expected W,N,G, numbers up to 16, found"});
  }
}

TEST_CASE("draft-verify and auto say what they are") {
  CHECK(described({"draft-verify"}) ==
        "speculation on: draft-verify, the model without layers 3,5,7,9,11,13 of 16, up to 8 rows, "
        "threshold 0.6 at first");
  const auto given = make({"draft-verify", "--skip-layers", "2,4-6", "--w-max", "4", "--tau", "0"});
  CHECK(given->draft_verify()->params().skipped == Layers{2, 4, 5, 6});
  CHECK(given->speculator()->width() == 4);
  CHECK(given->draft_verify()->tau() == 0);
  CHECK(given->drafter() == "the model without some layers");
  CHECK(refused({"draft-verify", "--skip-layers", "3-99"}) ==
        "--skip-layers: expected layers from 1 to 16, found 17");
  check_mentions(refused({"ngram", "--skip-layers", "3"}),
                 {"--skip-layers: needs --speculator draft-verify, found ngram"});
  for (const char* text : {"all", "", "4,2", "x", "0-"}) {
    const Parsed parsed = parse({"--skip-layers", text});
    CHECK(parsed.status != 0);
    check_mentions(parsed.err, {"--skip-layers: expected ascending layers like 2,4,6 or 1-10, f"});
  }
  check_mentions(refused({"auto", "--ngram-max", "2"}),
                 {"--ngram-max: needs --speculator ngram, found auto"});
  check_mentions(refused({"ngram", "--controller", "on"}),
                 {"--controller on: needs --speculator auto, found ngram"});
  CHECK(make({"ngram", "--controller", "off"})->active());
  CHECK(!make({"draft-verify", "--w-max", "1"})->active());
  CHECK(described({"auto"}) ==
        "speculation on: auto, a tree of lookups, up to 16 rows (controller)");
  CHECK(described({"auto", "--head", "lens"}) ==
        "speculation on: auto with the logit lens, up to 16 rows, checks at layers 1-10 of 16, "
        "lookups (controller)");
  CHECK(described({"auto", "--head", "lens", "--tau", "0.5"}) ==
        "speculation on: auto with the logit lens, up to 8 rows, checks at layers 1-10 of 16, "
        "alpha 0.2, tau 0.5, lookups beside and behind");
  CHECK(described({"auto", "--controller", "off"}) ==
        "speculation on: auto, a tree of lookups, up to 8 rows");
  CHECK(described({"auto", "--w-max", "4"}) ==
        "speculation on: auto, a tree of lookups, up to 4 rows (controller)");
  CHECK(!make({"auto", "--w-max", "1"})->active());
  CHECK(std::string(make({"auto"})->speculator()->name()) == "auto");
  CHECK(make({"auto"})->drafter() == "lookup");
  CHECK(SpeculationOptions().speculator == "auto");
  // The paper's setting is exits alone.
  CHECK(std::string(make({"auto", "--preset", "paper", "--head", "lens"})->speculator()->name()) ==
        "specbound");
  CHECK(parse({"--speculator", "guess"}).status != 0);
}

TEST_CASE("settings change where rows leave early, presets where SpecBound drafts") {
  for (const char* name : {"layerskip", "adadecode", "auto"}) {
    const bool tree = std::string(name) == "auto";
    const auto s = tree ? make({name, "--head", "lens"}) : make({name});
    SpecBoundParams params = s->params();
    params.w_max = 3;
    params.width_bound = true;
    params.tau = 0.25f;
    s->change(params);
    CHECK(std::string(s->speculator()->name()) == name);
    CHECK(s->speculator()->width() == 3);
    CHECK(s->specbound()->params().tau == 0.25f);
    if (tree) {
      s->choose(Preset::kPaper);
      CHECK(std::string(s->speculator()->name()) == "specbound");
      CHECK(s->speculator()->width() == 8);
    } else {
      check_mentions(expect_error(ErrorCode::kUsage, [&] { s->choose(Preset::kPaper); }),
                     {"--preset", name});
      CHECK(s->speculator()->width() == 3);
    }
  }
  const auto s = make({"draft-verify"});
  CHECK(s->head_layers().empty());
  check_mentions(expect_error(ErrorCode::kUsage, [&] { s->change({}); }),
                 {"found the model without some layers"});
}

TEST_CASE("layerskip: every row leaves at the layer, and the deep rest runs once") {
  const auto s = make({"layerskip", "--w-max", "3", "--controller", "off"});
  const auto engine = tiny(kLayers).backend(best_isa(), 1);
  s->attach(*engine);
  SamplingParams sampling;
  sampling.temperature = 0;
  Session session(*engine, Sampler(sampling));
  session.set_speculator(s->speculator());
  GenerateOptions options;
  options.max_tokens = 8;
  int rounds = 0;
  options.on_round = [&](const RoundEvent& round) {
    if (rounds++ > 0) return;
    CHECK(round.draft_end == DraftEnd::kWidth);
    CHECK(std::vector<LayerPass>(round.passes.begin(), round.passes.end()) ==
          std::vector<LayerPass>{{1, 4, 0, 1, kDraft},
                                 {1, 4, 1, 1, kDraft},
                                 {1, 4, 2, 1, kVerify},
                                 {5, 16, 0, 3, kVerify}});
    CHECK(round.rows[0].exit_layer == 4);
    CHECK(round.rows[1].exit_layer == 4);
  };
  session.generate(token_ids(9, 97), options);
  CHECK(rounds > 0);
}

TEST_CASE("rest: a datastore of the model's vocabulary, which auto looks up in too") {
  const TempDir folder;
  const std::string path = folder / "a.datastore";
  write_datastore(path, {97, vocabulary_fingerprint(tiny(kLayers).gguf)},
                  store_tokens({{1, 2, 3}, {4}}));
  CHECK(described({"rest", "--datastore", path}) ==
        "speculation on: rest, a tree of what stands in " + path + " (6 tokens), up to 16 rows");
  CHECK(make({"rest", "--datastore", path, "--w-max", "4"})->speculator()->width() == 4);
  CHECK(make({"rest", "--datastore", path, "--no-width-bound"})->speculator()->width() == 16);
  CHECK(described({"rest", "--datastore", path, "--w-max", "1"}) ==
        "speculation off: --w-max 1 leaves no row to draft");
  CHECK(described({"auto", "--datastore", path}) ==
        "speculation on: auto, a tree of lookups with " + path + ", up to 16 rows (controller)");
  check_mentions(described({"auto", "--datastore", path, "--head", "lens"}),
                 {"auto with the logit lens", ", with " + path + ", lookups"});
  check_mentions(refused({"rest"}), {"--speculator rest: needs --datastore FILE"});
  check_mentions(refused({"ngram", "--datastore", path}),
                 {"--datastore: needs --speculator auto or rest, found ngram"});
  check_mentions(refused({"auto", "--preset", "paper", "--datastore", path}),
                 {"--datastore " + path, "--preset paper is exit heads alone"});
  write_datastore(path, {98, vocabulary_fingerprint(tiny(kLayers).gguf)}, store_tokens({{1}}));
  check_mentions(refused({"rest", "--datastore", path}), {path, "vocabulary of 97 tokens"});
  for (const char* drafter : {"rest", "auto"}) {
    expect_error(ErrorCode::kFile, [&] { make({drafter, "--datastore", folder / "none"}); });
  }
}

}  // namespace other_drafters_test
