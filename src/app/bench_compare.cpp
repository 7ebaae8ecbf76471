#include "app/bench_compare.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/bench_figures.h"
#include "app/bench_machine.h"
#include "app/bench_model.h"
#include "app/bench_prompts.h"
#include "app/cost_report.h"
#include "app/interrupt.h"
#include "app/progress.h"
#include "app/shortest_decimal.h"
#include "app/speculation.h"
#include "app/standard_output.h"
#include "app/terminal_text.h"
#include "error.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

struct Compared {
  BenchModel model;
  BenchMachine machine;
  std::string backend, speculation;  // in words
  Spread read_bandwidth;
  std::vector<PromptFigures> prompts;
  OverallFigures overall;
};

std::vector<std::vector<int32_t>> prompt_tokens(const LoadedModel& model, const BenchFlags& flags,
                                                const std::vector<BenchPrompt>& prompts) {
  std::vector<std::vector<int32_t>> tokens;
  for (const BenchPrompt& prompt : prompts) {
    try {
      tokens.push_back(make_prompt(model, flags.prompt, "", prompt.text).ids);
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
  Side(LoadedModel& model, const BenchFlags& flags, const SamplingParams& sampling,
       const std::vector<std::vector<int32_t>>& prompts, Progress& bar, size_t& replies)
      : model_(model),
        flags_(flags),
        prompts_(prompts),
        bar_(bar),
        replies_(replies),
        session_(model.backend(), Sampler(sampling)) {}

  Session& session() { return session_; }

  TimedReply reply(size_t prompt) {
    const auto budget = static_cast<size_t>(flags_.n_gen[0]);
    const size_t total = 2 * budget * (prompts_.size() * static_cast<size_t>(flags_.repeats) + 1);
    TimedRequest request;
    request.prompt = prompts_[prompt];
    request.max_tokens = flags_.n_gen[0];
    if (!flags_.ignore_eos) request.ends = [this](int32_t id) { return model_.ends_reply(id); };
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
  const BenchFlags& flags_;
  const std::vector<std::vector<int32_t>>& prompts_;
  Progress& bar_;
  size_t& replies_;  // of both sides, so far
  Session session_;
};

Compared compare(const BenchFlags& flags, const SamplingParams& sampling, const std::string& path,
                 const std::vector<BenchPrompt>& prompts) {
  const ModelFlags one = model_flags(flags, path, std::max(flags.context, 0));
  LoadedModel model(one);
  Speculation speculation(flags.drafting, model);
  const auto check_active = [&](bool active) {
    if (active) return;
    throw Error(ErrorCode::kUsage, "--compare spec: " + speculation.description());
  };
  check_active(speculation.set_active(true));
  const std::vector<std::vector<int32_t>> tokens = prompt_tokens(model, flags, prompts);
  model.load(speculation.heads());
  speculation.attach(model.backend());
  check_active(speculation.active());  // what was tuned for this machine may say no

  Compared out;
  out.model = bench_model(model, one);
  out.machine = bench_machine(model.backend(), one.n_threads);
  out.backend = model.backend().description();
  out.speculation = speculation.description();
  Bandwidth bandwidth(out.machine.read_bandwidth);
  bandwidth.sample();
  std::vector<PairedPrompt> pairs;
  {
    Progress bar("plain and speculative in turn", Progress::Unit::kWork);
    size_t replies = 0;
    Side plain(model, flags, sampling, tokens, bar, replies);
    Side speculative(model, flags, sampling, tokens, bar, replies);
    speculative.session().set_speculator(speculation.speculator());
    pairs = time_pairs(tokens.size(), flags.repeats,
                       {[&](size_t prompt) { return plain.reply(prompt); },
                        [&](size_t prompt) { return speculative.reply(prompt); }});
  }
  bandwidth.sample();
  out.read_bandwidth = bandwidth.result();
  const ModelBytes bytes = model_bytes(model, one);
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

std::string sides_table(const Compared& found) {
  const SideFigures &plain = found.overall.plain, &drafted = found.overall.speculative;
  const double bandwidth = found.read_bandwidth.median;
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* title, int digits, double a, double b) {
    rows.push_back({title, format("%.*f", digits, a), format("%.*f", digits, b)});
  };
  row("prefill, tokens a second", 1, plain.prefill_rate(), drafted.prefill_rate());
  row("decoding, tokens a second", 1, plain.decode_rate(), drafted.decode_rate());
  row("TTFT, ms", 2, 1e3 * plain.ttft_seconds, 1e3 * drafted.ttft_seconds);
  row("TPOT, ms", 3, 1e3 * plain.tpot_seconds, 1e3 * drafted.tpot_seconds);
  row("end to end, seconds", 3, plain.total_seconds, drafted.total_seconds);
  row("GB/s of plain decoding's reading", 2, 1e-9 * plain.bytes_rate(),
      1e-9 * drafted.bytes_rate());
  if (bandwidth > 0) {
    row("... % of the read bandwidth", 1, 100 * plain.bytes_rate() / bandwidth,
        100 * drafted.bytes_rate() / bandwidth);
  }
  return markdown_table({{"all prompts", false}, {"plain"}, {"speculative"}}, rows);
}

std::string time_split(const char* side, const Counters& counters) {
  const auto seconds = measured_seconds(counters);
  double sum = 0;
  for (const double s : seconds) sum += s;
  std::string line = format("time, %s:", side);
  for (int i = 0; i < kPhases; ++i) {
    line += format("%s %s %.1f %%", i > 0 ? "," : "", kPhaseNames[static_cast<size_t>(i)],
                   sum > 0 ? 100 * seconds[static_cast<size_t>(i)] / sum : 0);
  }
  return line + "\n";
}

std::string acceptance_line(const DraftPlaces& places) {
  if (places.drafted.empty())
    return "nothing was drafted: plain decoding was held against itself\n";
  std::string line = "accepted by position:";
  for (size_t i = 0; i < places.drafted.size(); ++i) {
    const int right = i < places.accepted.size() ? places.accepted[i] : 0;
    line +=
        format("%s %zu: %.0f %% of %d", i > 0 ? "," : "", i + 1,
               places.drafted[i] > 0 ? 100.0 * right / places.drafted[i] : 0, places.drafted[i]);
  }
  return line + "\n";
}

constexpr const char* kDefinitions =
    "Of a prompt medians over its repetitions, over all prompts their sums; TTFT (prefill counted) "
    "and TPOT\n(each token behind the first) are means over prompts. CR: tokens a round. An end "
    "token counts. What drafting\nlearns from texts it keeps from reply to reply.\n";

std::string report(const Compared& found, int repeats) {
  const OverallFigures& all = found.overall;
  std::string text = format("%s, %s, %s parameters, %s\n%s\n%s\n\n", found.model.name.c_str(),
                            found.model.size_text().c_str(), found.model.parameters_text().c_str(),
                            found.backend.c_str(), terminal_text(found.speculation).c_str(),
                            bandwidth_text(found.read_bandwidth).c_str());
  text += prompts_table(found) + "\n" + sides_table(found) + "\n" + kDefinitions;
  text += format(
      "SD (end to end) %.2fx, 95 %% %.2f - %.2f; decoding alone %.2fx, %.2f - %.2f; ratio of mean "
      "tokens a\nsecond, as Spec-Bench has it, %.2fx; median prompt %.2fx; slower than plain: %d "
      "of "
      "%d\n",
      all.speedup.ratio, all.speedup.low, all.speedup.high, all.decode_speedup.ratio,
      all.decode_speedup.low, all.decode_speedup.high, all.spec_bench_speedup.ratio,
      all.median_speedup, all.slower, all.prompts);
  text += acceptance_line(all.speculative.places);
  text +=
      time_split("plain", all.plain.counters) + time_split("speculative", all.speculative.counters);
  text += format("identical: %s (%d prompts, each side %d times)\n", all.identical ? "yes" : "NO",
                 all.prompts, repeats);
  return text;
}

// ---- for programs ----

Json settings_json(const BenchFlags& flags, const SamplingParams& sampling) {
  return {{"n_gen", flags.n_gen[0]},
          {"repetitions", flags.repeats},
          {"speculator", flags.drafting.speculator},
          {"raw", flags.prompt.raw},
          {"ignore_eos", flags.ignore_eos},
          {"temperature", shortest_decimal(sampling.temperature)},
          {"seed", sampling.seed},
          {"top_k", sampling.top_k},
          {"top_p", shortest_decimal(sampling.top_p)},
          {"min_p", shortest_decimal(sampling.min_p)},
          {"repeat_penalty", shortest_decimal(sampling.repeat_penalty)},
          {"repeat_last_n", sampling.repeat_last_n}};
}

}  // namespace

bool bench_compare(const BenchFlags& flags, const BenchOutput& output) {
  const SamplingParams sampling = flags.sampling.resolve();
  const std::vector<BenchPrompt> prompts = bench_prompts(flags.prompts);
  std::vector<std::string> paths = flags.models;
  if (paths.empty()) paths.emplace_back();  // the bundled one

  bool identical = true;
  Json models = Json::array();
  std::vector<Json> records;
  for (const std::string& path : paths) {
    const Compared found = compare(flags, sampling, path, prompts);
    const double bandwidth = found.read_bandwidth.median;
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
                   "DIFFERENT: %s: speculative decoding gave another text; specbound verify "
                   "--bits finds where\n",
                   terminal_text(figures.name).c_str());
    }
    const Json overall = overall_record(found.overall, bandwidth);
    keep(overall);
    models.push_back({{"model", found.model.json()},
                      {"hardware", found.machine.hardware},
                      {"backend", found.backend},
                      {"speculation", found.speculation},
                      {"read_bandwidth", spread_json(found.read_bandwidth)},
                      {"prompts", std::move(of_prompts)},
                      {"overall", overall}});
    identical = identical && found.overall.identical;
    if (output.for_people()) write_stdout(report(found, flags.repeats));
  }
  output.write({{"mode", "compare"},
                {"settings", settings_json(flags, sampling)},
                {"identical", identical},
                {"models", models}},
               records);
  return identical;
}

}  // namespace specbound
