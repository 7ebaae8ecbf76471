// Odds fitted to texts: known ones are found again, little is learned of few texts, and what was
// found survives a file, whoever wrote into it, and is what drafts.
#include "tune/fit_odds.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "decode/generate.h"
#include "farther.h"
#include "process_state.h"
#include "runtime/tuned_odds.h"
#include "speculation_rig.h"
#include "system/cache_file.h"
#include "temp_dir.h"
#include "terminal/progress.h"
#include "tiny_gguf.h"
#include "tiny_heads.h"
#include "tune/guess_cases.h"

namespace fit_odds_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Weights = CandidateOdds::Weights;

// What lookups may say of a candidate, most of it short matches.
CandidateOdds::Features some_features(TinyRandom& random) {
  const auto cell = [&] {
    const float u = random.uniform();
    return static_cast<int>(u * u * CandidateOdds::kCells);
  };
  CandidateOdds::Features features;
  const uint64_t where = random.next() % 4;
  if (where != 1) features.text = cell();
  if (where <= 1) features.memory = cell();
  features.rival = static_cast<int>(random.next() % CandidateOdds::kRivals);
  features.temperature = random.next() % 2 ? 0.7f : 0.0f;
  features.noise = static_cast<int>(random.next() % CandidateOdds::kNoises);
  features.rival_noise = static_cast<int>(random.next() % CandidateOdds::kNoises);
  return features;
}

// Right as often as `truth` says.
std::vector<OddsCase> draw(const Weights& truth, int n, uint64_t seed) {
  constexpr int kDialogues = 20;
  TinyRandom random(seed);
  const CandidateOdds odds(truth);
  std::vector<OddsCase> cases;
  for (int i = 0; i < n; ++i) {
    const CandidateOdds::Features features = some_features(random);
    cases.push_back({features, random.uniform() < odds.chance(features), i * kDialogues / n});
  }
  return cases;
}

Weights moved(float by, uint64_t seed) {
  TinyRandom random(seed);
  Weights weights = CandidateOdds::shipped();
  Weights::each(weights, [&](const char*, std::span<float> figures) {
    for (float& figure : figures) figure += by * random.normal();
  });
  return weights;
}

// Mean error of the chances that `weights` give where `truth` holds.
double error(const Weights& weights, const Weights& truth) {
  TinyRandom random(99);
  const CandidateOdds fitted(weights), odds(truth);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const CandidateOdds::Features features = some_features(random);
    sum += std::abs(fitted.chance(features) - odds.chance(features)) / 10000;
  }
  return sum;
}

double farthest(const Weights& a, Weights b) {
  double most = 0;
  size_t kind = 0;
  std::vector<std::vector<float>> own;
  Weights::each(a, [&](const char*, std::span<const float> figures) {
    own.emplace_back(figures.begin(), figures.end());
  });
  Weights::each(b, [&](const char*, std::span<float> figures) {
    for (size_t i = 0; i < figures.size(); ++i) {
      most = farther(most, std::abs(double{own[kind][i]} - double{figures[i]}));
    }
    ++kind;
  });
  return most;
}

}  // namespace

TEST_CASE("fitted odds: known ones are found again, from nothing and from what ships") {
  const Weights truth = moved(1, 1), &shipped = CandidateOdds::shipped();
  const std::vector<OddsCase> many = draw(truth, 100000, 2), few = draw(truth, 60, 3);
  const double off = error(shipped, truth);
  CHECK(off > 0.1);
  CHECK(error(fit_odds(many, Weights{}, 0), truth) < 0.02);
  CHECK(error(fit_odds(many, shipped, kOddsPull), truth) < 0.02);
  CHECK(log_loss(many, fit_odds(many, shipped, 0)) <= log_loss(many, truth));
  // A guess was never heard of.
  CHECK(fit_odds(many, shipped, kOddsPull).guess == shipped.guess);
  CHECK(fit_odds(many, shipped, kOddsPull).against == shipped.against);

  // Few cases move little where they are pulled back, and improve something all the same.
  const Weights pulled = fit_odds(few, shipped, kOddsPull);
  CHECK(farthest(pulled, shipped) > 0.05);
  CHECK(farthest(pulled, shipped) < farthest(fit_odds(few, shipped, 0), shipped));
  CHECK(farthest(fit_odds(few, shipped, 1000), shipped) < 0.05);
  CHECK(error(pulled, truth) < off);
  CHECK(fit_odds({}, shipped, kOddsPull) == shipped);
}

