// Answers to Spec-Bench's questions in its own format, a JSON object a line, one file for each
// configuration, so that its speed.py and equal.py can read them:
//   {"question_id", "category", "answer_id", "model_id", "choices": [{"index": 0, "turns": [text],
//    "decoding_steps": [n], "new_tokens": [n], "wall_time": [s], "accept_lengths": [tokens of each
//    step, all turns]}], "tstamp"}
// Ours besides, at the choice: "prompt_tokens", "cut_tokens", "drafted_tokens", "prefill_time",
// "ttft", "draft_time" and "token_hash" of each turn; at the line: "question_hash" and "settings",
// by which a later run knows what it need not do again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "descriptor.h"
#include "spec_bench/spec_bench_questions.h"

namespace specbound {

// One turn, decoded once.
struct SpecBenchTurn {
  std::string text;              // of the reply
  uint64_t token_hash = 0;       // of the reply's tokens
  int prompt_tokens = 0;         // that were read
  int cut_tokens = 0;            // of the prompt's middle, that did not fit
  int drafted_tokens = 0;        // of all rounds
  std::vector<int> step_tokens;  // [step]: tokens it gave, the end token counted, none behind it
  double wall_seconds = 0;       // prefill and decoding
  double prefill_seconds = 0, ttft_seconds = 0;
  double draft_seconds = 0;  // of all rounds, until their rows were verified

  int steps() const { return static_cast<int>(step_tokens.size()); }
  int new_tokens() const;
  // The same end too: its token is counted, though it is no part of the text.
  bool same_text(const SpecBenchTurn& other) const {
    return text == other.text && token_hash == other.token_hash &&
           new_tokens() == other.new_tokens();
  }
};

struct SpecBenchAnswer {
  int64_t question_id = 0;
  std::string category;
  uint64_t question_hash = 0;
  double tstamp = 0;  // seconds since 1970, of the question: what was measured turn about has one
  std::vector<SpecBenchTurn> turns;

  double wall_seconds() const;
  int new_tokens() const;
};

uint64_t question_hash(const SpecBenchQuestion& question);
uint64_t token_hash(std::span<const int32_t> tokens);

// What a file of answers belongs to.
struct SpecBenchSource {
  std::string name;  // of the configuration, and of its file: NAME.jsonl
  std::string model_id;
  std::string settings;  // all that the answers depend on, readable
};

// A line with its line end. Bytes of texts that are no UTF-8 are replaced.
std::string answer_line(const SpecBenchAnswer& answer, const SpecBenchSource& source);
// Throws Error(kFormat) that begins with `place` for what answer_line() would not have written,
// Error(kUsage) for answers under other settings.
SpecBenchAnswer parse_answer(std::string_view line, const SpecBenchSource& source,
                             const std::string& place);

// The answer files of a run. Each answer is on disk as soon as it is there.
class SpecBenchAnswers {
 public:
  // `folder` is made where it is missing; empty: nothing is kept. What lies there is taken over
  // (`fresh`: deleted); bytes behind the last whole line, of an interrupted run, are cut off.
  // Throws Error(kFile), also while another one writes there, and what parse_answer() does.
  SpecBenchAnswers(std::string folder, std::vector<SpecBenchSource> sources, bool fresh);

  // All `members` (indices of sources) have answered it, turn about. Throws Error(kFormat) if what
  // they answered was another question of that id.
  bool done(const SpecBenchQuestion& question, std::span<const size_t> members) const;
  // Throws Error(kFile).
  void add(size_t source, SpecBenchAnswer answer);
  // nullptr: none.
  const SpecBenchAnswer* find(size_t source, int64_t question_id) const;
  bool kept() const { return !folder_.empty(); }
  // Writes every file anew, by question. Throws Error(kFile).
  void sort();

 private:
  std::string path(size_t source) const;
  void read(size_t source, const std::string& text);

  std::string folder_;
  Descriptor lock_;  // on the folder
  std::vector<SpecBenchSource> sources_;
  std::vector<std::map<int64_t, SpecBenchAnswer>> answers_;  // [source]
};

}  // namespace specbound
