#include "spec_bench/spec_bench_run.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "error.h"
#include "library/load_watcher.h"
#include "numerics/int8_formula.h"
#include "runtime/conversation.h"
#include "system/machine.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace specbound {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Whether a turn said again takes the place of `kept`: where it was faster, or is not plain
// decoding's, which the report is to say.
bool counts(const SpecBenchTurn& again, const SpecBenchTurn& kept, const SpecBenchTurn& plain) {
  if (!again.same_text(kept)) return kept.same_text(plain);
  return again.wall_seconds < kept.wall_seconds;
}

}  // namespace

std::string spec_bench_settings(LoadedModel& model, const SpecBenchSide& side,
                                const SamplingParams& sampling, SpecBenchReplies replies) {
  std::string text = format(
      "specbound %s, INT8 formula %d; model %s; %s; CPU %s; context %d; chat template %s; up to "
      "%d tokens; ",
      SPECBOUND_VERSION, kInt8Formula, model_fingerprint(model.gguf()).c_str(),
      model.backend().description().c_str(), cpu_model().c_str(), model.n_ctx(),
      model.chat_template().name(), replies.n_predict);
  if (replies.repeats > 1) text += format("the fastest of %d; ", replies.repeats);
  if (sampling.temperature == 0) {
    text += "greedy";
  } else {
    text += format("temperature %g, top-k %d, top-p %g, min-p %g, seed %llu", sampling.temperature,
                   sampling.top_k, sampling.top_p, sampling.min_p,
                   static_cast<unsigned long long>(sampling.seed));
  }
  if (sampling.presence_penalty != 0 || sampling.frequency_penalty != 0) {
    text += format(", presence penalty %g, frequency penalty %g", sampling.presence_penalty,
                   sampling.frequency_penalty);
  }
  if (sampling.repeat_penalty != 1) {
    text += format(", repeat penalty %g over %d", sampling.repeat_penalty, sampling.repeat_last_n);
  }
  if (!side.speculation) return text + "; plain";
  text += "; " + with_flags(side.speculation->description());
  if (side.speculation->heads()) text += " " + side.speculation->heads()->fingerprint();
  if (const Gguf* draft = side.speculation->draft_gguf()) text += " " + model_fingerprint(*draft);
  if (!side.speculation->controls()) text += "; fixed";
  const SpeculationOptions& options = *side.drafter.options;
  if (options.remember.value_or(false)) text += "; remembers";
  if (options.specbound.preset != Preset::kTuned) text += "; not tuned";
  if (!options.draft_model.empty() && options.specbound.tau) {
    text += format("; tau %g", *options.specbound.tau);
  }
  return text;
}

size_t spec_bench_room(int n_ctx, int n_predict) {
  return static_cast<size_t>(n_ctx - std::min(n_predict, n_ctx / 2));
}

size_t side_in_turn(size_t turn, size_t place, size_t n_sides) {
  SB_CHECK(place < n_sides);
  return (turn + (turn % 2 == 0 ? place : n_sides - place)) % n_sides;
}

SpecBenchRun::SpecBenchRun(LoadedModel& model, const std::vector<SpecBenchSide>& sides,
                           SpecBenchReplies replies)
    : model_(model),
      sides_(sides),
      replies_(replies),
      session_(model.backend(), Sampler({})),
      heads_(model.backend()) {}

SpecBenchTurn SpecBenchRun::answer(const SpecBenchSide& side, const std::vector<int32_t>& prompt,
                                   int max_tokens) {
  Speculation* speculation = side.speculation.get();
  heads_.give(speculation);
  session_.set_speculator(speculation ? speculation->speculator() : nullptr);
  TimedRequest request;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.ends = [this](int32_t id) { return model_.ends_reply(id); };
  request.abort = &interrupt_flag();
  TimedReply reply = timed_reply(session_, request);
  if (reply.aborted()) throw Interrupted("interrupted");
  SpecBenchTurn turn;
  std::string text;
  for (const int32_t id : reply.tokens) text += model_.tokenizer().piece(id);
  turn.text = model_.chat_template().reply_text(text);
  turn.token_hash = token_hash(reply.tokens);
  turn.prompt_tokens = static_cast<int>(prompt.size());
  turn.step_tokens = std::move(reply.round_tokens);
  turn.wall_seconds = reply.total_seconds;
  turn.prefill_seconds = reply.prefill_seconds;
  turn.ttft_seconds = reply.ttft_seconds;
  turn.drafted_tokens = reply.stats.counters.drafted_tokens;
  turn.draft_seconds = seconds_of(reply.stats.counters.ns, {Phase::kDraft, Phase::kCheck});
  return turn;
}

