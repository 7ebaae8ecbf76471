#include "app/spec_bench_tables.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "error.h"

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

std::string cell(double value, int questions) {
  return questions > 0 ? format("%5.2f", value) : "    -";
}

// Ranges over the widest name of the first column.
size_t widest(std::span<const SpecBenchResult> results) {
  size_t width = 8;
  for (const SpecBenchResult& r : results) width = std::max(width, r.name.size());
  return width;
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
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
  std::sort(result.speedups.begin(), result.speedups.end());
  return result;
}

double quantile(std::span<const double> sorted, double q) {
  SB_CHECK(q >= 0 && q <= 1);
  if (sorted.empty()) return 0;
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::vector<SpeedupBucket> speedup_buckets(std::span<const double> sorted) {
  constexpr int kBuckets = 5;
  if (sorted.empty()) return {};
  const double low = sorted.front(), width = (sorted.back() - low) / kBuckets;
  std::vector<SpeedupBucket> buckets;
  for (int i = 0; i < kBuckets; ++i) {
    buckets.push_back(
        {low + i * width, i + 1 < kBuckets ? low + (i + 1) * width : sorted.back(), 0});
  }
  for (const double speedup : sorted) {
    int i = 0;
    while (i + 1 < kBuckets && speedup >= buckets[static_cast<size_t>(i)].high) ++i;
    ++buckets[static_cast<size_t>(i)].questions;
  }
  return buckets;
}

std::string table_1(std::span<const SpecBenchResult> results) {
  const size_t width = widest(results);
  std::string heads = padded("", width), kinds = heads;
  for (const char* task : kSpecBenchTasks) {
    heads += format("  %13s", task);
    kinds += "     CR     SD";
    kinds += " ";
  }
  std::string out = "Table 1: tokens a round (CR) and speed over plain decoding (SD)\n" + heads +
                    "        overall\n" + kinds +
                    "     CR     SD   95 % interval  token-exact  decode   95 % interval\n";
  for (const SpecBenchResult& r : results) {
    out += padded(r.name, width);
    for (const SpecBenchScore& s : r.tasks) {
      out += "  " + cell(s.compression_rate, s.questions) + "  " +
             cell(s.speedup.ratio, s.questions) + "x";
    }
    const SpecBenchScore& all = r.overall;
    out += format("  %5.2f  %5.2fx  [%.3f, %.3f]       %5.2fx  %5.2fx  [%.3f, %.3f]\n",
                  all.compression_rate, all.speedup.ratio, all.speedup.low, all.speedup.high,
                  all.token_exact, all.decode.ratio, all.decode.low, all.decode.high);
  }
  return out;
}

std::string definitions() {
  return "CR: tokens over rounds, the token that verification gives counted; plain decoding has "
         "1.\n"
         "SD: as Spec-Bench's speed.py: mean over questions of tokens a second of wall time "
         "(prefill "
         "and decoding), over the same mean of plain decoding.\n"
         "token-exact: all tokens over all seconds instead. decode: that without prefill.\n"
         "Tokens are counted alike on both sides: up to the end token, which counts.\n"
         "TTFT: from the prompt to its first token, prefill counted; TPOT: of each further token. "
         "They and end-to-end are means over turns, throughput over questions.\n"
         "What drafters learn from texts they keep from question to question.\n";
}

std::string table_2(std::span<const std::string> strategies,
                    std::span<const SpecBenchResult> results) {
  SB_CHECK(strategies.size() == results.size());
  size_t width = 8;
  for (const std::string& s : strategies) width = std::max(width, s.size());
  std::string out = "Table 2: SD of " + (results.empty() ? "" : results[0].name) +
                    " by how tokens are picked\n" + padded("", width);
  for (const char* task : kSpecBenchTasks) out += format("  %13s", task);
  out += "  overall  95 % interval\n";
  for (size_t i = 0; i < results.size(); ++i) {
    out += padded(strategies[i], width);
    for (const SpecBenchScore& s : results[i].tasks) {
      out += "        " + cell(s.speedup.ratio, s.questions) + "x ";
    }
    const SpecBenchScore& all = results[i].overall;
    out +=
        format("   %5.2fx  [%.3f, %.3f]\n", all.speedup.ratio, all.speedup.low, all.speedup.high);
  }
  return out;
}

std::string table_3(const SpecBenchResult& result) {
  const SpecBenchServing &p = result.plain, &d = result.drafted;
  const auto line = [](const char* name, double plain, double drafted, double gain) {
    return format("%-24s  %9.2f  %9.2f  %5.2fx\n", name, plain, drafted, gain);
  };
  return format("Table 3: what a user waits for\n%-24s  %9s  %9s\n", "", "plain",
                result.name.c_str()) +
         line("TTFT, ms", 1e3 * p.ttft, 1e3 * d.ttft, ratio(p.ttft, d.ttft)) +
         line("TPOT, ms", 1e3 * p.tpot, 1e3 * d.tpot, ratio(p.tpot, d.tpot)) +
         line("throughput, tokens/s", p.throughput, d.throughput,
              ratio(d.throughput, p.throughput)) +
         line("end-to-end, ms a turn", 1e3 * p.end_to_end, 1e3 * d.end_to_end,
              ratio(p.end_to_end, d.end_to_end));
}

std::string table_5(const SpecBenchResult& result) {
  const std::vector<double>& s = result.speedups;
  std::string out =
      format("Table 5: speedups of the %zu questions, %s\n", s.size(), result.name.c_str());
  if (s.empty()) return out;
  out += format("min %.2f  5 %% %.2f  25 %% %.2f  median %.2f  75 %% %.2f  95 %% %.2f  max %.2f\n",
                s.front(), quantile(s, 0.05), quantile(s, 0.25), quantile(s, 0.5),
                quantile(s, 0.75), quantile(s, 0.95), s.back());
  const auto slower = std::lower_bound(s.begin(), s.end(), 1.0) - s.begin();
  out += format("slower than plain decoding: %td (%.2f %%)\n", slower,
                100 * ratio(static_cast<double>(slower), static_cast<double>(s.size())));
  const std::vector<SpeedupBucket> buckets = speedup_buckets(s);
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) {
    out += format("%5.2fx - %5.2fx  %5d  %6.2f %%\n", b->low, b->high, b->questions,
                  100.0 * b->questions / static_cast<double>(s.size()));
  }
  return out;
}

