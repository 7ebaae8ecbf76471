// specbound spec-bench: Spec-Bench's questions, plainly and drafted, turn about; its answer files
// and the SpecBound paper's tables and figures. Exit status 1 where a text is not plain decoding's.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/file_output.h"
#include "app/interrupt.h"
#include "app/shortest_decimal.h"
#include "app/spec_bench_run.h"
#include "app/spec_bench_sweep.h"
#include "app/spec_bench_tables.h"
#include "app/standard_output.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

// Not yet attached. Throws what Speculation does.
SpecBenchSide make_side(const SpecBenchDrafter& drafter, const LoadedModel& model) {
  SpecBenchSide side{drafter, nullptr};
  if (!drafter.flags) return side;
  side.speculation = std::make_unique<Speculation>(*drafter.flags, model);
  if (!side.speculation->active() && !side.speculation->set_active(true)) {
    throw Error(ErrorCode::kUsage, side.speculation->description());
  }
  return side;
}

// Those that can be had; a line for each that is left out.
std::vector<SpecBenchSide> make_sides(const std::vector<SpecBenchDrafter>& drafters,
                                      const LoadedModel& model) {
  std::vector<SpecBenchSide> sides;
  for (const SpecBenchDrafter& drafter : drafters) {
    try {
      sides.push_back(make_side(drafter, model));
    } catch (const Error& e) {
      if (drafter.needed) {
        throw Error(e.code(), format("%s: %s", drafter.name.c_str(), e.what()));
      }
      std::fprintf(stderr, "left out: %s: %s\n", drafter.name.c_str(),
                   terminal_text(e.what()).c_str());
    }
  }
  return sides;
}

void load(LoadedModel& model, const std::vector<SpecBenchSide>& sides) {
  const ExitHeads* heads = nullptr;
  for (const SpecBenchSide& side : sides) {
    if (!heads && side.speculation) heads = side.speculation->heads();
  }
  model.load(heads);
}

class SpecBench {
 public:
  SpecBench(const SpecBenchFlags& flags, LoadedModel& model,
            std::vector<SpecBenchQuestion> questions);

  void run();
  void report() const;
  Json json() const;
  void write_figures() const;
  size_t n_differing() const;

 private:
  void plan();
  std::vector<SpecBenchSource> sources();
  void evaluate(const SpecBenchAnswers& answers);

  const SpecBenchFlags& flags_;
  LoadedModel& model_;
  std::vector<SpecBenchQuestion> questions_;
  std::vector<SpecBenchStrategy> strategies_;
  std::vector<SpecBenchSide> sides_;
  std::vector<SweepPoint> points_;                     // of sides_[1..], with --sweep
  std::vector<std::vector<SpecBenchResult>> results_;  // [strategy][side - 1]
  int turns_ = 0, cut_turns_ = 0;
  int64_t cut_tokens_ = 0;
  size_t n_rejecting_ = 0;  // texts that are others because they were accepted by rejection
};

SpecBench::SpecBench(const SpecBenchFlags& flags, LoadedModel& model,
                     std::vector<SpecBenchQuestion> questions)
    : flags_(flags),
      model_(model),
      questions_(std::move(questions)),
      strategies_(spec_bench_strategies(flags)) {
  (void)model_.chat_template();  // what is wrong with it is known before the weights are there
  sides_ = make_sides(spec_bench_drafters(flags), model);
  if (sides_.size() < 2) {
    throw Error(ErrorCode::kUsage,
                "--compare: expected a drafter beside plain decoding, found none");
  }
  load(model_, sides_);
  plan();
}

// What moves is known once the settings that were tuned for this backend are.
void SpecBench::plan() {
  if (!flags_.sweep) return;
  Speculation& base = *sides_[1].speculation;
  base.attach(model_.backend());
  points_ = sweep_points(flags_.drafting, base.params(), base.head_layers());
  sides_.resize(1);
  for (const SweepPoint& point : points_) sides_.push_back(make_side(point.drafter, model_));
}

