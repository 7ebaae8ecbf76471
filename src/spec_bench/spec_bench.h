// Spec-Bench's questions, answered plainly and by each drafter: who answers, what is kept, what
// comes of it. Tables and figures of the SpecBound paper are drawn from json() by scripts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/loaded_model.h"
#include "spec_bench/spec_bench_plan.h"
#include "spec_bench/spec_bench_questions.h"
#include "spec_bench/spec_bench_run.h"
#include "spec_bench/spec_bench_scores.h"

namespace specbound {

class SpecBench {
 public:
  // Loads the model. `options` and `model` must outlive it. Says on stderr which drafters are left
  // out. Throws Error for those that are needed and cannot be had.
  SpecBench(const SpecBenchOptions& options, LoadedModel& model,
            std::vector<SpecBenchQuestion> questions);

  // Throws Interrupted on Ctrl-C, and what SpecBenchAnswers does.
  void run();
  std::string report() const;
  nlohmann::ordered_json json() const;
  size_t n_differing() const;  // texts

 private:
  std::vector<SpecBenchSource> sources();
  void evaluate(const SpecBenchAnswers& answers);

  const SpecBenchOptions& options_;
  LoadedModel& model_;
  std::vector<SpecBenchQuestion> questions_;
  std::vector<SpecBenchStrategy> strategies_;
  std::vector<SpecBenchSide> sides_;
  std::vector<std::vector<SpecBenchResult>> results_;  // [strategy][side - 1]
  int turns_ = 0, cut_turns_ = 0;
  int64_t cut_tokens_ = 0;
  size_t n_by_other_rules_ = 0;  // texts that are others because of --accept
};

}  // namespace specbound
