// Settings of speculation that change while it runs: what is taken, what is refused with nothing
// changed, and that no token depends on any of it.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/chat_settings.h"
#include "decode/generate.h"
#include "error.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "process_state.h"
#include "repl/set_command.h"
#include "runtime/tuned_settings.h"
#include "speculation_rig.h"

namespace speculation_changes_test {

using namespace specbound;
using namespace specbound::test;

namespace {

std::unique_ptr<Speculation> make(std::vector<std::string> arguments, int n_layers = kLayers,
                                  const std::string& path = kPath) {
  const Parsed parsed = parse(std::move(arguments));
  REQUIRE_MESSAGE(!parsed.status, parsed.err);
  return speculation(parsed.flags, n_layers, path);
}

// Everything that can be seen of it.
std::string state_of(Speculation& s) {
  const SpecBoundParams p = s.params();
  std::string text = s.description() + "|" + s.drafter() + "|" + layer_list(s.head_layers()) + "|" +
                     layer_list(p.check_layers) +
                     format("|%d %d %g %g|%d %d %d %d|%d|%p", p.w_max, p.d_max, p.alpha, p.tau,
                            p.anneal, p.learned, p.depth_bound, p.width_bound,
                            static_cast<int>(s.preset()), static_cast<void*>(s.speculator()));
  if (const SpecBound* specbound = s.specbound()) {
    text += "|" + layer_list(specbound->check_layers()) +
            format(" %d %g", specbound->width(), specbound->params().tau);
  }
  return text;
}

void check_refused(Speculation& s, const SpecBoundParams& params,
                   std::initializer_list<std::string_view> words) {
  const std::string before = state_of(s);
  check_mentions(expect_error(ErrorCode::kUsage, [&] { s.change(params); }), words);
  CHECK(state_of(s) == before);
}

void check_refused(Speculation& s, Preset preset, std::initializer_list<std::string_view> words,
                   ErrorCode code = ErrorCode::kUsage) {
  const std::string before = state_of(s);
  check_mentions(expect_error(code, [&] { s.choose(preset); }), words);
  CHECK(state_of(s) == before);
}

HeadDefaults shipped(HeadKind kind, std::vector<int> layers) {
  HeadDefaults defaults;
  defaults.kind = kind;
  defaults.check_layers = std::move(layers);
  defaults.w_max = 6;
  defaults.d_max = 8;
  defaults.tau = 0.25f;
  return defaults;
}

const std::vector<int> kAllBelowLast = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace

TEST_CASE("settings of the logit lens: each is taken, the layers are spelled out") {
  const auto s = make({"--spec", "on"});
  CHECK(s->head_layers() == kAllBelowLast);
  SpecBoundParams p = s->params();
  CHECK(p.check_layers == kAllBelowLast);
  CHECK(p.w_max == 8);
  CHECK(s->preset() == Preset::kTuned);
  Speculator* const before = s->speculator();
  p.w_max = 5;
  p.d_max = 6;
  p.alpha = 0.5f;
  p.tau = 0.75f;
  p.check_layers = {2, 4, 9};
  s->change(p);
  CHECK(s->speculator() == before);
  CHECK(s->specbound()->width() == 5);
  CHECK(s->specbound()->check_layers() == std::vector<int>{2, 4});
  CHECK(s->params().check_layers == p.check_layers);  // 9 is there again when d_max is
  CHECK(s->params().alpha == 0.5f);
  CHECK(s->description() ==
        "speculation on: specbound with the logit lens, up to 5 rows, checks at "
        "layers 2,4 of 16, alpha 0.5, tau 0.75");
  p.width_bound = p.depth_bound = p.anneal = false;
  s->change(p);
  CHECK(s->specbound()->width() == kMaxRows);
  CHECK(s->specbound()->check_layers() == p.check_layers);
  CHECK(!s->params().anneal);
}

TEST_CASE("/set: a value brings back what LayerSkip and AdaDecode leave out") {
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  Session session(*backend, Sampler(greedy_sampling()));
  const SpeculationOptions fixed = parse({"--speculator", "adadecode"}).flags;
  const auto s = speculation(fixed);
  ReplyOptions reply;
  SetCommand settings({session, reply, *s, fixed}, chat_setting_flags());
  REQUIRE(s->specbound()->check_layers() == std::vector<int>{4, 8, 12});
  settings.set("w-max", "4");
  CHECK(s->specbound()->width() == 4);
  CHECK(!s->params().depth_bound);
  settings.set("d-max", "8");
  CHECK(s->specbound()->check_layers() == std::vector<int>{4, 8});
  CHECK(!s->params().anneal);
  settings.set("alpha", "0.5");
  CHECK(s->params().anneal);
  settings.set("anneal-learned", "on");
  CHECK(s->params().learned);
  settings.set("alpha", "0.25");
  CHECK(!s->params().learned);
  CHECK(s->params().alpha == 0.25f);
  CHECK(s->specbound()->width() == 4);
  settings.set("no-width-bound", "on");
  settings.set("tau", "0.5");
  CHECK(s->specbound()->width() == kMaxRows);

  // Of SpecBound --no-width-bound stands beside a width, as on the command line.
  const SpeculationOptions free = parse({"--spec", "on", "--no-width-bound"}).flags;
  const auto specbound = speculation(free);
  SetCommand({session, reply, *specbound, free}, chat_setting_flags()).set("w-max", "4");
  CHECK(specbound->specbound()->width() == kMaxRows);
  session.set_speculator(nullptr);
}

TEST_CASE("/set: of alpha, no-anneal and anneal-learned the last one holds") {
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  Session session(*backend, Sampler(greedy_sampling()));
  const SpeculationOptions flags = parse({"--spec", "on"}).flags;
  const auto s = speculation(flags);
  ReplyOptions reply;
  SetCommand settings({session, reply, *s, flags}, chat_setting_flags());
  settings.set("anneal-learned", "on");
  CHECK(settings.show("anneal-learned") == "anneal-learned on");
  settings.set("tau", "0.5");
  CHECK(s->params().learned);
  check_mentions(s->description(), {"annealing learned, tau 0.5"});
  settings.set("alpha", "0.5");
  CHECK(!s->params().learned);
  CHECK(s->params().alpha == 0.5f);
  settings.set("anneal-learned", "on");
  settings.set("no-anneal", "on");
  CHECK(!s->params().learned);
  CHECK(!s->params().anneal);
  settings.set("anneal-learned", "off");
  CHECK(!s->params().anneal);
  settings.set("anneal-learned", "on");
  CHECK(s->params().learned);
  CHECK(s->params().anneal);
  session.set_speculator(nullptr);
}

TEST_CASE("/set changes what is asked of replies, by any name of its flag") {
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  Session session(*backend, Sampler(greedy_sampling()));
  const SpeculationOptions flags = parse({"--speculator", "none"}).flags;
  const auto s = speculation(flags);
  ReplyOptions reply;
  SetCommand settings({session, reply, *s, flags}, chat_setting_flags());
  settings.set("temperature", "0.5");
  CHECK(session.sampler().params().temperature == 0.5f);
  CHECK(settings.show("temperature") == "temp 0.5");
  CHECK(settings.show("--temp") == "temp 0.5");
  CHECK(settings.show("n-predict") == "n-predict -1");
  settings.set("n", "5");
  settings.set("predict", "6");
  CHECK(reply.n_predict == 6);
  CHECK(settings.show("n-predict") == "n-predict 6");
  CHECK(settings.show("stop") == "stop (none)");
  settings.set("stop", "two words");
  settings.set("stop", "the end");
  CHECK(reply.stop.strings() == std::vector<std::string>{"the end"});
  CHECK(settings.show("stop") == "stop \"the end\"");
  settings.set("stop", "-");
  CHECK(reply.stop.empty());
  CHECK_THROWS_AS(settings.set("n-predict", "-2"), Error);
  CHECK_THROWS_AS(settings.set("stop", std::string(257, 'x')), Error);
  CHECK_THROWS_AS(settings.set("system", "x"), Error);  // has a command of its own
  CHECK(reply.n_predict == 6);
}

TEST_CASE("/set shows the width and the threshold of drafters that have no exit heads") {
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  Session session(*backend, Sampler(greedy_sampling()));
  const auto shows = [&](std::vector<std::string> arguments, const char* name) {
    const SpeculationOptions flags = parse(std::move(arguments)).flags;
    const auto s = speculation(flags);
    ReplyOptions reply;
    return SetCommand({session, reply, *s, flags}, chat_setting_flags()).show(name);
  };
  const std::vector<std::string> skipping = {"--speculator", "draft-verify", "--w-max", "5"};
  CHECK(shows(skipping, "tau") == "tau 0.6");
  CHECK(shows(skipping, "w-max") == "w-max 5");
  CHECK(shows(skipping, "controller") == "controller off");
  CHECK(shows(skipping, "d-max") == "d-max (not used: no exit heads draft)");
  CHECK(shows({"--speculator", "ngram"}, "w-max") == "w-max 8");
  CHECK(shows({"--speculator", "none"}, "w-max") == "w-max (not used: no exit heads draft)");
  CHECK(shows({"--spec", "on", "--preset", "paper"}, "controller") == "controller off");
}

TEST_CASE("as with flags, bounds that are set bound the tree, and by thresholds heads draft") {
  const auto controls = [](Speculation& s) { return s.speculator()->control().active; };
  const auto width = [](Speculation& s) { return s.speculator()->width(); };
  const auto s = make({"--speculator", "auto", "--head", "lens"});
  REQUIRE(controls(*s));
  CHECK(width(*s) == kMaxRows);
  SpecBoundParams p = s->params();
  p.w_max = 3;
  p.check_layers = {4, 6};
  s->change(p);
  CHECK(controls(*s));
  CHECK(width(*s) == 3);
  CHECK(s->specbound()->check_layers() == std::vector<int>{4, 6});
  p.d_max = 5;
  s->change(p);
  CHECK(controls(*s));
  CHECK(width(*s) == 3);
  CHECK(s->specbound()->check_layers() == std::vector<int>{4});
  s->change(p, {.thresholds = true});  // the same ones, but asked for
  CHECK(!controls(*s));
  p.w_max = 4;
  s->change(p);
  CHECK(!controls(*s));
  CHECK(width(*s) == 4);
  s->choose(Preset::kShipped);
  CHECK(controls(*s));
  CHECK(width(*s) == kMaxRows);
  p = s->params();
  p.tau += 0.125f;
  s->change(p);
  CHECK(!controls(*s));
  CHECK(s->specbound()->width() == 8);

  const auto off = make({"--speculator", "auto", "--head", "lens", "--controller", "off"});
  p = off->params();
  p.w_max = 3;
  off->change(p);
  CHECK(!controls(*off));
  CHECK(width(*off) == 3);
}

TEST_CASE("/set w-max bounds the tree, by /set tau heads draft, whatever the value was") {
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  Session session(*backend, Sampler(greedy_sampling()));
  const SpeculationOptions flags = parse({"--speculator", "auto", "--head", "lens"}).flags;
  const auto s = speculation(flags);
  ReplyOptions reply;
  SetCommand settings({session, reply, *s, flags}, chat_setting_flags());
  CHECK(s->speculator()->width() == kMaxRows);
  settings.set("w-max", settings.show("w-max").substr(6));
  CHECK(s->speculator()->control().active);
  CHECK(s->speculator()->width() == 8);
  settings.set("tau", settings.show("tau").substr(4));
  CHECK(!s->speculator()->control().active);
  session.set_speculator(nullptr);
}

TEST_CASE("a change that cannot be is refused, and nothing has changed") {
  const auto s = make({"--spec", "on", "--w-max", "4"});
  const SpecBoundParams now = s->params();
  const auto refused = [&](auto edit, std::initializer_list<std::string_view> words) {
    SpecBoundParams p = now;
    edit(p);
    check_refused(*s, p, words);
  };
  refused([](SpecBoundParams& p) { p.w_max = 0; }, {"--w-max", "1 to 16", "found 0"});
  refused([](SpecBoundParams& p) { p.w_max = 17; }, {"--w-max", "found 17"});
  refused([](SpecBoundParams& p) { p.w_max = 1; }, {"--w-max 1 leaves no row to draft"});
  refused([](SpecBoundParams& p) { p.d_max = 0; }, {"--d-max"});
  refused([](SpecBoundParams& p) { p.alpha = -1; }, {"--alpha"});
  refused([](SpecBoundParams& p) { p.alpha = NAN; }, {"--alpha"});
  refused([](SpecBoundParams& p) { p.tau = 1.5f; }, {"--tau"});
  refused([](SpecBoundParams& p) { p.tau = NAN; }, {"--tau"});
  refused([](SpecBoundParams& p) { p.check_layers = {}; }, {"--check-layers", "1-15", "none"});
  refused([](SpecBoundParams& p) { p.check_layers = {16}; }, {"--check-layers", "found 16"});
  refused([](SpecBoundParams& p) { p.check_layers = {0, 3}; }, {"--check-layers", "found 0"});
  refused([](SpecBoundParams& p) { p.check_layers = {-5}; }, {"--check-layers", "found -5"});
  refused([](SpecBoundParams& p) { p.check_layers = {3, 2}; }, {"ascending"});
  refused([](SpecBoundParams& p) { p.check_layers = {2, 2}; }, {"ascending"});
  refused([](SpecBoundParams& p) { p.check_layers = {12}; }, {"no check layer is left", "--d-max"});
  refused([](SpecBoundParams& p) { p.w_max = 99, p.tau = 9; }, {"expected"});
}

TEST_CASE("where nothing can be set a change says what there is instead") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--speculator", "none"}, {"--speculator", "ngram"}}) {
    const auto s = make(arguments);
    CHECK(s->head_layers().empty());
    const char* found = arguments[1] == "none" ? "none: --speculator none" : "prompt lookup";
    check_refused(*s, SpecBoundParams(), {"expected exit heads", found});
    check_refused(*s, Preset::kPaper, {"expected exit heads", found});
  }
  const auto single = make({}, 1);
  CHECK(single->head_layers().empty());
  check_refused(*single, SpecBoundParams(), {"the model has 1 layer"});
  check_refused(*single, Preset::kShipped, {"the model has 1 layer"});
}

