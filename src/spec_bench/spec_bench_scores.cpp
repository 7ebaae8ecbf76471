#include "spec_bench/spec_bench_scores.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "error.h"
#include "tools/bench_output.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

// Tokens a second of wall time.
double rate(const SpecBenchAnswer& answer) {
  return ratio(answer.new_tokens(), answer.wall_seconds());
}

double decode_seconds(const SpecBenchAnswer& answer) {
  double sum = 0;
  for (const SpecBenchTurn& turn : answer.turns) sum += turn.wall_seconds - turn.prefill_seconds;
  return sum;
}

// Of one configuration over some questions.
struct Sums {
  double tokens = 0, steps = 0, wall = 0;

  void add(const SpecBenchAnswer& answer) {
    for (const SpecBenchTurn& turn : answer.turns) {
      tokens += turn.new_tokens();
      steps += turn.steps();
      wall += turn.wall_seconds;
    }
  }
};

// Questions that drafting makes slower.
double share_below_1(std::span<const double> sorted) {
  const auto slower = std::lower_bound(sorted.begin(), sorted.end(), 1.0) - sorted.begin();
  return ratio(static_cast<double>(slower), static_cast<double>(sorted.size()));
}

Json score_json(const SpecBenchScore& s) {
  return {{"questions", s.questions},
          {"compression_rate", s.compression_rate},
          {"speedup", s.speedup.ratio},
          {"speedup_interval_95", {s.speedup.low, s.speedup.high}},
          {"token_exact_speedup", s.token_exact},
          {"decode_speedup", s.decode.ratio},
          {"decode_speedup_interval_95", {s.decode.low, s.decode.high}}};
}

Json serving_json(const SpecBenchServing& s) {
  return {{"ttft_seconds", s.ttft},
          {"tpot_seconds", s.tpot},
          {"tokens_per_second", s.throughput},
          {"end_to_end_seconds", s.end_to_end}};
}

}  // namespace

SpecBenchScore spec_bench_score(std::span<const SpecBenchPair> pairs) {
  SpecBenchScore score;
  Sums plain, drafted;
  std::vector<double> plain_rates, drafted_rates;
  std::vector<double> plain_decode, drafted_decode;  // seconds of the drafted side's tokens
  for (const auto& [p, d] : pairs) {
    plain.add(*p);
    drafted.add(*d);
    plain_rates.push_back(rate(*p));
    drafted_rates.push_back(rate(*d));
    plain_decode.push_back(decode_seconds(*p) * ratio(d->new_tokens(), p->new_tokens()));
    drafted_decode.push_back(decode_seconds(*d));
  }
  score.questions = static_cast<int>(pairs.size());
  if (pairs.empty()) return score;
  score.compression_rate = ratio(drafted.tokens, drafted.steps);
  score.speedup = ratio_of_sums(drafted_rates, plain_rates);
  score.token_exact = ratio(ratio(drafted.tokens, drafted.wall), ratio(plain.tokens, plain.wall));
  score.decode = ratio_of_sums(plain_decode, drafted_decode);
  return score;
}

SpecBenchServing spec_bench_serving(std::span<const SpecBenchAnswer* const> answers) {
  SpecBenchServing serving;
  int turns = 0, longer = 0;
  for (const SpecBenchAnswer* answer : answers) {
    serving.throughput += rate(*answer);
    for (const SpecBenchTurn& turn : answer->turns) {
      ++turns;
      serving.ttft += turn.ttft_seconds;
      serving.end_to_end += turn.wall_seconds;
      if (turn.new_tokens() < 2) continue;
      ++longer;
      serving.tpot += (turn.wall_seconds - turn.ttft_seconds) / (turn.new_tokens() - 1);
    }
  }
  serving.throughput = ratio(serving.throughput, static_cast<double>(answers.size()));
  serving.ttft = ratio(serving.ttft, turns);
  serving.end_to_end = ratio(serving.end_to_end, turns);
  serving.tpot = ratio(serving.tpot, longer);
  return serving;
}

SpecBenchDrafts spec_bench_drafts(std::span<const SpecBenchAnswer* const> answers) {
  SpecBenchDrafts drafts;
  double rounds = 0, drafting = 0, decoding = 0;
  for (const SpecBenchAnswer* answer : answers) {
    decoding += decode_seconds(*answer);
    for (const SpecBenchTurn& turn : answer->turns) {
      rounds += turn.steps();
      drafting += turn.draft_seconds;
      drafts.drafted += turn.drafted_tokens;
      for (const int tokens : turn.step_tokens) {
        for (int k = 0; k < std::min(tokens - 1, SpecBenchDrafts::kPlaces); ++k) {
          drafts.right[static_cast<size_t>(k)] += 1;
        }
      }
    }
  }
  for (double& right : drafts.right) right = ratio(right, rounds);
  drafts.drafted = ratio(drafts.drafted, rounds);
  drafts.drafting = ratio(drafting, decoding);
  return drafts;
}

