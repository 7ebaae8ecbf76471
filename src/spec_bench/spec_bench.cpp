#include "spec_bench/spec_bench.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "error.h"
#include "system/number_text.h"
#include "terminal/flag_names.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

// Not yet attached. Throws what Speculation does.
SpecBenchSide make_side(const SpecBenchDrafter& drafter, const LoadedModel& model) {
  SpecBenchSide side{drafter, nullptr};
  if (!drafter.options) return side;
  side.speculation = std::make_unique<Speculation>(*drafter.options, model);
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
                   with_flags(terminal_text(e.what())).c_str());
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

// What a script needs to move a drafter's settings.
Json parameters_json(const Speculation& speculation) {
  const SpecBoundParams params = speculation.params();
  return {{"tau", shortest_decimal(params.tau)},
          {"alpha", shortest_decimal(params.alpha)},
          {"d_max", params.d_max},
          {"w_max", params.w_max},
          {"head_layers", speculation.head_layers()}};
}

constexpr const char* kDefinitions =
    "SD: mean over questions of tokens a second of wall time, prefill and decoding, over the same\n"
    "mean of plain decoding (Spec-Bench's speed.py). CR: tokens a round, plain decoding has 1. An\n"
    "end token counts. Right: of the rounds, those whose first drafts were all right. Drafted:\n"
    "tokens a round. Drafting: of the time of decoding, layers counted that exits run and\n"
    "verification takes over. What drafters learn from texts they keep from question to "
    "question.\n";

}  // namespace

SpecBench::SpecBench(const SpecBenchOptions& options, LoadedModel& model,
                     std::vector<SpecBenchQuestion> questions)
    : options_(options),
      model_(model),
      questions_(std::move(questions)),
      strategies_(spec_bench_strategies(options)) {
  (void)model_.chat_template();  // what is wrong with it is known before the weights are there
  sides_ = make_sides(spec_bench_drafters(options), model);
  if (sides_.size() < 2) {
    throw Error(ErrorCode::kUsage,
                "--compare: expected a drafter beside plain decoding, found none");
  }
  load(model_, sides_);
}

std::vector<SpecBenchSource> SpecBench::sources() {
  const std::string id = std::filesystem::path(model_.path()).stem().string();
  for (const SpecBenchSide& side : sides_) {
    if (!side.speculation) continue;
    side.speculation->attach(model_.backend());
    std::fprintf(stderr, "%s: %s\n", side.drafter.name.c_str(),
                 with_flags(terminal_text(side.speculation->description())).c_str());
  }
  std::vector<SpecBenchSource> sources;
  for (const SpecBenchStrategy& strategy : strategies_) {
    for (const SpecBenchSide& side : sides_) {
      const std::string name = strategy.prefix + side.drafter.name;
      sources.push_back({name, id + "-" + name,
                         spec_bench_settings(model_, side, strategy.sampling, options_.replies)});
    }
  }
  return sources;
}

void SpecBench::run() {
  SpecBenchAnswers answers(options_.out, sources(), options_.fresh);
  SpecBenchRun run(model_, sides_, options_.replies);
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
      // Other rules keep the distribution at most, not the text.
      if (sides_[i].drafter.options->acceptance != Acceptance::kCoupled &&
          strategies_[s].sampling.temperature > 0) {
        n_by_other_rules_ += results.back().differing.size();
        results.back().differing.clear();
      }
    }
    results_.push_back(std::move(results));
    for (const SpecBenchQuestion& question : questions_) {
      for (const SpecBenchTurn& turn : answers.find(plain, question.id)->turns) {
        if (s == 0) ++turns_;
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

std::string SpecBench::report() const {
  std::vector<std::string> names;
  std::vector<SpecBenchResult> rows;
  for (size_t i = 0; i + 1 < sides_.size(); ++i) {
    for (size_t s = 0; s < strategies_.size(); ++s) {
      rows.push_back(results_[s][i]);
      names.push_back(rows.back().name);
      if (strategies_.size() > 1) names.back() += ", " + strategies_[s].name;
    }
  }
  std::string text = scores_table(names, rows) + "\n" + drafts_table(names, rows) + kDefinitions;
  text += format("%zu questions, %d turns, up to %d tokens each", questions_.size(), turns_,
                 options_.replies.n_predict);
  text += cut_turns_ == 0
              ? ", all prompts whole\n"
              : format(
                    "; %d prompts were longer than the %zu tokens that the context of %d leaves "
                    "them: %lld tokens were cut out of their middle\n",
                    cut_turns_, spec_bench_room(model_.n_ctx(), options_.replies.n_predict),
                    model_.n_ctx(), static_cast<long long>(cut_tokens_));
  for (size_t s = 0; s < results_.size(); ++s) {
    for (const SpecBenchResult& result : results_[s]) {
      for (const std::string& where : result.differing) {
        text += format("DIFFERENT: %s%s, %s: not the text of plain decoding\n",
                       strategies_[s].prefix.c_str(), result.name.c_str(), where.c_str());
      }
    }
  }
  if (n_by_other_rules_ > 0) {
    text +=
        format("%zu texts are others: --accept took drafts by another rule\n", n_by_other_rules_);
  }
  const size_t differing = n_differing();
  text += differing == 0 ? format("every %stext is identical to plain decoding's\n",
                                  n_by_other_rules_ > 0 ? "other " : "")
                         : format("%zu texts DIFFER from plain decoding's\n", differing);
  return text;
}

Json SpecBench::json() const {
  Json strategies = Json::array(), drafters = Json::object(), parameters = Json::object();
  for (size_t i = 1; i < sides_.size(); ++i) {
    const std::string& name = sides_[i].drafter.name;
    drafters[name] = with_flags(sides_[i].speculation->description());
    parameters[name] = parameters_json(*sides_[i].speculation);
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
  return {{"specbound", SPECBOUND_VERSION},
          {"model", model_.path()},
          {"backend", model_.backend().description()},
          {"n_ctx", model_.n_ctx()},
          {"n_predict", options_.replies.n_predict},
          {"repeats", options_.replies.repeats},
          {"questions", questions_.size()},
          {"turns", turns_},
          {"cut_prompts", cut_turns_},
          {"cut_tokens", cut_tokens_},
          {"drafters", std::move(drafters)},
          {"parameters", std::move(parameters)},
          {"strategies", std::move(strategies)},
          {"identical", n_differing() + n_by_other_rules_ == 0},
          {"texts_by_other_rules", n_by_other_rules_}};
}

}  // namespace specbound
