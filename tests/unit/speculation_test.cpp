// The flags of speculation: what they take, what they refuse and in which words, who wins over
// whom; and the line that says whether a model's replies are speculative.
#include "runtime/speculation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "expect_error.h"
#include "speculation_rig.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"

namespace speculation_test {

using namespace specbound;
using namespace specbound::test;

namespace {

SpecBoundParams resolve(std::vector<std::string> arguments, int n_layers = kLayers) {
  const Parsed parsed = parse(std::move(arguments));
  REQUIRE_MESSAGE(!parsed.status, parsed.err);
  return parsed.flags.specbound.resolve(n_layers);
}

// What is said, as usage, about arguments that are refused: on the command line or by the model.
std::string refusal(std::vector<std::string> arguments, int n_layers = kLayers) {
  const Parsed parsed = parse(std::move(arguments));
  if (parsed.status) {
    CHECK(*parsed.status == 2);
    CHECK(parsed.err.find('\n') == parsed.err.size() - 1);
    return parsed.err;
  }
  try {
    speculation(parsed.flags, n_layers);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUsage);
    return with_flags(e.what());
  }
  return "accepted";
}

std::string description(std::vector<std::string> arguments, int n_layers = kLayers) {
  const Parsed parsed = parse(std::move(arguments));
  REQUIRE_MESSAGE(!parsed.status, parsed.err);
  return with_flags(speculation(parsed.flags, n_layers)->description());
}

void check_says(const std::string& message, const std::string& says) {
  CHECK_MESSAGE(message.find(says) != std::string::npos, message << "\nlacks: " << says);
}

using Layers = std::vector<int>;

}  // namespace

TEST_CASE("speculation flags: without any, the defaults") {
  const SpecBoundParams params = resolve({}), defaults;
  CHECK(params.w_max == defaults.w_max);
  CHECK(params.d_max == defaults.d_max);
  CHECK(params.alpha == defaults.alpha);
  CHECK(params.tau == defaults.tau);
  CHECK(params.check_layers.empty());
  CHECK(params.anneal);
  CHECK(!params.learned);
  CHECK(params.depth_bound);
  CHECK(params.width_bound);
  const Parsed parsed = parse({});
  CHECK(!parsed.flags.on);
  CHECK(parsed.flags.speculator == "specbound");
}

TEST_CASE("speculation flags: every one is read") {
  const SpecBoundParams params =
      resolve({"--w-max", "5", "--d-max", "7", "--alpha", "0.5", "--tau", "0.25", "--check-layers",
               "2,4-6", "--no-anneal", "--no-depth-bound", "--no-width-bound"});
  CHECK(params.w_max == 5);
  CHECK(params.d_max == 7);
  CHECK(params.alpha == 0.5f);
  CHECK(params.tau == 0.25f);
  CHECK(params.check_layers == Layers{2, 4, 5, 6});
  CHECK(!params.anneal);
  CHECK(!params.depth_bound);
  CHECK(!params.width_bound);
  CHECK(resolve({"--anneal-learned"}).learned);
  CHECK(resolve({"--anneal-learned"}).anneal);
  CHECK(parse({"--spec", "on"}).flags.on == true);
  CHECK(parse({"--spec", "off"}).flags.on == false);
  CHECK(parse({"--spec", "off", "--spec", "on"}).flags.on == true);  // the last one counts
  CHECK(parse({"--speculator", "none"}).flags.speculator == "none");
}

TEST_CASE("--preset paper is the paper's setting, and flags beside it win in any order") {
  const SpecBoundParams paper = resolve({"--preset", "paper"});
  CHECK(paper.w_max == 8);
  CHECK(paper.d_max == 10);
  CHECK(paper.alpha == 0.2f);
  CHECK(paper.tau == 0.55f);
  CHECK(paper.check_layers.empty());
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--preset", "paper", "--w-max", "4", "--tau", "0.9"},
        std::vector<std::string>{"--w-max", "4", "--tau", "0.9", "--preset", "paper"}}) {
    const SpecBoundParams params = resolve(arguments);
    CHECK(params.w_max == 4);
    CHECK(params.d_max == 10);
    CHECK(params.alpha == 0.2f);
    CHECK(params.tau == 0.9f);
  }
  check_says(refusal({"--preset", "fast"}),
             "--preset: expected tuned, shipped or paper, found \"fast\"");
}