TEST_CASE("settings that never draft can be changed into some that do") {
  const auto s = make({"--w-max", "1"});
  CHECK(s->drafter().empty());
  CHECK(!s->set_active(true));
  SpecBoundParams p = s->params();
  CHECK(p.w_max == 1);
  p.w_max = 3;
  s->change(p);
  CHECK(s->drafter() == "the logit lens");
  CHECK(!s->active());
  CHECK(s->speculator() == nullptr);
  CHECK(s->set_active(true));
  CHECK(s->speculator()->width() == 3);
  CHECK(s->set_active(false, "switched off here"));
  CHECK(s->description() == "speculation off: switched off here");

  const auto other = make({"--check-layers", "12-14"});
  other->choose(Preset::kShipped);
  CHECK(other->drafter() == "the logit lens");
  CHECK(other->description() == "speculation off: not switched on");
  CHECK(other->set_active(true));
}

TEST_CASE("trained heads: only layers that have one, presets with the heads they ask for") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = folder / "m.gguf";
  write_heads(folder / "m.heads.gguf",
              {{HeadKind::kFolded, {2, 4, 8}}, {HeadKind::kFull, {1, 3, 12}}},
              shipped(HeadKind::kFolded, {4, 8}));
  const auto s = make({"--tau", "0.5", "--w-max", "3"}, kLayers, path);
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  s->attach(*backend);
  CHECK(s->head_layers() == std::vector<int>{2, 4, 8});
  SpecBoundParams p = s->params();
  CHECK(p.check_layers == std::vector<int>{4, 8});
  p.check_layers = {2, 3};
  check_refused(*s, p, {"--check-layers", "2,4,8", "found 3"});
  p.check_layers = {2, 8};
  s->change(p);
  CHECK(s->specbound()->check_layers() == std::vector<int>{2, 8});
  CHECK(s->description().find(", 48 tokens, set by hand") != std::string::npos);

  // A preset takes the place of flags and changes.
  s->choose(Preset::kShipped);
  CHECK(s->preset() == Preset::kShipped);
  CHECK(s->params().tau == 0.25f);
  CHECK(s->params().w_max == 6);
  CHECK(s->params().check_layers == std::vector<int>{4, 8});
  CHECK(s->description().find(", as shipped") != std::string::npos);
  CHECK(s->description().find("(controller)") == std::string::npos);  // heads alone

  s->choose(Preset::kPaper);
  CHECK(s->head_layers() == std::vector<int>{1, 3, 12});
  CHECK(s->specbound()->check_layers() == std::vector<int>{1, 3});
  CHECK(s->params().tau == 0.55f);
  CHECK(s->params().w_max == 8);
  CHECK(s->drafter() == "full heads");
  CHECK(s->heads() != nullptr);
  CHECK(!s->controls());  // the paper knows no costs
  CHECK(s->description().find("the paper's setting") != std::string::npos);

  s->choose(Preset::kTuned);  // nothing was tuned
  CHECK(s->drafter() == "folded heads");
  CHECK(s->description().find(", as shipped") != std::string::npos);
  CHECK(s->active());
}

