// `specbound bench --compare spec`.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "error.h"
#include "library/model_path.h"
#include "runtime/speculative_model.h"
#include "system/number_text.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"
#include "tools/bench.h"
#include "tools/bench_model.h"
#include "tools/heads_in_turn.h"
#include "tools/paired_replies.h"
#include "tools/prompt_sets.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

struct Compared {
  BenchModel model;
  BenchMachine machine;
  std::string backend, speculation;  // in words
  ReadBandwidth read_bandwidth;
  std::vector<PromptFigures> prompts;
  OverallFigures overall;
};

std::vector<std::vector<int32_t>> prompt_tokens(const LoadedModel& model,
                                                const BenchOptions& options,
                                                const std::vector<BenchPrompt>& prompts) {
  std::vector<std::vector<int32_t>> tokens;
  for (const BenchPrompt& prompt : prompts) {
    try {
      tokens.push_back(make_prompt(model, options.prompt, "", prompt.text).ids);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      throw Error(e.code(), format("%s: %s", printable(prompt.name).c_str(), e.what()));
    }
  }
  return tokens;
}

// One side's replies, one after the other, behind a bar that they share.
class Side {
 public:
  Side(LoadedModel& model, const BenchOptions& options, const SamplingParams& sampling,
       const std::vector<std::vector<int32_t>>& prompts, Progress& bar, size_t& replies)
      : model_(model),
        options_(options),
        prompts_(prompts),
        bar_(bar),
        replies_(replies),
        session_(model.backend(), Sampler(sampling)) {}

  Session& session() { return session_; }

  TimedReply reply(size_t prompt) {
    const auto budget = static_cast<size_t>(options_.n_gen[0]);
    const size_t total = 2 * budget * (prompts_.size() * static_cast<size_t>(options_.repeats) + 1);
    TimedRequest request;
    request.prompt = prompts_[prompt];
    request.max_tokens = options_.n_gen[0];
    if (!options_.ignore_eos) request.ends = [this](int32_t id) { return model_.ends_reply(id); };
    request.abort = &interrupt_flag();
    request.on_progress = [&](int tokens) {
      bar_.update(replies_ * budget + static_cast<size_t>(tokens), total);
    };
    TimedReply timed = timed_reply(session_, request);
    if (timed.aborted()) throw Interrupted("interrupted while comparing");
    ++replies_;
    return timed;
  }

 private:
  LoadedModel& model_;
  const BenchOptions& options_;
  const std::vector<std::vector<int32_t>>& prompts_;
  Progress& bar_;
  size_t& replies_;  // of both sides, so far
  Session session_;
};

Compared compare(const BenchOptions& options, const SamplingParams& sampling,
                 const std::string& path, const std::vector<BenchPrompt>& prompts) {
  const ModelOptions one = options_of(options, path, std::max(options.context, 0));
  SpeculativeModel opened(one, options.drafting, terminal_watcher());
  LoadedModel& model = opened.model();
  Speculation& speculation = opened.speculation();
  const auto check_active = [&](bool active) {
    if (active) return;
    throw Error(ErrorCode::kUsage, "--compare spec: " + speculation.description());
  };
  check_active(speculation.set_active(true));
  const std::vector<std::vector<int32_t>> tokens = prompt_tokens(model, options, prompts);
  opened.load();
  check_active(speculation.active());  // what was tuned for this machine may say no

  Compared out;
  out.model = bench_model(model, one);
  out.machine = bench_machine(model.backend(), one.n_threads);
  out.backend = model.backend().description();
  out.speculation = with_flags(speculation.description());
  const ModelBytes bytes = model_bytes(model, one);
  BandwidthSamples bandwidth(out.machine, bytes.token(0));
  bandwidth.take();
  std::vector<PairedPrompt> pairs;
  {
    Progress bar("plain and speculative in turn", Progress::Unit::kWork);
    size_t replies = 0;
    Side plain(model, options, sampling, tokens, bar, replies);
    Side speculative(model, options, sampling, tokens, bar, replies);
    HeadsInTurn heads(model.backend());
    pairs = time_pairs(tokens.size(), options.repeats,
                       {[&](size_t prompt) {
                          heads.give(nullptr);
                          return plain.reply(prompt);
                        },
                        [&](size_t prompt) {
                          heads.give(&speculation);
                          speculative.session().set_speculator(speculation.speculator());
                          return speculative.reply(prompt);
                        }});
  }
  bandwidth.take();
  out.read_bandwidth = bandwidth.result();
  for (size_t i = 0; i < pairs.size(); ++i) {
    out.prompts.push_back(prompt_figures(prompts[i].name, pairs[i], bytes));
  }
  out.overall = overall_figures(out.prompts);
  return out;
}

// ---- for people ----

std::string times(double ratio) {
  return format("%.2fx", ratio);
}

std::string range(double low, double high) {
  return format("%.2f-%.2f", low, high);
}

std::string exit_text(const Counters& counters) {
  const auto exit = counters.mean_exit_layer();
  return exit ? format("%.1f", *exit) : "";
}

// The columns that a prompt and all of them have alike, from the tokens of the replies on.
std::vector<std::string> common_cells(double tokens, const SideFigures& plain,
                                      const SideFigures& speculative, double decode_speedup,
                                      double speedup, const std::string& interval, bool identical) {
  return {format("%.0f", tokens),
          format("%.1f", plain.decode_rate()),
          format("%.1f", speculative.decode_rate()),
          times(decode_speedup),
          times(speedup),
          interval,
          format("%.2f", speculative.compression_rate()),
          exit_text(speculative.counters),
          format("%.0f %%", 100 * speculative.acceptance()),
          identical ? "yes" : "NO"};
}