TEST_CASE("fitted odds: what is held out decides whether they are better") {
  const Weights truth = moved(1, 1);
  const std::vector<OddsCase> cases = draw(truth, 20000, 4);
  const FittedOdds fitted = fit_shipped_odds(cases);
  CHECK(fitted.better());
  CHECK(fitted.cases == cases.size());
  CHECK(fitted.shipped_loss == log_loss(cases, CandidateOdds::shipped()));
  // Nearly as good as the truth, and not as good as fits that have seen the cases.
  const double best = log_loss(cases, truth);
  CHECK(fitted.held_out_loss - best < 0.25 * (fitted.shipped_loss - best));
  CHECK(fitted.held_out_loss > log_loss(cases, fitted.weights));
  // Of cases as what ships has them there is nothing to learn.
  for (uint64_t seed = 5; seed < 10; ++seed) {
    CAPTURE(seed);
    const FittedOdds same = fit_shipped_odds(draw(CandidateOdds::shipped(), 3000, seed));
    CHECK_FALSE(same.better());
  }
  // Nothing can be held out of one dialogue.
  std::vector<OddsCase> one = cases;
  for (OddsCase& c : one) c.dialogue = 7;
  CHECK_FALSE(fit_shipped_odds(one).better());
  CHECK_FALSE(fit_shipped_odds({}).better());

  int told = 0;
  fit_shipped_odds(cases, [&](int done, int total) {
    CHECK(done < total);
    return ++told < 2;
  });
  CHECK(told == 2);
}

TEST_CASE("fitted odds: lookups see what a conversation would, never the reply that is to come") {
  constexpr int kNothing = CandidateOdds::kNothing;
  const auto text = [](std::vector<int32_t> tokens, int dialogue) {
    return TuningText{.tokens = std::move(tokens),
                      .prompt_tokens = 3,
                      .sampling = {.temperature = 0},
                      .dialogue = dialogue};
  };
  // 1 2 is answered by 3 4 5, in two dialogues; in turn of them, as temperatures are.
  const std::vector<TuningText> texts = {text({9, 1, 2, 3, 4, 5}, 1), text({8, 1, 2, 3, 4, 5}, 3),
                                         text({9, 1, 2, 3, 4, 5}, 1)};
  const std::vector<OddsCase> cases = look_up(texts, {});
  REQUIRE(cases.size() == 2);  // 4 and 5 of the later dialogue: prompts are not remembered
  for (const OddsCase& c : cases) {
    CHECK(c.dialogue == 3);
    CHECK(c.right);
    CHECK(c.features.text == kNothing);
    CHECK(c.features.memory != kNothing);
  }
  // A first conversation remembers nothing, but has what was given.
  const std::vector<TuningText> first = {text({9, 1, 2, 3, 4, 5}, 1), text({8, 1, 2, 3, 4, 5}, 2)};
  CHECK(look_up(first, {}).empty());
  const std::vector<int32_t> given = {1, 2, 6, -1};
  const std::vector<OddsCase> wrong = look_up(std::span(first).first(1), given);
  REQUIRE(wrong.size() == 1);
  CHECK_FALSE(wrong[0].right);
  // And the text itself.
  const std::vector<TuningText> echo = {text({1, 2, 3, 1, 2}, 0)};
  const std::vector<OddsCase> own = look_up(echo, {});
  REQUIRE(own.size() == 1);
  CHECK(own[0].right);
  CHECK(own[0].features.text == CandidateOdds::cell({2, 1, 1, 1}));
  CHECK(look_up({}, {}).empty());
}