std::vector<SpecBenchSource> SpecBench::sources() {
  const std::string id = std::filesystem::path(model_.path()).stem().string();
  for (const SpecBenchSide& side : sides_) {
    if (!side.speculation) continue;
    side.speculation->attach(model_.backend());
    if (flags_.sweep) continue;
    std::fprintf(stderr, "%s: %s\n", side.drafter.name.c_str(),
                 terminal_text(side.speculation->description()).c_str());
  }
  std::vector<SpecBenchSource> sources;
  for (const SpecBenchStrategy& strategy : strategies_) {
    for (const SpecBenchSide& side : sides_) {
      const std::string name = strategy.prefix + side.drafter.name;
      sources.push_back({name, id + "-" + name,
                         spec_bench_settings(model_, side, strategy.sampling, flags_.n_predict)});
    }
  }
  return sources;
}

void SpecBench::run() {
  SpecBenchAnswers answers(flags_.out, sources(), flags_.fresh);
  SpecBenchRun run(model_, sides_, flags_.n_predict);
  run.warm_up(strategies_.front(), questions_.front());
  for (size_t s = 0; s < strategies_.size(); ++s) {
    run.ask(strategies_[s], questions_, answers, s * sides_.size());
  }
  answers.sort();
  evaluate(answers);
}

void SpecBench::evaluate(const SpecBenchAnswers& answers) {
  for (size_t s = 0; s < strategies_.size(); ++s) {
    const size_t plain = s * sides_.size();
    std::vector<SpecBenchResult> results;
    for (size_t i = 1; i < sides_.size(); ++i) {
      std::vector<SpecBenchPair> pairs;
      for (const SpecBenchQuestion& question : questions_) {
        pairs.push_back({answers.find(plain, question.id), answers.find(plain + i, question.id)});
      }
      results.push_back(spec_bench_result(sides_[i].drafter.name, pairs));
      const std::optional<SpeculationFlags>& drafting = sides_[i].drafter.flags;
      if (drafting->acceptance == Acceptance::kRejection &&
          strategies_[s].sampling.temperature > 0) {  // the same law, not the same text
        n_rejecting_ += results.back().differing.size();
        results.back().differing.clear();
      }
    }
    results_.push_back(std::move(results));
    for (const SpecBenchQuestion& question : questions_) {
      for (const SpecBenchTurn& turn : answers.find(plain, question.id)->turns) {
        ++turns_;
        cut_turns_ += turn.cut_tokens > 0 ? 1 : 0;
        cut_tokens_ += turn.cut_tokens;
      }
    }
  }
}

size_t SpecBench::n_differing() const {
  size_t n = 0;
  for (const auto& results : results_) {
    for (const SpecBenchResult& result : results) n += result.differing.size();
  }
  return n;
}