TEST_CASE("the tuned preset is this machine's; one that found nothing that pays is refused") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = folder / "m.gguf", heads = folder / "m.heads.gguf";
  write_heads(heads, {{HeadKind::kFolded, {2, 4, 8}}, {HeadKind::kChained, {0}}},
              shipped(HeadKind::kFolded, {4, 8}));
  const TinyModel& model = tiny(kLayers);
  const auto backend = model.backend(Isa::kPortable, 1);
  const ExitHeads file = ExitHeads::open(heads, model.gguf, model.config);
  TunedSettings tuned;
  tuned.heads_fingerprint = file.fingerprint();
  tuned.settings = shipped(HeadKind::kChained, {0});
  tuned.settings.w_max = 5;
  tuned.settings.shortlist = 32;
  tuned.predicted_speedup = 1.5;
  const auto write = [&] {
    const std::string to = write_tuned(file.base().fingerprint, backend->device(), tuned);
    REQUIRE(read_tuned(file.base().fingerprint, file, backend->device()));
    return to;
  };
  write();

  const auto s = make({"--preset", "shipped"}, kLayers, path);
  s->attach(*backend);
  CHECK(s->drafter() == "folded heads");
  CHECK(s->shortlist() == 48);
  s->choose(Preset::kTuned);
  CHECK(s->drafter() == "chained heads");
  CHECK(s->shortlist() == 32);
  CHECK(s->head_layers() == std::vector<int>{0});
  CHECK(s->params().w_max == 5);
  CHECK(s->description().find(", tuned here") != std::string::npos);
  s->choose(Preset::kShipped);

  tuned.settings.w_max = 1;
  write();
  check_refused(*s, Preset::kTuned, {"tune found nothing that pays", "--preset shipped"});
  CHECK(s->active());

  // From the start with nothing that pays: off, until something else is chosen.
  const auto off = make({}, kLayers, path);
  off->attach(*backend);
  CHECK(!off->active());
  CHECK(off->drafter().empty());
  CHECK(!off->head_layers().empty());
  off->choose(Preset::kShipped);
  CHECK(off->drafter() == "folded heads");
  CHECK(off->description() == "speculation off: not switched on");
  CHECK(off->set_active(true));

  // With lookup beside the heads there is something to do without them.
  const auto lookups = make({"--speculator", "auto"}, kLayers, path);
  lookups->attach(*backend);
  CHECK(lookups->active());
  CHECK(lookups->drafter() == "lookup");
  CHECK(lookups->heads() == nullptr);
  CHECK(lookups->specbound() == nullptr);

  // What was set by hand while it was off is not taken back when it is switched on.
  tuned.settings.w_max = 5;
  write();
  const auto later = make({"--spec", "off"}, kLayers, path);
  later->attach(*backend);
  SpecBoundParams p = later->params();
  p.tau = 0.875f;
  later->change(p);
  CHECK(later->set_active(true));
  CHECK(later->params().tau == 0.875f);
  CHECK(later->drafter() == "folded heads");

  // Drafters whose settings are their papers' do not look for it.
  std::ofstream(write()) << "broken";
  const auto told = [&](std::vector<std::string> arguments) {
    int lines = 0;
    LoadWatcher watcher;
    watcher.note = [&](const std::string&) { ++lines; };
    make(std::move(arguments), kLayers, path)->attach(*backend, watcher);
    return lines;
  };
  CHECK(told({}) == 1);
  CHECK(told({"--speculator", "adadecode", "--head", "folded"}) == 0);
  CHECK(told({"--speculator", "layerskip", "--head", "folded"}) == 0);
}