std::string faster_than_first(std::span<const SpecBenchResult> results) {
  if (results.size() < 2) return "";
  const SpecBenchResult& first = results[0];
  std::string out;
  for (int task = 0; task <= kSpecBenchTaskCount; ++task) {
    const bool all = task == kSpecBenchTaskCount;
    const auto score = [&](const SpecBenchResult& r) {
      return all ? r.overall : r.tasks[static_cast<size_t>(task)];
    };
    std::string better;
    for (const SpecBenchResult& other : results.subspan(1)) {
      if (score(first).questions == 0 || score(other).speedup.ratio <= score(first).speedup.ratio)
        continue;
      better += format("%s %s %.2fx", better.empty() ? "" : ",", other.name.c_str(),
                       score(other).speedup.ratio);
    }
    if (better.empty()) continue;
    out +=
        format("faster than %s (%.2fx) on %s:%s\n", first.name.c_str(), score(first).speedup.ratio,
               all ? "all questions together" : kSpecBenchTasks[static_cast<size_t>(task)],
               better.c_str());
  }
  return out.empty() ? format("nothing is faster than %s on any task\n", first.name.c_str()) : out;
}

namespace {

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

Json result_json(const SpecBenchResult& result) {
  Json tasks = Json::object(), quantiles = Json::object(), buckets = Json::array();
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    if (result.tasks[task].questions > 0) {
      tasks[kSpecBenchTasks[task]] = score_json(result.tasks[task]);
    }
  }
  const std::vector<double>& s = result.speedups;
  for (const double q : {0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0}) {
    quantiles[format("%g", q)] = quantile(s, q);
  }
  for (const SpeedupBucket& b : speedup_buckets(s)) {
    buckets.push_back({{"low", b.low}, {"high", b.high}, {"questions", b.questions}});
  }
  const auto slower = std::lower_bound(s.begin(), s.end(), 1.0) - s.begin();
  return {{"name", result.name},
          {"tasks", std::move(tasks)},
          {"overall", score_json(result.overall)},
          {"plain", serving_json(result.plain)},
          {"drafted", serving_json(result.drafted)},
          {"speedup_quantiles", std::move(quantiles)},
          {"speedup_buckets", std::move(buckets)},
          {"share_below_1", ratio(static_cast<double>(slower), static_cast<double>(s.size()))},
          {"speedups", s},
          {"differing", result.differing}};
}

}  // namespace specbound