TEST_CASE("fitted odds: guesses are recorded as the tree hears them, and fitted too") {
  TinySpec spec;
  spec.n_layers = 4;
  spec.type = DType::kQ8_0;
  const TinyModel model(spec);
  const TempDir folder;
  write_exit_heads(folder / "h.gguf", random_heads(heads_base(model.gguf, model.config), 64));
  const ExitHeads heads = ExitHeads::open(folder / "h.gguf", model.gguf, model.config);
  const auto backend = model.backend(best_isa(), 1);
  std::vector<TuningText> texts;
  for (const float temperature : {0.0f, 0.7f}) {
    Session session(*backend, Sampler(SamplingParams{.temperature = temperature}));
    for (const uint64_t seed : {1, 2}) {
      texts.push_back(*write_text(session, token_ids(9, 97, seed), 40, nullptr, nullptr));
      texts.back().dialogue = static_cast<int>(seed);
    }
  }
  const HeadDefaults settings{HeadKind::kChained, {0, 2}, 64, 0.2f, 0.0f, 2, 4};
  backend->set_exit_heads(&heads, 64);
  // What comes out is checked against the texts.
  const auto cases = guess_cases(*backend, heads, settings, texts, {});
  REQUIRE(cases);
  CHECK(cases->left_out == 0);
  CHECK(cases->cases.size() > 20);
  size_t named = 0;
  for (const OddsCase& c : cases->cases) {
    named += c.features.guess >= 0;
    CHECK((c.features.guess >= 0) != (c.features.against >= 0));
    CHECK((c.dialogue == 1 || c.dialogue == 2));
  }
  CHECK(named > 0);
  CHECK(fit_odds(cases->cases, CandidateOdds::shipped(), kOddsPull).guess !=
        CandidateOdds::shipped().guess);
  // Of what came out otherwise nothing is said. The first reply is as it was: how often later ones
  // ask heads that are random is up to the clock.
  for (TuningText& text : texts) {
    if (text.dialogue == 2) text.tokens.back() ^= 1;
  }
  const auto fewer = guess_cases(*backend, heads, settings, texts, {});
  REQUIRE(fewer);
  CHECK(fewer->left_out == 2);
  CHECK(!fewer->cases.empty());
  for (const OddsCase& c : fewer->cases) CHECK(c.dialogue == 1);
  std::atomic<bool> abort{true};
  GuessOptions aborted;
  aborted.abort = &abort;
  CHECK_FALSE(guess_cases(*backend, heads, settings, texts, aborted));
}

TEST_CASE("tuned odds come back as they were written") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const TunedOdds odds = {moved(1, 3), 0.5, 0.4, "heads"};
  CHECK(stderr_of(folder, [&] {
          const TunedNote note = terminal_watcher().note;
          CHECK_FALSE(read_tuned_odds("model", note));
          CHECK_FALSE(remove_tuned_odds("model"));
          const std::string path = write_tuned_odds("model", odds);
          CHECK(path.starts_with(folder / "cache/specbound/odds-"));
          const auto back = read_tuned_odds("model", note);
          REQUIRE(back);
          CHECK(back->weights == odds.weights);
          CHECK(back->shipped_loss == 0.5);
          CHECK(back->held_out_loss == 0.4);
          CHECK(back->heads == "heads");
          CHECK_FALSE(read_tuned_odds("other", note));
          // A copy under another model's name is not taken for that one's.
          std::filesystem::copy_file(path, cache_file({"odds", "other", std::nullopt}));
          CHECK_FALSE(read_tuned_odds("other", note));
          CHECK(remove_tuned_odds("model"));
          CHECK_FALSE(read_tuned_odds("model", note));
        }).empty());
  std::ofstream(folder / "file") << "x";
  const CacheFolder blocked(folder / "file");
  CHECK_THROWS_AS(write_tuned_odds("model", odds), Error);
}

TEST_CASE("tuned odds of before there were datastores keep what they say") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const TunedOdds odds = {moved(1, 3), 0.5, 0.4, "heads"};
  const std::string path = write_tuned_odds("model", odds);
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(read_file(path));
  REQUIRE(json["weights"].erase("store") == 1);
  std::ofstream(path, std::ios::trunc) << json;
  CHECK(stderr_of(folder, [&] {
          const auto back = read_tuned_odds("model", terminal_watcher().note);
          REQUIRE(back);
          CandidateOdds::Weights expected = odds.weights;
          expected.store = CandidateOdds::shipped().store;
          CHECK(back->weights == expected);
          CHECK(back->weights.store != odds.weights.store);
        }).empty());
}