TEST_CASE("heads draft by thresholds that were changed, until a preset is chosen") {
  const auto s = make({"--speculator", "auto", "--head", "lens"});
  CHECK(with_flags(s->description()).find("(controller)") != std::string::npos);
  SpecBoundParams p = s->params();
  p.tau = 0.25f;
  s->change(p);
  CHECK(s->description().find("(controller)") == std::string::npos);
  CHECK(s->description().find("tau 0.25") != std::string::npos);
  s->choose(Preset::kShipped);
  CHECK(s->description().find("(controller)") != std::string::npos);
}

TEST_CASE("a preset whose heads do not fit leaves those that did") {
  class Small final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void set_exit_heads(const ExitHeads* heads, int shortlist) override {
      given.push_back(heads ? shortlist : -1);
      ForwardingBackend::set_exit_heads(heads, heads ? shortlist : 0);
      if (failures > 0 && failures--) throw Error(ErrorCode::kLimit, "planted: no memory");
    }
    std::vector<int> given;
    int failures = 0;
  };
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = folder / "m.gguf";
  HeadDefaults defaults = shipped(HeadKind::kFolded, {4, 8});
  defaults.shortlist = 32;
  write_heads(folder / "m.heads.gguf", {{HeadKind::kFolded, {2, 4, 8}}}, defaults);
  Small backend(tiny(kLayers).backend(Isa::kPortable, 1));
  const auto s = make({"--preset", "paper", "--head", "folded"}, kLayers, path);
  s->attach(backend);
  backend.failures = 1;
  check_refused(*s, Preset::kShipped, {"planted"}, ErrorCode::kLimit);
  CHECK(backend.given == std::vector<int>{32, 32, 32});
  CHECK(s->active());

  // Nor those before, any more.
  backend.failures = 2;
  check_mentions(expect_error(ErrorCode::kLimit, [&] { s->choose(Preset::kShipped); }),
                 {"planted"});
  CHECK(!s->active());
  CHECK(s->speculator() == nullptr);
  CHECK(s->preset() == Preset::kPaper);
  CHECK(s->description() == "speculation off: its heads no longer fit into memory");
  CHECK(s->set_active(true));
}

