#include "runtime/trace_output.h"

#include "drafters/tree_speculator.h"

namespace specbound {

const SpecBound* as_specbound(const Speculator* speculator) {
  if (const auto* tree = dynamic_cast<const TreeSpeculator*>(speculator)) {
    speculator = tree->guesser();
  }
  return dynamic_cast<const SpecBound*>(speculator);
}

void begin_trace(Recorder& trace, LoadedModel& model) {
  if (trace.has_header()) return;
  const Tokenizer& tokenizer = model.tokenizer();
  trace.header({.specbound = SPECBOUND_VERSION,
                .model = model.path(),
                .n_layers = model.config().n_layers,
                .vocab_size = model.config().vocab_size,
                .n_ctx = model.n_ctx(),
                .backend = model.backend().description()},
               [&tokenizer](int32_t id) { return tokenizer.piece(id); });
}

TraceReply trace_reply(const SamplingParams& sampling, const Speculator* speculator) {
  TraceReply reply;
  reply.seed = sampling.seed;
  reply.temperature = sampling.temperature;
  reply.top_k = sampling.top_k;
  reply.top_p = sampling.top_p;
  reply.min_p = sampling.min_p;
  reply.repeat_penalty = sampling.repeat_penalty;
  reply.repeat_last_n = sampling.repeat_last_n;
  if (speculator) reply.speculator = speculator->name();
  if (const SpecBound* specbound = as_specbound(speculator)) {
    const SpecBoundParams& p = specbound->params();
    reply.settings =
        TraceSettings{p.w_max,  p.d_max,       p.alpha,       p.tau,    specbound->check_layers(),
                      p.anneal, p.depth_bound, p.width_bound, p.learned};
  }
  return reply;
}

TraceEnd trace_end(const GenerateStats& stats) {
  return {.stop = stop_reason_name(stats.stop),
          .generated_tokens = stats.generated_tokens,
          .prefilled_tokens = stats.prefilled_tokens,
          .prefill_seconds = stats.prefill_seconds,
          .decode_seconds = stats.decode_seconds,
          .ttft_seconds = stats.ttft_seconds,
          .counters = stats.counters,
          .plain_token_seconds = stats.plain_token_seconds,
          .plain_rounds = stats.plain_rounds};
}

}  // namespace specbound
