// What Spec-Bench's answers come to: the tables of the SpecBound paper, from plain answers and a
// drafter's to the same questions.
//
//   CR   tokens a round, over all rounds (Spec-Bench: mean accepted tokens), the token that
//        verification gives for free counted: plain decoding has 1
//   SD   of speed.py: the mean over questions of tokens a second of wall time (prefill and
//        decoding), over the same mean of plain decoding
//   token-exact  the same of the sums: all tokens over all seconds, so that long answers weigh more
//   decode  token-exact without prefill, which no drafter touches
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "app/bench_statistics.h"
#include "app/spec_bench_answers.h"

namespace specbound {

// Two answers to one question, measured turn about.
struct SpecBenchPair {
  const SpecBenchAnswer* plain;
  const SpecBenchAnswer* drafted;
};

// Of some questions; all zero without any.
struct SpecBenchScore {
  int questions = 0;
  double compression_rate = 0;
  RatioInterval speedup;  // SD; its interval draws questions
  double token_exact = 0;
  RatioInterval decode;
};
SpecBenchScore spec_bench_score(std::span<const SpecBenchPair> pairs);

// Means, as a server's user meets them (paper Table 3). Seconds; of turns, but for throughput.
struct SpecBenchServing {
  double ttft = 0;        // to the first token
  double tpot = 0;        // of each further token, of turns that have one
  double throughput = 0;  // tokens a second of wall time, mean over questions: what SD compares
  double end_to_end = 0;  // of a turn
};
SpecBenchServing spec_bench_serving(std::span<const SpecBenchAnswer* const> answers);

// How a drafter did.
struct SpecBenchResult {
  std::string name;
  std::array<SpecBenchScore, kSpecBenchTaskCount> tasks;
  SpecBenchScore overall;
  SpecBenchServing plain, drafted;
  std::vector<double> speedups;  // of each question, plain over drafted seconds a token, ascending
  std::vector<std::string> differing;  // "question 81, turn 1": texts that are not plain decoding's
};
SpecBenchResult spec_bench_result(const std::string& name, std::span<const SpecBenchPair> pairs);

// The value below which the share `q` of `sorted` lies, between two of them by their distance.
double quantile(std::span<const double> sorted, double q);

// A stretch of speedups, the last one with its upper end.
struct SpeedupBucket {
  double low, high;
  int questions;
};
// Five of one width from the least to the most, as the paper's Table 5.
std::vector<SpeedupBucket> speedup_buckets(std::span<const double> sorted);

// Each with a title, ending with a line end.
std::string table_1(std::span<const SpecBenchResult> results);
std::string definitions();
// Rows are ways to pick tokens; `results` one drafter's under each of them.
std::string table_2(std::span<const std::string> strategies,
                    std::span<const SpecBenchResult> results);
std::string table_3(const SpecBenchResult& result);
std::string table_5(const SpecBenchResult& result);

// A line for each task, and all together, where another one of `results` has a higher SD than
// results[0]; or one that there is none. Empty with fewer than two.
std::string faster_than_first(std::span<const SpecBenchResult> results);

nlohmann::ordered_json result_json(const SpecBenchResult& result);

}  // namespace specbound