TEST_CASE("whatever is changed between rounds, the text is that of plain decoding") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = folder / "m.gguf";
  HeadDefaults defaults = shipped(HeadKind::kChained, {0});
  defaults.tau = 0.01f;
  write_heads(
      folder / "m.heads.gguf",
      {{HeadKind::kFolded, {2, 4, 8}}, {HeadKind::kFull, {1, 3}}, {HeadKind::kChained, {0}}},
      defaults);
  const TinyModel& model = tiny(kLayers);
  const std::vector<int32_t> prompt = token_ids(20, model.config.vocab_size);
  SamplingParams sampling;
  sampling.temperature = 0.7f;
  GenerateOptions options;
  options.max_tokens = 160;
  const auto plain_backend = model.backend(Isa::kPortable, 1);
  Session plain(*plain_backend, Sampler(sampling));
  plain.generate(prompt, options);

  int drafted = 0, refused = 0, controlled = 0;
  // With a controller, which comes with each preset and goes with each new threshold, too; with it
  // and the switch the clock decides how much is drafted.
  for (int seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const bool control = seed >= 6;
    const auto backend = model.backend(best_isa(), 1);
    const char* const heads[] = {"folded", "chained", "lens", "full"};
    std::vector<std::string> flags = {"--head", heads[seed % 4]};
    if (control) {
      flags.insert(flags.end(), {"--speculator", seed % 2 ? "auto" : "specbound"});
    } else {
      flags.insert(flags.end(), {"--tau", "0.01", "--controller", "off"});
    }
    const auto s = make(flags, kLayers, path);
    s->attach(*backend);
    Session session(*backend, Sampler(sampling));
    session.set_speculator(s->speculator());
    TinyRandom random(static_cast<uint64_t>(seed) + 1);
    options.on_round = [&](const RoundEvent& event) {
      if (!control) drafted += event.drafted();
      const Speculator* speculator = s->speculator();
      controlled += speculator && speculator->control().active;
      try {
        switch (random.next() % 8) {
          case 0:
            s->choose(static_cast<Preset>(random.next() % 3));
            break;
          case 1:
            s->set_active(!s->active());
            break;
          case 2:
            s->set_active(true);
            break;
          default: {
            SpecBoundParams p = s->params();
            p.w_max = static_cast<int>(random.next() % 20);
            p.d_max = static_cast<int>(random.next() % 18);
            p.tau = random.next() % 2 ? 0.0f : 0.02f;
            const std::vector<int> there = s->head_layers();
            p.check_layers.clear();
            for (const int layer : there) {
              if (random.next() % 2) p.check_layers.push_back(layer);
            }
            s->change(p);
          }
        }
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::kUsage);
        ++refused;
      }
      session.set_speculator(s->speculator());
    };
    session.generate(prompt, options);
    CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) ==
          std::vector<int32_t>(plain.tokens().begin(), plain.tokens().end()));
  }
  CHECK(drafted > 200);
  CHECK(refused > 20);
  CHECK(controlled > 20);
}

}  // namespace speculation_changes_test
