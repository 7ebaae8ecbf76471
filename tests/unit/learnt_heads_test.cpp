// Heads that idle learning made: found where they are newer than those beside the model, taken
// between replies, with the text that plain decoding gives.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "decode/generate.h"
#include "error.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "process_state.h"
#include "runtime/learning_folder.h"
#include "runtime/stats.h"
#include "speculation_rig.h"

namespace learnt_heads_test {

using namespace specbound;
using namespace specbound::test;

namespace {

namespace fs = std::filesystem;

HeadDefaults chained() {
  HeadDefaults defaults;
  defaults.kind = HeadKind::kChained;
  defaults.check_layers = {0};
  defaults.tau = 0.01f;
  return defaults;
}

HeadDefaults folded() {
  HeadDefaults defaults;
  defaults.check_layers = {2};
  defaults.tau = 0.01f;
  return defaults;
}

// Folders of the test's own for what was measured and what was learnt.
struct Home {
  TempDir folder;
  CacheFolder cache{folder / "cache"};
  Environment data{"XDG_DATA_HOME", (folder / "data").c_str()};
  std::string model = folder / "m.gguf", beside = folder / "m.heads.gguf";
  std::string learnt;

  Home() {
    const std::string fingerprint = model_fingerprint(tiny(kLayers).gguf);
    make_learning_folder(learning_folder(fingerprint));
    learnt = learnt_heads(fingerprint);
  }

  std::unique_ptr<Speculation> open(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), {"--speculator", "auto"});
    const Parsed parsed = parse(std::move(arguments));
    REQUIRE_MESSAGE(!parsed.status, parsed.err);
    return speculation(parsed.flags, kLayers, model);
  }
};

ExitHeads open(const std::string& path) {
  return ExitHeads::open(path, tiny(kLayers).gguf, tiny(kLayers).config);
}

std::vector<int32_t> text_of(const Session& session) {
  return {session.tokens().begin(), session.tokens().end()};
}

}  // namespace

TEST_CASE("learnt heads: the newer file drafts, others that were asked for stay") {
  const Home home;
  CHECK(home.open()->heads() == nullptr);
  write_heads(home.learnt, {{HeadKind::kChained, {0}}}, chained());
  CHECK(home.open()->heads_path() == home.learnt);
  write_heads(home.beside, {{HeadKind::kFolded, {2}}}, folded());
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(home.beside, now - std::chrono::hours(1));
  CHECK(home.open()->heads_path() == home.learnt);
  fs::last_write_time(home.beside, now + std::chrono::hours(1));
  CHECK(home.open()->heads_path() == home.beside);
  fs::last_write_time(home.beside, now - std::chrono::hours(1));
  CHECK(home.open({"--heads", home.beside})->heads_path() == home.beside);
  CHECK(home.open({"--head", "folded"})->heads_path() == home.beside);
}

TEST_CASE("learnt heads: those that flags do not speak of are left, at the start and later") {
  const Home home;
  write_heads(home.learnt, {{HeadKind::kChained, {0}}}, chained());
  const auto none = home.open({"--check-layers", "2"});
  CHECK(none->heads() == nullptr);
  CHECK(none->drafter() == "lookup");
  write_heads(home.beside, {{HeadKind::kFolded, {2, 4}}}, folded());
  fs::last_write_time(home.beside, fs::file_time_type::clock::now() - std::chrono::hours(1));
  for (const bool beside : {true, false}) {
    if (!beside) fs::remove(home.beside);
    const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
    const auto s = home.open({"--check-layers", "2"});
    s->attach(*backend);
    CHECK(s->heads_path() == home.beside);
    const std::string drafter = s->drafter(), description = s->description();
    Speculator* const speculator = s->speculator();
    REQUIRE(speculator);
    check_mentions(expect_error(ErrorCode::kUsage, [&] { s->take_heads(open(home.learnt)); }),
                   {"--check-layers", "chained"});
    CHECK(s->drafter() == drafter);
    CHECK(s->description() == description);
    CHECK(s->speculator() == speculator);
  }
}

TEST_CASE("learnt heads: they wait while a paper's settings draft") {
  const Home home;
  write_heads(home.beside, {{HeadKind::kFolded, {2, 4}}}, folded());
  write_heads(home.learnt + ".new", {{HeadKind::kChained, {0}}}, chained());
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  const auto s = home.open();
  s->attach(*backend);
  CHECK(s->takes_heads());
  s->choose(Preset::kPaper);
  CHECK_FALSE(s->takes_heads());
  s->choose(Preset::kTuned);
  REQUIRE(s->takes_heads());
  s->take_heads(open(home.learnt + ".new"));
  CHECK(s->drafter() == "chained heads");
}