TEST_CASE("hostile odds files are told in one line and count as none") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = write_tuned_odds("model", {CandidateOdds::shipped(), 0.5, 0.4});
  const std::string good = read_file(path);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::string> bad = {
      "",
      "{",
      "[]",
      "null",
      std::string(100, '\0'),
      "\xff\xfe{}",
      std::string(200000, '['),
      std::string((1 << 20) + 1, ' '),
      good.substr(0, good.size() / 2),
      good.substr(0, good.size() - 3),
      replaced("\"both\": [", "\"both\": [NaN,"),
      replaced("\"both\": [", "\"both\": [1e999,"),
      replaced("\"both\": [", "\"both\": [0.5,"),
      replaced("\"both\": [", "\"both\": 3, \"x\": ["),
      replaced("\"rival\": [", "\"rival\": {}, \"x\": ["),
      replaced("\"rival\": [", "\"rival\": [], \"x\": ["),
      replaced("\"rival\": [", "\"rival\": [null, 1, 1, 1, 1], \"x\": ["),
      replaced("\"rival\": [", "\"rival\": [\"1\", 1, 1, 1, 1], \"x\": ["),
      replaced("\"rival\": [", "\"rival\": [[1], 1, 1, 1, 1], \"x\": ["),
      replaced("\"rival\": [", "\"rival\": [1e38, 1, 1, 1, 1], \"x\": ["),
      replaced("\"rival\": [", "\"rival\": [-31, 1, 1, 1, 1], \"x\": ["),
      replaced("\"noise\":", "\"noice\":"),
      replaced("\"heads\": \"\"", "\"heads\": 3"),
      replaced("\"weights\": {", "\"weights\": [], \"x\": {"),
      replaced("\"weights\": {", "\"weights\": 1, \"x\": {"),
      replaced("\"held_out_loss\": ", "\"held_out_loss\": -"),
      replaced("\"version\": 1", "\"version\": \"\\u001b[31m\""),
  };
  for (const std::string& text : bad) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    INFO("file: ", text.substr(0, 60));
    const std::string told =
        stderr_of(folder, [&] { CHECK_FALSE(read_tuned_odds("model", terminal_watcher().note)); });
    CHECK(std::count(told.begin(), told.end(), '\n') == 1);
    CHECK(told.ends_with("; tune writes them again\n"));
    CHECK(told.find('\x1b') == std::string::npos);
    CHECK(told.find("json.exception") == std::string::npos);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
  CHECK(read_tuned_odds("model"));
  // A later version is no fault.
  std::ofstream(path, std::ios::trunc) << replaced("\"version\": 1", "\"version\": 2");
  CHECK(stderr_of(folder, [&] {
          CHECK_FALSE(read_tuned_odds("model", terminal_watcher().note));
        }).empty());
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  const std::string told =
      stderr_of(folder, [&] { CHECK_FALSE(read_tuned_odds("model", terminal_watcher().note)); });
  CHECK(std::count(told.begin(), told.end(), '\n') == 1);
}

TEST_CASE("tuned odds are what drafts, where tuned settings are") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const TinyModel& model = tiny(kLayers);
  const std::string fingerprint = model_fingerprint(model.gguf);
  const auto backend = model.backend(Isa::kPortable, 1);
  RowCosts costs;  // nearly nothing: odds alone decide
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1 + 0.001 * rows;
  write_row_costs(fingerprint, backend->device(), {costs, backend->n_ctx()});
  // Rows of the first round behind what repeats.
  const auto rows = [&](Speculation& speculation) {
    Session session(*backend, Sampler(SamplingParams{.temperature = 0}));
    session.set_speculator(speculation.speculator());
    size_t rows = 0;
    GenerateOptions options;
    options.max_tokens = 12;
    options.on_round = [&](const RoundEvent& round) {
      if (round.round == 0) rows = round.rows.size();
    };
    backend->truncate(0);
    session.generate(std::vector<int32_t>{11, 22, 33, 44, 55, 11, 22, 33, 44, 55, 11, 22, 33},
                     options);
    return rows;
  };
  const auto rows_with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--speculator", "auto"});
    const auto s = speculation(parse(flags).flags, kLayers, folder / "m.gguf");
    backend->truncate(0);
    s->attach(*backend);
    return rows(*s);
  };
  CHECK(rows_with({}) > 4);
  TunedOdds never = {CandidateOdds::shipped(), 0.5, 0.4};
  never.weights.rival.fill(-20);
  const std::string path = write_tuned_odds(fingerprint, never);
  CHECK(rows_with({}) == 1);
  // What lookups say holds for any heads, what was fitted to others' guesses does not.
  never.heads = "others";
  write_tuned_odds(fingerprint, never);
  CHECK(rows_with({}) == 1);
  CandidateOdds::Weights weights = moved(1, 3);
  weights.forget_guesses();
  CHECK(weights.guess == CandidateOdds::shipped().guess);
  CHECK(weights.against == CandidateOdds::shipped().against);
  CHECK(weights.alone == CandidateOdds::shipped().alone);
  CHECK(weights.text == moved(1, 3).text);
  CHECK(rows_with({"--preset", "shipped"}) > 4);
  CHECK(rows_with({"--controller", "off"}) > 4);
  // A file of no use changes nothing.
  std::ofstream(path, std::ios::trunc) << "{";
  CHECK(rows_with({}) > 4);
}

}  // namespace fit_odds_test