TEST_CASE("--anneal-learned stands alone: --alpha and --no-anneal are other ways to anneal") {
  for (const char* speculator : {"specbound", "auto", "adadecode"}) {
    const std::vector<std::string> learned = {"--speculator", speculator, "--anneal-learned"};
    const auto refused = [&](std::vector<std::string> more) {
      more.insert(more.begin(), learned.begin(), learned.end());
      return refusal(more);
    };
    check_says(refused({"--no-anneal"}),
               "--anneal-learned: not together with --no-anneal; leave one of them out");
    check_says(refused({"--alpha", "0.5"}),
               "--anneal-learned: not together with --alpha 0.5; leave one of them out");
    CHECK(refused({"--tau", "0.5"}) == "accepted");
  }
  const Parsed of_lens = parse({"--anneal-learned", "--no-anneal"});
  check_says(with_flags(expect_error(ErrorCode::kUsage,
                                     [&] { of_lens.flags.specbound.resolve(kLayers); })),
             "--anneal-learned: not together with --no-anneal");
}

TEST_CASE("--check-layers: lists, ranges, all") {
  const auto layers = [](const char* text, int n_layers = kLayers) {
    return resolve({"--check-layers", text}, n_layers).check_layers;
  };
  CHECK(layers("all") == Layers{});
  CHECK(layers("3") == Layers{3});
  CHECK(layers("2,4,6") == Layers{2, 4, 6});
  CHECK(layers("1-10") == Layers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(layers("2,4-8") == Layers{2, 4, 5, 6, 7, 8});
  CHECK(layers("1-2,5-5,15") == Layers{1, 2, 5, 15});
  CHECK(layers("007") == Layers{7});
  CHECK(layers("1-1000000", 1000001).size() == 1000000);
}

TEST_CASE("--check-layers: what is no list of ascending layers is refused by name") {
  const auto refused = [](const char* text, const char* says) {
    const std::string message = refusal({"--check-layers", text});
    check_says(message, "--check-layers: expected ascending layers like 2,4,6 or 1-10, or all");
    check_says(message, says);
  };
  refused("", "found \"\"");
  refused(",", "a part is empty");
  refused("1,", "a part is empty");
  refused("1,,3", "found \"1,,3\": a part is empty");
  refused("-", "\"-\" is no layer");
  refused("-3", "\"-3\" is no layer");
  refused("3-", "\"3-\" is no layer");
  refused("1-2-3", "\"1-2-3\" is no layer");
  refused("1--3", "is no layer");
  refused("+1", "is no layer");
  refused(" 1", "is no layer");
  refused("1, 2", "\" 2\" is no layer");
  refused("1.5", "is no layer");
  refused("0x3", "is no layer");
  refused("all,3", "\"all\" is no layer");
  refused("All", "is no layer");
  refused("18446744073709551616", "is no layer");
  refused("1-99999999999999999999", "is no layer");
  refused("8-4", "8-4 runs backwards");
  refused("4,2", "2 after 4");
  refused("2,2", "2 after 2");
  refused("2-4,4", "4 after 4");
  refused("2-4,3-6", "3-6 after 4");
  refused("1\n2", "\"1\\x0a2\" is no layer");
  const std::string huge = "1," + std::string(100000, '9');
  CHECK(refusal({"--check-layers", huge}).size() < 500);
}

TEST_CASE("--check-layers: layers that the model lacks are refused before they are listed") {
  const auto refused = [](const char* text, int n_layers, const char* says) {
    check_says(refusal({"--check-layers", text}, n_layers), says);
  };
  refused("16", 16, "expected layers from 1 to 15 (the model has 16), found 16");
  refused("1-10", 5, "expected layers from 1 to 4 (the model has 5), found 5");
  refused("1-18446744073709551615", 16, "found 16");
  refused("1,4294967297", 16, "found 2147483647");
  refused("1", 1, "the model has 1");
  refused("0", 16, "expected layers from 1 to 15 (the model has 16), found 0");
  refused("0-4", 16, "found 0");
}

TEST_CASE("speculation flags: numbers out of range or of shape are refused on the command line") {
  const auto refused = [](const char* flag, const std::string& value, const char* expected) {
    CHECK(parse({flag, value}).status == 2);
    check_says(refusal({flag, value}), std::string(flag) + ": expected " + expected);
  };
  for (const char* value : {"0", "17", "-1", "4294967297"}) refused("--w-max", value, "1 to 16");
  for (const char* value : {"0", "-4"}) refused("--d-max", value, "a layer from 1 on");
  for (const char* flag : {"--w-max", "--d-max"}) {
    for (const char* value : {"", "x", "2.0", "1e1", "99999999999999999999"}) {
      refused(flag, value, "a whole number, found \"");
    }
  }
  for (const char* value : {"-0.1", "100.1", "1e300"}) refused("--alpha", value, "0 to 100");
  for (const char* value : {"-1e-9", "1.0000001"}) refused("--tau", value, "0 to 1");
  for (const char* flag : {"--alpha", "--tau"}) {
    for (const char* value : {"nan", "-inf", "1e400", "", "0,2", "55%"}) {
      refused(flag, value, "a number, found \"");
    }
  }
  CHECK(resolve({"--d-max", "4294967296"}).d_max > 1000000);  // no deeper than a model goes
  CHECK(resolve({"--tau", "1"}).tau == 1.0f);
  CHECK(resolve({"--tau", "0", "--alpha", "100"}).alpha == 100.0f);
}

TEST_CASE("--spec and --speculator refuse what they do not know, and say what there is") {
  check_says(refusal({"--spec", "yes"}), "--spec: expected on or off, found \"yes\"");
  check_says(refusal({"--spec", ""}), "--spec: expected on or off, found \"\"");
  check_says(refusal({"--speculator", "magic"}), "--speculator: expected none, auto, specbound, ");
  check_says(refusal({"--speculator", "magic"}), " or space, found \"magic\"");
  check_says(refusal({"--head", "deep"}),
             "--head: expected full, folded, chained, layer, medusa, eagle, eagle3, hydra, mtp, "
             "kangaroo or lens, "
             "found");
  check_says(refusal({"--confidence", "q"}), "--confidence: expected p or margin, found \"q\"");
  check_says(refusal({"--shortlist", "0"}), "--shortlist: expected a number of tokens, found");
  for (const char* n : {"0", "17", "x"}) check_says(refusal({"--ngram-max", n}), "from 1 to 16");
  for (const char* n : {"0", "9", "x"}) check_says(refusal({"--siblings", n}), "from 1 to 8");
  check_says(refusal({"--heads", ""}), "--heads: expected the name of a file");
  CHECK(refusal({"--spec", "off", "--speculator", "none"}) == "accepted");
}

TEST_CASE("speculation says what it does and why") {
  CHECK(description({}) ==
        "speculation off: no exit heads beside the model: specbound train-heads -m tiny.gguf "
        "makes them");
  CHECK(description({"--spec", "on"}) ==
        "speculation on: specbound with the logit lens, up to 8 rows, checks at layers 1-10 of 16, "
        "alpha 0.2, tau 0.55");
  CHECK(description({"--spec", "on"}, 5) ==
        "speculation on: specbound with the logit lens, up to 8 rows, checks at layers 1-4 of 5, "
        "alpha 0.2, tau 0.55");
  CHECK(description({"--spec", "on", "--controller", "off"}, 5) ==
        "speculation on: specbound with the logit lens, up to 8 rows, checks at layers 1-4 of 5, "
        "alpha 0.2, tau 0.55");
  CHECK(description({"--spec", "on", "--check-layers", "2,4-5,7-9,12", "--w-max", "3"}) ==
        "speculation on: specbound with the logit lens, up to 3 rows, checks at layers 2,4,5,7-9 "
        "of 16, alpha 0.2, tau 0.55");
  CHECK(description({"--spec", "on", "--d-max", "1", "--no-anneal", "--no-width-bound"}) ==
        "speculation on: specbound with the logit lens, up to 16 rows (no width bound), check at "
        "layer 1 of 16, no annealing, tau 0.55");
  CHECK(description({"--spec", "on", "--anneal-learned"}) ==
        "speculation on: specbound with the logit lens, up to 8 rows, checks at layers 1-10 of 16, "
        "annealing learned, tau 0.55");
  CHECK(description({"--spec", "on", "--no-depth-bound"}) ==
        "speculation on: specbound with the logit lens, up to 8 rows, checks at layers 1-15 of 16 "
        "(no depth bound), alpha 0.2, tau 0.55");
  CHECK(description({"--spec", "on", "--preset", "paper"}) ==
        "speculation on: specbound with the logit lens (no full heads for the paper's setting), up "
        "to 8 rows, checks at layers 1-10 of 16, alpha 0.2, tau 0.55");
  CHECK(description({"--head", "lens"}).starts_with("speculation on: specbound with the logit"));
  CHECK(description({"--speculator", "ngram"}) ==
        "speculation on: ngram, prompt lookup of up to 3 tokens, up to 8 rows");
  CHECK(description({"--speculator", "ngram", "--ngram-max", "1", "--w-max", "4"}) ==
        "speculation on: ngram, prompt lookup of up to 1 token, up to 4 rows");
  CHECK(description({"--spec", "off"}) == "speculation off: --spec off");
  CHECK(description({"--speculator", "none"}) == "speculation off: --speculator none");
}

TEST_CASE("settings that never draft leave speculation off, and cannot be switched on") {
  const auto off = [](std::vector<std::string> arguments, int n_layers, const char* why) {
    Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    const auto made = speculation(parsed.flags, n_layers);
    Speculation& speculation = *made;
    parsed.flags.on = true;
    check_mentions(
        expect_error(ErrorCode::kUsage, [&] { test::speculation(parsed.flags, n_layers); }),
        {"--spec on: nothing can draft", why});
    for (int i = 0; i < 2; ++i) {
      CHECK(!speculation.active());
      CHECK(speculation.speculator() == nullptr);
      CHECK(with_flags(speculation.description()) == std::string("speculation off: ") + why);
      CHECK(!speculation.set_active(true));
    }
    CHECK(speculation.set_active(false));
    CHECK(with_flags(speculation.description()) == std::string("speculation off: ") + why);
  };
  off({"--w-max", "1"}, 16, "--w-max 1 leaves no row to draft");
  off({"--check-layers", "12-14"}, 16,
      "no check layer is left: --check-layers 12-14 is above --d-max 10");
  off({}, 1, "the model has 1 layer, and drafts leave below the last one");
  off({"--speculator", "none"}, 16, "--speculator none");
  off({"--speculator", "ngram", "--w-max", "1"}, 16, "--w-max 1 leaves no row to draft");
  CHECK(description({"--spec", "on", "--w-max", "1", "--no-width-bound"}).find("up to 16 rows") !=
        std::string::npos);
  CHECK(description({"--spec", "on", "--check-layers", "12", "--no-depth-bound"})
            .find("check at layer 12 of 16 (no depth bound)") != std::string::npos);
}

TEST_CASE("speculation can be switched while it runs, whatever it began as") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"--spec", "off"}, {"--spec", "on"}}) {
    const Parsed parsed = parse(arguments);
    const auto made = speculation(parsed.flags);
    Speculation& speculation = *made;
    CHECK(speculation.active() == parsed.flags.on.value_or(false));
    REQUIRE(speculation.set_active(true));
    REQUIRE(speculation.speculator() != nullptr);
    CHECK(speculation.speculator()->width() == 8);
    CHECK(std::string(speculation.speculator()->name()) == "specbound");
    CHECK(speculation.description().rfind("speculation on: ", 0) == 0);
    REQUIRE(speculation.set_active(false));
    CHECK(speculation.speculator() == nullptr);
    CHECK(speculation.description() == "speculation off: /spec off");
  }
}

