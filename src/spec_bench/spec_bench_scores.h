// What Spec-Bench's answers come to, from plain answers and a drafter's to the same questions:
//
//   CR   tokens a round, over all rounds (Spec-Bench: mean accepted tokens), the token that
//        verification gives for free counted: plain decoding has 1
//   SD   of speed.py: the mean over questions of tokens a second of wall time (prefill and
//        decoding), over the same mean of plain decoding
//   token-exact  the same of the sums: all tokens over all seconds, so that long answers weigh more
//   decode  token-exact without prefill, which no drafter touches
//
//   right   of the rounds the share whose first 1, 2, ... drafts were right: acceptance by position
//   drafted   drafts a round, right or wrong
//   drafting   of the seconds of decoding those before rows are verified; the layers that exits run
//           are among them, whose states verification takes over
//
// The SpecBound paper's tables and figures are drawn from result_json() by scripts of tests/bench.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "spec_bench/spec_bench_answers.h"
#include "trace/statistics.h"

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

// What is drafted, over all rounds of all answers.
struct SpecBenchDrafts {
  static constexpr int kPlaces = 6;
  std::array<double, kPlaces> right{};  // [k]: of the rounds, whose first k + 1 drafts were right
  double drafted = 0;                   // a round
  double drafting = 0;                  // of the seconds of decoding
};
SpecBenchDrafts spec_bench_drafts(std::span<const SpecBenchAnswer* const> answers);

// How a drafter did.
struct SpecBenchResult {
  std::string name;
  std::array<SpecBenchScore, kSpecBenchTaskCount> tasks;
  SpecBenchScore overall;
  SpecBenchServing plain, drafted;
  SpecBenchDrafts drafts;
  std::vector<double> speedups;  // of each question, plain over drafted seconds a token, ascending
  std::vector<std::string> differing;  // "question 81, turn 1": texts that are not plain decoding's
};
SpecBenchResult spec_bench_result(const std::string& name, std::span<const SpecBenchPair> pairs);

// A line each for a Markdown table: SD by task, then CR, SD and its interval, SD of decoding alone
// and the share of questions that are slower than plain decoding, over all questions.
std::string scores_table(std::span<const std::string> names,
                         std::span<const SpecBenchResult> results);

// A line each: right by position in percent, drafts a round, drafting in percent.
std::string drafts_table(std::span<const std::string> names,
                         std::span<const SpecBenchResult> results);

nlohmann::ordered_json result_json(const SpecBenchResult& result);

}  // namespace specbound
