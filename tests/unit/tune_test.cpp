// The search finds what was planted, and what it found survives a file, whoever wrote into it.
#include "tune/tune.h"

#include <doctest/doctest.h>

#include <fstream>

#include "engine_rig.h"
#include "expect_error.h"
#include "process_state.h"
#include "runtime/tuned_settings.h"
#include "system/user_path.h"
#include "temp_dir.h"
#include "terminal/progress.h"
#include "tiny_heads.h"
#include "tune/measure_costs.h"
#include "tune/measure_speedup.h"

namespace tune_test {

using namespace specbound;
using namespace specbound::test;

namespace {

CostModel flat_costs(int n_layers) {
  CostModel costs;
  costs.n_layers = n_layers;
  costs.vocab_size = 1000;
  costs.layer.fill(1);
  costs.logits.fill(1);
  costs.checks = {{"folded", 256, 0.25}, {"folded", 512, 0.5}, {"chained", 256, 0.25}};
  costs.plain_token = n_layers + 1;
  return costs;
}

// A head whose draft is right with chance `right` and whose confidence tells.
void plant(TuningTrace& trace, int head, double right, TinyRandom& random) {
  for (int s = 0; s < trace.heads()[head].shortlists; ++s) {
    const auto outcome = trace.outcome(head, s);
    for (size_t i = 0; i < outcome.size(); ++i) {
      const bool good = random.uniform() < right;
      outcome[i] = good ? Outcome::kRight : Outcome::kWrong;
      for (int column = 0; column <= trace.margin_column(); ++column) {
        trace.confidence(head, s, column)[i] =
            good ? 0.6f + 0.4f * random.uniform() : 0.5f * random.uniform();
      }
    }
  }
}

TunedSettings some_settings() {
  TunedSettings tuned;
  tuned.heads_fingerprint = "0123456789abcdef";
  tuned.settings = {HeadKind::kChained, {0, 3}, 512, 0.2f, 0.55f, 3, 6};
  tuned.predicted_speedup = 1.5;
  return tuned;
}

}  // namespace

TEST_CASE("tuning finds the planted layer, and that nothing pays where nothing does") {
  TinyRandom random(1);
  const std::vector<TraceHead> heads = {{HeadKind::kFolded, 1, 1, 2},
                                        {HeadKind::kFolded, 2, 1, 2},
                                        {HeadKind::kFolded, 6, 1, 2},
                                        {HeadKind::kChained, 0, TuningTrace::kDepths, 2}};
  std::vector<TracedReply> replies;
  for (int i = 0; i < 20; ++i) replies.push_back({0, 50, 50, i % 2 ? 0.7f : 0.0f});
  TuningTrace trace(8, {0, 0.2f, 0.8f}, {256, 512}, heads, replies);
  const CostModel costs = flat_costs(8);
  plant(trace, 0, 0.1, random);
  plant(trace, 1, 0.95, random);
  plant(trace, 2, 0.99, random);
  plant(trace, 3, 0.2, random);
  const TuneOutcome found = tune(trace, costs, {});
  const HeadDefaults& h = found.winner.settings.heads;
  CHECK(h.kind == HeadKind::kFolded);
  CHECK(h.check_layers == std::vector<int>{2});
  CHECK(h.shortlist == 256);
  CHECK(h.d_max == 2);
  CHECK(h.w_max > 6);
  CHECK(found.winner.result.speedup() > 2);
  CHECK(found.by_kind.size() == 2);
  CHECK(found.tried > 500);
  MESSAGE(found.tried << " settings of " << trace.n_rows() << " rows in " << found.seconds << " s");

  // The front falls in speed as it rises in tokens a round, and holds the winner.
  REQUIRE(!found.pareto.empty());
  double best = 0;
  for (size_t i = 0; i < found.pareto.size(); ++i) {
    const ReplayResult& r = found.pareto[i].result;
    best = std::max(best, r.speedup());
    if (i == 0) continue;
    CHECK(r.compression_rate() > found.pareto[i - 1].result.compression_rate());
    CHECK(r.speedup() < found.pareto[i - 1].result.speedup());
  }
  CHECK(best == found.winner.result.speedup());

  TuneOptions only;
  only.kind = HeadKind::kChained;
  only.margin = true;
  const TuneOutcome chained = tune(trace, costs, only);
  CHECK(chained.winner.settings.heads.kind == HeadKind::kChained);
  CHECK(chained.winner.settings.margin);
  CHECK(chained.tried < found.tried);
  only.kind = HeadKind::kFull;
  CHECK_THROWS_AS(tune(trace, costs, only), Error);

  // Heads that are never right, however sure.
  TuningTrace wrong(8, {0, 0.2f}, {256}, {{HeadKind::kFolded, 2, 1, 1}}, replies);
  for (int column = 0; column <= wrong.margin_column(); ++column) {
    for (float& p : wrong.confidence(0, 0, column)) p = 1;
  }
  const TuneOutcome none = tune(wrong, costs, {});
  CHECK(none.winner.settings.heads.w_max == 1);
  CHECK(none.winner.result.rows == none.winner.result.tokens);
  // Plain decoding is one times itself, also where its sum by phases rounds otherwise.
  CostModel odd = costs;
  odd.layer.fill(0.1);
  odd.logits.fill(0.3);
  odd.row = 0.7;
  odd.plain_token = odd.verify(1) + odd.row;
  CHECK(tune(wrong, odd, {}).winner.result.speedup() == 1);

  // A search that is stopped gives what it has.
  TuneOptions stopping;
  stopping.progress = [](int64_t tried) { return tried < 128; };
  CHECK(tune(trace, costs, stopping).tried <= 128);
}

TEST_CASE("the winner is measured on real replies") {
  TinySpec spec;
  spec.n_layers = 4;
  spec.type = DType::kQ8_0;
  const TinyModel model(spec);
  const TempDir folder;
  write_exit_heads(folder / "h.gguf", random_heads(heads_base(model.gguf, model.config), 64));
  const ExitHeads heads = ExitHeads::open(folder / "h.gguf", model.gguf, model.config);
  const auto backend = model.backend(best_isa(), 1);
  MeasureOptions quick;
  quick.seconds = 0.05;
  const CostModel costs = measure_costs(*backend, &heads, quick);
  for (const char* kind : {"full", "folded", "chained"}) CHECK(costs.check(kind, 64) > 0);

  SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<TuningText> texts;
  Session session(*backend, Sampler(greedy));
  for (const uint64_t seed : {1, 2}) {
    texts.push_back(*write_text(session, token_ids(9, 97, seed), 24, nullptr, nullptr));
  }
  HeadDefaults settings{HeadKind::kChained, {0, 2}, 64, 0.2f, 0.0f, 2, 4};
  backend->set_exit_heads(&heads, 64);
  const MeasuredSpeedup measured = measure_speedup(*backend, heads, settings, costs, texts, {});
  CHECK(measured.complete);
  CHECK(measured.replies == 2);
  CHECK(measured.counters.decoded_tokens == 48);
  CHECK(measured.rows > measured.counters.rounds);
  CHECK(measured.rejecting_rounds > 0);
  CHECK(measured.speedup > 0);
  CHECK(measured.priced_seconds > 0);

  std::atomic<bool> abort{true};
  MeasureSpeedupOptions stopped;
  stopped.abort = &abort;
  CHECK_FALSE(measure_speedup(*backend, heads, settings, costs, texts, stopped).complete);
}

TEST_CASE("tuned settings come back as they were written") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const TunedSettings tuned = some_settings();
  const std::string silent = stderr_of(folder, [&] {
    CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU (x)"));
    const std::string path = write_tuned("model", "CPU (x)", tuned);
    CHECK(path.starts_with(folder / "cache/specbound/"));
    const auto back = read_tuned("model", tuned.heads_fingerprint, "CPU (x)");
    REQUIRE(back);
    CHECK(back->settings.kind == HeadKind::kChained);
    CHECK(back->settings.check_layers == tuned.settings.check_layers);
    CHECK(back->settings.shortlist == 512);
    CHECK(back->settings.alpha == 0.2f);
    CHECK(back->settings.tau == 0.55f);
    CHECK(back->settings.d_max == 3);
    CHECK(back->settings.w_max == 6);
    CHECK(back->predicted_speedup == 1.5);
    // Another device, model or heads file.
    CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU (y)"));
    CHECK_FALSE(read_tuned("other", tuned.heads_fingerprint, "CPU (x)"));
    CHECK_FALSE(read_tuned("model", "fedcba9876543210", "CPU (x)"));
  });
  CHECK(silent.empty());
}