std::string prompts_table(const Compared& found) {
  std::vector<std::vector<std::string>> rows;
  for (const PromptFigures& p : found.prompts) {
    rows.push_back({terminal_text(p.name), std::to_string(p.prompt_tokens)});
    const auto cells =
        common_cells(p.tokens, p.plain, p.speculative, p.decode_speedup.median, p.speedup.median,
                     range(p.speedup.min, p.speedup.max), p.identical);
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  }
  const OverallFigures& all = found.overall;
  rows.push_back({"all (95 %)", ""});
  const auto cells =
      common_cells(all.plain.tokens, all.plain, all.speculative, all.decode_speedup.ratio,
                   all.speedup.ratio, range(all.speedup.low, all.speedup.high), all.identical);
  rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  return markdown_table({{"prompt", false},
                         {"in"},
                         {"out"},
                         {"plain t/s"},
                         {"spec. t/s"},
                         {"decoding"},
                         {"SD"},
                         {"from - to"},
                         {"CR"},
                         {"exit"},
                         {"accepted"},
                         {"identical"}},
                        rows);
}

std::string report(const Compared& found, int repeats) {
  const OverallFigures& all = found.overall;
  std::string text = format("%s, %s, %s parameters, %s\n%s\n%s\n\n", found.model.name.c_str(),
                            found.model.size_text().c_str(), found.model.parameters_text().c_str(),
                            found.backend.c_str(), terminal_text(found.speculation).c_str(),
                            found.read_bandwidth.text().c_str());
  text += prompts_table(found);
  text +=
      "Of a prompt medians over its repetitions, over all prompts their sums. CR: tokens a round. "
      "An end\ntoken counts. What drafting learns from texts it keeps from reply to reply.\n";
  text += format(
      "SD (end to end) %.2fx, 95 %% %.2f - %.2f; decoding alone %.2fx, %.2f - %.2f; ratio of mean "
      "tokens a\nsecond, as Spec-Bench has it, %.2fx; median prompt %.2fx; slower than plain: %d "
      "of "
      "%d\n",
      all.speedup.ratio, all.speedup.low, all.speedup.high, all.decode_speedup.ratio,
      all.decode_speedup.low, all.decode_speedup.high, all.spec_bench_speedup.ratio,
      all.median_speedup, all.slower, all.prompts);
  if (all.speculative.places.drafted.empty()) {
    text += "nothing was drafted: plain decoding was compared with itself\n";
  }
  text += format("identical: %s (%d prompts, each side %d times)\n", all.identical ? "yes" : "NO",
                 all.prompts, repeats);
  return text;
}

// ---- for programs ----

Json settings_json(const BenchOptions& options, const SamplingParams& sampling) {
  return {{"n_gen", options.n_gen[0]},
          {"repetitions", options.repeats},
          {"speculator", options.drafting.speculator},
          {"raw", options.prompt.raw},
          {"ignore_eos", options.ignore_eos},
          {"temperature", shortest_decimal(sampling.temperature)},
          {"seed", sampling.seed},
          {"top_k", sampling.top_k},
          {"top_p", shortest_decimal(sampling.top_p)},
          {"min_p", shortest_decimal(sampling.min_p)},
          {"presence_penalty", shortest_decimal(sampling.presence_penalty)},
          {"frequency_penalty", shortest_decimal(sampling.frequency_penalty)},
          {"repeat_penalty", shortest_decimal(sampling.repeat_penalty)},
          {"repeat_last_n", sampling.repeat_last_n}};
}

}  // namespace

bool bench_compare(const BenchOptions& options, BenchOutput& output) {
  const SamplingParams sampling = options.sampling.resolve();
  const std::vector<BenchPrompt> prompts = bench_prompts(options.prompts);
  std::vector<std::string> paths = options.models;
  if (paths.empty()) paths.emplace_back();  // the bundled one
  check_models(options, std::max(options.context, 0));

  bool identical = true;
  Json models = Json::array();
  std::vector<Json> records;
  for (const std::string& path : paths) {
    const Compared found = compare(options, sampling, path, prompts);
    const ReadBandwidth& bandwidth = found.read_bandwidth;
    Json of_prompts = Json::array();
    const auto keep = [&](const Json& record) {
      records.push_back({{"model_filename", found.model.path}});
      records.back().update(record);
    };
    for (const PromptFigures& figures : found.prompts) {
      of_prompts.push_back(prompt_record(figures, bandwidth));
      keep(of_prompts.back());
      if (figures.identical) continue;
      std::fprintf(stderr,
                   "DIFFERENT: %s: speculative decoding gave another text; specbound verify -m %s "
                   "--bits finds where\n",
                   terminal_text(figures.name).c_str(),
                   terminal_text(shell_word(found.model.path)).c_str());
    }
    const Json overall = overall_record(found.overall, bandwidth);
    keep(overall);
    models.push_back({{"model", found.model.json()},
                      {"hardware", found.machine.hardware},
                      {"backend", found.backend},
                      {"speculation", found.speculation},
                      {"read_bandwidth", bandwidth.json()},
                      {"prompts", std::move(of_prompts)},
                      {"overall", overall}});
    identical = identical && found.overall.identical;
    output.tell(report(found, options.repeats));
  }
  output.write({{"mode", "compare"},
                {"settings", settings_json(options, sampling)},
                {"identical", identical},
                {"models", models}},
               records);
  return identical;
}

}  // namespace specbound
