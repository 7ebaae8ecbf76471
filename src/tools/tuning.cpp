#include "tools/tuning.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "corpus/self_generate.h"
#include "decode/generate.h"
#include "error.h"
#include "library/heads_path.h"
#include "library/model_path.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tune/guess_cases.h"
#include "tune/measure_costs.h"

namespace specbound {

namespace {

constexpr double kCheck = 0.3;  // of a layer
constexpr double kBlock = 1;    // of a layer: a draft layer's
constexpr double kRow = 0.15;   // of a pass: what each row behind the first adds to verification

// What rounds of a head bring, on average.
struct DraftedRounds {
  double looks = 0;   // rows that the head looked at
  double drafts = 0;  // rows behind the root
  double last = 0;    // share of rounds whose last row stopped at the head's layer
  double tokens = 1;
};

// Tokens in the time of one token of plain decoding (1: as fast as plain), where all layers cost
// the same and a look costs `check` layers.
double speed(const HeadReport& report, double check, const DraftedRounds& rounds, int n_layers) {
  const double layer = report.layer, deep = 1 - layer / n_layers;
  const double shallow = rounds.looks * (layer + check) + rounds.last * layer;
  return rounds.tokens / (shallow / n_layers + deep + kRow * rounds.drafts);
}

// Of a head that drafts with chance `leaving` where it looks, up to `rows` - 1 times a round, and
// is right with chance `accepted`.
double threshold_speed(const HeadReport& report, double leaving, double accepted, int rows,
                       int n_layers) {
  DraftedRounds rounds{.last = 1};
  double right = 1;
  for (int row = 1; row < rows; ++row) {
    rounds.looks += rounds.last;
    rounds.last *= leaving;
    rounds.drafts += rounds.last;
    rounds.tokens += right *= leaving * accepted;
  }
  return speed(report, kCheck, rounds, n_layers);
}

// Of chains that end with their first wrong draft, of as many drafts as are best of those that were
// measured: one of heads without a state.
double chain_speed(const HeadReport& report, int n_layers) {
  std::span<const double> agreements = report.depth_agreement;
  if (agreements.empty()) agreements = {&report.agreement, 1};
  const double check = is_layer(report.kind) ? kBlock : kCheck;
  DraftedRounds rounds{.last = 1};
  double right = 1, most = 0;
  for (const double agreement : agreements) {
    rounds.drafts += right;
    rounds.looks = rounds.drafts;
    rounds.tokens += right *= agreement;
    most = std::max(most, speed(report, check, rounds, n_layers));
  }
  return most;
}

// What stands before the reply.
std::span<const int32_t> prompt_of(const TrainingText& text) {
  const auto learnt = std::find(text.learn.begin(), text.learn.end(), 1);
  const auto n = std::min(learnt - text.learn.begin() + 1, std::ssize(text.tokens));
  return std::span(text.tokens).first(static_cast<size_t>(n));
}

bool same_prompt(const TrainingText& a, const TrainingText& b) {
  return std::ranges::equal(prompt_of(a), prompt_of(b));
}

// A greedy reply as it is; the prompt of another one as `session` goes on from it. nullopt where
// the context leaves no room for rounds.
std::optional<TuningText> tuning_text(const TrainingText& text, Session& session,
                                      const std::function<bool(int32_t)>& is_end) {
  const std::span<const int32_t> prompt = prompt_of(text);
  if (prompt.size() == text.tokens.size()) return std::nullopt;
  const int budget = SelfGenerateOptions{}.max_reply;
  if (!text.greedy) return write_text(session, prompt, budget, is_end, &interrupt_flag());
  const int n_ctx = session.backend().n_ctx();
  if (std::ssize(text.tokens) + kMaxRows > n_ctx) return std::nullopt;
  TuningText reply;
  reply.tokens = text.tokens;
  reply.prompt_tokens = static_cast<int>(prompt.size());
  reply.budget = std::min(budget, n_ctx - reply.prompt_tokens - kMaxRows);
  reply.sampling.temperature = 0;
  return reply;
}

std::vector<TuningText> tuning_texts(LoadedModel& model, const SelfWritten& written,
                                     const std::function<bool(int32_t)>& is_end) {
  SamplingParams params;
  params.temperature = written.temperature;
  params.seed = written.seed;
  model.backend().truncate(0);
  Session session(model.backend(), Sampler(params));
  Progress bar("texts for tuning", Progress::Unit::kItems);
  std::vector<TuningText> texts;
  int64_t tokens = 0;
  const TrainingText* last = nullptr;
  for (size_t i = written.texts.size(); i > written.first && tokens < kShippedTuningTokens; --i) {
    const TrainingText& source = written.texts[i - 1];
    if (last && same_prompt(*last, source)) continue;
    if (!source.greedy && written.time_is_up()) continue;
    last = &source;
    auto text = tuning_text(source, session, is_end);
    check_interrupt("interrupted while settings were tuned");
    if (!text || std::ssize(text->tokens) <= text->prompt_tokens) continue;
    tokens += std::ssize(text->tokens) - text->prompt_tokens;
    texts.push_back(std::move(*text));
    bar.update(static_cast<size_t>(tokens), static_cast<size_t>(kShippedTuningTokens));
  }
  model.backend().truncate(0);
  return texts;
}

// The heads do not outlive the tuning.
class SetHeads {
 public:
  SetHeads(Backend& backend, const ExitHeads& heads) : backend_(backend) {
    backend.set_exit_heads(&heads, static_cast<int>(heads.shortlist().size()));
  }
  ~SetHeads() { backend_.set_exit_heads(nullptr, 0); }
  SetHeads(const SetHeads&) = delete;
  SetHeads& operator=(const SetHeads&) = delete;