TEST_CASE("hostile cache files are told in one line and count as none") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const TunedSettings tuned = some_settings();
  const std::string path = write_tuned("model", "CPU", tuned);
  const std::string good = read_file(path);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  std::vector<std::string> bad = {
      "",
      "{",
      "[]",
      "null",
      "3",
      std::string(100, '\0'),
      "\xff\xfe{}",
      std::string(200000, '['),
      std::string((1 << 20) + 1, ' '),
      good.substr(0, good.size() / 2),
      replaced("\"chained\"", "\"other\""),
      replaced("\"chained\"", "7"),
      replaced("\"w_max\": 6", "\"w_max\": 17"),
      replaced("\"w_max\": 6", "\"w_max\": 0"),
      replaced("\"w_max\": 6", "\"w_max\": 2.5"),
      replaced("\"w_max\": 6", "\"w_max\": \"6\""),
      replaced("\"w_max\": 6", "\"w_max\": 1e999"),
      replaced("\"d_max\": 3", "\"d_max\": -1"),
      replaced("\"tau\":", "\"tao\":"),
      replaced("\"tau\": 0", "\"tau\": -0"),
      replaced("\"check_layers\": [", "\"check_layers\": [9999999999,"),
      replaced("\"check_layers\": [", "\"check_layers\": {},\"x\": ["),
      replaced("\"check_layers\": [", "\"check_layers\": [3,"),
      replaced("\"predicted_speedup\": ", "\"predicted_speedup\": -"),
      replaced("\"version\": 1", "\"version\": \"\\u001b[31m\""),
  };
  for (const std::string& text : bad) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    INFO("file: ", text.substr(0, 60));
    const std::string told = stderr_of(folder, [&] {
      CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU", terminal_watcher().note));
    });
    CHECK(std::count(told.begin(), told.end(), '\n') == 1);
    CHECK(told.ends_with("; tune writes them again\n"));
    CHECK(told.find('\x1b') == std::string::npos);
    CHECK(told.find("json.exception") == std::string::npos);
  }
  // Of a kind of head that is no more.
  std::ofstream(path, std::ios::trunc) << replaced("\"chained\"", "\"hybrid\"");
  check_mentions(stderr_of(folder,
                           [&] {
                             CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU",
                                                    terminal_watcher().note));
                           }),
                 {"\"kind\": expected full, folded or chained, found \"hybrid\""});
  std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
  CHECK(read_tuned("model", tuned.heads_fingerprint, "CPU"));
  // A later version is no fault.
  std::ofstream(path, std::ios::trunc) << replaced("\"version\": 1", "\"version\": 2");
  CHECK(stderr_of(folder, [&] {
          CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU", terminal_watcher().note));
        }).empty());
  // A folder of that name, and no folder to write to.
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  const std::string told = stderr_of(folder, [&] {
    CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU", terminal_watcher().note));
  });
  CHECK(std::count(told.begin(), told.end(), '\n') == 1);
  std::string note;  // who asks to be told is told, and nobody else
  CHECK(stderr_of(folder, [&] {
          const auto keep = [&](const std::string& line) { note += line; };
          CHECK_FALSE(read_tuned("model", tuned.heads_fingerprint, "CPU", keep));
        }).empty());
  CHECK(note + "\n" == told);
  std::ofstream(folder / "file") << "x";
  const CacheFolder blocked(folder / "file");
  CHECK_THROWS_AS(write_tuned("model", "CPU", tuned), Error);
}

TEST_CASE("the cache folder") {
  const TempDir folder;
  const CacheFolder cache("relative");
  const char* home = std::getenv("HOME");
  const std::string kept = home ? home : "";
  setenv("HOME", "/somewhere", 1);
  CHECK(user_path("XDG_CACHE_HOME", ".cache", "x") == "/somewhere/.cache/specbound/x");
  unsetenv("HOME");
  CHECK(user_path("XDG_CACHE_HOME", ".cache", "x").empty());
  CHECK_FALSE(read_tuned("model", "heads", "CPU"));
  CHECK_THROWS_AS(write_tuned("model", "CPU", some_settings()), Error);
  if (home) setenv("HOME", kept.c_str(), 1);
}

}  // namespace tune_test