SpecBenchResult spec_bench_result(const std::string& name, std::span<const SpecBenchPair> pairs) {
  SpecBenchResult result;
  result.name = name;
  std::array<std::vector<SpecBenchPair>, kSpecBenchTaskCount> by_task;
  std::vector<const SpecBenchAnswer*> plain, drafted;
  for (const SpecBenchPair& pair : pairs) {
    const auto& [p, d] = pair;
    by_task[static_cast<size_t>(spec_bench_task(p->category))].push_back(pair);
    plain.push_back(p);
    drafted.push_back(d);
    result.speedups.push_back(ratio(rate(*d), rate(*p)));
    for (size_t turn = 0; turn < std::min(p->turns.size(), d->turns.size()); ++turn) {
      if (p->turns[turn].same_text(d->turns[turn])) continue;
      result.differing.push_back(
          format("question %lld, turn %zu", static_cast<long long>(p->question_id), turn + 1));
    }
  }
  for (size_t task = 0; task < by_task.size(); ++task) {
    result.tasks[task] = spec_bench_score(by_task[task]);
  }
  result.overall = spec_bench_score(pairs);
  result.plain = spec_bench_serving(plain);
  result.drafted = spec_bench_serving(drafted);
  result.drafts = spec_bench_drafts(drafted);
  std::sort(result.speedups.begin(), result.speedups.end());
  return result;
}

std::string scores_table(std::span<const std::string> names,
                         std::span<const SpecBenchResult> results) {
  SB_CHECK(names.size() == results.size());
  std::vector<TableColumn> columns = {{"SD", false}};
  for (const char* task : kSpecBenchTasks) columns.push_back({task});
  for (const char* title : {"all: CR", "SD", "95 %", "decoding", "slower"}) {
    columns.push_back({title});
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<std::string> row = {names[i]};
    for (const SpecBenchScore& s : results[i].tasks) {
      row.push_back(s.questions > 0 ? format("%.2fx", s.speedup.ratio) : "");
    }
    const SpecBenchScore& all = results[i].overall;
    row.insert(row.end(), {format("%.2f", all.compression_rate), format("%.2fx", all.speedup.ratio),
                           format("%.3f - %.3f", all.speedup.low, all.speedup.high),
                           format("%.2fx", all.decode.ratio),
                           format("%.1f %%", 100 * share_below_1(results[i].speedups))});
    rows.push_back(std::move(row));
  }
  return markdown_table(columns, rows);
}

std::string drafts_table(std::span<const std::string> names,
                         std::span<const SpecBenchResult> results) {
  SB_CHECK(names.size() == results.size());
  std::vector<TableColumn> columns = {{"right", false}};
  for (int k = 1; k <= SpecBenchDrafts::kPlaces; ++k) columns.push_back({format("first %d", k)});
  columns.push_back({"drafted"});
  columns.push_back({"drafting"});
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<std::string> row = {names[i]};
    const SpecBenchDrafts& drafts = results[i].drafts;
    for (const double right : drafts.right) row.push_back(format("%.1f %%", 100 * right));
    row.push_back(format("%.2f", drafts.drafted));
    row.push_back(format("%.1f %%", 100 * drafts.drafting));
    rows.push_back(std::move(row));
  }
  return markdown_table(columns, rows);
}

Json result_json(const SpecBenchResult& result) {
  Json tasks = Json::object();
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    if (result.tasks[task].questions > 0) {
      tasks[kSpecBenchTasks[task]] = score_json(result.tasks[task]);
    }
  }
  return {{"name", result.name},
          {"tasks", std::move(tasks)},
          {"overall", score_json(result.overall)},
          {"plain", serving_json(result.plain)},
          {"drafted", serving_json(result.drafted)},
          {"right", result.drafts.right},
          {"drafts_a_round", result.drafts.drafted},
          {"drafting", result.drafts.drafting},
          {"share_below_1", share_below_1(result.speedups)},
          {"speedups", result.speedups},
          {"differing", result.differing}};
}

}  // namespace specbound
