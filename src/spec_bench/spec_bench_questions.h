// The questions of Spec-Bench (Xia et al. 2024), as its question.jsonl has them, a JSON object a
// line:
//   {"question_id": 81, "category": "writing", "turns": ["...", "..."], "reference": [...]}
// Other members are left alone. The 13 categories are 6 tasks: MT-bench's eight are one of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {

// In the order of the SpecBound paper's Table 1.
inline constexpr std::array<const char*, 6> kSpecBenchTasks = {
    "math", "multi-turn", "qa", "rag", "summarization", "translation"};
inline constexpr int kSpecBenchTaskCount = static_cast<int>(kSpecBenchTasks.size());

// Index into kSpecBenchTasks; -1: no category of Spec-Bench.
int spec_bench_task(std::string_view category);

struct SpecBenchQuestion {
  int64_t id = 0;
  std::string category;
  std::vector<std::string> turns;  // what the user says, one or more

  int task() const { return spec_bench_task(category); }
};

// In the order of `text`, which is `name`'s; blank lines are none. Throws Error(kFormat) that names
// the line of what is no question or repeats an id, Error(kLimit) for too long a line or too many.
std::vector<SpecBenchQuestion> parse_questions(std::string_view text, const std::string& name);

// At most `n` of them, in their order: each task that there is gets the same share as far as it
// has questions, and within a task they lie evenly apart, so that two of MT-bench are of two
// categories.
std::vector<SpecBenchQuestion> spread_questions(const std::vector<SpecBenchQuestion>& questions,
                                                size_t n);

// `ids` without its middle, so that at most `room` are left, of both ends as many (of an odd number
// the front has one more); how many went. room >= 1.
size_t cut_middle(std::vector<int32_t>& ids, size_t room);

}  // namespace specbound
