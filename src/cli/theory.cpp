// specbound theory: what the measured costs allow. The ceilings by exit depth and acceptance, and
// the setting in use: what the formula says of it, what its very rounds should cost, what they did;
// and how much of the model's distribution each drafter has, which bounds acceptance.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "error.h"
#include "json/json_writer.h"
#include "runtime/draft_model_file.h"
#include "runtime/loaded_model.h"
#include "runtime/tuned_settings.h"
#include "system/file_output.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tools/cost_report.h"
#include "tools/overlap_report.h"
#include "tools/tuning.h"
#include "tools/tuning_texts.h"

namespace specbound::theory_command {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound theory\n"
    "  specbound theory -m model.gguf --temps 0 --json theory.json\n"
    "  specbound theory -m model.gguf --replies 0        the ceilings only\n"
    "  specbound theory -m model.gguf -md small.gguf     what a draft model has, too";
constexpr double kAcceptances[] = {0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1};

struct TheoryFlags {
  ModelOptions model;
  TuningTextOptions texts;
  std::string heads, draft_model, json;
  int replies = 12;
  bool shipped = false;
};

struct Ceiling {
  double speedup = 0;
  int rows = 1;
};

// The best number of rows.
Ceiling ceiling(const CostModel& costs, int exit_layer, double check_seconds, double acceptance) {
  Ceiling best{1, 1};
  for (int rows = 2; rows <= CostModel::kRows; ++rows) {
    const double s = predicted_speedup(costs, exit_layer, check_seconds, acceptance, rows);
    if (s > best.speedup) best = {s, rows};
  }
  return best;
}

// All layers of a small model, a dozen of a large one.
std::vector<int> exit_layers(int n_layers) {
  std::vector<int> layers;
  const int step = std::max(1, (n_layers + 11) / 12);
  for (int l = 0; l < n_layers; l += l == 0 ? 1 : l == 1 && step > 1 ? step - 1 : step) {
    layers.push_back(l);
  }
  return layers;
}

// The check that the setting in use makes; without heads the model's own lm_head looks.
double check_seconds(const CostModel& costs, const std::optional<HeadDefaults>& settings) {
  if (!settings) return costs.check("lens", costs.vocab_size);
  const bool full = says_all(settings->kind);
  return costs.check(head_kind_name(settings->kind), full ? costs.vocab_size : settings->shortlist);
}

// One line's ceilings, for drafts that are right with each of these chances.
Json print_cells(const CostModel& costs, int exit_layer, double check,
                 std::span<const double> acceptances) {
  Json cells = Json::array();
  for (const double a : acceptances) {
    const Ceiling c = ceiling(costs, exit_layer, check, a);
    std::printf("  %4.2f(%2d)", c.speedup, c.rows);
    cells.push_back({{"acceptance", a}, {"speedup", c.speedup}, {"rows", c.rows}});
  }
  std::printf("\n");
  return cells;
}

Json print_ceilings(const CostModel& costs, double check) {
  std::printf(
      "\nceilings: speedup at the best number of rows (in brackets), by the layer that all\n"
      "drafts leave at and the chance that one is right; one check a draft, %.2f layers\n"
      "  exit",
      costs.layer[1] > 0 ? check / costs.layer[1] : 0);
  for (const double a : kAcceptances) std::printf("  %8.2f", a);
  std::printf("\n");
  Json rows = Json::array();
  for (const int layer : exit_layers(costs.n_layers)) {
    std::printf("  %4d", layer);
    rows.push_back(
        {{"exit_layer", layer}, {"ceilings", print_cells(costs, layer, check, kAcceptances)}});
  }
  return rows;
}

// What drafts that run no layer give by the share of the model on the GPU, from what both parts
// cost at the share that runs. Speculation pays most where the slower of two parts waits for memory
// (SpecOffload, arXiv:2505.10259).
Json print_offload(const CostModel& costs) {
  constexpr double kLikely[] = {0.5, 0.7, 0.9};
  std::printf(
      "\nlayers on the GPU: plain decoding, and drafts that run no layer by the chance that one\n"
      "is right, at the best number of rows\n"
      "  layers  plain tok/s");
  for (const double a : kLikely) std::printf("  %8.2f", a);
  std::printf("\n");
  Json rows = Json::array();
  const int step = std::max(1, (costs.n_layers + 7) / 8);
  std::set<int, std::greater<>> shares = {costs.first_layers};  // what was measured, too
  for (int n = costs.n_layers; n > 0; n -= step) shares.insert(n);
  for (const int n : shares) {
    const CostModel at = costs.with_first_layers(n);
    std::printf("  %6d  %11.1f", n, 1 / at.plain_token);
    rows.push_back({{"gpu_layers", n},
                    {"plain_tokens_per_second", 1 / at.plain_token},
                    {"ceilings", print_cells(at, 0, 0, kLikely)}});
  }
  return rows;
}

// Of the drafts that were looked at by the target: those before a round's first wrong one, and it.
double acceptance(const Counters& counters, int64_t rejecting_rounds) {
  const int64_t judged = counters.accepted_tokens + rejecting_rounds;
  return judged > 0 ? static_cast<double>(counters.accepted_tokens) / static_cast<double>(judged)
                    : 0;
}

Json run_setting(LoadedModel& model, const ExitHeads& heads, const HeadDefaults& settings,
                 const CostModel& costs, std::span<const TuningText> texts) {
  const MeasuredSpeedup m = measure_speedup_shown(model, heads, settings, costs, texts);
  double plain = 0;
  for (const TuningText& text : texts) {
    plain += static_cast<double>(text.tokens.size() - text.prompt_tokens) *
             costs.plain(text.sampling.temperature == 0);
  }
  const double rows = m.counters.rounds > 0 ? static_cast<double>(m.rows) / m.counters.rounds : 1;
  const double a = acceptance(m.counters, m.rejecting_rounds);
  const int exit = static_cast<int>(m.counters.mean_exit_layer().value_or(0) + 0.5);
  const double check = check_seconds(costs, settings);
  const double checks_a_draft =
      m.counters.drafted_tokens > 0
          ? static_cast<double>(m.counters.checks) / m.counters.drafted_tokens
          : 0;
  // Between the two whole numbers of rows around the mean.
  const int low = std::clamp(static_cast<int>(rows), 1, CostModel::kRows - 1);
  const double t = std::min(1.0, rows - low);
  const auto at = [&](int n) {
    return predicted_speedup(costs, exit, check * checks_a_draft, a, n);
  };
  const double formula = (1 - t) * at(low) + t * at(low + 1);
  const double expected = (1 - t) * expected_tokens(a, low) + t * expected_tokens(a, low + 1);
  const double counted = m.priced_seconds > 0 ? plain / m.priced_seconds : 0;
  const double measured = total_speedup(m);
  std::printf("\nthe setting in use: %s\n", describe_settings(settings).c_str());
  std::printf(
      "  %d replies: %.2f rows a round, exit layer %.1f, %.2f checks a draft, drafts right "
      "%.1f%%\n",
      m.replies, rows, m.counters.mean_exit_layer().value_or(0), checks_a_draft, 100 * a);
  std::printf(
      "                                        tokens a round   speedup\n"
      "  formula, means of the above                     %5.2f    %5.2fx\n"
      "  cost model, the very rounds                     %5.2f    %5.2fx\n"
      "  measured                                        %5.2f    %5.2fx\n",
      expected, formula, m.compression_rate(), counted, m.compression_rate(), measured);
  Json json = settings_json(settings);
  json.update({{"replies", m.replies},
               {"rows_a_round", rows},
               {"acceptance", a},
               {"mean_exit_layer", m.counters.mean_exit_layer().value_or(0)},
               {"checks_a_draft", checks_a_draft},
               {"formula", {{"tokens_a_round", expected}, {"speedup", formula}}},
               {"counted", {{"tokens_a_round", m.compression_rate()}, {"speedup", counted}}},
               {"measured", {{"tokens_a_round", m.compression_rate()}, {"speedup", measured}}}});
  return json;
}

// Costs and settings of an earlier `tune`, where there are any.
std::optional<TunedSettings> tuned_before(LoadedModel& model, const ExitHeads& heads) {
  return read_tuned(heads.base().fingerprint, heads, model.backend().device(),
                    terminal_watcher().note);
}

// The first of those that `tune` has written: as many tokens as `replies` have that are as long as
// they may be, so that there are more where they are short.
std::vector<TuningText> few_texts(LoadedModel& model, TuningTextOptions options, int replies) {
  const auto turns = static_cast<int64_t>(options.temperatures.size());
  const int64_t most = (replies + turns - 1) / turns * turns * options.reply_tokens;
  options.tokens = static_cast<int>(std::min<int64_t>(options.tokens, most));
  return tuning_texts(model, options);
}

void add_flags(Flags& flags, TheoryFlags& given) {
  flags.add_file("--heads", given.heads, "exit heads (default: NAME.heads.gguf beside the model)")
      .type("FILE.gguf");
  flags
      .add_file("-md,--model-draft", given.draft_model,
                "a smaller model with the same vocabulary: what it has of the model's distribution "
                "is measured too (default: none)")
      .type("FILE.gguf");
  flags.add_switch("--shipped", given.shipped, "the heads file's own setting, not that of tune");
  add_tuning_texts(flags, given.texts);
  flags.add_int("--replies", given.replies, 0, 1 << 20,
                format("replies that the setting is measured on, and drafters on as much text; 0: "
                       "the ceilings only (default %d)",
                       given.replies));
  flags.add_output_file("--json", given.json, "write everything as JSON");
  add_model_flags(flags, given.model);
  given.model.write_tiles = false;
}

int run(TheoryFlags& given) {
  if (!given.json.empty()) check_writable(given.json);

  catch_interrupts();
  LoadedModel model(given.model, terminal_watcher());
  std::optional<DraftModelFile> draft;
  if (!given.draft_model.empty()) draft.emplace(given.draft_model, model);
  std::optional<ExitHeads> heads;
  try {
    heads = open_heads(model, given.heads);
  } catch (const Error& e) {
    if (!given.heads.empty() || e.code() != ErrorCode::kFile) throw;
    say(e.what());
  }
  model.load(heads ? &*heads : nullptr);
  if (draft) draft->load(model.backend(), terminal_watcher());
  std::optional<HeadDefaults> settings;
  if (heads) {
    settings = heads->defaults();
    if (!given.shipped) {
      if (const std::optional<TunedSettings> tuned = tuned_before(model, *heads)) {
        settings = tuned->settings;
      }
    }
  }
  const std::optional<HeadDefaults> checked = settings;  // the ceilings count its checks
  if (settings && !is_replayed(settings->kind)) {
    say(format("%s: heads of the kind %s draft by no fixed setting: none is predicted",
               heads->path().c_str(), head_kind_name(settings->kind)));
    settings.reset();
  }
  std::vector<TuningText> texts;
  if (given.replies > 0) texts = few_texts(model, given.texts, given.replies);
  const ExitHeads* const guess = heads ? &*heads : nullptr;
  const CostModel costs = measure_costs_shown(model, guess, texts);
  print_costs(costs);
  Json json = {{"model", model.path()}, {"costs", costs_json(costs)}};
  json["ceilings"] = print_ceilings(costs, check_seconds(costs, checked));
  json["offload"] = costs.first_layers > 0 ? print_offload(costs) : nullptr;
  json["setting"] = nullptr;
  if (settings && !texts.empty()) {
    const size_t first = std::min(texts.size(), static_cast<size_t>(given.replies));
    json["setting"] = run_setting(model, *heads, *settings, costs, std::span(texts).first(first));
  }
  json["overlap"] = nullptr;
  if (!texts.empty()) {
    const OverlapReport report = measure_overlap_shown(
        model, guess, checked ? checked->shortlist : 0, draft ? &draft->backend() : nullptr, texts);
    print_overlap(report, guess);
    json["overlap"] = overlap_json(report, guess);
  }
  if (!given.json.empty()) write_file(given.json, dump(json, 2) + "\n");
  return 0;
}

const CommandOf<TheoryFlags> kTheory(
    {.rank = 80,
     .name = "theory",
     .summary = "what speculation can give: measured costs, ceilings, predicted against measured",
     .text = "What speculation can give on this machine: ceilings from measured costs, the setting "
             "in use, predicted and measured, and what each drafter has of the model's "
             "distribution.",
     .footer = kExamples},
    add_flags, run);

}  // namespace

}  // namespace specbound::theory_command