 private:
  Backend& backend_;
};

}  // namespace

std::optional<ExitHeads> find_heads(const LoadedModel& model, const std::string& flag) {
  const std::string path = flag.empty() ? heads_path(model.path(), model.gguf()) : flag;
  std::error_code error;
  if (flag.empty() && !std::filesystem::exists(path, error)) return std::nullopt;
  try {
    return ExitHeads::open(path, model.gguf(), model.config());
  } catch (const Error& e) {
    throw Error(e.code(), format("%s; %s makes heads for this model", e.what(),
                                 train_command(model.path()).c_str()));
  }
}

ExitHeads open_heads(const LoadedModel& model, const std::string& flag) {
  std::optional<ExitHeads> heads = find_heads(model, flag);
  if (!heads) {
    throw Error(ErrorCode::kFile,
                format("%s: no exit heads for this model; %s makes them, --heads FILE names others",
                       sidecar_heads(model.path()).c_str(), train_command(model.path()).c_str()));
  }
  if (!heads->can_guess()) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected heads, found none; %s makes heads for this model",
                       heads->path().c_str(), train_command(model.path()).c_str()));
  }
  return std::move(*heads);
}

CostModel measure_costs_shown(LoadedModel& model, const ExitHeads* heads,
                              std::span<const TuningText> texts) {
  CostModel costs;
  {
    Progress bar("measuring costs", Progress::Unit::kItems);
    MeasureOptions options;
    double positions = 0, tokens = 0;  // over every token of every reply
    for (const TuningText& text : texts) {
      const double end = static_cast<double>(text.tokens.size());
      const double reply = end - text.prompt_tokens;
      positions += reply * (text.prompt_tokens + end) / 2;
      tokens += reply;
    }
    if (tokens > 0) options.context = static_cast<int>(positions / tokens);
    options.progress = [&](double done) {
      bar.update(static_cast<size_t>(100 * done), 100);
      return !interrupt_flag();
    };
    costs = measure_costs(model.backend(), heads, options);
  }
  if (costs.n_layers == 0) throw Interrupted("interrupted while costs were measured");
  return costs;
}

TuningTrace record_shown(LoadedModel& model, const ExitHeads& heads,
                         std::span<const TuningText> texts) {
  Progress bar("heads look at replies", Progress::Unit::kItems);
  TracePlan plan;
  plan.is_end = [&](int32_t id) { return model.ends_reply(id); };
  plan.progress = [&](int done, int total) {
    bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
    return !interrupt_flag();
  };
  bool complete = true;
  TuningTrace trace = record_trace(model.backend(), heads, texts, plan, complete);
  if (!complete) throw Interrupted("interrupted while heads looked at replies");
  return trace;
}

TuneOutcome tune_shown(const TuningTrace& trace, const CostModel& costs, TuneOptions options) {
  Progress bar("searching settings", Progress::Unit::kWork);
  options.progress = [&bar](int64_t tried) {
    bar.update(0, 1, format("%lld replayed", static_cast<long long>(tried)));
    return !interrupt_flag();
  };
  TuneOutcome outcome = tune(trace, costs, options);
  check_interrupt("interrupted while settings were searched");
  return outcome;
}

MeasuredSpeedup measure_speedup_shown(LoadedModel& model, const ExitHeads& heads,
                                      const HeadDefaults& settings, const CostModel& costs,
                                      std::span<const TuningText> texts) {
  model.backend().set_exit_heads(&heads, settings.shortlist);
  Progress bar("measuring the setting", Progress::Unit::kItems);
  MeasureSpeedupOptions options;
  options.is_end = [&](int32_t id) { return model.ends_reply(id); };
  options.abort = &interrupt_flag();
  options.progress = [&](int done, int total) {
    bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
  };
  MeasuredSpeedup measured =
      measure_speedup(model.backend(), heads, settings, costs, texts, options);
  if (!measured.complete) throw Interrupted("interrupted while the setting was measured");
  return measured;
}