TEST_CASE("learnt heads: a broken file costs nothing but a line") {
  const Home home;
  std::ofstream(home.learnt) << "GGUF and then nothing";
  const auto s = home.open();
  CHECK(s->active());
  CHECK(s->heads() == nullptr);
}

TEST_CASE("heads that are taken between replies change no token, and say what they learnt") {
  const Home home;
  write_heads(home.beside, {{HeadKind::kFolded, {2, 4}}}, folded());
  write_heads(home.learnt + ".new", {{HeadKind::kChained, {0}}}, chained());
  const TinyModel& model = tiny(kLayers);
  const std::vector<int32_t> prompt = token_ids(20, model.config.vocab_size);
  GenerateOptions options;
  options.max_tokens = 80;
  const auto plain_backend = model.backend(Isa::kPortable, 1);
  Session plain(*plain_backend, Sampler(greedy_sampling()));
  plain.generate(prompt, options);

  const auto backend = model.backend(best_isa(), 1);
  const auto s = home.open({"--controller", "off", "--remember", "on"});
  s->attach(*backend);
  Session session(*backend, Sampler(greedy_sampling()));
  session.set_speculator(s->speculator());
  session.generate(prompt, options);
  CHECK(text_of(session) == text_of(plain));
  CHECK(s->drafter() == "folded heads");

  s->take_heads(open(home.learnt + ".new"));
  session.set_speculator(s->speculator());
  CHECK(s->drafter() == "chained heads");
  CHECK(s->heads_path() == home.learnt + ".new");
  const GenerateStats generated = session.generate(prompt, options);
  CHECK(text_of(session) == text_of(plain));
  CHECK(generated.counters.drafted_tokens > 0);
  ReplyStats stats;
  stats.generated = generated;
  name_heads(stats, s->heads());
  CHECK(stats_json(stats).find(home.learnt + ".new") != std::string::npos);

  s->take_heads(open(home.beside));  // and back
  session.set_speculator(s->speculator());
  session.generate(prompt, options);
  CHECK(text_of(session) == text_of(plain));
  CHECK(s->drafter() == "folded heads");
}

TEST_CASE("heads that are taken while nothing drafts wait for it") {
  const Home home;
  write_heads(home.learnt + ".new", {{HeadKind::kChained, {0}}}, chained());
  const auto backend = tiny(kLayers).backend(Isa::kPortable, 1);
  const auto s = home.open();
  s->attach(*backend);
  s->set_active(false);
  s->take_heads(open(home.learnt + ".new"));
  CHECK(s->speculator() == nullptr);
  CHECK(s->heads() == nullptr);
  CHECK(s->set_active(true));
  CHECK(s->heads() != nullptr);
}

TEST_CASE("heads that do not fit leave lookups, which draft on") {
  class Small final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void set_exit_heads(const ExitHeads* heads, int shortlist) override {
      if (heads) throw Error(ErrorCode::kLimit, "planted: no memory");
      ForwardingBackend::set_exit_heads(heads, shortlist);
    }
  };
  const Home home;
  write_heads(home.learnt + ".new", {{HeadKind::kChained, {0}}}, chained());
  Small backend(tiny(kLayers).backend(Isa::kPortable, 1));
  const auto s = home.open();
  s->attach(backend);
  check_mentions(
      expect_error(ErrorCode::kLimit, [&] { s->take_heads(open(home.learnt + ".new")); }),
      {"planted"});
  CHECK(s->active());
  CHECK(s->heads() == nullptr);
  CHECK(s->drafter() == "lookup");
  CHECK(s->speculator() != nullptr);
}

TEST_CASE("a heads file says how many tokens it learnt from, where that is known") {
  const Home home;
  const TinyModel& model = tiny(kLayers);
  write_heads(home.beside, {{HeadKind::kChained, {0}}}, chained());
  CHECK(open(home.beside).learnt() == 0);
  NewHeads file;
  file.base = heads_base(model.gguf, model.config);
  for (int id = 0; id < 48; ++id) file.shortlist.push_back(id);
  NewHead head;
  head.kind = HeadKind::kChained;
  head.map = zeros(model.config.dim, 2 * model.config.dim);
  file.heads.push_back(head);
  file.defaults = chained();
  file.learnt = 123456;
  write_exit_heads(home.beside, file);
  CHECK(open(home.beside).learnt() == 123456);
}

}  // namespace learnt_heads_test
