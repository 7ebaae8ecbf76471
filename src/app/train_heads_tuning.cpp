#include "app/train_heads_tuning.h"

#include <algorithm>
#include <vector>

#include "app/interrupt.h"
#include "app/progress.h"
#include "app/tuning_texts.h"
#include "decode/generate.h"
#include "train/self_generate.h"
#include "train/tune.h"
#include "train/tuning_trace.h"

namespace specbound {

namespace {

void stop_if_interrupted() {
  if (interrupt_flag()) throw Interrupted("interrupted while settings were tuned");
}

// A greedy reply as it is; the prompt of another one as `session` goes on from it. nullopt where
// the context leaves no room for rounds.
std::optional<TuningText> tuning_text(const TrainingText& text, bool greedy, Session& session,
                                      const std::function<bool(int32_t)>& is_end) {
  const auto learnt = std::find(text.learn.begin(), text.learn.end(), 1);
  if (learnt == text.learn.end()) return std::nullopt;
  const int prompt_tokens = static_cast<int>(learnt - text.learn.begin()) + 1;
  const int budget = SelfGenerateOptions{}.max_reply;
  if (!greedy) {
    return write_text(session, std::span(text.tokens).first(static_cast<size_t>(prompt_tokens)),
                      budget, is_end, &interrupt_flag());
  }
  const int n_ctx = session.backend().n_ctx();
  if (std::ssize(text.tokens) + kMaxRows > n_ctx) return std::nullopt;
  TuningText reply;
  reply.tokens = text.tokens;
  reply.prompt_tokens = prompt_tokens;
  reply.budget = std::min(budget, n_ctx - prompt_tokens - kMaxRows);
  reply.sampling.temperature = 0;
  return reply;
}

std::vector<TuningText> tuning_texts(LoadedModel& model, const SelfWritten& written,
                                     const std::function<bool(int32_t)>& is_end) {
  SamplingParams params;
  params.temperature = written.temperature;
  params.seed = written.seed;
  model.backend().truncate(0);
  Session session(model.backend(), Sampler(params));
  Progress bar("texts for tuning", Progress::Unit::kItems);
  std::vector<TuningText> texts;
  int64_t tokens = 0;
  for (size_t i = written.texts.size(); i > written.first && tokens < kShippedTuningTokens; --i) {
    const bool greedy = (i - 1) % 2 == 0 || written.temperature == 0;
    auto text = tuning_text(written.texts[i - 1], greedy, session, is_end);
    stop_if_interrupted();
    if (!text || std::ssize(text->tokens) <= text->prompt_tokens) continue;
    tokens += std::ssize(text->tokens) - text->prompt_tokens;
    texts.push_back(std::move(*text));
    bar.update(static_cast<size_t>(tokens), static_cast<size_t>(kShippedTuningTokens));
  }
  model.backend().truncate(0);
  return texts;
}

// The heads do not outlive the tuning.
class SetHeads {
 public:
  SetHeads(Backend& backend, const ExitHeads& heads) : backend_(backend) {
    backend.set_exit_heads(&heads, static_cast<int>(heads.shortlist().size()));
  }
  ~SetHeads() { backend_.set_exit_heads(nullptr, 0); }
  SetHeads(const SetHeads&) = delete;
  SetHeads& operator=(const SetHeads&) = delete;

 private:
  Backend& backend_;
};

}  // namespace

std::optional<ShippedSettings> tune_shipped(LoadedModel& model, const ExitHeads& heads,
                                            const SelfWritten& written) {
  const auto is_end = [&model](int32_t id) { return model.ends_reply(id); };
  const std::vector<TuningText> texts = tuning_texts(model, written, is_end);
  if (texts.empty()) return std::nullopt;
  const SetHeads set(model.backend(), heads);
  const CostModel costs = measure_costs_shown(model, &heads, texts);
  std::optional<TuningTrace> trace;
  {
    Progress bar("heads look at replies", Progress::Unit::kItems);
    TracePlan plan;
    plan.is_end = is_end;
    plan.progress = [&](int done, int total) {
      bar.update(static_cast<size_t>(done), static_cast<size_t>(total));
      return !interrupt_flag();
    };
    bool complete = true;
    trace = record_trace(model.backend(), heads, texts, plan, complete);
    stop_if_interrupted();
  }
  TuneOptions options;
  options.progress = [](int64_t) { return !interrupt_flag(); };
  const TuneOutcome outcome = tune(*trace, costs, options);
  stop_if_interrupted();
  return ShippedSettings{outcome.winner.settings.heads, outcome.winner.result.speedup(),
                         trace->n_rows()};
}

}  // namespace specbound
