// Asks a model Spec-Bench's questions: every turn plainly and by each drafter, turn about, one turn
// after the other of a conversation in the model's own chat template. As Spec-Bench does it: one
// prompt at a time, each turn's prompt read anew, the time of prefill and decoding taken, that of
// tokens and text not. A conversation goes on with plain decoding's reply, which is every drafter's
// but of those that accept by another rule: these read it all the same, so that prompts are alike.
// On a machine that others disturb each turn may be repeated: noise only adds, and the fastest of
// some replies is what the code takes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/loaded_model.h"
#include "runtime/speculation.h"
#include "runtime/timed_reply.h"
#include "spec_bench/spec_bench_answers.h"
#include "spec_bench/spec_bench_plan.h"
#include "tools/heads_in_turn.h"

namespace specbound {

// A drafter of the plan, ready; without a speculation plain decoding.
struct SpecBenchSide {
  SpecBenchDrafter drafter;
  std::unique_ptr<Speculation> speculation;
};

// All that an answer's tokens and times depend on, readable.
std::string spec_bench_settings(LoadedModel& model, const SpecBenchSide& side,
                                const SamplingParams& sampling, SpecBenchReplies replies);

// Tokens of a prompt at most: what the reply may need stays free, up to half of the context.
size_t spec_bench_room(int n_ctx, int n_predict);

// Who answers at `place` of a turn: of every second turn backwards, each time beginning with the
// next one, so that no side always follows the same one. Of two sides: AB, BA, ...
size_t side_in_turn(size_t turn, size_t place, size_t n_sides);

class SpecBenchRun {
 public:
  // All must outlive it; the model must be loaded and the sides attached, plain decoding the first.
  SpecBenchRun(LoadedModel& model, const std::vector<SpecBenchSide>& sides,
               SpecBenchReplies replies);

  // Once each side, for a few tokens: not counted.
  void warm_up(const SpecBenchStrategy& strategy, const SpecBenchQuestion& question);
  // Asks each question that not all sides have answered. Side i answers into source `first` + i.
  // What is there when a Ctrl-C comes stays. Throws Interrupted then, Error(kFile) for answers that
  // cannot be kept.
  void ask(const SpecBenchStrategy& strategy, const std::vector<SpecBenchQuestion>& questions,
           SpecBenchAnswers& answers, size_t first);

 private:
  SpecBenchTurn answer(const SpecBenchSide& side, const std::vector<int32_t>& prompt,
                       int max_tokens);
  std::vector<SpecBenchAnswer> ask(const SpecBenchQuestion& question);

  LoadedModel& model_;
  const std::vector<SpecBenchSide>& sides_;
  SpecBenchReplies replies_;
  Session session_;
  HeadsInTurn heads_;
  size_t turns_ = 0;                // so far
  std::function<void()> answered_;  // after each reply
};

}  // namespace specbound