TEST_CASE("help on speculation names every flag in its group") {
  const Parsed parsed = parse({"--help"});
  CHECK(parsed.status == 0);
  const size_t group = parsed.out.find("Speculation");
  REQUIRE(group != std::string::npos);
  for (const char* flag : {"--spec ", "--speculator", "--heads", "--head ", "--shortlist",
                           "--confidence", "--ngram-max", "--controller", "--preset", "--w-max",
                           "--d-max", "--tau", "--alpha", "--check-layers", "--no-anneal",
                           "--anneal-learned", "--no-depth-bound", "--no-width-bound"}) {
    CHECK_MESSAGE(parsed.out.find(flag, group) != std::string::npos, flag);
  }
}

TEST_CASE("heads: the file's settings, a preset over them, flags over both") {
  const TempDir folder;
  const std::string path = folder / "m.gguf", heads = folder / "m.heads.gguf";
  HeadDefaults shipped;
  shipped.kind = HeadKind::kChained;
  shipped.check_layers = {0, 2};
  shipped.shortlist = 32;
  shipped.alpha = 0.5f;
  shipped.tau = 0.25f;
  shipped.w_max = 6;
  shipped.d_max = 4;
  write_heads(heads,
              {{HeadKind::kChained, {0, 1, 2}},
               {HeadKind::kFolded, {2, 4, 8}},
               {HeadKind::kFull, {1, 2, 12}}},
              shipped);
  const auto says = [&](std::vector<std::string> arguments, const char* model = nullptr) {
    const Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return with_flags(speculation(parsed.flags, kLayers, model ? model : path)->description());
  };
  const std::string of = " heads of " + heads + ", ";
  CHECK(says({}) == "speculation on: specbound with chained" + of +
                        "up to 6 rows, checks at layers 0,2 of 16, alpha 0.5, tau 0.25, 32 tokens, "
                        "as shipped");
  CHECK(says({"--heads", heads}, "elsewhere.gguf") == says({}));
  CHECK(says({"--preset", "shipped"}) == says({}));
  CHECK(
      says({"--w-max", "3", "--tau", "0.5", "--check-layers", "0-1", "--shortlist", "48",
            "--confidence", "margin"}) ==
      "speculation on: specbound with chained" + of +
          "up to 3 rows, checks at layers 0,1 of 16, alpha 0.5, tau 0.5, 48 tokens, confidence by "
          "margin, as shipped");
  CHECK(says({"--head", "folded"}) == "speculation on: specbound with folded" + of +
                                          "up to 6 rows, check at layer 2 of 16, alpha 0.5, tau "
                                          "0.25, 32 tokens, as shipped");
  CHECK(says({"--head", "folded", "--check-layers", "all", "--no-depth-bound"})
            .find("checks at layers 2,4,8 of 16 (no depth bound)") != std::string::npos);
  CHECK(says({"--preset", "paper"}) == "speculation on: specbound with full" + of +
                                           "up to 8 rows, checks at layers 1,2 of 16, alpha 0.2, "
                                           "tau 0.55, the paper's setting");
  CHECK(says({"--head", "lens"}).find("with the logit lens, up to 8 rows") != std::string::npos);
  CHECK(says({"--spec", "off"}) == "speculation off: --spec off");

  const auto refused = [&](std::vector<std::string> arguments, const char* expected) {
    const Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    const std::string message =
        expect_error(ErrorCode::kUsage, [&] { speculation(parsed.flags, kLayers, path); });
    check_says(message, expected);
  };
  refused({"--check-layers", "3"}, "expected layers that have a chained head (0-2), found 3");
  refused({"--check-layers", "1,5-9"}, "found 5");
  refused({"--shortlist", "49"}, "--shortlist: expected a multiple of 16 up to 48");
  refused({"--shortlist", "20"}, "found 20");
  refused({"--head", "lens", "--shortlist", "16"}, "--shortlist: needs trained heads");
  refused({"--head", "lens", "--confidence", "p"}, "--confidence: needs trained heads");
  const Parsed folded = parse({"--head", "folded"});
  check_says(expect_error(ErrorCode::kUsage, [&] { speculation(folded.flags); }),
             "--head folded: there is no tiny.heads.gguf");

  shipped.kind = HeadKind::kFolded;
  shipped.check_layers = {2};
  write_heads(heads, {{HeadKind::kFolded, {2}}}, shipped);
  refused({"--head", "full"}, "--head full: expected folded, which ");
  CHECK(says({"--preset", "paper"}).find("the logit lens (no full heads") != std::string::npos);
}