OverlapReport measure_overlap_shown(LoadedModel& model, const ExitHeads* heads, int shortlist,
                                    Backend* draft_model, std::span<const TuningText> texts) {
  OverlapOptions options;
  options.heads = heads;
  if (heads) {
    const int all = static_cast<int>(heads->shortlist().size());
    options.shortlist = shortlist > 0 ? std::min(shortlist, all) : all;
    model.backend().set_exit_heads(heads, options.shortlist);
  }
  options.draft_model = draft_model;
  Progress bar("drafters guess along replies", Progress::Unit::kItems);
  options.progress = [&](int done, int total) {
    bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
    return !interrupt_flag();
  };
  OverlapReport report = measure_overlap(model.backend(), texts, options);
  if (!report.complete) throw Interrupted("interrupted while drafters guessed");
  return report;
}

FittedOdds fit_odds_shown(LoadedModel& model, const ExitHeads* heads, const HeadDefaults* settings,
                          std::span<const TuningText> texts) {
  std::vector<OddsCase> cases =
      look_up(texts, heads ? std::span<const int32_t>(heads->text()) : std::span<const int32_t>());
  if (settings) {
    model.backend().set_exit_heads(heads, settings->shortlist);
    Progress bar("replies with guesses", Progress::Unit::kItems);
    GuessOptions options;
    options.is_end = [&](int32_t id) { return model.ends_reply(id); };
    options.abort = &interrupt_flag();
    options.progress = [&](int done, int total) {
      bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
    };
    const auto guessed = guess_cases(model.backend(), *heads, *settings, texts, options);
    if (!guessed) throw Interrupted("interrupted while heads guessed");
    if (guessed->left_out > 0) {
      say(format("%d of %zu replies came out otherwise where prompts are read at once: left out",
                 guessed->left_out, texts.size()));
    }
    cases.insert(cases.end(), guessed->cases.begin(), guessed->cases.end());
  }
  Progress bar("fitting odds", Progress::Unit::kItems);
  FittedOdds fitted = fit_shipped_odds(cases, [&](int done, int total) {
    bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
    return !interrupt_flag();
  });
  check_interrupt("interrupted while odds were fitted");
  return fitted;
}

HeadDefaults guess_defaults(const std::vector<HeadReport>& reports, int n_layers, int shortlist) {
  HeadDefaults best;
  best.shortlist = shortlist;
  double most = 0;
  for (const HeadReport& report : reports) {
    if (!is_replayed(report.kind)) continue;
    const size_t n = std::min({report.tau.size(), report.leaving.size(), report.accepted.size()});
    for (size_t t = 0; t < n; ++t) {
      for (int rows = 2; rows <= HeadDefaults{}.w_max; ++rows) {
        const double s =
            threshold_speed(report, report.leaving[t], report.accepted[t], rows, n_layers);
        if (s <= most) continue;
        most = s;
        best.kind = report.kind;
        best.check_layers = {report.layer};
        best.tau = static_cast<float>(report.tau[t]);
        best.w_max = rows;
        best.d_max = std::max(HeadDefaults{}.d_max, report.layer);
      }
    }
  }
  if (best.check_layers.empty() && !reports.empty()) {
    best.kind = reports.front().kind;
    best.check_layers = {reports.front().layer};
    best.d_max = std::max(best.d_max, reports.front().layer);
  }
  return best;
}

bool prefer_layer(const std::vector<HeadReport>& reports, int n_layers, HeadDefaults& settings) {
  double most = 0;
  for (const HeadReport& report : reports) {
    if (report.kind == settings.kind) most = std::max(most, chain_speed(report, n_layers));
  }
  bool preferred = false;
  for (const HeadReport& report : reports) {
    const double speed = chain_speed(report, n_layers);
    if (!is_layer(report.kind) || speed <= most) continue;
    preferred = true;
    most = speed;
    const int shortlist = settings.shortlist;
    settings = {};
    settings.kind = report.kind;
    settings.check_layers = {report.layer};
    settings.d_max = std::max(settings.d_max, report.layer);
    settings.shortlist = shortlist;
    settings.tau = 0.25f;  // as the shipped file of SmolLM2 has it
  }
  return preferred;
}

std::optional<ShippedSettings> tune_shipped(LoadedModel& model, const ExitHeads& heads,
                                            const SelfWritten& written) {
  const auto is_end = [&model](int32_t id) { return model.ends_reply(id); };
  const std::vector<TuningText> texts = tuning_texts(model, written, is_end);
  if (texts.empty()) return std::nullopt;
  const SetHeads set(model.backend(), heads);
  const CostModel costs = measure_costs_shown(model, &heads, texts);
  const TuningTrace trace = record_shown(model, heads, texts);
  const TuneOutcome outcome = tune_shown(trace, costs);
  return ShippedSettings{outcome.winner.settings.heads, outcome.winner.result.speedup(),
                         trace.n_rows()};
}

}  // namespace specbound
