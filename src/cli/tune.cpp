// specbound tune: fits the odds of candidates to replies of the model; where there are heads,
// measures what each step costs here, lets the heads look at these replies, searches settings by
// replaying them and holds the winner against plain decoding. What is better than before it keeps.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "error.h"
#include "json/json_writer.h"
#include "runtime/loaded_model.h"
#include "runtime/tuned_odds.h"
#include "runtime/tuned_settings.h"
#include "system/file_output.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"
#include "tools/cost_report.h"
#include "tools/tuning.h"
#include "tools/tuning_texts.h"

namespace specbound::tune_command {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound tune\n"
    "  specbound tune -m model.gguf --data chat.jsonl --tokens 8000\n"
    "  specbound tune --heads other.heads.gguf --temps 0 --dry-run --json tuned.json";
// Slower than plain decoding by more than noise: drafting does not pay here.
constexpr double kLoss = 0.97;

struct TuneFlags {
  ModelOptions model;
  TuningTextOptions texts;
  std::string heads, json, kind;
  int replies = 12;
  bool dry_run = false;
};

struct Tuned {
  TuneOutcome outcome;
  TuneOutcome by_margin;
  HeadDefaults settings;  // the winner's, or plain decoding where it lost
  MeasuredSpeedup measured;
  ReplayResult replayed;  // the replies that were measured
};

Json to_json(const TunePoint& point) {
  const ReplayResult& r = point.result;
  Json json = settings_json(point.settings.heads);
  json.update({{"confidence", point.settings.margin ? "margin" : "peak"},
               {"predicted_speedup", r.speedup()},
               {"compression_rate", r.compression_rate()},
               {"acceptance", r.acceptance()},
               {"mean_exit_layer", r.mean_exit_layer()},
               {"check_share_of_drafting", check_share(r.seconds)},
               {"check_share", check_share_of_all(r.seconds)}});
  return json;
}

void print_point(const TunePoint& point) {
  const ReplayResult& r = point.result;
  std::printf("  %5.2f  %6.2fx  %10.1f%%  %5.1f  %5.1f%%  %s\n", r.compression_rate(), r.speedup(),
              100 * r.acceptance(), r.mean_exit_layer(), 100 * check_share_of_all(r.seconds),
              describe_settings(point.settings.heads).c_str());
}

// At most `n` of the front, the ends among them.
std::vector<TunePoint> thinned(const std::vector<TunePoint>& front, size_t n) {
  if (front.size() <= n) return front;
  std::vector<TunePoint> out;
  for (size_t i = 0; i < n; ++i) out.push_back(front[i * (front.size() - 1) / (n - 1)]);
  return out;
}

void report(const Tuned& tuned, const TuningTrace& trace, const CostModel& costs) {
  print_costs(costs);
  std::printf("trace: %zu replies, %d tokens, %zu heads; %lld settings replayed in %.1f s\n",
              trace.replies().size(), trace.n_rows(), trace.heads().size(),
              static_cast<long long>(tuned.outcome.tried), tuned.outcome.seconds);
  std::printf(
      "\nbest trades of tokens a round (CR) against speed, by replay:\n"
      "     CR  speedup  acceptance   exit  checks  settings\n");
  for (const TunePoint& point : thinned(tuned.outcome.pareto, 12)) print_point(point);
  std::printf("\nbest of each kind of head:\n");
  for (const TunePoint& point : tuned.outcome.by_kind) print_point(point);
  std::printf("confidence by the draft's margin instead:\n");
  print_point(tuned.by_margin.winner);
  const TunePoint& winner = tuned.outcome.winner;
  std::printf("\nwinner: %s\n  predicted %.2fx plain decoding, CR %.2f, acceptance %.1f%%\n",
              describe_settings(winner.settings.heads).c_str(), winner.result.speedup(),
              winner.result.compression_rate(), 100 * winner.result.acceptance());
  const MeasuredSpeedup& m = tuned.measured;
  if (m.replies == 0) return;
  std::printf(
      "measured on %d replies, turn by turn with plain decoding:\n"
      "  %.2fx (median %.2fx), CR %.2f; replay says %.2fx, CR %.2f for these: %+.1f%%\n",
      m.replies, total_speedup(m), m.speedup, m.compression_rate(), tuned.replayed.speedup(),
      tuned.replayed.compression_rate(), 100 * (tuned.replayed.speedup() / total_speedup(m) - 1));
  if (tuned.settings.w_max == 1) std::printf("drafting does not pay here: plain decoding\n");
}

void report(const FittedOdds& odds) {
  if (odds.cases == 0) {
    std::printf("odds of candidates: there were none in these replies\n");
    return;
  }
  std::printf("odds of %zu candidates: log loss on held-out replies %.4f, as shipped %.4f\n",
              odds.cases, odds.held_out_loss, odds.shipped_loss);
  if (!odds.better()) std::printf("what ships is no worse: nothing is kept\n");
}

// `heads`: fingerprint of those that guessed. Too little to judge by changes nothing.
void keep(const FittedOdds& odds, const std::string& heads, const std::string& fingerprint) {
  if (odds.better()) {
    const std::string path =
        write_tuned_odds(fingerprint, {odds.weights, odds.shipped_loss, odds.held_out_loss, heads});
    std::printf("kept in %s\n", terminal_text(path).c_str());
  } else if (odds.worse() && remove_tuned_odds(fingerprint)) {
    std::printf("those of an earlier tune are gone\n");
  }
}

Json odds_json(const FittedOdds& odds) {
  if (odds.cases == 0) return nullptr;
  return {{"candidates", odds.cases},
          {"shipped_log_loss", odds.shipped_loss},
          {"held_out_log_loss", odds.held_out_loss},
          {"better", odds.better()}};
}

Json report_json(const Tuned& tuned, const TuningTrace& trace, const CostModel& costs) {
  Json pareto = Json::array(), kinds = Json::array();
  for (const TunePoint& point : tuned.outcome.pareto) pareto.push_back(to_json(point));
  for (const TunePoint& point : tuned.outcome.by_kind) kinds.push_back(to_json(point));
  Json json = {{"costs", costs_json(costs)},
               {"tokens", trace.n_rows()},
               {"settings_replayed", tuned.outcome.tried},
               {"search_seconds", tuned.outcome.seconds},
               {"pareto", std::move(pareto)},
               {"by_kind", std::move(kinds)},
               {"by_margin", to_json(tuned.by_margin.winner)},
               {"winner", to_json(tuned.outcome.winner)},
               {"stored_w_max", tuned.settings.w_max},
               {"measured", nullptr}};
  const MeasuredSpeedup& m = tuned.measured;
  if (m.replies > 0) {
    json["measured"] = {{"replies", m.replies},
                        {"speedup", total_speedup(m)},
                        {"median_speedup", m.speedup},
                        {"rounds", m.counters.rounds},
                        {"compression_rate", m.compression_rate()},
                        {"mean_exit_layer", m.counters.mean_exit_layer().value_or(0)},
                        {"predicted_speedup", tuned.replayed.speedup()},
                        {"predicted_rounds", tuned.replayed.rounds},
                        {"predicted_compression_rate", tuned.replayed.compression_rate()},
                        {"seconds", phases_json(measured_seconds(m.counters))},
                        {"predicted_seconds", phases_json(tuned.replayed.seconds)},
                        {"counted_rounds_speedup", counted_speedup(m, tuned.replayed)}};
  }
  return json;
}

void add_flags(Flags& flags, TuneFlags& given) {
  flags
      .add_file("--heads", given.heads,
                "exit heads (default: NAME.heads.gguf beside the model, if it is there)")
      .type("FILE.gguf");
  add_tuning_texts(flags, given.texts);
  flags.add_int("--tokens", given.texts.tokens, 64, 1 << 24,
                format("tokens of replies to look at (default %d)", given.texts.tokens));
  flags.add_text("--kind", given.kind, "only heads of this kind (default: all that the file has)")
      .type("full|folded|chained");
  flags.add_int("--replies", given.replies, 0, 1 << 20,
                format("replies that the winner is measured on (default %d)", given.replies));
  flags.add_switch("--dry-run", given.dry_run, "keep nothing").command_line_only();
  flags.add_output_file("--json", given.json, "write everything found as JSON");
  add_model_flags(flags, given.model);
  given.model.write_tiles = false;
}

// Whether there are heads whose looks can be replayed. Throws Error where their kind was asked for
// and they are of another one.
bool can_replay(const std::optional<ExitHeads>& heads, const std::string& kind) {
  if (!heads || !heads->can_guess()) return false;
  if (is_replayed(heads->defaults().kind)) return true;
  if (kind.empty()) return false;
  throw Error(ErrorCode::kUnsupported,
              format("%s: expected heads whose looks can be replayed, found the kind %s: when to "
                     "ask it is learned while it drafts",
                     heads->path().c_str(), head_kind_name(heads->defaults().kind)));
}

// What is kept of them.
HeadDefaults tune_heads(LoadedModel& model, const ExitHeads& heads, std::optional<HeadKind> kind,
                        std::span<const TuningText> texts, const TuneFlags& given, Json& json) {
  const CostModel costs = measure_costs_shown(model, &heads, texts);
  const TuningTrace trace = record_shown(model, heads, texts);

  Tuned tuned;
  TuneOptions options;
  options.kind = kind;
  tuned.outcome = tune_shown(trace, costs, options);
  options.margin = true;
  tuned.by_margin = tune_shown(trace, costs, options);
  const TunePoint& winner = tuned.outcome.winner;
  tuned.settings = winner.settings.heads;
  if (const size_t n = std::min(texts.size(), static_cast<size_t>(given.replies)); n > 0) {
    tuned.measured = measure_speedup_shown(model, heads, tuned.settings, costs, texts.first(n));
    const Replay replay(trace, costs);
    for (size_t i = 0; i < n; ++i) {
      tuned.replayed.add(replay.run_reply(winner.settings, static_cast<int>(i)));
    }
    if (total_speedup(tuned.measured) < kLoss) tuned.settings.w_max = 1;
  }
  report(tuned, trace, costs);
  if (!given.dry_run) {
    const std::string path =
        write_tuned(heads.base().fingerprint, model.backend().device(),
                    {heads.fingerprint(), tuned.settings, winner.result.speedup()});
    std::printf("kept in %s\n", terminal_text(path).c_str());
  }
  json.update(report_json(tuned, trace, costs));
  return tuned.settings;
}

int run(TuneFlags& given) {
  const std::optional<HeadKind> kind = parse_head_kind(given.kind);
  if (!given.kind.empty() && (!kind || !is_replayed(*kind))) {
    throw Error(ErrorCode::kUsage, format("--kind: expected full, folded or chained, found \"%s\"",
                                          printable(given.kind).c_str()));
  }
  if (!given.json.empty()) check_writable(given.json);

  catch_interrupts();
  LoadedModel model(given.model, terminal_watcher());
  const std::optional<ExitHeads> heads =
      kind ? open_heads(model, given.heads) : find_heads(model, given.heads);
  const bool replays = can_replay(heads, given.kind);
  const bool guesses = heads && heads->can_guess();
  model.load(guesses ? &*heads : nullptr);
  const std::vector<TuningText> texts = tuning_texts(model, given.texts);
  Json json = {{"model", model.path()}, {"replies", texts.size()}};
  std::optional<HeadDefaults> settings;  // that heads draft by
  if (replays && guesses) {
    settings = tune_heads(model, *heads, kind, texts, given, json);
    std::printf("\n");
  } else if (guesses) {
    settings = heads->defaults();
  }
  if (settings && settings->w_max == 1) settings.reset();
  const FittedOdds odds =
      fit_odds_shown(model, heads ? &*heads : nullptr, settings ? &*settings : nullptr, texts);
  report(odds);
  if (!given.dry_run) {
    keep(odds, settings ? heads->fingerprint() : "", model_fingerprint(model.gguf()));
  }
  json["odds"] = odds_json(odds);
  if (!given.json.empty()) write_file(given.json, dump(json, 2) + "\n");
  return 0;
}

const CommandOf<TuneFlags> kTune(
    {.rank = 70,
     .name = "tune",
     .summary = "find the fastest settings of speculation on this machine",
     .text =
         "Find the settings of speculation that are fastest for this model on this machine, "
         "and keep them for run and chat. The model writes replies to prompts of several kinds; "
         "by these the settings of its exit heads are found, where it has some, and how likely "
         "drafts of all sources are right is fitted, with any model.",
     .footer = kExamples},
    add_flags, run);

}  // namespace

}  // namespace specbound::tune_command