TEST_CASE("a text alone: lookups draft from it, and there are no heads") {
  const TempDir folder;
  const std::string path = folder / "m.gguf", heads = folder / "m.heads.gguf";
  write_exit_heads(
      heads, {.base = heads_base(tiny(kLayers).gguf, tiny(kLayers).config), .text = {1, 2, 3, -1}});
  const auto says = [&](std::vector<std::string> arguments) {
    const Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return speculation(parsed.flags, kLayers, path)->description();
  };
  CHECK(says({"--speculator", "auto"}) ==
        "speculation on: auto, a tree of lookups with 4 tokens of " + heads +
            ", up to 16 rows (controller)");
  CHECK(says({}).starts_with("speculation off: no exit heads beside the model"));
  const Parsed off = parse({"--speculator", "auto", "--spec", "off"});
  const auto switched = speculation(off.flags, kLayers, path);
  CHECK(switched->set_active(true));  // the text was not looked up in until now
  CHECK(switched->description() == says({"--speculator", "auto"}));
  const Parsed chained = parse({"--speculator", "auto", "--head", "chained"});
  check_says(expect_error(ErrorCode::kUsage, [&] { speculation(chained.flags, kLayers, path); }),
             "--head chained: " + heads + " holds no heads");
}

TEST_CASE("heads that do not fit: found, the way on is told; named, refused; --spec off goes on") {
  const TempDir folder;
  const std::string path = folder / "m.gguf", heads = folder / "m.heads.gguf";
  HeadDefaults shipped;
  shipped.kind = HeadKind::kFolded;
  write_heads(heads, {{HeadKind::kFolded, {2}}}, shipped);
  const auto open = [&](std::vector<std::string> arguments, const std::string& model) {
    const Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return speculation(parsed.flags, 5, model);
  };
  const std::string found = expect_error(ErrorCode::kFormat, [&] { open({}, path); });
  const std::vector<std::string_view> way_on = {"; train again (specbound train-heads -m ",
                                                "go on without: --spec off"};
  check_mentions(found, {heads, "made for another model", way_on[0], way_on[1]});
  check_mentions(expect_error(ErrorCode::kFormat,
                              [&] {
                                open({"--heads", heads}, "other.gguf");
                              }),
                 {heads, "specbound train-heads -m ", "or leave out --heads"});
  const auto off = open({"--spec", "off"}, path);
  CHECK(!off->active());
  CHECK(!off->set_active(true));
  check_says(off->description(), "made for another model");
  CHECK(open({"--head", "lens"}, path)->active());
  CHECK(open({"--speculator", "ngram"}, path)->active());

  std::filesystem::resize_file(heads, 100);
  check_mentions(expect_error(ErrorCode::kFormat, [&] { open({}, path); }),
                 {heads, way_on[0], way_on[1]});
}

TEST_CASE("what was measured decides in the tree, but with --controller off or other drafters") {
  const auto controls = [](std::vector<std::string> arguments) {
    const Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return speculation(parsed.flags)->controls();
  };
  CHECK(controls({"--speculator", "auto", "--head", "lens"}));
  CHECK(controls({"--speculator", "auto"}));
  CHECK(!controls({"--speculator", "ngram"}));
  CHECK(!controls({"--speculator", "auto", "--controller", "off"}));
  CHECK(!controls({"--speculator", "auto", "--head", "lens", "--preset", "paper"}));
}

}  // namespace speculation_test