void SpecBench::report() const {
  std::string text;
  if (flags_.sweep) {
    text = sweep_table(points_, results_[0]);
  } else if (flags_.sampling_table) {
    for (size_t i = 0; i + 1 < sides_.size(); ++i) {
      std::vector<std::string> names;
      std::vector<SpecBenchResult> rows;
      for (size_t s = 0; s < strategies_.size(); ++s) {
        names.push_back(strategies_[s].name);
        rows.push_back(results_[s][i]);
      }
      text += table_2(names, rows) + "\n";
    }
  } else {
    const std::vector<SpecBenchResult>& results = results_[0];
    text = table_1(results) + "\n";
    for (const SpecBenchResult& result : results) {
      text += table_3(result) + "\n" + table_5(result) + "\n";
    }
    text += faster_than_first(results);
  }
  text += definitions();
  text += format("%zu questions, %d turns, up to %d tokens each", questions_.size(), turns_,
                 flags_.n_predict);
  text += cut_turns_ == 0
              ? ", all prompts whole\n"
              : format(
                    "; %d prompts were longer than the %zu tokens that the context of %d leaves "
                    "them: %lld tokens were cut out of their middle\n",
                    cut_turns_, spec_bench_room(model_.n_ctx(), flags_.n_predict), model_.n_ctx(),
                    static_cast<long long>(cut_tokens_));
  for (size_t s = 0; s < results_.size(); ++s) {
    for (const SpecBenchResult& result : results_[s]) {
      for (const std::string& where : result.differing) {
        text += format("DIFFERENT: %s%s, %s: not the text of plain decoding\n",
                       strategies_[s].prefix.c_str(), result.name.c_str(), where.c_str());
      }
    }
  }
  const size_t differing = n_differing();
  if (n_rejecting_ > 0) {
    text += format("%zu texts are others of the same probabilities: accepted by rejection\n",
                   n_rejecting_);
  }
  text += differing == 0 ? format("every %stext is identical to plain decoding's\n",
                                  n_rejecting_ > 0 ? "other " : "")
                         : format("%zu texts DIFFER from plain decoding's\n", differing);
  write_stdout(text);
}

Json SpecBench::json() const {
  Json strategies = Json::array(), drafters = Json::object();
  for (size_t i = 1; i < sides_.size(); ++i) {
    drafters[sides_[i].drafter.name] = sides_[i].speculation->description();
  }
  for (size_t s = 0; s < strategies_.size(); ++s) {
    const SamplingParams& p = strategies_[s].sampling;
    Json results = Json::array();
    for (const SpecBenchResult& result : results_[s]) results.push_back(result_json(result));
    strategies.push_back({{"name", strategies_[s].name},
                          {"temperature", shortest_decimal(p.temperature)},
                          {"top_k", p.top_k},
                          {"top_p", shortest_decimal(p.top_p)},
                          {"min_p", shortest_decimal(p.min_p)},
                          {"seed", p.seed},
                          {"results", std::move(results)}});
  }
  Json json = {{"specbound", SPECBOUND_VERSION},
               {"model", model_.path()},
               {"backend", model_.backend().description()},
               {"n_ctx", model_.n_ctx()},
               {"n_predict", flags_.n_predict},
               {"questions", questions_.size()},
               {"turns", turns_},
               {"cut_prompts", cut_turns_},
               {"cut_tokens", cut_tokens_},
               {"drafters", std::move(drafters)},
               {"strategies", std::move(strategies)},
               {"identical", n_differing() + n_rejecting_ == 0},
               {"texts_by_rejection", n_rejecting_}};
  if (flags_.sweep) json["sweep"] = sweep_json(points_, results_[0]);
  return json;
}

void SpecBench::write_figures() const {
  if (!flags_.sweep) return;
  for (const auto& [name, svg] : sweep_figures(points_, results_[0])) {
    write_file((std::filesystem::path(flags_.out) / name).string(), svg);
  }
}

}  // namespace

int command_spec_bench(int argc, char** argv) {
  SpecBenchFlags flags;
  CLI::App app(
      "Spec-Bench (Xia et al. 2024): its questions answered plainly and speculatively, turn about, "
      "and what comes of it as the SpecBound paper's tables. The exit status is 1 where a text is "
      "not plain decoding's.");
  add_spec_bench_flags(app, flags);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  flags.check();
  if (!flags.json.empty()) check_writable(flags.json);
  std::vector<SpecBenchQuestion> questions =
      parse_questions(read_bytes(flags.questions), flags.questions);
  if (flags.limit > 0) questions = spread_questions(questions, static_cast<size_t>(flags.limit));

  catch_interrupts();
  LoadedModel model(flags.model);
  SpecBench bench(flags, model, std::move(questions));
  bench.run();
  bench.report();
  bench.write_figures();
  if (!flags.json.empty()) {
    write_file(flags.json, bench.json().dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return bench.n_differing() == 0 ? 0 : 1;
}

}  // namespace specbound