std::vector<SpecBenchAnswer> SpecBenchRun::ask(const SpecBenchQuestion& question) {
  SpecBenchAnswer blank;
  blank.question_id = question.id;
  blank.category = question.category;
  blank.question_hash = question_hash(question);
  blank.tstamp = now();
  std::vector<SpecBenchAnswer> answers(sides_.size(), blank);
  Conversation conversation(model_.tokenizer(), model_.chat_template(), "");
  for (const std::string& said : question.turns) {
    conversation.add_user(said);
    // All of it, however long: what does not fit is cut out of the middle, not turn by turn.
    std::vector<int32_t> prompt = conversation.prompt(std::numeric_limits<int>::max(), 0).ids;
    const size_t cut = cut_middle(prompt, spec_bench_room(model_.n_ctx(), replies_.n_predict));
    for (int repeat = 0; repeat < replies_.repeats; ++repeat, ++turns_) {
      for (size_t k = 0; k < sides_.size(); ++k) {
        const size_t i = side_in_turn(turns_, k, sides_.size());
        SpecBenchTurn turn = answer(sides_[i], prompt, replies_.n_predict);
        turn.cut_tokens = static_cast<int>(cut);
        if (repeat == 0) {
          answers[i].turns.push_back(std::move(turn));
        } else if (counts(turn, answers[i].turns.back(), answers[0].turns.back())) {
          answers[i].turns.back() = std::move(turn);
        }
        if (answered_) answered_();
      }
    }
    conversation.add_reply(answers[0].turns.back().text);
  }
  return answers;
}

void SpecBenchRun::warm_up(const SpecBenchStrategy& strategy, const SpecBenchQuestion& question) {
  constexpr int kTokens = 32;
  SpecBenchQuestion first = question;
  first.turns = {"Hello."};  // of none that counts anything is remembered
  const SpecBenchReplies asked_for =
      std::exchange(replies_, {std::min(replies_.n_predict, kTokens)});
  answered_ = nullptr;
  session_.set_sampling(strategy.sampling);
  ask(first);
  replies_ = asked_for;
}

void SpecBenchRun::ask(const SpecBenchStrategy& strategy,
                       const std::vector<SpecBenchQuestion>& questions, SpecBenchAnswers& answers,
                       size_t first) {
  std::vector<size_t> members;
  for (size_t i = 0; i < sides_.size(); ++i) members.push_back(first + i);
  std::vector<const SpecBenchQuestion*> pending;
  size_t replies = 0, done = 0;
  for (const SpecBenchQuestion& question : questions) {
    if (answers.done(question, members)) continue;
    pending.push_back(&question);
    replies += question.turns.size() * sides_.size() * static_cast<size_t>(replies_.repeats);
  }
  session_.set_sampling(strategy.sampling);
  Progress bar(strategy.prefix.empty() ? "spec-bench" : strategy.name, Progress::Unit::kWork);
  size_t asked = questions.size() - pending.size();
  answered_ = [&] {
    bar.update(++done, replies, format("question %zu of %zu", asked + 1, questions.size()));
  };
  try {
    for (const SpecBenchQuestion* question : pending) {
      std::vector<SpecBenchAnswer> given = ask(*question);
      for (size_t i = 0; i < given.size(); ++i) answers.add(first + i, std::move(given[i]));
      ++asked;
    }
  } catch (const Interrupted&) {
    throw Interrupted(format("interrupted: %zu of %zu questions are answered%s", asked,
                             questions.size(),
                             answers.kept() ? ", the same command goes on from there" : ""));
  }
}

}  // namespace specbound
